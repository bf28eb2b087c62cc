"""Hosts that the contract tests of `sweep.systemd` run on, each as one of its identities."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import shlex
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sweep.clock import SystemClock
from sweep.host import Host, Result
from sweep.inventory import HostSpec, ServerSpec
from sweep.systemd import Owner, Systemd
from sweep.unit import RenderedUnit, SecretFiles

UNIT = "sglang-sweep.service"
NO_SECRETS = SecretFiles(None, None)
PYTHON = "/usr/bin/python3"

_numbers = itertools.count(1)


class HurriedClock(SystemClock):
    """A sleep takes a twentieth of its time and counts five times, so that deadlines pass."""

    def __init__(self) -> None:
        super().__init__()
        self._skipped_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._skipped_s

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds / 20)
        self._skipped_s += 5 * seconds


@dataclass(frozen=True)
class Target:
    """One host as one identity: `host` is connected, `spec` is what the inventory would say."""

    host: Host
    spec: HostSpec
    release: str

    def with_(self, **changes: object) -> Target:
        """The same host with other settings: of HostSpec, or of its server (`server_port`)."""
        server = {
            key.removeprefix("server_"): changes.pop(key)
            for key in [*changes]
            if key.startswith("server_")
        }
        spec = self.spec.model_copy(update=changes)
        spec = spec.model_copy(update={"server": spec.server.model_copy(update=server)})
        return Target(self.host, spec, self.release)

    @property
    def systemctl(self) -> str:
        return "systemctl --user" if self.spec.scope == "user" else "systemctl"

    @property
    def port(self) -> int:
        return self.spec.server.port

    @property
    def unit_directory(self) -> str:
        """Where production's own units lie: not where the tool puts its own."""
        if self.spec.scope == "user":
            return f"{self.sh('echo ~').strip()}/.config/systemd/user"
        return f"{self.host.root}/etc/systemd/system"

    @property
    def runtime(self) -> str:
        uid = self.sh("id -u").strip()
        return f"{self.host.root}/run" + (f"/user/{uid}" if self.spec.scope == "user" else "")

    def sh(self, script: str) -> str:
        """The output of a script that must succeed."""
        result = self.host.run(script)
        assert result.ok, f"exit {result.exit_status}: {result.tail()}"
        return result.text

    def run(self, script: str) -> Result:
        return self.host.run(script)

    def systemd(self, run_id: str | None = None, *, hurried: bool = False) -> Systemd:
        clock = HurriedClock() if hurried else SystemClock()
        return Systemd(self.host, self.spec, clock, run_id or new_run())

    @property
    def kept(self) -> str:
        """Where the tool keeps what outlives a reboot."""
        if self.spec.scope == "user":
            return f"{self.sh('echo ~').strip()}/.local/state/sweep"
        return f"{self.host.root}/var/lib/sweep"

    def active(self, unit: str) -> str:
        return self.sh(f"{self.systemctl} show -p ActiveState {shlex.quote(unit)}").strip()[12:]

    def add_units(self, units: dict[str, str], *, start: Sequence[str] = ()) -> None:
        for name, text in units.items():
            self.host.put(f"{self.unit_directory}/{name}", text.encode())
        self.sh(f"{self.systemctl} daemon-reload")
        if start:
            self.sh(f"{self.systemctl} start {shlex.join(start)}")

    def remove_units(self, names: Iterable[str]) -> None:
        for name in names:
            path = shlex.quote(f"{self.unit_directory}/{name}")
            self.run(f"{self.systemctl} stop {shlex.quote(name)}; rm -rf {path} {path}.d")
            self.run(f"{self.systemctl} reset-failed {shlex.quote(name)}")
        self.sh(f"{self.systemctl} daemon-reload")

    def wipe(self) -> None:
        """Remove it all, so that one failed test does not fail the next."""
        state, unit = f"{self.runtime}/sweep", f"{self.runtime}/systemd/*/{self.spec.unit}"
        self.run(f"{self.systemctl} stop '*sweep*'; rm -rf {state} {unit} {self.kept}")
        self.run(f"find {self.unit_directory} -name 'sweep-*' -delete")
        self.run(f"rm -rf {self.host.root}/var/tmp/sweep-*; {self.systemctl} daemon-reload")
        self.run(f"{self.systemctl} reset-failed '*sweep*'")

    def left_over(self) -> list[str]:
        """Everything of the tool that can still be seen on the host."""
        found = self.sh(f"""
{self.systemctl} list-units --all --plain --no-legend '*sweep*'
{self.systemctl} list-timers --all --no-legend '*sweep*'
find {self.runtime}/sweep {self.runtime}/systemd {self.host.root}/var/tmp {self.kept} \
  {self.unit_directory} 2>/dev/null | grep sweep
ss -Hltn 'sport = :{self.port}'
:""")
        return found.splitlines()


def new_run() -> str:
    return f"r-test-{next(_numbers)}"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def host_spec(**settings: object) -> HostSpec:
    server = ServerSpec(command=(PYTHON, "-m", "server"), port=free_port(), health_timeout_s=30)
    return HostSpec.model_validate({"unit": UNIT, "python": PYTHON, "server": server, **settings})


def rendered(
    target: Target, exec_start: str, *, service: str = "", conflicts: Sequence[str] = ()
) -> RenderedUnit:
    """A unit as the tool renders it, in everything that matters to systemd."""
    production = target.spec.production if isinstance(target.spec.production, tuple) else ()
    units = " ".join([*production, *conflicts])
    user = target.spec.server.user
    text = "\n".join([
        "[Unit]", "Description=under test",
        *([f"Conflicts={units}", f"After={units}"] if units else []),
        "[Service]", "Type=exec", f"ExecStart={exec_start}", "Restart=no",
        "LogRateLimitIntervalSec=0", "KillMode=control-group", "TimeoutStopSec=20",
        *([f"User={user}"] if user else []), service, "",
    ])  # fmt: skip
    digest = hashlib.sha256(text.encode()).hexdigest()
    return RenderedUnit(target.spec.unit, text, digest, tuple(exec_start.split()), {}, (), ())


def http_server(port: int) -> str:
    return f"{PYTHON} -m http.server {port} --bind 127.0.0.1 --directory /usr/share"


def service(exec_start: str, unit: str = "", more: str = "") -> str:
    """A unit as a host's production has it."""
    return f"[Unit]\n{unit}\n[Service]\nExecStart={exec_start}\n{more}\n"


def me() -> Owner:
    """This process as the owner of a sweep."""
    return Owner.here(SystemClock().now())


def somebody(**changes: object) -> Owner:
    """A live owner on another machine."""
    owner = dataclasses.replace(me(), user="ann", controller="laptop", machine="another", pid=4711)
    return dataclasses.replace(owner, **changes)  # type: ignore[arg-type]


def dead() -> Owner:
    """A process of this machine that has ended; its pid may be in use again."""
    return dataclasses.replace(me(), pid_started="long ago")


@contextmanager
def taken(target: Target, run_id: str | None = None, *, hurried: bool = False) -> Iterator[Systemd]:
    """A run that holds the host, and gives it back whatever the test does."""
    systemd = target.systemd(run_id, hurried=hurried)
    try:
        systemd.take(me())
        yield systemd
    finally:
        target.systemd(run_id or systemd.site.paths.run_id).restore(within_s=30)


def wait_for(check: Callable[[], object], what: str, timeout_s: float = 30) -> None:
    """Systemd works on its own time: look until it is so."""
    until = time.monotonic() + timeout_s
    while not check():
        assert time.monotonic() < until, f"waited {timeout_s} s for: {what}"
        time.sleep(0.05)
