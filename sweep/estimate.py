"""How long a plan will take: from an earlier run's rows where there are any, else assumed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from sweep.inventory import CommandBenchmark
from sweep.plan import Launch, Plan
from sweep.rows import Row

# What is assumed of a server nobody has timed yet: a big model's start, a modest decode speed.
ASSUMED_START_S = 180.0
ASSUMED_STOP_S = 15.0
ASSUMED_REQUEST_TOK_S = 60.0
ASSUMED_COMMAND_S = 60.0


@dataclass(frozen=True)
class Pace:
    """Measured times: the median start, and the median trial at each concurrency, in seconds."""

    start_s: float
    trial_s: Mapping[str, float]


@dataclass(frozen=True)
class Estimate:
    """`total_s` is also how long production is away; `basis` says where the figures come from."""

    total_s: float
    basis: str


def pace_of(rows: Iterable[Row]) -> Pace | None:
    """What the ok rows of an earlier run say; None when there are none."""
    starts: list[float] = []
    trials: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.ok and row["startup_s"] is not None:
            starts.append(float(row["startup_s"]))
            trials[str(row["concurrency"])].append(_seconds(row))
    if not starts:
        return None
    return Pace(median(starts), {name: median(found) for name, found in trials.items()})


def _seconds(row: Row) -> float:
    begin, end = (datetime.fromisoformat(str(row[c])) for c in ("started_at", "finished_at"))
    return (end - begin).total_seconds()


def estimate(plan: Plan, pace: Pace | None) -> Estimate:
    """Seconds for every launch and trial of the plan, with the pace measured or assumed."""
    total = sum(_launch_s(plan, launch, pace) for launch in plan.launches)
    if pace is not None:
        return Estimate(total, "from the times of the latest run of this sweep")
    return Estimate(
        total,
        f"assuming {ASSUMED_START_S:.0f} s per start and {ASSUMED_REQUEST_TOK_S:.0f} tok/s per "
        "request; after one run its own times are used",
    )


def _launch_s(plan: Plan, launch: Launch, pace: Pace | None) -> float:
    trials = sum(trial_s(plan, point.concurrency, pace) for point in launch.points)
    return start_s(pace) + ASSUMED_STOP_S + trials * plan.trials


def start_s(pace: Pace | None) -> float:
    """Seconds from the start of a server until it is healthy."""
    return pace.start_s if pace else ASSUMED_START_S


def trial_s(plan: Plan, concurrency: int | str, pace: Pace | None) -> float:
    """Seconds that one trial takes."""
    if pace and str(concurrency) in pace.trial_s:
        return pace.trial_s[str(concurrency)]
    if isinstance(plan.benchmark, CommandBenchmark):
        return ASSUMED_COMMAND_S
    load = plan.benchmark.load
    width = concurrency if isinstance(concurrency, int) else 32
    requests = load.request_count(width)
    rounds = -(-requests // width)
    sending_s = requests / load.rate if load.rate else 0.0
    return max(sending_s, rounds * load.max_tokens / ASSUMED_REQUEST_TOK_S)
