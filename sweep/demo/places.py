"""Where a demo host lives on this machine: its private root, its ports, its keys, its files.

A root belongs to the directory the tool is run in and is kept between runs, so that `resume` meets
the same host: same host key, same ports, same journal. While one process uses it another one gets
the next root of that directory, so two demos at once never meet. SWEEP_DEMO_DIR says where they lie
instead of the user's directory for caches.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import shlex
import shutil
import socket
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

COMMANDS = ("systemctl", "systemd-run", "journalctl", "ss", "nvidia-smi")
# Below every system's range for outgoing connections, so that none of these takes a port of ours.
PORTS = range(20000, 31000)
# Gone with the power: the host's memory, not its disk.
_VOLATILE = ("run", "sys", "proc", "bin")
_ROOTS = 64
SPEED, START_S = 20, 0.4


def base() -> Path:
    """The user's directory for caches; a temporary one where there is none to write to."""
    given = os.environ.get("SWEEP_DEMO_DIR")
    if given:
        return Path(given).absolute()
    cache = "Library/Caches" if sys.platform == "darwin" else ".cache"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / cache) / "sweep"
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.gettempdir()) / f"sweep-{os.getuid()}"
    return home


def candidates() -> Iterator[Path]:
    """Roots of the present directory, the usual one first."""
    of = hashlib.sha256(os.fsencode(Path.cwd())).hexdigest()[:8]
    for number in range(1, _ROOTS):
        yield base() / f"demo-{of}-{number}"


def claim(root: Path) -> IO[str] | None:
    """Make the root and hold it for this process; None while another one does."""
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    root.chmod(0o700)
    lock = (root / "lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return lock


def furnish(root: Path) -> None:
    """A host that was just switched on: its disk as it was, nothing in memory."""
    for name in _VOLATILE:
        shutil.rmtree(root / name, ignore_errors=True)
    for name in ("run/systemd/system", "sys/fs/cgroup", "var/tmp", "var/log", "var/lib", "home",
                 "etc/systemd/system/multi-user.target.wants", "proc/sys/kernel/random", "bin",
                 "ssh"):  # fmt: skip
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "proc/sys/kernel/random/boot_id").write_text(f"{uuid.uuid4()}\n")
    environment = {"SWEEP_SIM_SPEED": str(SPEED), "SWEEP_SIM_START_S": str(START_S)}
    if "PYTHONPATH" in os.environ:  # the simulator is found where this process found it
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    (root / "etc/systemd/default-environment.json").write_text(json.dumps(environment))
    main = Path(__file__).with_name("standin") / "__main__.py"
    for command in COMMANDS:
        words = shlex.join([sys.executable, "-I", "-S", str(main), str(root), command])
        _script(root / "bin" / command, f'exec {words} "$@"')
    # There is only one user here, who already is who a sweep acts as.
    _script(root / "bin/sudo", 'while :; do case $1 in -n|-E|-H) shift;; --) shift; break;; '
            '*) break;; esac; done; exec "$@"')  # fmt: skip


def install_production(root: Path, port: int) -> None:
    """`sglang.service`, enabled: the simulator on a port of its own, as somebody left it."""
    command = [sys.executable, "-m", "sweep.demo.simulator", "--model-path",
               "simulated/122b-a10b-mtp", "--tp-size", "4", "--host", "127.0.0.1", "--port",
               str(port), "--speculative-algorithm", "NEXTN", "--speculative-num-steps", "2",
               "--speculative-eagle-topk", "1"]  # fmt: skip
    words = " ".join('"' + word.replace("%", "%%") + '"' for word in command)
    unit = root / "etc/systemd/system/sglang.service"
    unit.write_text(
        "[Unit]\nDescription=SGLang in production (simulated)\n\n"
        f"[Service]\nExecStart={words}\nRestart=always\nRestartSec=1\n\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )
    link = unit.parent / "multi-user.target.wants" / unit.name
    link.unlink(missing_ok=True)
    link.symlink_to(unit)


class Ports:
    """Free ports of this machine, held for this process so that no other demo host takes them."""

    def __init__(self, root: Path, names: tuple[str, ...]) -> None:
        self._file = root / "ports.json"
        self._held: list[IO[str]] = []
        kept = json.loads(self._file.read_text()) if self._file.exists() else {}
        self._ports = {name: self._hold(kept.get(name)) for name in names}
        self._file.write_text(json.dumps(self._ports))

    def __getitem__(self, name: str) -> int:
        return self._ports[name]

    def release(self) -> None:
        for lock in self._held:
            lock.close()

    def _hold(self, wanted: int | None) -> int:
        """The wanted port if it is still free, else another one."""
        directory = Path(tempfile.gettempdir()) / f"sweep-demo-ports-{os.getuid()}"
        directory.mkdir(mode=0o700, exist_ok=True)
        chosen = random.sample(PORTS, len(PORTS))
        for port in [wanted, *chosen] if wanted else chosen:
            lock = (directory / str(port)).open("a")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", port))
            except OSError:
                lock.close()
                continue
            self._held.append(lock)
            return port
        raise OSError("no free port for a demo host")


def new_key(path: Path) -> None:
    """An ed25519 key in OpenSSH's form, 0600."""
    key = Ed25519PrivateKey.generate()
    data = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)


def _script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
