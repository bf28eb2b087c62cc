"""Rows and plans for the tests of `sweep.results`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sweep.inventory import BuiltinBenchmark
from sweep.plan import Launch, Plan, Point, ServerConfig
from sweep.rows import Cell, Row, utc

START = datetime(2026, 3, 1, 22, 0, 0, tzinfo=UTC)


def make_row(point: str = "p-000000000001", **more: Cell) -> Row:
    """An ok row with the columns that matter; `more` overrides."""
    return Row(
        {
            "host": "gpu",
            "launch": "l-01",
            "point": point,
            "trial": 1,
            "attempt": 1,
            "status": "ok",
            "speculative_num_steps": 3,
            "concurrency": 4,
            "agg_tok_s": 542.6,
            "startup_s": 41.25,
            "started_at": utc(START),
            "finished_at": utc(START + timedelta(seconds=20)),
            **more,
        }
    )


def make_plan(launches: int = 2, concurrency: tuple[int | str, ...] = (1, 4)) -> Plan:
    """A plan of so many launches; the points of launch 1 are p-000000000101, 102, ..."""
    return Plan(
        sweep="overnight",
        host="gpu",
        benchmark=BuiltinBenchmark(),
        trials=1,
        max_consecutive_failures=3,
        launches=tuple(
            Launch(
                f"l-{number:02d}",
                ServerConfig((("speculative-num-steps", number),), ()),
                tuple(
                    Point(f"p-{number * 100 + index:012d}", c)
                    for index, c in enumerate(concurrency, 1)
                ),
            )
            for number in range(1, launches + 1)
        ),
    )


class Ticker:
    """A clock for tests: stands still until it is moved."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime:
        return self.at

    def move(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
