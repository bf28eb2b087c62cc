"""A unit's speculation made fit for a sweep of its steps, changing as little as can be."""

from __future__ import annotations

from collections.abc import Mapping

from sweep.inventory import FlagValue
from sweep.sglang.args import ADAPTIVE, ALGORITHM, DRAFT, STEPLESS, STEPS, TOPK
from sweep.sglang.flags import is_speculative
from sweep.sglang.rules import complaints, tree_size

MOST_STEPS = 10  # what the written sweep goes up to
_BY_ITSELF = "models with MTP layers take NEXTN, others need EAGLE3 and a draft model"


def for_a_sweep(
    given: Mapping[str, FlagValue], notes: list[str]
) -> tuple[dict[str, FlagValue], int]:
    """The flags with an algorithm that has steps, a topk, no fixed steps; the lowest steps value.

    Whatever is changed is added to `notes`.
    """
    args = dict(given)
    _drop(args, STEPS, "the sweep sets it", notes)
    for name in (ADAPTIVE, "speculative-adaptive-config"):
        _drop(args, name, "it would move the steps that the sweep sets", notes)
    _algorithm(args, notes)
    if not isinstance(args.get(TOPK), int):
        args[TOPK] = 1
        notes.append(f"{TOPK}: 1 is written: the unit leaves it to SGLang, a sweep cannot")
    first = _first_step(args, notes)
    _make_loadable(args, first, notes)
    return args, first


def _make_loadable(args: dict[str, FlagValue], first: int, notes: list[str]) -> None:
    """What fitted the unit's own steps may not fit every one of the sweep's."""
    for steps in (first, MOST_STEPS):
        while problem := next(complaints({"model-path": "x", **args, STEPS: steps}), None):
            why = problem.text.split("; ")[0]
            if problem.flag not in args or problem.flag in (ALGORITHM, TOPK, DRAFT):
                notes.append(f"to be corrected by hand: {problem.flag} {why}")
                return
            _drop(args, problem.flag, why, notes)


def _algorithm(args: dict[str, FlagValue], notes: list[str]) -> None:
    algorithm = str(args.get(ALGORITHM, "")).upper()
    if algorithm in STEPLESS:
        for name in [name for name in args if is_speculative(name)]:
            _drop(args, name, f"{algorithm} does not draft in steps", notes)
        algorithm = ""
    args[ALGORITHM] = algorithm or "NEXTN"
    if not algorithm:
        args.setdefault(TOPK, 1)
        notes.append(f"{ALGORITHM}: NEXTN is written, check it: {_BY_ITSELF}")


def _first_step(args: dict[str, FlagValue], notes: list[str]) -> int:
    """With topk 1 the draft tokens follow from the steps; a tree of them needs enough steps."""
    topk, draft = args[TOPK], args.get(DRAFT)
    if topk == 1:
        _drop(args, DRAFT, "SGLang makes it steps + 1 when topk is 1", notes)
        return 1
    first = 0
    if isinstance(draft, int) and isinstance(topk, int) and min(draft, topk) > 1:
        fitting = (n for n in range(1, MOST_STEPS + 1) if draft <= tree_size(n, topk))
        first = next(fitting, 0)
    if first:
        if first > 1:
            notes.append(
                f"steps begin at {first}: {draft} draft tokens with topk {topk} need that many"
            )
        return first
    _drop(args, DRAFT, "no sweep up to 10 steps holds such a tree", notes)
    notes.append(f"{TOPK} {topk} became 1")
    args[TOPK] = 1
    return 1


def _drop(args: dict[str, FlagValue], name: str, reason: str, notes: list[str]) -> None:
    if name in args:
        value = args.pop(name)
        shown = "" if value is True else f" {value}"
        notes.append(f"--{name}{shown} left out: {reason}")
