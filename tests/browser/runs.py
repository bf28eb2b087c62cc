"""What a report may be made of, from nothing at all to a long night."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.report.nights import make_night

Make = Callable[[Path], Path]

PUBLISHED = Path(__file__).parents[2] / "runs" / "published-qwen3.5-122b"
NASTY = "<b>CUDA out of memory</b>. Tried to allocate 2.50 GiB " + "/very/long/path" * 12


def demo(place: Path) -> Path:
    """A real sweep on the demo host."""
    subprocess.run(
        [sys.executable, "-m", "sweep", "run", "demo", "--steps", "1..3", "--concurrency", "1,4",
         "--no-report"],
        cwd=place, check=True, capture_output=True, timeout=240,
    )  # fmt: skip
    return next((place / "runs").iterdir())


def published(place: Path) -> Path:
    return PUBLISHED


def failures(place: Path) -> Path:
    failed = {
        3: ("cuda_oom", NASTY),
        4: ("cuda_oom", "CUDA out of memory"),
        6: ("start_timeout", ""),
    }
    return make_night(place, range(7), (1, 4, 16, 64), failures=failed).path


def all_failed(place: Path) -> Path:
    failed = dict.fromkeys(range(4), ("model_not_found", "/models/m is not there"))
    return make_night(place, range(4), (1, 4), failures=failed).path


def one_point(place: Path) -> Path:
    return make_night(place, (3,), (4,)).path


def long_night(place: Path) -> Path:
    return make_night(place, range(1, 11), (1, 4, 16, 32, 64), trials=3).path


def empty(place: Path) -> Path:
    return make_night(place, (), ()).path


def every_column(place: Path) -> Path:
    """Many concurrencies, few steps, wide numbers."""
    return make_night(place, (0, 5), (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 1024)).path


RUNS: dict[str, Make] = {
    "demo": demo,
    "published": published,
    "failures": failures,
    "all-failed": all_failed,
    "one-point": one_point,
    "long-night": long_night,
    "many-loads": every_column,
    "empty": empty,
}
