"""The main job on the embedded host: no root, no systemd, no network."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.calling import sweep

SHORT = ("run", "demo", "--steps", "1,2", "--concurrency", "1,4")
TWO_ROWS = ("run", "demo", "--steps", "1,2", "--concurrency", "1", "--no-baseline", "--no-report")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path


def rows(place: Path) -> pd.DataFrame:
    run = max((place / "runs").iterdir())
    return pd.read_csv(run / "results.csv")


def test_a_sweep_then_status_logs_and_nothing_to_resume(place: Path) -> None:
    shown = sweep(*SHORT, cwd=place, COLUMNS="30", FORCE_COLOR="1")
    assert shown.returncode == 0, shown.stderr
    assert "…" not in shown.stdout, "no number is cut off on a narrow terminal"
    frame = rows(place)
    assert set(frame["status"]) == {"ok"}
    assert len(frame) == 6
    assert frame.groupby("speculative_num_steps")["max_running_requests"].first().tolist() == [
        34, 26, 21,
    ]  # fmt: skip
    assert frame["flags"].str.contains("simulated").all()
    assert "again up after" in shown.stderr
    assert "C=4" in shown.stdout
    assert ": done" in sweep("status", cwd=place).stdout
    assert "ready to roll" in sweep("logs", cwd=place).stdout
    resumed = sweep("resume", cwd=place)
    assert (resumed.returncode, "nothing left to do" in resumed.stderr) == (0, True)
    for arguments, status, said in (
        (("resume", "--only", "steps=7"), 2, "this run has steps 0,1,2 at concurrency 1,4"),
        (("-i", "inventory.yaml", "resume"), 3, "inventory.yaml"),
        (("logs", max((place / "runs").iterdir()).name, "../l-01"), 4, "those of l-01, l-02, l-03"),
    ):
        shown = sweep(*arguments, cwd=place)
        assert (shown.returncode, said in shown.stderr) == (status, True), shown.stderr


def test_more_trials_of_some_points(place: Path) -> None:
    assert sweep(*TWO_ROWS, cwd=place).returncode == 0
    shown = sweep("resume", "--only", "steps=2", "--only", "concurrency=1", "--trials", "3",
                  cwd=place)  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    frame = rows(place)
    again = frame[frame["trial"] > 1]
    assert len(again) == 2
    assert set(again["speculative_num_steps"]) == {2}
    assert set(again["concurrency"]) == {1}
    # Asked for once: the run itself still wants one trial of each point.
    assert "nothing left to do" in sweep("resume", cwd=place).stderr


def test_killed_in_the_middle_then_resumed(place: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sweep", *TWO_ROWS], cwd=place, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until = time.monotonic() + 60
    while time.monotonic() < until and not list(place.glob("runs/*/bench/*.json")):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert "interrupted" in sweep("status", cwd=place).stdout
    # Killed between a result and its row, there may be no results.csv yet.
    assert not list(place.glob("runs/*/results.csv")) or len(rows(place)) < 2
    shown = sweep("resume", cwd=place)
    assert shown.returncode == 0, shown.stderr
    frame = rows(place)
    assert len(frame) == 2
    assert not frame.duplicated(["point", "trial"]).any()


def started(place: Path) -> bool:
    """Has a run told that its first server was started?"""
    return any('"started"' in events.read_text() for events in place.glob("runs/*/events.jsonl"))


def test_a_run_directory_that_vanishes_does_not_cost_production(place: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sweep", *TWO_ROWS], cwd=place, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until = time.monotonic() + 60
    # Production is down by then.
    while time.monotonic() < until and not started(place):
        time.sleep(0.02)
    # At once: the run goes on putting files into it.
    (place / "runs").rename(place / "gone")
    shutil.rmtree(place / "gone")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 4, said
    assert "again up after" in said
    assert "sweep: " in said.splitlines()[-1]


def test_a_changed_inventory_is_refused_and_accepted_when_told(place: Path) -> None:
    assert sweep("init", cwd=place).returncode == 0
    assert sweep(*TWO_ROWS, cwd=place).returncode == 0
    path = place / "inventory.yaml"
    path.write_text(path.read_text().replace("max_tokens: 300", "max_tokens: 50"))
    refused = sweep("resume", cwd=place)
    assert refused.returncode == 4
    assert "benchmark.max_tokens 300 -> 50" in refused.stderr
    accepted = sweep("resume", "--accept-changes", cwd=place)
    assert accepted.returncode == 0, accepted.stderr
    assert len(rows(place)) == 4


def test_failing_points_are_exit_1_with_their_kinds_and_the_way_on(place: Path) -> None:
    faults = "oom@steps=2;crash@steps=3,concurrency=4"
    text = (
        f"hosts: {{demo: {{transport: demo, server: {{env: {{SWEEP_SIM_FAIL: '{faults}'}}}}}}}}\n"
        "sweeps: {demo: {host: demo, steps: 1..3, concurrency: [1, 4], baseline: false}}\n"
    )
    (place / "inventory.yaml").write_text(text)
    shown = sweep("run", cwd=place)
    assert shown.returncode == 1, shown.stderr
    frame = rows(place).set_index(["speculative_num_steps", "concurrency"])
    # The client sees the crash first, as a connection that was closed; it is the server's.
    assert frame["failure"].dropna().to_dict() == {
        (2, 1): "cuda_oom", (2, 4): "cuda_oom", (3, 4): "scheduler_crash",
    }  # fmt: skip
    assert set(frame["status"].drop([(2, 1), (2, 4), (3, 4)])) == {"ok"}
    assert "go on with: sweep resume demo-" in shown.stderr


def test_a_terminal_nobody_reads_does_not_stop_the_sweep(place: Path) -> None:
    reader, terminal = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sweep", *TWO_ROWS], cwd=place, stderr=terminal,
        stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        until = time.monotonic() + 90
        while time.monotonic() < until and not ended_in(place):
            time.sleep(0.1)
        assert ended_in(place), "blocked by the terminal"
        assert set(rows(place)["status"]) == {"ok"}
    finally:
        os.close(reader)
        os.close(terminal)
        process.wait(timeout=60)


def ended_in(place: Path) -> bool:
    return any('"event":"end"' in path.read_text() for path in place.glob("runs/*/events.jsonl"))
