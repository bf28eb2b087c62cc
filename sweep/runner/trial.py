"""One trial: run the benchmark beside a proven server, watch the server, keep the result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sweep.bench.backends import JobSpec, TrialContext
from sweep.errors import HostUnreachable, LaunchError, PointError
from sweep.plan import Due, Launch
from sweep.progress import Stage
from sweep.runner.jobs import Client
from sweep.runner.launch import Ready, check_alive
from sweep.runner.neighbours import with_foreign
from sweep.runner.record import Trial, record_result
from sweep.runner.session import Session
from sweep.runner.watchdog import as_launch_error, progress_text

# A server that dies during a trial is noticed within seconds, and one look is one small script.
WATCH_POLL_S = 0.5
# From the first connection that a dying server closes until its last process has ended.
DYING_S = 3.0


def run_trial(session: Session, launch: Launch, due: Due, ready: Ready) -> None:
    """Measure one trial and write its row.

    Raises PointError (this trial is spoilt), LaunchError (the server is gone), OutOfRoom.
    """
    sweep = session.sweep
    sweep.run.require_room()
    sweep.stage(Stage("measure", launch, due.point, due.trial))
    trial = Trial(launch, due, sweep.clock.now(), ready)
    context = session.clients.place(
        TrialContext(
            python=sweep.spec.python,
            port=session.server.port,
            model=ready.served_model,
            concurrency=width(trial),
            trial=due.trial,
            steps=launch.config.steps,
            draft_tokens=ready.draft_tokens,
            api_key=session.api_key,
            admitted=ready.capacity.max_running_requests,
            watchdog_s=ready.watchdog_s,
        )
    )
    job = session.backend.job(context)
    client = session.clients.start(f"{due.point.id}-t{due.trial}-a{due.attempt}", job)
    with ending(session, client):
        watch(session, client, job, ready)
        try:
            measurement = session.backend.read(context, client.outputs(job.outputs))
        except PointError as error:
            require_survivor(session, ready)
            session.systemd.require_room()
            raise as_launch_error(error) from error
        measurement = with_foreign(session, trial, measurement)
        # The host keeps what the client left until the row is on this disk.
        record_result(session, trial, measurement)


def width(trial: Trial) -> int:
    """How many requests to hold in flight. Raises PointError where `max` is not known."""
    if trial.concurrency is None:
        raise PointError(
            "unknown",
            "neither the journal nor /server_info says how much the server admits, so `max` is no "
            "number; give numbers as concurrency",
        )
    return trial.concurrency


@contextmanager
def ending(session: Session, client: Client) -> Iterator[None]:
    """The client is ended and forgotten, unless the host is lost: it may still be working then."""
    try:
        yield
    except HostUnreachable:
        raise
    except BaseException:
        with session.sweep.clock.shielded():
            client.end()
        raise
    client.end()


def watch(session: Session, client: Client, job: JobSpec, ready: Ready) -> None:
    """Until the client has ended. Raises LaunchError: the server died, the deadline passed."""
    clock = session.sweep.clock
    deadline = clock.monotonic() + job.timeout_s
    while True:
        server, state = client.poll()
        check_alive(session, server, ready.started, ready=True)
        if not state.running:
            return
        if clock.monotonic() > deadline:
            raise LaunchError("hang", f"the benchmark had no result after {job.timeout_s:.0f} s")
        session.sweep.progress.detail(progress_text(state.progress))
        clock.sleep(WATCH_POLL_S)


def require_survivor(session: Session, ready: Ready) -> None:
    """Raises LaunchError when the server dies now: a client sees that before systemd does."""
    clock = session.sweep.clock
    deadline = clock.monotonic() + DYING_S
    while clock.monotonic() < deadline:
        check_alive(session, session.systemd.poll(), ready.started, ready=True)
        clock.sleep(WATCH_POLL_S)
