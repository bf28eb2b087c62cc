"""Comparisons: against scipy where it has them, and what is called a gain."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sweep.report.effects import dunnett_critical
from tests.report.made import group_of, shadowed, table


@pytest.mark.parametrize(("groups", "size"), [(2, 3), (4, 5), (10, 3)])
def test_intervals_are_dunnetts(groups: int, size: int) -> None:
    rng = np.random.default_rng(groups)
    samples = [rng.normal(0, 1, size) for _ in range(groups)]
    control = rng.normal(0, 1, size)
    found = stats.dunnett(*samples, control=control, rng=np.random.default_rng(1))
    interval = found.confidence_interval()
    df = (groups + 1) * (size - 1)
    pooled = np.sqrt(sum(((x - x.mean()) ** 2).sum() for x in [*samples, control]) / df)
    theirs = float((interval.high[0] - interval.low[0]) / 2 / (pooled * np.sqrt(2 / size)))
    assert dunnett_critical([2**-0.5] * groups, df) == pytest.approx(theirs, rel=0.01)


@settings(max_examples=20)
@given(st.integers(1, 10), st.floats(2, 400))
def test_more_comparisons_need_more_and_never_more_than_bonferroni(count: int, df: float) -> None:
    limit = dunnett_critical([2**-0.5] * count, df)
    alone = float(stats.t.ppf(0.975, df))
    every = float(stats.t.ppf(1 - 0.025 / count, df))
    assert alone * 0.99 <= limit <= every * 1.01


def test_a_clear_gain_is_one_and_a_tie_goes_to_fewer_steps() -> None:
    frame = shadowed(table({0: 100, 1: 150, 2: 170, 4: 160}, noise=0.01), 2, 3, 0.001)
    for load in group_of(frame).loads:
        verdicts = {cell.steps: cell.change.verdict for cell in load.cells if cell.change}
        assert set(verdicts.values()) == {"gain"}
        assert load.highest == 3
        assert load.ties == (2, 3)
        assert load.best == 2
        assert not load.decided


def test_a_best_that_stands_alone_is_decided() -> None:
    group = group_of(table({0: 100, 1: 150, 2: 200, 3: 170}))
    assert all(load.best == 2 and load.decided for load in group.loads)
    assert group.repeat_command is None


def test_without_repeats_nothing_is_a_gain() -> None:
    group = group_of(table({0: 100, 1: 300}, trials=1))
    for load in group.loads:
        (change,) = (cell.change for cell in load.cells if cell.change)
        assert change.verdict == "undecided"
        assert change.change == pytest.approx(2, rel=0.2)
    assert group.noise.sigma == 0.03


def test_two_peaks_are_kept_and_a_ripple_is_none() -> None:
    two = group_of(table({0: 100, 1: 200, 2: 150, 3: 220, 4: 180}, noise=0.01))
    assert all(load.peaks == (1, 3) for load in two.loads)
    ripple = group_of(table({0: 100, 1: 200, 2: 199, 3: 201, 4: 180}, noise=0.01))
    assert all(len(load.peaks) == 1 for load in ripple.loads)


def test_a_load_with_one_point_has_nothing_to_compare() -> None:
    group = group_of(table({3: 100}, trials=1, loads=(1,)))
    (load,) = group.loads
    assert (load.best, load.runner_up, load.ties, load.peaks) == (3, None, (3,), (3,))


def test_equal_values_are_no_gain_and_no_error() -> None:
    frame = pd.DataFrame(
        [{"steps": s, "concurrency": 1, "agg_tok_s": 100.0} for s in (0, 1) for _ in range(3)]
    )
    (load,) = group_of(frame).loads
    assert load.ties == (0, 1)
    assert load.best == 0
    assert [cell.change.verdict for cell in load.cells if cell.change] == ["tie"]
