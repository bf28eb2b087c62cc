"""Where one manager (the system's, or the user's) has its files, and how it signs the journal."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass, field
from pathlib import Path

from sweep.demo.manager.journal import Journal


@dataclass(frozen=True)
class World:
    """`scope` is system or user. `defaults` is the environment every unit gets beside systemd's."""

    root: Path
    scope: str
    boot_id: str
    journal: Journal
    defaults: tuple[tuple[str, str], ...] = ()
    # Processes that somebody here waits for; other children are orphans, to be reaped in passing.
    children: set[int] = field(default_factory=set)

    @property
    def runtime(self) -> Path:
        """What `%t` is."""
        run = self.root / "run"
        return run / "user" / str(os.getuid()) if self.scope == "user" else run

    @property
    def directories(self) -> tuple[Path, ...]:
        """Where unit files are looked for, the first wins."""
        if self.scope == "user":
            config = self.root / "home" / ".config"
            return (config / "systemd/user", self.runtime / "systemd/user")
        return (
            self.root / "etc/systemd/system",
            self.root / "run/systemd/system",
            self.root / "usr/lib/systemd/system",
        )

    @property
    def specifiers(self) -> dict[str, str]:
        account = pwd.getpwuid(os.getuid())
        var = f"{self.root}/var"
        return {
            "t": str(self.runtime), "S": f"{var}/lib", "C": f"{var}/cache",
            "L": f"{var}/log", "T": f"{var}/tmp", "V": f"{var}/tmp",  # noqa: S108
            "E": f"{self.root}/etc", "h": f"{self.root}/home", "u": account.pw_name,
            "U": str(account.pw_uid), "g": str(account.pw_gid), "G": str(account.pw_gid),
            "b": self.boot_id.replace("-", ""), "H": os.uname().nodename, "v": os.uname().release,
        }  # fmt: skip

    @property
    def path(self) -> str:
        """PATH of every unit: the stand-ins first."""
        return f"{self.root}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

    def environment(self, invocation_id: str) -> dict[str, str]:
        """What a service starts with before its own Environment=."""
        found = {
            "LANG": os.environ.get("LANG", "C.UTF-8"),
            "PATH": self.path,
            **dict(self.defaults),
        }
        found |= {"INVOCATION_ID": invocation_id, "SWEEP_DEMO_ROOT": str(self.root)}
        if self.scope == "user":
            found |= {"HOME": f"{self.root}/home", "XDG_RUNTIME_DIR": str(self.runtime)}
        return found

    def control_group(self, name: str) -> str:
        if self.scope == "user":
            uid = os.getuid()
            return f"/user.slice/user-{uid}.slice/user@{uid}.service/app.slice/{name}"
        return f"/system.slice/{name}"

    def say(self, name: str, invocation_id: str, message: str, priority: int = 6) -> None:
        """What the manager itself writes about a unit."""
        user = self.scope == "user"
        fields = {
            "SYSLOG_IDENTIFIER": "systemd",
            "PRIORITY": str(priority),
            "_PID": str(os.getpid()) if user else "1",
            "USER_UNIT" if user else "UNIT": name,
        }
        if user:
            fields["_SYSTEMD_USER_UNIT"] = "init.scope"
        if invocation_id:
            fields["USER_INVOCATION_ID" if user else "INVOCATION_ID"] = invocation_id
        self.journal.append(message.encode("utf-8", "surrogateescape"), fields)

    def fields(self, name: str, invocation_id: str) -> dict[str, str]:
        """What journald notes about a line of a unit's process."""
        found = {"PRIORITY": "6", "_TRANSPORT": "stdout", "_UID": str(os.getuid())}
        if self.scope == "user":
            found |= {"_SYSTEMD_UNIT": f"user@{os.getuid()}.service", "_SYSTEMD_USER_UNIT": name}
        else:
            found["_SYSTEMD_UNIT"] = name
        return found | {"_SYSTEMD_INVOCATION_ID": invocation_id}

    def write_cgroup(self, name: str, pids: set[int]) -> None:
        """The unit's cgroup.procs; no directory once nothing is in it."""
        group = Path(f"{self.root}/sys/fs/cgroup{self.control_group(name)}")
        procs = group / "cgroup.procs"
        if pids:
            group.mkdir(parents=True, exist_ok=True)
            new = group / ".procs"
            new.write_text("".join(f"{pid}\n" for pid in sorted(pids)))
            new.replace(procs)
        elif group.exists():
            procs.unlink(missing_ok=True)
            group.rmdir()
