"""Tables of measurements for the tests of `sweep.report`, with a truth that is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pandas as pd

from sweep.report.analysis import analyse
from sweep.report.data import from_frame
from sweep.report.summary import Group

START = datetime(2026, 3, 1, 22, 0, tzinfo=UTC)


def table(
    truth: Mapping[int, float],
    *,
    trials: int = 3,
    noise: float = 0.02,
    loads: Sequence[int] = (1, 16),
    seed: int = 1,
    **more: object,
) -> pd.DataFrame:
    """`trials` of each steps at each load around `truth[steps]` tok/s, a launch per steps."""
    random_ = random.Random(seed)
    rows = [
        {
            "steps": steps, "concurrency": load, "trial": trial, "launch": f"l-{steps + 1:02d}",
            "agg_tok_s": rate * load**0.5 * random_.lognormvariate(0, noise),
            "started_at": (START + timedelta(minutes=10 * steps + trial)).isoformat(), **more,
        }
        for steps, rate in truth.items()
        for load in loads
        for trial in range(1, trials + 1)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def shadowed(frame: pd.DataFrame, steps: int, by: int, change: float) -> pd.DataFrame:
    """With every trial of `by` a copy of that of `steps`, different by `change` exactly."""
    rest = frame[frame["steps"] != by]
    copy = rest[rest["steps"] == steps].assign(steps=by, launch=f"l-{by + 1:02d}")
    copy["agg_tok_s"] *= 1 + change
    return pd.concat([rest, copy], ignore_index=True)


def group_of(frame: pd.DataFrame) -> Group:
    """The analysis of a table that holds one setting."""
    (group,) = analyse(from_frame(frame)).groups
    return group


def passes(
    steps: Sequence[int], count: int, level: Callable[[float], float], noise: float = 0.01
) -> pd.DataFrame:
    """Every steps measured again in each pass: 100 tok/s times what `level(hours)` says."""
    random_ = random.Random(2)
    starts = [(trial, one) for trial in range(1, count + 1) for one in steps]
    rows = [
        {
            "steps": one, "concurrency": load, "trial": trial, "invocation_id": f"i-{number}",
            "agg_tok_s": 100 * level(number / 4) * random_.lognormvariate(0, noise),
            "started_at": (START + timedelta(hours=number / 4)).isoformat(),
        }
        for number, (trial, one) in enumerate(starts)
        for load in (1, 16)
    ]  # fmt: skip
    return pd.DataFrame(rows)
