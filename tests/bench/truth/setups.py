"""Virtual environments of the bench's own, set up by pip in a cache folder, once.

The folder is sweep-tests/clients under $XDG_CACHE_HOME or ~/.cache. SGLang's wheel is where
`tests/engine/build.py` has set it up; nothing is set up for it here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ENGINE = Path(__file__).parents[2] / "engine"


class Missing(Exception):
    """Why a client cannot be run here."""


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sweep-tests"


def system_python() -> str:
    """The Python that a login finds: a trial's client is run by it, on the server's host.

    Builds differ: one that pyenv made takes a quarter more time for the same than Debian's.
    """
    return shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or sys.executable


def python_with(requirement: str) -> Path:
    """The interpreter of an environment of the system's Python that has `requirement`."""
    folder = cache() / "clients" / f"system-{requirement.replace('==', '-')}"
    python = folder / "bin" / "python"
    if (folder / "ready").exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    for command in (
        [system_python(), "-m", "venv", "--without-pip", str(folder)],
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", requirement],
    ):
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        if ended.returncode:
            raise Missing(f"pip install {requirement}: {ended.stderr.strip()[-200:]}")
    (folder / "ready").touch()
    return python


def engine() -> tuple[Path, str, Path]:
    """SGLang as the engine tests have it: python, PYTHONPATH, folder of a model."""
    folder = Path(os.environ.get("SWEEP_ENGINE_CACHE") or cache() / "engine")
    trees = sorted(path.parent for path in folder.glob("packages-*/ready"))
    models = sorted(path.parent for path in folder.glob("models-*/ready"))
    if not trees or not models:
        raise Missing(f"no SGLang in {folder}: python -m tests.engine.build sets it up")
    packages = next(trees[-1].glob("lib/python*/site-packages"))
    return trees[-1] / "bin" / "python", f"{ENGINE / 'standin'}:{packages}", models[-1] / "target"
