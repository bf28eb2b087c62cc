"""Starting a process as a unit's, and telling which processes are a unit's."""

from __future__ import annotations

import asyncio
import ctypes
import os
import pwd
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36

# systemd's exit statuses for what fails between fork and exec (systemd.exec(5)).
CHDIR, EXEC, USER, STDOUT = 200, 203, 217, 209
_STEPS = {CHDIR: "CHDIR", EXEC: "EXEC", USER: "USER", STDOUT: "STDOUT"}


class SetupFailed(Exception):
    """The process could not be set up: `status` is what systemd exits with, `step` its name."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.step = _STEPS[status]


@dataclass(frozen=True)
class Plan:
    """One process to start. Output ends are file descriptors; input is /dev/null."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str
    user: str
    stdout: int
    stderr: int


async def spawn(plan: Plan) -> asyncio.subprocess.Process:
    """Start it as the leader of a session of its own. Raises SetupFailed."""
    if not Path(plan.directory).is_dir():
        raise SetupFailed(
            CHDIR, f"Changing to the requested working directory failed: {plan.directory}"
        )
    identity: dict[str, object] = {}
    if plan.user and _uid(plan.user) != os.getuid():
        if os.getuid() != 0:
            raise SetupFailed(USER, "Failed to determine user credentials: Operation not permitted")
        account = pwd.getpwuid(_uid(plan.user))
        identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    if not os.access(plan.argv[0], os.X_OK):
        raise SetupFailed(EXEC, f"{plan.argv[0]}: no such file, or not executable")
    try:
        return await asyncio.create_subprocess_exec(
            *plan.argv,
            stdin=subprocess.DEVNULL,
            stdout=plan.stdout,
            stderr=plan.stderr,
            cwd=plan.directory,
            env=dict(plan.environment),
            start_new_session=True,
            **identity,  # type: ignore[arg-type]
        )
    except OSError as error:
        raise SetupFailed(EXEC, str(error)) from error


def _uid(user: str) -> int:
    if user.isdigit():
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError as error:
        raise SetupFailed(USER, f"Failed to determine user credentials: no user {user}") from error


def resolve(word: str, path: str) -> str:
    """The executable as an absolute path, looked for in `path`; unchanged when it is nowhere."""
    if "/" in word:
        return word
    places = (os.path.join(place, word) for place in path.split(":"))  # noqa: PTH118 - hot, text
    return next((found for found in places if os.access(found, os.X_OK)), word)


def adopt_orphans() -> None:
    """On Linux: what a unit's process leaves behind becomes our child, so that we can reap it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def members(invocation_ids: Mapping[str, int], children: set[int]) -> dict[str, set[int]]:
    """For each invocation id (with the session its main process led) its living processes.

    Linux knows a process by the INVOCATION_ID it was started with, so a child in a session of its
    own is found, too; elsewhere by its process group. `children` are those somebody waits for.
    """
    found: dict[str, set[int]] = {one: set() for one in invocation_ids}
    by_session = {session: one for one, session in invocation_ids.items() if session}
    for pid, session, mark in _processes(set(by_session), children):
        owner = mark if mark in found else by_session.get(session, "")
        if owner:
            found[owner].add(pid)
    return found


def _processes(known: set[int], children: set[int]) -> Iterable[tuple[int, int, str]]:
    """(pid, session, INVOCATION_ID or "") of every process that is no zombie."""
    if not Path("/proc/self/stat").exists():
        yield from _listed()
        return
    for entry in os.listdir("/proc"):  # noqa: PTH208 - a scan of hundreds, names are enough
        if not entry.isdigit():
            continue
        with suppress(OSError, IndexError, ValueError):
            stat = Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()
            if stat[0] in (b"Z", b"X"):
                if int(stat[1]) == os.getpid() and int(entry) not in children:
                    os.waitpid(int(entry), os.WNOHANG)
                continue
            session = int(stat[3])
            mark = ""
            if session not in known:
                environ = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
                marks = [one for one in environ if one.startswith(b"INVOCATION_ID=")]
                mark = marks[-1][14:].decode() if marks else ""
            yield int(entry), session, mark


def _listed() -> Iterable[tuple[int, int, str]]:
    shown = subprocess.run(
        ["ps", "-A", "-o", "pid=,pgid=,stat="], capture_output=True, text=True, check=False
    ).stdout
    for line in shown.splitlines():
        pid, group, state = line.split(None, 2)
        if not state.startswith("Z"):
            yield int(pid), int(group), ""


def send(pids: Iterable[int], signum: int) -> None:
    """The signal to each of them that is still there."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signum)
