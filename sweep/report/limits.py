"""Limits, such as `--slo ttft_p99_ms=500`: what they leave of a group. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from sweep.errors import UsageError
from sweep.report.choosing import with_choice
from sweep.report.estimates import Fit
from sweep.report.percentiles import made_of_few
from sweep.report.summary import Cell, Group, Load
from sweep.report.why import with_reasons
from sweep.rows import COLUMNS

# Columns of results.csv and what they may reach at most.
Limits = Mapping[str, float]

_LIMITABLE = tuple(name for name in COLUMNS if "_ms_" in name and not name.startswith("client"))


@dataclass(frozen=True)
class Kept:
    """`group` as if nothing else had been measured; `said`: by load, what is out and why."""

    group: Group
    said: Mapping[str, tuple[str, ...]]


def parse_limits(text: str) -> Limits:
    """`ttft_p99_ms=500,tpot_p99_ms=20` as columns of results.csv (`ttft_ms_p99`) and limits.

    Raises:
        ValueError: not of that form.
    """
    return numbers_by_name(text, "=", "NAME=LIMIT, such as ttft_p99_ms=500", _column)


def numbers_by_name(
    text: str, sign: str, form: str, known_as: Callable[[str], str] = str
) -> dict[str, float]:
    """Names and numbers above 0, such as `1:0.7,16:0.3`; `form` says how a part looks.

    `known_as`: what a name stands for, so that two names of one thing are that thing twice.

    Raises:
        ValueError: not of that form, or a name twice.
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = (word.strip() for word in part.partition(sign))
        try:
            number = float(value)
        except ValueError as error:
            raise ValueError(f"{part.strip()!r} is not {form}") from error
        if not name or not number > 0 or math.isinf(number):
            raise ValueError(f"{part.strip()!r} is not {form}: it needs a name, a number above 0")
        if known_as(name) in found:
            raise ValueError(f"{name} stands in it twice")
        found[known_as(name)] = number
    return found


def within(group: Group, limits: Limits) -> Kept:
    """What keeps every limit: the choice, its rivals and its reasons are of these points alone.

    Raises:
        UsageError: a limit on what is no column of results, or was measured nowhere here.
    """
    if unknown := [name for name in limits if name not in _LIMITABLE]:
        raise UsageError(
            f"--slo {unknown[0]}: no such limit; there are {', '.join(map(spoken, _LIMITABLE))}"
        )
    if not limits:
        return Kept(group, {})
    cells = [cell for load in group.loads for cell in load.cells if cell.ok]
    seen = {name for cell in cells for name in _LIMITABLE if cell.numbers.get(name) is not None}
    if cells and (missing := [name for name in limits if name not in seen]):
        raise UsageError(
            f"--slo {spoken(missing[0])}: nothing here says it; what was measured is "
            f"{', '.join(spoken(name) for name in _LIMITABLE if name in seen) or 'no time at all'}"
        )
    kept = tuple(_within(group.fit, load, limits) for load in group.loads)
    said = {
        old.load: (*_out(old, limits), *_few(new, limits))
        for old, new in zip(group.loads, kept, strict=True)
    }
    return Kept(with_reasons(replace(group, loads=kept)), said)


def spoken(column: str) -> str:
    """`ttft_ms_p99` as people name it: `ttft_p99_ms`."""
    head, _, tail = column.rpartition("_ms_")
    return f"{head}_{tail}_ms"


def _column(name: str) -> str:
    """`ttft_p99_ms` and `ttft_ms_p99` are the same column."""
    parts = name.split("_")
    if parts[-1] == "ms" and len(parts) > 2:
        return "_".join((*parts[:-2], "ms", parts[-2]))
    return name


def _within(fit: Fit, load: Load, limits: Limits) -> Load:
    cells = tuple(cell for cell in load.cells if not _why_out(cell, limits))
    return with_choice(fit, replace(load, cells=cells))


def _out(load: Load, limits: Limits) -> Iterator[str]:
    """A sentence for each reason, however many steps share it."""
    steps: dict[str, list[str]] = {}
    for cell in load.cells:
        if reason := _why_out(cell, limits):
            steps.setdefault(reason, []).append(str(cell.steps))
    for reason, which in steps.items():
        yield f"steps={','.join(which)} {'is' if len(which) == 1 else 'are'} out: {reason}"


def _why_out(cell: Cell, limits: Limits) -> str:
    if not cell.ok:
        return ""
    return ", ".join(filter(None, (_broken(cell, *limit) for limit in limits.items())))


def _broken(cell: Cell, column: str, limit: float) -> str:
    value = cell.numbers.get(column)
    if value is None:
        return f"{spoken(column)} was not measured"
    few = made_of_few(cell, column)
    of = f" (of {few} requests)" if few else ""
    return f"{spoken(column)} {value:.4g}{of} is above {limit:g}" if value > limit else ""


def _few(load: Load, limits: Limits) -> Iterator[str]:
    """What the choice keeps a limit by, where that is hardly more than one request."""
    best = load.cell(load.best)
    for column in limits:
        if best is not None and (few := made_of_few(best, column)):
            yield (
                f"steps={best.steps} keeps {spoken(column)} with {best.numbers[column]:.4g}, which "
                f"is of {few} requests a trial: about the slowest of them, and no promise"
            )
