"""Reading bytes that arrive in pieces: however they are cut, they say the same."""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.bench.client.answer import Answer, record
from sweep.bench.client.arrivals import Arrivals
from sweep.bench.client.exchange import Exchange
from sweep.bench.client.wire import END, Payload, ended, events, parse_head
from tests.bench_client.jobs import body
from tests.bench_client.server import Play, frame, head, stream

STAMP = struct.Struct("@ll")
START = head("200 OK", "content-type: text/event-stream", "Transfer-Encoding: chunked")


def response(**play: object) -> bytes:
    pieces = stream(Play(**play))  # type: ignore[arg-type]
    return START + b"".join(frame(piece) for piece in pieces) + b"0\r\n\r\n"


def cut(raw: bytes, places: set[int]) -> list[bytes]:
    edges = [0, *sorted(place for place in places if 0 < place < len(raw)), len(raw)]
    return [raw[start:end] for start, end in itertools.pairwise(edges)]


def arrivals(pieces: Sequence[bytes], begin: float = 0.0) -> Arrivals:
    """Read without a stamp, one a second."""
    made = Arrivals()
    for number, piece in enumerate(pieces):
        made.note(begin + number, None, piece)
    return made


def told(pieces: list[bytes], turns: Sequence[float] = ()) -> dict[str, object]:
    """The record of a response that arrived in these pieces, one a second."""
    exchange = Exchange(0, body(), b"")
    exchange.sent = 100.0
    exchange.arrivals = arrivals(pieces, 101.0)
    return record(exchange, 100.0, turns)


@given(
    places=st.sets(st.integers(0, 5000)),
    per_chunk=st.integers(1, 11),
    usage=st.sampled_from(["each", "end"]),
)
def test_any_cut_of_the_bytes_says_the_same(places, per_chunk, usage):
    raw = response(tokens=23, per_chunk=per_chunk, usage=usage, verify=6)
    pieces = cut(raw, places)
    read = told(pieces)
    assert read["error"] is None
    assert read["tokens_out"] == 23
    assert sum(read["n"]) == 23
    assert (read["verify"], read["finish"]) == (6, "length")
    assert read["end"] == len(pieces) * 1_000_000
    assert len(read["t"]) == len(read["n"]) <= -(-23 // per_chunk)
    assert len(read["n"]) <= len(pieces) + read["merged"]


@given(places=st.sets(st.integers(0, 5000)))
def test_the_end_is_seen_at_the_last_piece_and_never_before(places):
    raw = response(tokens=5)
    so_far = Arrivals()
    pieces = cut(raw, places)
    for number, piece in enumerate(pieces, 1):
        so_far.note(0.0, None, piece)
        parsed = parse_head(so_far.raw)
        whole = parsed is not None and ended(parsed, so_far)
        assert whole == (number == len(pieces))


@given(cut_at=st.integers(0, 3000), usage=st.sampled_from(["each", "end"]))
def test_a_response_that_breaks_off_is_never_ok(cut_at, usage):
    raw = response(tokens=12, usage=usage)
    piece = raw[: min(cut_at, len(raw) - 1)]
    assert told([piece])["error"] is not None


@given(st.binary(max_size=400))
def test_garbage_is_an_error_not_an_exception(garbage):
    assert told([START + garbage])["error"] is not None
    assert told([garbage])["error"] is not None


def test_every_token_arrives_with_its_own_chunk():
    pieces = [START, *(frame(piece) for piece in stream(Play(tokens=8, per_chunk=3))), b"0\r\n\r\n"]
    read = told(pieces)
    # START, role, then three chunks of content, finish, usage, [DONE], end.
    assert read["first"] == 3_000_000
    assert read["t"] == [3_000_000, 1_000_000, 1_000_000]
    assert read["n"] == [3, 3, 2]
    assert read["merged"] == 0


def merged() -> list[bytes]:
    """Four tokens: the first alone, then three in one read."""
    pieces = [frame(piece) for piece in stream(Play(tokens=4))]
    return [START + pieces[0], pieces[1], b"".join(pieces[2:]) + b"0\r\n\r\n"]


def test_events_of_one_read_are_counted_and_spread():
    read = told(merged())
    assert read["error"] is None
    assert read["n"] == [1, 1, 1, 1]
    assert read["t"] == [2_000_000, 333_333, 333_334, 333_333]
    assert read["merged"] == 2


def test_events_of_the_first_read_are_one():
    pieces = [frame(piece) for piece in stream(Play(tokens=4))]
    read = told([START + pieces[0], pieces[1] + pieces[2], b"".join(pieces[3:]) + b"0\r\n\r\n"])
    assert read["n"] == [2, 1, 1]
    assert read["t"] == [2_000_000, 500_000, 500_000]
    assert read["merged"] == 2


def test_merged_events_came_after_the_loop_had_last_looked():
    """The read is at 103: in the turn before it, which began at 102.9, there was nothing."""
    read = told(merged(), turns=[100.5, 101.5, 102.9, 102.95])
    assert read["t"] == [2_000_000, 900_000, 0, 100_000]
    late = told(merged(), turns=[100.5, 101.5, 102.95, 103.5])  # that turn was one long one
    assert late["t"] == [2_000_000, 333_333, 333_334, 333_333]


def test_without_usage_per_chunk_tokens_follow_the_text():
    each = told([START, *(frame(piece) for piece in stream(Play(tokens=20, per_chunk=3)))])
    last = told(
        [START, *(frame(piece) for piece in stream(Play(tokens=20, per_chunk=3, usage="end")))]
    )
    assert last["n"] == each["n"] == [3, 3, 3, 3, 3, 3, 2]


def test_usage_only_in_the_last_chunk_with_text_is_no_usage_per_chunk():
    def content(text: str, **more: object) -> bytes:
        choices = [{"delta": {"content": text}}]
        return b"data: " + json.dumps({"choices": choices, **more}).encode() + b"\n\n"

    usage = {"completion_tokens": 6, "prompt_tokens": 1}
    pieces = [content("ab"), content("cd"), content("ef", usage=usage), b"data: [DONE]\n\n"]
    read = told([START, *map(frame, pieces), b"0\r\n\r\n"])
    assert read["error"] is None
    assert read["n"] == [2, 2, 2]


def test_tokens_without_text_are_told_by_the_last_usage():
    pieces = list(stream(Play(tokens=4)))
    usage = b'data: {"choices": [], "usage": {"completion_tokens": 6}}\n\n'
    read = told([START, *map(frame, [*pieces[:-2], usage, pieces[-1]]), b"0\r\n\r\n"])
    assert read["tokens_out"] == 6
    assert read["n"] == [1, 1, 1, 1, 2]


def test_reasoning_and_tool_calls_are_text_too():
    deltas = [
        b'{"reasoning_content": "hm"}',
        b'{"tool_calls": [{"function": {"arguments": "{}"}}]}',
    ]
    pieces = [b'data: {"choices": [{"delta": %s}]}\n\n' % delta for delta in deltas]
    pieces += [b'data: {"choices": [], "usage": {"completion_tokens": 2}}\n\n', b"data: [DONE]\n\n"]
    assert told([START, *map(frame, pieces), b"0\r\n\r\n"])["n"] == [1, 1]


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\r\n\r\n: comment\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"id: 3\ndata: a\ndata: b\n\n", [b"a\nb"]),
        (b"\n\n\ndata: no blank line at the end", [b"no blank line at the end"]),
    ],
)
def test_events(raw, found):
    assert [data for _, _, data in events(raw)] == found


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1),
    wanted=st.lists(st.integers(0, 5), max_size=4),
)
def test_a_chunked_body_comes_apart_where_it_was_put_together(sizes, wanted):
    payload = bytes(range(256))[: sum(sizes)] * (1 + sum(sizes) // 256)
    payload = payload[: sum(sizes)]
    raw, at = START, 0
    for size in sizes:
        raw += frame(payload[at : at + size])
        at += size
    parsed = parse_head(raw)
    read = Payload(raw + b"0\r\n\r\n", parsed)
    parts = [read.take(pieces) for pieces in wanted]
    parts.append(read.rest())
    assert b"".join(part.payload for part in parts) == payload
    assert read.over
    assert read.whole
    for part in parts:
        for offset in range(len(part.payload)):
            place = part.place(offset)
            assert raw[place : place + 1] == part.payload[offset : offset + 1]
    for wrong in (raw, raw + b"0\r\n\r\nmore"):
        read = Payload(wrong, parsed)
        read.rest()
        assert not read.whole


def test_heads():
    parsed = parse_head(b"HTTP/1.1 503 Busy\r\nContent-Length: 12\r\nConnection: Close\r\n\r\n")
    assert (parsed.status, parsed.length, parsed.keep, parsed.chunked) == (503, 12, False, False)
    assert parse_head(START).keep
    assert not parse_head(b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\n").keep
    assert not parse_head(b"HTTP/1.1 200 OK\r\n\r\n").keep
    assert parse_head(b"HTTP/1.1 200 OK\r\nserv") is None
    for wrong in (b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 two\r\n\r\n", b"HTTP/1.1\r\n\r\n"):
        with pytest.raises(ValueError, match="not an HTTP response"):
            parse_head(wrong)


def test_the_kernels_stamp_is_preferred():
    made = Arrivals()
    for stamp in (STAMP.pack(3, 250_000_000), None, STAMP.pack(4, 0)):
        made.note(5.0, stamp, b"x")
    assert made.moments() == pytest.approx([3.25, 5.0, 4.0], abs=1e-9)
    assert made.lags() == pytest.approx([1.75, 1.0], abs=1e-9)
    assert Arrivals().moments() == Arrivals().lags() == []


@pytest.mark.parametrize("stamp", [b"odd", STAMP.pack(3, 0)[:8], STAMP.pack(3, 0) * 2])
def test_stamps_of_another_size_are_none(stamp):
    made = Arrivals()
    for at in (5.0, 6.0):
        made.note(at, stamp, b"x")
    assert made.moments() == [5.0, 6.0]
    assert made.lags() == []


def test_the_end_mark_is_what_a_chunked_body_ends_with():
    assert (b"x\r\n" + b"0\r\n\r\n").endswith(END)
    assert Answer(Arrivals()).error == "no response head"
