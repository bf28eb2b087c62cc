"""Noise, outliers, restarts and drift, found again where they were put in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tests.report.made import group_of, passes, table

FLAT = dict.fromkeys(range(8), 100.0)


@pytest.mark.parametrize("noise", [0.005, 0.02, 0.08])
def test_noise_is_pooled_over_all_points(noise: float) -> None:
    found = group_of(table(FLAT, noise=noise, trials=3)).noise
    assert found.measured
    assert found.df == 8 * 2 * 2 - found.outliers
    assert found.sigma == pytest.approx(noise, rel=0.35)


def test_a_restart_is_allowed_for_until_one_was_measured() -> None:
    once = group_of(table(FLAT))
    assert once.noise.restart == 0.01
    assert not once.noise.restart_measured
    assert any("after a restart" in note for note in once.notes)
    again = group_of(passes(range(4), 4, lambda hours: 1.0))
    assert again.noise.restart_measured
    assert not any("after a restart" in note for note in again.notes)


def test_an_outlier_is_left_out_and_counted() -> None:
    frame = table(FLAT, noise=0.01, trials=3)
    frame.loc[frame.index[10], "agg_tok_s"] *= 0.5
    spoilt = group_of(frame)
    assert spoilt.noise.outliers == 1
    assert spoilt.noise.sigma < 0.015
    assert any("left out" in note for note in spoilt.notes)
    cell = spoilt.loads[1].cell(1)
    assert cell is not None
    assert (cell.n, min(cell.values) < 250) == (3, True), "it is still there to be seen"
    assert cell.mean is not None
    assert cell.mean > 380


def test_of_two_that_are_far_apart_the_slower_is_out() -> None:
    frame = table(FLAT, noise=0.01, trials=2)
    frame.loc[frame.index[4], "agg_tok_s"] *= 0.7
    spoilt = group_of(frame)
    assert spoilt.noise.outliers == 1
    assert all(cell.mean and cell.mean > 95 for load in spoilt.loads for cell in load.cells)


def test_clean_noise_has_no_outliers() -> None:
    assert sum(group_of(table(FLAT, seed=seed)).noise.outliers for seed in range(10)) <= 1


def test_drift_over_the_night_is_found_said_and_taken_out() -> None:
    group = group_of(passes(range(6), 3, lambda hours: 1 - 0.02 * hours, noise=0.005))
    assert group.drift is not None
    assert group.drift.matters
    assert group.drift.total == pytest.approx(-0.02 * 17 / 4, abs=0.02)
    assert group.drift.interval.holds(group.drift.total)
    assert any("drifted" in note for note in group.notes)
    changes = [cell.change for load in group.loads for cell in load.cells if cell.change]
    assert all(abs(change.change) < 0.015 for change in changes), "0.025 if it were left in"


def test_a_steady_night_is_said_to_be_one() -> None:
    group = group_of(passes(range(6), 3, lambda hours: 1.0))
    assert group.drift is not None
    assert not group.drift.matters
    assert any("no drift" in note for note in group.notes)


def test_a_night_without_repeats_knows_nothing_of_drift() -> None:
    assert group_of(table(FLAT)).drift is None


def test_one_launch_each_says_what_it_cannot_see() -> None:
    notes = group_of(table(FLAT)).notes
    assert any("drift over the night cannot be seen" in note for note in notes)
    assert not any("cannot be seen" in note for note in group_of(passes(range(4), 4, steady)).notes)


def test_one_repeated_launch_is_too_few_to_see_drift() -> None:
    again = passes([0], 2, steady)
    once = table({1: 100}).assign(invocation_id="i-x")
    notes = group_of(pd.concat([again, once], ignore_index=True)).notes
    assert any("too few launches were repeated" in note for note in notes)


def test_a_point_measured_once_is_said_to_hide_what_disturbed_it() -> None:
    anchored = pd.concat([passes([0], 4, steady), passes([1, 2], 1, steady)], ignore_index=True)
    fresh = anchored["steps"] > 0
    anchored.loc[fresh, "invocation_id"] += "-" + anchored.loc[fresh, "steps"].astype(str)
    anchored.loc[anchored["steps"] == 2, "agg_tok_s"] *= 2
    (told,) = (note for note in group_of(anchored).notes if "measured once" in note)
    assert told.startswith("4 points were measured once")
    assert told.endswith("--steps 2 --trials 3")
    assert not any("measured once" in note for note in group_of(table(FLAT)).notes)


@pytest.mark.parametrize("restart", [0.002, 0.05])
def test_a_measured_restart_is_what_was_measured(restart: float) -> None:
    """Nothing of the assumed 1 % is left in it, in either direction."""
    assert group_of(restarted(restart)).noise.restart == pytest.approx(restart, rel=0.4)


def test_an_interval_over_restarts_is_students_over_their_means() -> None:
    """Where restarts are all the noise there is, what counts is how many of them there were."""
    frame = restarted(0.05, steps=(0,), starts=4, noise=1e-6)
    cell = group_of(frame).loads[0].cells[0]
    logs = np.log(frame.loc[frame["concurrency"] == 1, "agg_tok_s"])
    reach = stats.t.ppf(0.975, 3) * logs.std() / 2
    assert cell.interval is not None
    assert np.log(cell.interval.high) - logs.mean() == pytest.approx(reach, rel=0.01)


def test_one_load_measured_once_in_each_start_has_one_noise() -> None:
    """Trials and restarts cannot be told apart there, and need not be: no 1 % comes on top."""
    frame = restarted(0.004, steps=(0,), starts=6, noise=1e-6)
    frame = frame[frame["concurrency"] == 1]
    (cell,) = group_of(frame).loads[0].cells
    logs = np.log(frame["agg_tok_s"])
    reach = stats.t.ppf(0.975, 5) * logs.std() / np.sqrt(6)
    assert cell.interval is not None
    assert np.log(cell.interval.high) - logs.mean() == pytest.approx(reach)


def restarted(
    restart: float, steps: tuple[int, ...] = tuple(range(8)), starts: int = 5, noise: float = 0.002
) -> pd.DataFrame:
    """Each steps started anew so often, and measured once at two loads each time. No times."""
    rng = np.random.default_rng(5)
    rows = []
    for one in steps:
        for start in range(starts):
            level = 100 * np.exp(rng.normal(0, restart))
            rows += [
                {
                    "steps": one, "concurrency": load, "trial": start + 1,
                    "invocation_id": f"i-{one}-{start}",
                    "agg_tok_s": level * np.exp(rng.normal(0, noise)),
                }
                for load in (1, 16)
            ]  # fmt: skip
    return pd.DataFrame(rows)


def steady(hours: float) -> float:
    return 1.0
