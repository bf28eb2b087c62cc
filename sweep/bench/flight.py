"""Requests in flight: when the server had all the work it was to have. Pure.

Times are microseconds on the clock of the records (`client.answer.record`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

Request = Mapping[str, Any]
Span = tuple[int, int]


def sent_ones(requests: Iterable[Request]) -> list[Request]:
    return [request for request in requests if request["sent"] is not None]


def full_spans(sent: Sequence[Request], concurrency: int) -> list[Span]:
    """When at least `concurrency` requests were in flight, in order."""
    edges = sorted(
        [(request["sent"], 1) for request in sent] + [(request["end"], -1) for request in sent]
    )
    spans: list[Span] = []
    flying, start = 0, 0
    for time, change in edges:
        if change > 0 and flying + 1 == concurrency:
            start = time
        elif change < 0 and flying == concurrency and time > start:
            spans.append((start, time))
        flying += change
    return spans


def arrivals(request: Request) -> Iterator[tuple[int, int]]:
    """(when, tokens) of everything that came with text."""
    times = accumulate(request["t"], initial=request["sent"])
    next(times)
    return zip(times, request["n"], strict=True)


def steady(sent: Sequence[Request], concurrency: int) -> float | None:
    """Tokens per second while at least `concurrency` requests are in flight, None if never."""
    spans = full_spans(sent, concurrency)
    length = sum(end - start for start, end in spans)
    if not length:
        return None
    starts = [start for start, _ in spans]
    tokens = 0
    for request in sent:
        if request["error"] is None:
            for time, count in arrivals(request):
                place = bisect_left(starts, time) - 1
                if place >= 0 and time <= spans[place][1]:
                    tokens += count
    return tokens / length * 1e6


def most_at_a_time(requests: Iterable[Request]) -> int:
    """The most requests that were ever in flight together."""
    sent = sent_ones(requests)
    edges = sorted([(one["end"], -1) for one in sent] + [(one["sent"], 1) for one in sent])
    return max(accumulate(change for _, change in edges), default=0)


def lateness_ms(requests: Iterable[Request]) -> list[float]:
    """How long after their time requests of an open loop were sent, sorted; none of a closed one.

    Nothing but the want of a free place, or a busy client, delays one.
    """
    planned = [one for one in sent_ones(requests) if one.get("due") is not None]
    return sorted((one["sent"] - one["due"]) / 1e3 for one in planned)


def empty_places(requests: Iterable[Request], concurrency: int) -> float | None:
    """Share of the C places that held no request although there were more to send, 0..1.

    From the moment C were sent until the last one was sent; None if that is no time at all.
    """
    sent = sent_ones(requests)
    times = sorted(request["sent"] for request in sent)
    if len(times) <= concurrency or times[-1] <= times[concurrency - 1]:
        return None
    begin, end = times[concurrency - 1], times[-1]
    held = sum(max(0, min(request["end"], end) - max(request["sent"], begin)) for request in sent)
    return float(1 - held / (concurrency * (end - begin)))


def silences(requests: Iterable[Request]) -> list[Span]:
    """(when, how long) nothing came although every request in flight had its first token.

    Waiting for first tokens is not silence: prompts may be long, and the server works on them
    alone.
    """
    good = [request for request in sent_ones(requests) if request["first"] is not None]
    waits = sorted((request["sent"], request["first"]) for request in good)
    times = sorted({time for request in good for time, _ in arrivals(request)})
    found: list[Span] = []
    until, place = 0, 0  # the latest first token of those sent by now
    for before, after in pairwise(times):
        while place < len(waits) and waits[place][0] < after:
            until = max(until, waits[place][1])
            place += 1
        if until <= before:
            found.append((before, after - before))
    return found


def decode_speed(requests: Iterable[Request], span: Span, per_step: Mapping[int, float]) -> float:
    """Verify steps per second of one request while it decodes within `span`; 0.0 if none does.

    `per_step` are the tokens per step of each request by its index: 1 where nothing is drafted.
    """
    begin, end = span
    steps, time = 0.0, 0
    for request in sent_ones(requests):
        first = request["first"]
        if request["error"] is not None or first is None:
            continue
        time += max(0, min(request["end"], end) - max(first, begin))
        came = sum(n for when, n in arrivals(request) if max(first, begin) < when <= end)
        steps += came / per_step.get(request["index"], 1.0)
    return steps / time * 1e6 if time else 0.0
