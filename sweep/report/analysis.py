"""From trials to an answer: `Results` -> `Analysis`. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from sweep.report import why
from sweep.report.data import METRICS, STEPS, Results, Source
from sweep.report.effects import choose, effects, peaks, point_interval
from sweep.report.estimates import Estimate, Fit
from sweep.report.groups import Setting, labels, settings
from sweep.report.noise import fit
from sweep.report.notes import notes, repeat_command
from sweep.report.summary import Analysis, Capacity, Cell, Effect, Group, Load, Metric
from sweep.rows import COLUMNS, FLAGS

# Columns that say where a row is from, not what was measured.
_NOT_MEASURED = ("schema", "trial", "attempt", STEPS)


def analyse(results: Results) -> Analysis:
    """Everything the trials say: one group per setting of each input; none without rows."""
    found = settings(results)
    return Analysis(
        tuple(
            _group(f"g-{number}", label, setting, results.source(setting.source))
            for number, (label, setting) in enumerate(zip(labels(found), found, strict=True), 1)
        )
    )


def _group(group_id: str, label: str, setting: Setting, source: Source) -> Group:
    trials = prepared(setting.trials)
    fitted = fit(measured(trials))
    admitted = capacities(trials)
    steps = tuple(sorted({int(one) for one in trials["steps"]}))
    baseline = min(steps) if steps else None
    tables = {str(load): table for load, table in trials.groupby("load", sort=False)}
    order = sorted(tables, key=lambda load: _place(load, tables[load]))
    loads = [_load(_Part(load, tables[load], fitted, admitted), steps, baseline) for load in order]
    group = Group(
        group_id, source.id, label, setting.conditions, baseline, steps, tuple(loads), admitted,
        fitted.noise, fitted.drift, (), (), None, _launches(trials), fitted,
    )  # fmt: skip
    group = why.with_reasons(group)
    return notes(group, source, trials, repeat_command(group, source))


def _launches(trials: pd.DataFrame) -> dict[int, str]:
    known = trials.dropna(subset=["launch"]).groupby("steps")["launch"].first()
    return {int(cast(int, steps)): str(launch) for steps, launch in known.items()}


def _place(load: str, table: pd.DataFrame) -> tuple[bool, float]:
    """By concurrency; `max` is last."""
    known = table["concurrency"].dropna()
    return load == "max", float(known.iloc[0]) if len(known) else float("inf")


# -- what goes into the fit -----------------------------------------------------------------------


def prepared(trials: pd.DataFrame) -> pd.DataFrame:
    """The latest attempts with steps, start, hours, and y: log of the metric of their load."""
    frame = trials.assign(
        steps=trials[STEPS].astype("int64"),
        start=trials["invocation_id"].fillna(trials["launch"]).fillna("start"),
        hours=(trials["started_at"] - trials["started_at"].min()).dt.total_seconds() / 3600,
        metric="",
        y=np.nan,
    )
    ok = frame["status"] == "ok"
    for load, table in frame[ok].groupby("load", sort=False):
        name = metric_of(table)
        values = table[name].where(table[name] > 0)
        frame.loc[frame["load"] == load, "metric"] = name
        frame.loc[table.index, "y"] = np.log(values)
    return frame


def measured(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials that have a value."""
    return trials.loc[trials["y"].notna(), ["steps", "load", "start", "hours", "y"]]


def metric_of(table: pd.DataFrame) -> Metric:
    """What decides at one load: the aggregate; the rate of a request only where it says the same.

    At concurrency 1 both are the rate of the one request, so the one known for more steps is
    taken. Elsewhere the rate of a request alone would prefer a server that lets the others wait.
    """
    aggregate, request = (set(table.loc[table[name].notna(), "steps"]) for name in METRICS)
    alone = (table["concurrency"] == 1).all() and len(request) > len(aggregate)
    return "per_req_tok_s" if alone or not aggregate else "agg_tok_s"


def capacities(trials: pd.DataFrame) -> tuple[Capacity, ...]:
    """What the server admitted at each steps, by the first row that knows."""
    columns = ["max_running_requests", "max_total_num_tokens"]
    first = trials.groupby("steps")[columns].first()
    return tuple(
        Capacity(int(steps), *(None if pd.isna(value) else int(value) for value in row))
        for steps, row in zip(first.index, first.itertuples(index=False), strict=True)
    )


# -- one load -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """What one load is made of."""

    load: str
    table: pd.DataFrame
    fit: Fit
    admitted: Sequence[Capacity]


def _load(part: _Part, steps: Sequence[int], baseline: int | None) -> Load:
    points = part.fit.points.get(part.load, ())
    there = [point.steps for point in points]
    base = baseline if baseline in there else next(iter(there), None)
    changes = {} if base is None else effects(part.fit, points, base)
    cells = tuple(_cells(part, changes))
    free = [point for point in points if not _cell_of(cells, point.steps).capped]
    choice = choose(part.fit, points) if points else None
    metric = part.table["metric"].replace("", pd.NA).dropna()
    return Load(
        load=part.load,
        concurrency=_concurrency(part.table),
        metric=metric.iloc[0] if len(metric) else "agg_tok_s",
        cells=cells,
        baseline=base,
        highest=choice.highest if choice else None,
        best=choice.best if choice else None,
        ties=choice.ties if choice else (),
        as_good=choice.as_good if choice else (),
        runner_up=_runner_up(part.fit, points, choice.best) if choice else None,
        peaks=peaks(part.fit, points),
        best_uncapped=choose(part.fit, free).best if free else None,
        unmeasured=tuple(one for one in steps if one not in there),
        decided=part.fit.noise.measured and choice is not None and len(choice.ties) == 1,
        shares=(),
        limited_by=None,
        why=(),
    )


def _cell_of(cells: Sequence[Cell], steps: int) -> Cell:
    return next(cell for cell in cells if cell.steps == steps)


def _concurrency(table: pd.DataFrame) -> int | None:
    known = table["concurrency"].dropna().unique()
    return int(known[0]) if len(known) == 1 else None


def _runner_up(fitted: Fit, points: Sequence[Estimate], best: int) -> Effect | None:
    against = effects(fitted, points, best)
    return max(against.values(), key=lambda effect: effect.change, default=None)


def _cells(part: _Part, changes: Mapping[int, Effect]) -> Iterator[Cell]:
    points = {point.steps: point for point in part.fit.points.get(part.load, ())}
    for steps, rows in part.table.groupby("steps"):
        number = int(cast(int, steps))
        yield _cell(part, rows, points.get(number), changes.get(number))


def _cell(part: _Part, rows: pd.DataFrame, point: Estimate | None, change: Effect | None) -> Cell:
    steps = int(rows["steps"].iloc[0])
    ok, bad = rows[rows["status"] == "ok"], rows[rows["status"] != "ok"]
    concurrency = _concurrency(rows)
    flags = _flags(ok)
    admitted, inferred = why.admits(part.admitted, steps)
    over = concurrency is not None and admitted is not None and concurrency > admitted
    last = bad.iloc[-1] if len(bad) and not len(ok) else None
    return Cell(
        steps=steps,
        concurrency=concurrency,
        n=int(rows["y"].notna().sum()),
        mean=None if point is None else math.exp(point.mean),
        interval=None if point is None else point_interval(part.fit, point),
        values=tuple(float(one) for one in np.exp(rows["y"].dropna())),
        change=change,
        capped="capped" in flags or over,
        capped_inferred=over and inferred and "capped" not in flags,
        flags=flags,
        failure=None if last is None else _text(last["failure"]) or "unknown",
        failure_detail=None if last is None else _text(last["failure_detail"]),
        failed=len(bad),
        numbers=_numbers(ok),
    )


def _text(cell: object) -> str | None:
    return None if cell is None or cell is pd.NA else str(cell)


def _flags(rows: pd.DataFrame) -> tuple[str, ...]:
    """Every flag that any row has, in the order of `rows.FLAGS`."""
    held = {flag for cell in rows["flags"].dropna().unique() for flag in str(cell).split(";")}
    return tuple(flag for flag in FLAGS if flag in held)


def _numbers(rows: pd.DataFrame) -> dict[str, float]:
    """The mean of every numeric column of results.csv that has a value."""
    names = [name for name in COLUMNS
             if name not in _NOT_MEASURED and is_numeric_dtype(rows[name])]  # fmt: skip
    means = rows[names].mean()
    return {str(name): float(value) for name, value in means.items() if pd.notna(value)}
