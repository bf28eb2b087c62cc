"""One trial: run the benchmark beside a proven server, watch the server, keep the result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sweep.bench.backends import JobSpec, TrialContext
from sweep.bench.gpus import SAMPLES, watched
from sweep.bench.metrics import Measurement
from sweep.errors import LaunchError, PointError
from sweep.plan import Due, Launch
from sweep.progress import Stage
from sweep.runner.jobs import Client
from sweep.runner.judging import in_full_light
from sweep.runner.launch import Ready, check_alive
from sweep.runner.neighbours import others_told
from sweep.runner.record import Trial, record_result
from sweep.runner.session import Session
from sweep.runner.ticket import TICKET, write_ticket
from sweep.runner.watchdog import as_launch_error, progress_text
from sweep.sglang.redact import redact_text
from sweep.systemd.gpus import used_by

# A server that dies during a trial is noticed within seconds, and one look is one small script.
WATCH_POLL_S = 0.5
# From the first connection that a dying server closes until its last process has ended.
DYING_S = 3.0


@dataclass(frozen=True)
class Work:
    """A benchmark client, and the trial that it measures on a proven server."""

    trial: Trial
    ready: Ready
    context: TrialContext
    job: JobSpec
    client: Client


def run_trial(session: Session, launch: Launch, due: Due, ready: Ready) -> None:
    """Measure one trial and write its row.

    Raises PointError (this trial is spoilt), LaunchError (the server is gone), OutOfRoom.
    """
    sweep = session.sweep
    sweep.run.require_room()
    sweep.stage(Stage("measure", launch, due.point, due.trial))
    trial = Trial(launch, due, sweep.clock.now(), ready)
    context, job = prepare(session, trial, ready)
    job = replace(job, files={**job.files, TICKET: write_ticket(trial, ready)})
    client = session.clients.start(f"{due.point.id}-t{due.trial}-a{due.attempt}", job)
    finish(session, Work(trial, ready, context, job, client))


def prepare(session: Session, trial: Trial, ready: Ready) -> tuple[TrialContext, JobSpec]:
    """What the benchmark needs to know of this trial, and what there is to run."""
    context = session.clients.place(
        TrialContext(
            python=session.sweep.spec.python,
            port=session.server.port,
            model=ready.served_model,
            concurrency=width(trial),
            trial=trial.due.trial,
            steps=trial.launch.config.steps,
            draft_tokens=ready.draft_tokens,
            api_key=session.api_key,
            admitted=ready.capacity.max_running_requests,
            watchdog_s=ready.watchdog_s,
            tokenizer=tokenizer(trial),
        )
    )
    job = session.backend.job(context)
    return context, job if session.clients.local else watched(job, cards(session, trial))


def tokenizer(trial: Trial) -> str:
    """Where the server has its tokenizer from."""
    config = trial.launch.config
    return str(config.flag("tokenizer-path") or config.flag("model-path"))


def cards(session: Session, trial: Trial) -> tuple[str, ...]:
    """The UUIDs of the cards that the trial's server uses."""
    unit = session.sweep.units[trial.launch.id]
    used = used_by(unit.argv, unit.environment, session.facts.gpus)
    return tuple(card.uuid for card in used)


def finish(session: Session, work: Work) -> None:
    """Watch server and client until the client has ended, and write the row.

    Raises PointError, LaunchError, OutOfRoom.
    """
    with ending(session, work.client):
        watch(session, work.client, work.job, work.ready)
        try:
            measurement = read(session, work)
        except PointError as error:
            require_survivor(session, work.ready)
            session.systemd.require_room()
            error = others_told(session, work.trial, error)
            raise as_launch_error(error) from error
        # The host keeps what the client left until the row is on this disk.
        record_result(session, work.trial, measurement)


def read(session: Session, work: Work) -> Measurement:
    """What the client measured; its own result file is kept first. Raises PointError."""
    outputs = work.client.outputs(work.job.outputs)
    for name in work.job.kept:
        if name in outputs:
            data = redact_text(outputs[name], session.secret_values.values())
            session.sweep.run.write_raw(work.trial.key, name, data)
    measurement = session.backend.read(work.context, outputs)
    return in_full_light(session, work.trial, measurement, outputs.get(SAMPLES))


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
    """The client is ended and forgotten when its trial is through, well or not.

    Whatever else ends the sweep leaves it: it may be at work still, or its row not written. Then
    `collect` sees what has become of it, in this process or a later one.
    """
    try:
        yield
    except (PointError, LaunchError):
        with session.sweep.clock.shielded():
            client.end()
        raise
    client.end()


def watch(session: Session, client: Client, job: JobSpec, ready: Ready) -> None:
    """Until the client has ended. Raises LaunchError: the server died, the deadline passed."""
    clock = session.sweep.clock
    deadline = clock.monotonic() + job.timeout_s
    while True:
        session.sweep.require_time()
        asked_at = clock.monotonic()
        server, state = client.poll()
        check_alive(session, server, ready.started, ready=True)
        if not state.running:
            return
        if clock.monotonic() > deadline:
            raise LaunchError("hang", f"the benchmark had no result after {job.timeout_s:.0f} s")
        session.sweep.progress.detail(progress_text(state.progress))
        # The look may have waited on the host.
        clock.sleep(max(0.0, WATCH_POLL_S - (clock.monotonic() - asked_at)))


def require_survivor(session: Session, ready: Ready) -> None:
    """Raises LaunchError when the server dies now: a client sees that before systemd does."""
    clock = session.sweep.clock
    deadline = clock.monotonic() + DYING_S
    while clock.monotonic() < deadline:
        check_alive(session, session.systemd.poll(), ready.started, ready=True)
        clock.sleep(WATCH_POLL_S)
