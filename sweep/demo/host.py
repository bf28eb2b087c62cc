"""The demo host: switched on in this process, ended with it. `transport: demo` and tests use it."""

from __future__ import annotations

import contextlib
import http.client
import os
import pwd
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import IO

import paramiko

from sweep.demo.places import (
    Ports,
    candidates,
    claim,
    furnish,
    install_production,
    new_key,
)
from sweep.demo.ssh import Login, SshServer
from sweep.errors import HostRefused, HostUnreachable
from sweep.inventory import HostSpec, ProductionCommands

_SHUTDOWN_TIMEOUT_S = 6.0
_PRODUCTION_TIMEOUT_S = 10.0
_PORTS = ("ssh", "server", "production")


@dataclass(frozen=True)
class Endpoint:
    """Where a demo host is reached. `fingerprint` is its host key's, `SHA256:...`.

    `server_port` is for the server under test, `production_port` is where sglang.service serves;
    both are free ports of this machine, and stay the same as long as the root is kept.
    """

    address: str
    port: int
    user: str
    key_file: Path
    known_hosts: Path
    fingerprint: str
    root: Path
    server_port: int
    production_port: int


class DemoHost:
    """One host. Every `start` is a boot: /run is empty, enabled units come up, the disk is kept.

    `root` None takes the usual private directory for the present working directory, or the next one
    while another process uses that. Use it as a context manager, or call `close`.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._wanted = root
        self._lock: IO[str] | None = None
        self._ports: Ports | None = None
        self._manager: subprocess.Popen[str] | None = None
        self._ssh: SshServer | None = None
        self._endpoint: Endpoint | None = None

    def start(self) -> Endpoint:
        """Boot it. Raises HostRefused when its root is in use, HostUnreachable when it fails."""
        try:
            return self._boot()
        except OSError as error:
            self.close()
            raise HostUnreachable(f"demo host: it cannot be set up here: {error}") from error
        except BaseException:
            self.close()
            raise

    @property
    def endpoint(self) -> Endpoint:
        if self._endpoint is None:
            raise HostUnreachable("the demo host is not running")
        return self._endpoint

    def spec(self, spec: HostSpec) -> HostSpec:
        """The inventory's host with this host's ports, address and keys in their places."""
        there = self.endpoint
        server = spec.server.model_copy(update={"port": there.server_port})
        changes: dict[str, object] = {
            "address": there.address,
            "ssh_port": there.port,
            "user": there.user,
            "identity_file": str(there.key_file),
            "host_key": there.fingerprint,
            "server": server,
        }
        if not isinstance(spec.production, ProductionCommands):
            changes["production_health"] = f"http://127.0.0.1:{there.production_port}/health"
        return spec.model_copy(update=changes)

    def disconnect(self) -> None:
        """Cut the connections there are, as a network that fails for a moment."""
        if self._ssh is not None:
            self._ssh.disconnect()

    def reboot(self) -> Endpoint:
        """Power off and on again: the same root, ports and host key; a new boot id and user key."""
        root = self.endpoint.root
        self.close()
        self._wanted = root
        return self.start()

    def close(self) -> None:
        """Power off: everything it started ends."""
        if self._ssh is not None:
            self._ssh.close()
        if self._manager is not None:
            _end(self._manager)
        if self._endpoint is not None:
            _kill_leftovers(self._endpoint.root)
        if self._ports is not None:
            self._ports.release()
        if self._lock is not None:
            self._lock.close()
        self._ssh = self._manager = self._endpoint = self._ports = self._lock = None

    def __enter__(self) -> DemoHost:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def _boot(self) -> Endpoint:
        root = self._claim()
        _kill_leftovers(root)  # of a process that was killed before it could power off
        furnish(root)
        self._ports = Ports(root, _PORTS)
        install_production(root, self._ports["production"])
        host_file, user_file = root / "ssh/host_ed25519", root / "ssh/user_ed25519"
        if not host_file.exists():
            new_key(host_file)
        new_key(user_file)
        host_key, user_key = (
            paramiko.Ed25519Key.from_private_key_file(str(file)) for file in (host_file, user_file)
        )
        user = pwd.getpwuid(os.getuid()).pw_name
        self._manager = _start_manager(root)
        login = Login(user, user_key, _environment(root, user), str(root / "home"))
        self._ssh = SshServer(self._ports["ssh"], host_key, login)
        known_hosts = root / "ssh/known_hosts"
        entry = f"[127.0.0.1]:{self._ssh.port} {host_key.get_name()} {host_key.get_base64()}\n"
        known_hosts.write_text(entry)
        _wait_for_production(self._ports["production"])
        self._endpoint = Endpoint(
            address="127.0.0.1",
            port=self._ssh.port,
            user=user,
            key_file=user_file,
            known_hosts=known_hosts,
            fingerprint=host_key.fingerprint,
            root=root,
            server_port=self._ports["server"],
            production_port=self._ports["production"],
        )
        return self._endpoint

    def _claim(self) -> Path:
        for root in candidates() if self._wanted is None else [self._wanted.absolute()]:
            self._lock = claim(root)
            if self._lock is not None:
                return root
        where = self._wanted or "every private directory for this working directory"
        raise HostRefused(f"demo host: {where} is in use by another process; wait for that to end")


def _wait_for_production(port: int) -> None:
    """A host that somebody sweeps has been up for long. One that does not serve in time may be."""
    until = time.monotonic() + _PRODUCTION_TIMEOUT_S
    while time.monotonic() < until:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/ready")
            if connection.getresponse().status == HTTPStatus.OK:
                return
        connection.close()
        time.sleep(0.05)


def _environment(root: Path, user: str) -> dict[str, str]:
    """What a command over SSH finds: little, as with a real sshd."""
    found = {
        "PATH": f"{root}/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        "HOME": str(root / "home"),
        "USER": user,
        "LOGNAME": user,
        "SHELL": "/bin/sh",
        "SWEEP_DEMO_ROOT": str(root),
    }
    return found | {name: os.environ[name] for name in ("LANG", "TZ") if name in os.environ}


def _start_manager(root: Path) -> subprocess.Popen[str]:
    main = Path(__file__).with_name("manager") / "__main__.py"
    manager = subprocess.Popen(
        [sys.executable, "-I", "-S", str(main), str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(root / "var/log/manager.log").open("wb"),
        text=True,
        cwd="/",
        start_new_session=True,  # a Ctrl-C is for the sweep, not for its host
    )
    said = manager.stdout.readline() if manager.stdout else ""
    if said != "ready\n":
        _end(manager)
        log = (root / "var/log/manager.log").read_text(errors="replace").strip()
        raise HostUnreachable(f"demo host: its service manager did not start: {log[-500:]}")
    return manager


def _end(manager: subprocess.Popen[str]) -> None:
    """Its input closes, it ends what it runs and then itself; SIGKILL if it does not."""
    if manager.stdin:
        with contextlib.suppress(OSError):
            manager.stdin.close()
    try:
        manager.wait(_SHUTDOWN_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        manager.kill()
        manager.wait()
    if manager.stdout:
        manager.stdout.close()


def _kill_leftovers(root: Path) -> None:
    """SIGKILL to what was started on this host and is still there (where /proc can tell)."""
    mark = f"SWEEP_DEMO_ROOT={root}".encode()
    me = os.getpid()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(entry.name) != me and mark in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
