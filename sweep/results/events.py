"""`events.jsonl`: what happened when, one JSON object a line; what `status` lives on.

Three kinds carry the state of a run, all others are for people:

    begin   a process starts working on the run: `due` {launch id: trials}, `resumed`
    stage   what is going on from now on: `stage`, and where it applies `launch`, `point`,
            `concurrency`, `trial`
    end     that process stops working on it: `reason`, `exit_code`

`refused` says that the host refused to be taken, and that nothing was changed there. Two more say
what a later process needs of a server that it finds running: `started` and `ready` (`launch`,
`invocation`, `startup_s`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sweep.results.files import append_line, read_bytes
from sweep.rows import utc

# What a later process builds on: on disk before anything else happens.
DURABLE = frozenset(("begin", "end", "started", "ready"))


@dataclass(frozen=True)
class Event:
    """One line of events.jsonl. `at` is UTC."""

    at: datetime
    kind: str
    fields: Mapping[str, Any]


def append_event(path: Path, at: datetime, kind: str, fields: Mapping[str, Any]) -> None:
    """Append one event; fields that are None are left out. Only those of DURABLE are fsynced."""
    known = {name: value for name, value in fields.items() if value is not None}
    text = json.dumps({"ts": utc(at), "event": kind, **known}, separators=(",", ":"), default=str)
    append_line(path, text.encode() + b"\n", durable=kind in DURABLE)


def read_events(path: Path) -> Iterator[Event]:
    """Every event in order; lines that are torn or not ours are passed over."""
    for line in (read_bytes(path) or b"").split(b"\n"):
        try:
            fields = json.loads(line)
            at = datetime.fromisoformat(fields.pop("ts")).astimezone(UTC)
            yield Event(at, str(fields.pop("event")), fields)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
