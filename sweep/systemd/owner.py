"""Who a sweep is, as seen from another machine: written into the lock on a host."""

from __future__ import annotations

import dataclasses
import getpass
import os
import socket
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

HIDDEN = "hidden"  # instead of the start of a process that is there and may not be seen


@dataclass(frozen=True)
class Owner:
    """One process of this tool.

    machine and boot_id tell whether a lock is of this very machine and start of it: then, and only
    then, pid and pid_started (both as text of the system) say whether that process still lives.
    """

    user: str
    controller: str
    machine: str
    boot_id: str
    pid: int
    pid_started: str
    started: str

    @classmethod
    def here(cls, now: datetime) -> Owner:
        """This process, now."""
        pid = os.getpid()
        return cls(
            user=_user(),
            controller=socket.gethostname(),
            machine=_machine(),
            boot_id=_first_line("/proc/sys/kernel/random/boot_id"),
            pid=pid,
            pid_started=process_started(pid) or "",
            started=now.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        )

    def is_same_process(self, other: Owner) -> bool:
        return dataclasses.replace(self, started="") == dataclasses.replace(other, started="")

    @property
    def text(self) -> str:
        return f"{self.user}@{self.controller} (pid {self.pid})"


def process_started(pid: int) -> str | None:
    """When a process of this machine started, as text that only means something here; None: gone.

    Together with the pid it names one process for ever; a pid alone is used again. HIDDEN: there is
    such a process, of a user whose processes we may not see (/proc mounted with hidepid).
    """
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return HIDDEN if _exists(pid) else None
        # Fields are counted from the state, the third of proc(5); the start is the 22nd.
        return fields[19] if fields[0] not in "ZX" else None
    shown = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)],
        capture_output=True, text=True, check=False, timeout=10,
    )  # fmt: skip
    return shown.stdout.strip() or None


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is there, and not ours
    return True


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a uid without a name
        return f"uid {os.getuid()}"


def _machine() -> str:
    """Containers of one machine share its boot id and often its name, but not a pid namespace.

    Copies of a virtual machine share its machine id, but not its name.
    """
    name = f"{_first_line('/etc/machine-id')} {socket.gethostname()}"
    try:
        return f"{name} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return name


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
