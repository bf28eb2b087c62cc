"""Every column against the truth: a server's answers whose every moment is known.

Nothing is timed here, so that nothing depends on the machine: the bytes are those of the test
server, and each of its pieces has the time stamp that the kernel would have given it.
"""

from __future__ import annotations

import random
import struct
from itertools import accumulate, pairwise
from statistics import fmean

import numpy as np
import pytest

from sweep.bench.client.answer import record
from sweep.bench.client.exchange import Exchange
from sweep.bench.metrics import measure
from tests.bench_client.jobs import body, native_body
from tests.bench_client.server import Play, frame, head, native_stream, stream

BEGAN = 1_700_000_000.0
C, REQUESTS, TOKENS, STEPS = 4, 24, 97, 3
START = head("200 OK", "content-type: text/event-stream", "Transfer-Encoding: chunked")


class Truth:
    """One request: when it was sent, and when each of its chunks with text came."""

    def __init__(self, index: int, sent: float, drawn: random.Random, per_chunk: int) -> None:
        self.index = index
        self.sent = sent
        self.verify = drawn.randint(30, 60)
        sizes = [min(per_chunk, TOKENS - made) for made in range(0, TOKENS, per_chunk)]
        gaps = [drawn.uniform(0.05, 0.4)] + [drawn.uniform(0.01, 0.05) for _ in sizes[1:]]
        self.sizes = sizes
        self.chunks = [sent + passed for passed in accumulate(gaps)]
        self.end = self.chunks[-1]

    def exchange(self, native: bool, usage: str, per_chunk: int) -> Exchange:
        play = Play(tokens=TOKENS, per_chunk=per_chunk, usage=usage, verify=self.verify)
        made = native_body if native else body
        exchange = Exchange(self.index, made(tokens=TOKENS), b"")
        exchange.sent = self.sent
        pieces = [frame(piece) for piece in (native_stream if native else stream)(play)]
        role = [] if native else [pieces.pop(0)]
        texts, rest = pieces[: len(self.chunks)], pieces[len(self.chunks) :]
        texts[0] = b"".join([START, *role, texts[0]])
        texts[-1] += b"".join(rest) + b"0\r\n\r\n"
        for at, data in zip(self.chunks, texts, strict=True):
            exchange.arrivals.note(at + 0.004, stamped(at), data)
        return exchange


def stamped(at: float) -> bytes:
    return struct.pack("@ll", int(at), round((at - int(at)) * 1e9))


def trial(per_chunk: int) -> list[Truth]:
    """A closed loop of C places."""
    drawn = random.Random(per_chunk)
    free = [BEGAN + place / 1e4 for place in range(C)]
    truths = []
    for index in range(REQUESTS):
        free.sort()
        truths.append(Truth(index, free[0], drawn, per_chunk))
        free[0] = truths[-1].end + 0.0003
    return truths


def expected(truths: list[Truth]) -> dict[str, float]:
    """The columns, each by its definition in docs/results.md."""
    wall = max(one.end for one in truths) - BEGAN
    tokens = TOKENS * len(truths)
    decoding = [(one.end - one.chunks[0]) / (TOKENS - 1) for one in truths]
    chunk_gaps = [after - before for one in truths for before, after in pairwise(one.chunks)]
    token_gaps = [
        (after - before) / size
        for one in truths
        for (before, after), size in zip(pairwise(one.chunks), one.sizes[1:], strict=True)
        for _ in range(size)
    ]
    verify = sum(one.verify for one in truths)
    columns = {
        "requests": REQUESTS, "requests_ok": REQUESTS, "output_tokens": tokens, "wall_s": wall,
        "agg_tok_s": tokens / wall,
        "per_req_tok_s": fmean(TOKENS / (one.end - one.sent) for one in truths),
        "decode_tok_s": fmean(1 / gap for gap in decoding),
        "concurrency_achieved": sum(one.end - one.sent for one in truths) / wall,
        "accept_length": tokens / verify,
        "accept_rate": (tokens - REQUESTS - verify) / (verify * STEPS),
    }  # fmt: skip
    columns |= spread("ttft_ms", [one.chunks[0] - one.sent for one in truths])
    columns |= spread("tpot_ms", decoding)
    columns |= spread("itl_ms", token_gaps)
    columns |= spread("itl_chunk_ms", chunk_gaps)
    columns |= spread("e2e_ms", [one.end - one.sent for one in truths])
    return columns


def spread(name: str, seconds: list[float]) -> dict[str, float]:
    found = {f"{name}_mean": fmean(seconds) * 1e3}
    for percent in (50, 90, 99):
        found[f"{name}_p{percent}"] = float(np.percentile(seconds, percent)) * 1e3
    return found


@pytest.mark.parametrize("per_chunk", range(1, 12))
@pytest.mark.parametrize(
    ("endpoint", "usage"), [("openai", "each"), ("openai", "end"), ("native", "each")]
)
def test_every_column_is_what_it_was(endpoint: str, usage: str, per_chunk: int) -> None:
    truths = trial(per_chunk)
    exchanges = [one.exchange(endpoint == "native", usage, per_chunk) for one in truths]
    result = {
        "concurrency": C, "started": BEGAN, "ended": max(one.end for one in truths),
        "requests": [record(exchange, BEGAN) for exchange in exchanges], "flush": 200,
        "server_before": None, "server_after": None, "client": None,
    }  # fmt: skip
    measured = measure(result, steps=STEPS, draft_tokens=STEPS + 1)
    for name, true in expected(truths).items():
        if name in measured.values:
            limit = 0.05 if name[-3:] in ("p50", "p90", "p99") else 0.02
            assert measured.values[name] == pytest.approx(true, rel=limit), name
    assert measured.values["accept_source"] == "requests"
    assert "short_output" not in measured.flags


@pytest.mark.parametrize("native", [False, True])
def test_without_usage_nothing_is_counted(native: bool) -> None:
    records = [record(one.exchange(native, "none", 3), BEGAN) for one in trial(3)]
    result = {
        "concurrency": C, "started": BEGAN, "ended": BEGAN + 9, "requests": records, "flush": 200,
        "server_before": None, "server_after": None, "client": None,
    }  # fmt: skip
    values = measure(result, steps=STEPS, draft_tokens=STEPS + 1).values
    assert {record["error"] for record in records} == {"no usage"}
    assert (values["requests"], values["requests_ok"], values["output_tokens"]) == (REQUESTS, 0, 0)
    known = {name for name, value in values.items() if value is not None}
    assert known == {"requests", "requests_ok", "output_tokens"}
