"""SGLang's flags as units give them, and what of it an inventory gets."""

from __future__ import annotations

import pytest

from sweep.init.flags import Flags, hidden, read_flags, with_config_file
from sweep.init.words import Word, plain
from sweep.inventory import FlagValue
from sweep.sglang.args import flag_complaints
from sweep.sglang.rules import complaints

SPECULATION: dict[str, FlagValue] = {
    "speculative-algorithm": "NEXTN",
    "speculative-eagle-topk": 1,
}


def flags(text: str, version: str | None = None) -> Flags:
    return read_flags(hidden(plain(text.split())), version)


def others(found: Flags) -> dict[str, FlagValue]:
    """The flags besides the speculation that every sweep needs."""
    return {name: value for name, value in found.args.items() if name not in SPECULATION}


VALUES: list[tuple[str, dict[str, FlagValue]]] = [
    ("--model-path /m", {"model-path": "/m"}),
    ("--model /m", {"model-path": "/m"}),
    ("/models/q --tp 4", {"model-path": "/models/q", "tp-size": 4}),
    ("--tp 4", {"tp-size": 4}),
    ("-tp 4", {"tp-size": 4}),
    ("--tensor-parallel-size=4", {"tp-size": 4}),
    ("--mem-fraction-static 0.85", {"mem-fraction-static": 0.85}),
    ("--mem-fraction 0.9", {"mem-fraction-static": 0.9}),
    ("--trust-remote-code --tp 4", {"trust-remote-code": True, "tp-size": 4}),
    ("--served-model-name 007", {"served-model-name": "007"}),
    ("--served-model-name 7", {"served-model-name": "7"}),
    ("--chunked-prefill-size -1", {"chunked-prefill-size": -1}),
    ("--cuda-graph-bs-decode 1 2 4", {"cuda-graph-bs-decode": (1, 2, 4)}),
    ("--lora-paths a=/x b=/y", {"lora-paths": ("a=/x", "b=/y")}),
    ("--context-length 128k", {"context-length": "128k"}),
    ("--tp 2 --tp-size 8", {"tp-size": 8}),
    ("--a-flag-of-a-fork 1.5 x", {"a-flag-of-a-fork": (1.5, "x")}),
    ("--a-flag-of-a-fork 1.50", {"a-flag-of-a-fork": "1.50"}),
    ("--a-flag-of-a-fork", {"a-flag-of-a-fork": True}),
    ("--log-level info", {"log-level": "info"}),
]


@pytest.mark.parametrize(("text", "args"), VALUES)
def test_values(text: str, args: dict[str, FlagValue]) -> None:
    found = flags(text)
    assert others(found) == args
    assert not list(flag_complaints(args))


DROPPED = [
    ("--host 0.0.0.0", "--host 0.0.0.0 left out: the tool starts"),
    ("--port 30000", "--port 30000 left out: the tool has a port"),
    ("--log-level warning", "--log-level warning left out: at 'warning' hides the line"),
    ("--log-level ERROR", "--log-level ERROR left out: at 'ERROR' hides"),
    ("--ssl-keyfile /x --ssl-certfile /y", "--ssl-certfile /y left out: the tool asks"),
    ("--ssl-keyfile-password hunter2", "--ssl-keyfile-password left out"),
    ("--speculative-num 3", "--speculative-num 3 left out: is ambiguous"),
    ("--torchao-config int4wo", "--torchao-config int4wo left out: is a flag that SGLang takes no"),
    ("--tp four", "--tp-size four left out: takes a whole number"),
    ("--tp 4 stray words", "2 words between the flags belong to none"),
    ("--trust-remote-code true", "1 words between the flags belong to none"),
]


@pytest.mark.parametrize(("text", "note"), DROPPED)
def test_what_is_left_out_is_named(text: str, note: str) -> None:
    found = flags(text)
    assert [said for said in found.notes if said.startswith(note)]
    assert "hunter2" not in repr(found)
    assert not {"host", "port", "log-level"} & set(found.args)


RENAMED: list[tuple[str, str | None, dict[str, FlagValue], str]] = [
    ("--mamba-scheduler-strategy no_buffer", None, {"mamba-radix-cache-strategy": "no_buffer"},
     "old spelling"),
    ("--cuda-graph-max-bs 64", "0.5.23", {"cuda-graph-max-bs-decode": 64}, "old spelling"),
    ("--cuda-graph-bs 1 2", None, {"cuda-graph-bs-decode": (1, 2)}, "old spelling"),
    ("--disable-piecewise-cuda-graph", None, {"cuda-graph-backend-prefill": "disabled"},
     "old spelling"),
    ("--speculative-draft /d", None, {"speculative-draft-model-path": "/d"}, "is short for"),
    ("--chunked-prefill 8192", None, {"chunked-prefill-size": 8192}, "is short for"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "version", "args", "note"), RENAMED)
def test_old_spellings(
    text: str, version: str | None, args: dict[str, FlagValue], note: str
) -> None:
    found = flags(text, version)
    assert others(found) == args
    assert any(note in said for said in found.notes)


@pytest.mark.parametrize("version", ["0.5.9", "0.5.10.post1", "0.5.19"])
def test_an_old_sglang_keeps_its_own_spelling(version: str) -> None:
    found = flags("--mamba-scheduler-strategy extra_buffer --tp 4", version)
    assert found.old == ("--mamba-scheduler-strategy", "extra_buffer")
    assert others(found) == {"tp-size": 4}


SPECULATIONS: list[tuple[str, dict[str, FlagValue], int, str]] = [
    ("--tp 1", SPECULATION, 1, "speculative-algorithm: NEXTN is written"),
    ("--speculative-algo eagle3 --speculative-eagle-topk 1 --speculative-draft-model-path /d",
     {"speculative-algorithm": "EAGLE3", "speculative-eagle-topk": 1,
      "speculative-draft-model-path": "/d"}, 1, "is short for speculative-algorithm"),
    ("--speculative-algorithm EAGLE3 --speculative-eagle-topk 1",
     {"speculative-algorithm": "EAGLE3", "speculative-eagle-topk": 1}, 1,
     "to be corrected by hand: speculative-draft-model-path is missing"),
    ("--speculative-algorithm NEXTN", SPECULATION, 1, "speculative-eagle-topk: 1 is written"),
    ("--speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1",
     SPECULATION, 1, "--speculative-num-steps 3 left out: the sweep sets it"),
    ("--speculative-algorithm NEXTN --speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
     SPECULATION, 1, "--speculative-num-draft-tokens 4 left out: SGLang makes it steps + 1"),
    ("--speculative-algorithm EAGLE --speculative-eagle-topk 4 --speculative-num-draft-tokens 16",
     {"speculative-algorithm": "EAGLE", "speculative-eagle-topk": 4,
      "speculative-num-draft-tokens": 16}, 2, "steps begin at 2"),
    ("--speculative-algorithm EAGLE --speculative-eagle-topk 8 --speculative-num-draft-tokens 64",
     {"speculative-algorithm": "EAGLE", "speculative-eagle-topk": 8,
      "speculative-num-draft-tokens": 64}, 2, "steps begin at 2"),
    ("--speculative-algorithm EAGLE --speculative-eagle-topk 2 --speculative-num-draft-tokens 64",
     {"speculative-algorithm": "EAGLE", "speculative-eagle-topk": 1}, 1, "topk 2 became 1"),
    ("--speculative-algorithm NGRAM --speculative-num-draft-tokens 12", SPECULATION, 1,
     "--speculative-algorithm NGRAM left out: NGRAM does not draft in steps"),
    ("--speculative-algorithm NEXTN --speculative-eagle-topk 1 --speculative-adaptive", SPECULATION,
     1, "--speculative-adaptive left out"),
    ("--speculative-algorithm NEXTN --mamba-track-interval 4", SPECULATION, 1,
     "--mamba-track-interval 4 left out: is 4, less than the 11 draft tokens"),
    ("--speculative-algorithm EAGLE --speculative-eagle-topk 4 --speculative-num-draft-tokens 4 "
     "--attention-backend trtllm_mha", {"speculative-algorithm": "EAGLE",
     "speculative-eagle-topk": 4, "speculative-num-draft-tokens": 4}, 1, "to be corrected by hand"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "args", "first", "note"), SPECULATIONS)
def test_speculation(text: str, args: dict[str, FlagValue], first: int, note: str) -> None:
    found = flags(text)
    speculative = {name: v for name, v in found.args.items() if name.startswith("speculative-")}
    assert (speculative, found.first_step) == (args, first)
    assert any(note in said for said in found.notes)
    if "by hand" in note:
        return
    for steps in (first, 10):
        swept = {"model-path": "/m", **found.args, "speculative-num-steps": steps}
        assert not list(complaints(swept))


def test_where_production_listens() -> None:
    found = flags("--host 10.0.0.5 --port 31000")
    assert (found.host, found.port) == ("10.0.0.5", 31000)
    assert (flags("--tp 1").host, flags("--tp 1").port) == (None, None)


@pytest.mark.parametrize(
    "text", ["--api-key hunter2", "--api-key=hunter2", "--admin-api-key hunter2"]
)
def test_secrets_become_references(text: str) -> None:
    found = flags(text)
    name = text.removeprefix("--").partition("hunter2")[0].strip("= ")
    assert found.secrets == {name: f"SGLANG_{name.replace('-', '_').upper()}"}
    assert "hunter2" not in repr(found)


def test_a_secret_of_a_variable_keeps_its_name() -> None:
    words = (Word("--api-key"), Word("hunter2", secret="MY_KEY"))
    assert read_flags(hidden(words), None).secrets == {"api-key": "MY_KEY"}


def test_a_repeated_flag_is_named() -> None:
    assert any("--tp-size is given more than once" in said for said in flags("--tp 2 --tp 4").notes)


def test_a_value_nobody_knows() -> None:
    words = (Word("--tp"), Word("", known=False))
    found = read_flags(words, None)
    assert "tp-size" not in found.args
    assert any("--tp-size left out: its value comes from a command" in n for n in found.notes)


CONFIG = """
model_path: /m
tp-size: 2
trust-remote-code: true
enable-metrics: false
lora-paths: [a=/x, b=/y]
api-key: hunter2
"""


@pytest.mark.parametrize("given", ["--config /c.yaml --tp 4", "--config=/c.yaml --tp 4"])
def test_sglangs_own_config_file_is_written_out(given: str) -> None:
    words, notes = with_config_file(plain(given.split()), {"/c.yaml": CONFIG}.get)
    found = read_flags(hidden(words), None)
    assert others(found) == {
        "model-path": "/m",
        "trust-remote-code": True,
        "lora-paths": ("a=/x", "b=/y"),
        "tp-size": 4,
    }
    assert found.secrets == {"api-key": "SGLANG_API_KEY"}
    assert "/c.yaml" in notes[0]


@pytest.mark.parametrize("content", [None, "[not, a, mapping]", "{broken"])
def test_a_config_file_that_cannot_be_read_is_named(content: str | None) -> None:
    words, notes = with_config_file(plain(["--config", "/c.yaml"]), {"/c.yaml": content}.get)
    assert [word.text for word in words] == ["--config", "/c.yaml"]
    assert "could not be read" in notes[0]
