"""How a run ends: its report is made and named, and whoever wants to know is told."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import pytest

from sweep.cli.closing import _warnings_into, answer_line, notify_specs, report_at_the_end
from sweep.cli.options import Options
from sweep.report.document import Answer
from sweep.results import RunDirectory
from tests.cli.calling import sweep
from tests.report.nights import make_night, make_plan
from tests.test_notify import endpoint

DEMO = """\
hosts:
  demo: {{transport: demo}}
sweeps:
  short:
    host: demo
    steps: 1
    concurrency: 1
    benchmark: {{max_tokens: 20}}
    notify: {{webhook: "{url}"}}
"""


def test_a_run_makes_its_report_and_tells_what_it_says(tmp_path: Path) -> None:
    with endpoint() as (url, told):
        (tmp_path / "inventory.yaml").write_text(DEMO.format(url=url))
        ended = sweep("run", cwd=tmp_path, report=True)
    assert ended.returncode == 0, ended.stderr
    (run,) = (tmp_path / "runs").iterdir()
    assert f"report: runs/{run.name}/report.html\n" in ended.stderr
    assert (run / "report.html").stat().st_size > 10_000
    assert {"report.md", "gain.svg", "timeline.png"} <= {path.name for path in run.iterdir()}
    assert "The run is" not in (run / "report.html").read_text(), "it is done, not running"
    restored, finished = told
    assert (restored["event"], finished["event"]) == ("restored", "finished")
    assert "2 ok, 0 failed, 0 missing; finished; C=1: " in finished["text"]
    assert finished["text"].endswith("report.html")


def test_a_report_that_cannot_be_made_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_night(tmp_path, range(2), (1,))
    (run.path / "report.html").mkdir()
    report_at_the_end(Options(None, None, 0, color=False), run, 0)
    said = capsys.readouterr().err
    assert "the report could not be made (RunDirectoryError: cannot write" in said
    assert f"try: sweep report {run.id}" in said
    assert "the report could not be made" in (run.path / "sweep.log").read_text()


def test_libraries_that_warn_do_so_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Between the rows and the answer of a night nothing else is said, also after a gap in it."""
    run = make_night(tmp_path, range(2), (1,), gap_s=7200)
    report_at_the_end(Options(None, None, 0, color=False), run, 0)
    assert [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()] == [
        "C=1", "report",
    ]  # fmt: skip
    assert not (run.path / "sweep.log").exists(), "there was no warning at all"
    with _warnings_into(run):
        warnings.warn("no ticks", stacklevel=1)
        logging.getLogger("matplotlib.font_manager").warning("findfont: %s", "none")
    assert capsys.readouterr().err == ""
    log = (run.path / "sweep.log").read_text()
    assert "report: UserWarning: no ticks" in log
    assert "report: findfont: none" in log


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (Answer("C=1", 4, "+122 % against no speculation", (), sure=True),
         "C=1: 4 steps, +122 % against no speculation"),
        (Answer("C=1", 4, "+122 % against no speculation", (), sure=False,
                doubt="not told apart from 5 steps"),
         "C=1: 4 steps, +122 % against no speculation, not told apart from 5 steps"),
        (Answer("C=1", 1, "the only one measured", (), sure=False),
         "C=1: 1 step, the only one measured"),
        (Answer("C=4", None, "nothing measured", (), sure=False), "C=4: nothing measured"),
    ],
)  # fmt: skip
def test_an_answer_in_one_line(answer: Answer, line: str) -> None:
    assert answer_line(answer) == line


@pytest.mark.parametrize("exit_code", [129, 130, 143])
def test_who_ended_it_by_a_signal_does_not_wait_for_a_report(
    tmp_path: Path, exit_code: int
) -> None:
    run = make_night(tmp_path, range(2), (1,))
    report_at_the_end(Options(None, None, 0, color=False), run, exit_code)
    assert not (run.path / "report.html").exists()


def test_a_run_without_rows_has_no_report(tmp_path: Path) -> None:
    run = make_night(tmp_path, (), ())
    report_at_the_end(Options(None, None, 0, color=False), run, 5)
    assert not (run.path / "report.html").exists()


@pytest.mark.parametrize(
    ("inventory", "count", "logged"),
    [
        (DEMO.format(url="http://h/x").replace("short:", "overnight:"), 1, ""),
        (DEMO.format(url="http://h/x"), 0, ""),
        ("hosts: {", 0, "notify: nobody is told: "),
        (None, 0, ""),
    ],
    ids=["asked for", "another sweep", "broken", "gone"],
)
def test_whom_to_tell_is_what_the_inventory_says_now(
    tmp_path: Path, inventory: str | None, count: int, logged: str
) -> None:
    run = RunDirectory(make_night(tmp_path, range(2), (1,)).path)
    path = tmp_path / "inventory.yaml"
    if inventory is not None:
        path.write_text(inventory)
    found = notify_specs(Options(path, None, 0, color=False), run, make_plan((0, 1), (1,), 1))
    log = run.path / "sweep.log"
    assert len(found) == count
    assert logged in (log.read_text() if log.exists() else "")
