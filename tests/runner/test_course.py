"""What is still to do, and in which order, whatever has happened before."""

from __future__ import annotations

from pathlib import Path

from sweep.plan import due
from sweep.runner.course import MOST_REBOOTS, Course
from tests.results.made import make_plan, make_row
from tests.runner.made import sweep_of


def test_owed_is_what_has_no_row_yet(tmp_path: Path) -> None:
    plan = make_plan(launches=2, concurrency=(1, 4))
    first = plan.launches[0]
    with sweep_of(plan, tmp_path) as sweep:
        course = Course(sweep, due(plan, ()))
        assert [one.point for one in course.owed(first)] == list(first.points)
        sweep.run.append(make_row(first.points[0].id), {})
        assert [one.point for one in course.owed(first)] == [first.points[1]]
        # A trial that failed in this very execution is not begun again by itself.
        sweep.run.append(
            make_row(first.points[1].id, status="failed", failure="hang", agg_tok_s=None), {}
        )
        assert course.owed(first) == []
        assert len(course.owed(plan.launches[1])) == 2


def test_the_launch_that_runs_comes_first(tmp_path: Path) -> None:
    plan = make_plan(launches=3)
    with sweep_of(plan, tmp_path) as sweep:
        course = Course(sweep, due(plan, ()))
        assert [launch.id for launch in course.order(None)] == ["l-01", "l-02", "l-03"]
        assert [launch.id for launch in course.order(plan.launches[1])] == ["l-02", "l-01", "l-03"]


def test_one_launch_may_not_bring_the_host_down_again_and_again(tmp_path: Path) -> None:
    plan = make_plan(launches=2)
    with sweep_of(plan, tmp_path) as sweep:
        course = Course(sweep, due(plan, ()))
        for launch in plan.launches:
            course.begin(launch)
            assert [course.rebooted() for _ in range(MOST_REBOOTS - 1)] == [None]
            course.begin(launch)
            course.end(None)
        assert course.rebooted() is None, "between two launches"
        course.begin(plan.launches[1])
        assert course.hopeless(1)
        reason = course.rebooted()
        assert reason is not None
        assert "l-02" in reason


def test_the_brake_holds_over_a_reboot(tmp_path: Path) -> None:
    plan = make_plan(launches=1)
    with sweep_of(plan, tmp_path) as sweep:
        course = Course(sweep, due(plan, ()))
        for launch in plan.launches:
            course.begin(launch)
            course.end("bad_argument")
        assert course.stopped is not None
