"""The numbers of one group as tables: throughput, gain, capacity, why, each load in full. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sweep.report.document import Block, Table, Text
from sweep.report.summary import Cell, Group, Load, percent

# Beyond this many columns a table is turned: one line for each concurrency.
_MOST_COLUMNS = 12


def group_tables(group: Group) -> Iterator[Block]:
    """Every table of a group, the one most looked for first."""
    loads = [load for load in group.loads if load.cells]
    if not loads:
        yield Text("Nothing was measured.")
        return
    yield _throughput(group, loads)
    if any(cell.capped for load in loads for cell in load.cells):
        yield Text("* more requests than the server admits: queueing is measured as well", "note")
    yield _gain(group, loads)
    if any(one.max_running_requests or one.max_total_num_tokens for one in group.capacities):
        yield _capacity(group)
    for load in loads:
        if shares := _shares(load):
            yield shares
    for load in loads:
        yield _everything(load, _interval_name(group))


def _throughput(group: Group, loads: list[Load]) -> Table:
    cells = {}
    for load in loads:
        for cell in load.cells:
            text = f"{cell.mean:.1f}" if cell.mean is not None else cell.failure or ""
            cells[load.load, cell.steps] = text + ("*" if cell.capped and cell.ok else "")
    other = [load.label for load in loads if load.metric != "agg_tok_s"]
    caption = "Aggregate tok/s" + (f"; at {', '.join(other)} of one request" if other else "")
    return _by_steps(caption, group, loads, cells)


def _gain(group: Group, loads: list[Load]) -> Table:
    plain = any(load.baseline == 0 for load in loads)
    name = "no speculation" if plain else "the lowest steps measured"
    cells = {
        (load.load, cell.steps): cell.change.text() if cell.change else "0" if cell.ok else ""
        for load in loads
        for cell in load.cells
    }
    return _by_steps(f"Change against {name}", group, loads, cells)


def _by_steps(
    caption: str, group: Group, loads: list[Load], cells: Mapping[tuple[str, int], str]
) -> Table:
    """Steps down, loads across; the other way round where there are many loads."""
    steps = list(group.steps)
    if len(loads) < _MOST_COLUMNS or len(steps) >= len(loads):
        return Table(
            caption,
            ("steps", *(load.label for load in loads)),
            tuple((str(k), *(cells.get((load.load, k), "") for load in loads)) for k in steps),
            strong=frozenset(
                (row, column)
                for row, k in enumerate(steps)
                for column, load in enumerate(loads, 1)
                if load.best == k
            ),
        )
    return Table(
        f"{caption}, by steps",
        ("C", *map(str, steps)),
        tuple((load.load, *(cells.get((load.load, k), "") for k in steps)) for load in loads),
        strong=frozenset(
            (row, column)
            for row, load in enumerate(loads)
            for column, k in enumerate(steps, 1)
            if load.best == k
        ),
    )


def _capacity(group: Group) -> Table:
    known = [
        one for one in group.capacities if one.max_running_requests or one.max_total_num_tokens
    ]
    first = known[0]

    def with_change(value: int | None, base: int | None) -> str:
        if value is None:
            return ""
        return f"{value}" if not base or value == base else f"{value} ({percent(value / base - 1)})"

    return Table(
        f"What the server admits; changes against steps={first.steps}",
        ("steps", "requests at once", "KV tokens"),
        tuple(
            (
                str(one.steps),
                with_change(one.max_running_requests, first.max_running_requests),
                with_change(one.max_total_num_tokens, first.max_total_num_tokens),
            )
            for one in known
        ),
    )


def _shares(load: Load) -> Table | None:
    """Why a number of steps is as fast as it is; None where no acceptance is known."""
    known = [share for share in load.shares if share.acceptance_length is not None]
    if not any(share.steps for share in known):
        return None
    return Table(
        f"Why, at {load.label}: speed-up = tokens per step / cost of a step",
        ("steps", "tokens per step", "step ms", "step cost", "speed-up", "further step", "wasted"),
        tuple(
            (
                str(share.steps),
                _number(share.acceptance_length, 2),
                _number(share.step_time_ms, 2),
                _number(share.step_cost, 2, "x"),
                _number(share.speed_up, 2, "x"),
                "" if share.marginal is None else percent(share.marginal),
                "" if share.wasted is None else f"{share.wasted:.0%}",
            )
            for share in known
        ),
        strong=frozenset((row, 0) for row, share in enumerate(known) if share.steps == load.best),
    )


def _number(value: float | None, digits: int, unit: str = "") -> str:
    return "" if value is None else f"{value:.{digits}f}{unit}"


_COLUMNS = (
    ("per request", "per_req_tok_s", 1),
    ("accept", "accept_length", 2),
    ("TTFT p50", "ttft_ms_p50", 1),
    ("TTFT p99", "ttft_ms_p99", 1),
    ("TPOT p50", "tpot_ms_p50", 2),
    ("TPOT p99", "tpot_ms_p99", 2),
    ("E2E p50", "e2e_ms_p50", 0),
    ("E2E p99", "e2e_ms_p99", 0),
)


def _interval_name(group: Group) -> str:
    """What the intervals are: nothing was measured of a noise that is only assumed."""
    return "95 % interval" if group.noise.measured else f"if {group.noise.sigma:.0%} noise"


def _everything(load: Load, interval_name: str) -> Table:
    """One load in full, columns that nobody filled left out."""
    shown = [c for c in _COLUMNS if any(c[1] in cell.numbers for cell in load.cells)]
    has_interval = any(cell.interval is not None for cell in load.cells)
    names = [
        "steps",
        "trials",
        "tok/s",
        *([interval_name] if has_interval else []),
        *(c[0] for c in shown),
    ]
    rows = []
    for cell in load.cells:
        value = f"{cell.mean:.1f}" if cell.mean is not None else cell.failure or ""
        interval = f"{cell.interval.low:.0f}–{cell.interval.high:.0f}" if cell.interval else ""
        rows.append(
            (
                str(cell.steps),
                _trials(cell),
                value + ("*" if cell.capped and cell.ok else ""),
                *([interval] if has_interval else []),
                *(_number(cell.numbers.get(column), digits) for _, column, digits in shown),
            )
        )
    unit = "aggregate tok/s" if load.metric == "agg_tok_s" else "tok/s of one request"
    times = "; times in ms" if any("ms" in column for _, column, _ in shown) else ""
    strong = frozenset((row, 0) for row, cell in enumerate(load.cells) if cell.steps == load.best)
    return Table(f"{load.label} in full: {unit}{times}", tuple(names), tuple(rows), strong=strong)


def _trials(cell: Cell) -> str:
    return f"{cell.n}" + (f" (+{cell.failed} failed)" if cell.failed else "")
