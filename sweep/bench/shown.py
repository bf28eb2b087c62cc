"""How `sweep bench` tells what it measures: the published table, or a JSON object a level."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sweep.bench import table
from sweep.bench.metrics import Measurement

Emit = Callable[[str], None]


@dataclass(frozen=True)
class Level:
    """One concurrency, measured. `problem`: what went wrong, None: every request was ok."""

    concurrency: int
    measurement: Measurement
    problem: str | None = None


class Shown(Protocol):
    """Gets each thing as soon as it is known."""

    def begun(self) -> None: ...
    def warmed_up(self, tokens: int) -> None: ...
    def measured(self, level: Level) -> None: ...
    def ended(self, levels: Sequence[Level], remark: str | None) -> None: ...


@dataclass(frozen=True)
class AsTables:
    """The published table line by line; then what failed, the latencies, and the definitions."""

    emit: Emit

    def begun(self) -> None:
        self.emit("Warming up...")

    def warmed_up(self, tokens: int) -> None:
        self._lines(table.warmup_lines(tokens, ok=True))

    def measured(self, level: Level) -> None:
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
    """One line for each concurrency: every measured column of `results.csv`, and how it went."""

    emit: Emit

    def begun(self) -> None:
        """Nothing: whoever reads this wants objects alone."""

    def warmed_up(self, tokens: int) -> None:
        """Nothing."""

    def measured(self, level: Level) -> None:
        found = {
            "concurrency": level.concurrency,
            **level.measurement.values,
            "flags": level.measurement.verdicts,
            "problem": level.problem,
        }
        self.emit(json.dumps(found))

    def ended(self, levels: Sequence[Level], remark: str | None) -> None:
        """Nothing: every line says all of itself."""
