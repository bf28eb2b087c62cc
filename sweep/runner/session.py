"""What every step of a run needs, put together once, and how it tells what happens."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from sweep.bench.backends import Backend, backend_for
from sweep.errors import HostRefused, OutOfTime, SweepError
from sweep.hints import PLAIN, Commands
from sweep.host import Host
from sweep.inventory import BuiltinBenchmark, CommandBenchmark, HostSpec, ServerSpec
from sweep.plan import Due, Launch, Plan
from sweep.progress import Progress, Stage
from sweep.results import RunDirectory
from sweep.runner.jobs import Clients, HostClients, LocalClients
from sweep.sglang.api import Api
from sweep.sglang.redact import redact_text
from sweep.signals import InterruptibleClock
from sweep.systemd import HostFacts, Started, Systemd
from sweep.unit import RenderedUnit, SecretFiles, secret_files, secret_values
from sweep.until import Until

OLDEST_PYTHON = (3, 8)  # whose syntax the client keeps to


@dataclass(frozen=True)
class Sweep:
    """One execution of a plan: the values it is made of, and where it writes and shows."""

    plan: Plan
    units: Mapping[str, RenderedUnit]
    spec: HostSpec
    run: RunDirectory
    progress: Progress
    clock: InterruptibleClock
    accept_changes: bool = False
    until: Until | None = None
    commands: Commands = PLAIN

    def stage(self, stage: Stage) -> None:
        """Tell the person and events.jsonl what begins now. Ends here after a signal."""
        self.clock.check()
        self.progress.stage(stage)
        fields = {
            "stage": stage.name,
            "launch": stage.launch.id if stage.launch else None,
            "point": stage.point.id if stage.point else None,
            "concurrency": stage.point.concurrency if stage.point else None,
            "trial": stage.trial,
        }
        self.run.event("stage", **fields)
        if self.until is not None:
            self.until.taken.stage(self.clock.now(), fields)

    def require_time(self, launch: Launch | None = None, trial: Due | None = None) -> None:
        """Raise OutOfTime unless --until allows what comes next: to go on with what is going on,
        one more trial, or one more launch that begins with that trial."""
        if self.until is None:
            return
        now = self.clock.now()
        if trial is None:
            reason = self.until.why_end(now)
        elif launch is None:
            reason = self.until.why_no_trial(now, trial.point.concurrency)
        else:
            reason = self.until.why_no_launch(now, launch, trial.point.concurrency)
        if reason is not None:
            raise OutOfTime(reason)

    def note(self, text: str) -> None:
        """Tell the person, events.jsonl and sweep.log something worth knowing later."""
        self.progress.note(text)
        self.run.event("note", text=text)
        self.run.log(text)


@dataclass(frozen=True)
class Session:
    """A sweep on a connected host, from the first connection to the last."""

    sweep: Sweep
    host: Host
    systemd: Systemd
    api: Api
    backend: Backend
    clients: Clients
    facts: HostFacts
    secrets: SecretFiles = field(repr=False)
    secret_values: Mapping[str, str] = field(repr=False)

    @property
    def server(self) -> ServerSpec:
        return self.sweep.spec.server

    @property
    def api_key(self) -> str | None:
        return self.secret_values.get("api-key")

    def journal(self, started: Started, *, ended: bool = False) -> bytes:
        """The journal of one start, without secrets."""
        data = self.systemd.journal(started.invocation_id, ended=ended)
        return redact_text(data, self.secret_values.values())

    def stop(self, launch: Launch, started: Started | None) -> None:
        """End the launch, keep its journal. Raises LaunchError when the host does not get free."""
        self.sweep.stage(Stage("stop", launch))
        self.quiesce()
        try:
            self.systemd.stop()
        finally:
            if started is not None:
                self.sweep.run.write_journal(launch.id, self.journal(started, ended=True))

    def quiesce(self, *, doubtful: bool = False) -> None:
        """End what the server still works on: SGLang drains without limit otherwise.

        Where this sweep may have lost its host (`doubtful`, or it has slept for long) the host is
        asked first: another sweep's server may answer on the port.
        """
        doubtful = doubtful or self.systemd.silent_s > self.sweep.spec.deadman_s / 2
        with suppress(SweepError, OSError):
            if not doubtful or self.systemd.has_the_host():
                self.api.abort_all()


def require_python(host: Host, spec: HostSpec, version: str | None) -> None:
    """Raise HostRefused where the client cannot run: before production is stopped for it."""
    numbers = re.search(r"(\d+)\.(\d+)\S*$", version or "")
    if numbers and (int(numbers[1]), int(numbers[2])) >= OLDEST_PYTHON:
        return
    found = f"is Python {version}" if version else "does not run"
    raise HostRefused(
        f"{host.name}: {spec.python} {found} there, and the benchmark client needs 3.8 or newer; "
        "correct hosts.*.python in the inventory"
    )


@contextmanager
def open_session(sweep: Sweep, host: Host) -> Iterator[Session]:
    """Everything that is there for as long as the host is connected."""
    spec, benchmark = sweep.spec, sweep.plan.benchmark
    values = secret_values(spec.server)
    systemd = Systemd(host, spec, sweep.clock, sweep.run.id, sweep.commands)
    with ExitStack() as stack:
        local = isinstance(benchmark, BuiltinBenchmark) and benchmark.run_on == "controller"
        port = stack.enter_context(host.tunnel(spec.server.port, direct=local))
        clients: Clients = (
            LocalClients(stack, port, systemd)
            if local
            else HostClients(systemd, user=None if spec.scope == "user" else spec.server.user)
        )
        if not isinstance(benchmark, CommandBenchmark) and not local:
            require_python(host, spec, systemd.facts.python_version)
        yield Session(
            sweep=sweep,
            host=host,
            systemd=systemd,
            api=Api(port, api_key=values.get("api-key")),
            backend=backend_for(benchmark),
            clients=clients,
            facts=systemd.facts,
            secrets=secret_files(spec.server),
            secret_values=values,
        )
