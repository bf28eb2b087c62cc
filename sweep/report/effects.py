"""Which differences clear the noise, many of them at a time. Pure.

All steps of a load are compared with one of them (the baseline, or the highest), so the intervals
of one load hold together in 95 of 100 sweeps: Dunnett's, for any number of trials per point and a
noise that was estimated elsewhere. `scipy.stats.dunnett` wants the raw samples and estimates the
noise from these alone; for those the tests hold ours against it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import optimize, special, stats

from sweep.report.estimates import Estimate, Fit, change, odds, ratio
from sweep.report.summary import Effect, Interval, Verdict

LEVEL = 0.95
# Fewer steps are as good while the odds that they are the better ones are two in five; three in
# ten where nothing was repeated, and the noise itself is a guess.
AS_GOOD = 0.4
AS_GOOD_GUESSED = 0.3


def dunnett_critical(shared: Sequence[float], df: float, level: float = LEVEL) -> float:
    """What |t| of every comparison with one control stays below in `level` of all cases.

    `shared[i]`: the root of the control's share of the variance of comparison i (1/sqrt(2) for
    equal trials). `df`: of the noise, inf where it is known.
    """
    return _critical(
        tuple(round(one, 2) for one in sorted(shared)), round(min(df, 500.0), 1), level
    )


@lru_cache(maxsize=4096)
def _critical(shared: tuple[float, ...], df: float, level: float) -> float:
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    quantiles = (np.arange(120) + 0.5) / 120
    scale = np.sqrt(stats.chi2.ppf(quantiles, df) / df)[:, None, None]
    control = np.minimum(np.asarray(shared), 0.995)
    rest = np.sqrt(1 - control**2)
    moved = control * nodes[:, None]

    def excess(limit: float) -> float:
        inside = special.ndtr((limit * scale + moved) / rest)
        inside = inside - special.ndtr((moved - limit * scale) / rest)
        return float((inside.prod(axis=2) @ weights).mean()) - level

    return float(optimize.brentq(excess, 1.0, 200.0, xtol=1e-4))


def effects(fit: Fit, points: Sequence[Estimate], control: int) -> dict[int, Effect]:
    """Every point of one load against the one with `control` steps, by steps."""
    base = next(point for point in points if point.steps == control)
    others = [point for point in points if point is not base]
    if not others:
        return {}
    spreads = [fit.spread(point, base) for point in others]
    own = fit.spread(base)[0]
    shared = [math.sqrt(own / variance) if variance else 0.0 for variance, _ in spreads]
    limit = dunnett_critical(shared, min(df for _, df in spreads))
    found = {}
    for point, (variance, _) in zip(others, spreads, strict=True):
        apart, reach = point.mean - base.mean, limit * math.sqrt(variance)
        interval = Interval(change(apart - reach), change(apart + reach))
        verdict = judge(interval, measured=fit.noise.measured)
        found[point.steps] = Effect(point.steps, control, change(apart), interval, verdict)
    return found


def judge(interval: Interval, *, measured: bool) -> Verdict:
    """What an interval of a change says; nothing where the noise was only assumed."""
    if not measured:
        return "undecided"
    if interval.low > 0:
        return "gain"
    return "loss" if interval.high < 0 else "tie"


@dataclass(frozen=True)
class Choice:
    """See `summary.Load`, whose fields these become."""

    highest: int
    ties: tuple[int, ...]
    as_good: tuple[int, ...]

    @property
    def best(self) -> int:
        """The fewest steps that are as good as the highest."""
        return self.as_good[0]


def choose(fit: Fit, points: Sequence[Estimate]) -> Choice:
    """What to use at one load; `points` has at least one.

    Ties are what cannot be told from the highest mean. Of these the most probable is found (see
    `beliefs`), and as good is what is better than it with odds of at least `AS_GOOD`.
    """
    highest = max(points, key=lambda point: point.mean)
    against = effects(fit, points, highest.steps)
    ties = [
        point for point in points
        if point is highest or against[point.steps].interval.high >= 0
    ]  # fmt: skip
    likely = _likely(fit, ties) or highest
    enough = AS_GOOD if fit.noise.measured else AS_GOOD_GUESSED
    as_good = [
        point
        for point in ties
        if point is likely or odds(*difference_of(fit, point, likely)) >= enough
    ]
    return Choice(
        highest.steps, tuple(point.steps for point in ties), tuple(point.steps for point in as_good)
    )


def _likely(fit: Fit, ties: Sequence[Estimate]) -> Estimate | None:
    belief = fit.beliefs.get(ties[0].load)
    if belief is None:
        return None
    top = belief.top(point.steps for point in ties)
    return next(point for point in ties if point.steps == top)


def difference_of(fit: Fit, one: Estimate, other: Estimate) -> tuple[float, float]:
    """(how much higher one is than the other of its load, the variance of that), in logs."""
    belief = fit.beliefs.get(one.load)
    if belief is not None:
        return belief.difference(one.steps, other.steps)
    return one.mean - other.mean, fit.spread(one, other)[0]


def _clearly_below(fit: Fit, one: Estimate, other: Estimate) -> bool:
    """Whether the one is lower beyond the noise, judged by these two alone."""
    variance, df = fit.spread(one, other)
    return other.mean - one.mean > float(stats.t.ppf(LEVEL, df)) * math.sqrt(variance)


def point_interval(fit: Fit, point: Estimate) -> Interval:
    """Of one point's mean, in its unit: by itself, not together with others."""
    variance, df = fit.spread(point)
    reach = float(stats.t.ppf(0.5 + LEVEL / 2, df)) * math.sqrt(variance)
    return Interval(ratio(point.mean - reach), ratio(point.mean + reach))


def peaks(fit: Fit, points: Sequence[Estimate]) -> tuple[int, ...]:
    """Steps that are higher than both neighbours, with a valley between any two of them.

    A valley that does not clear the noise is none: the lower of its two sides is no peak.
    """
    means = [-math.inf, *(point.mean for point in points), -math.inf]
    kept: list[int] = []
    for place in range(len(points)):
        if not means[place] < means[place + 1] >= means[place + 2]:
            continue
        kept.append(place)
        while len(kept) > 1 and not _valley(fit, points[kept[-2] : kept[-1] + 1]):
            kept.remove(min(kept[-2:], key=lambda one: points[one].mean))
    return tuple(points[place].steps for place in kept)


def _valley(fit: Fit, between: Sequence[Estimate]) -> bool:
    """Whether the lowest point between two tops is below both beyond the noise."""
    lowest = min(between, key=lambda point: point.mean)
    return all(_clearly_below(fit, lowest, top) for top in (between[0], between[-1]))
