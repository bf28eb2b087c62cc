"""How `sweep bench` tells what it measures: the published table, or a JSON object a level."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sweep.bench import table
from sweep.bench.metrics import Measurement

Emit = Callable[[str], None]


def nowhere(_: str) -> None:
    """Where nobody looks."""


@dataclass(frozen=True)
class Level:
    """One concurrency, measured. `problem`: what went wrong, None: every request was ok.

    `conditions`: url, model and workload.
    """

    concurrency: int
    measurement: Measurement
    problem: str | None
    conditions: Mapping[str, str]


class Shown(Protocol):
    """Gets each thing as soon as it is known."""

    def begun(self) -> None: ...
    def warmed_up(self, tokens: int) -> None: ...
    def under_way(self, concurrency: int, progress: Mapping[str, Any]) -> None: ...
    def measured(self, level: Level) -> None: ...
    def ended(self, levels: Sequence[Level], remark: str | None) -> None: ...


@dataclass(frozen=True)
class AsTables:
    """The published table line by line; then what failed, the latencies, and the definitions.

    `live` is given how far a level is, for one line that it overwrites; nothing ("") at its end.
    """

    emit: Emit
    live: Emit = nowhere

    def begun(self) -> None:
        self.emit("Warming up...")

    def warmed_up(self, tokens: int) -> None:
        self._lines(table.warmup_lines(tokens, ok=True))

    def under_way(self, concurrency: int, progress: Mapping[str, Any]) -> None:
        self.live(how_far(concurrency, progress))

    def measured(self, level: Level) -> None:
        self.live("")
        self.emit(table.row(level.concurrency, level.measurement.values))

    def ended(self, levels: Sequence[Level], remark: str | None) -> None:
        problems = [f"C={one.concurrency}: {one.problem}" for one in levels if one.problem]
        flags = [
            f"C={one.concurrency}: {flag}: {text}"
            for one in levels
            for flag, text in one.measurement.verdicts.items()
        ]
        latencies = [table.latency_row(one.concurrency, one.measurement.values) for one in levels]
        notes = [*flags, *([remark] if remark else ())]
        self._lines([table.RULE, *problems, "", *table.DEFINITIONS.splitlines(), ""])
        self._lines([table.LATENCY_HEADER, table.LATENCY_RULE, *latencies, table.LATENCY_RULE])
        self._lines(["", *table.LATENCY_DEFINITIONS.splitlines(), *([""] if notes else ()), *notes])

    def _lines(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.emit(line)


@dataclass(frozen=True)
class AsJson:
    """One line for each concurrency: every measured column of `results.csv`, and how it went.

    `live` as of `AsTables`.
    """

    emit: Emit
    live: Emit = nowhere

    def begun(self) -> None:
        """Nothing: whoever reads this wants objects alone."""

    def warmed_up(self, tokens: int) -> None:
        """Nothing."""

    def under_way(self, concurrency: int, progress: Mapping[str, Any]) -> None:
        self.live(how_far(concurrency, progress))

    def measured(self, level: Level) -> None:
        self.live("")
        found = {
            **level.conditions,
            "concurrency": level.concurrency,
            **level.measurement.values,
            "flags": level.measurement.verdicts,
            "problem": level.problem,
        }
        self.emit(json.dumps(found))

    def ended(self, levels: Sequence[Level], remark: str | None) -> None:
        """Nothing: every line says all of itself."""


def how_far(concurrency: int, progress: Mapping[str, Any]) -> str:
    """A level that is measured, from the client's progress line."""
    if "done" not in progress:
        return f"C={concurrency}: begins"
    done, requests, tokens = (progress[name] for name in ("done", "requests", "tokens"))
    phase = "warms up, " if progress["phase"] == "warmup" else ""
    told = f", {tokens} tokens" if tokens else ""
    return f"C={concurrency}: {phase}{done} of {requests} requests{told}"
