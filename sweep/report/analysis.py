"""From trials to an answer: `Results` -> `Analysis`. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pandas as pd

from sweep.report import why
from sweep.report.choosing import with_choice
from sweep.report.data import METRICS, STEPS, Results, Source
from sweep.report.effects import effects, point_interval
from sweep.report.estimates import Estimate, Fit
from sweep.report.facts import Facts, gather
from sweep.report.groups import Setting, labels, settings
from sweep.report.noise import fit
from sweep.report.notes import notes, repeating
from sweep.report.summary import Analysis, Capacity, Cell, Effect, Group, Load, Metric

_FITTED = ("steps", "load", "concurrency", "start", "hours", "y")


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
    trials, metrics = prepared(setting.trials)
    fitted = fit(measured(trials))
    admitted = capacities(trials)
    steps = tuple(sorted({int(one) for one in trials["steps"]}))
    baseline = min(steps) if steps else None
    facts = gather(trials)
    loads = [
        _load(_Part(load, metrics[load], facts[load], fitted, admitted), steps, baseline)
        for load in sorted(facts, key=lambda load: _place(load, facts[load]))
    ]
    group = Group(
        group_id, source.id, label, setting.conditions, baseline, steps, tuple(loads), admitted,
        fitted.noise, fitted.drift, (), (), repeating(source), _launches(trials), fitted,
        _failed(trials),
    )  # fmt: skip
    group = why.with_reasons(group)
    return notes(group, source, trials)


def _launches(trials: pd.DataFrame) -> dict[int, str]:
    known = trials.dropna(subset=["launch"]).groupby("steps")["launch"].first()
    return {int(cast(int, steps)): str(launch) for steps, launch in known.items()}


def _failed(trials: pd.DataFrame) -> dict[str, int]:
    """How many trials by their failure, the most frequent first."""
    counts = trials.loc[trials["status"] != "ok", "failure"].fillna("unknown").value_counts()
    return {str(kind): int(count) for kind, count in counts.items()}


def _place(load: str, facts: Mapping[int, Facts]) -> tuple[bool, float]:
    """By concurrency; `max` is last."""
    known = [one for point in facts.values() for one in point.concurrencies]
    return load == "max", min(known, default=math.inf)


# -- what goes into the fit -----------------------------------------------------------------------


def prepared(trials: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Metric]]:
    """The latest attempts with steps, start, hours, and y: log of the metric of their load.

    And that metric by load.
    """
    frame = trials.assign(
        steps=trials[STEPS].astype("int64"),
        start=trials["invocation_id"].fillna(trials["launch"]).fillna("start"),
        hours=(trials["started_at"] - trials["started_at"].min()).dt.total_seconds() / 3600,
        y=np.nan,
    )
    metrics: dict[str, Metric] = dict.fromkeys(frame["load"].dropna(), "agg_tok_s")
    for load, table in frame[frame["status"] == "ok"].groupby("load", sort=False):
        name = metrics[str(load)] = metric_of(table)
        frame.loc[table.index, "y"] = np.log(table[name].where(table[name] > 0))
    return frame, metrics


def measured(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials that have a value."""
    return trials.loc[trials["y"].notna(), list(_FITTED)]


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
    """What one load is made of: `facts` by steps, ascending."""

    load: str
    metric: Metric
    facts: Mapping[int, Facts]
    fit: Fit
    admitted: Sequence[Capacity]

    @property
    def points(self) -> tuple[Estimate, ...]:
        return self.fit.points.get(self.load, ())


def _load(part: _Part, steps: Sequence[int], baseline: int | None) -> Load:
    points = part.points
    there = [point.steps for point in points]
    base = baseline if baseline in there else next(iter(there), None)
    cells = tuple(_cells(part, {} if base is None else effects(part.fit, points, base)))
    known = {one for facts in part.facts.values() for one in facts.concurrencies}
    load = Load(
        load=part.load,
        concurrency=next(iter(known)) if len(known) == 1 else None,
        metric=part.metric,
        cells=cells,
        baseline=base,
        unmeasured=tuple(one for one in steps if one not in there),
    )
    return with_choice(part.fit, load)


def _cells(part: _Part, changes: Mapping[int, Effect]) -> Iterator[Cell]:
    points = {point.steps: point for point in part.points}
    for steps, facts in part.facts.items():
        yield _cell(part, steps, facts, points.get(steps), changes.get(steps))


def _cell(
    part: _Part, steps: int, facts: Facts, point: Estimate | None, change: Effect | None
) -> Cell:
    admitted, inferred = why.admits(part.admitted, steps)
    over = admitted is not None and (facts.concurrency or 0) > admitted
    told = "capped" in facts.flags
    return Cell(
        steps=steps,
        concurrency=facts.concurrency,
        n=len(facts.values),
        mean=None if point is None else math.exp(point.mean),
        interval=None if point is None else point_interval(part.fit, point),
        values=tuple(facts.values),
        change=change,
        capped=told or over,
        capped_inferred=over and inferred and not told,
        flags=facts.flags,
        failure=None if facts.ok else facts.failure,
        failure_detail=None if facts.ok else facts.detail,
        failed=facts.failed,
        numbers=facts.numbers,
    )
