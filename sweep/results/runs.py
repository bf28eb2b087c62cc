"""The runs below runs/: a new one made, the one that is meant found, all of them listed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path

from sweep.errors import RunDirectoryError
from sweep.results import files
from sweep.results.directory import Now, RunDirectory, utc_now
from sweep.results.records import checked_id

_RUN_ID = re.compile(r".+-(?P<stamp>\d{8}-\d{6})(-(?P<copy>\d+))?")


def new_run(runs_dir: Path, sweep_name: str, now: Now = utc_now) -> RunDirectory:
    """Make `runs/<sweep>-<YYYYmmdd>-<HHMMSS>` (UTC; -2, -3, ... when taken), and runs/ if need be.

    It is a run once its plan is written. Raises RunDirectoryError or OutOfRoom.
    """
    stem = f"{checked_id(sweep_name)}-{now().astimezone(UTC):%Y%m%d-%H%M%S}"
    with files.translated(runs_dir, "make"):
        runs_dir.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        path = runs_dir / (stem if number == 1 else f"{stem}-{number}")
        with files.translated(path, "make"):
            try:
                path.mkdir(files.DIRECTORY_MODE)
            except FileExistsError:
                number += 1
                continue
            files.sync_directory(runs_dir)
        return RunDirectory(path, now)


def untouched(run: RunDirectory) -> bool:
    """Whether nothing was ever done for this run on its host, not even a lock taken.

    Every process of it got no further than connecting, or was refused by the host.
    """
    events = run.events()
    stages = [event.fields.get("stage") for event in events if event.kind == "stage"]
    refusals = sum(event.kind == "refused" for event in events)
    return (
        not run.is_away
        and set(stages) <= {"connect", "take the host"}
        and stages.count("take the host") == refusals
        and not run.rows()
    )


def open_run(runs_dir: Path, run: str | Path | None = None, now: Now = utc_now) -> RunDirectory:
    """An existing run: by id, by path, or the latest; nothing is written or locked.

    Of several the latest is not one that was killed before it had done anything.

    Raises:
        RunDirectoryError: no such run, not a run, or of another version.
    """
    if run is None:
        known = run_ids(runs_dir)
        if not known:
            raise RunDirectoryError(f"no run in {runs_dir}/ yet: `sweep run` starts one")
        path = runs_dir / _latest(runs_dir, known)
    else:
        path = Path(run) if "/" in str(run) or isinstance(run, Path) else runs_dir / run
        if not path.is_dir():
            known = run_ids(runs_dir)
            latest = f"; the latest are {', '.join(known[:-4:-1])}" if known else ""
            raise RunDirectoryError(f"no run {path}{latest}")
    found = RunDirectory(path.resolve(), now)
    found.plan()
    return found


def _latest(runs_dir: Path, known: Sequence[str]) -> str:
    for name in reversed(known):
        run = RunDirectory(runs_dir / name)
        if run.lock_state().held or not untouched(run):
            return name
    return known[-1]


def current_run(runs_dir: Path, run: str | Path | None = None) -> RunDirectory:
    """As `open_run`, but without a name the run that is being worked on, here or on its host."""
    if run is None:
        for known in reversed(run_ids(runs_dir)):
            found = RunDirectory(runs_dir / known)
            if found.lock_state().held or found.is_away:
                return open_run(runs_dir, known)
    return open_run(runs_dir, run)


def run_ids(runs_dir: Path) -> list[str]:
    """The ids of the runs in a directory, oldest first, by the time in their names."""
    if not runs_dir.is_dir():
        return []
    with files.translated(runs_dir, "list"):
        names = [path.parent.name for path in runs_dir.glob("*/plan.json")]
    found = [(match["stamp"], int(match["copy"] or 1), name)
             for name in names if (match := _RUN_ID.fullmatch(name))]  # fmt: skip
    return [name for _, _, name in sorted(found)]
