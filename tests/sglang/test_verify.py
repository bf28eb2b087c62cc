"""The server that answers against the one that was meant, and its capacity."""

from __future__ import annotations

from typing import Any

import pytest

from sweep.errors import LaunchError
from sweep.sglang.journal import Scrape, scrape
from sweep.sglang.verify import Capacity, capacity, mismatches
from tests.sglang.forms import ARGS, CAPACITY

EXPECTED: dict[str, object] = {
    "speculative_algorithm": "EAGLE",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
    "model_path": "/models/Aurora-30B",
    "tp_size": 2,
}
INFO: dict[str, Any] = {
    **EXPECTED,
    "dp_size": 1,
    "version": "0.5.23",
    "max_running_requests": 512,
    "max_total_num_tokens": 655360,
    "internal_states": [
        {
            "effective_max_running_requests_per_dp": 40,
            "memory_usage": {"token_capacity": 655360},
        }
    ],
}


def journal(
    *ranks: tuple[int | None, int, int], dp_size: int = 1, attention: bool = False
) -> Scrape:
    """(dp, requests, tokens) of each rank that printed its line."""
    args = ARGS.replace("'dp_size': 2", f"'dp_size': {dp_size}")
    args = args.replace("'enable_dp_attention': False", f"'enable_dp_attention': {attention}")
    lines = [
        CAPACITY.format(dp=dp, requests=requests, tokens=tokens).replace(" DPNone", "")
        for dp, requests, tokens in ranks
    ]
    return scrape("\n".join([args, *lines]).encode())


def states(*of_ranks: tuple[int, int]) -> list[dict[str, Any]]:
    return [
        {
            "effective_max_running_requests_per_dp": requests,
            "memory_usage": {"token_capacity": tokens},
        }
        for requests, tokens in of_ranks
    ]


@pytest.mark.parametrize(
    "info",
    [
        INFO,
        {**INFO, "speculative_algorithm": "NEXTN"},
        {**INFO, "speculative_algorithm": "FROZEN_KV_MTP"},
        {**INFO, "model_path": "/models/Aurora-30B/"},
    ],
)
def test_the_right_server(info: dict[str, Any]) -> None:
    assert mismatches(EXPECTED, info) == ()


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("speculative_num_steps", 5, "speculative_num_steps is 5, expected 3"),
        ("speculative_algorithm", None, "speculative_algorithm is None, expected 'EAGLE'"),
        ("speculative_algorithm", "EAGLE3", "speculative_algorithm is 'EAGLE3', expected 'EAGLE'"),
        ("speculative_num_draft_tokens", 8, "speculative_num_draft_tokens is 8, expected 4"),
        ("tp_size", 4, "tp_size is 4, expected 2"),
        ("tp_size", True, "tp_size is True, expected 2"),
        (
            "model_path",
            "/models/Aurora-31B",
            "model_path is '/models/Aurora-31B', expected '/models/Aurora-30B'",
        ),
    ],
)
def test_another_server(field: str, value: object, said: str) -> None:
    assert mismatches(EXPECTED, {**INFO, field: value}) == (said,)


def test_no_sglang_at_all() -> None:
    assert len(mismatches(EXPECTED, {"status": "ok"})) == len(EXPECTED)


def test_without_speculation_only_the_algorithm_counts() -> None:
    off = {**dict.fromkeys(EXPECTED), "model_path": "/m", "tp_size": 1}
    shown = {**INFO, "model_path": "/m", "tp_size": 1, "speculative_num_steps": 5}
    assert mismatches(off, {**shown, "speculative_algorithm": None}) == ()
    assert mismatches(off, shown) == ("speculative_algorithm is 'EAGLE', expected None",)


@pytest.mark.parametrize(
    ("wanted", "actual", "agrees"),
    [
        (0.85, 0.85, True),
        (0.85, 0.8, False),
        (1, 1.0, True),
        ([1, 2, 4], [1, 2, 4], True),
        ([1, 2], [1, 2, 4], False),
        (["a"], "a", False),
        ("auto", "fp8_e5m2", True),
        ("fp8_e5m2", "auto", False),
        (True, True, True),
        (True, False, False),
        ("8192", 8192, True),
        (None, None, True),
        (None, 3, False),
    ],
)
def test_swept_flags(wanted: object, actual: object, agrees: bool) -> None:
    found = mismatches({**EXPECTED, "some_flag": wanted}, {**INFO, "some_flag": actual})
    assert (found == ()) is agrees


def test_a_swept_flag_the_release_does_not_name_cannot_be_compared() -> None:
    assert mismatches({**EXPECTED, "some_flag": 3}, INFO) == ()


def test_dp_attention_divides_the_prefill_chunk_in_older_releases() -> None:
    wanted = {**EXPECTED, "chunked_prefill_size": 8192}
    info = {**INFO, "dp_size": 8, "chunked_prefill_size": 1024}
    assert mismatches(wanted, {**info, "enable_dp_attention": True}) == ()
    assert mismatches(wanted, {**info, "enable_dp_attention": False}) != ()


@pytest.mark.parametrize(
    ("wanted", "actual"),
    [
        ("org/Aurora-30B", "/root/.cache/modelscope/hub/models/org/Aurora-30B"),
        ("org/Aurora-30B", "/root/.cache/huggingface/hub/models--org--Aurora-30B/snapshots/abc"),
    ],
)
def test_a_model_by_name_may_be_served_from_its_cache(wanted: str, actual: str) -> None:
    expected = {**EXPECTED, "model_path": wanted}
    assert mismatches(expected, {**INFO, "model_path": actual}) == ()


@pytest.mark.parametrize(
    ("found", "info", "requests", "tokens", "complete"),
    [
        (journal((None, 40, 655360)), INFO, 40, 655360, True),
        (journal((None, 40, 655360)), None, 40, 655360, True),
        (journal((None, 40, 655360)), {"dp_size": 1}, 40, 655360, True),
        (journal(), INFO, 40, 655360, False),
        (journal(), {"dp_size": 1, "max_total_num_tokens": 9}, None, 9, False),
        (journal(), {}, None, None, False),
    ],
    ids=["both", "no server_info", "0.4.6", "no journal", "0.4.6 and no journal", "nothing"],
)
def test_capacity(
    found: Scrape, info: dict[str, Any] | None, requests: object, tokens: object, complete: bool
) -> None:
    flags = frozenset() if complete else frozenset({"journal_incomplete"})
    assert capacity(found, info) == Capacity(requests, tokens, 1, flags)  # type: ignore[arg-type]


def test_capacity_is_the_sum_over_dp_ranks_in_any_order() -> None:
    info = {"dp_size": 2, "max_total_num_tokens": 90, "internal_states": states((7, 80), (8, 90))}
    both = journal((0, 8, 90), (1, 7, 80), dp_size=2)
    assert capacity(both, info) == Capacity(15, 170, 2, frozenset())
    one = journal((0, 8, 90), dp_size=2)
    assert capacity(one, info) == Capacity(15, 170, 2, frozenset({"journal_incomplete"}))


def test_capacity_under_dp_attention_where_only_rank_0_speaks() -> None:
    info = {
        "dp_size": 4,
        "enable_dp_attention": True,
        "max_total_num_tokens": 90,
        "internal_states": states(*[(8, 90)] * 4),
    }
    found = journal((0, 8, 90), dp_size=4, attention=True)
    assert capacity(found, info) == Capacity(32, 360, 4, frozenset())
    del info["internal_states"]
    silent = journal(dp_size=4, attention=True)
    assert capacity(silent, info) == Capacity(None, 360, 4, frozenset({"journal_incomplete"}))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (journal((None, 48, 655360)), "max_running_requests: the journal says 48, the server"),
        (journal((None, 40, 655361)), "max_total_num_tokens: the journal says 655361, the server"),
    ],
)
def test_a_journal_of_another_launch_is_refused(found: Scrape, said: str) -> None:
    with pytest.raises(LaunchError, match=said) as raised:
        capacity(found, INFO)
    assert raised.value.failure == "wrong_configuration"
