"""Two sweeps, point by point: what changed beyond the noise of both. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from scipy import stats

from sweep.errors import UsageError
from sweep.report.effects import LEVEL, choose, judge
from sweep.report.estimates import KNOWN, Estimate, Fit, change
from sweep.report.summary import Analysis, Cell, Conditions, Effect, Group, Interval, Load

Settings = Sequence[tuple[str, str, str]]
Pair = tuple[str, Group, Group]


@dataclass(frozen=True)
class Change:
    """One point: `before` and `after` in tok/s, `effect` of the one on the other.

    `broke`: it was measured before and failed now, with the failure; `effect` is None then, and
    where only one side has a value, or the two are in different units.
    """

    group: str
    load: str
    steps: int
    before: float | None
    after: float | None
    effect: Effect | None
    broke: str | None

    @property
    def label(self) -> str:
        where = f"{self.group} " if self.group else ""
        return f"{where}steps={self.steps} C={self.load}"

    @property
    def lacking(self) -> str:
        """Why a point of A cannot be held against B, if it cannot."""
        if self.before is None or self.effect is not None:
            return ""
        if self.broke:
            return f"failed in B: {self.broke}"
        return "is not in B" if self.after is None else "was measured in different units"


@dataclass(frozen=True)
class Moved:
    """The best steps of a load among those that both have a value of, where they changed."""

    group: str
    load: str
    before: int
    after: int


@dataclass(frozen=True)
class Comparison:
    """`changes` of points that either side has; `moved` the best steps; `conditions` that differ
    (name, before, after); `notes` of both sides that bear on it. `unmatched`: settings of A that B
    has none of. `assumed`: the sides ("A", "B") that measured nothing twice."""

    before: str
    after: str
    changes: tuple[Change, ...]
    moved: tuple[Moved, ...]
    conditions: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...]
    unmatched: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    def regressions(self, limit: float) -> tuple[Change, ...]:
        """The points that lost at least `limit` (a fraction) beyond the noise.

        Without repeats the noise is assumed: that is enough to stop an upgrade, not to praise one.
        """
        return tuple(
            change
            for change in self.changes
            if change.effect is not None
            and change.effect.change <= -limit
            and change.effect.interval.high < 0
        )

    def lacking(self) -> tuple[Change, ...]:
        """The points of A that B has nothing to hold against: a gate cannot let these pass."""
        return tuple(change for change in self.changes if change.lacking)


def compare(before: Analysis, after: Analysis, settings: Settings = ()) -> Comparison:
    """Every point of either side, in the order of the first.

    `settings`: what else is known to differ, as (name, before, after).

    Raises:
        UsageError: nothing can be compared: one side is empty, or they have no setting in common.
    """
    pairs = list(_paired(before, after))
    common = [one for pair in pairs for one in _common(*pair[1:])]
    # As many comparisons as points: their intervals hold together in 95 of 100.
    level = LEVEL ** (1 / max(1, len(common)))
    changes = [change for name, old, new in pairs for change in _changes(name, old, new, level)]
    conditions = [one for _, old, new in pairs for one in _conditions(old, new)]
    notes = [*_same_twice(pairs)] + [
        f"{side}: {note}" for _, old, new in pairs
        for side, group in (("A", old), ("B", new)) for note in _bearing(group)
    ]  # fmt: skip
    return Comparison(
        pairs[0][1].source, pairs[0][2].source, tuple(changes), tuple(_moved(pairs)),
        tuple(dict.fromkeys([*conditions, *settings])), tuple(dict.fromkeys(notes)),
        _unmatched(before, pairs), _assumed(pairs),
    )  # fmt: skip


def _same_twice(pairs: Sequence[Pair]) -> Iterator[str]:
    """That there is nothing to learn: no two measurements agree in every digit of every trial."""
    before = [_values(old) for _, old, _ in pairs]
    if any(before) and before == [_values(new) for _, _, new in pairs]:
        yield "A and B hold the same trials: this is one run against itself, or against a copy"


def _values(group: Group) -> dict[tuple[str, int], tuple[float, ...]]:
    return {
        (load.load, cell.steps): cell.values
        for load in group.loads
        for cell in load.cells
        if cell.values
    }


def _unmatched(before: Analysis, pairs: Sequence[Pair]) -> tuple[str, ...]:
    matched = {old.id for _, old, _ in pairs}
    return tuple(group.label for group in before.groups if group.id not in matched)


def _assumed(pairs: Sequence[Pair]) -> tuple[str, ...]:
    sides = {"A": [old for _, old, _ in pairs], "B": [new for _, _, new in pairs]}
    return tuple(
        side for side, groups in sides.items() if not all(one.noise.measured for one in groups)
    )


def _paired(before: Analysis, after: Analysis) -> Iterator[Pair]:
    """Groups of the same load and swept flags; with one group each, these two whatever they are."""
    if not before.groups or not after.groups:
        raise UsageError("nothing to compare: one of the two has no rows yet")
    if len(before.groups) == len(after.groups) == 1:
        yield "", before.groups[0], after.groups[0]
        return
    found = _matched(before.groups, after.groups)
    if not found:
        raise UsageError(
            "nothing to compare: the two have no workload, temperature and swept flags in common"
        )
    yield from ((old.label, old, new) for old, new in found)


def _matched(before: Sequence[Group], after: Sequence[Group]) -> list[tuple[Group, Group]]:
    """Each setting of A with one of B, those of the same model and machine before all others."""
    pairs = [
        (old, new)
        for old in before
        for new in after
        if _same_setting(old.conditions, new.conditions)
    ]
    found: dict[str, tuple[Group, Group]] = {}
    for old, new in sorted(pairs, key=lambda pair: _likeness(*pair), reverse=True):
        if old.id not in found and all(new is not taken for _, taken in found.values()):
            found[old.id] = (old, new)
    return [found[old.id] for old in before if old.id in found]


def _likeness(old: Group, new: Group) -> tuple[bool, ...]:
    names = ("model", "gpu", "host", "sglang_version", "dp_size")
    return tuple(getattr(old.conditions, name) == getattr(new.conditions, name) for name in names)


def _same_setting(one: Conditions, other: Conditions) -> bool:
    names = ("workload", "temperature", "topk", "config")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _common(old: Group, new: Group) -> Iterator[tuple[Load, Load, int]]:
    others = {load.load: load for load in new.loads}
    for load in old.loads:
        other = others.get(load.load)
        if other is None or other.metric != load.metric:
            continue
        for cell in load.cells:
            match = other.cell(cell.steps)
            if cell.mean is not None and match is not None and match.mean is not None:
                yield load, other, cell.steps


def _changes(name: str, old: Group, new: Group, level: float) -> Iterator[Change]:
    both = {(load.load, steps) for load, _, steps in _common(old, new)}
    for load, steps, one, other in _cells(old, new):
        effect = None
        if (load, steps) in both:
            effect = _effect(old.fit, new.fit, (load, steps), level)
        failed = other.failure if one and one.ok and other else None
        before, after = (cell.mean if cell else None for cell in (one, other))
        if one is not None or other is not None:
            yield Change(name, load, steps, before, after, effect, failed)


def _cells(old: Group, new: Group) -> Iterator[tuple[str, int, Cell | None, Cell | None]]:
    sides = [{load.load: load for load in group.loads} for group in (old, new)]
    for load in dict.fromkeys((*sides[0], *sides[1])):
        one, other = (side.get(load) for side in sides)
        known = {cell.steps for found in (one, other) if found for cell in found.cells}
        for steps in sorted(known):
            yield (
                load,
                steps,
                one.cell(steps) if one else None,
                other.cell(steps) if other else None,
            )


def _effect(old: Fit, new: Fit, place: tuple[str, int], level: float) -> Effect:
    one, other = (_point(fit, *place) for fit in (old, new))
    spreads = [old.spread(one), new.spread(other)]
    variance = sum(part for part, _ in spreads)
    uncertain = sum(part**2 / df for part, df in spreads)
    df = min(variance**2 / uncertain, KNOWN) if uncertain else KNOWN
    apart = other.mean - one.mean
    reach = float(stats.t.ppf(0.5 + level / 2, df)) * math.sqrt(variance)
    interval = Interval(change(apart - reach), change(apart + reach))
    measured = old.noise.measured and new.noise.measured
    return Effect(place[1], place[1], change(apart), interval, judge(interval, measured=measured))


def _point(fit: Fit, load: str, steps: int) -> Estimate:
    return next(point for point in fit.points[load] if point.steps == steps)


def _moved(pairs: Sequence[Pair]) -> Iterator[Moved]:
    for name, old, new in pairs:
        both: dict[str, set[int]] = {}
        for load, _, steps in _common(old, new):
            both.setdefault(load.load, set()).add(steps)
        for load_name, steps_in_both in both.items():
            before, after = (_best(fit, load_name, steps_in_both) for fit in (old.fit, new.fit))
            if before != after:
                yield Moved(name, load_name, before, after)


def _best(fit: Fit, load: str, among: set[int]) -> int:
    return choose(fit, [point for point in fit.points[load] if point.steps in among]).best


def _conditions(old: Group, new: Group) -> Iterator[tuple[str, str, str]]:
    for field in fields(Conditions):
        before, after = (getattr(group.conditions, field.name) for group in (old, new))
        if before != after:
            yield field.name, str(before or "unknown"), str(after or "unknown")


def _bearing(group: Group) -> Iterator[str]:
    """What of a group's noise and drift a comparison must be read with."""
    yield group.noise.text()
    if group.drift is not None and group.drift.matters:
        yield f"the night drifted by {group.drift.total:+.1%}, which is taken out"
