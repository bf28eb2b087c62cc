"""What the tool costs before it does anything: whole processes, against an interpreter alone."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

RUNS = 21
COMMANDS = {
    "python3 -c pass": [sys.executable, "-c", "pass"],
    "sweep --help": [sys.executable, "-m", "sweep", "--help"],
    "sweep run overnight --dry-run": [
        sys.executable,
        "-m",
        "sweep",
        "run",
        "overnight",
        "--dry-run",
    ],
}


def once(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def main() -> None:
    """In turn, so that a machine that slows down slows all of them."""
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(RUNS):
        for name, command in COMMANDS.items():
            taken[name].append(once(command))
    base = statistics.median(taken["python3 -c pass"])
    for name, seconds in taken.items():
        median = statistics.median(seconds)
        print(f"{name:32} {median * 1e3:7.1f} ms  x{median / base:.1f}  ({RUNS} runs)")


if __name__ == "__main__":
    main()
