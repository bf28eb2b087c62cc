"""Writing that is whole or not there: atomic files, whole lines, durable directories.

Every OSError becomes OutOfRoom (no space, over quota) or RunDirectoryError here.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweep.errors import OutOfRoom, RunDirectoryError

# Prompts may stand in what a run leaves: nobody outside the group reads it.
FILE_MODE = 0o640
DIRECTORY_MODE = 0o750
# What must be free before a measurement starts: far above the largest record of one trial.
ROOM_BYTES = 64 * 1024 * 1024

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
# What a file system says that has nothing to flush: some network and shared ones, of directories.
_CANNOT_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)


@contextmanager
def translated(path: Path, doing: str) -> Iterator[None]:
    """Turn an OSError on `path` into the tool's own errors; `doing` completes "cannot ...".

    Raises:
        OutOfRoom: no space left on the device, or over quota.
        RunDirectoryError: anything else.
    """
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno in _NO_ROOM:
            raise OutOfRoom(
                f"cannot {doing} {path}: {why}. Nothing is torn and every row written before is "
                "kept; make room, then resume"
            ) from error
        raise RunDirectoryError(f"cannot {doing} {path}: {why}") from error


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(fd)
    finally:
        os.close(fd)


def sync(fd: int) -> None:
    """Make a file durable, as far as its file system can."""
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise


def make_directory(directory: Path) -> None:
    """The directory, made durable when it is new; its parent must exist."""
    with translated(directory, "make"):
        if not directory.is_dir():
            directory.mkdir(DIRECTORY_MODE, exist_ok=True)
            sync_directory(directory.parent)


def write_atomic(path: Path, data: bytes) -> None:
    """Write a whole file so that it is there whole, durable, or as it was before.

    Raises:
        OutOfRoom: no space left; the file is as it was before.
        RunDirectoryError: it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    with translated(path, "write"):
        try:
            _write_durably(temporary, data)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)


def _write_durably(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        sync(fd)
    finally:
        os.close(fd)


def append_line(path: Path, line: bytes, *, first: bytes = b"", durable: bool = True) -> None:
    """Append whole lines in one write, or nothing. `first` goes before them in an empty file.

    A torn tail (somebody cut the file in the meantime) is closed off, so that the new line stays
    whole. The cost does not depend on the size of the file.

    Raises:
        OutOfRoom: no space left; the file is as it was before.
        RunDirectoryError: it cannot be written.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    with translated(path, "append to"):
        fd = os.open(path, flags, FILE_MODE)
        try:
            began = _append(fd, line, first, durable)
        finally:
            os.close(fd)
        if began and durable:
            sync_directory(path.parent)


def _append(fd: int, line: bytes, first: bytes, durable: bool) -> bool:
    """True when the file was empty before."""
    size = os.fstat(fd).st_size
    if size == 0:
        line = first + line
    elif os.pread(fd, 1, size - 1) != b"\n":
        line = b"\n" + line
    try:
        _write_whole(fd, line)
        if durable:
            sync(fd)
    except BaseException:
        os.ftruncate(fd, size)
        raise
    return size == 0


def _write_whole(fd: int, data: bytes) -> None:
    if os.write(fd, data) != len(data):
        # A short write to a regular file means that the rest found no room.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def require_room(directory: Path, needed: int = ROOM_BYTES) -> None:
    """Refuse to go on when fewer than `needed` bytes are free where `directory` lies.

    Raises:
        OutOfRoom: too little space, or no inode left.
    """
    with translated(directory, "read the free space of"):
        found = os.statvfs(directory)
    free = found.f_bavail * found.f_frsize
    if free < needed:
        raise OutOfRoom(
            f"{free / 2**20:.0f} MiB free where {directory} lies, {needed / 2**20:.0f} MiB are "
            "needed before a measurement starts; make room there first"
        )
    if found.f_files and not found.f_favail:
        raise OutOfRoom(
            f"no inode free where {directory} lies: it holds too many small files; remove some "
            "first"
        )


def read_bytes(path: Path) -> bytes | None:
    """A whole file; None when there is none.

    Raises:
        RunDirectoryError: it is there and cannot be read.
    """
    with translated(path, "read"):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None


def free_name(path: Path) -> Path:
    """The first of `path`-1, `path`-2, ... that is not taken: where something is kept aside."""
    number = 1
    while (candidate := path.with_name(f"{path.name}-{number}")).exists():
        number += 1
    return candidate
