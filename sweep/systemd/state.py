"""How our unit stands, in one look: values made of what systemd, ss and /proc say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweep.systemd.deadman import DeadMan
from sweep.systemd.lock import ACTIVE
from sweep.systemd.site import BOOT_ID, Site, blocks, quote, text

UNIT_PROPERTIES = (
    "Id", "LoadState", "ActiveState", "SubState", "Result", "ExecMainCode", "ExecMainStatus",
    "InvocationID", "NRestarts", "MainPID", "ControlGroup", "TimeoutStopUSec",
)  # fmt: skip

# waitid(2)'s CLD_ numbers, as ExecMainCode has them.
_EXIT_CODES = {"1": "exited", "2": "killed", "3": "dumped"}
_USER = re.compile(r'\("((?:[^"\\]|\\.)*)",pid=(\d+)')


@dataclass(frozen=True)
class Listener:
    """Who listens on the server's port. pid is None for another user's process in user scope."""

    pid: int | None
    process: str

    @property
    def text(self) -> str:
        return f"pid {self.pid} ({self.process})" if self.pid else "a process of another user"


@dataclass(frozen=True)
class JobState:
    """A benchmark client. `progress` is the last line of the file that tells how far it is.

    exit_status is None while it runs, and when it ended without one: it was killed.
    """

    running: bool
    exit_status: int | None
    progress: str = ""


@dataclass(frozen=True)
class UnitState:
    """Our unit, its port, production and the dead-man timer, at one moment.

    active, sub, result  systemd's words (ActiveState, SubState, Result)
    exit_code            exited, killed, dumped or None: how the main process ended
    exit_status          its exit status, or the number of the signal
    invocation_id        of the present or last start; empty when systemd has forgotten it
    cgroup_pids          every process of the unit
    production_active    production units that somebody started
    deadman              fired: the host gave itself back; gone: the host is not ours any more
    job                  the benchmark client that was asked about
    stop_timeout         how long systemd lets the unit take to stop, in its words
    """

    active: str
    sub: str
    result: str
    exit_code: str | None
    exit_status: int | None
    invocation_id: str
    n_restarts: int
    main_pid: int
    control_group: str
    cgroup_pids: frozenset[int]
    listeners: tuple[Listener, ...]
    production_active: tuple[str, ...]
    boot_id: str
    deadman: DeadMan
    job: JobState | None = None
    stop_timeout: str = ""

    @property
    def running(self) -> bool:
        return self.active in ACTIVE

    @property
    def ended(self) -> bool:
        """The unit has ended and no process of it is left."""
        return self.active in ("inactive", "failed") and not self.cgroup_pids


def look_script(site: Site, control_group: str, others: Sequence[str]) -> str:
    """The sections unit, cgroup, port and boot. `others` are units shown after ours.

    `control_group` is where the unit was seen last: systemd forgets it when the unit ends, though
    a process may be left in it. What the shell can do itself costs the host no process: a look is
    taken twice a second, beside a trial too.
    """
    shown = " ".join(f"-p {name}" for name in UNIT_PROPERTIES)
    units = quote(site.paths.unit, *others)
    roots = " ".join(
        quote(f"{site.host.root}/sys/fs/cgroup{below}") for below in ("", "/systemd", "/unified")
    )
    return f"""
echo @@unit
shown=$({site.systemctl} show {shown} -- {units}) || exit
printf '%s\\n' "$shown"
newline='
'
of_ours() {{
  value=${{shown#*"$newline$1="}}
  [ "$value" != "$shown" ] || value=${{shown#"$1="}}
  value=${{value%%"$newline"*}}
}}
of_ours ControlGroup; group=$value
echo @@cgroup
seen={quote(control_group)}
for root in {roots}; do
  directory="$root${{group:-$seen}}"
  [ "$directory" != "$root" ] && [ -d "$directory" ] || continue
  find "$directory" -name cgroup.procs -exec cat {{}} + 2>/dev/null
done
echo @@port; {port_script(site)}
echo @@boot; read -r boot < {quote(f"{site.host.root}{BOOT_ID}")} && echo "$boot"
"""


def reset_failed(site: Site) -> str:
    """Lines after those of `look_script`: after a stop that we asked for, failed means nothing.
    SGLang may end by SIGKILL."""
    reset = f"{site.systemctl} reset-failed {quote(site.paths.unit)} 2>/dev/null"
    return f"""
of_ours ActiveState
if [ "$value" = failed ]; then {reset}; fi
"""


def port_script(site: Site) -> str:
    return f"ss -Hltnp 'sport = :{site.spec.server.port}'"


def listeners(section: bytes | None) -> tuple[Listener, ...]:
    """What `ss -Hltnp` prints; one entry for each process, whatever addresses it listens on."""
    found: dict[Listener, None] = {}
    for line in text(section).splitlines():
        users = _USER.findall(line)
        for process, pid in users:
            found[Listener(int(pid), process)] = None
        if not users:
            found[Listener(None, "")] = None
    return tuple(found)


def unit_state(
    answer: Mapping[str, bytes],
    *,
    production_active: tuple[str, ...],
    deadman: DeadMan,
    job: JobState | None = None,
) -> UnitState:
    """The sections of `look_script` as a value."""
    shown = blocks(answer.get("unit"))[0]
    code = _EXIT_CODES.get(shown.get("ExecMainCode", ""))
    return UnitState(
        active=shown.get("ActiveState", ""),
        sub=shown.get("SubState", ""),
        result=shown.get("Result", ""),
        exit_code=code,
        exit_status=_number(shown.get("ExecMainStatus")) if code else None,
        invocation_id=shown.get("InvocationID", ""),
        n_restarts=_number(shown.get("NRestarts")),
        main_pid=_number(shown.get("MainPID")),
        control_group=shown.get("ControlGroup", ""),
        cgroup_pids=frozenset(int(pid) for pid in text(answer.get("cgroup")).split()),
        listeners=listeners(answer.get("port")),
        production_active=production_active,
        boot_id=text(answer.get("boot")),
        deadman=deadman,
        job=job,
        stop_timeout=shown.get("TimeoutStopUSec", ""),
    )


def _number(value: str | None) -> int:
    return int(value) if value and value.isdigit() else 0
