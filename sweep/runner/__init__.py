"""Running a plan: launch by launch, trial by trial, and production back at the end.

`execute` is the whole of it. Its loops have the shape of the error tree: a PointError costs one
trial, a LaunchError one launch, a HostRebooted what was under way; anything else ends the sweep.
The host is given back in every case.

    course            what is due, and what ends the sweep before all of it is done
    handover          the host taken and given back        reboots  it was started anew meanwhile
    adopt             a server that an earlier process left running
    collect  ticket   benchmark clients that nobody waited for, and how their rows are made
    launch   trial    one server started and proven, one measurement
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from sweep.errors import (
    HostError,
    HostRebooted,
    HostTaken,
    LaunchError,
    OutOfTime,
    PointError,
)
from sweep.host import Host
from sweep.plan import Due, Launch
from sweep.progress import Stage
from sweep.runner.adopt import Adopted, adopt
from sweep.runner.collect import collect
from sweep.runner.course import Course
from sweep.runner.evidence import record_lost
from sweep.runner.fingerprint import check_fingerprint, host_fingerprint
from sweep.runner.handover import giving_back, take_host
from sweep.runner.launch import Ready, prove, start
from sweep.runner.reboots import noticing_reboots, wait_until_restored
from sweep.runner.record import Trial, record_failure
from sweep.runner.session import Session, Sweep, open_session
from sweep.runner.trial import Work, finish, run_trial
from sweep.systemd import Served, Started

__all__ = ["Sweep", "execute"]


def execute(sweep: Sweep, host: Host, due: Mapping[str, Sequence[Due]]) -> str | None:
    """Run every due trial on the host and give production back; why the brake stopped it, or None.

    What an earlier process of this run left is gone on with: a server, a client, a result.
    Raises HostError when the host is lost, refused or taken back, Interrupted after a signal,
    OutOfRoom when results can no longer be kept, OutOfTime when --until says so. Every finished
    trial has its row by then, or lies on the host for the next `resume`.
    """
    course = Course(sweep, due)
    served: Served | None = None
    while True:
        with open_session(sweep, host) as session:
            try:
                with noticing_reboots(session):
                    served = served or session.systemd.see()
                return _hold_host(session, course, served)
            except HostRebooted as error:
                if session.systemd.taken:
                    served = None  # the host itself remembers
                hopeless = course.rebooted()
                sweep.note(hopeless or f"{error}: it goes on when production serves again")
                wait_until_restored(session)
                if hopeless is not None:
                    raise HostError(f"{hopeless}; see why before it goes on") from error


def _hold_host(session: Session, course: Course, served: Served) -> str | None:
    """From taking the host to giving it back; why the brake tripped, or None."""
    check_fingerprint(session.sweep, host_fingerprint(session, session.host))
    take_host(session, served)
    with giving_back(session):
        with noticing_reboots(session):
            adopted = adopt(session)
            if adopted and not adopted.work and not course.owed(adopted.standing.launch):
                _stop(session, adopted.standing.launch, adopted.standing.started)
                adopted = None
        _run_launches(session, course, adopted)
        return course.stopped


def _run_launches(session: Session, course: Course, adopted: Adopted | None) -> None:
    """Every launch that has due trials: the one that runs already, then in the plan's order."""
    standing = adopted.standing.launch if adopted else None
    for launch in course.order(standing):
        owed = course.owed(launch)
        here = adopted if launch == standing else None
        if course.stopped is not None or not (owed or here):
            continue
        if here is None:
            session.sweep.require_time(launch, owed[0])
        course.begin(launch)
        try:
            failure = run_launch(session, launch, owed, here)
        except HostRebooted as error:
            if course.hopeless(1):
                _record_hopeless(session, launch, course, error)
            raise
        course.end(failure)


@dataclass
class Tally:
    """How one launch stands: what it still owes, what came of the rest, how far its server got."""

    owed: list[Due]
    began: datetime
    started: Started | None = None
    ready: Ready | None = None
    ok: int = 0
    failure: str | None = None
    late: OutOfTime | None = field(default=None)

    def trials(self, launch: Launch) -> list[Trial]:
        """What it owes, as rows."""
        return [Trial(launch, one, self.began, self.ready) for one in self.owed]


def run_launch(
    session: Session, launch: Launch, due: Sequence[Due], adopted: Adopted | None = None
) -> str | None:
    """One launch and its due trials; the kind of its failure, or None when anything was measured.

    A launch that cannot be brought up, or whose server dies, costs one failed row per trial
    that it still owed, and nothing else. `adopted`: it runs already.
    """
    tally = Tally(list(due), session.sweep.clock.now())
    try:
        with noticing_reboots(session):
            _bring_up_and_measure(session, launch, tally, adopted)
    except LaunchError as error:
        tally.failure = error.failure
        record_lost(session, tally.trials(launch), tally.started, error)
    except OutOfTime as error:
        tally.late = error
    except HostTaken as error:
        # What is finished is no failure, and the sweep does not come back for it by itself.
        with suppress(HostError):
            collect(session)
        for trial in tally.trials(launch)[:1]:
            if not session.sweep.run.has(trial.key):
                record_failure(session, trial, LaunchError("preempted", str(error)))
        raise
    with noticing_reboots(session):
        _stop(session, launch, tally.started)
    if tally.late is not None:
        raise tally.late
    return None if tally.ok else tally.failure


def _bring_up_and_measure(
    session: Session, launch: Launch, tally: Tally, adopted: Adopted | None
) -> None:
    if adopted is None:
        tally.started = start(session, launch)
    else:
        tally.started = adopted.standing.started
        if adopted.work is not None:
            # Nothing is asked of a server that is being measured: it was proven before.
            _finish(session, adopted.work, tally)
    if not tally.owed:
        return
    tally.ready = prove(session, launch, tally.started, adopted.standing if adopted else None)
    check_fingerprint(session.sweep, tally.ready.fingerprint)
    while tally.owed:
        session.sweep.require_time(trial=tally.owed[0])
        began = session.sweep.clock.now()
        try:
            run_trial(session, launch, tally.owed[0], tally.ready)
            tally.ok += 1
        except PointError as error:
            tally.failure = error.failure
            record_failure(session, Trial(launch, tally.owed[0], began, tally.ready), error)
        tally.owed.pop(0)


def _finish(session: Session, work: Work, tally: Tally) -> None:
    """The trial that an earlier process began and whose client is still at work."""
    trial, tally.ready = work.trial, work.ready
    tally.began = trial.began
    tally.owed.sort(key=lambda one: one.key != trial.key)
    session.sweep.stage(Stage("measure", trial.launch, trial.due.point, trial.due.trial))
    try:
        finish(session, work)
        tally.ok += 1
    except PointError as error:
        tally.failure = error.failure
        record_failure(session, trial, error)
    tally.owed = [one for one in tally.owed if one.key != trial.key]


def _stop(session: Session, launch: Launch, started: Started | None) -> None:
    try:
        session.stop(launch, started)
    except LaunchError as error:
        session.sweep.note(f"after {launch.id}: {error}")


def _record_hopeless(session: Session, launch: Launch, course: Course, error: HostRebooted) -> None:
    """One failed row for a launch that has brought its host down again and again."""
    first = course.owed(launch)[:1]
    for one in first:
        trial = Trial(launch, one, session.sweep.clock.now())
        record_failure(session, trial, LaunchError("unknown", f"{error}, not for the first time"))
