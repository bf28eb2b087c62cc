"""--until on the command line: how it is refused, what a dry run says, and that it ends a sweep."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from sweep.results import RunDirectory
from sweep.until import Taken
from tests.cli.calling import GPU, sweep


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("7", "is no time; write a time"),
        ("24:00", "no such time of day"),
        ("2020-01-01T07:00+01:00", "has passed"),
        ("2099-01-01T07:00", "names no time zone"),
    ],
)
@pytest.mark.parametrize("command", ["run", "resume"])
def test_what_is_no_time_is_a_usage_error(
    tmp_path: Path, command: str, text: str, said: str
) -> None:
    shown = sweep(command, "--until", text, cwd=tmp_path)
    assert shown.returncode == 2
    assert f"sweep: --until {text}: " in shown.stderr
    assert said in shown.stderr
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_says_how_far_it_gets(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text(GPU)
    soon = (datetime.now(UTC) + timedelta(minutes=20)).isoformat(timespec="seconds")
    shown = sweep("run", "--dry-run", "--until", soon, cwd=tmp_path, TZ="Europe/Berlin")
    last = shown.stdout.splitlines()[-1]
    assert last.startswith("until "), shown.stderr
    # 195 s of start and stop and 100 s of trials for each launch, of 20 minutes less the way back
    assert "CE" in last, "the zone is that of this machine's clock"
    assert "about 3 of 4 launches, 6 of 8 trials" in last
    shown = sweep("run", "--dry-run", "--until", "2199-01-01T00:00Z", cwd=tmp_path)
    assert "about 4 of 4 launches, 8 of 8 trials" in shown.stdout


def test_a_run_that_cannot_even_begin_leaves_production_alone(tmp_path: Path) -> None:
    soon = (datetime.now(UTC) + timedelta(minutes=1)).isoformat(timespec="seconds")
    shown = sweep("run", "demo", "--until", soon, cwd=tmp_path)
    assert shown.returncode == 6, shown.stderr
    assert "production is to serve again by" in shown.stderr
    assert "l-01 with one trial takes about" in shown.stderr
    assert "connect" not in shown.stderr
    assert "again up" not in shown.stderr
    assert not (tmp_path / "runs").exists()


def soon_enough(run: RunDirectory, seconds: float) -> str:
    """A moment that leaves whatever this machine needs, as it was measured, and some seconds."""
    taken = Taken()
    taken.replay(run.events())
    needed = 3 * (taken.starts[0] + taken.stops[0] + taken.restores[0])
    return (datetime.now(UTC) + timedelta(seconds=needed + seconds)).isoformat(timespec="seconds")


def test_a_server_that_never_gets_healthy_is_ended_in_time(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text(
        "hosts: {demo: {transport: demo, server: {health_timeout_s: 1800,\n"
        "  env: {SWEEP_SIM_FAIL: 'never_healthy@steps=2'}}}}\n"
        "sweeps: {demo: {host: demo, steps: 1..2, concurrency: [1], baseline: false}}\n"
    )
    assert sweep("run", "--steps", "1", cwd=tmp_path).returncode == 0
    first = RunDirectory(next((tmp_path / "runs").iterdir()))
    shown = sweep("run", "--steps", "2", "--until", soon_enough(first, 25), cwd=tmp_path)
    assert shown.returncode == 6, shown.stderr
    assert "launch 1/1 (steps=2) wait healthy" in shown.stderr
    assert "again up after" in shown.stderr
    run = RunDirectory(max((tmp_path / "runs").iterdir()))
    assert run.rows() == [], "what was cut off is no failure"
    assert run.journal("l-01"), "its journal is kept"


def test_it_ends_a_sweep_and_the_rest_is_left_to_a_resume(tmp_path: Path) -> None:
    short = ("--steps", "1", "--concurrency", "1", "--no-baseline")
    assert sweep("run", "demo", *short, cwd=tmp_path).returncode == 0
    first = RunDirectory(next((tmp_path / "runs").iterdir()))
    shown = sweep("resume", "--trials", "500", "--until", soon_enough(first, 10), cwd=tmp_path)
    assert shown.returncode == 6, shown.stderr
    assert "ends in time for production to serve again by" in shown.stderr
    assert "again up after" in shown.stderr
    assert "go on with: sweep resume demo-" in shown.stderr
    frame = pd.read_csv(first.csv_path)
    assert set(frame["status"]) == {"ok"}
    assert 1 < len(frame) < 500
    assert "production is to serve again by" in sweep("status", cwd=tmp_path).stdout
