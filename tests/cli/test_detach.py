"""--detach: the sweep outlives its terminal, and a refusal still reaches it."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from sweep.results import RunDirectory
from tests.cli.calling import GPU, sweep

TWO_ROWS = ("demo", "--steps", "1,2", "--concurrency", "1", "--no-baseline", "--no-report")


def the_run(place: Path) -> RunDirectory:
    return RunDirectory(max((place / "runs").iterdir()))


def wait_until_ended(run: RunDirectory) -> None:
    until = time.monotonic() + 120
    while run.lock_state().held and time.monotonic() < until:
        time.sleep(0.1)
    assert not run.lock_state().held


def test_it_goes_on_when_the_terminal_is_closed(tmp_path: Path) -> None:
    reader, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sweep", "run", "--detach", *TWO_ROWS], cwd=tmp_path,
        stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    said = b""
    while b"sweep stop" not in said:
        said += os.read(reader, 4096)
    assert process.wait(60) == 0
    os.close(reader)  # the terminal is gone

    run = the_run(tmp_path)
    state = run.lock_state()
    assert state.held
    assert state.owner is not None
    status = (Path("/proc") / str(state.owner.pid) / "stat").read_text().rpartition(")")[2].split()
    session, terminal_number = int(status[3]), int(status[4])
    assert (session, terminal_number) == (state.owner.pid, 0)
    wait_until_ended(run)
    frame = pd.read_csv(run.csv_path)
    assert list(frame["status"]) == ["ok", "ok"]
    printed = run.output_path.read_text()
    assert "again up after" in printed
    assert "aggregate tok/s" in printed
    assert "\x1b" not in printed
    assert ": done" in sweep("status", cwd=tmp_path).stdout


def close_terminal_at(stage: str, place: Path, *options: str) -> int:
    """Run on a terminal that is closed when that stage begins; the exit status."""
    reader, terminal = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", sys.executable, "-m", "sweep", "run", *options, *TWO_ROWS],
        cwd=place, stdin=terminal, stdout=terminal, stderr=terminal,
    )  # fmt: skip
    os.close(terminal)
    begins = f'"stage":"{stage}"'
    while not any(begins in path.read_text() for path in place.glob("runs/*/events.jsonl")):
        if select.select([reader], [], [], 0.01)[0]:
            os.read(reader, 65536)
    os.close(reader)
    return process.wait(120)


def test_a_terminal_closed_without_detach_ends_the_sweep_in_the_orderly_way(tmp_path: Path) -> None:
    assert close_terminal_at("install", tmp_path) == 128 + signal.SIGHUP
    assert "ended by SIGHUP (exit code 129)" in sweep("status", cwd=tmp_path).stdout


def test_a_terminal_closed_before_the_host_is_taken_ends_nothing(tmp_path: Path) -> None:
    assert close_terminal_at("connect", tmp_path, "--detach") == -signal.SIGHUP

    run = the_run(tmp_path)
    wait_until_ended(run)
    assert list(pd.read_csv(run.csv_path)["status"]) == ["ok", "ok"]
    assert "again up after" in run.output_path.read_text()


def test_resume_and_stop_of_a_detached_run(tmp_path: Path) -> None:
    shown = sweep("run", *TWO_ROWS, "--detach", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    run = the_run(tmp_path)
    for command in ("status", "logs", "stop"):
        assert f": sweep {command} {run.id}\n" in shown.stderr
    assert sweep("stop", cwd=tmp_path).returncode == 0
    assert "ended by SIGTERM" in run.output_path.read_text()
    assert "go on with: sweep resume" in run.output_path.read_text()
    shown = sweep("resume", "--detach", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    wait_until_ended(run)
    assert set(pd.read_csv(run.csv_path)["status"]) == {"ok"}
    shown = sweep("resume", "--detach", cwd=tmp_path)
    assert (shown.returncode, "nothing left to do" in shown.stderr) == (0, True)


def test_a_refusal_is_shown_and_is_the_status(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text(GPU)
    shown = sweep("run", "overnight", "--detach", "--yes", cwd=tmp_path)
    assert shown.returncode == 5
    assert "gpu.does-not-resolve.invalid" in shown.stderr
    assert "nothing was done on gpu" in shown.stderr
    assert "follow" not in shown.stderr
    assert list((tmp_path / "runs").iterdir()) == [], "it would be the latest run"


def test_a_locked_run_is_refused_at_once(tmp_path: Path) -> None:
    assert sweep("run", *TWO_ROWS, "--detach", cwd=tmp_path).returncode == 0
    shown = sweep("resume", "--detach", cwd=tmp_path)
    assert (shown.returncode, "another sweep writes to it" in shown.stderr) == (4, True)
    assert sweep("stop", cwd=tmp_path).returncode == 0


def test_an_interrupt_before_it_has_left_ends_it(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sweep", "run", "--detach", *TWO_ROWS], cwd=tmp_path,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    until = time.monotonic() + 60
    while time.monotonic() < until and not list(tmp_path.glob("runs/*/events.jsonl")):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=120)
    for path in tmp_path.glob("runs/*/plan.json"):
        wait_until_ended(RunDirectory(path.parent))
    # Either it was still here, or it had left in that moment: then the signal was not for it.
    assert process.returncode in (0, 130), said
    assert ("ended by SIGINT" in said) == (process.returncode == 130)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--detach", "demo", "--dry-run"), 0, ""),
        (("demo", "--detach", "--dry-run"), 0, ""),
        (("demo", "--detach=host", "--yes"), 2, "hosts.demo is this machine; write --detach"),
        (("demo", "--detach=host", "--dry-run"), 2, "hosts.demo is this machine; write --detach"),
        (("demo", "--detach=there"), 2, "'there' is not one of"),
    ],
)
def test_how_it_is_written(
    tmp_path: Path, arguments: tuple[str, ...], status: int, said: str
) -> None:
    shown = sweep("run", *arguments, cwd=tmp_path)
    assert (shown.returncode, said in shown.stderr) == (status, True), shown.stderr
    assert not (tmp_path / "runs").exists()
