"""What was measured at each point, gathered in one pass over the trials of a group. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd
from pandas.api.types import is_numeric_dtype

from sweep.report.data import STEPS
from sweep.rows import COLUMNS, FLAGS

# Columns that say where a row is from, not what was measured.
_NOT_MEASURED = ("schema", "trial", "attempt", STEPS)
_LIGHT = ["load", "steps", "concurrency", "status", "y", "flags", "failure", "failure_detail"]


@dataclass
class Facts:
    """One point while it is gathered. `values` are in tok/s, in the order they ran.

    `concurrencies`: usually one; `max` may have several. `failure` and `detail`: of the last trial
    that failed. `numbers`: means of the measured columns.
    """

    concurrencies: set[int] = field(default_factory=set)
    values: list[float] = field(default_factory=list)
    ok: int = 0
    failed: int = 0
    held: set[str] = field(default_factory=set)
    failure: str | None = None
    detail: str | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def concurrency(self) -> int | None:
        return next(iter(self.concurrencies)) if len(self.concurrencies) == 1 else None

    @property
    def flags(self) -> tuple[str, ...]:
        """Every flag of any ok trial, in the order of `rows.FLAGS`."""
        return tuple(flag for flag in FLAGS if flag in self.held)


def gather(trials: pd.DataFrame) -> dict[str, dict[int, Facts]]:
    """load -> steps -> what was measured there, steps ascending. `trials`: as `prepared`."""
    found: dict[str, dict[int, Facts]] = {}
    ordered = trials[_LIGHT].sort_values("steps", kind="stable")
    columns = [ordered[name].tolist() for name in _LIGHT]
    for load, steps, concurrency, status, y, flags, failure, detail in zip(*columns, strict=True):
        facts = found.setdefault(load, {}).setdefault(steps, Facts())
        if not pd.isna(concurrency):
            facts.concurrencies.add(int(concurrency))
        if status != "ok":
            facts.failed += 1
            facts.failure = "unknown" if pd.isna(failure) else str(failure)
            facts.detail = None if pd.isna(detail) else str(detail)
            continue
        facts.ok += 1
        if not math.isnan(y):
            facts.values.append(math.exp(y))
        if not pd.isna(flags):
            facts.held.update(str(flags).split(";"))
    for (load, steps), numbers in _means(trials[trials["status"] == "ok"]).items():
        found[load][steps].numbers = numbers
    return found


def _means(ok: pd.DataFrame) -> dict[tuple[str, int], dict[str, float]]:
    """The mean of every numeric column of results.csv that has a value, by point."""
    names = [
        name
        for name in COLUMNS
        if name not in _NOT_MEASURED and is_numeric_dtype(ok[name]) and ok[name].notna().any()
    ]
    if not names:
        return {}
    means = ok.groupby(["load", "steps"])[names].mean().astype("float64")
    values = means.to_numpy()
    return {
        (str(key[0]), int(key[1])): {
            name: float(value)
            for name, value in zip(names, row, strict=True)
            if not math.isnan(value)
        }
        for key, row in zip(means.index.tolist(), values, strict=True)
    }
