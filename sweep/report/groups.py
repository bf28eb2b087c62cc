"""The settings of an input: rows that differ in steps and concurrency alone. Pure.

A launch without speculation belongs to every setting of the flags that only speculation has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from sweep.report.data import STEPS, Results
from sweep.report.summary import Conditions

_MACHINE = (
    "source", "host", "gpu", "model", "sglang_version", "dp_size", "workload", "temperature"
)  # fmt: skip
# What a launch that failed may not have told.
_LATE = ("gpu", "model", "sglang_version", "dp_size")


@dataclass(frozen=True)
class Setting:
    """`trials`: its latest attempts, ok and failed."""

    source: str
    conditions: Conditions
    trials: pd.DataFrame


def settings(results: Results) -> list[Setting]:
    """Every setting of every input, in the order of their first rows."""
    placed = results.trials[results.trials[STEPS].notna() & results.trials["load"].notna()]
    return [setting for part in _parts(placed) for setting in _split(part)]


def _parts(trials: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """By machine, server, model and load; a failed launch that does not know goes with the rest."""
    filled = trials.copy()
    for name in _LATE:
        known = filled.groupby("source")[name].transform("first")
        filled[name] = filled[name].fillna(known)
    for _, part in filled.groupby(list(_MACHINE), dropna=False, sort=False):
        yield part


def _split(part: pd.DataFrame) -> Iterator[Setting]:
    plain, speculating = part[part[STEPS] == 0], part[part[STEPS] != 0]
    if speculating.empty:
        yield Setting(_first(part, "source"), _conditions(part), part)
        return
    keys = ["speculative_eagle_topk", "config"]
    for (_, config), mine in speculating.groupby(keys, dropna=False, sort=False):
        fits = [_within(one, config) for one in plain["config"]]
        together = pd.concat([plain[fits], mine]) if any(fits) else mine
        yield Setting(_first(part, "source"), _conditions(mine), together)


def _within(smaller: object, larger: object) -> bool:
    """Whether a config (JSON of swept flags) holds nothing but what the larger one holds too."""
    return flags_of(smaller).items() <= flags_of(larger).items()


def flags_of(config: object) -> dict[str, str]:
    """The `config` cell: swept flags beside the steps, values as JSON; {} where there are none."""
    if not isinstance(config, str):
        return {}
    try:
        found = json.loads(config)
    except ValueError:
        return {"config": config}
    if not isinstance(found, dict):
        return {"config": config}
    return {str(name): json.dumps(value) for name, value in found.items()}


def _conditions(rows: pd.DataFrame) -> Conditions:
    topk = _first(rows, "speculative_eagle_topk")
    temperature = _first(rows, "temperature")
    ranks = _first(rows, "dp_size")
    return Conditions(
        model=_named(rows, "model"),
        gpu=_named(rows, "gpu"),
        host=_named(rows, "host"),
        sglang_version=_named(rows, "sglang_version"),
        dp_size=None if ranks is None else int(ranks),
        workload=_named(rows, "workload"),
        temperature=None if temperature is None else float(temperature),
        topk=None if topk is None else int(topk),
        config=" ".join(
            f"{name}={value.strip(chr(34))}"
            for name, value in flags_of(_first(rows, "config")).items()
        ),
    )


def _named(rows: pd.DataFrame, column: str) -> str:
    """A name as one line, whatever somebody's table has in it."""
    return " ".join(str(_first(rows, column) or "").split())


def _first(rows: pd.DataFrame, column: str) -> Any:
    known = rows[column].dropna()
    return known.iloc[0] if len(known) else None


def labels(found: list[Setting]) -> list[str]:
    """What tells each setting from the others: only what differs between them."""
    names = ("model", "gpu", "host", "sglang_version", "dp_size", "workload", "temperature",
             "topk", "config")  # fmt: skip
    differ = [name for name in names if len({getattr(one.conditions, name) for one in found}) > 1]
    several = len({one.source for one in found}) > 1
    made = []
    for one in found:
        parts = [one.source] if several else []
        for name in differ:
            value = getattr(one.conditions, name)
            if value not in ("", None):
                parts.append(str(value) if name not in ("dp_size", "temperature", "topk")
                             else f"{name}={value:g}")  # fmt: skip
        made.append(" · ".join(parts) or one.source)
    return made
