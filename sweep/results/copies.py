"""The copy of a run that works on its host: what this side has, and what came from there."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zlib
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from sweep.errors import RunDirectoryError
from sweep.results import files

if TYPE_CHECKING:
    from sweep.results.directory import RunDirectory

# Which host it is on is known here alone; its plan.json there speaks of the host from within.
PLACE, PLAN = "detached.json", "plan.json"
PLAN_THERE = "plan-there.json"
LOCK = "lock"


def place(run: RunDirectory) -> bytes | None:
    """What was written down when the run was sent away; None: it is here."""
    return files.read_bytes(run.path / PLACE)


def known(run: RunDirectory) -> dict[str, tuple[int, int]]:
    """Every file that came from there or is the same: name -> (bytes, time of its change in ns)."""
    found = {}
    with files.translated(run.path, "list"):
        for path in run.path.rglob("*"):
            name = path.relative_to(run.path).as_posix()
            if path.is_file() and name not in (PLACE, PLAN):
                stat = path.stat()
                key = PLAN if name == PLAN_THERE else name
                found[key] = (stat.st_size, stat.st_mtime_ns)
    return found


def receive(run: RunDirectory, archive: bytes) -> None:
    """Put what came from the host in its place, each file whole.

    Raises RunDirectoryError or OutOfRoom; also for a name that leads out of the directory.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as members:
            for member in members:
                _keep(run, member, members)
    except (tarfile.TarError, EOFError, OSError, ValueError, KeyError, zlib.error) as error:
        raise RunDirectoryError(f"{run.id}: what came from the host is no copy: {error}") from error


def _keep(run: RunDirectory, member: tarfile.TarInfo, members: tarfile.TarFile) -> None:
    parts = PurePosixPath(member.name).parts
    content = members.extractfile(member) if member.isreg() else None
    if content is None or ".." in parts or not parts or parts[0] == "/" or len(parts) > 3:
        raise ValueError(f"{member.name!r} is no file of a run")
    name = PLAN_THERE if member.name == PLAN else member.name
    path = run.path / name
    if path.parent != run.path:
        files.make_directory(path.parent)
    if name == LOCK and path.exists():
        # The file itself is what somebody here may hold by now.
        with files.translated(path, "write"):
            path.write_bytes(content.read())
    else:
        files.write_atomic(path, content.read())
    changed = int(member.pax_headers["SWEEP.mtime_ns"])
    with files.translated(path, "date"):
        os.utime(path, ns=(changed, changed))


def fingerprint_there(run: RunDirectory) -> dict[str, Any]:
    """What the run found out about its host and server while it worked there."""
    data = files.read_bytes(run.path / PLAN_THERE)
    try:
        found = json.loads(data or b"{}").get("fingerprint", {})
    except (ValueError, AttributeError):
        return {}
    return dict(found) if isinstance(found, dict) else {}


def forget(run: RunDirectory) -> None:
    """The run is whole again on this side."""
    with files.translated(run.path, "tidy"):
        for name in (PLAN_THERE, PLACE):
            (run.path / name).unlink(missing_ok=True)
