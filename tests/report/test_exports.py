"""The tidy table in every format."""

from __future__ import annotations

import importlib.util
import io
import json

import pandas as pd
import pytest

from sweep.errors import UsageError
from sweep.report.analysis import analyse
from sweep.report.data import from_frame
from sweep.report.exports import FORMATS, export, tidy_table
from sweep.report.summary import Analysis
from tests.report.made import table


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    frame = table({0: 100, 1: 150, 2: 200}, accept_length=2.5)
    frame.loc[frame["steps"] == 0, "accept_length"] = None
    return analyse(from_frame(frame, "a_run"))


def test_the_table_is_tidy(analysis: Analysis) -> None:
    found = tidy_table(analysis)
    assert len(found) == 3 * 2
    assert found.loc[found["best"], "steps"].tolist() == [2, 2]
    assert found["verdict"].dropna().unique().tolist() == ["gain"]
    assert found["accept_length"].isna().sum() == 2
    assert ((found["tok_s_low"] < found["tok_s"]) & (found["tok_s"] < found["tok_s_high"])).all()


def test_a_verdict_from_one_trial_says_that_its_noise_is_assumed() -> None:
    frame = table({0: 100, 1: 101, 2: 222, 3: 40}, trials=1, loads=(1,), noise=0)
    assert tidy_table(analyse(from_frame(frame)))["verdict"].fillna("").tolist() == [
        "", "tie (assumed noise)", "gain (assumed noise)", "loss (assumed noise)",
    ]  # fmt: skip


def test_csv_and_json_hold_the_same_numbers(analysis: Analysis) -> None:
    found = tidy_table(analysis)
    csv = pd.read_csv(io.BytesIO(export(analysis, "csv")))
    records = json.loads(export(analysis, "json"))
    assert csv["tok_s"].tolist() == pytest.approx(found["tok_s"].tolist())
    assert [one["tok_s"] for one in records] == pytest.approx(found["tok_s"].tolist())
    assert records[0]["accept_length"] is None


def test_markdown_and_latex_fit_a_page(analysis: Analysis) -> None:
    markdown = export(analysis, "md").decode().splitlines()
    assert markdown[0].startswith("| steps | concurrency | n | tok/s |")
    assert len(markdown) == 2 + 6
    latex = export(analysis, "latex").decode()
    assert latex.count(r"\\") == 1 + 6
    assert r"\%" in latex


def test_latex_and_markdown_escape_what_means_something_there() -> None:
    frame = table({1: 100}, trials=1, loads=(1,))
    frame["agg_tok_s"] = None
    frame["status"], frame["failure"] = "failed", "[a]|b_c&d%\n<i>"
    analysis = analyse(from_frame(frame))
    assert r"| \[a\]\|b\_c\&d% \<i\> |" in export(analysis, "md").decode()
    latex = r"{[}a{]}\textbar{}b\_c\&d\% \textless{}i\textgreater{} \\"
    assert latex in export(analysis, "latex").decode()


def test_parquet_says_what_it_needs(analysis: Analysis) -> None:
    if importlib.util.find_spec("pyarrow") is None:
        with pytest.raises(UsageError, match=r"pip install 'specsweep\[parquet\]'"):
            export(analysis, "parquet")
    else:
        back = pd.read_parquet(io.BytesIO(export(analysis, "parquet")))
        assert len(back) == 6


def test_nothing_measured_is_an_empty_table() -> None:
    empty = analyse(from_frame(table({1: 100}).iloc[:0]))
    for form in set(FORMATS) - {"parquet"}:
        export(empty, form)
    assert json.loads(export(empty, "json")) == []
