"""How far two measurements of the same thing differ: trials, restarts, the night. Pure.

Everything is on the log scale, where noise is a fraction at every level of throughput, and pooled
over all points of a group: one trial of a point says nothing about noise, three say little, but
fifty points with two trials each say enough. The model of one trial:

    log(tok/s) = point + drift x hours + start + trial

`trial` is what differs between trials of one start of the server, `start` what a restart changes,
`drift` what the night changes. Trials that are far out (something else used the machine) are found
by a robust scale, left out, and counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from sweep.report.beliefs import believe
from sweep.report.estimates import Estimate, Fit, Floats, Level, change
from sweep.report.summary import Drift, Interval, Noise

# What one trial is taken to differ by where nothing was measured twice.
ASSUMED_NOISE = 0.03
# What a restart is taken to change until restarts were measured.
ASSUMED_RESTART = 0.01
# A trial is out when chance alone would put one this far in 2000 trials.
FAR_OUT = 0.0005
# Half of |difference| lies below this many standard deviations of the difference.
_HALF_NORMAL = 0.6745


def fit(trials: pd.DataFrame) -> Fit:
    """From the ok trials of one group.

    Columns: steps, load, concurrency, start, hours, and y, the log of the metric.
    """
    out = far_out(trials)
    kept = trials.drop(index=out)
    again = _again(kept)
    drift, slope = _drift(again, trials)
    if slope:
        kept = kept.assign(y=kept["y"] - slope * (kept["hours"] - kept["hours"].mean()))
        again = _again(kept)
    within = _within(kept) + again.beside
    alone = again.df > 0 and not within.df
    if alone:
        # One load alone, measured once in each start: what differs holds both.
        within = again.between(slope)
    sigma = math.sqrt(within.variance) if within.df else ASSUMED_NOISE
    level = Level(0.0) if alone else _level(again, slope, sigma**2)
    restart = math.sqrt(max(0.0, level.variance - level.share * sigma**2))
    noise = Noise(
        sigma, within.df, within.df > 0, *_repeated(kept), len(out), restart, again.df > 0
    )
    points = _estimates(kept)
    return Fit(noise, drift, points, level, believe(noise, points))


def far_out(trials: pd.DataFrame) -> pd.Index:
    """The trials that something disturbed, judged by the others of their point.

    Those of the same start are compared; of all starts where each measured the point once. Of two
    that are too far apart the slower one is out: what disturbs a server slows it.
    """
    key = ["steps", "load", "start"]
    if not trials.duplicated(key).any():
        key = ["steps", "load"]
    groups = trials.groupby(key, sort=False, dropna=False)["y"]
    apart = groups.diff().abs().dropna()
    if len(apart) < 2:
        return trials.index[:0]
    scale = float(apart.median()) / (_HALF_NORMAL * math.sqrt(2))
    cut = float(stats.t.ppf(1 - FAR_OUT, len(apart))) * scale
    size = groups.transform("size")
    pair = size == 2
    reach = np.where(pair, cut * math.sqrt(2), cut * np.sqrt(1 + math.pi / 2 / size))
    centre = groups.transform("max").where(pair, groups.transform("median"))
    return trials.index[(size > 1) & ((trials["y"] - centre).abs() > np.maximum(reach, 1e-12))]


@dataclass(frozen=True)
class Pool:
    """Squares that were summed, and on how many degrees of freedom."""

    squares: float = 0.0
    df: int = 0

    def __add__(self, other: Pool) -> Pool:
        return Pool(self.squares + other.squares, self.df + other.df)

    @property
    def variance(self) -> float:
        return self.squares / self.df


def _within(kept: pd.DataFrame) -> Pool:
    """What trials of one start differ by."""
    groups = kept.groupby(["steps", "load", "start"], sort=False, dropna=False)["y"]
    apart = kept["y"] - groups.transform("mean")
    return Pool(float((apart**2).sum()), len(kept) - groups.ngroups)


def _repeated(kept: pd.DataFrame) -> tuple[int, int]:
    """(points with repeats, their trials)"""
    size = kept.groupby(["steps", "load"], sort=False).size()
    return int((size > 1).sum()), int(size[size > 1].sum())


@dataclass(frozen=True)
class Again:
    """What was measured again after another start, less the mean of its point.

    `levels` and `hours`: of each start, over its loads; `df`: starts less steps. `beside`: what
    trials differ by once point and start are taken out. `loads`: of a start, `trials`: of a point
    in a start, on average. `points` were measured again.
    """

    levels: Floats
    hours: Floats
    df: int
    beside: Pool
    loads: float
    trials: float
    points: int

    def between(self, slope: float) -> Pool:
        """What the starts differ by; a slope that was taken out had a degree of freedom."""
        return Pool(float((self.levels**2).sum()), self.df - bool(slope))

    @property
    def hours_spread(self) -> float:
        return float((self.hours**2).sum())


def _again(kept: pd.DataFrame) -> Again:
    cells = (
        kept.groupby(["steps", "load", "start"], sort=False, dropna=False)
        .agg(y=("y", "mean"), hours=("hours", "mean"), n=("y", "size"))
        .reset_index()
    )
    point = cells.groupby(["steps", "load"], sort=False)
    cells = cells[point["y"].transform("size") > 1].copy()
    if cells.empty:
        return Again(np.array([]), np.array([]), 0, Pool(), 1.0, 1.0, 0)
    point = cells.groupby(["steps", "load"], sort=False)
    for name in ("y", "hours"):
        cells[name] -= point[name].transform("mean")
    start = cells.groupby(["steps", "start"], sort=False, dropna=False)
    left = float((cells["n"] * (cells["y"] - start["y"].transform("mean")) ** 2).sum())
    steps = cells["steps"].nunique()
    free = len(cells) - start.ngroups - point.ngroups + steps
    return Again(
        levels=start["y"].mean().to_numpy(),
        hours=start["hours"].mean().to_numpy(),
        df=start.ngroups - steps,
        beside=Pool(left, free) if free > 0 else Pool(),
        loads=len(cells) / start.ngroups,
        trials=float(cells["n"].mean()),
        points=point.ngroups,
    )


def _level(again: Again, slope: float, trial_variance: float) -> Level:
    """What starts differ by: measured where any was repeated, never less than its trials give."""
    between = again.between(slope)
    if not between.df:
        return Level(ASSUMED_RESTART**2)
    share = 1 / (again.loads * again.trials)
    variance = max(between.variance, share * trial_variance)
    return Level(variance, between.df, share, 1 / again.hours_spread if slope else 0.0)


def _drift(again: Again, trials: pd.DataFrame) -> tuple[Drift | None, float]:
    """(drift, its slope per hour: 0 where it does not clear the noise)."""
    spread = again.hours_spread
    df = again.df - 1
    if df < 1 or not spread > 0:
        return None, 0.0
    slope = float((again.hours * again.levels).sum()) / spread
    variance = float(((again.levels - slope * again.hours) ** 2).sum()) / df / spread
    hours = float(trials["hours"].max() - trials["hours"].min())
    reach = float(stats.t.ppf(0.975, df)) * math.sqrt(variance)
    low, high = ((slope - reach) * hours, (slope + reach) * hours)
    interval = Interval(change(low), change(high))
    matters = not interval.holds(0.0)
    drift = Drift(change(slope * hours), interval, hours, again.points, matters)
    return drift, slope if matters else 0.0


def _estimates(kept: pd.DataFrame) -> dict[str, tuple[Estimate, ...]]:
    key = ["load", "steps"]
    by_start = kept.groupby([*key, "start"], dropna=False).size()
    points = kept.groupby(key)
    table = points[["concurrency", "hours"]].mean().astype("float64").fillna(0.0)
    table["n"], table["mean"] = points["y"].size(), points["y"].mean()
    table["start_part"] = (by_start**2).groupby(key).sum() / table["n"] ** 2
    by_load: dict[str, list[Estimate]] = {}
    for (load, steps), row in zip(table.index.tolist(), table.to_dict("records"), strict=True):
        estimate = Estimate(
            load=str(load),
            steps=int(steps),
            concurrency=row["concurrency"],
            n=int(row["n"]),
            mean=row["mean"],
            hours=row["hours"],
            trial_part=1 / row["n"],
            start_part=row["start_part"],
        )
        by_load.setdefault(estimate.load, []).append(estimate)
    return {load: tuple(estimates) for load, estimates in by_load.items()}
