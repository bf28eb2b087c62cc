"""What a run with very many rows costs: open, status, append. Printed, never asserted.

    python tests/bench/many_rows.py [--rows 1000 10000 100000] [--appends 200]

Each size is a run made up for this, on the disk of $TMPDIR, and every figure comes from a process
of its own. `append` stands beside what the same bytes cost where nothing is known of any row: one
file written and one line appended, both synced.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from sweep.plan import Plan, Point
from sweep.plan_document import plan_to_doc
from sweep.results import RunDirectory
from sweep.results.records import record_name
from sweep.results.table import HEADER, encode, tidy
from sweep.rows import COLUMNS, SCHEMA, Row, utc
from tests.results.made import START, make_plan, make_row

LAUNCHES, TRIAL_S = 11, 20
MEASURES = ("_tok_s", "_mean", "_p50", "_p90", "_p99")
FILLED = {name: 123.456789 for name in COLUMNS if name.endswith(MEASURES)}
PARTS = {
    "open": "with run.lock(): pass",
    "rows": "run.rows()",
    "status": "from sweep.results import read_status; read_status(run).lines()",
    "nothing": "pass",
}
PROGRAM = """
import resource, sys, time
from pathlib import Path
from sweep.results import RunDirectory
run = RunDirectory(Path(sys.argv[1]))
began = time.perf_counter()
{part}
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def plan_of(rows: int) -> Plan:
    """As many points as rows, spread over a sweep's launches."""
    plan = make_plan(LAUNCHES)
    ids = iter(range(1, rows + 1))
    share = -(-rows // LAUNCHES)
    launches = (
        replace(
            launch,
            points=tuple(Point(f"p-{n:012x}", 4) for n, _ in zip(ids, range(share), strict=False)),
        )
        for launch in plan.launches
    )
    return replace(plan, launches=tuple(launches))


def rows_of(plan: Plan) -> Iterator[Row]:
    at = START
    for launch, point in plan.points():
        at += timedelta(seconds=TRIAL_S)
        times = {"started_at": utc(at), "finished_at": utc(at + timedelta(seconds=TRIAL_S))}
        made = make_row(point.id, launch=launch.id, schema=SCHEMA, run_id="many", **times, **FILLED)
        yield tidy(made)


def make_run(path: Path, rows: int) -> RunDirectory:
    """A run as an interrupted process leaves it, without its syncs."""
    plan = plan_of(rows)
    bench = path / "bench"
    bench.mkdir(parents=True)
    document = {"schema": SCHEMA, "run_id": path.name, "plan": plan_to_doc(plan)}
    (path / "plan.json").write_text(json.dumps(document))
    due = {one.id: len(one.points) for one in plan.launches}
    begin = {"ts": utc(START), "event": "begin", "due": due}
    with (path / "results.csv").open("wb") as csv, (path / "events.jsonl").open("w") as events:
        csv.write(HEADER)
        events.write(json.dumps(begin) + "\n")
        for row in rows_of(plan):
            csv.write(encode(row))
            (bench / record_name(row.key)).write_text(json.dumps({"row": dict(row.values)}))
            stage = {"ts": row["started_at"], "event": "stage", "stage": "measure", "trial": 1}
            events.write(json.dumps({**stage, "launch": row["launch"]}) + "\n")
    return RunDirectory(path)


def timed(part: str, path: Path) -> tuple[float, float]:
    """Seconds and peak MiB of one part, in a process of its own."""
    program = PROGRAM.format(part=PARTS[part])
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    seconds, mib = map(float, done.stdout.split())
    return seconds, mib


def appended(run: RunDirectory, count: int) -> list[float]:
    """Seconds of each append to a run that is open."""
    bench = {"requests": [{"tokens": 1000, "itl_ms": [10.25] * 100}] * 8}
    taken = []
    with run.lock():
        for number in range(count):
            row = make_row(f"p-f{number:011x}", **FILLED)
            began = time.perf_counter()
            run.append(row, bench)
            taken.append(time.perf_counter() - began)
    return taken


def synced(folder: Path, count: int) -> list[float]:
    """Seconds of a file written and a line appended, both durable."""
    content, line = b"x" * 7000, b"y" * 700
    taken = []
    for number in range(count):
        began = time.perf_counter()
        for path, data in ((folder / f"{number}.json", content), (folder / "lines", line)):
            with path.open("ab") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        taken.append(time.perf_counter() - began)
    return taken


def spread(seconds: list[float]) -> str:
    ordered = sorted(1e3 * one for one in seconds)
    low, high = ordered[len(ordered) // 10], ordered[len(ordered) * 9 // 10]
    return f"{statistics.median(ordered):6.2f} ms ({low:.2f} to {high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--appends", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sweep-many-rows-") as folder:
        for rows in options.rows:
            path = Path(folder) / f"many-{rows}"
            run = make_run(path, rows)
            base = timed("nothing", path)[1]
            print(f"{rows} rows, results.csv {run.csv_path.stat().st_size / 2**20:.1f} MiB")
            for part in ("open", "rows", "status"):
                seconds, mib = timed(part, path)
                each = 1e6 * seconds / rows
                print(
                    f"  {part:8} {seconds:6.2f} s  {each:5.0f} us a row  {mib - base:5.0f} MiB more"
                )
            other = Path(folder) / f"other-{rows}"
            other.mkdir()
            ours, bare = appended(run, options.appends), synced(other, options.appends)
            ratio = statistics.median(ours) / statistics.median(bare)
            print(f"  append   {spread(ours)}; the bare bytes {spread(bare)}, x{ratio:.2f}")


if __name__ == "__main__":
    main()
