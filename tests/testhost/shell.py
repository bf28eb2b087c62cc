"""Commands on this machine, and the error every trouble with test hosts becomes."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path


class TesthostError(Exception):
    """A test host could not be made, started or handled."""

    __test__ = False  # not a test class, whatever its name says to pytest


def sh(
    *argv: str | Path,
    check: bool = True,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command with captured output; with `check`, a non-zero status raises TesthostError."""
    words = [str(word) for word in argv]
    done = subprocess.run(
        words, input=stdin or "", text=True, errors="replace", capture_output=True,
        env=env, cwd=cwd, check=False,
    )  # fmt: skip
    if check and done.returncode:
        raise TesthostError(f"{' '.join(words)}: status {done.returncode}\n{done.stderr.strip()}")
    return done


def read(path: Path | str) -> str:
    """The text of a file, "" when there is none (procfs entries come and go)."""
    with contextlib.suppress(OSError):
        return Path(path).read_text()
    return ""


def wait_until(condition: Callable[[], bool], what: str, *, timeout_s: float) -> None:
    """Look until the condition holds; TesthostError says `what` did not happen in time."""
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            raise TesthostError(f"{what}: not within {timeout_s:g} s")
        time.sleep(0.02)
