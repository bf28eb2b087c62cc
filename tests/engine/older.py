"""SGLang 0.5.9 beside the engine, for hosts in the field are not new: one more wheel, 52 MB.

Unmodified, from the registry, without what it requires: it runs on the packages of the engine,
which are newer than it asks for, and its compiled kernels are stood in for by names only
(`standin_older/`). So its parser, its resolution, its log lines, its HTTP, and serving on a CPU
without speculation are its own. Its speculative workers do not run: their memory pool is copied by
a kernel for GPUs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from tests.engine.build import (
    HERE,
    PYTHON,
    Engine,
    NoEngineError,
    cache_folder,
    locked,
    make_room,
    pip,
    ready,
    stamp,
)  # fmt: skip

VERSION = "0.5.9"
STANDIN = HERE / "standin_older"
INSTALL_S, MOST_GB = 180, 0.1


@dataclass(frozen=True)
class Older(Engine):
    """`release` comes before `packages`, which hold the newer one."""

    release: Path

    @property
    def path(self) -> str:
        return f"{STANDIN}:{self.release}:{self.packages}"


def older(engine: Engine) -> Older:
    """The older release, set up if it is not. Raises NoEngineError."""
    cache = cache_folder()
    with locked(cache / "lock"):
        release = cache / f"older-{stamp(PYTHON, VERSION)}"
        if not ready(release):
            make_room(cache, "older-*")
            install(engine, release)
    return Older(engine.python, engine.packages, engine.models, release)


def install(engine: Engine, release: Path) -> None:
    until = time.monotonic() + INSTALL_S
    tree = engine.python.parent.parent
    pip(tree, until, "--no-deps", "--target", str(release), f"sglang=={VERSION}")
    size = sum(file.lstat().st_size for file in release.rglob("*")) / 1e9
    if size > MOST_GB:
        raise NoEngineError(f"SGLang {VERSION} takes {size:.2f} GB: did it bring others with it?")
    (release / "ready").touch()
