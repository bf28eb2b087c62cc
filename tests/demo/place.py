"""A host to try systemd's commands on: the demo host over SSH, or a real Debian host."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import paramiko

from sweep.demo.host import Endpoint
from tests.testhost import Machine


@dataclass(frozen=True)
class Said:
    status: int
    out: str
    error: str


class Place(Protocol):
    root: str
    python: str

    def sh(self, script: str, stdin: str = "") -> Said: ...


class OnDemo:
    def __init__(self, there: Endpoint, python: str) -> None:
        self.root = str(there.root)
        self.python = python
        self.client = login(there)

    def sh(self, script: str, stdin: str = "") -> Said:
        channel = self.client.get_transport().open_session()  # type: ignore[union-attr]
        channel.exec_command(script)
        channel.sendall(stdin.encode())
        channel.shutdown_write()
        out = channel.makefile("rb").read().decode(errors="replace")
        error = channel.makefile_stderr("rb").read().decode(errors="replace")
        return Said(channel.recv_exit_status(), out, error)


class OnMachine:
    root = ""
    python = "/usr/bin/python3"

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def sh(self, script: str, stdin: str = "") -> Said:
        done = self._machine.run("sh", "-c", script, stdin=stdin, check=False)
        return Said(done.returncode, done.stdout, done.stderr)


def login(there: Endpoint) -> paramiko.SSHClient:
    client = paramiko.SSHClient()
    client.load_host_keys(str(there.known_hosts))
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    client.connect(
        there.address, there.port, there.user, key_filename=str(there.key_file),
        allow_agent=False, look_for_keys=False,
    )  # fmt: skip
    return client


class Units:
    """systemd of one place, in few words. Units made here are removed by `clean`."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._made: list[str] = []
        self._unwritten: dict[str, str] = {}

    def install(self, name: str, text: str) -> None:
        """A unit file under /run, there when the next script runs."""
        self._made.append(name)
        self._unwritten[f"{self.place.root}/run/systemd/system/{name}"] = text

    def service(self, name: str, *lines: str, unit: tuple[str, ...] = ()) -> None:
        self.install(name, "\n".join(["[Unit]", *unit, "[Service]", *lines, ""]))

    def run(self, script: str, stdin: str = "") -> Said:
        writes = [
            f"printf %s {shlex.quote(text)} > {shlex.quote(path)}"
            for path, text in self._unwritten.items()
        ]
        reload = ["systemctl daemon-reload"] if writes else []
        self._unwritten.clear()
        return self.place.sh("\n".join([*writes, *reload, script]), stdin)

    def ok(self, script: str, stdin: str = "") -> str:
        said = self.run(script, stdin)
        assert said.status == 0, said
        return said.out

    def show(self, name: str, *properties: str) -> dict[str, str]:
        wanted = ",".join(properties)
        out = self.ok(f"systemctl show -p {wanted} -- {name}")
        return dict(line.split("=", 1) for line in out.splitlines())

    def state(self, name: str) -> str:
        return self.show(name, "ActiveState")["ActiveState"]

    def journal(self, name: str, invocation_id: str, *options: str) -> str:
        return self.ok(
            f"journalctl --sync; journalctl --quiet --no-pager {shlex.join(options)} "
            f"_SYSTEMD_INVOCATION_ID={invocation_id} + INVOCATION_ID={invocation_id}"
        )

    def group(self, name: str) -> set[int]:
        """The processes of the unit, as its cgroup.procs has them."""
        group = self.show(name, "ControlGroup")["ControlGroup"]
        root = f"{self.place.root}/sys/fs/cgroup"
        out = self.run(f"cat {root}{group}/cgroup.procs {root}/unified{group}/cgroup.procs").out
        return {int(pid) for pid in out.split()} if group else set()

    def until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not true():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def clean(self) -> None:
        if not self._made:
            return
        names = " ".join(dict.fromkeys(self._made))
        directory = shlex.quote(f"{self.place.root}/run/systemd/system")
        # Read anew before the next test's first command, or by whoever uses the host next.
        self.run(
            f"systemctl stop {names}; cd {directory} && rm -rf {names}; "
            f"systemctl reset-failed {names}"
        )


def argv_printer(place: Place) -> str:
    """A command that prints its own words and some environment as one line of JSON."""
    code = "import json,os,sys; print(json.dumps([sys.argv[1:],dict(os.environ)]))"
    return f"{place.python} -I -c '{code}'"


def printed(text: str) -> tuple[list[str], dict[str, str]]:
    line = next(line for line in text.splitlines() if line.startswith("[["))
    words, environment = json.loads(line)
    return words, environment
