"""Why a number of steps is as fast as it is, in numbers and in sentences. Pure.

speed-up(k) = acceptance_length(k) x step_time(0) / step_time(k). A step more brings more tokens
per verify step and makes it longer; and its draft states take memory, so that the server admits
fewer requests. What a request gains and what the server loses are told apart by the rate of one
request: where that still rises while the aggregate falls, admission is the reason, not compute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

from sweep.report.summary import Capacity, Cell, Group, Load, Share, percent

# Less than this in the rate of one request is no change of it.
_SAME = 0.01


def admits(capacities: Sequence[Capacity], steps: int) -> tuple[int | None, bool]:
    """(requests the server admits at most, whether that was concluded from fewer steps).

    Draft states take memory for each request, so more steps never admit more.
    """
    fewer = [
        one.max_running_requests
        for one in capacities
        if 0 < one.steps < steps and one.max_running_requests is not None
    ]
    for one in capacities:
        if one.steps == steps and one.max_running_requests is not None:
            return one.max_running_requests, False
    return (min(fewer), True) if fewer else (None, False)


def with_reasons(group: Group) -> Group:
    """The group with its `why`, and with `shares`, `limited_by` and `why` in every load."""
    loads = tuple(_with_reasons(group, load) for load in group.loads)
    return replace(group, loads=loads, why=tuple(_costs(group)))


def _with_reasons(group: Group, load: Load) -> Load:
    falls = list(_falls(load))
    load = replace(
        load,
        shares=tuple(_shares(load)),
        limited_by=_limit(group.capacities, *falls[0]) if falls else None,
    )
    return replace(load, why=tuple(_sentences(group, load)))


def _costs(group: Group) -> Iterator[str]:
    """What each further step costs in requests and KV tokens."""
    for before, after in pairwise(group.capacities):
        parts = [
            f"{name} {old} -> {new} ({percent(new / old - 1)})"
            for name, old, new in (
                ("max_running_requests", before.max_running_requests, after.max_running_requests),
                ("max_total_num_tokens", before.max_total_num_tokens, after.max_total_num_tokens),
            )
            if old and new and old != new
        ]
        if parts:
            yield f"from steps={before.steps} to {after.steps}: {', '.join(parts)}"


# -- in numbers -----------------------------------------------------------------------------------


def _shares(load: Load) -> Iterator[Share]:
    known = [cell for cell in load.cells if cell.mean is not None]
    base = next((cell for cell in known if acceptance(cell) is not None), None)
    before: Cell | None = None
    for cell in known:
        yield _share(cell, base, before)
        before = cell


def _share(cell: Cell, base: Cell | None, before: Cell | None) -> Share:
    length = acceptance(cell)
    speed_up = _ratio(cell.mean, base.mean) if base else None
    longer = _ratio(length, acceptance(base)) if base else None
    tpot = cell.numbers.get("tpot_ms_mean")
    marginal = _ratio(cell.mean, before.mean) if before else None
    rate = cell.numbers.get("accept_rate")
    return Share(
        steps=cell.steps,
        against=base.steps if base else None,
        speed_up=speed_up,
        acceptance_length=length,
        step_time_ms=tpot * length if tpot is not None and length is not None else None,
        step_cost=_ratio(longer, speed_up),
        marginal=None if marginal is None else marginal - 1,
        wasted=None if rate is None or not cell.steps else 1 - rate,
    )


def acceptance(cell: Cell) -> float | None:
    """Tokens per verify step; without speculation every step gives one."""
    return cell.numbers.get("accept_length") or (1.0 if cell.steps == 0 else None)


def _ratio(value: float | None, by: float | None) -> float | None:
    return value / by if value is not None and by else None


def request_rate(cell: Cell) -> float | None:
    """tok/s of one request while it runs, as well as the row knows it."""
    return cell.numbers.get("decode_tok_s") or cell.numbers.get("per_req_tok_s")


def _falls(load: Load) -> Iterator[tuple[Cell, Cell]]:
    """Neighbouring steps from the highest on, where the more lose against the fewer."""
    known = [cell for cell in load.cells if cell.mean is not None]
    for fewer, more in pairwise(known):
        if load.highest is not None and fewer.steps >= load.highest and change(more, fewer) < 0:
            yield fewer, more


def change(cell: Cell, against: Cell) -> float:
    """How much faster, as a fraction; 0 where one of them has no value."""
    ratio = _ratio(cell.mean, against.mean)
    return 0.0 if ratio is None else ratio - 1


def _limit(
    capacities: Sequence[Capacity], fewer: Cell, more: Cell
) -> Literal["compute", "admission"] | None:
    """Why `more` steps lose against `fewer`: see the module's docstring. None: nobody can tell."""
    if not (more.capped or fewer.capped) and _all_ran(capacities, more):
        return "compute"
    rates = _ratio(request_rate(more), request_rate(fewer))
    if rates is None:
        return None
    # The aggregate is the rate of a request times how many run: which of the two fell more?
    return "admission" if rates > (1 + change(more, fewer)) ** 0.5 else "compute"


def _all_ran(capacities: Sequence[Capacity], cell: Cell) -> bool:
    """Whether the server is known to have run all of a point's requests at a time."""
    admitted, concluded = admits(capacities, cell.steps)
    return cell.concurrency == 1 or (admitted is not None and not concluded)


# -- in sentences ---------------------------------------------------------------------------------


def _sentences(group: Group, load: Load) -> Iterator[str]:
    best = load.cell(load.best)
    if best is None or best.mean is None:
        return
    yield from _decomposition(load, best)
    yield from _against_one(load)
    for fewer, more in _falls(load):
        yield _loss(group.capacities, load, fewer, more)
    yield from _queueing(group, load)
    if len(load.peaks) > 1:
        tops = " and ".join(f"steps={one}" for one in load.peaks)
        yield f"two peaks, {tops}, with a valley between them that clears the noise"
    yield from _gaps(group, load)


def _decomposition(load: Load, best: Cell) -> Iterator[str]:
    share = next((one for one in load.shares if one.steps == best.steps), None)
    if share is None or share.acceptance_length is None or share.step_cost is None:
        return
    if share.against == best.steps or share.speed_up is None:
        return
    text = (
        f"steps={best.steps}: {share.acceptance_length:.2f} tokens per verify step, each "
        f"{share.step_cost:.2f} times as long as with steps={share.against}: "
        f"{share.speed_up:.2f} times as fast"
    )
    if share.wasted is not None:
        text += f"; {share.wasted:.0%} of the drafts are wasted"
    yield text


def _loss(capacities: Sequence[Capacity], load: Load, fewer: Cell, more: Cell) -> str:
    head = f"steps={more.steps} gives {percent(change(more, fewer))} against steps={fewer.steps}"
    limit = _limit(capacities, fewer, more)
    if limit is None:
        return f"{head}: compute or admission, these rows do not say which"
    if limit == "compute":
        worth = _worth(load, fewer, more)
        return f"{head}: compute, {worth or 'a verify step takes longer by more than it brings'}"
    running = [
        f"{cell.mean / rate:.1f}"
        for cell in (more, fewer)
        if cell.mean is not None and (rate := request_rate(cell))
    ]
    rates = (_ratio(request_rate(more), request_rate(fewer)) or 1) - 1
    own = f" although each request is {percent(rates)[1:]} faster" if rates > _SAME else ""
    return f"{head}{own}: admission, about {' instead of '.join(running)} requests ran at a time"


def _against_one(load: Load) -> Iterator[str]:
    """The same gains against one step, where the baseline is none."""
    one = load.cell(1)
    more = [cell for cell in load.cells if cell.steps > 1 and cell.mean is not None]
    if one is None or one.mean is None or not more or load.baseline == 1:
        return
    told = ", ".join(f"steps={cell.steps} {percent(change(cell, one))}" for cell in more)
    yield f"against steps=1: {told}"


def _worth(load: Load, fewer: Cell, more: Cell) -> str | None:
    """What the further steps bring and cost, where acceptance is known."""
    cost = {share.steps: share for share in load.shares}
    tokens = _ratio(acceptance(more), acceptance(fewer))
    longer = _ratio(cost[more.steps].step_cost, cost[fewer.steps].step_cost)
    if tokens is None or longer is None:
        return None
    return f"{percent(tokens - 1)} tokens per verify step for {percent(longer - 1)} time"


def _queueing(group: Group, load: Load) -> Iterator[str]:
    capped = [cell for cell in load.cells if cell.ok and cell.capped]
    if not capped:
        return
    known = [cell for cell in capped if not cell.capped_inferred]
    parts = [
        f"steps={cell.steps} admits {limit}"
        for cell in known
        if (limit := admits(group.capacities, cell.steps)[0]) is not None
    ]
    if guessed := [str(cell.steps) for cell in capped if cell.capped_inferred]:
        parts.append(f"steps={','.join(guessed)} no more than fewer steps do")
    told = f" ({', '.join(parts)})" if parts else ""
    whole = [cell for cell in load.cells if cell.ok or cell.numbers]
    unknown = [
        cell for cell in whole
        if not cell.capped and admits(group.capacities, cell.steps)[0] is None
    ]  # fmt: skip
    free = [cell for cell in whole if not cell.capped and cell not in unknown]
    who = "some of its points measure" if free or unknown else "every point of it measures"
    yield f"C={load.load} is more than the server admits{told}: {who} queueing as well"
    if load.best_uncapped is None:
        yield "no point here is free of queueing, so nothing can be said without it"
    elif load.best_uncapped != load.best:
        yield f"among the points without queueing steps={load.best_uncapped} is best"
    else:
        yield f"steps={load.best} is best among the points without queueing, too"


def _gaps(group: Group, load: Load) -> Iterator[str]:
    """Steps that were not measured here and are best at a neighbouring load."""
    place = [one.load for one in group.loads].index(load.load)
    near = [group.loads[i] for i in (place - 1, place + 1) if 0 <= i < len(group.loads)]
    for steps in load.unmeasured:
        cell = load.cell(steps)
        if cell is not None and cell.failure:
            continue
        where = [one.label for one in near if one.best == steps]
        if where:
            yield (
                f"steps={steps} was not measured here and is best at {' and '.join(where)}: "
                f"measure it before you decide"
            )
