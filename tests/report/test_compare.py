"""Two sweeps held against each other."""

from __future__ import annotations

import pandas as pd
import pytest

from sweep.errors import UsageError
from sweep.report.analysis import analyse
from sweep.report.compare import Comparison, compare
from sweep.report.data import from_frame
from sweep.report.text import comparison_json, comparison_lines
from tests.report.made import table

TRUTH = {0: 100.0, 1: 150.0, 2: 200.0}


def compared(one: pd.DataFrame, other: pd.DataFrame) -> Comparison:
    return compare(analyse(from_frame(one, "old")), analyse(from_frame(other, "new")))


def test_noise_alone_is_no_change() -> None:
    found = compared(table(TRUTH, seed=1), table(TRUTH, seed=2))
    assert {change.effect.verdict for change in found.changes if change.effect} == {"tie"}
    assert found.regressions(0.0) == ()
    assert found.moved == ()


def test_a_loss_beyond_the_noise_is_a_regression_and_moves_the_best() -> None:
    slower = dict(TRUTH) | {2: 140.0}
    found = compared(table(TRUTH, seed=1), table(slower, seed=2))
    assert {(one.steps, one.load) for one in found.regressions(0.03)} == {(2, "1"), (2, "16")}
    assert found.regressions(0.5) == ()
    assert {(one.load, one.before, one.after) for one in found.moved} == {
        ("1", 2, 1),
        ("16", 2, 1),
    }


def test_a_point_that_broke_is_a_regression() -> None:
    other = table(TRUTH, seed=2)
    broken = other["steps"] == 2
    other.loc[broken, "agg_tok_s"] = None
    other["status"] = broken.map({True: "failed", False: "ok"})
    other["failure"] = broken.map({True: "cuda_oom", False: None})
    found = compared(table(TRUTH, seed=1), other)
    assert {(one.steps, one.broke) for one in found.regressions(0.9)} == {(2, "cuda_oom")}
    assert any("failed: cuda_oom" in line for line in comparison_lines(found))


def test_one_trial_stops_an_upgrade_but_praises_none() -> None:
    slower = {k: v * 0.7 for k, v in TRUTH.items()}
    found = compared(table(TRUTH, trials=1), table(slower, trials=1, seed=2))
    assert {one.effect.verdict for one in found.changes if one.effect} == {"undecided"}
    assert len(found.regressions(0.03)) == len(found.changes)


def test_what_only_one_has_and_what_differs_is_named() -> None:
    one = table(TRUTH, sglang_version="0.5.22", gpu="A")
    other = table({**TRUTH, 3: 210.0}, sglang_version="0.5.23", gpu="A", seed=2)
    found = compared(one, other)
    assert [one.label for one in found.changes if one.effect is None] == [
        "steps=3 C=1",
        "steps=3 C=16",
    ]
    assert found.conditions == (("sglang_version", "0.5.22", "0.5.23"),)
    lines = list(comparison_lines(found))
    assert "differs: sglang_version 0.5.22 -> 0.5.23" in lines
    assert any(line.endswith("only in B") for line in lines)
    assert comparison_json(found)["differs"] == [
        {"name": "sglang_version", "a": "0.5.22", "b": "0.5.23"}
    ]


def test_an_empty_side_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="one of the two has no rows yet"):
        compared(table(TRUTH), table(TRUTH).iloc[:0])
