"""Where things lie on a host, and what our units are called there. Pure values.

    {run}/systemd/system/UNIT                the unit under test (user scope: {run}/systemd/user)
    {run}/sweep/lock                         whose sweep has the host
    {run}/sweep/RUN/record.json              what production was
    {run}/sweep/RUN/restore.sh               puts it back, needs nothing but sh and systemd
    {run}/sweep/RUN/secrets.{env,yaml}       0600
    {run}/sweep/RUN/jobs/UNIT                one empty file per benchmark client started
    {tmp}/sweep-UID/RUN/JOB/                 a benchmark client's directory, its user's, 0700
    {state}/sweep/RUN/                       lock, record and restore.sh once more, no secrets
    {etc}/sweep-boot-RUN.service             runs that restore.sh when the host boots

`{run}` is /run, or /run/user/UID in user scope: gone after a reboot. `{tmp}` is /var/tmp. `{state}`
is /var/lib, or $XDG_STATE_HOME (~/.local/state); `{etc}` is /etc/systemd/system, or
~/.config/systemd/user.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar

# Names become files and units: nothing that a shell, systemd or a directory would read otherwise.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def is_name(text: str) -> bool:
    """Can the text be a file and a part of a unit's name?"""
    return bool(_NAME.fullmatch(text))


def require_name(text: str) -> str:
    """The text, if it can be a file and a part of a unit's name; else ValueError."""
    if not is_name(text):
        raise ValueError(f"not usable as a name on a host: {text!r}")
    return text


@dataclass(frozen=True)
class Homes:
    """Where the user our scripts run as keeps things; user scope alone looks there."""

    home: str = ""
    state: str = ""

    # A shell command that prints the two, a line each.
    ASK: ClassVar[str] = 'echo "$HOME"; echo "${XDG_STATE_HOME:-$HOME/.local/state}"'

    @classmethod
    def parse(cls, printed: str) -> Homes:
        return cls(*printed.splitlines()[:2])


@dataclass(frozen=True)
class Paths:
    """The places of one run on one host. `root` is the demo host's private prefix, else empty."""

    root: str
    scope: str
    uid: int
    run_id: str
    unit: str
    homes: Homes = Homes()

    def __post_init__(self) -> None:
        require_name(self.run_id)

    @property
    def runtime(self) -> str:
        return f"{self.root}/run/user/{self.uid}" if self.scope == "user" else f"{self.root}/run"

    @property
    def unit_file(self) -> str:
        return f"{self.runtime}/systemd/{self.scope}/{self.unit}"

    @property
    def state(self) -> str:
        """What all runs on this host share: the lock, and one directory for each run."""
        return f"{self.runtime}/sweep"

    @property
    def lock(self) -> str:
        return f"{self.state}/lock"

    @property
    def run(self) -> str:
        return f"{self.state}/{self.run_id}"

    @property
    def record(self) -> str:
        return f"{self.run}/record.json"

    @property
    def claim(self) -> str:
        """The name of the unit that this run calls its own, and the hash of what it installed."""
        return f"{self.run}/unit"

    @property
    def restore_script(self) -> str:
        return f"{self.run}/restore.sh"

    @property
    def kept_root(self) -> str:
        """What outlives a reboot, of all runs."""
        state = self.homes.state if self.scope == "user" else f"{self.root}/var/lib"
        return f"{state}/sweep"

    @property
    def kept(self) -> str:
        return f"{self.kept_root}/{self.run_id}"

    @property
    def kept_record(self) -> str:
        """There as long as the run owes the host something."""
        return f"{self.kept}/record.json"

    @property
    def boot_unit(self) -> str:
        return f"sweep-boot-{self.run_id}.service"

    @property
    def boot_unit_file(self) -> str:
        return f"{self._units}/{self.boot_unit}"

    @property
    def boot_target(self) -> str:
        return "default.target" if self.scope == "user" else "multi-user.target"

    @property
    def boot_link(self) -> str:
        """What `systemctl enable` would make."""
        return f"{self._units}/{self.boot_target}.wants/{self.boot_unit}"

    @property
    def _units(self) -> str:
        if self.scope == "user":
            return f"{self.homes.home}/.config/systemd/user"
        return f"{self.root}/etc/systemd/system"

    @property
    def secrets_env(self) -> str:
        return f"{self.run}/secrets.env"

    @property
    def secrets_config(self) -> str:
        return f"{self.run}/secrets.yaml"

    @property
    def start_mark(self) -> str:
        """Of the last start: its token, its second on the host's clock, the invocation before."""
        return f"{self.run}/start"

    @property
    def gpus(self) -> str:
        """The GPUs' memory before our first start, as `gpus.to_bytes` writes it."""
        return f"{self.run}/gpus.json"

    @property
    def work_root(self) -> str:
        # Names in /var/tmp are anybody's to make: whoever makes this directory looks whose it is.
        return f"{self.root}/var/tmp/sweep-{self.uid}"  # noqa: S108

    @property
    def work(self) -> str:
        return f"{self.work_root}/{self.run_id}"

    def job(self, name: str) -> str:
        return f"{self.work}/{require_name(name)}"

    def job_unit(self, name: str) -> str:
        return f"{self.job_unit_prefix}{require_name(name)}.service"

    @property
    def job_unit_prefix(self) -> str:
        return f"sweep-job-{self.run_id}-"

    @property
    def restore_unit(self) -> str:
        """Runs restore.sh: when the timer fires, when a sweep ends, when a person asks."""
        return f"sweep-restore-{self.run_id}.service"

    @property
    def timer(self) -> str:
        return f"sweep-restore-{self.run_id}.timer"

    def of_run(self, run_id: str) -> Paths:
        """The same host's places of another run."""
        return replace(self, run_id=run_id)
