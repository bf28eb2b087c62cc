"""Requests that reached the server while it was measured and were not ours. Pure.

Three kinds of evidence, each of which can only miss some, never invent one:

- access lines of uvicorn, `127.0.0.1:40312 - "POST /v1/chat/completions HTTP/1.1" 200 OK`, on by
  default in every version: whatever does not come from a port of our client;
- `num_requests_total` of /metrics, where it was started with --enable-metrics: what was finished
  beyond what our client sent;
- decode lines with more running requests than our client holds in flight. A batch is counted after
  what ended has left it (srt/managers/scheduler_components/metrics_reporter.py, 0.5.23).

Probes of the health endpoints (one token each) do not count, nor does what the server refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sweep.sglang.journal import scrape
from sweep.sglang.lines import plain

_ACCESS = re.compile(
    rb'INFO: {1,8}(\S{1,60}):(\d{1,5}) - "(?:POST|PUT) (/[\w/.-]{1,80})\S{0,200} '
    rb'HTTP/\d[.\d]*" 200\b'
)
# What makes the model work: entrypoints/http_server.py, 0.4.3 to 0.5.23.
_WORK = frozenset((
    b"/generate", b"/encode", b"/classify", b"/invocations", b"/vertex_generate", b"/api/chat",
    b"/api/generate", b"/v1/completions", b"/v1/chat/completions", b"/v1/responses",
    b"/v1/messages", b"/v1/embeddings", b"/v1/classify", b"/v1/score", b"/v1/decisions",
    b"/v1/systemone", b"/v1/rerank", b"/v1/audio/transcriptions",
))  # fmt: skip
_LOOPBACK = (b"127.", b"::1", b"[::1]", b"localhost")


@dataclass(frozen=True)
class Ours:
    """What the client of one trial did. None: not known, and nothing is concluded from it.

    `ports` it sent from, as the server sees them; `sent` requests at most, warm-up included;
    `in_flight` requests at most at a time; `finished` requests at most while it measured.
    """

    ports: frozenset[int] | None = None
    sent: int | None = None
    in_flight: int | None = None
    finished: int | None = None


@dataclass(frozen=True)
class Foreign:
    """At least so many `requests` were not ours; `seen` says by what, one sentence each."""

    requests: int
    seen: tuple[str, ...]


def foreign(journal: bytes, ours: Ours, counted: int | None = None) -> Foreign | None:
    """What was not ours while a trial ran, None where nothing shows it.

    `journal` is what the server printed in that time, `counted` by how much num_requests_total
    grew. Both may be incomplete: fewer are found then.
    """
    found = [*_by_access(plain(journal), ours), *_by_running(journal, ours)]
    if counted is not None and ours.finished is not None and counted > ours.finished:
        extra = counted - ours.finished
        found.append((extra, f"/metrics: {counted} requests finished, {ours.finished} were ours"))
    if not found:
        return None
    return Foreign(max(number for number, _ in found), tuple(text for _, text in found))


def _by_access(text: bytes, ours: Ours) -> Iterator[tuple[int, str]]:
    lines = [line for line in _ACCESS.finditer(text) if line[3] in _WORK]
    away = [line for line in lines if not line[1].startswith(_LOOPBACK)]
    here = len(lines) - len(away)
    if ours.ports is not None:
        others = [line for line in lines if line in away or int(line[2]) not in ours.ports]
        number = len(others)
    else:
        others = away
        number = len(away) + (max(0, here - ours.sent) if ours.sent is not None else 0)
    if number:
        who = sorted({line[1].decode("ascii", "replace") for line in others})
        where = f" from {', '.join(who[:3])}" if who else ""
        paths = sorted({line[3].decode() for line in others or lines})
        yield number, f"access lines: {number} requests{where} to {', '.join(paths[:3])}"


def _by_running(journal: bytes, ours: Ours) -> Iterator[tuple[int, str]]:
    if ours.in_flight is None or b"Decode batch" not in journal:
        return
    most = max((line.running or 0 for line in scrape(journal).decode), default=0)
    if most > ours.in_flight:
        text = f"decode lines: {most} requests ran, {ours.in_flight} at most were ours"
        yield most - ours.in_flight, text
