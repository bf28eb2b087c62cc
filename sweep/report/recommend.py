"""What to use: steps per load, one value for a mix of loads, and what limits leave. Pure.

The mean of a mix is geometric: it says by which factor all of the traffic is slower than if every
load had its own best steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweep.errors import UsageError
from sweep.report.effects import AS_GOOD, AS_GOOD_GUESSED, difference_of
from sweep.report.estimates import odds
from sweep.report.limits import Limits, numbers_by_name, within
from sweep.report.summary import Conditions, Effect, Group, Interval, Load, Metric

# Of a load that is all but given up.
_LEAST = 1e-9
# A traffic mix: the share of each load, adding up to 1.
Mix = Mapping[str, float]


@dataclass(frozen=True)
class Pick:
    """What to use at one load.

    `steps`: None where nothing was measured, or nothing keeps the limits. `mean` and `interval` in
    tok/s of `metric`. `runner_up`: against `steps`. `ties`: what cannot be told from the highest,
    `as_good` what is about as good. `sure`: nothing ties, and the noise was measured. `capped`: the
    point measures queueing as well; `free`: the best without such points. `measured`: the noise
    was, by repeats. `why`: sentences.
    """

    load: str
    concurrency: int | None
    steps: int | None
    metric: Metric
    mean: float | None
    interval: Interval | None
    runner_up: Effect | None
    ties: tuple[int, ...]
    as_good: tuple[int, ...]
    sure: bool
    capped: bool
    free: int | None
    measured: bool
    why: tuple[str, ...]


@dataclass(frozen=True)
class Compromise:
    """One number of steps for a mix of loads.

    `loss`: what it gives away against every load's own best, as a fraction (geometric mean over
    the mix); `losses` the same by load. `left_out`: steps that could not be considered, and why.
    """

    steps: int
    mix: Mix
    loss: float
    losses: Mapping[str, float]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Recommendation:
    """What to use under the conditions that were measured.

    `group`: of the points that keep the limits. `notes` are the group's. `compared`: some point
    with speculation was measured, whether it keeps them or not.
    """

    group: Group
    conditions: Conditions
    picks: tuple[Pick, ...]
    limits: Limits
    compromise: Compromise | None
    notes: tuple[str, ...]
    compared: bool

    @property
    def to_paste(self) -> int | None:
        """`steps`, unless the baseline is all that was measured: that is no choice to act on."""
        return self.steps if self.compared else None

    @property
    def steps(self) -> int | None:
        """The one value to use: the compromise, else what the first load has."""
        if self.compromise is not None:
            return self.compromise.steps
        return next((pick.steps for pick in self.picks if pick.steps is not None), None)

    def pick(self, load: str) -> Pick | None:
        return next((one for one in self.picks if one.load == load), None)


def recommend(
    group: Group, *, mix: Mix | None = None, limits: Limits | None = None
) -> Recommendation:
    """What to use; without a mix every load counts the same.

    Raises:
        UsageError: the mix names a load, or a limit a column, that was not measured or is none.
    """
    limits = limits or {}
    compared = any(cell.ok and cell.steps for load in group.loads for cell in load.cells)
    kept = within(group, limits)
    group = kept.group
    picks = tuple(
        _pick(load, kept.said.get(load.load, ()), measured=group.noise.measured)
        for load in group.loads
    )
    measured = [pick.load for pick in picks if pick.steps is not None]
    if mix and (missing := [load for load in mix if load not in measured]):
        raise UsageError(
            f"--mix {missing[0]}: nothing to use was measured there; the loads are "
            f"{', '.join(measured) or 'none'}"
        )
    shares = _shares(mix or dict.fromkeys(measured, 1.0))
    compromise = _compromise(group, shares, limited=bool(limits)) if shares else None
    return Recommendation(group, group.conditions, picks, limits, compromise, group.notes, compared)


def parse_mix(text: str) -> Mix:
    """`1:0.7,16:0.3` as shares by load; they need not add up to 1.

    Raises:
        ValueError: not of that form.
    """
    return numbers_by_name(text, ":", "LOAD:SHARE, such as 16:0.3")


# -- per load -------------------------------------------------------------------------------------


def _pick(load: Load, said: Sequence[str], *, measured: bool) -> Pick:
    cell = load.cell(load.best)
    return Pick(
        load=load.load,
        concurrency=load.concurrency,
        steps=load.best,
        metric=load.metric,
        mean=cell.mean if cell else None,
        interval=cell.interval if cell else None,
        runner_up=load.runner_up,
        ties=load.ties,
        as_good=load.as_good,
        sure=load.decided,
        capped=cell is not None and cell.capped,
        free=load.best_uncapped,
        measured=measured,
        why=(*said, *load.why),
    )


# -- for a mix ------------------------------------------------------------------------------------


def _shares(mix: Mix) -> Mix:
    whole = sum(mix.values())
    return {load: share / whole for load, share in mix.items()}


def _compromise(group: Group, mix: Mix, *, limited: bool) -> Compromise | None:
    """The steps that give away the least; fewer steps where that is about as good."""
    loads = {load.load: load for load in group.loads if load.load in mix}
    losses: dict[int, dict[str, float]] = {}
    left_out = []
    for steps in group.steps:
        lacking = [load.label for load in loads.values() if not _has(load, steps)]
        if lacking:
            value = "no value within the limits" if limited else "no value"
            left_out.append(f"steps={steps} has {value} at {', '.join(lacking)}")
        else:
            losses[steps] = {name: _loss(load, steps) for name, load in loads.items()}
    if not losses:
        return None
    likely = max(losses, key=lambda steps: _ahead(group, mix, steps, min(losses))[0])
    enough = AS_GOOD if group.noise.measured else AS_GOOD_GUESSED
    best = next(
        steps
        for steps in sorted(losses)
        if steps == likely or odds(*_ahead(group, mix, steps, likely)) >= enough
    )
    kept = sum(mix[name] * math.log(max(1 - loss, _LEAST)) for name, loss in losses[best].items())
    return Compromise(best, mix, 1 - math.exp(kept), losses[best], tuple(left_out))


def _has(load: Load, steps: int) -> bool:
    cell = load.cell(steps)
    return cell is not None and cell.ok and cell.mean is not None


def _loss(load: Load, steps: int) -> float:
    """What these steps give away at a load against its best, at least 0."""
    cell, best = load.cell(steps), load.cell(load.best)
    if cell is None or best is None or not cell.mean or not best.mean:
        return 0.0
    return max(0.0, 1 - cell.mean / best.mean)


def _ahead(group: Group, mix: Mix, one: int, other: int) -> tuple[float, float]:
    """(by how much `one` serves the mix better than `other`, the variance of that), in logs."""
    ahead = variance = 0.0
    for load, share in mix.items():
        points = {point.steps: point for point in group.fit.points[load]}
        difference, spread = difference_of(group.fit, points[one], points[other])
        ahead += share * difference
        variance += share**2 * spread
    return ahead, variance
