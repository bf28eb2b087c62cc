"""How a run stands, read from its directory."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from sweep.plan import Point
from sweep.plan_document import plan_to_doc
from sweep.results import RunDirectory, Status, new_run, read_status
from sweep.rows import Cell, Row, utc
from tests.results.made import Ticker, make_plan, make_row

START_S, TRIAL_S, STOP_S = 60.0, 20.0, 10.0


class Night:
    """Plays a run against a clock: every launch starts in 60 s, stops in 10, a trial takes 20."""

    def __init__(self, runs: Path) -> None:
        self.clock = Ticker()
        self.plan = make_plan(launches=3, concurrency=(1, 4))
        self.run = new_run(runs, "overnight", self.clock)

    def begin(self, due: dict[str, int], *, resumed: bool = False) -> None:
        self.run.write_plan({"plan": plan_to_doc(self.plan)})
        self.run.begin(due, resumed=resumed)
        self.stage("take the host")
        self.clock.move(5)

    def stage(self, name: str, launch: str | None = None, point: int | None = None) -> None:
        self.run.event(
            "stage",
            stage=name,
            launch=launch,
            point=None if point is None else self.point(launch or "", point).id,
            concurrency=None if point is None else self.point(launch or "", point).concurrency,
            trial=None if point is None else 1,
        )

    def point(self, launch: str, index: int) -> Point:
        return next(one for one in self.plan.launches if one.id == launch).points[index]

    def start(self, launch: str) -> None:
        self.stage("start", launch)
        self.clock.move(START_S)

    def trial(self, launch: str, index: int, **more: Cell) -> None:
        self.stage("measure", launch, index)
        began = self.clock.at
        self.clock.move(TRIAL_S)
        point = self.point(launch, index)
        row = make_row(
            point.id,
            launch=launch,
            concurrency=point.concurrency,
            started_at=utc(began),
            finished_at=utc(self.clock.at),
        )
        row = Row({**row.values, **more})
        self.run.append(row, {})

    def launch(self, launch: str) -> None:
        self.start(launch)
        self.trial(launch, 0)
        self.trial(launch, 1)
        self.stage("stop", launch)
        self.clock.move(STOP_S)

    def status(self) -> Status:
        """As another process sees it."""
        return read_status(RunDirectory(self.run.path, self.clock))


@pytest.fixture
def night(tmp_path: Path) -> Night:
    return Night(tmp_path)


ALL = {"l-01": 2, "l-02": 2, "l-03": 2}


def test_a_run_from_its_first_to_its_last_trial(night: Night) -> None:
    with night.run.lock():
        night.begin(ALL)
        night.start("l-01")
        found = night.status()
        assert (found.state, found.missing, found.remaining_s) == ("running", 6, None)
        assert found.now is not None
        assert (found.now.stage, found.now.launch) == ("start", "l-01")
        assert found.owner is not None

        night.trial("l-01", 0)
        night.stage("measure", "l-01", 1)
        night.clock.move(5)
        # Judged by the one start and the one trial so far: 20 - 5, then twice 60 + 2 * 20.
        assert night.status().remaining_s == pytest.approx(15 + 2 * 100)
        assert night.status().now.text() == "l-01 C=4 trial 1 measure"  # type: ignore[union-attr]
        night.clock.move(-5)
        night.trial("l-01", 1)
        night.stage("stop", "l-01")
        night.clock.move(STOP_S)
        night.launch("l-02")
        night.stage("start", "l-03")
        night.clock.move(30)
        # Now with whole launches: 70 beside the trials, 30 of them are gone.
        assert night.status().remaining_s == pytest.approx(70 - 30 + 2 * 20)
        assert (night.status().ok, night.status().missing) == (4, 2)
        night.clock.move(30)
        night.trial("l-03", 0)
        night.trial("l-03", 1)
        night.stage("restore")
        assert night.status().remaining_s == 0
        night.run.end("every trial is ok", 0)
    found = night.status()
    assert (found.state, found.ok, found.now, found.remaining_s) == ("done", 6, None, None)
    assert found.elapsed_s == pytest.approx(5 + 3 * 100 + 2 * 10)


def test_failures_count_by_launch_and_the_last_row_is_shown(night: Night) -> None:
    with night.run.lock():
        night.begin(ALL)
        night.launch("l-01")
        night.start("l-02")
        failed: dict[str, Cell] = {
            "status": "failed",
            "failure": "cuda_oom",
            "failure_detail": "CUDA out of memory",
        }
        night.trial("l-02", 0, **failed)
        night.trial("l-02", 1, **failed)
        night.run.end("interrupted by SIGTERM", 143)
    found = night.status()
    assert [(one.ok, one.failed, one.missing) for one in found.launches] == [
        (2, 0, 0),
        (0, 2, 0),
        (0, 0, 2),
    ]
    assert found.state == "ended"
    lines = found.lines()
    assert lines[0] == "overnight-20260301-220000 on gpu: ended"
    assert lines[1] == "2/6 trials ok, 2 failed, 2 missing"
    assert "why: interrupted by SIGTERM (exit code 143)" in lines
    assert "last: l-02 steps=3 C=4 failed: cuda_oom: CUDA out of memory" in lines
    assert "l-02  steps=2  0/2 ok, 2 failed" in lines


def test_a_process_that_died_is_told_from_one_that_ended(night: Night) -> None:
    with night.run.lock():
        night.begin(ALL)
        night.start("l-01")
    found = night.status()  # the lock is gone, no `end` was written
    assert found.state == "interrupted"
    assert "ended without a word" in (found.why or "")
    assert "2026-03-01 22:00:05 UTC" in (found.why or "")


def test_done_is_a_run_that_gave_its_host_back(night: Night) -> None:
    with night.run.lock():
        night.begin(ALL)
        for launch in ("l-01", "l-02", "l-03"):
            night.launch(launch)
        night.stage("restore")
    assert (night.status().state, night.status().missing) == ("interrupted", 0)
    with night.run.lock():
        night.run.end("production did not come back", 5)
    assert night.status().state == "ended"
    assert "production did not come back" in (night.status().why or "")


def test_what_has_become_of_production_is_said_until_somebody_has_seen_it_back(
    night: Night,
) -> None:
    told = "production on gpu: its own timer restores it if nothing is heard of the sweep"

    def owed() -> bool:
        return any(told in line for line in night.status().lines())

    with night.run.lock():
        night.begin(ALL)
        assert not owed(), "somebody is at work"
        night.launch("l-01")
        night.run.end("interrupted twice", 130)
    assert night.status().state == "ended"
    assert owed(), "handed over to the host: nobody has waited for it"
    with night.run.lock():
        night.begin({"l-02": 2})
        night.run.event("refused", text="another sweep has it")
        night.run.end("host refused", 5)
    assert owed(), "who was refused has changed nothing"
    with night.run.lock():
        night.begin({"l-02": 2})
        night.run.event("restored", text="up after 3 s")
        night.run.end("interrupted by SIGINT", 130)
    assert not owed()
    with night.run.lock():
        night.begin({"l-02": 2})
        night.run.event("refused", text="another sweep has it")
    assert not owed()


def test_the_time_left_knows_of_until(night: Night) -> None:
    until = night.clock.at + timedelta(minutes=5)
    with night.run.lock():
        night.run.write_plan({"plan": plan_to_doc(night.plan)})
        night.run.begin(ALL, resumed=False, until=until)
        night.launch("l-01")
        found = night.status()
        assert (found.ends_by, found.remaining_s) == (until, pytest.approx(200))
        assert found.cut_short is not None
        assert any(f"left; {found.cut_short}" in line for line in found.lines())
        assert f"{until.astimezone():%H:%M}" in found.cut_short
    assert night.status().ends_by is None
    later = night.clock.at + timedelta(minutes=15)
    with night.run.lock():
        night.run.begin({"l-02": 2, "l-03": 2}, resumed=True, until=later)
        night.launch("l-02")
        assert (night.status().ends_by, night.status().cut_short) == (later, None)


def test_a_resumed_run_counts_its_own_time_and_its_own_trials(night: Night) -> None:
    with night.run.lock():
        night.begin(ALL)
        night.launch("l-01")
        night.start("l-02")
        night.trial("l-02", 0)
        night.trial("l-02", 1, status="failed", failure="hang")
    night.clock.move(timedelta(hours=8).total_seconds())
    with night.run.lock():
        night.begin({"l-02": 1, "l-03": 2}, resumed=True)
        found = night.status()
        assert found.elapsed_s == pytest.approx(5)
        # The dead process's open launch says nothing about launches; l-01 does.
        assert found.remaining_s == pytest.approx(2 * 70 + 3 * 20)
        night.start("l-02")
        night.trial("l-02", 1, attempt=2)
        night.stage("stop", "l-02")
        assert night.status().remaining_s == pytest.approx(70 + 2 * 20)
    assert [one.ok for one in night.status().launches] == [2, 2, 0]


def test_a_run_that_never_began(night: Night) -> None:
    with night.run.lock():
        night.run.write_plan({"plan": plan_to_doc(night.plan)})
    found = night.status()
    assert (found.state, found.elapsed_s, found.last) == ("not started", None, None)
    assert found.lines()[0].endswith("not started")
