"""nvidia-smi: the published host's four cards, their memory held by whatever simulator runs.

What the cards say of their clocks can be set: the bits in etc/clock-reasons (such as 0x20).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

CARDS = 4
NAME = "Simulated RTX PRO 6000"
DRIVER = "0.0"
MEMORY_MIB = 97887
IDLE_MIB, SERVING_MIB = 4, 89216


def nvidia_smi(root: str, words: list[str]) -> int:
    """--query-gpu and --query-compute-apps in CSV, without header and units; `-l` repeats."""
    while True:
        status = _look(root, words)
        if "-l" not in words:
            return status
        sys.stdout.flush()
        time.sleep(float(words[words.index("-l") + 1]))


def _look(root: str, words: list[str]) -> int:
    holders = _simulators(root)
    queries = dict(word.split("=", 1) for word in words if word.startswith("--query-"))
    if "--query-compute-apps" in queries:
        for uuid, pid in ((_uuid(card), pid) for card in range(CARDS) for pid in holders):
            row = {"gpu_uuid": uuid, "pid": pid, "used_memory": SERVING_MIB,
                   "used_gpu_memory": SERVING_MIB, "process_name": "sglang::scheduler"}  # fmt: skip
            _print(row, queries["--query-compute-apps"])
        return 0
    if "--query-gpu" not in queries:
        sys.stdout.write(f"{CARDS} x {NAME}, held by {len(holders)} simulated servers\n")
        return 0
    used = IDLE_MIB + SERVING_MIB * bool(holders)
    reasons = _clock_reasons(root)
    for card in _chosen(words):
        row = {
            "index": card, "uuid": _uuid(card), "name": NAME, "driver_version": DRIVER,
            "memory.used": used, "memory.total": MEMORY_MIB, "memory.free": MEMORY_MIB - used,
            "temperature.gpu": 61 if holders else 34, "power.draw": 402.0 if holders else 31.0,
            "clocks.sm": 2407, "clocks.mem": 13365, "utilization.gpu": 97 if holders else 0,
            "clocks_event_reasons.active": reasons, "clocks_throttle_reasons.active": reasons,
            "pstate": "P0", "timestamp": time.strftime("%Y/%m/%d %H:%M:%S.000"),
        }  # fmt: skip
        _print(row, queries["--query-gpu"])
    return 0


def _chosen(words: list[str]) -> list[int]:
    """The cards that `-i` names by their UUIDs, or all."""
    names = words[words.index("-i") + 1].split(",") if "-i" in words else ()
    return [card for card in range(CARDS) if not names or _uuid(card) in names]


def _clock_reasons(root: str) -> str:
    file = Path(root, "etc/clock-reasons")
    return f"0x{int(file.read_text(), 16) if file.exists() else 0:016x}"


def _print(row: dict[str, object], query: str) -> None:
    sys.stdout.write(", ".join(str(row.get(name, "[N/A]")) for name in query.split(",")) + "\n")


def _uuid(card: int) -> str:
    return f"GPU-00000000-5137-4ee9-0000-{card:012d}"


def _simulators(root: str) -> list[int]:
    """Simulated servers of this demo host: processes in one of its control groups."""
    pids: list[int] = []
    for procs in Path(root, "sys/fs/cgroup").rglob("cgroup.procs"):
        with suppress(OSError):
            pids += [int(pid) for pid in procs.read_text().split()]
    return [pid for pid in pids if "sweep.demo.simulator" in _command_line(pid)]


def _command_line(pid: int) -> str:
    if Path("/proc/self/cmdline").exists():
        with suppress(OSError):
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        return ""
    return subprocess.run(
        ["ps", "-o", "args=", "-p", str(os.fspath(str(pid)))],
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
