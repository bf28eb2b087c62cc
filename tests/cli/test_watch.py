"""`sweep status --watch`: the picture of a run, and when it stops looking."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from sweep.cli.watch import best_so_far, failures, view, watch, watch_run
from sweep.plan_document import plan_from_doc
from sweep.results import RunDirectory, Status, read_status
from tests.cli.calling import sweep
from tests.report.nights import make_night, make_plan
from tests.results.made import Ticker, make_row

FAILED = {2: ("cuda_oom", "CUDA out of memory")}


def shown(run: RunDirectory, status: Status | None = None, width: int = 100) -> str:
    console = Console(width=width)
    plan = plan_from_doc(run.plan()["plan"])
    with console.capture() as text:
        console.print(view(status or read_status(run), plan, run.rows()))
    return text.get()


def test_a_finished_run_in_one_picture(tmp_path: Path) -> None:
    run = make_night(tmp_path, range(4), (1, 16), failures=FAILED)
    text = shown(run)
    assert f"{run.id} on gpu: ended" in text
    assert "6 of 8 trials ok, 2 failed" in text
    assert " in all" in text
    assert any(line.endswith(" in all") for line in read_status(run).lines())
    assert "so far" not in text.replace("best so far", "")
    assert re.search(r"16 +steps=3 +[\d.]+ +3 of 4", text), "the best so far at C=16"
    assert "l-03 steps=2: cuda_oom (2 trials) CUDA out of memory" in text
    assert f"go on with: sweep resume {run.id}" in text


def test_what_has_become_of_production_is_said_of_a_killed_sweep(tmp_path: Path) -> None:
    run = make_night(tmp_path, range(2), (1,))
    killed = replace(read_status(run), state="interrupted", owed=True)
    assert "production on gpu: its own timer restores it" in shown(run, killed)


def test_a_narrow_terminal_loses_no_config(tmp_path: Path) -> None:
    text = shown(make_night(tmp_path, range(4), (1, 16)), width=30)
    assert "…" not in text
    assert all(f"={steps} " in text for steps in range(4))


def test_a_running_one_says_what_it_does_and_until_when(tmp_path: Path) -> None:
    clock = Ticker()
    run = RunDirectory(make_night(tmp_path, range(3), (1, 4)).path, clock)
    with run.lock():
        clock.move(4000)
        run.begin({"l-02": 2}, resumed=True)
        run.event("stage", stage="wait healthy", launch="l-02")
        clock.move(30)
        status = read_status(run)
        text = shown(run, status)
    assert "on gpu: running" in text
    assert "now    l-02 wait healthy, for 30 s" in text
    over = (clock.at + timedelta(seconds=status.remaining_s or 0)).astimezone()
    assert f"left, until {over:%H:%M}" in text


@pytest.mark.parametrize(
    ("at", "title", "height"),
    [(1, "launches 1 to 9 of 40", 24), (20, "launches 16 to 24 of 40", 24),
     (40, "launches 32 to 40 of 40", 24), (20, "launches 19 to 21 of 40", 8),
     (20, "launches", 80)],
)  # fmt: skip
def test_a_picture_is_not_higher_than_its_terminal(
    tmp_path: Path, at: int, title: str, height: int
) -> None:
    run = make_night(tmp_path, range(40), (1, 4, 16, 64))
    console = Console(width=100, height=height)
    with run.lock():
        run.begin({f"l-{at:02d}": 4}, resumed=True)
        run.event("stage", stage="measure", launch=f"l-{at:02d}")
        status = read_status(run)
    plan = plan_from_doc(run.plan()["plan"])
    with console.capture() as text:
        console.print(view(replace(status, state="running"), plan, run.rows(), console))
    assert title in [line.strip() for line in text.get().splitlines()]
    assert re.search(rf"^l-{at:02d} ", text.get(), re.MULTILINE)
    if height == 24:
        assert len(text.get().splitlines()) == height - 1


def test_it_looks_until_nobody_works_on_the_run(tmp_path: Path) -> None:
    run = make_night(tmp_path, range(2), (1,))
    console, looks = Console(width=80, file=(tmp_path / "shown").open("w")), []
    with run.lock():
        lock = run.lock_state()

    def look() -> Status:
        looks.append(1)
        return read_status(run, lock if len(looks) < 3 and lock.held else None)

    held: list[float] = []
    assert watch(run, look, console, held.append).state == "done"
    assert len(looks) == len(held) + 1


def test_without_a_terminal_a_line_says_what_has_changed(tmp_path: Path) -> None:
    clock = Ticker()
    run = RunDirectory(make_night(tmp_path, range(3), (1, 4)).path, clock)
    path = tmp_path / "shown"
    with path.open("w") as file, run.lock():
        run.begin({"l-02": 2}, resumed=True)
        stages = iter(["install", "install", "wait healthy", None])

        def sleep(_: float) -> None:
            clock.move(10)
            stage = next(stages)
            if stage is None:
                run.end("finished", 0)
            else:
                run.event("stage", stage=stage, launch="l-02")

        watch(run, lambda: read_status(run), Console(width=60, file=file), sleep)
    running = [line for line in path.read_text().splitlines() if ": running, " in line]
    assert [re.sub(r".*now (.*), [^,]* so far.*", r"\1", line) for line in running] == [
        "nothing yet",
        "l-02 install",
        "l-02 wait healthy",
    ]
    assert "best so far" in path.read_text(), "the whole picture in the end"


def test_the_best_of_a_concurrency_is_of_means_over_trials_that_are_ok() -> None:
    plan = make_plan((1, 2), (4,), 2)
    one, two = (launch.points[0].id for launch in plan.launches)
    rows = [
        make_row(one, trial=1, agg_tok_s=100.0),
        make_row(one, trial=2, agg_tok_s=200.0),
        make_row(two, trial=1, agg_tok_s=300.0),
        make_row(two, trial=1, attempt=2, status="failed", failure="hang", agg_tok_s=None),
        make_row(two, trial=2, agg_tok_s=140.0),
    ]
    (best,) = best_so_far(plan, rows)
    assert (best.label, best.tok_s, best.steps, best.of) == ("steps=1", 150.0, 2, 2)
    (failed,) = failures(plan, rows)
    assert (failed.trials, failed.failure) == (1, "hang")


@pytest.mark.parametrize("arguments", [(), ("--no-color",)])
def test_a_run_that_has_ended_is_shown_once(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    run = make_night(tmp_path / "runs", range(2), (1, 4))
    said = sweep(*arguments, "status", run.id, "--watch", cwd=tmp_path)
    assert (said.returncode, said.stderr) == (0, "")
    assert "4 of 4 trials ok" in said.stdout


def test_ctrl_c_ends_the_watching_quietly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_night(tmp_path, range(2), (1, 4))
    looks = []

    def look() -> Status:
        looks.append(1)
        if len(looks) == 1:
            return replace(read_status(run), state="running")
        raise KeyboardInterrupt

    watch_run(run, look, color=False)
    assert len(looks) == 2
    assert "on gpu: running" in capsys.readouterr().out
