"""What a report of a run with very many rows costs, against reading the same file with pandas.

    python tests/bench/report_many_rows.py [--rows 1000 10000 100000]

Each size is a run made up for this (11 steps at 5 concurrencies, many trials each) on the disk of
$TMPDIR; every figure is a process of its own, from its start to its end. Printed, never asserted.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
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
from sweep.results.table import HEADER, encode, tidy
from sweep.rows import SCHEMA, Cell, Row, utc
from tests.results.made import START, make_plan, make_row

STEPS, CONCURRENCIES = range(11), (1, 4, 16, 32, 64)
MEASURED = ("per_req_tok_s", "decode_tok_s", "accept_length", "ttft_ms_p50", "ttft_ms_p90",
            "ttft_ms_p99", "tpot_ms_p50", "tpot_ms_p99", "itl_ms_p50", "itl_ms_p90", "itl_ms_p99",
            "e2e_ms_p50", "e2e_ms_p99")  # fmt: skip
READ = "import sys, pandas; pandas.read_csv(sys.argv[1])"


def plan_of(trials: int) -> Plan:
    launches = tuple(
        replace(
            launch,
            points=tuple(Point(f"p-{steps:06x}{c:06x}", c) for c in CONCURRENCIES),
        )
        for steps, launch in zip(STEPS, make_plan(len(STEPS)).launches, strict=True)
    )
    return replace(make_plan(), trials=trials, launches=launches)


def rows_of(plan: Plan) -> Iterator[Row]:
    at, luck = START, random.Random(7)
    for steps, launch in enumerate(plan.launches):
        for point in launch.points:
            truth = 100 * point.concurrency**0.7 * (1 + 0.4 * math.sqrt(steps) - 0.03 * steps**1.5)
            for trial in range(1, plan.trials + 1):
                at += timedelta(seconds=20)
                value = truth * luck.gauss(1, 0.02)
                cells: dict[str, Cell] = dict.fromkeys(MEASURED, value / 7)
                cells |= {"started_at": utc(at), "finished_at": utc(at + timedelta(seconds=19))}
                cells |= {"speculative_num_steps": steps, "concurrency": point.concurrency}
                cells |= {"agg_tok_s": value, "trial": trial, "schema": SCHEMA, "run_id": "many"}
                yield tidy(make_row(point.id, launch=launch.id, max_running_requests=30, **cells))


def make_run(path: Path, rows: int) -> None:
    plan = plan_of(-(-rows // (len(STEPS) * len(CONCURRENCIES))))
    path.mkdir()
    document = {"schema": SCHEMA, "run_id": path.name, "plan": plan_to_doc(plan)}
    (path / "plan.json").write_text(json.dumps(document))
    with (path / "results.csv").open("wb") as csv:
        csv.write(HEADER)
        csv.writelines(map(encode, rows_of(plan)))


def taken(command: list[str]) -> tuple[float, float]:
    """Seconds, and the most memory at a time in MiB."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit status {process.returncode}")
    return time.perf_counter() - began, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    for rows in parser.parse_args().rows:
        with tempfile.TemporaryDirectory() as place:
            run = Path(place) / "many-20260301-220000"
            make_run(run, rows)
            size = (run / "results.csv").stat().st_size / 2**20
            report = taken([sys.executable, "-m", "sweep", "report", str(run)])
            read = taken([sys.executable, "-c", READ, str(run / "results.csv")])
            page = (run / "report.html").stat().st_size / 2**20
        print(
            f"{rows:7} rows ({size:.1f} MiB): report {report[0]:.1f} s, {report[1]:.0f} MiB at most"
            f", page {page:.2f} MiB; pandas.read_csv {read[0]:.1f} s, {read[1]:.0f} MiB: "
            f"x{report[0] / read[0]:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
