"""One writer for a run directory: flock, with the owner's name beside it.

The kernel drops the lock when its process ends, however it ends, so no lock is ever stale.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from sweep.errors import RunDirectoryError
from sweep.hints import of_run
from sweep.results.files import FILE_MODE, translated

# `lock_state` takes a shared lock for an instant: a writer that meets it asks again.
_TRIES = 10
_PAUSE_S = 0.02


@dataclass(frozen=True)
class LockOwner:
    """Who writes to a run. `since` is UTC, ISO 8601."""

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}, since {self.since}"


@contextmanager
def hold(path: Path, since: str, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Hold the lock file at `path` for this process.

    Raises:
        RunDirectoryError: somebody else holds it (named), or the file system cannot lock.
    """
    with translated(path, "open"):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        if not _locked_after_tries(fd, path, sleep):
            owner = _read_owner(fd)
            raise RunDirectoryError(
                f"{path.parent}: another sweep writes to it"
                + (f" ({owner})" if owner else "")
                + f"; wait for it, or end it with `{of_run('stop', path.parent)}`"
            )
        owner = LockOwner(os.getpid(), socket.gethostname(), since)
        with translated(path, "write"):
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps(asdict(owner)).encode() + b"\n", 0)
        yield
    finally:
        os.close(fd)


def _locked_after_tries(fd: int, path: Path, sleep: Callable[[float], None]) -> bool:
    for turn in range(_TRIES):
        if turn:
            sleep(_PAUSE_S)
        with translated(path, "lock"):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            return True
    return False


@dataclass(frozen=True)
class LockState:
    """`held`: a process holds the lock now. `owner`: who holds it, or held it last."""

    held: bool
    owner: LockOwner | None


def lock_state(path: Path) -> LockState:
    """Whether a live process holds the lock, without disturbing it; works read-only too."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return LockState(held=False, owner=None)
    except OSError as error:
        raise RunDirectoryError(f"cannot open {path}: {error.strerror}") from error
    try:
        with translated(path, "probe the lock of"):
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                held = False
            except BlockingIOError:
                held = True
        return LockState(held, _read_owner(fd))
    finally:
        os.close(fd)


def _read_owner(fd: int) -> LockOwner | None:
    try:
        found = json.loads(os.pread(fd, 4096, 0))
        return LockOwner(int(found["pid"]), str(found["host"]), str(found["since"]))
    except (ValueError, KeyError, TypeError):
        return None  # caught between taking the lock and writing the name
