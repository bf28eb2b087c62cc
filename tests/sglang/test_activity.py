"""What decode lines, retractions and compilations of a trial's own time come to."""

from __future__ import annotations

import pytest

from sweep.sglang.activity import Activity, activity


def decode(accept: float | None = None, running: int = 4, queue: int = 0, rank: str = "") -> str:
    told = f"accept len: {accept:.2f}, accept rate: 0.50, " if accept else ""
    return (
        f"[2026-03-30 14:21:44{rank}] Decode batch, #running-req: {running}, #token: 100, "
        f"token usage: 0.10, {told}cuda graph: True, gen throughput (token/s): 200.00, "
        f"#queue-req: {queue}\n"
    )


def seen(*lines: str) -> Activity:
    return activity("".join(lines).encode())


@pytest.mark.parametrize(
    ("lines", "length"),
    [
        ([], None),
        # The first line began before the trial.
        ([decode(9.0)], None),
        ([decode(9.0), decode(2.0), decode(3.0)], 2.5),
        # A line stands for as many verify steps as requests ran.
        ([decode(9.0), decode(2.0, running=1), decode(3.0, running=3)], 2.75),
        ([decode(9.0, rank=" DP0"), decode(9.0, rank=" DP1"), decode(2.0, rank=" DP0"),
          decode(4.0, rank=" DP1")], 3.0),
        ([decode(), decode(), decode()], None),
        ([decode(9.0), decode(2.0), decode()], 2.0),
    ],
)  # fmt: skip
def test_acceptance(lines, length):
    assert seen(*lines).accept_length == (None if length is None else pytest.approx(length))


def test_queues():
    assert seen(*[decode(queue=n) for n in (0, 3, 5, 0)]).most_waiting == 5
    assert seen(*[decode(queue=n) for n in (0, 3, 5, 0)]).always_waiting
    assert not seen(*[decode(queue=n) for n in (0, 3, 0, 0)]).always_waiting
    assert not seen(*[decode(queue=1, running=30)] * 8).always_waiting
    assert seen(decode(queue=5)).most_waiting is None


def test_retractions_of_every_wording():
    found = seen(
        "[2026-03-30 14:21:44] KV cache pool is full. Retract requests. #retracted_reqs: 2, "
        "#aborted_reqs: 0, #new_token_ratio: 0.3414 -> 0.4562\n",
        "[2026-03-30 14:21:45 TP0] decode out of memory happened, #retracted_reqs: 1, "
        "#new_token_ratio: 0.9 -> 1.0\n",
    )
    assert found.retracted == 3


@pytest.mark.parametrize(
    "line",
    [
        "Entering DeepGEMM JIT Pre-Compile session. It may take a long time.",
        "Capture target verify CUDA graph begin. backend=full, bs=[1, 2], avail mem=9.10 GB",
        "Capture cuda graph begin. This can take up to several minutes. avail mem=9.10 GB",
    ],
)
def test_compilation(line):
    assert seen(decode(), f"[2026-03-30 14:21:44 TP0] {line}\n", decode()).compiled == line
    assert seen(decode()).compiled is None
