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

import numpy as np
import pandas as pd
from scipy import stats

from sweep.report.beliefs import believe
from sweep.report.estimates import Estimate, Fit
from sweep.report.summary import Drift, Interval, Noise

# What one trial is taken to differ by where nothing was measured twice.
ASSUMED_NOISE = 0.03
# What a restart is taken to change until restarts were measured, and how many it is worth then.
ASSUMED_RESTART = 0.01
RESTART_WEIGHT = 4
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
    sigma, df, repeated, count = _within(kept)
    starts = _start_means(kept)
    drift, slope, slope_variance = _drift(starts, trials)
    if drift is not None and drift.matters:
        hours = kept["hours"] - kept["hours"].mean()
        kept = kept.assign(y=kept["y"] - slope * hours)
        starts = _start_means(kept)
    else:
        slope_variance = 0.0
    between, between_df, each = _between(starts, lost=1 if slope_variance else 0)
    points = _estimates(kept)
    restart_df = math.inf
    if not df and between_df:
        # Every trial had its own start: what differs between them holds both.
        sigma, df, restart = math.sqrt(between), between_df, 0.0
        repeated, count = _repeated(kept)
    else:
        restart = _restart(between, between_df, sigma, each)
        restart_df = float(between_df + RESTART_WEIGHT) if between_df else math.inf
    noise = Noise(sigma, df, df > 0, repeated, count, len(out), restart, between_df > 0)
    return Fit(noise, drift, points, slope_variance, restart_df, believe(noise, points))


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


def _within(kept: pd.DataFrame) -> tuple[float, int, int, int]:
    """(sigma, df, points with repeats, their trials) inside the starts."""
    groups = kept.groupby(["steps", "load", "start"], sort=False, dropna=False)["y"]
    size, variance = groups.size(), groups.var(ddof=1)
    repeated = size > 1
    df = int((size[repeated] - 1).sum())
    if not df:
        return ASSUMED_NOISE, 0, 0, 0
    sigma = math.sqrt(float((variance[repeated] * (size[repeated] - 1)).sum()) / df)
    return sigma, df, int(repeated.sum()), int(size[repeated].sum())


def _repeated(kept: pd.DataFrame) -> tuple[int, int]:
    size = kept.groupby(["steps", "load"], sort=False).size()
    return int((size > 1).sum()), int(size[size > 1].sum())


def _start_means(kept: pd.DataFrame) -> pd.DataFrame:
    """One row per point and start, of the points that had several: y, hours, n, and less its mean.

    `r` and `h` are y and hours less the mean over the point's starts.
    """
    means = (
        kept.groupby(["steps", "load", "start"], sort=False, dropna=False)
        .agg(y=("y", "mean"), hours=("hours", "mean"), n=("y", "size"))
        .reset_index()
    )
    by_point = means.groupby(["steps", "load"], sort=False)
    means = means[by_point["y"].transform("size") > 1].copy()
    by_point = means.groupby(["steps", "load"], sort=False)
    means["r"] = means["y"] - by_point["y"].transform("mean")
    means["h"] = means["hours"] - by_point["hours"].transform("mean")
    return means


def _between(starts: pd.DataFrame, lost: int) -> tuple[float, int, float]:
    """(variance of the start means of a point, its df, trials in each); `lost` df to a slope."""
    if starts.empty:
        return 0.0, 0, 1.0
    points = starts.groupby(["steps", "load"], sort=False).ngroups
    df = len(starts) - points - lost
    if df < 1:
        return 0.0, 0, 1.0
    each = len(starts) / float((1 / starts["n"]).sum())
    return float((starts["r"] ** 2).sum()) / df, df, each


def _restart(between: float, df: int, sigma: float, each: float) -> float:
    """What a restart adds: measured where starts were repeated, drawn to the assumed value."""
    found = max(0.0, between - sigma**2 / each) if df else 0.0
    return math.sqrt((df * found + RESTART_WEIGHT * ASSUMED_RESTART**2) / (df + RESTART_WEIGHT))


def _drift(starts: pd.DataFrame, trials: pd.DataFrame) -> tuple[Drift | None, float, float]:
    """(drift, slope per hour, its variance) from points measured again after another start."""
    spread = float((starts["h"] ** 2).sum()) if len(starts) else 0.0
    points = starts.groupby(["steps", "load"], sort=False).ngroups
    df = len(starts) - points - 1
    if df < 1 or not spread > 0:
        return None, 0.0, 0.0
    slope = float((starts["h"] * starts["r"]).sum()) / spread
    left = float(((starts["r"] - slope * starts["h"]) ** 2).sum()) / df
    variance = left / spread
    hours = float(trials["hours"].max() - trials["hours"].min())
    reach = float(stats.t.ppf(0.975, df)) * math.sqrt(variance)
    low, high = ((slope - reach) * hours, (slope + reach) * hours)
    interval = Interval(math.expm1(low), math.expm1(high))
    drift = Drift(math.expm1(slope * hours), interval, hours, points, not interval.holds(0.0))
    return drift, slope, variance


def _estimates(kept: pd.DataFrame) -> dict[str, tuple[Estimate, ...]]:
    key = ["load", "steps"]
    by_start = kept.groupby([*key, "start"], dropna=False).size()
    points = kept.groupby(key)
    table = points[["concurrency", "hours"]].mean().astype("float64").fillna(0.0)
    table["n"], table["mean"] = points["y"].size(), points["y"].mean()
    table["start_part"] = (by_start**2).groupby(key).sum() / table["n"] ** 2
    logs = points["y"].agg(tuple)
    by_load: dict[str, list[Estimate]] = {}
    for (load, steps), row, values in zip(
        table.index.tolist(), table.to_dict("records"), logs, strict=True
    ):
        estimate = Estimate(
            load=str(load),
            steps=int(steps),
            concurrency=row["concurrency"],
            n=int(row["n"]),
            mean=row["mean"],
            hours=row["hours"],
            trial_part=1 / row["n"],
            start_part=row["start_part"],
            logs=values,
        )
        by_load.setdefault(estimate.load, []).append(estimate)
    return {load: tuple(estimates) for load, estimates in by_load.items()}
