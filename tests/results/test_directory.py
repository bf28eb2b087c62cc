"""The run directory: made, opened, locked, appended to, and put right after damage."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.errors import RunDirectoryError
from sweep.plan_document import plan_to_doc
from sweep.results import RunDirectory, new_run, open_run, run_ids
from sweep.results.table import HEADER
from sweep.rows import Row
from tests.results.made import Ticker, make_plan, make_row


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A new run with a plan and three rows."""
    made = new_run(tmp_path / "runs", "overnight", Ticker())
    with made.lock():
        made.write_plan({"plan": plan_to_doc(make_plan())})
        for number in (1, 2, 3):
            made.append(make_row(f"p-{number:012d}"), {"requests": [number]})
    return made


def keys(run: RunDirectory) -> list[tuple[str, int, int]]:
    return [row.key for row in run.rows()]


def reopened(run: RunDirectory) -> list[tuple[str, int, int]]:
    """The keys after another process has opened the run for writing; the CSV agrees with them."""
    again = open_run(run.path.parent, run.id)
    with again.lock():
        found = keys(again)
    frame = pd.read_csv(run.csv_path)
    assert list(zip(frame["point"], frame["trial"], frame["attempt"], strict=True)) == found
    return found


def test_a_new_run_is_named_by_sweep_and_utc_time(tmp_path: Path) -> None:
    ticker = Ticker()
    names = []
    for _ in range(3):
        made = new_run(tmp_path / "deep" / "runs", "overnight", ticker)
        with made.lock():
            made.write_plan({})
        names.append(made.id)
    assert names[0] == "overnight-20260301-220000"
    assert names[1:] == [f"{names[0]}-2", f"{names[0]}-3"]
    assert run_ids(tmp_path / "deep" / "runs") == names
    assert open_run(tmp_path / "deep" / "runs").id == names[2]


def test_latest_is_by_time_not_by_name_and_needs_a_plan(tmp_path: Path) -> None:
    ticker = Ticker()
    for name in ("zeta", "alpha"):
        made = new_run(tmp_path, name, ticker)
        with made.lock():
            made.write_plan({})
        ticker.move(1)
    new_run(tmp_path, "omega", ticker)  # died before its plan was written
    assert open_run(tmp_path).id.startswith("alpha-")


def test_a_run_opens_by_id_and_by_path(run: RunDirectory, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    assert open_run(runs, run.id).path == run.path
    assert open_run(runs, str(run.path)).id == run.id
    assert open_run(runs, run.path).id == run.id


def test_what_cannot_be_opened_is_said(run: RunDirectory, tmp_path: Path) -> None:
    runs = run.path.parent
    with pytest.raises(RunDirectoryError, match=r"sweep run.*starts one") as caught:
        open_run(tmp_path / "none")
    assert caught.value.exit_code == 4
    with pytest.raises(RunDirectoryError, match=f"no run .*nope.*{run.id}"):
        open_run(runs, "nope")
    (runs / "other").mkdir()
    with pytest.raises(RunDirectoryError, match="is not a run"):
        open_run(runs, "other")
    for text, words in [
        ("{", r"cannot be read.*`sweep report .*other/results.csv` reads them"),
        ("[]", "schema None"),
        ('{"schema":9}', "schema 9"),
    ]:
        (runs / "other" / "plan.json").write_text(text)
        with pytest.raises(RunDirectoryError, match=words):
            open_run(runs, "other")


def test_the_plan_comes_back(run: RunDirectory) -> None:
    found = run.plan()
    assert found["run_id"] == run.id
    assert found["plan"] == plan_to_doc(make_plan())


def test_nothing_is_written_without_the_lock(run: RunDirectory) -> None:
    with pytest.raises(RuntimeError):
        run.append(make_row("p-x"), {})
    with pytest.raises(RuntimeError):
        run.write_plan({})


def test_the_same_attempt_is_never_written_twice(run: RunDirectory) -> None:
    with run.lock():
        with pytest.raises(ValueError, match="already"):
            run.append(make_row("p-000000000001"), {})
        run.append(make_row("p-000000000001", attempt=2), {})
    assert len(keys(run)) == 4


def test_rows_come_back_typed_with_their_requests(run: RunDirectory) -> None:
    row = run.rows()[0]
    assert (row["schema"], row["run_id"], row["trial"]) == (1, run.id, 1)
    assert row["agg_tok_s"] == 542.6
    assert row["failure"] is None
    assert run.bench("p-000000000001", 1, 1) == {"requests": [1]}


def test_a_record_holds_any_evidence(run: RunDirectory) -> None:
    with run.lock():
        row = make_row("p-e", status="failed", failure="unknown", failure_detail="a\nb")
        run.append(row, {"tail": "\udc80\x00é", "gap_s": float("nan"), "n": (1, 2)})
    assert run.bench("p-e", 1, 1) == {"tail": "\udc80\x00é", "gap_s": None, "n": [1, 2]}
    assert run.rows()[-1]["failure_detail"] == "a b"


def test_what_may_hold_prompts_is_not_for_everybody(run: RunDirectory) -> None:
    with run.lock():
        run.write_unit("l-01", "[Service]\n")
        run.write_journal("l-01", b"x\n")
        run.log("hello")
    for path in [run.path, *run.path.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert not mode & 0o027, path


@pytest.mark.parametrize("text", ["../x", "a/b", "-x", "", "a\nb", ".hidden"])
def test_ids_cannot_steer_file_names(run: RunDirectory, text: str) -> None:
    with run.lock():
        with pytest.raises(ValueError, match="not an id"):
            run.append(make_row(text or "-"), {})
        with pytest.raises(ValueError, match="not an id"):
            run.write_unit(text, "")
        with pytest.raises(ValueError, match="not an id"):
            run.write(text, b"")


def test_a_second_process_is_refused_and_told_who_writes(run: RunDirectory) -> None:
    code = (
        "import sys; from pathlib import Path; from sweep.results import open_run\n"
        "from sweep.errors import RunDirectoryError\n"
        "try:\n    with open_run(Path(sys.argv[1]).parent, Path(sys.argv[1])).lock(): pass\n"
        "except RunDirectoryError as error: print(error)"
    )

    def try_it() -> str:
        return subprocess.run(
            [sys.executable, "-c", code, str(run.path)], check=True, capture_output=True, text=True
        ).stdout

    with run.lock():
        said = try_it()
        assert f"pid {os.getpid()} on " in said
        assert "another sweep writes to it" in said
        assert run.lock_state().held
        assert len(open_run(run.path.parent, run.id).rows()) == 3  # reading goes on
    assert not run.lock_state().held
    assert try_it() == ""


def test_probing_does_not_keep_a_writer_out(run: RunDirectory) -> None:
    stop = multiprocessing.get_context("spawn").Event()
    probe = multiprocessing.get_context("spawn").Process(target=probe_until, args=(run.path, stop))
    probe.start()
    try:
        for _ in range(200):
            with run.lock():
                pass
    finally:
        stop.set()
        probe.join()


def probe_until(path: Path, stop: object) -> None:
    run = RunDirectory(path)
    while not stop.is_set():  # type: ignore[attr-defined]
        run.lock_state()


def test_a_read_only_csv_is_refused_before_anything_runs(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.csv_path.chmod(0o400)
    monkeypatch.chdir(run.path)
    here = RunDirectory(Path())
    refused = pytest.raises(RunDirectoryError, match="Permission denied")
    with as_somebody(run.path), refused, here.lock():
        pass


@contextmanager
def as_somebody(owned: Path) -> Iterator[None]:
    """Without root's rights, as the owner of a tree: what an engineer's own account meets."""
    if os.geteuid() != 0:
        yield
        return
    for path in [owned, *owned.rglob("*")]:
        os.chown(path, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


# -- damage -------------------------------------------------------------------------------------


def test_truncated_at_every_byte_of_its_last_row(run: RunDirectory) -> None:
    whole = run.csv_path.read_bytes()
    wanted = keys(run)
    start = whole.rindex(b"\n", 0, -1) + 1
    for size in range(start, len(whole)):
        run.csv_path.write_bytes(whole[:size])
        again = RunDirectory(run.path)
        assert keys(again) == wanted  # a reader sees them too
        with again.lock() as notes:
            assert keys(again) == wanted
            assert bool(notes)
        assert run.csv_path.read_bytes() == whole
    assert len(list(run.path.glob("results.csv.torn-*"))) == len(whole) - 1 - start


@given(cut=st.integers(0, 4000))
@settings(max_examples=40, deadline=None)
def test_truncated_anywhere(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    made = new_run(tmp_path_factory.mktemp("runs"), "cut", Ticker())
    with made.lock():
        made.write_plan({})
        for number in (1, 2, 3):
            made.append(make_row(f"p-{number:012d}"), {})
    whole = made.csv_path.read_bytes()
    made.csv_path.write_bytes(whole[: min(cut, len(whole))])
    assert len(reopened(made)) == 3
    assert made.csv_path.read_bytes() == whole


@pytest.mark.parametrize("tail", [b"\x00\xff garbage", b"garbage\n", b'1,"x\n', b"\n\n", HEADER])
def test_garbage_after_the_last_row(run: RunDirectory, tail: bytes) -> None:
    wanted = keys(run)
    before = run.csv_path.read_bytes()
    run.csv_path.write_bytes(before + tail)
    assert reopened(run) == wanted
    assert run.csv_path.read_bytes() == before
    kept = next(run.path.glob("results.csv.torn-*")).read_bytes()
    assert kept in (tail, before + tail)
    assert reopened(run) == wanted  # and nothing more to repair
    assert len(list(run.path.glob("results.csv.torn-*"))) == 1


def test_deleted_or_garbage_throughout_it_is_made_again(run: RunDirectory) -> None:
    wanted = keys(run)
    run.csv_path.unlink()
    assert reopened(run) == wanted
    run.csv_path.write_bytes(os.urandom(20_000) + b"\n")
    assert sorted(reopened(run)) == wanted


def test_rows_stay_even_without_bench(run: RunDirectory) -> None:
    for path in (run.path / "bench").iterdir():
        path.unlink()
    assert len(reopened(run)) == 3


def test_repeated_rows_count_once(run: RunDirectory) -> None:
    whole = run.csv_path.read_bytes()
    run.csv_path.write_bytes(whole + whole[len(HEADER) :])
    assert len(keys(run)) == 3
    assert len(reopened(run)) == 3
    assert run.csv_path.read_bytes() == whole


@pytest.mark.parametrize("header", [b"schema,run_id,host\n", HEADER.replace(b",", b";")])
def test_another_header_is_refused(run: RunDirectory, header: bytes) -> None:
    whole = run.csv_path.read_bytes()
    run.csv_path.write_bytes(header + whole[len(HEADER) :])
    with pytest.raises(RunDirectoryError, match="made again from bench"), run.lock():
        pass
    with pytest.raises(RunDirectoryError):
        run.rows()
    run.csv_path.rename(run.path / "away.csv")
    assert len(reopened(run)) == 3


def test_a_damaged_record_is_kept_aside(run: RunDirectory) -> None:
    record = run.path / "bench" / "p-000000000003-t1-a1.json"
    record.write_bytes(record.read_bytes()[:-30])
    assert len(reopened(run)) == 3  # the CSV still has the row
    run.csv_path.unlink()
    assert len(reopened(run)) == 2
    assert (run.path / "bench" / f"{record.name}.damaged-1").exists()
    with run.lock():
        run.append(make_row("p-000000000003"), {})
    assert len(reopened(run)) == 3


def test_left_over_temporaries_go(run: RunDirectory) -> None:
    left = run.path / "bench" / ".p-1-t1-a1.json.tmp"
    left.write_bytes(b"half")
    assert len(reopened(run)) == 3
    assert not left.exists()


def test_a_file_cut_while_the_run_writes_loses_no_later_row(run: RunDirectory) -> None:
    with run.lock():
        os.truncate(run.csv_path, run.csv_path.stat().st_size - 5)
        run.append(make_row("p-000000000004"), {})
        run.csv_path.unlink()
        run.append(make_row("p-000000000005"), {})
        assert len(keys(run)) == 5
    assert len(reopened(run)) == 5


# -- for people ---------------------------------------------------------------------------------


def test_events_and_log(run: RunDirectory) -> None:
    run.event("stage", stage="start", launch="l-01", point=None)
    with (run.path / "events.jsonl").open("ab") as file:
        file.write(b'{"ts":"2026-')  # a torn line
    run.event("end", reason="it's ü", exit_code=0)
    first, second = run.events()
    assert (first.kind, dict(first.fields)) == ("stage", {"stage": "start", "launch": "l-01"})
    assert second.fields["reason"] == "it's ü"
    assert first.at == run.now()
    run.log("one\ntwo\n")
    assert (run.path / "sweep.log").read_text() == "2026-03-01 22:00:00.000Z one\ntwo\n"


def test_the_journal_of_an_earlier_start_is_kept(run: RunDirectory) -> None:
    run.write_journal("l-01", b"first\n")
    run.write_journal("l-01", b"first\nand more\n")
    run.write_journal("l-01", b"second start\n")
    assert run.journal_path("l-01").read_bytes() == b"second start\n"
    assert (run.path / "journal" / "l-01.log-1").read_bytes() == b"first\nand more\n"
    assert len(list((run.path / "journal").iterdir())) == 2


def test_a_record_is_compact_and_complete(run: RunDirectory) -> None:
    text = (run.path / "bench" / "p-000000000001-t1-a1.json").read_text()
    assert ": " not in text
    found = json.loads(text)
    assert Row(found["row"]) == run.rows()[0]


@pytest.mark.parametrize("content", [None, b"", b"\x00\xffgarbage, and more\n" * 9, b"torn"])
def test_a_table_that_somebody_damages_meanwhile_is_whole_again(
    tmp_path: Path, content: bytes | None
) -> None:
    run = new_run(tmp_path, "touched", Ticker())
    names = [f"p-{number:012d}" for number in range(1, 5)]

    def damage() -> None:
        run.csv_path.unlink()
        if content is not None:
            run.csv_path.write_bytes(content)

    with run.lock():
        for name in names[:2]:
            run.append(make_row(name), {})
        damage()
        run.append(make_row(names[2]), {})
        assert sorted(pd.read_csv(run.csv_path)["point"]) == names[:3], "with the next row"
        run.append(make_row(names[3]), {})
        damage()
    assert sorted(pd.read_csv(run.csv_path)["point"]) == names, "with the end of the work"
