"""Each flag: a table of evidence, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweep.bench.gpus import GpuNotes
from sweep.bench.verdicts import RULES, Evidence, verdicts
from sweep.rows import FLAGS
from sweep.sglang.activity import Activity
from sweep.sglang.journal import Decode
from sweep.verdicts import FLAG_MEANINGS
from tests.bench_client.test_metrics import failed, request

MS = 1000
CLIENT = {"cpu": 0.1, "lag_ms_p99": 0.5}
# 40 answers of 20 tokens each, 10 ms apart, four at a time; as it should be.
QUIET = tuple(
    {**request(place // 4 * 200, [10] * 20, verify=5), "index": place} for place in range(40)
)


def line(queue: int | None = 0, **more: object) -> Decode:
    known: dict[str, object] = dict.fromkeys(
        ("tokens", "token_usage", "mamba_usage", "accept_len", "accept_rate", "gen_throughput")
    )
    known |= {"time": "2026-01-01 00:00:00", "rank": "", "running": 4, "queue": queue}
    return Decode(**(known | more))


def queue(*waiting: int | None) -> Activity:
    return Activity(decode=tuple(line(number) for number in waiting))


def seen(**known: object) -> dict[str, str]:
    given = {"concurrency": 4, "requests": QUIET, "client": CLIENT, "steps": 0}
    return verdicts(Evidence(**(given | known)))


def changed(number: int, **more: object) -> tuple[dict, ...]:
    """The quiet trial with so many of its answers changed."""
    return tuple({**one, **(more if place < number else {})} for place, one in enumerate(QUIET))


def test_a_quiet_trial_has_no_flag():
    assert seen(admitted=48, kv_tokens=10**6, activity=queue(0, 0, 1, 0, 0)) == {}
    assert verdicts(Evidence(1)) == {}


def test_every_flag_has_one_sentence_and_every_rule_a_flag():
    assert tuple(FLAG_MEANINGS) == FLAGS
    assert FLAG_MEANINGS.keys() >= RULES
    assert all(text.strip(". ") == text for text in FLAG_MEANINGS.values())
    page = (Path(__file__).parents[2] / "docs" / "results.md").read_text()
    for flag, text in FLAG_MEANINGS.items():
        assert f"| `{flag}` | {text} |" in page


def _fewer_tokens() -> tuple[dict, ...]:
    return changed(3, tokens_out=7, n=[7], t=[200 * MS], finish="stop")


def chain(*gaps: list[int], **more: object) -> tuple[dict, ...]:
    """One request after the other, each with these times between its arrivals."""
    made: list[dict] = []
    for place, one in enumerate(gaps):
        sent = made[-1]["end"] // MS if made else 0
        made.append({**request(sent, one, **more), "index": place})
    return tuple(made)


STALLED = chain([10] * 30 + [2000] + [10] * 300, [10] * 330, [10] * 330)
# Long prompts: the first token of the second request comes late, nothing else happens meanwhile.
PREFILL = chain([10] * 100, *[[800, *[10] * 15]] * 3, *[[10] * 16] * 20)
SLOWING = chain(*([10 + place] * 60 for place in range(12)), verify=20)


@pytest.mark.parametrize(
    ("flag", "known", "said"),
    [
        ("capped", {"admitted": 3}, "4 requests at a time, the server admits 3"),
        (
            "capped",
            {"admitted": 3, "activity": queue(1, 1, 1, 0)},
            "4 requests at a time, the server admits 3; its queue held up to 1",
        ),
        ("capped", {"kv_tokens": 99}, "4 requests need 100 tokens of KV memory, there are 99"),
        (
            "capped",
            {"kv_tokens": 99, "activity": queue(2, 0, 2, 0)},
            "4 requests need 100 tokens of KV memory, there are 99; its queue held up to 2",
        ),
        (
            "capped",
            {"admitted": 9, "activity": queue(5, 0, 3, None, 7)},
            "requests waited in the server's queue for most of the trial, up to 7",
        ),
        ("client_limited", {"client": {"cpu": 0.93}}, "the client used 93% of its core"),
        (
            "client_limited",
            {"client": {"cpu": 0.93, "processes": 4}},
            "the busiest of the client's 4 processes used 93% of its core",
        ),
        (
            "client_limited",
            {"client": {"cpu": 0.1, "lag_ms_p99": 31.2}},
            "the client read its sockets 31 ms late (p99)",
        ),
        (
            "client_limited",
            {"requests": tuple({**one, "end": one["end"] - 20 * MS} for one in QUIET)},
            "10.0% of the 4 places were empty while there was more to send",
        ),
        (
            "client_limited",
            {"requests": tuple({**one, "due": one["sent"] - 40 * MS} for one in QUIET)},
            "40 of 40 requests were sent late, by up to 40 ms: with 4 at a time",
        ),
        (
            "short_output",
            {"requests": _fewer_tokens()},
            "3 of 40 answers were not as long as asked for (from 7 to 7 tokens, asked: 20); "
            "3 ended for another reason than length (stop)",
        ),
        (
            "short_output",
            {"requests": (*QUIET, failed(2000, 2010, "no tokens"))},
            "1 answers with HTTP 200 had no tokens",
        ),
        (
            "short_output",
            {"requests": changed(2, n=[1] * 10, t=[20 * MS] * 10)},
            "usage of 2 answers says 40 tokens, 20 arrived",
        ),
        (
            "short_output",
            {"requests": changed(1, ignore_eos=False, asked=19)},
            "1 of 40 answers were not as long as asked for (from 20 to 20 tokens, asked: 19)",
        ),
        ("retracted", {"activity": Activity(retracted=5)}, "5 requests were thrown back into "),
        (
            "cold",
            {"activity": Activity(compiled="Entering DeepGEMM JIT Pre-Compile session.")},
            "the server made kernels or graphs: Entering DeepGEMM JIT",
        ),
        (
            "cold",
            {"requests": STALLED, "concurrency": 1},
            "no request got anything for 2.0 s early on, 200 times as long as usual",
        ),
        (
            "unstable",
            {"requests": SLOWING, "concurrency": 1},
            "decoding was -31% in the second half",
        ),
        (
            "throttled",
            {"gpus": GpuNotes(4, 10, 83, 900, 1500.0, 500.0, 600.0, 1, {
                "sw_power_cap": 1.0, "hw_thermal_slowdown": 0.3, "hw_slowdown": 0.31})},
            "hw_thermal_slowdown in 30% of samples, hw_slowdown in 31% of samples",
        ),
        ("no_acceptance_data", {"steps": 3}, "neither requests nor totals nor decode lines"),
    ],
)  # fmt: skip
def test_what_earns_a_flag(flag, known, said):
    found = seen(**known)
    assert list(found) == [flag]
    assert found[flag].startswith(said)


@pytest.mark.parametrize(
    "known",
    [
        {"admitted": 4, "kv_tokens": 100},
        # More than the KV pool holds by the sum, yet the server says that nobody waited.
        {"kv_tokens": 99, "activity": queue(0, 0, 0, 0)},
        # Two of three lines are no evidence of a queue.
        {"admitted": 9, "activity": queue(5, 5, 0)},
        {"admitted": 9, "activity": queue(*[1] * 9, *[0] * 10)},
        {"client": {"cpu": 0.89, "lag_ms_p99": 24.9}},
        {"client": {"cpu": 0.1, "lag_ms_p99": None}},
        # Ended by itself, as it may.
        {"requests": changed(40, ignore_eos=False, asked=99, finish="stop")},
        # It stands still again later on: whatever that is, it is not compiled twice.
        {"requests": chain(*[[10] * 30 + [2000] + [10] * 300] * 2), "concurrency": 1},
        {"requests": PREFILL, "concurrency": 1},
        {"requests": SLOWING[:3], "concurrency": 1},
        # Drafts are not counted: texts that are drafted worse would look the same.
        {"requests": tuple({**one, "verify": None} for one in SLOWING), "concurrency": 1,
         "steps": 3, "values": {"accept_length": 2.0}},
        {"gpus": GpuNotes(1, 5, 70, 900, 1500.0, 500.0, 600.0, 1, {"sw_power_cap": 1.0})},
        {"gpus": GpuNotes(1, 5, None, None, None, None, None, None, None)},
        {"steps": 3, "values": {"accept_length": 1.0}},
    ],
)  # fmt: skip
def test_what_does_not(known):
    found = seen(**known)
    assert found == {}


def test_better_drafted_texts_are_no_change_of_speed():
    """Half of the texts give twice the tokens with each step, and so twice the tokens a second."""
    plain, better = {"n": [1] * 20, "tokens_out": 20}, {"n": [2] * 20, "tokens_out": 40}
    both = tuple(
        {**one, **(plain if one["index"] < 10 else better), "ignore_eos": False, "asked": 99}
        for one in chain(*[[20] * 20] * 20, verify=20)
    )
    assert seen(requests=both, concurrency=1, steps=3, values={"accept_length": 1.5}) == {}
