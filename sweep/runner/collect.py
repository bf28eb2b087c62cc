"""Benchmark clients that nobody waited for to the end: their rows, before anything else happens.

A sweep that was killed, that lost its host or its disk, leaves clients behind that have ended or
will. What a client measured is fetched and becomes its row, exactly once; the rest is forgotten
and measured again.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from sweep.errors import PointError
from sweep.runner.record import record_failure, record_result
from sweep.runner.session import Session
from sweep.runner.ticket import TICKET, read_subject, read_ticket
from sweep.runner.trial import Work, prepare, read
from sweep.systemd import Left


def collect(session: Session, serving: str | None = None) -> Work | None:
    """Settle every client that was left on the host; the one that is still at work, if any.

    `serving` is the invocation of the server that is gone on with: only beside that one a client
    may go on, and a failure of it is the trial's own. Of any other server nobody knows whether it
    lived to the end: without a result the trial is due again. Raises OutOfRoom: then the host
    keeps what it has.
    """
    at_work = None
    for left in session.clients.left():
        work = _recognized(session, left)
        if work is None:
            session.sweep.note(_dropped(session, left))
        if work is None or session.sweep.run.has(work.trial.key):
            session.clients.found(left.name).end()
            continue
        beside = work.ready.started.invocation_id == serving
        if left.running and beside and at_work is None:
            at_work = work
            continue
        if not left.running:
            _settle(session, work, its_own=beside)
        work.client.end()
    return at_work


def _recognized(session: Session, left: Left) -> Work | None:
    """What a client was to measure; None for one whose ticket says nothing of this plan."""
    trial = read_ticket(_ticket(session, left), session.sweep.plan)
    ready = trial.ready if trial else None
    if trial is None or ready is None:
        return None
    if left.seconds is not None:
        trial = replace(trial, ended=trial.began + timedelta(seconds=left.seconds))
    try:
        context, job = prepare(session, trial, ready)
    except PointError:
        return None
    return Work(trial, ready, context, job, session.clients.found(left.name, job))


def _ticket(session: Session, left: Left) -> bytes | None:
    return session.clients.found(left.name).outputs((TICKET,)).get(TICKET)


def _dropped(session: Session, left: Left) -> str:
    """That a client and what it measured are thrown away, and why: nobody asks for it again."""
    what = "a benchmark client at work is ended" if left.running else "a client's result is dropped"
    measures = read_subject(_ticket(session, left))
    if measures is None:
        return f"{what} ({left.name}): its ticket does not say what it measured"
    return f"{what} ({measures}): this plan has no such point any more"


def _settle(session: Session, work: Work, *, its_own: bool) -> None:
    """The row of a client that has ended; none for a failure that may not be the trial's own."""
    launch, point = work.trial.launch.id, work.trial.due.point
    try:
        measurement = read(session, work)
    except PointError as error:
        if its_own:
            record_failure(session, work.trial, error)
        return
    session.sweep.note(f"{launch} C={point.concurrency}: measured while nobody was there to see it")
    record_result(session, work.trial, measurement)
