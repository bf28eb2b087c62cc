"""How a run stands, from its directory alone; also while another process works on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from sweep.hints import of_run, with_inventory
from sweep.plan import Plan, latest
from sweep.plan_document import plan_from_doc
from sweep.results.directory import RunDirectory
from sweep.results.events import Event
from sweep.results.lock import LockOwner, LockState
from sweep.results.pace import remaining_s
from sweep.results.runs import untouched
from sweep.rows import Row

State = Literal["running", "done", "ended", "interrupted", "not started"]


@dataclass(frozen=True)
class LaunchStatus:
    """One launch: how many trials it has, and how their latest attempts went."""

    id: str
    label: str
    trials: int
    ok: int
    failed: int

    @property
    def missing(self) -> int:
        return self.trials - self.ok - self.failed


@dataclass(frozen=True)
class Now:
    """What a live process does at this moment, and since when (UTC)."""

    stage: str
    since: datetime
    launch: str | None = None
    point: str | None = None
    concurrency: int | str | None = None
    trial: int | None = None

    def text(self) -> str:
        parts = [self.launch, None if self.concurrency is None else f"C={self.concurrency}"]
        if self.trial is not None:
            parts.append(f"trial {self.trial}")
        return " ".join([*filter(None, parts), self.stage])


@dataclass(frozen=True)
class Status:
    """A run at one moment.

    `state`: running (a live process holds the lock: `owner`), done (every trial ok, the host given
    back), ended (for a reason: `why`), interrupted (the process died without a word), not started.
    `elapsed_s`: since that process began, up to now or to its end. `remaining_s`: from measured
    launches and trials; None while nothing was measured. `untouched`: nothing was done on the host.
    `ends_by`: by when --until has production serve again. `owed`: since this run last took its
    host no process of it has seen production back.
    """

    run_id: str
    sweep: str
    host: str
    at: datetime
    state: State
    owner: LockOwner | None
    launches: tuple[LaunchStatus, ...]
    now: Now | None
    elapsed_s: float | None
    remaining_s: float | None
    last: Row | None
    why: str | None
    path: Path
    inventory: Path | None = None
    untouched: bool = False
    owed: bool = False
    ends_by: datetime | None = None

    @property
    def trials(self) -> int:
        return sum(launch.trials for launch in self.launches)

    @property
    def ok(self) -> int:
        return sum(launch.ok for launch in self.launches)

    @property
    def failed(self) -> int:
        return sum(launch.failed for launch in self.launches)

    @property
    def missing(self) -> int:
        return self.trials - self.ok - self.failed

    @property
    def cut_short(self) -> str | None:
        """That --until leaves too little time for the rest; None: it does not."""
        if self.ends_by is None or self.remaining_s is None:
            return None
        if self.at + timedelta(seconds=self.remaining_s) <= self.ends_by:
            return None
        return f"--until {self.ends_by.astimezone():%H:%M} ends it before that"

    def lines(self) -> list[str]:
        """The status as plain text, the most important line first."""
        head = f"{self.run_id} on {self.host}: {self.state}"
        if self.state == "running" and self.owner:
            head += f" ({self.owner})"
        said = [head, f"{self.ok}/{self.trials} trials ok, {self.failed} failed, "
                      f"{self.missing} missing"]  # fmt: skip
        if self.now:
            since = (self.at - self.now.since).total_seconds()
            said.append(f"now: {self.now.text()}, for {duration(since)}")
        if self.elapsed_s is not None:
            left = "" if self.remaining_s is None else f", about {duration(self.remaining_s)} left"
            left += f"; {self.cut_short}" if self.cut_short else ""
            took = "so far" if self.state == "running" else "in all"
            said.append(f"{duration(self.elapsed_s)} {took}{left}")
        if self.why:
            said.append(f"why: {self.why}")
        if self.last:
            said.append(f"last: {_row_text(self.last)}")
        said += [_launch_line(launch) for launch in self.launches]
        return [*said, *self.what_now()]

    def what_now(self) -> list[str]:
        """What has become of production where nobody works on the run, and how to go on."""
        said = []
        over = self.state in ("interrupted", "ended")
        if self.state == "interrupted" and self.untouched:
            said.append(f"nothing was done on {self.host}")
        elif over and self.owed:
            restore = with_inventory(f"restore {self.host}", self.inventory)
            said.append(
                f"production on {self.host}: its own timer restores it if nothing is heard of the "
                f"sweep; at once: {restore}"
            )
        if over and self.ok < self.trials:
            said.append(f"go on with: {of_run('resume', self.path)}")
        return said


def duration(seconds: float) -> str:
    """Seconds as a person reads them: 42 s, 3 min 20 s, 1 h 05 min."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _row_text(row: Row) -> str:
    head = f"{row['launch']} steps={row['speculative_num_steps']} C={row['concurrency']}"
    if not row.ok:
        return f"{head} failed: {row['failure']}: {row['failure_detail'] or 'no detail'}"
    return f"{head} {float(row['agg_tok_s'] or 0):.1f} tok/s"


def _launch_line(launch: LaunchStatus) -> str:
    line = f"{launch.id}  {launch.label}  {launch.ok}/{launch.trials} ok"
    return line + (f", {launch.failed} failed" if launch.failed else "")


def read_status(run: RunDirectory, elsewhere: LockState | None = None) -> Status:
    """How the run stands now. `elsewhere`: the lock of a run that works on its host.

    Raises:
        RunDirectoryError: not a run, of another version, or unreadable.
    """
    document = run.plan()
    plan = plan_from_doc(document.get("plan", {}))
    # The lock first: what happens between two readings then looks like progress, not like a death.
    lock = elsewhere or run.lock_state()
    rows, events, at = run.rows(), run.events(), run.now()
    launches = tuple(_launch_statuses(plan, rows))
    session = _session(events)
    end = _end(session)
    # Who has said how it ended still writes the report, and works on the run no more.
    alive = lock.held and end is None
    state = _state(launches, session, end, alive=alive)
    until = at if alive else session[-1].at if session else at
    return Status(
        run_id=run.id,
        sweep=plan.sweep,
        host=plan.host,
        at=at,
        state=state,
        owner=lock.owner if alive else None,
        launches=launches,
        now=_now(session) if alive else None,
        elapsed_s=(until - session[0].at).total_seconds() if session else None,
        remaining_s=remaining_s(plan, rows, events, at) if alive else None,
        last=rows[-1] if rows else None,
        why=_why(state, end, session, lock.owner),
        path=run.path,
        inventory=Path(str(document["inventory"])) if document.get("inventory") else None,
        untouched=not alive and untouched(run),
        owed=_owed(events),
        ends_by=_ends_by(session) if alive else None,
    )


def _launch_statuses(plan: Plan, rows: Iterable[Row]) -> Iterable[LaunchStatus]:
    last = latest(rows)
    for launch in plan.launches:
        found = [
            row
            for point in launch.points
            for trial in range(1, plan.trials + 1)
            if (row := last.get((point.id, trial)))
        ]
        ok = sum(row.ok for row in found)
        trials = len(launch.points) * plan.trials
        yield LaunchStatus(launch.id, launch.label, trials, ok, len(found) - ok)


def _session(events: Sequence[Event]) -> Sequence[Event]:
    """The events of the process that worked on the run last: from its `begin` on."""
    starts = [index for index, event in enumerate(events) if event.kind == "begin"]
    return events[starts[-1] :] if starts else ()


def _ends_by(session: Sequence[Event]) -> datetime | None:
    until = session[0].fields.get("until") if session else None
    return datetime.fromisoformat(str(until)) if until else None


def _end(session: Sequence[Event]) -> Event | None:
    return next((event for event in session if event.kind == "end"), None)


def _owed(events: Sequence[Event]) -> bool:
    """Whether the host was taken, and production not seen back since."""
    owed = before = False
    for event in events:
        if event.kind == "stage" and event.fields.get("stage") == "take the host":
            owed, before = True, owed
        elif event.kind == "refused":
            owed = before
        elif event.kind == "restored":
            owed = False
    return owed


def gave_back(events: Sequence[Event]) -> bool:
    """Whether the process that worked last on the run came to the end of its work.

    One that was lost, killed or refused on the way may have left production down.
    """
    session = _session(events)
    end = _end(session)
    return not session or (end is not None and end.fields.get("exit_code") in (0, 1))


def _state(
    launches: Sequence[LaunchStatus], session: Sequence[Event], end: Event | None, *, alive: bool
) -> State:
    if alive:
        return "running"
    if launches and all(one.ok == one.trials for one in launches) and gave_back(session):
        return "done"
    if not session:
        return "not started"
    return "ended" if end else "interrupted"


def _now(session: Sequence[Event]) -> Now | None:
    last = next((event for event in reversed(session) if event.kind in ("stage", "end")), None)
    if last is None or last.kind == "end":
        return None
    found = last.fields
    return Now(
        stage=str(found.get("stage")),
        since=last.at,
        launch=found.get("launch"),
        point=found.get("point"),
        concurrency=found.get("concurrency"),
        trial=found.get("trial"),
    )


def _why(
    state: State, end: Event | None, session: Sequence[Event], owner: LockOwner | None
) -> str | None:
    if state == "ended" and end:
        return f"{end.fields.get('reason')} (exit code {end.fields.get('exit_code')})"
    if state == "interrupted":
        who = f"its process ({owner})" if owner else "its process"
        at = session[-1].at.astimezone(UTC)
        return f"{who} ended without a word; the last sign of it is from {at:%Y-%m-%d %H:%M:%S} UTC"
    return None
