"""Recommendations and comparisons as plain text, and as JSON values. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sweep.report.adaptive import Adaptive
from sweep.report.compare import Change, Comparison
from sweep.report.limits import spoken
from sweep.report.recommend import Pick, Recommendation
from sweep.report.summary import Effect, Interval, percent

_UNITS = {"agg_tok_s": "tok/s", "per_req_tok_s": "tok/s per request"}


# -- recommend ------------------------------------------------------------------------------------


def answer_lines(found: Recommendation) -> Iterator[str]:
    """What to use, in three lines: one value for all, the best of each load, how sure that is."""
    limits = ", ".join(f"{spoken(name)}={limit:g}" for name, limit in found.limits.items())
    if found.steps is None:
        yield f"nothing measured keeps {limits}" if limits else found.group.nothing
        return
    within = f" within {limits}" if limits else ""
    yield f"use steps={found.steps}{within}: {_merit(found)}"
    best = ", ".join(
        f"C={pick.load} {'none' if pick.steps is None else f'steps={pick.steps}'}"
        for pick in found.picks
    )
    yield f"best of each load: {best}"
    yield f"how sure: {_sureness(found)}"


def _merit(found: Recommendation) -> str:
    one = found.compromise
    if one is None:
        return "no one value was measured at every load; this is the best of the first"
    if len(one.mix) == 1:
        return f"the best for C={next(iter(one.mix))}"
    alike = len(set(one.mix.values())) == 1
    mix = ", ".join(f"{share:.0%} at C={load}" for load, share in one.mix.items())
    some = "every load" if len(one.mix) == len(found.picks) else f"C={', '.join(one.mix)}"
    traffic = f"{some} alike" if alike else mix
    return f"one value for {traffic}, {one.loss:.1%} behind the best of each"


def _sureness(found: Recommendation) -> str:
    loads = [load for load in found.group.loads if load.best is not None]
    open_ = [
        f"{load.label} steps={load.best} from {','.join(map(str, load.rivals))}"
        for load in loads
        if load.rivals
    ]
    said = [f"not told apart are {'; '.join(open_)}"] if open_ else []
    if not found.group.noise.measured:
        said.append(f"nothing was measured twice, {found.group.noise.sigma:.0%} noise is assumed")
    elif not open_:
        said.append("every best one is ahead beyond the noise")
    command = found.group.repeat_command
    return "; ".join([*said, *([f"to decide: {command}"] if command else [])])


def reason_lines(found: Recommendation) -> Iterator[str]:
    """Every load with its interval and its runner-up, why, and under which conditions."""
    for pick in found.picks:
        yield from _pick_lines(pick)
    if found.compromise and found.compromise.left_out:
        yield "no one value for all:"
        yield from (f"    {reason}" for reason in found.compromise.left_out)
    for note in (*found.group.why, *found.notes):
        yield f"note: {note}"
    known = ", ".join(f"{name} {value}" for name, value in found.conditions.lines())
    yield f"this holds for: {known or 'conditions that the table does not say'}"


def _pick_lines(pick: Pick) -> Iterator[str]:
    if pick.steps is None or pick.mean is None:
        yield f"C={pick.load}: nothing to recommend"
    else:
        yield f"C={pick.load}: steps={pick.steps}, {_level(pick)}{_rival(pick)}"
    for sentence in pick.why:
        yield f"    {sentence}"


def _level(pick: Pick) -> str:
    spread = f" ({pick.interval.low:.1f} to {pick.interval.high:.1f})" if pick.interval else ""
    return f"{pick.mean:.1f} {_UNITS[pick.metric]}{spread}"


def _rival(pick: Pick) -> str:
    """The runner-up in words: by how much it is behind, and whether that is beyond the noise."""
    rival = pick.runner_up
    if rival is None:
        return ""
    head = f"; next is steps={rival.steps} with {rival.text()} ({_span(rival.interval)})"
    if rival.steps not in pick.ties:
        return head
    if rival.verdict == "undecided":
        return f"{head}: not to be told apart without repeats"
    fewer = pick.steps is not None and rival.change > 0 and pick.steps < rival.steps
    return f"{head}: inside the noise{', so fewer steps are taken' if fewer else ''}"


def _span(interval: Interval) -> str:
    return f"{percent(interval.low)} to {percent(interval.high)}"


def recommendation_json(found: Recommendation, schedule: Adaptive) -> dict[str, Any]:
    """The same as JSON values; None is unknown."""
    compromise = found.compromise
    return {
        "source": found.group.source,
        "group": found.group.label,
        "conditions": dict(found.conditions.lines()),
        "limits": dict(found.limits),
        "noise": {
            "sigma": found.group.noise.sigma,
            "measured": found.group.noise.measured,
            "degrees_of_freedom": found.group.noise.df,
        },
        "loads": [_pick_json(pick) for pick in found.picks],
        "compromise": None if compromise is None else {
            "steps": compromise.steps, "mix": dict(compromise.mix), "loss": compromise.loss,
            "losses": dict(compromise.losses), "left_out": list(compromise.left_out),
        },
        "adaptive": {
            slot.batch: list(slot.candidates) for slot in schedule.slots
        },
        "notes": [*found.group.why, *found.notes, *schedule.notes],
        "repeat": found.group.repeat_command,
    }  # fmt: skip


def _pick_json(pick: Pick) -> dict[str, Any]:
    return {
        "load": pick.load,
        "concurrency": pick.concurrency,
        "steps": pick.steps,
        "metric": pick.metric,
        "tok_s": pick.mean,
        "interval": _pair(pick.interval),
        "runner_up": _effect_json(pick.runner_up),
        "ties": list(pick.ties),
        "as_good": list(pick.as_good),
        "sure": pick.sure,
        "capped": pick.capped,
        "best_without_queueing": pick.free,
        "why": list(pick.why),
    }


def _pair(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _effect_json(effect: Effect | None) -> dict[str, Any] | None:
    if effect is None:
        return None
    return {"steps": effect.steps, "against": effect.against, "change": effect.change,
            "interval": _pair(effect.interval), "verdict": effect.verdict}  # fmt: skip


# -- compare --------------------------------------------------------------------------------------


def comparison_lines(found: Comparison) -> Iterator[str]:
    """What changed beyond the noise, what differs, then every point."""
    both = [one for one in found.changes if one.effect]
    yield f"A {found.before}, B {found.after}: {counted(len(both), 'point')} in both"
    yield _beyond(found)
    for name, before, after in found.conditions:
        yield f"differs: {name} {before} -> {after}"
    width = max((len(one.label) for one in found.changes), default=0)
    for change in found.changes:
        yield f"{change.label:{width}}  {_change_text(change)}"
    for setting in found.unmatched:
        yield f"only in A: {setting}"
    for moved in found.moved:
        yield f"best at C={moved.load} of what both measured: steps={moved.before} -> {moved.after}"
    for note in found.notes:
        yield f"note: {note}"


def counted(number: int, noun: str) -> str:
    """`1 point`, `2 points`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _beyond(found: Comparison) -> str:
    """How many changes are beyond the noise, and whether that noise was measured."""
    clear = [one for one in found.changes if one.effect and not one.effect.said.startswith("tie")]
    verb = "clears" if len(clear) == 1 else "clear"
    said = f"{counted(len(clear), 'change')} {verb} {_noise_name(found)}"
    if broke := [one for one in found.changes if one.broke]:
        said += f"; {counted(len(broke), 'point')} broke"
    if found.assumed:
        said += f" ({' and '.join(found.assumed)} measured nothing twice: repeats would decide)"
    return said


def _noise_name(found: Comparison) -> str:
    return "an assumed noise" if found.assumed else "the noise"


def gate_lines(found: Comparison, limit: float) -> Iterator[str]:
    """What stops an upgrade: losses of `limit` (a fraction) or more, and what B lacks."""
    for change in found.regressions(limit):
        effect = change.effect
        told = f"{effect.text()} ({_span(effect.interval)})" if effect else ""
        yield f"regression: {change.label}: {told}, beyond {_noise_name(found)}"
    for change in found.lacking():
        yield f"regression: {change.label} {change.lacking}"
    for setting in found.unmatched:
        yield f"regression: {setting} is not in B"


def passed_line(found: Comparison, limit: float) -> str:
    """What a gate that lets an upgrade pass has looked at."""
    both = sum(change.effect is not None for change in found.changes)
    return (
        f"passed: none of {counted(both, 'point')} lost {100 * limit:g} % or more beyond "
        f"{_noise_name(found)}, and B has every point of A"
    )


def _change_text(change: Change) -> str:
    if change.broke:
        before = "" if change.before is None else f"{change.before:10.1f} -> "
        return f"{before}failed: {change.broke}"
    if change.effect is None:
        both = change.before is not None and change.after is not None
        return "in different units" if both else f"only in {'B' if change.before is None else 'A'}"
    words = {"gain": "faster", "loss": "slower", "tie": ""}
    verdict, _, assumed = change.effect.said.partition(" ")
    word = f"{words[verdict]} {assumed}".strip() if words[verdict] else ""
    return (
        f"{change.before:10.1f} -> {change.after:10.1f} tok/s {change.effect.text():>8} "
        f"({_span(change.effect.interval)}) {word}"
    ).rstrip()


def comparison_json(found: Comparison) -> dict[str, Any]:
    """The same as JSON values."""
    return {
        "a": found.before,
        "b": found.after,
        "changes": [
            {"group": one.group, "load": one.load, "steps": one.steps, "a": one.before,
             "b": one.after, "effect": _effect_json(one.effect), "broke": one.broke,
             "lacking": one.lacking or None}
            for one in found.changes
        ],
        "best": [
            {"load": one.load, "a": one.before, "b": one.after} for one in found.moved
        ],
        "differs": [
            {"name": name, "a": before, "b": after} for name, before, after in found.conditions
        ],
        "unmatched": list(found.unmatched),
        "notes": list(found.notes),
    }  # fmt: skip
