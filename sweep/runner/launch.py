"""One launch: start a server config, wait until it is healthy, prove it is the one that answers.

render -> install -> start -> wait healthy -> verify: what comes out is a `Ready`, or a LaunchError
that says why this launch has no results. A server that an earlier process started (`Standing`) is
waited for and proven all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweep.errors import HostTaken, LaunchError
from sweep.plan import Launch
from sweep.progress import Stage
from sweep.runner.session import Session
from sweep.runner.watchdog import LogSilence
from sweep.sglang.args import expected
from sweep.sglang.failures import classify
from sweep.sglang.journal import scrape
from sweep.sglang.launches import last_launch
from sweep.sglang.redact import redact
from sweep.sglang.verify import Capacity, capacity, mismatches
from sweep.systemd import Listener, Started, UnitState

# How often systemd and the server are asked while it starts: well under the half second in which
# "ready" should be known, and one small script each time.
HEALTH_POLL_S = 0.3
# A look waits so long for a server that starts, and comes back the moment it is ready.
READY_WAIT_S = 2.0
# journald writes with a delay: this long the scheduler's line may lag behind a healthy server.
JOURNAL_LAG_S = 5.0
# Looks further apart than this had a lost connection between them, or nobody who looked: when the
# server became ready in between is not known, and a deadline that passed there is not held against
# it, once.
BLIND_S = 15.0
# A question over a connection that breaks gets no answer, which says nothing of the server.
ASKED_AGAIN = 2
# A unit that is being stopped by somebody has at most its TimeoutStopSec.
ENDING_S = 100.0


@dataclass(frozen=True)
class Ready:
    """A healthy server with the intended configuration. `info` is its redacted /server_info.

    `startup_s` is None when nobody saw it become healthy. `unit_sha256` is its unit file's.
    """

    started: Started
    startup_s: float | None
    capacity: Capacity
    info: Mapping[str, Any]
    unit_sha256: str

    @property
    def draft_tokens(self) -> int | None:
        """Resolved speculative_num_draft_tokens."""
        value = self.info.get("speculative_num_draft_tokens")
        return value if isinstance(value, int) else None

    @property
    def served_model(self) -> str:
        """The name requests ask for."""
        return str(self.info.get("served_model_name") or self.info.get("model_path"))

    @property
    def version(self) -> str | None:
        """SGLang's version, as the server says."""
        value = self.info.get("version")
        return str(value) if value else None

    @property
    def watchdog_s(self) -> float | None:
        """SGLang's own deadline for one forward, --watchdog-timeout."""
        value = self.info.get("watchdog_timeout")
        return float(value) if isinstance(value, int | float) and value > 0 else None

    @property
    def fingerprint(self) -> dict[str, str]:
        """What a run may not mix: see `runner.fingerprint`."""
        return {"sglang_version": self.version} if self.version else {}


@dataclass(frozen=True)
class Standing:
    """A launch that an earlier process of this run started, and that still stands on the host.

    `startup_s` is what that process measured; None: it was not healthy by then, or nobody knows.
    """

    launch: Launch
    started: Started
    startup_s: float | None = None


def start(session: Session, launch: Launch) -> Started:
    """Install and start the launch's unit. Raises LaunchError, or HostTaken."""
    sweep, systemd = session.sweep, session.systemd
    unit = sweep.units[launch.id]
    sweep.stage(Stage("install", launch))
    systemd.install(unit, session.secrets)
    sweep.run.write_unit(launch.id, unit.text)
    sweep.stage(Stage("start", launch))
    started = systemd.start()
    for text in systemd.findings():
        sweep.note(text)
    sweep.run.event("started", launch=launch.id, invocation=started.invocation_id)
    return started


def prove(
    session: Session, launch: Launch, started: Started, standing: Standing | None = None
) -> Ready:
    """Wait until the started server is healthy, and prove it. Raises LaunchError, HostTaken."""
    sweep = session.sweep
    sweep.stage(Stage("wait healthy", launch))
    state, startup_s = wait_healthy(session, started, watched=standing is None)
    if standing is not None and standing.startup_s is not None:
        startup_s = standing.startup_s
    sweep.run.event(
        "ready", launch=launch.id, invocation=started.invocation_id, startup_s=startup_s
    )
    sweep.stage(Stage("verify", launch))
    return verify(session, launch, started, state, startup_s)


def wait_healthy(
    session: Session, started: Started, *, watched: bool = True
) -> tuple[UnitState, float | None]:
    """Ask systemd, then HTTP, until both agree or the deadline passes. A late success is none.

    Returns the seconds the start took, too; None when it was ready before anybody looked again.
    `watched`: it was started just now.
    """
    clock = session.sweep.clock
    age_s = 0.0 if watched else (clock.now() - started.started_at).total_seconds()
    began = clock.monotonic() - max(0.0, age_s)
    limit = session.server.health_timeout_s
    seen_at, excused = began if watched else float("-inf"), False
    suspect: Listener | None = None
    silence = LogSilence(session.systemd, started, clock, session.sweep.note)
    while True:
        session.sweep.require_time()
        asked_at = clock.monotonic()
        state = session.systemd.poll_when_ready(min(READY_WAIT_S, began + limit - asked_at))
        check_alive(session, state, started)
        suspect = _port_is_ours(session, state, suspect)
        health = session.api.health()
        now = clock.monotonic()
        blind = now - seen_at > BLIND_S
        if now - began > limit and (excused or not blind):
            raise LaunchError("start_timeout", _timeout_detail(session, started, limit))
        if health.ok and state.listeners:
            return state, None if blind else now - began
        seen_at, excused = now, blind
        silence.look()
        session.sweep.progress.detail(health.detail if health.status else "not answering yet")
        # The look may have waited on the host.
        clock.sleep(max(0.0, HEALTH_POLL_S - (clock.monotonic() - asked_at)))


def _port_is_ours(session: Session, state: UnitState, suspect: Listener | None) -> Listener | None:
    """Raise when a stranger has taken the port: SGLang finds out after it has loaded, and stays.

    Seen twice, because a process of ours may be born between two lines of one look.
    """
    found = stranger(state)
    if found is not None and found == suspect:
        raise LaunchError(
            "port_in_use",
            f"port {session.server.port} was taken meanwhile by {session.systemd.named(found)}",
        )
    return found


def stranger(state: UnitState) -> Listener | None:
    """Who listens on the server's port without being of its unit; None: nobody."""
    return next((one for one in state.listeners if one.pid not in state.cgroup_pids), None)


def check_alive(
    session: Session, state: UnitState, started: Started, *, ready: bool = False
) -> None:
    """Raise unless the unit is the one that was started, alive, under this sweep's control."""
    host = session.host.name
    if state.deadman == "fired":
        raise HostTaken(
            f"{host}: the host's own timer has given it back to production, because this sweep was "
            "silent too long"
        )
    if state.boot_id != session.facts.boot_id:
        raise HostTaken(f"{host} was rebooted while the sweep ran")
    if state.production_active:
        names = ", ".join(state.production_active)
        raise HostTaken(f"{host}: somebody started {names}; production is left running")
    if state.deadman == "gone":
        raise HostTaken(f"{host}: the host is not this sweep's any more; somebody restored it")
    if not state.running or state.invocation_id != started.invocation_id or state.n_restarts:
        raise death(session, started, ready=ready)


def death(session: Session, started: Started, *, ready: bool) -> LaunchError | HostTaken:
    """Why the started unit is not up any more: it failed, or somebody asked for its end.

    Starting production stops our unit first, so for a moment nobody seems to be serving.
    """
    state = _when_ended(session)
    journal = session.journal(started, ended=True)
    if state.production_active or last_launch(journal).stopped_at is not None:
        who = ", ".join(state.production_active)
        what = f"started {who}" if who else f"stopped {session.sweep.spec.unit}"
        return HostTaken(f"{session.host.name}: somebody {what}; production is left running")
    failure = classify(
        journal,
        result=state.result,
        exit_code=state.exit_code or "",
        exit_status=state.exit_status,
        ready=ready,
    )
    return LaunchError(failure.kind, failure.detail)


def _when_ended(session: Session) -> UnitState:
    """How the unit stands once all of it has ended, or its stop time has passed."""
    clock = session.sweep.clock
    deadline = clock.monotonic() + ENDING_S
    while True:
        state = session.systemd.poll()
        if state.ended or clock.monotonic() > deadline:
            return state
        clock.sleep(HEALTH_POLL_S)


def _timeout_detail(session: Session, started: Started, limit: float) -> str:
    lines = session.journal(started).decode(errors="replace").strip().splitlines()
    last = lines[-1].split("\r")[-1].strip() if lines else "nothing"
    return f"not healthy after {limit:g} s; the journal's last line: {last}"


def verify(
    session: Session, launch: Launch, started: Started, state: UnitState, startup_s: float | None
) -> Ready:
    """Who answers on the port, with which configuration, and how much it admits."""
    if other := stranger(state):
        raise LaunchError(
            "wrong_configuration",
            f"port {session.server.port} is answered by {session.systemd.named(other)}, not in "
            f"{session.sweep.spec.unit}",
        )
    info = server_info(session, started)
    wrong = mismatches(expected(launch.config), info)
    if wrong:
        raise LaunchError("wrong_configuration", "; ".join(wrong))
    known = redact(info, session.secret_values.values())
    sha256 = session.sweep.units[launch.id].sha256
    return Ready(started, startup_s, _capacity(session, started, info), known, sha256)


def server_info(session: Session, started: Started) -> dict[str, Any]:
    """/server_info, asked again as long as it may be the connection that failed."""
    for _ in range(ASKED_AGAIN):
        try:
            return session.api.server_info()
        except LaunchError as error:
            if error.failure == "wrong_configuration":
                raise
            # A look comes back when the connection does.
            check_alive(session, session.systemd.poll(), started)
    return session.api.server_info()


def _capacity(session: Session, started: Started, info: Mapping[str, Any]) -> Capacity:
    """The journal's numbers against the server's; the journal gets a moment to catch up."""
    clock = session.sweep.clock
    deadline = clock.monotonic() + JOURNAL_LAG_S
    while True:
        found = scrape(session.journal(started))
        if found.max_running_requests is not None or clock.monotonic() > deadline:
            known = capacity(found, info)
            if known.gaps:
                session.sweep.note(f"the journal of this start is incomplete: {known.gaps}")
            return known
        clock.sleep(HEALTH_POLL_S)
