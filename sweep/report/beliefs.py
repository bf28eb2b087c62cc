"""Which of several tied steps is probably best: what the points beside them say. Pure.

Means that cannot be told apart still have to be chosen from. Throughput mostly changes smoothly
with the steps and with the load, so a point's neighbours say something about it: a Gaussian process
over (steps, log of concurrency), with a level of its own for each load. How smooth the curves are
is learnt from the run itself (by their likelihood under weak priors), with a part that is not
smooth at all: where the noise is small next to the structure, nothing is borrowed and a second peak
or a cliff stays what it is. Intervals, verdicts and peaks never use this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import linalg, optimize

from sweep.report.estimates import Belief, Estimate, Floats
from sweep.report.summary import Noise

# Beyond this many points it costs more than it tells (the time grows with the cube).
MOST_POINTS = 400
# Scale of the smooth part, its reach in steps and in octaves of load, and the rough part: the
# middle of what is likely and, on the log scale, how far that is from sure.
_LIKELY = np.log([0.3, 3.0, 4.0, 0.02])
_UNSURE = np.array([1.0, 0.5, 0.7, 0.7])


def believe(noise: Noise, points: Mapping[str, Sequence[Estimate]]) -> dict[str, Belief]:
    """A belief for each load; none where there are too many points to weigh them together."""
    every = [point for found in points.values() for point in found]
    if not 1 < len(every) <= MOST_POINTS:
        return {}
    process = _Process(noise, every)
    mean, covariance = process.posterior()
    found = {}
    for load in points:
        here = [i for i, point in enumerate(every) if point.load == load]
        steps = tuple(every[i].steps for i in here)
        found[load] = Belief(steps, mean[here], covariance[np.ix_(here, here)])
    return found


class _Process:
    """The Gaussian process over all points of a group."""

    def __init__(self, noise: Noise, points: Sequence[Estimate]) -> None:
        steps = np.array([float(point.steps) for point in points])
        octaves = np.log2([max(1.0, point.concurrency) for point in points])
        loads = list(dict.fromkeys(point.load for point in points))
        self._steps = (steps[:, None] - steps) ** 2
        self._octaves = (octaves[:, None] - octaves) ** 2
        self._level = np.array([[float(point.load == load) for load in loads] for point in points])
        self._y = np.array([point.mean for point in points])
        # What a start of the server changes, it changes at every load.
        together = noise.restart**2 * (self._steps == 0)
        trials = noise.sigma**2 * np.array([point.trial_part for point in points])
        self._disturbed = together + np.diag(trials + 1e-10)

    def posterior(self) -> tuple[Floats, Floats]:
        """(mean, covariance) of log(metric) at every point."""
        found = optimize.minimize(
            self._unlikely, _LIKELY, method="L-BFGS-B", options={"maxiter": 30},
            bounds=[(a - 3 * s, a + 3 * s) for a, s in zip(_LIKELY, _UNSURE, strict=True)],
        )  # fmt: skip
        truth = self._truth(found.x)
        factor = linalg.cho_factor(truth + self._disturbed, lower=True)
        levels = self._level @ self._levels(factor)
        mean = levels + truth @ linalg.cho_solve(factor, self._y - levels)
        return mean, truth - truth @ linalg.cho_solve(factor, truth)

    def _truth(self, logs: Floats) -> Floats:
        """The covariance of what would be there without noise."""
        scale, reach, octaves, rough = np.exp(logs)
        apart = self._steps / (2 * reach**2) + self._octaves / (2 * octaves**2)
        smooth = scale**2 * np.exp(-apart)
        return np.asarray(smooth + rough**2 * np.eye(len(self._y)))

    def _levels(self, factor: tuple[Floats, bool]) -> Floats:
        """The level of each load, by generalised least squares."""
        weighed = linalg.cho_solve(factor, self._level)
        return np.asarray(np.linalg.solve(self._level.T @ weighed, weighed.T @ self._y))

    def _unlikely(self, logs: Floats) -> float:
        """Minus the log of likelihood (restricted: freed of the levels) and priors."""
        factor = linalg.cho_factor(self._truth(logs) + self._disturbed, lower=True)
        left = self._y - self._level @ self._levels(factor)
        weighed = linalg.cho_solve(factor, self._level)
        prior = float((((logs - _LIKELY) / _UNSURE) ** 2).sum()) / 2
        fit = float(left @ linalg.cho_solve(factor, left)) / 2
        size = float(np.log(np.diag(factor[0])).sum())
        return fit + size + float(np.linalg.slogdet(self._level.T @ weighed)[1]) / 2 + prior
