"""Sweep SGLang's speculative decoding settings over SSH, and say which to use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sweep.report.data import Results

__version__ = "0.1.0"


def load_run(path: str | Path) -> Results:
    """A run's directory, or a CSV of measurements, as typed pandas frames: see `Results`.

    Raises:
        RunDirectoryError, UsageError: there is no such run, or it cannot be read.
    """
    # pandas is loaded by whoever asks for frames, not by every `sweep --help`.
    from sweep.report.data import run_frames  # noqa: PLC0415

    return run_frames(Path(path))
