"""What a run leaves under runs/: the only code that writes there, and what reads it back.

bench/*.json is the source of every row, results.csv its table, events.jsonl what happened when.
"""

from __future__ import annotations

from sweep.results.directory import RunDirectory
from sweep.results.events import Event
from sweep.results.lock import LockOwner, LockState
from sweep.results.runs import current_run, new_run, open_run, run_ids, untouched
from sweep.results.status import LaunchStatus, Status, gave_back, read_status

__all__ = [
    "Event",
    "LaunchStatus",
    "LockOwner",
    "LockState",
    "RunDirectory",
    "Status",
    "current_run",
    "gave_back",
    "new_run",
    "open_run",
    "read_status",
    "run_ids",
    "untouched",
]
