"""What the tool says of the published sweep: what its author concluded, and what he missed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweep.report.adaptive import adaptive
from sweep.report.analysis import analyse
from sweep.report.data import load_results
from sweep.report.recommend import Recommendation, recommend
from sweep.report.summary import Group, Load

RUN = Path(__file__).parents[2] / "runs" / "published-qwen3.5-122b"


@pytest.fixture(scope="module")
def group() -> Group:
    (found,) = analyse(load_results([RUN])).groups
    return found


@pytest.fixture(scope="module")
def answer(group: Group) -> Recommendation:
    return recommend(group)


def at(group: Group, load: str) -> Load:
    return next(one for one in group.loads if one.load == load)


def change(load: Load, steps: int, against: int) -> float:
    means = [cell.mean for cell in (load.cell(steps), load.cell(against)) if cell and cell.mean]
    return means[0] / means[1] - 1


@pytest.mark.parametrize(
    ("load", "steps", "against", "low", "high"),
    [
        ("1", 2, 1, 0.49, 0.51),
        ("1", 3, 1, 0.88, 0.92),
        ("1", 4, 1, 1.22, 1.27),
        ("1", 5, 4, 0.014, 0.017),
        ("4", 5, 4, -0.055, -0.053),
        ("16", 5, 4, -0.305, -0.295),
        ("32", 5, 4, -0.285, -0.275),
    ],
)
def test_changes_are_those_the_author_gave(
    group: Group, load: str, steps: int, against: int, low: float, high: float
) -> None:
    assert low <= change(at(group, load), steps, against) <= high


def test_the_gains_against_one_step_are_said(group: Group) -> None:
    assert "against steps=1: steps=2 +49 %, steps=3 +88 %, steps=4 +123 %" in at(group, "1").why[0]


@pytest.mark.parametrize(("load", "steps"), [("1", 4), ("4", 4), ("16", 3), ("32", 4), ("64", 3)])
def test_the_best_of_the_values_measured(answer: Recommendation, load: str, steps: int) -> None:
    pick = answer.pick(load)
    assert pick is not None
    assert pick.steps == steps


def test_the_best_of_its_neighbours_is_named_where_it_was_not_measured(group: Group) -> None:
    assert "steps=3 was not measured here and is best at C=16 and C=64" in at(group, "32").why[-1]


def test_one_trial_each_decides_nothing(group: Group) -> None:
    assert not group.noise.measured
    verdicts = {cell.change.verdict for load in group.loads for cell in load.cells if cell.change}
    assert verdicts == {"undecided"}
    assert not any(load.decided for load in group.loads)
    assert 5 in at(group, "1").ties, "+1.5 % of steps=5 is inside any noise"
    assert group.repeat_command == "sweep run NAME --steps 2,3,4,5 --trials 3"
    assert any("nothing was measured twice" in note for note in group.notes)


def test_what_the_second_step_costs(group: Group) -> None:
    assert group.why[0] == (
        "from steps=1 to 2: max_running_requests 26 -> 21 (-19 %), "
        "max_total_num_tokens 455357 -> 377207 (-17 %)"
    )


@pytest.mark.parametrize(
    ("load", "capped", "free"), [("4", (), 4), ("16", (4, 5), 3), ("32", (1, 2, 4, 5), None)]
)
def test_rows_that_measure_queueing_as_well(
    group: Group, load: str, capped: tuple[int, ...], free: int | None
) -> None:
    found = at(group, load)
    assert tuple(cell.steps for cell in found.cells if cell.capped) == capped
    assert found.best_uncapped == free


def test_what_the_author_missed_is_said(group: Group) -> None:
    (sixteen,) = (text for text in at(group, "16").why if "more than the server admits" in text)
    assert "steps=4 admits 14" in sixteen
    assert "some of its points measure queueing" in sixteen
    for load in ("32", "64"):
        (text,) = (text for text in at(group, load).why if "more than the server admits" in text)
        assert "every point of it measures queueing as well" in text


def test_the_loss_of_the_fifth_step_is_admission(group: Group) -> None:
    assert at(group, "32").limited_by == "admission"
    (text,) = (text for text in at(group, "16").why if text.startswith("steps=5 gives -30 %"))
    assert "although each request is 14 % faster: admission, about 6.0 instead of 9.8" in text


def test_the_schedule_leaves_out_loads_that_queue(answer: Recommendation) -> None:
    schedule = adaptive(answer)
    assert [(slot.batch, slot.candidates) for slot in schedule.slots] == [(1, (4,)), (8, (3,))]
    assert any("C=64 is left out" in note for note in schedule.notes)
