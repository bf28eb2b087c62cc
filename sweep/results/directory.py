"""One run's directory, `runs/<run-id>/`: the only place where anything under runs/ is written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sweep.errors import OutOfRoom, RunDirectoryError
from sweep.results import copies, files
from sweep.results.events import Event, append_event, read_events
from sweep.results.lock import LockState, hold, lock_state
from sweep.results.records import checked_id, read_record, record_name, write_record
from sweep.results.repair import Stamp, repair, stamp, survey
from sweep.results.table import HEADER, encode, tidy
from sweep.rows import SCHEMA, Row

Now = Callable[[], datetime]

# A line for people that cannot be kept is lost: it must not keep the host from being given back.
_NO_REASON_TO_STOP = (OutOfRoom, RunDirectoryError)


def utc_now() -> datetime:
    return datetime.now(UTC)


class RunDirectory:
    """What one run leaves. Reading needs nothing; `append` and the like need `with run.lock():`.

    Every write of a result raises OutOfRoom when there is no space (nothing is torn then) and
    RunDirectoryError when the directory cannot be written.
    """

    def __init__(self, path: Path, now: Now = utc_now) -> None:
        self.path = path
        self._now = now
        self._keys: set[tuple[str, int, int]] | None = None
        self._stamp: Stamp | None = None
        self._listeners: list[Callable[[Event], None]] = []

    @property
    def id(self) -> str:
        return self.path.name

    def now(self) -> datetime:
        """The time of day by the clock that was passed in."""
        return self._now()

    @property
    def is_away(self) -> bool:
        """It works on its host, or did when it was last looked at; this is a copy (`copies`)."""
        return (self.path / copies.PLACE).exists()

    @property
    def csv_path(self) -> Path:
        return self.path / "results.csv"

    # -- the one writer ---------------------------------------------------------------------

    @contextmanager
    def lock(self) -> Iterator[Sequence[str]]:
        """Be the one writer, with results.csv put right; yields what had to be repaired.

        It is put right again whenever somebody has touched it meanwhile, and at the end.
        Take it after the process has forked for the last time: a child keeps the lock.

        Raises:
            RunDirectoryError: another process writes to this run (pid and host named), the CSV is
                of another version, or something cannot be written.
        """
        files.make_directory(self.path / "bench")
        with hold(self.path / "lock", self._now().isoformat(timespec="seconds")):
            try:
                yield self._put_right()
            finally:
                with suppress(*_NO_REASON_TO_STOP):
                    self._put_right_if_touched()
                self._keys = None

    def _put_right(self) -> Sequence[str]:
        self._keys, notes = repair(self.csv_path, self.path / "bench")
        self._stamp = stamp(self.csv_path)
        for note in notes:
            self.event("repaired", text=note)
        return notes

    def _put_right_if_touched(self) -> None:
        """Somebody removed or overwrote the CSV since our last write: bench/ still has its rows."""
        if stamp(self.csv_path) != self._stamp:
            self._put_right()

    def _written(self) -> set[tuple[str, int, int]]:
        if self._keys is None:
            raise RuntimeError("this write needs the lock of the run directory")
        return self._keys

    def lock_state(self) -> LockState:
        """Whether a live process writes to this run, and which."""
        return lock_state(self.path / "lock")

    def require_room(self, needed: int = files.ROOM_BYTES) -> None:
        """Before a measurement: raise OutOfRoom unless `needed` bytes are free here."""
        files.require_room(self.path, needed)

    # -- the plan ---------------------------------------------------------------------------

    def write_plan(self, document: Mapping[str, Any]) -> None:
        """Write plan.json, whole; `schema` and `run_id` are added."""
        self._written()
        whole = {"schema": SCHEMA, "run_id": self.id, **document}
        text = json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        files.write_atomic(self.path / "plan.json", text.encode("utf-8", "backslashreplace"))

    def plan(self) -> dict[str, Any]:
        """plan.json as it was written.

        Raises:
            RunDirectoryError: not a run, of another version, or unreadable.
        """
        path = self.path / "plan.json"
        data = files.read_bytes(path)
        if data is None:
            raise RunDirectoryError(f"{self.path} is not a run: it has no plan.json")
        try:
            found = json.loads(data)
        except ValueError as error:
            raise RunDirectoryError(
                f"{path} cannot be read: {error}; the rows in {self.csv_path} are not touched by "
                f"that, but the run cannot be resumed; `sweep report {self.csv_path}` reads them"
            ) from error
        schema = found.get("schema") if isinstance(found, dict) else None
        if schema != SCHEMA:
            raise RunDirectoryError(
                f"{path} has schema {schema!r}, this version of sweep reads {SCHEMA}: use the "
                "version that made it, or start a new run"
            )
        return dict(found)

    # -- results ----------------------------------------------------------------------------

    def append(self, row: Row, bench: Mapping[str, Any]) -> Row:
        """Keep one attempt: first bench/<point>-t<trial>-a<attempt>.json, then the CSV line.

        `bench` is the per-request data, or the evidence of a failed attempt. Returns the row as it
        was written (see `table.tidy`). When it returns, both are on disk.

        Raises:
            ValueError: this (point, trial, attempt) has its row already.
            TypeError, ValueError: a cell that its column cannot hold.
        """
        row = tidy(Row({**row.values, "schema": SCHEMA, "run_id": self.id}))
        self._written()
        with suppress(RunDirectoryError):
            self._put_right_if_touched()
        keys = self._written()
        if row.key in keys:
            raise ValueError(f"{self.id} has a row for (point, trial, attempt) {row.key} already")
        write_record(self.path / "bench", row, bench)
        keys.add(row.key)
        files.append_line(self.csv_path, encode(row), first=HEADER)
        self._stamp = stamp(self.csv_path)
        return row

    def has(self, key: tuple[str, int, int]) -> bool:
        """Has this (point, trial, attempt) its row? For the one writer."""
        return key in self._written()

    def rows(self) -> list[Row]:
        """Every attempt of the run, each once, typed; also while another process writes."""
        return list(survey(self.csv_path, self.path / "bench").rows)

    def bench(self, point: str, trial: int, attempt: int) -> dict[str, Any]:
        """The per-request data of one attempt, or its evidence."""
        return read_record(self.path / "bench", (point, trial, attempt))[1]

    # -- what is for people -----------------------------------------------------------------

    def begin(
        self, due: Mapping[str, int], *, resumed: bool, until: datetime | None = None
    ) -> None:
        """Say that this process starts working: how many trials of which launch, until when."""
        fields = {} if until is None else {"until": until.isoformat(timespec="seconds")}
        self.event("begin", due=dict(due), resumed=resumed, **fields)

    def end(self, reason: str, exit_code: int) -> None:
        """Say that this process stops working, and why."""
        self.event("end", reason=reason, exit_code=exit_code)

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Have a listener told of every event from now on; it must neither wait nor raise."""
        self._listeners.append(listener)

    def event(self, kind: str, **fields: Any) -> None:
        """Append to events.jsonl; the kinds that `status` reads are listed in `results.events`."""
        for listener in self._listeners:
            listener(Event(self._now(), kind, fields))
        with suppress(*_NO_REASON_TO_STOP):
            append_event(self.path / "events.jsonl", self._now(), kind, fields)

    def events(self) -> list[Event]:
        return list(read_events(self.path / "events.jsonl"))

    def log(self, text: str) -> None:
        """Append to sweep.log, with the time in UTC before the first line."""
        stamp = self._now().astimezone(UTC).isoformat(sep=" ", timespec="milliseconds")
        line = f"{stamp.replace('+00:00', 'Z')} {text.rstrip()}\n"
        with suppress(*_NO_REASON_TO_STOP):
            files.append_line(
                self.path / "sweep.log", line.encode("utf-8", "backslashreplace"), durable=False
            )

    @property
    def output_path(self) -> Path:
        """Where a process without a terminal prints."""
        return self.path / "output.log"

    def open_output(self) -> int:
        """A descriptor that appends to `output_path`; it is the caller's to close."""
        with files.translated(self.output_path, "open"):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            return os.open(self.output_path, flags, files.FILE_MODE)

    def write_unit(self, launch_id: str, text: str) -> None:
        """Keep the unit that a launch ran: units/l-03.service."""
        path = self.path / "units" / f"{checked_id(launch_id)}.service"
        files.make_directory(path.parent)
        files.write_atomic(path, text.encode())

    def journal_path(self, launch_id: str) -> Path:
        """Where the (redacted) journal of a launch's latest start lies: journal/l-03.log."""
        return self.path / "journal" / f"{checked_id(launch_id)}.log"

    def journals(self) -> list[str]:
        """The ids of the launches whose journal was saved, the latest saved last."""
        folder = self.path / "journal"
        with files.translated(folder, "list"):
            saved = sorted(folder.glob("l-*.log"), key=lambda path: path.stat().st_mtime_ns)
        return [path.stem for path in saved]

    def journal(self, launch_id: str) -> bytes:
        """What `write_journal` kept of a launch's latest start; empty when there is nothing."""
        return files.read_bytes(self.journal_path(launch_id)) or b""

    def write_journal(self, launch_id: str, data: bytes) -> None:
        """Keep the journal of a launch. A longer reading of the same start replaces the shorter;
        the journal of an earlier start is kept beside it as l-03.log-1, l-03.log-2, ..."""
        path = self.journal_path(launch_id)
        files.make_directory(path.parent)
        before = files.read_bytes(path)
        if before and not data.startswith(before):
            with files.translated(path, "rename"):
                path.rename(files.free_name(path))
        files.write_atomic(path, data)

    def write_raw(self, key: tuple[str, int, int], name: str, data: bytes) -> None:
        """Keep a benchmark client's own result file beside the record of its attempt."""
        stem = record_name(key).removesuffix(".json")
        files.write_atomic(self.path / "bench" / f"{stem}.{checked_id(name)}", data)

    def remove(self) -> None:
        """Remove the whole run, as far as that can be done."""
        shutil.rmtree(self.path, ignore_errors=True)

    def write(self, name: str, data: bytes) -> Path:
        """Write one of the files made from the results (a report, a plot), whole; its path."""
        path = self.path / checked_id(name)
        files.write_atomic(path, data)
        return path
