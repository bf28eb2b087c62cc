"""What failed and why, and what the flags of the rows mean, as parts of a report."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from sweep.report.data import STEPS, Results, Source
from sweep.report.document import Block, Table, Text
from sweep.report.notes import FLAG_TEXTS
from sweep.rows import FLAGS

MOST_LINES = 40


def failure_blocks(results: Results, source: Source) -> Iterator[Block]:
    """Each kind of failure of each launch once: how many trials, and one line of evidence."""
    failed = results.failures[results.failures["source"] == source.id]
    if failed.empty:
        yield Text("No trial failed.")
        return
    counted = (
        failed.assign(
            detail=failed["failure_detail"].fillna(""), kind=failed["failure"].fillna("unknown")
        )
        .groupby(["launch", STEPS, "kind", "detail"], dropna=False, sort=False)
        .agg(
            trials=("trial", "size"),
            loads=("load", lambda found: ", ".join(dict.fromkeys(found.dropna()))),
        )
        .reset_index()
    )
    rows = tuple(
        (
            _text(row.launch),
            _text(row[STEPS]),
            _text(row.loads),
            _text(row.trials),
            row.kind,
            row.detail,
        )
        for _, row in counted.head(MOST_LINES).iterrows()
    )
    yield Table(
        "What failed, by the latest attempt of each trial",
        ("launch", "steps", "C", "trials", "failure", "evidence"), rows,
        words=frozenset((0, 4, 5)),
    )  # fmt: skip
    if len(counted) > MOST_LINES:
        yield Text(f"{len(counted) - MOST_LINES} more kinds of failure are in results.csv.", "note")


def _text(cell: object) -> str:
    return "" if pd.isna(cell) else str(cell)  # type: ignore[call-overload]


def flag_blocks(results: Results, source: Source) -> Iterator[Block]:
    """Each flag that any row carries, how many do, and what it means."""
    rows = results.ok[results.ok["source"] == source.id]
    cells = rows["flags"].dropna().value_counts()
    counts: dict[str, int] = {}
    for cell, count in cells.items():
        for flag in str(cell).split(";"):
            counts[flag] = counts.get(flag, 0) + int(count)
    if not counts:
        yield Text("No row carries a flag.")
        return
    order = [flag for flag in FLAGS if flag in counts] + sorted(set(counts) - set(FLAGS))
    yield Table(
        "What to know before comparing a row", ("flag", "rows", "meaning"),
        tuple((flag, str(counts[flag]), FLAG_TEXTS.get(flag, "")) for flag in order),
        words=frozenset((0, 2)),
    )  # fmt: skip
