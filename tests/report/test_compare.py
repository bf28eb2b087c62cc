"""Two sweeps held against each other."""

from __future__ import annotations

import pandas as pd
import pytest

from sweep.errors import UsageError
from sweep.report.analysis import analyse
from sweep.report.compare import Comparison, compare
from sweep.report.data import from_frame
from sweep.report.text import comparison_json, comparison_lines, gate_lines, passed_line
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
    assert {(one.steps, one.broke) for one in found.lacking()} == {(2, "cuda_oom")}
    assert "regression: steps=2 C=1 failed in B: cuda_oom" in list(gate_lines(found, 0.9))
    assert any("failed: cuda_oom" in line for line in comparison_lines(found))


def test_one_trial_stops_an_upgrade_but_praises_none() -> None:
    slower = {k: v * 0.7 for k, v in TRUTH.items()}
    found = compared(table(TRUTH, trials=1), table(slower, trials=1, seed=2))
    assert {one.effect.verdict for one in found.changes if one.effect} == {"undecided"}
    assert len(found.regressions(0.03)) == len(found.changes)
    lines = list(comparison_lines(found))
    assert lines[1] == (
        "6 changes clear an assumed noise (A and B measured nothing twice: repeats would decide)"
    )
    assert lines[2].endswith("slower (assumed noise)")
    assert all(one.endswith("beyond an assumed noise") for one in gate_lines(found, 0.03))


def test_one_change_is_one() -> None:
    slower = dict(TRUTH) | {2: 140.0}
    found = compared(table(TRUTH, loads=(1,)), table(slower, loads=(1,), seed=2))
    assert list(comparison_lines(found))[1] == "1 change clears the noise"


def test_the_best_is_among_what_both_measured() -> None:
    """A's best is not in B: what is second in A did not become slower or faster by that."""
    found = compared(table({**TRUTH, 4: 300.0}, seed=1), table(TRUTH, seed=2))
    assert found.moved == ()
    assert [one.label for one in found.lacking()] == ["steps=4 C=1", "steps=4 C=16"]
    assert sum(line.endswith("only in A") for line in comparison_lines(found)) == 2


def test_a_gate_lets_nothing_pass_that_is_gone() -> None:
    found = compared(table({**TRUTH, 4: 300.0}, seed=1), table(TRUTH, seed=2))
    assert list(gate_lines(found, 0.5)) == [
        "regression: steps=4 C=1 is not in B",
        "regression: steps=4 C=16 is not in B",
    ]
    assert list(gate_lines(compared(table(TRUTH, seed=2), table({**TRUTH, 4: 300.0})), 0.5)) == []
    loads = compared(table(TRUTH, seed=1), table(TRUTH, seed=2, loads=(1,)))
    assert {one.load for one in loads.lacking()} == {"16"}


def test_a_setting_that_is_gone_stops_the_gate() -> None:
    chat, code = table(TRUTH, workload="chat"), table(TRUTH, workload="code", seed=2)
    found = compared(pd.concat([chat, code], ignore_index=True), chat)
    assert [line for line in gate_lines(found, 0.5) if "code" in line] == [
        f"regression: {found.unmatched[0]} is not in B"
    ]
    assert passed_line(compared(chat, chat), 0.03) == (
        "passed: none of 6 points lost 3 % or more beyond the noise, and B has every point of A"
    )


def test_each_model_is_held_against_itself() -> None:
    double = {steps: 2 * rate for steps, rate in TRUTH.items()}
    small, large = table(TRUTH, model="small"), table(double, model="large")
    found = compared(pd.concat([small, large]), pd.concat([large, small]))
    assert {change.effect.change for change in found.changes if change.effect} == {0.0}
    assert len(found.changes) == 12
    assert found.unmatched == ()
    gone = compared(pd.concat([small, large]), small.assign(gpu="other"))
    assert gone.unmatched == ("large",)
    assert {change.group for change in gone.changes} == {"small"}


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


def test_a_run_against_itself_is_called_so() -> None:
    twice = compared(table({0: 100, 1: 150}), table({0: 100, 1: 150}))
    assert any("the same trials" in line for line in comparison_lines(twice))
    other = compared(table({0: 100, 1: 150}), table({0: 100, 1: 150}, seed=2))
    assert not any("the same trials" in line for line in comparison_lines(other))


def test_two_runs_without_a_measurement_are_not_one_run_twice() -> None:
    failed = table({0: 100, 1: 150}).assign(status="failed", failure="cuda_oom", agg_tok_s=None)
    nothing = compared(failed, failed)
    assert not any("the same trials" in line for line in comparison_lines(nothing))
