"""Which draft tokens are accepted, by their position, as the server counted it in each request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from sweep.errors import SweepError
from sweep.report.data import STEPS, Results
from sweep.report.summary import Group
from sweep.results import RunDirectory

# One record of a trial is up to some megabytes: these many say it well enough.
MOST_RECORDS = 12


def positions(results: Results, group: Group) -> dict[int, list[float]]:
    """By steps: the share of verify steps that accept the draft at position 1, 2, ..., 0..1.

    From one trial of each number of steps, at the lowest concurrency, as far as its record has the
    server's histogram (SGLang 0.5.20 and newer send it with each request). Empty for a CSV.
    """
    source = results.source(group.source)
    if source.kind != "run":
        return {}
    run = RunDirectory(source.path.resolve())
    ok = results.ok[(results.ok["source"] == group.source) & results.ok[STEPS].isin(group.steps)]
    ok = ok[ok[STEPS] > 0].sort_values(["concurrency", "trial"])
    found: dict[int, list[float]] = {}
    rows: Iterable[Any] = ok.drop_duplicates(STEPS).head(MOST_RECORDS).itertuples(index=False)
    for row in rows:
        try:
            record = run.bench(str(row.point), int(row.trial), int(row.attempt))
        except (SweepError, ValueError):
            continue
        shares = shares_of(request.get("histogram") for request in record.get("requests", ()))
        if shares:
            found[int(getattr(row, STEPS))] = shares
    return dict(sorted(found.items()))


def shares_of(histograms: Iterable[Any]) -> list[float]:
    """From histograms (how many verify steps accepted 0, 1, 2, ... drafts) to shares by position.

    Position n is accepted in every step that accepted n drafts or more.
    """
    total: list[int] = []
    for histogram in histograms:
        if not isinstance(histogram, Sequence) or not all(isinstance(n, int) for n in histogram):
            continue
        total += [0] * (len(histogram) - len(total))
        for index, count in enumerate(histogram):
            total[index] += count
    at_least = list(accumulate(reversed(total)))[::-1]
    return [count / at_least[0] for count in at_least[1:]] if at_least and at_least[0] else []


def gpus(document: Mapping[str, Any]) -> int | None:
    """How many GPUs the server of a run uses, from its plan.json; None when that is not said.

    Tensor times pipeline parallel, times data parallel unless that is attention's alone
    (SGLang 0.5.23, srt/server_args.py: with enable-dp-attention the ranks share the tp GPUs).
    """
    launches = document.get("plan", {}).get("launches", [])
    args = dict(launches[0].get("args", [])) if launches else {}
    if not args:
        return None

    def size(name: str) -> int:
        value = args.get(name, 1)
        return value if isinstance(value, int) and value > 0 else 1

    ranks = 1 if args.get("enable-dp-attention") else size("dp-size")
    return size("tp-size") * size("pp-size") * ranks
