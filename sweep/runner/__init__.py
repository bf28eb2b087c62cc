"""Running a plan: launch by launch, trial by trial, and production back at the end.

`execute` is the whole of it. Its loops have the shape of the error tree: a PointError costs one
trial, a LaunchError one launch, anything else ends the sweep; the host is given back in every case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sweep.errors import (
    HostTaken,
    HostUnreachable,
    Interrupted,
    LaunchError,
    OutOfTime,
    PointError,
)
from sweep.host import Host
from sweep.plan import Due, Launch
from sweep.progress import Stage
from sweep.results.status import duration
from sweep.runner.brake import Brake
from sweep.runner.evidence import record_lost
from sweep.runner.fingerprint import check_fingerprint, host_fingerprint
from sweep.runner.launch import Ready, prove, start
from sweep.runner.record import Trial, record_failure
from sweep.runner.session import Session, Sweep, open_session
from sweep.runner.trial import run_trial
from sweep.systemd import Owner, Started

__all__ = ["Sweep", "execute"]


def execute(sweep: Sweep, host: Host, due: Mapping[str, Sequence[Due]]) -> str | None:
    """Run every due trial on the host and give production back; why the brake stopped it, or None.

    Raises HostError when the host is lost, refused or taken back, Interrupted after a signal,
    OutOfRoom when results can no longer be kept, OutOfTime when --until says so. Every finished
    trial has its row by then.
    """
    with open_session(sweep, host) as session:
        check_fingerprint(sweep, host_fingerprint(session, host))
        sweep.stage(Stage("take the host"))
        takeover = session.systemd.take(Owner.here(sweep.clock.now()))
        for text in takeover.notes:
            sweep.note(text)
        with giving_back(session):
            return _run_launches(session, due)


def _run_launches(session: Session, due: Mapping[str, Sequence[Due]]) -> str | None:
    """Every launch that has due trials, in the plan's order; why the brake tripped, or None."""
    brake = Brake(session.sweep.plan.max_consecutive_failures)
    measured = False
    for launch in session.sweep.plan.launches:
        if launch.id not in due:
            continue
        session.sweep.require_time(launch, due[launch.id][0])
        failure = run_launch(session, launch, due[launch.id])
        if failure is None and not measured:
            measured = True
            session.sweep.note("first launch measured: safe to leave")
        reason = brake.after_launch(failure)
        if reason is not None:
            session.sweep.note(f"stopped by the failure brake: {reason}")
            return reason
    return None


@dataclass
class Tally:
    """What came of one launch so far: the trials that are ok, how the last other one failed."""

    ok: int = 0
    failure: str | None = None


def run_launch(session: Session, launch: Launch, due: Sequence[Due]) -> str | None:
    """One launch and its due trials; the kind of its failure, or None when anything was measured.

    A launch that cannot be brought up, or whose server dies, costs one failed row per trial
    that it still owed, and nothing else.
    """
    owed = list(due)
    tally = Tally()
    began = session.sweep.clock.now()
    started: Started | None = None
    ready: Ready | None = None
    late: OutOfTime | None = None
    try:
        started = start(session, launch)
        ready = prove(session, launch, started)
        check_fingerprint(session.sweep, ready.fingerprint)
        _measure_all(session, launch, ready, owed, tally)
    except LaunchError as error:
        tally.failure = error.failure
        record_lost(session, [Trial(launch, one, began, ready) for one in owed], started, error)
    except OutOfTime as error:
        late = error
    except HostTaken as error:
        preempted = LaunchError("preempted", str(error))
        for one in owed[:1]:
            record_failure(session, Trial(launch, one, began, ready), preempted)
        raise
    try:
        session.stop(launch, started)
    except LaunchError as error:
        session.sweep.note(f"after {launch.id}: {error}")
    if late is not None:
        raise late
    return None if tally.ok else tally.failure


def _measure_all(
    session: Session, launch: Launch, ready: Ready, owed: list[Due], tally: Tally
) -> None:
    """Measure the owed trials in order; each leaves the list when its row is written."""
    while owed:
        session.sweep.require_time(trial=owed[0])
        began = session.sweep.clock.now()
        try:
            run_trial(session, launch, owed[0], ready)
            tally.ok += 1
        except PointError as error:
            tally.failure = error.failure
            record_failure(session, Trial(launch, owed[0], began, ready), error)
        owed.pop(0)


@contextmanager
def giving_back(session: Session) -> Iterator[None]:
    """Whatever happens inside, production gets the host back before this returns.

    Only a host that cannot be reached is left to its own timer.
    """
    try:
        try:
            yield
        except HostUnreachable:
            raise
        except BaseException:
            _give_back(session)
            raise
        _give_back(session)
    except HostUnreachable:
        session.sweep.note(
            f"{session.host.name} cannot be reached; its own timer restores production within "
            f"{duration(session.sweep.spec.deadman_s)} of the last contact"
        )
        raise
    session.sweep.clock.check()


def _give_back(session: Session) -> None:
    """Stop ours and restore production; a second signal leaves both to a unit on the host."""
    sweep = session.sweep
    try:
        with sweep.clock.shielded(1):
            sweep.stage(Stage("restore"))
            session.quiesce()
            restored = session.systemd.restore()
            sweep.note(restored.text)
    except Interrupted:
        with sweep.clock.shielded(1000):
            session.systemd.hand_over()
            sweep.note(f"{session.host.name} goes on restoring by itself; nothing waits for it")
        raise
