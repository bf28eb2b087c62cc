"""Noise, outliers, restarts and drift, found again where they were put in."""

from __future__ import annotations

import pytest

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
