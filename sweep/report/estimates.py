"""The points of a group with what is known of their noise: what comparisons are made from. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from sweep.report.summary import Drift, Noise

Floats = npt.NDArray[np.float64]

# More degrees of freedom than this are as good as knowing.
KNOWN = 500.0
# What a float can still hold, with room to be multiplied by 100.
_MOST = 700.0


def ratio(log: float) -> float:
    """What a difference of logarithms is a factor of; where nothing is known it has no bounds."""
    return math.exp(min(log, _MOST))


def change(log: float) -> float:
    """The same as a fraction: 0.05 is 5 % more."""
    return math.expm1(min(log, _MOST))


@dataclass(frozen=True)
class Estimate:
    """One point: `mean` of log(metric) over its `n` trials, freed of drift.

    `concurrency`: as a number, 0 where it is not known.
    `hours`: their mean time since the group's first trial. `trial_part`, `start_part`: the variance
    of the mean in units of the two variances of the noise.
    """

    load: str
    steps: int
    concurrency: float
    n: int
    mean: float
    hours: float
    trial_part: float
    start_part: float


@dataclass(frozen=True)
class Belief:
    """Of the points of one load: log(metric) by steps, and its covariance."""

    steps: tuple[int, ...]
    mean: Floats
    covariance: Floats

    def top(self, among: Iterable[int]) -> int:
        """The steps that are most probably the highest of these."""
        return max(among, key=lambda steps: self.mean[self.steps.index(steps)])

    def difference(self, one: int, other: int) -> tuple[float, float]:
        """(how much higher one is than the other, the variance of that)."""
        i, j = self.steps.index(one), self.steps.index(other)
        spread = self.covariance[i, i] + self.covariance[j, j] - 2 * self.covariance[i, j]
        return float(self.mean[i] - self.mean[j]), max(0.0, float(spread))


def odds(difference: float, variance: float) -> float:
    """How likely a normal value is above 0."""
    if not variance:
        return float(difference >= 0)
    return float(special.ndtr(difference / math.sqrt(variance)))


@dataclass(frozen=True)
class Level:
    """How far the level of a start of the server is from its steps' own, over what it measured.

    `variance` on `df` degrees of freedom: what a restart adds, and `share` of the variance of one
    trial, as far as its trials did not average that away. `slope`: what it adds to the variance of
    a drift that was taken out, per hour squared; 0 where none was.
    """

    variance: float
    df: float = math.inf
    share: float = 0.0
    slope: float = 0.0


@dataclass(frozen=True)
class Fit:
    """The noise of a group, and its points by load, ascending in steps.

    `level`: what starts differ by. `beliefs`: by load, what the choice between ties goes by; a load
    may have none.
    """

    noise: Noise
    drift: Drift | None
    points: Mapping[str, tuple[Estimate, ...]]
    level: Level
    beliefs: Mapping[str, Belief]

    def spread(self, one: Estimate, other: Estimate | None = None) -> tuple[float, float]:
        """(variance, degrees of freedom by Satterthwaite) of a mean, or of a difference of two.

        Of the two variances that were measured, so that neither is the difference of two: a small
        one of these is mostly chance, and its degrees of freedom say nothing of that.
        """
        trial, start, apart = one.trial_part, one.start_part, 0.0
        if other is not None:
            trial, start = trial + other.trial_part, start + other.start_part
            apart = one.hours - other.hours
        level = self.level
        parts = (
            (
                max(0.0, trial - start * level.share) * self.noise.sigma**2,
                self.noise.df or math.inf,
            ),
            ((start + level.slope * apart**2) * level.variance, level.df),
        )
        variance = sum(part for part, _ in parts)
        uncertain = sum(part**2 / df for part, df in parts)
        df = variance**2 / uncertain if uncertain else math.inf
        return variance, min(df, KNOWN)
