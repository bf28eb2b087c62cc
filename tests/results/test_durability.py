"""Kills and full disks: a completed append is never lost, nothing is torn, nothing is twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

from sweep.errors import OutOfRoom
from sweep.results import RunDirectory, new_run
from sweep.results.files import sync
from sweep.results.records import record_keys
from tests.results.made import Ticker, make_row

KILLS = 25

APPENDER = """
import sys
from pathlib import Path
from sweep.results import RunDirectory
from tests.results.made import make_row
run = RunDirectory(Path(sys.argv[1]))
with run.lock():
    n = len(run.rows())
    while True:
        n += 1
        run.append(make_row(f"p-{n:012d}"), {"data": ["x" * 5000] * (n % 7)})
        print(n, flush=True)
        run.event("stage", stage="measure", trial=n)
"""


def test_kill_9_in_the_middle_of_appends(tmp_path: Path) -> None:
    run = new_run(tmp_path, "kills", Ticker())
    with run.lock():
        run.write_plan({})
    chance = random.Random(7)
    completed: set[int] = set()
    for _ in range(KILLS):
        completed |= append_until_killed(run, chance)
        rows = {row.key for row in RunDirectory(run.path).rows()}
        assert {(f"p-{n:012d}", 1, 1) for n in completed} <= rows
    with run.lock():
        found = [row.key for row in run.rows()]
    frame = pd.read_csv(run.csv_path)
    assert len(found) == len(set(found)) == len(frame)
    assert set(found) == set(record_keys(run.path / "bench"))
    assert not list(run.path.rglob(".*.tmp"))
    assert len(completed) >= KILLS


def append_until_killed(run: RunDirectory, chance: random.Random) -> set[int]:
    """Start a writer, kill it at some instant after some rows; the rows it said were done."""
    with subprocess.Popen(
        [sys.executable, "-c", APPENDER, str(run.path)],
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    ) as process:  # fmt: skip
        assert process.stdout is not None
        done = {int(process.stdout.readline()) for _ in range(chance.randint(1, 5))}
        for _ in range(chance.randint(0, 20_000)):
            pass
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()
        done |= {int(line) for line in rest.splitlines() if line.isdigit() and rest.endswith("\n")}
    return done


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 256 KiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    place = tmp_path / "disk"
    place.mkdir()
    options = "size=256k,nr_inodes=200"
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no tmpfs here: {made.stderr.decode()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def append_until_full(run: RunDirectory, payload: int, kept: list[tuple[str, int, int]]) -> None:
    for number in range(1, 1000):
        row = make_row(f"p-{number:012d}", failure_detail="y" * 900)
        run.append(row, {"data": "x" * payload})
        kept.append(row.key)
        run.event("row", n=number)


@pytest.mark.parametrize("payload", [0, 1500, 9000])
def test_a_full_disk_tears_nothing(small_disk: Path, payload: int) -> None:
    run = new_run(small_disk, "full", Ticker())
    # The filler takes what is left at the end, so that the first failing write is a small one too.
    (small_disk / "filler").write_bytes(b"\0" * 100_000)
    kept: list[tuple[str, int, int]] = []
    with run.lock():
        run.write_plan({})
        with pytest.raises(OutOfRoom, match="make room") as caught:
            append_until_full(run, payload, kept)
        assert caught.value.exit_code == 6
    assert run.csv_path.read_bytes().endswith(b"\n")
    assert [row.key for row in run.rows()][: len(kept)] == kept
    assert not list((run.path / "bench").glob(".*"))
    for _ in range(200):  # lines for people that find no room are no reason to fail
        run.event("stage", stage="restore", filler="z" * 900)
        run.log("z" * 900)
    run.end("no room", 6)
    (small_disk / "filler").unlink()
    with run.lock():
        found = [row.key for row in run.rows()]
        assert found[: len(kept)] == kept
        assert len(found) in (len(kept), len(kept) + 1)  # the record of the last may have fitted
        run.append(make_row("p-000000009999"), {})
    assert len(pd.read_csv(run.csv_path)) == len(found) + 1


def test_room_is_asked_for_before_a_measurement(small_disk: Path) -> None:
    run = new_run(small_disk, "room", Ticker())
    run.require_room(1000)
    with pytest.raises(OutOfRoom, match="MiB are needed"):
        run.require_room()
    with suppress(OSError):
        for number in range(300):
            (small_disk / f"f{number}").touch()
    with pytest.raises(OutOfRoom, match="no inode free"):
        run.require_room(0)


def test_the_cost_of_an_append_does_not_grow(tmp_path: Path) -> None:
    """Counted in bytes read and written by the process, not in time."""
    run = new_run(tmp_path, "many", Ticker())

    def cost(first: int) -> int:
        before = io_bytes()
        for number in range(first, first + 20):
            run.append(make_row(f"p-{number:012d}"), {})
        return io_bytes() - before

    with run.lock():
        early = cost(1)
        for number in range(100, 600):
            run.append(make_row(f"p-{number:012d}"), {})
        assert cost(1000) < early * 1.5


def io_bytes() -> int:
    """Bytes this process has passed through read and write calls, from /proc."""
    lines = Path("/proc/self/io").read_text().splitlines()
    values = dict(line.split(": ") for line in lines)
    return int(values["rchar"]) + int(values["wchar"])


def test_what_cannot_be_flushed_is_written_all_the_same() -> None:
    """Some file systems refuse fsync, of directories above all; a pipe answers as they do."""
    reading, writing = os.pipe()
    with pytest.raises(OSError, match="Invalid argument"):
        os.fsync(writing)
    sync(writing)
    for fd in (reading, writing):
        os.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        sync(writing)
