"""Values of flags that take only some: slips are found, what may be newer is not refused."""

from __future__ import annotations

import pytest

from sweep.inventory_file import parse_setting
from sweep.sglang.args import flag_complaints
from sweep.sglang.choices import meant, unknown_values
from sweep.sglang.flags import flags

BACKENDS = ("triton", "flashinfer", "torch_native", "trtllm_mla", "dsa", "fa3", "fa4", "fp8_e4m3")


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("tritn", "triton"), ("tritton", "triton"), ("tirton", "triton"), ("trition", "triton"),
        ("Triton", "triton"), ("FA3", "fa3"), ("flash_infer", "flashinfer"),
        ("trtllm-mla", "trtllm_mla"), ("trtlm_mla", "trtllm_mla"), ("torchnative", "torch_native"),
        ("das", "dsa"),
    ],
)  # fmt: skip
def test_a_slip_of_the_finger_is_found(word: str, known: str) -> None:
    assert meant(word, BACKENDS) == known


@pytest.mark.parametrize(
    "word",
    [*BACKENDS, "fa5", "nsa", "trtllm_mha", "fp8_e5m2", "fp8_e4m3fnuz", "flex_attention", ""],
)
def test_what_another_release_may_take_is_no_slip(word: str) -> None:
    assert meant(word, BACKENDS) is None


def test_no_value_that_sglang_takes_is_a_slip_of_another() -> None:
    for flag in flags().values():
        for value in flag.choices:
            assert meant(value, [one for one in flag.choices if one != value]) is None, flag.name
            assert not list(flag_complaints({flag.name: value})), (flag.name, value)


def test_values_of_older_releases_are_taken() -> None:
    assert "cutlass_mla" in flags()["attention-backend"].choices
    assert not list(flag_complaints({"quantization": "marlin"}))
    assert not list(unknown_values({"quantization": "marlin", "log-requests-level": 3}))


def test_what_nobody_knows_is_told_and_not_refused() -> None:
    args = {"attention-backend": "mine", "tp-size": 4, "model-path": "x", "kv-canary": False}
    assert not list(flag_complaints({"attention-backend": "mine"}))
    assert list(unknown_values(args)) == [("attention-backend", "mine")]


def test_a_setting_of_the_command_line_is_held_against_the_same_values() -> None:
    name, value = parse_setting("attention-backend=tritn")
    (complaint,) = flag_complaints({name: value}, absent=True)
    assert "did you mean 'triton'?" in complaint.text
