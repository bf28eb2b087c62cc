"""A full disk of the host, named as what it is wherever something of ours could not be written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sweep.errors import HostError, HostRefused, LaunchError
from sweep.systemd.site import Site, quote, text

# What every tool prints for ENOSPC and EDQUOT.
_WORDS = ("No space left on device", "Disk quota exceeded")
# A client's result is some hundred kilobytes; with less than this it may not have been written.
LEAST_KIB = 1024


@contextmanager
def full_disk_as_launch_error() -> Iterator[None]:
    """A full disk costs a launch; other trouble with the host stays what it is."""
    try:
        yield
    except HostError as error:
        if not _is_full(error):
            raise
        raise LaunchError("host_disk_full", str(error)) from error


@contextmanager
def full_disk_as_refusal() -> Iterator[None]:
    """A host that has no room for the record of its production is not taken."""
    try:
        yield
    except HostError as error:
        if not _is_full(error):
            raise
        raise HostRefused(
            f"host_disk_full: {error}; make room there (df -h, df -i), then try again"
        ) from error


def require_room(site: Site, directory: str) -> None:
    """Raise LaunchError host_disk_full when hardly anything can be written there any more."""
    answer = site.ask("look at the free space", f"""
at={quote(directory)}
while [ ! -d "$at" ]; do at=$(dirname "$at"); done
echo @@free; df -Pk "$at" | tail -n 1
echo @@inodes; df -Pi "$at" 2>/dev/null | tail -n 1
""")  # fmt: skip
    free, inodes = _available(answer.get("free")), _available(answer.get("inodes"))
    if free is not None and free < LEAST_KIB:
        raise LaunchError(
            "host_disk_full", f"{free} KiB free where {directory} lies on {site.host.name}"
        )
    if inodes == 0 and _total(answer.get("inodes")):
        raise LaunchError(
            "host_disk_full", f"no inode free where {directory} lies on {site.host.name}"
        )


def _is_full(error: HostError) -> bool:
    return any(words in str(error) for words in _WORDS)


def _available(line: bytes | None) -> int | None:
    """Of a line of df: device, total, used, available, percent, mount point."""
    fields = text(line).split()
    return int(fields[3]) if len(fields) >= 6 and fields[3].isdigit() else None


def _total(line: bytes | None) -> int:
    fields = text(line).split()
    return int(fields[1]) if len(fields) >= 6 and fields[1].isdigit() else 0
