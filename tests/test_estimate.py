"""How long a plan takes, measured or assumed."""

from __future__ import annotations

from sweep.estimate import estimate, pace_of
from sweep.inventory import BuiltinBenchmark
from sweep.plan import Launch, Plan, Point, ServerConfig
from sweep.rows import Row


def plan(trials: int = 1) -> Plan:
    config = ServerConfig(args=(), env=())
    points = (Point("p-1", 1), Point("p-2", 16))
    launches = (Launch("l-01", config, points), Launch("l-02", config, points))
    return Plan("overnight", "gpu", BuiltinBenchmark(), trials, 3, launches)


def row(concurrency: int, seconds: int, **values: object) -> Row:
    return Row(
        {
            "status": "ok",
            "concurrency": concurrency,
            "startup_s": 100.0,
            "started_at": "2026-11-29T22:00:00.000Z",
            "finished_at": f"2026-11-29T22:00:{seconds:02d}.000Z",
            **values,  # type: ignore[dict-item]
        }
    )


def test_measured_times_are_used_where_there_are_any() -> None:
    pace = pace_of([row(1, 20), row(1, 30), row(16, 10), row(16, 59, status="failed")])
    assert pace is not None
    assert dict(pace.trial_s) == {"1": 25.0, "16": 10.0}
    # two launches of 100 s start, 15 s stop and their trials
    assert estimate(plan(), pace).total_s == 2 * (100 + 15 + 35)
    assert estimate(plan(trials=3), pace).total_s == 2 * (100 + 15 + 3 * 35)


def test_nothing_measured_says_what_is_assumed() -> None:
    assert pace_of([row(1, 20, status="failed")]) is None
    found = estimate(plan(), None)
    # 4 requests one after the other at C=1, 2 rounds at C=16, 1000 tokens at 60 tok/s each
    assert found.total_s == 2 * (180 + 15 + 4 * 1000 / 60 + 2 * 1000 / 60)
    assert "assuming 180 s per start and 60 tok/s" in found.basis
