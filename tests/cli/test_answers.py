"""recommend and compare, as a person calls them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.calling import sweep
from tests.report.made import table
from tests.report.nights import make_night

PUBLISHED = Path(__file__).parents[2] / "runs" / "published-qwen3.5-122b"
TRUTH = {0: 100.0, 1: 150.0, 2: 200.0, 3: 180.0}


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    table(TRUTH, seed=1).to_csv(tmp_path / "before.csv", index=False)
    table(TRUTH, seed=2).to_csv(tmp_path / "same.csv", index=False)
    slower = {steps: rate * (0.8 if steps == 2 else 1) for steps, rate in TRUTH.items()}
    table(slower, seed=3).to_csv(tmp_path / "slower.csv", index=False)
    return tmp_path


def test_recommend_says_what_to_use_and_writes_where_it_is_told(tmp_path: Path) -> None:
    shown = sweep("recommend", str(PUBLISHED), "-o", "answer", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    answer, paste, why = shown.stdout.split("\n\n")
    assert answer.splitlines()[:2] == [
        "use steps=4: one value for every load alike, 2.7% behind the best of each",
        "best of each load: C=1 steps=4, C=4 steps=4, C=16 steps=3, C=32 steps=4, C=64 steps=3",
    ]
    assert len(answer.splitlines()) == 3
    assert paste.startswith("steps=4 as flags: ")
    assert why.startswith("why:\nC=1: steps=4, 277.4 tok/s per request")
    assert "this holds for: conditions that the table does not say" in shown.stdout
    assert "steps=4 as flags: --speculative-num-steps 4 --speculative-eagle-topk 1" in shown.stdout
    schedule = json.loads((tmp_path / "answer" / "adaptive.json").read_text())
    assert schedule == {"1": {"candidate_steps": [4]}, "8": {"candidate_steps": [3]}}
    assert not (tmp_path / "answer" / "recommended.service").exists(), "a table has no unit"


def test_recommend_writes_beside_a_table_only_when_asked(tables: Path) -> None:
    shown = sweep("recommend", "before.csv", "--mix", "1:0.7,16:0.3", cwd=tables)
    assert "use steps=2: one value for 70% at C=1, 30% at C=16" in shown.stdout
    assert "adaptive.json:\n{" in shown.stdout
    assert sorted(path.suffix for path in tables.iterdir()) == [".csv"] * 3


def test_the_files_are_there_before_the_answer_is_read(tmp_path: Path) -> None:
    """`| head -1` closes the pipe after the first line."""
    command = f"{sys.executable} -m sweep recommend {PUBLISHED} -o answer | head -1"
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / "answer" / "adaptive.json").exists()


def test_what_a_mix_of_ones_own_says_is_not_put_beside_the_report(tmp_path: Path) -> None:
    night = make_night(tmp_path).path
    before = sorted(night.iterdir())
    shown = sweep("recommend", str(night), "--mix", "1:1", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert sorted(night.iterdir()) == before
    told = sweep("recommend", str(night), "--mix", "1:1", "-o", "here", cwd=tmp_path)
    assert "wrote here/adaptive.json" in told.stderr


def test_the_answer_does_not_depend_on_its_files(tmp_path: Path) -> None:
    night = make_night(tmp_path).path
    for name in ("adaptive.json", "recommended.service"):
        (night / name).mkdir()
    shown = sweep("recommend", str(night), "--format", "json", cwd=tmp_path)
    assert shown.returncode == 0
    assert json.loads(shown.stdout)
    assert "cannot write" in shown.stderr
    assert "-o DIR puts the files elsewhere" in shown.stderr


def test_a_run_that_is_not_done_is_called_so_in_the_answer(tmp_path: Path) -> None:
    run = make_night(tmp_path)
    shutil.rmtree(run.path / "bench")
    run.csv_path.write_text("".join(run.csv_path.read_text().splitlines(keepends=True)[:-1]))
    shown = sweep("recommend", str(run.path), cwd=tmp_path)
    answer = shown.stdout.split("\n\n")[0].splitlines()
    assert answer[3] == "the run is ended: 17 of 18 trials ok, 0 failed, 1 missing"


def test_settings_keep_their_schedules_apart(tables: Path) -> None:
    both = pd.concat([table(TRUTH, model="small"), table(TRUTH, model="large", seed=2)])
    both.to_csv(tables / "both.csv", index=False)
    shown = sweep("recommend", "both.csv", "-o", "answer", cwd=tables)
    for name in ("adaptive-g-1.json", "adaptive-g-2.json"):
        assert f"--speculative-adaptive-config {name} " in shown.stdout
        assert (tables / "answer" / name).exists()


def test_a_table_without_a_row_that_counts_says_why(tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("steps,concurrency,agg_tok_s,status\n0,1,100,done\n")
    shown = sweep("recommend", "odd.csv", cwd=tmp_path)
    assert shown.stdout.splitlines() == [
        "nothing was measured yet",
        "left out: 1 row whose status is neither ok nor failed",
    ]


def test_recommend_as_json(tables: Path) -> None:
    shown = sweep("recommend", "before.csv", "--format", "json", cwd=tables)
    (found,) = json.loads(shown.stdout)
    assert [load["steps"] for load in found["loads"]] == [2, 2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--mix", "1"), "--mix: '1' is not LOAD:SHARE"),
        (("--mix", "7:1"), "--mix 7: nothing to use was measured there"),
        (("--slo", "ttft_p99_ms"), "--slo: 'ttft_p99_ms' is not NAME=LIMIT"),
        (("--slo", "tempo=1"), "--slo tempo: no such limit"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(
    tables: Path, arguments: tuple[str, ...], said: str
) -> None:
    shown = sweep("recommend", "before.csv", *arguments, cwd=tables)
    assert shown.returncode == 2
    assert said in shown.stderr


@pytest.mark.parametrize(
    ("other", "limit", "status"),
    [
        ("same.csv", "3%", 0),
        ("slower.csv", "3%", 1),
        ("slower.csv", "0.03", 1),
        ("slower.csv", "50%", 0),
        ("slower.csv", "much", 2),
    ],
)
def test_a_regression_ends_with_one(tables: Path, other: str, limit: str, status: int) -> None:
    shown = sweep("compare", "before.csv", other, "--fail-on-regression", limit, cwd=tables)
    assert shown.returncode == status, shown.stderr
    assert ("regression: steps=2 C=1: -2" in shown.stderr) == (status == 1)
    assert ("passed: none of 8 points lost" in shown.stderr) == (status == 0)


def test_a_point_that_is_gone_ends_with_one(tables: Path) -> None:
    table({steps: rate for steps, rate in TRUTH.items() if steps != 2}).to_csv(
        tables / "fewer.csv", index=False
    )
    shown = sweep("compare", "before.csv", "fewer.csv", "--fail-on-regression", "3%", cwd=tables)
    assert shown.returncode == 1
    assert "regression: steps=2 C=1 is not in B\n" in shown.stderr


def test_compare_alone_gates_nothing(tables: Path) -> None:
    shown = sweep("compare", "before.csv", "slower.csv", cwd=tables)
    assert shown.returncode == 0
    assert "best at C=1 of what both measured: steps=2 -> 3" in shown.stdout


def test_a_run_that_is_not_there_is_named(tmp_path: Path) -> None:
    shown = sweep("recommend", "nowhere", cwd=tmp_path)
    assert shown.returncode == 4
    assert "no run or file nowhere" in shown.stderr
