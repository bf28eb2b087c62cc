"""From a run to the files of a report."""

from __future__ import annotations

import html
import json
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from sweep.errors import RunDirectoryError
from sweep.report.data import load_results
from sweep.report.making import Report, make_report
from sweep.report.page import answer
from sweep.report.plots import Plot, drawn, source_plots
from tests.report.made import group_of, table
from tests.report.nights import make_night

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Report:
    failed = {3: ("cuda_oom", "CUDA out of memory. <b>2 GiB</b>")}
    run = make_night(tmp_path_factory.mktemp("runs"), range(5), (1, 4, 64), 2, failed)
    return make_report([run.path])


def test_every_plot_is_there_as_png_and_svg(night: Report) -> None:
    names = {name.rpartition(".")[0] for name in night.files if name.endswith(".png")}
    assert names == {
        "gain", "throughput-by-steps", "throughput-by-concurrency", "interactivity", "acceptance",
        "capacity", "ttft", "itl", "timeline",
    }  # fmt: skip
    for name in names:
        png = night.files[f"{name}.png"]
        width, height = struct.unpack(">II", png[16:24])
        assert png.startswith(b"\x89PNG")
        assert width > 300
        assert height > 200
        root = ET.fromstring(night.files[f"{name}.svg"])
        assert root.tag == f"{SVG}svg"
        assert root.findtext(f"{SVG}title")


def test_the_same_results_make_the_same_files(night: Report) -> None:
    again = make_report([night.results.sources[0].path])
    assert again.files == night.files


def test_the_page_begins_with_the_answer(night: Report) -> None:
    page = night.files["report.html"].decode()
    ids = re.findall(r'<section id="([a-z-]+)"', page)
    assert ids == ["answer", "why", "numbers", "plots", "night", "failures", "flags", "conditions"]
    answers = re.findall(r'class="steps" style="color: var\((--steps-\d)\)">(\d)<', page)
    assert [int(steps) for _, steps in answers] == [4, 4, 2]
    assert all(name == f"--steps-{steps}" for name, steps in answers)


@pytest.mark.parametrize(
    ("truth", "trials", "headline", "doubt"),
    [
        ({0: 100, 4: 222, 5: 223}, 1, "+122 % against no speculation",
         "not told apart from 5 steps"),
        ({0: 100, 4: 222}, 1, "+122 % against no speculation", "nothing was measured twice"),
        ({4: 222}, 1, "the only one measured", ""),
        ({0: 222}, 3, "the only one measured", ""),
    ],
)  # fmt: skip
def test_a_doubt_stands_beside_what_it_is_about(
    truth: dict[int, float], trials: int, headline: str, doubt: str
) -> None:
    group = group_of(table(truth, trials=trials, noise=0.001 * (trials > 1), loads=(1,)))
    found = answer(group.loads[0])
    assert (found.headline, found.doubt) == (headline, doubt)
    assert not any("not decided" in fact for fact in found.facts)


def test_what_to_paste_stands_below_the_answer_and_lies_beside_it(tmp_path: Path) -> None:
    run = make_night(tmp_path, range(9), (1, 4, 16, 32), 2)
    report = make_report([run.path])
    page = report.files["report.html"].decode()
    answer = page.partition('id="answer"')[2].partition("</section>")[0]
    assert re.search(r"one value for every concurrency: steps=\d, \d\.\d% behind the best", answer)
    schedule = json.loads(report.files["adaptive.json"])
    assert len(schedule) > 1, "more steps for few requests than for many"
    assert html.escape(report.files["adaptive.json"].decode()) in answer


def test_a_table_has_no_server_to_paste(tmp_path: Path) -> None:
    table = tmp_path / "by-hand.csv"
    table.write_text("steps,concurrency,agg_tok_s\n0,1,100\n2,1,140\n")
    report = make_report([table])
    assert "--speculative-num-steps 2 --speculative-eagle-topk 1" in str(report.document)
    assert not {"adaptive.json", "recommended.service"} & set(report.files)


def test_the_page_and_the_markdown_say_the_same(night: Report) -> None:
    page, text = (night.files[f"report.{kind}"].decode() for kind in ("html", "md"))
    plain = re.sub(r"\\(.)", r"\1", text)
    for said in ("cuda_oom", "capped", "4x Made Up 6000", "0.5.23", "24 trials ok, 6 failed"):
        assert said in page
        assert said in plain
    assert "CUDA out of memory. &lt;b&gt;2 GiB&lt;/b&gt;" in page
    assert "CUDA out of memory. <b>2 GiB</b>" in plain
    for name in re.findall(r"\]\(([a-z-]+\.png)\)", text):
        assert name in night.files


def test_what_failed_is_crossed_with_its_reason_and_what_queued_is_hollow(night: Report) -> None:
    panel = night.files["throughput-by-steps.svg"].decode()
    assert panel.count(">cuda_oom<") == 3, "one in each panel"
    page = night.files["report.html"].decode()
    hollow = re.findall(r"fill: var\(--surface\); stroke: var\(--steps-(\d)\)", page)
    assert set(hollow) == {"0", "1", "2", "4"}, "at C=64 every point ran more than is admitted"


def test_a_color_of_the_page_is_never_a_number(night: Report) -> None:
    """Dark and light are the style sheet's: a colour left in a figure would be wrong in one."""
    body = night.files["report.html"].decode().partition("</style>")[2]
    assert re.findall(r"#[0-9a-f]{6}\b", body) == []


def test_a_plot_without_data_is_left_out_with_a_sentence(tmp_path: Path) -> None:
    table = tmp_path / "by-hand.csv"
    table.write_text("steps,concurrency,agg_tok_s\n1,1,100\n2,1,140\n")
    report = make_report([table])
    plots = {name for name in report.files if name.endswith(".svg")}
    assert plots == {"gain.svg", "throughput-by-steps.svg"}
    page = report.files["report.html"].decode()
    for said in (
        "Throughput over concurrency is left out: no steps value was measured at more than one",
        "Acceptance is left out: no row has an acceptance length.",
        "Capacity is left out: no row says what the server admits.",
        "Time to first token is left out: no row has ttft_ms_p50.",
        "Timeline is left out: no row says when it was measured.",
    ):
        assert said in page


@pytest.mark.parametrize("gap_s", [0, *(round(20 * 1.7**power) for power in range(1, 28))])
@pytest.mark.filterwarnings("error")
def test_a_night_of_any_length_draws_without_a_warning(tmp_path: Path, gap_s: int) -> None:
    """A run that was resumed after a while, from seconds to years later."""
    run = make_night(tmp_path, range(2), (1,), gap_s=gap_s)
    results = load_results([run.path])
    (plot,) = source_plots(results, results.sources[0])
    assert isinstance(plot, Plot)
    assert ("Hatched" in plot.caption) is bool(gap_s)
    assert drawn(plot).files["timeline.svg"]


def test_nothing_measured_is_a_report_too(tmp_path: Path) -> None:
    report = make_report([make_night(tmp_path, (), ()).path])
    assert "No trial has been measured yet" in report.files["report.html"].decode()
    assert set(report.files) == {"report.html", "report.md"}


def test_several_inputs_are_told_apart(tmp_path: Path) -> None:
    runs = [make_night(tmp_path / name, range(3), (1,)).path for name in ("a", "b")]
    report = make_report(runs)
    page = report.files["report.html"].decode()
    assert 'id="answer-1"' in page
    assert 'id="answer-2"' in page
    assert {"gain-1.svg", "gain-2.svg", "timeline-1.svg", "timeline-2.svg"} <= set(report.files)


def test_files_are_written_whole_or_the_reason_is_said(night: Report, tmp_path: Path) -> None:
    written = night.write(tmp_path / "new" / "place")
    assert written[0].name == "report.html"
    assert {path.name for path in written} == set(night.files)
    assert not list((tmp_path / "new" / "place").glob(".*"))
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirectoryError, match="cannot make"):
        night.write(tmp_path / "file" / "place")


def test_matplotlib_that_cannot_be_imported_is_no_bug(tmp_path: Path) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError('made for another Python')\n")
    code = "from sweep.cli import run_command_line; raise SystemExit(run_command_line(['report']))"
    make_night(tmp_path / "runs")
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True,
                           text=True, check=False)  # fmt: skip
    assert ended.returncode == 2
    assert "plots need matplotlib, which cannot be imported here" in ended.stderr
    assert "made for another Python" in ended.stderr
    assert "bug" not in ended.stderr
