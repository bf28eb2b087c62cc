"""Inputs: run directories and every table somebody might have."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

import sweep
from sweep.errors import RunDirectoryError, UsageError
from sweep.plan_document import plan_to_doc
from sweep.report.analysis import analyse
from sweep.report.data import from_frame, load_results
from sweep.results import new_run
from sweep.results.table import INTEGERS
from tests.report.nights import make_night
from tests.results.made import Ticker, make_plan, make_row


def csv(tmp_path: Path, text: str, name: str = "measured.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "steps,concurrency,agg_tok_s\n3,4,542.6\n",
        "speculative_num_steps,concurrency,agg_tok_s\n3,4,542.6\n",
        "concurrency, steps, agg_tok_s, remark\n4, 3, 542.6, by hand\n",
        "steps,concurrency,agg_tok_s,per_req_tok_s\n3,4,542.6,\n",
        "steps,concurrency,agg_tok_s\n3.0,4.0,542.6\n",
        "steps,concurrency,agg_tok_s\n3,4,542.6\n,,\n",
        "\ufeffsteps,concurrency,agg_tok_s\r\n3,4,542.6\r\n",
        "steps,concurrency,agg_tok_s\n3,4,542.6,\n",
        "steps,concurrency,agg_tok_s\n3,4,542.6,,\n",
        "steps , concurrency , agg_tok_s \n3,4,542.6\n",
        "steps,concurrency,agg_tok_s,status\n3,4,542.6,OK\n",
        "steps,concurrency,agg_tok_s\n3,4,542.6\n-1,4,1\n3,-4,1\n3,0,1\n",
    ],
    ids=[
        "steps",
        "ours",
        "blanks",
        "empty",
        "floats",
        "empty line",
        "spreadsheet",
        "comma at the end",
        "two commas",
        "wide header",
        "capitals",
        "below zero",
    ],
)
def test_a_table_somebody_typed(tmp_path: Path, text: str) -> None:
    results = load_results([csv(tmp_path, text)])
    (row,) = results.trials.to_dict("records")
    assert (row["speculative_num_steps"], row["concurrency"], row["load"]) == (3, 4, "4")
    assert row["agg_tok_s"] == 542.6
    assert (row["trial"], row["attempt"], row["status"]) == (1, 1, "ok")


def test_rates_of_requests_alone_are_enough(tmp_path: Path) -> None:
    path = csv(tmp_path, "steps,concurrency,per_req_tok_s\n0,4,100\n3,4,150\n")
    (group,) = analyse(load_results([path])).groups
    assert group.loads[0].metric == "per_req_tok_s"
    assert group.loads[0].best == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("a,b\n1,2\n", r"lacks the column speculative_num_steps \(or steps\), concurrency, "
                       r"agg_tok_s or per_req_tok_s; it has a, b"),
        ("steps,agg_tok_s\n1,2\n", "lacks the column concurrency"),
        ("steps,concurrency\n1,2\n", "lacks the column agg_tok_s or per_req_tok_s"),
    ],
)  # fmt: skip
def test_what_a_table_lacks_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load_results([csv(tmp_path, text)])


def test_a_word_where_a_number_belongs_costs_its_row_and_is_told(tmp_path: Path) -> None:
    path = csv(tmp_path, "steps,concurrency,agg_tok_s\n1,4,fast\n2,4,10\nmany,4,10\n")
    results = load_results([path])
    assert len(results.trials) == 1
    assert results.sources[0].left_out == (
        "left out: 1 row without whole numbers of steps and concurrency",
        "left out: 1 row without agg_tok_s or per_req_tok_s",
    )


def test_a_row_longer_than_the_header_is_refused_not_moved(tmp_path: Path) -> None:
    path = csv(tmp_path, "steps,concurrency,agg_tok_s,per_req_tok_s\n3,4,542,6,90\n")
    with pytest.raises(UsageError, match="more cells than its header"):
        load_results([path])


def test_a_status_of_another_word_is_told(tmp_path: Path) -> None:
    path = csv(tmp_path, "steps,concurrency,agg_tok_s,status\n0,4,100,done\n3,4,150,ok\n")
    results = load_results([path])
    assert results.trials["status"].tolist() == ["ok"]
    assert results.sources[0].left_out == ("left out: 1 row whose status is neither ok nor failed",)


def test_copies_of_a_row_are_told(tmp_path: Path) -> None:
    path = csv(tmp_path, "steps,concurrency,agg_tok_s\n0,4,100\n0,4,100\n3,4,150\n")
    results = load_results([path])
    assert results.sources[0].left_out == (
        "the same as another in every column: 1 row; copies are no repeats",
    )


def test_two_runs_in_one_table_are_repeats_of_each_other(tmp_path: Path) -> None:
    head = "run_id,point,trial,attempt,steps,concurrency,agg_tok_s\n"
    rows = "a,p,1,1,3,4,100\na,p,1,2,3,4,101\na,p,2,1,3,4,102\nb,p,1,1,3,4,103\n"
    trials = load_results([csv(tmp_path, head + rows)]).trials
    assert trials["agg_tok_s"].tolist() == [101, 102, 103]


def test_repeated_rows_are_trials(tmp_path: Path) -> None:
    path = csv(tmp_path, "steps,concurrency,agg_tok_s\n1,4,10\n1,4,11\n2,4,12\n")
    assert load_results([path]).trials["trial"].tolist() == [1, 2, 1]


def test_several_inputs_keep_their_names_apart(tmp_path: Path) -> None:
    text = "steps,concurrency,agg_tok_s\n1,4,10\n"
    (tmp_path / "other").mkdir()
    paths = [csv(tmp_path, text), csv(tmp_path / "other", text)]
    results = load_results(paths)
    assert [source.id for source in results.sources] == ["measured", "measured-2"]
    assert results.trials["source"].tolist() == ["measured", "measured-2"]
    assert [group.source for group in analyse(results).groups] == ["measured", "measured-2"]


def test_a_run_is_typed_and_only_latest_attempts_count(tmp_path: Path) -> None:
    run = make_night(tmp_path, steps=range(3), trials=2)
    results = sweep.load_run(run.path)
    trials = results.trials
    assert len(trials) == 3 * 3 * 2
    assert results.sources[0].plan is not None
    assert {str(trials[name].dtype) for name in INTEGERS} == {"Int64"}
    assert str(trials["agg_tok_s"].dtype) == "float64"
    assert isinstance(trials["started_at"].dtype, pd.DatetimeTZDtype)
    assert set(results.events["kind"]) == {"begin", "stage", "end"}
    again = make_row("p-0000000000aa", trial=1, attempt=1, status="failed", failure="hang")
    with run.lock():
        run.append(again, {})
        run.append(make_row("p-0000000000aa", trial=1, attempt=2), {})
    results = load_results([run.path])
    assert len(results.attempts) == len(trials) + 2
    assert len(results.trials) == len(trials) + 1
    assert results.failures.empty


def test_a_run_without_rows_is_an_empty_answer(tmp_path: Path) -> None:
    run = make_night(tmp_path, steps=())
    results = load_results([run.path])
    assert results.trials.empty
    assert analyse(results).groups == ()


def test_a_run_of_failures_alone_has_cells_and_no_best(tmp_path: Path) -> None:
    kinds = dict.fromkeys(range(3), ("cuda_oom", "no room for the KV cache"))
    (group,) = analyse(load_results([make_night(tmp_path, range(3), failures=kinds).path])).groups
    assert {cell.failure for load in group.loads for cell in load.cells} == {"cuda_oom"}
    assert all(load.best is None and load.highest is None for load in group.loads)
    told = "no value for steps=0 C=1, steps=1 C=1, steps=2 C=1, steps=0 C=4"
    (note,) = [one for one in group.notes if one.endswith(": cuda_oom")]
    assert note.startswith(told)


def test_what_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"neither plan\.json nor results\.csv"):
        load_results([tmp_path])
    with pytest.raises(RunDirectoryError, match="no such directory or file"):
        sweep.load_run(tmp_path / "nowhere")


def test_flags_of_a_sweep_make_settings_that_share_the_baseline(tmp_path: Path) -> None:
    rows = ["steps,concurrency,config,speculative_eagle_topk,agg_tok_s", "0,4,,,100"]
    for topk in (1, 4):
        rows += [f'{k},4,"{{""speculative-eagle-topk"": {topk}}}",{topk},{100 + k}' for k in (1, 2)]
    groups = analyse(load_results([csv(tmp_path, "\n".join(rows) + "\n")])).groups
    assert [group.steps for group in groups] == [(0, 1, 2), (0, 1, 2)]
    assert [group.conditions.topk for group in groups] == [1, 4]
    assert groups[0].label != groups[1].label


def test_max_is_a_load_of_its_own_whatever_it_amounts_to(tmp_path: Path) -> None:
    run = new_run(tmp_path, "overnight", Ticker())
    plan = make_plan(2, (1, "max"))
    with run.lock():
        run.write_plan({"plan": plan_to_doc(plan)})
        for launch, admitted in zip(plan.launches, (26, 21), strict=True):
            for point, concurrency in zip(launch.points, (1, admitted), strict=True):
                row = make_row(point.id, launch=launch.id, concurrency=concurrency,
                               speculative_num_steps=launch.config.steps)  # fmt: skip
                run.append(row, {})
    (group,) = analyse(load_results([run.path])).groups
    assert [load.label for load in group.loads] == ["C=1", "C=max"]
    assert [cell.concurrency for cell in group.loads[1].cells] == [26, 21]
    assert group.loads[1].concurrency is None


def test_the_example_of_the_docs_says_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(__file__).parents[2]
    page = root / "docs" / "answers.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    (code,) = (block for block in blocks if "sweep.load_run" in block)
    exec(code.replace("runs/", f"{root}/runs/"), {})
    assert capsys.readouterr().out.strip() == code.strip().rpartition("# ")[2]


@pytest.mark.parametrize(
    ("name", "values", "labels"),
    [
        ("sglang_version", ("0.5.22", "0.5.23"), ["0.5.22", "0.5.23"]),
        ("dp_size", (1, 2), ["dp_size=1", "dp_size=2"]),
    ],
)
def test_servers_of_another_kind_are_settings_of_their_own(
    name: str, values: tuple[object, object], labels: list[str]
) -> None:
    rows = [
        {"steps": steps, "concurrency": 1, "agg_tok_s": 100.0 + steps, name: value}
        for value in values
        for steps in (0, 1)
    ]
    # A launch that failed knows neither: it is no setting of its own.
    rows.append({"steps": 2, "concurrency": 1, "status": "failed", "failure": "cuda_oom"})
    groups = analyse(from_frame(pd.DataFrame(rows))).groups
    assert [group.label for group in groups] == labels
