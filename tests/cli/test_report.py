"""`sweep report`: where it looks, where it writes, what it says when it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.calling import sweep
from tests.report.nights import make_night

TABLE = "steps,concurrency,agg_tok_s\n0,1,100\n2,1,140\n0,4,300\n2,4,350\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make_night(tmp_path / "runs", range(3), (1, 4))
    (tmp_path / "by-hand.csv").write_text(TABLE)
    return tmp_path


def test_the_latest_run_is_reported_into_its_directory(place: Path) -> None:
    (run,) = (place / "runs").iterdir()
    for arguments in ((), (run.name,), (f"runs/{run.name}",), (f"runs/{run.name}/results.csv",)):
        (run / "report.html").unlink(missing_ok=True)
        said = sweep("report", *arguments, cwd=place)
        assert said.returncode == 0, said.stderr
        assert (run / "report.html").exists(), arguments
        assert f"report: {run}/report.html (and " in said.stderr
        assert "2 steps" not in said.stderr
        assert "C=1" in said.stdout


def test_a_table_has_a_directory_beside_it(place: Path) -> None:
    said = sweep("report", "by-hand.csv", cwd=place)
    assert said.returncode == 0, said.stderr
    assert (place / "by-hand-report" / "report.html").exists()
    assert "+40 % against no speculation" in said.stdout
    quiet = sweep("-q", "report", "by-hand.csv", "-o", "elsewhere", cwd=place)
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert (place / "elsewhere" / "report.md").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("no-such-run",), 4, "no run or file no-such-run; the latest runs are overnight-"),
        (("by-hand.csv", "runs"), 2, "say where it goes with -o DIR"),
        (("empty.csv",), 2, "empty.csv is empty"),
        (("other.csv",), 2, "it lacks the column"),
        (("runs",), 2, "is no run"),
        (("by-hand.csv", "-o", "by-hand.csv/x"), 2, "-o: "),
    ],
)
def test_what_cannot_be_reported(
    place: Path, arguments: tuple[str, ...], status: int, said: str
) -> None:
    (place / "empty.csv").write_text("")
    (place / "other.csv").write_text("a,b\n1,2\n")
    shown = sweep("report", *arguments, cwd=place)
    assert (shown.returncode, said in shown.stderr) == (status, True), shown.stderr
    assert "Traceback" not in shown.stderr


def test_a_run_still_going_on_can_be_reported(tmp_path: Path) -> None:
    run = make_night(tmp_path / "runs", range(3), (1, 4))
    with run.lock():
        run.begin({"l-01": 2}, resumed=True)
        run.event("stage", stage="start", launch="l-01")
        said = sweep("report", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "The run is running: 6 of 6 trials ok" in (run.path / "report.html").read_text()
