"""Which steps of a load to use, by the points it holds. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sweep.report.effects import choose, effects, peaks
from sweep.report.estimates import Estimate, Fit
from sweep.report.summary import Effect, Load


def with_choice(fit: Fit, load: Load) -> Load:
    """The load with its best, what ties with that, and what comes next: of its own cells alone."""
    there = {cell.steps for cell in load.cells if cell.mean is not None}
    capped = {cell.steps for cell in load.cells if cell.capped}
    points = [point for point in fit.points.get(load.load, ()) if point.steps in there]
    free = [point for point in points if point.steps not in capped]
    choice = choose(fit, points) if points else None
    return replace(
        load,
        highest=choice.highest if choice else None,
        best=choice.best if choice else None,
        ties=choice.ties if choice else (),
        as_good=choice.as_good if choice else (),
        runner_up=_runner_up(fit, points, choice.best) if choice else None,
        peaks=peaks(fit, points),
        best_uncapped=choose(fit, free).best if free else None,
        decided=fit.noise.measured and choice is not None and len(choice.ties) == 1,
    )


def _runner_up(fit: Fit, points: Sequence[Estimate], best: int) -> Effect | None:
    """The next highest mean of these points, against the best."""
    against = effects(fit, points, best)
    return max(against.values(), key=lambda effect: effect.change, default=None)
