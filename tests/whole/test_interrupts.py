"""Signals in every stage: the host is given back, and a resume completes the same table."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.whole.conftest import MakeHost
from tests.whole.gpuhost import GpuHost, ended, latest_attempts

STAGES = (
    "take the host",
    "install",
    "start",
    "wait healthy",
    "verify",
    "measure",
    "stop",
    "restore",
)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Every stage once, the signals in turn, and every signal in the stage that takes longest.
CASES = [
    *((stage, SIGNALS[index % 3]) for index, stage in enumerate(STAGES)),
    ("measure", signal.SIGINT),
    ("measure", signal.SIGTERM),
    ("wait healthy", signal.SIGINT),
]
POINTS = {(steps, concurrency) for steps in (1, 2) for concurrency in (1, 4)}
SHORT = {"steps": "1..2", "concurrency": [1, 4], "baseline": False}


def wait_for_stage(host: GpuHost, process: subprocess.Popen[str], stage: str) -> Path:
    """Until the run says that it has reached the stage; the run's directory."""
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        for path in host.directory.glob("runs/*/events.jsonl"):
            lines = [
                json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")
            ]
            if any(line.get("stage") == stage for line in lines):
                return path.parent
        time.sleep(0.01)
    raise AssertionError(f"never reached {stage}: {process.communicate()}")


@pytest.mark.parametrize(
    ("stage", "number"), CASES, ids=lambda value: getattr(value, "name", value)
)
def test_a_signal_gives_the_host_back_and_a_resume_completes(
    gpu_host: MakeHost, stage: str, number: signal.Signals
) -> None:
    host = gpu_host(**SHORT)
    process = host.start("run", "short")
    wait_for_stage(host, process, stage)
    process.send_signal(number)
    result = ended(process)
    assert result.status == 128 + number, result.err
    assert f"{number.name}: ending the sweep" in result.err
    assert f"ended by {number.name}" in result.err
    assert host.serves()
    assert host.active("router.service")
    assert host.leftovers() == []

    resumed = host.sweep("resume")
    assert resumed.status == 0, resumed.err
    frame = host.frame()
    assert not frame.duplicated(["point", "trial", "attempt"]).any()
    latest = latest_attempts(frame)
    assert set(latest["status"]) == {"ok"}
    found = set(zip(latest["speculative_num_steps"], latest["concurrency"], strict=True))
    assert found == POINTS
    assert len(latest) == len(POINTS)
    assert host.serves()
    assert host.leftovers() == []


def test_two_signals_leave_the_rest_to_the_host(gpu_host: MakeHost) -> None:
    host = gpu_host(**SHORT)
    process = host.start("run", "short")
    wait_for_stage(host, process, "measure")
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    result = ended(process)
    assert result.status == 130, result.err
    until = time.monotonic() + 60
    while time.monotonic() < until and not (host.serves() and host.leftovers() == []):
        time.sleep(0.2)
    assert host.serves()
    assert host.active("router.service")
    assert host.leftovers() == []


def test_stop_ends_a_running_sweep(gpu_host: MakeHost) -> None:
    host = gpu_host(**SHORT)
    process = host.start("run", "short")
    wait_for_stage(host, process, "measure")
    stopped = host.sweep("stop")
    assert stopped.status == 0, stopped.err
    assert ended(process).status == 143
    assert host.serves()


def test_stop_ends_a_sweep_that_was_suspended(gpu_host: MakeHost) -> None:
    """Ctrl-Z, or a debugger: it hears of nothing until somebody lets it go on."""
    host = gpu_host(**SHORT)
    process = host.start("run", "short")
    wait_for_stage(host, process, "measure")
    process.send_signal(signal.SIGSTOP)
    stopped = host.sweep("stop")
    assert stopped.status == 0, stopped.err
    assert ended(process).status == 143
    assert host.serves()


def test_a_closed_stdout_ends_nothing(gpu_host: MakeHost) -> None:
    host = gpu_host(**SHORT)
    process = host.start("run", "short")
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    result = ended(process)
    assert result.status == 0, result.err
    assert "4 ok" in result.err
