"""The layer every host gets over its base: the package under test and what its simulator needs.

`PYTHONPATH=/opt/sweep-sim /usr/bin/python3 -m sweep.demo.simulator` works on the hosts, which
have no network: the libraries are copied from this interpreter, so they have to be pure Python.
"""

from __future__ import annotations

import shutil
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from tests.testhost.shell import TesthostError, sh

LIBRARIES = ("uvicorn", "starlette")  # and whatever these need
PATH_ON_HOST = "opt/sweep-sim"
HOST_PYTHONS = ("3.11", "3.13")  # bookworm, trixie: decides which requirements count
PACKAGE = Path(__file__).parents[2] / "sweep"


def layer(base: Path, work: Path) -> Path:
    """A directory to lay over `base`, made in `work` (a tmpfs); compiled by the base's Python."""
    upper = work / "layer"
    target = upper / PATH_ON_HOST
    target.mkdir(parents=True)
    for name in sorted(_closure(LIBRARIES)):
        _copy_library(name, target)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, target / "sweep", ignore=ignored)
    # The hosts' service users cannot write there; uncompiled, each start would cost a second.
    merged, scratch = work / "merged", work / "scratch"
    merged.mkdir()
    scratch.mkdir()
    options = f"lowerdir={base},upperdir={upper},workdir={scratch}"
    sh("mount", "-t", "overlay", "-o", options, "overlay", merged)
    try:
        sh("chroot", merged, "/usr/bin/python3", "-m", "compileall", "-q", f"/{PATH_ON_HOST}")
    finally:
        sh("umount", merged)
    return upper


def _closure(names: tuple[str, ...]) -> set[str]:
    """The named distributions and everything they require on one of the hosts' Pythons."""
    found: set[str] = set()
    wanted = list(names)
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        found.add(name)
        for line in metadata.requires(name) or ():
            needed = Requirement(line)
            environments = [{"python_version": python, "extra": ""} for python in HOST_PYTHONS]
            if needed.marker is None or any(needed.marker.evaluate(e) for e in environments):
                wanted.append(needed.name)
    return found


def _copy_library(name: str, target: Path) -> None:
    for file in metadata.files(name) or ():
        if file.suffix in {".so", ".pyd"}:
            raise TesthostError(f"{name} is not pure Python ({file}): it cannot go to a test host")
        if file.suffix == ".pyc" or ".." in file.parts:
            continue
        destination = target / file
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file.locate(), destination)
