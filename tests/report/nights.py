"""Runs made up for the tests of the report, written as a sweep writes them."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from sweep.inventory import BuiltinBenchmark
from sweep.plan import Launch, Plan, Point, ServerConfig
from sweep.plan_document import plan_to_doc
from sweep.results import RunDirectory, new_run
from sweep.rows import Cell, utc
from tests.results.made import Ticker, make_row

START_S, TRIAL_S, STOP_S = 90.0, 40.0, 12.0
Failures = Mapping[int, tuple[str, str]]


def make_plan(steps: Sequence[int], concurrencies: Sequence[int], trials: int) -> Plan:
    return Plan(
        sweep="overnight",
        host="gpu",
        benchmark=BuiltinBenchmark(),
        trials=trials,
        max_consecutive_failures=3,
        launches=tuple(
            Launch(
                f"l-{number:02d}",
                ServerConfig((("tp-size", 4), ("speculative-num-steps", k)), ()),
                tuple(Point(f"p-{k:06x}{c:06x}", c) for c in concurrencies),
            )
            for number, k in enumerate(steps, 1)
        ),
    )


def make_night(
    runs: Path,
    steps: Sequence[int] = range(6),
    concurrencies: Sequence[int] = (1, 4, 16),
    trials: int = 1,
    failures: Failures | None = None,
    gap_s: float = 0,
) -> RunDirectory:
    """A finished run: throughput rises with the steps and falls again, capacity only falls.

    `gap_s`: it was interrupted after its first launch, and resumed so much later.
    """
    clock, luck = Ticker(), random.Random(3)
    plan = make_plan(steps, concurrencies, trials)
    run = new_run(runs, plan.sweep, clock)
    with run.lock():
        run.write_plan({"plan": plan_to_doc(plan)})
        if not plan.launches:
            return run
        asked = {one.id: len(one.points) * trials for one in plan.launches}
        run.begin(asked, resumed=False)
        for launch, k in zip(plan.launches, steps, strict=True):
            run.event("stage", stage="start", launch=launch.id)
            clock.move(START_S)
            for point in launch.points:
                for trial in range(1, trials + 1):
                    failed = (failures or {}).get(k)
                    if failed is None:
                        run.event("stage", stage="measure", launch=launch.id, point=point.id,
                                  concurrency=point.concurrency, trial=trial)  # fmt: skip
                    began = utc(clock.at)
                    clock.move(0 if failed else TRIAL_S)
                    cells = (
                        _failed(*failed) if failed else _measured(k, int(point.concurrency), luck)
                    )
                    times = {"started_at": began, "finished_at": utc(clock.at), "trial": trial}
                    row = make_row(point.id, launch=launch.id, model="/models/m", workload="greedy",
                                   gpu="4x Made Up 6000", sglang_version="0.5.23", temperature=0.0,
                                   speculative_num_steps=k, concurrency=point.concurrency,
                                   **{**cells, **times})  # fmt: skip
                    run.append(row, _bench(k, luck) if not failed else {})
            run.event("stage", stage="stop", launch=launch.id)
            clock.move(STOP_S)
            if gap_s and launch is plan.launches[0]:
                run.end("interrupted", 130)
                clock.move(gap_s)
                run.begin(asked, resumed=True)
        run.end("finished", 1 if failures else 0)
    return run


def _failed(failure: str, detail: str) -> dict[str, Cell]:
    return {"status": "failed", "failure": failure, "failure_detail": detail, "agg_tok_s": None}


def _measured(k: int, c: int, luck: random.Random) -> dict[str, Cell]:
    admitted = 40 - 3 * k
    length = 1 + sum(0.82**n for n in range(1, k + 1))
    step = (1 + 0.07 * k + 0.02 * k * math.log2(c)) * (1 + c / 60)
    in_flight = min(c, admitted)
    one = 120 * length / step * luck.gauss(1, 0.01)
    wait = 40 * (1 + c / 8) + (900 if c > admitted else 0)
    return {
        "agg_tok_s": one * in_flight * luck.gauss(0.97, 0.005),
        "per_req_tok_s": one,
        "decode_tok_s": one * 1.02,
        "accept_length": length if k else None,
        "accept_rate": (length - 1) / k if k else None,
        "max_running_requests": admitted,
        "max_total_num_tokens": 612_480 - 52_000 * k,
        "flags": "capped" if c > admitted else None,
        "gpu_temp_c_max": 61 + 2.5 * k + c / 10 + luck.random(),
        **{f"ttft_ms_{name}": wait * scale for name, scale in SCALES.items()},
        **{f"tpot_ms_{name}": 1000 / one * scale for name, scale in SCALES.items()},
        **{f"itl_ms_{name}": 1000 / one * scale**1.5 for name, scale in SCALES.items()},
        **{f"e2e_ms_{name}": 1000 * 1000 / one * scale for name, scale in SCALES.items()},
    }


SCALES = {"mean": 1.05, "p50": 1.0, "p90": 1.3, "p99": 1.9}


def _bench(k: int, luck: random.Random) -> dict[str, object]:
    if not k:
        return {"requests": []}
    histogram = [0] * (k + 1)
    for _ in range(400):
        kept = 0
        while kept < k and luck.random() < 0.82:
            kept += 1
        histogram[kept] += 1
    return {"requests": [{"histogram": histogram}]}
