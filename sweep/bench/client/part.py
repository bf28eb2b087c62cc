"""What one process has measured, and several as one."""

from __future__ import annotations

import array
import heapq
import operator
import sys
from typing import Any, Dict, List, NamedTuple, Sequence

from .answer import record
from .loop import Loop

SINCE = ("sent", "first", "end", "due")  # times of a record that count from `started`


class Part(NamedTuple):
    """The answers of one process, read. `lags`: seconds from each stamp to its reading.

    `started`: first send, in seconds of CLOCK_REALTIME, 0.0 if there is none; `cpu_s`: CPU seconds
    in the `wall_s` that it took; `reads`: how many there were, stamped or not; `resent`: requests.
    """

    started: float
    records: List[Dict[str, Any]]
    lags: Sequence[float]
    reads: int
    resent: int
    ports: List[int]
    cpu_s: float
    wall_s: float


def part(loop: Loop) -> Part:
    """Reads the answers of a loop that has run; they are gone from it afterwards."""
    started = min((exchange.sent for exchange in loop.done if exchange.sent), default=0.0)
    records, lags, reads, resent = [], array.array("d"), 0, 0
    loop.done.reverse()
    while loop.done:  # each is let go as soon as it is read, while its memory is at hand
        exchange = loop.done.pop()
        records.append(record(exchange, started, loop.poller.turns))
        lags.extend(exchange.arrivals.lags())
        reads += len(exchange.arrivals)
        resent += exchange.resent
    return Part(started, records, lags, reads, resent, loop.ports, loop.cpu_s, loop.wall_s)


def merged(parts: List[Part]) -> Part:
    """Several as one, on one clock: `cpu_s` is that of the busiest."""
    if len(parts) == 1:
        return parts[0]
    started = min((one.started for one in parts if one.started), default=0.0)
    records = [since(item, one.started - started) for one in parts for item in one.records]
    lags = array.array("d")
    for one in parts:
        lags.extend(one.lags)
    return Part(
        started,
        sorted(records, key=operator.itemgetter("end")),
        lags,
        sum(one.reads for one in parts),
        sum(one.resent for one in parts),
        [port for one in parts for port in one.ports],
        max(one.cpu_s for one in parts),
        max(one.wall_s for one in parts),
    )


def since(item: Dict[str, Any], later: float) -> Dict[str, Any]:
    """The record with its times counted from so many seconds earlier."""
    moved = {name: item[name] + round(later * 1e6) for name in SINCE if item[name] is not None}
    return {**item, **moved}


def described(parts: List[Part]) -> Dict[str, Any]:
    """What the result says about the measurement."""
    measured = merged(parts)
    started, lags = measured.started, measured.lags
    late = heapq.nlargest(len(lags) - len(lags) * 99 // 100, lags)  # far faster than sorting all
    ends = [item["end"] for item in measured.records]
    return {
        "started": started or None,
        "ended": started + max(ends) / 1e6 if started else None,
        "requests": measured.records,
        "ports": measured.ports,
        "client": {
            "cpu": round(measured.cpu_s / measured.wall_s, 4),
            "processes": len(parts),
            "lag_ms_p99": round(late[-1] * 1e3, 3) if late else None,
            "lag_ms_max": round(late[0] * 1e3, 3) if late else None,
            "reads": measured.reads,
            "stamped": len(lags),
            "resent": measured.resent,
            "python": "%d.%d.%d" % sys.version_info[:3],
        },
    }
