"""The plan: ordered launches, each with its points and the trials still missing. Pure values.

Made from the inventory alone, so a dry run, a fresh run and a resumed run share it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sweep.inventory import Benchmark, FlagValue, HostSpec
from sweep.rows import Row


@dataclass(frozen=True)
class ServerConfig:
    """One complete set of SGLang flags and environment.

    `args` are the flags as rendered (canonical spelling, no dashes, false ones left out);
    `swept` are those that the sweep varies besides the steps (column `config`), false ones too.
    """

    args: tuple[tuple[str, FlagValue], ...]
    env: tuple[tuple[str, str], ...]
    swept: tuple[tuple[str, FlagValue], ...] = ()

    def flag(self, name: str) -> FlagValue | None:
        return dict(self.args).get(name)

    @property
    def steps(self) -> int:
        """speculative_num_steps; 0 is no speculation at all."""
        steps = self.flag("speculative-num-steps")
        return int(steps) if isinstance(steps, int) else 0


@dataclass(frozen=True)
class Point:
    """Server config x workload x concurrency. `id` (p-...) hashes what makes the number."""

    id: str
    concurrency: int | str


@dataclass(frozen=True)
class Launch:
    """One start of one server config: `id` is l-01, l-02, ... in the order of the plan."""

    id: str
    config: ServerConfig
    points: tuple[Point, ...]

    @property
    def label(self) -> str:
        """What is particular about it: its steps, and what else the sweep varies."""
        return f"steps={self.config.steps}{swept_text(self.config.swept)}"


@dataclass(frozen=True)
class Plan:
    """Ordered launches; each point is measured `trials` times."""

    sweep: str
    host: str
    benchmark: Benchmark
    trials: int
    max_consecutive_failures: int
    launches: tuple[Launch, ...]

    def points(self) -> Iterator[tuple[Launch, Point]]:
        return ((launch, point) for launch in self.launches for point in launch.points)


@dataclass(frozen=True)
class Due:
    """A trial that still has to be measured, and the number its next attempt gets."""

    point: Point
    trial: int
    attempt: int

    @property
    def key(self) -> tuple[str, int, int]:
        """(point id, trial, attempt): of the row it will have."""
        return self.point.id, self.trial, self.attempt


def swept_text(swept: Iterable[tuple[str, object]]) -> str:
    """Swept flags behind a blank each, as a person reads them; empty where there are none."""
    return "".join(f" {flag}={value}" for flag, value in swept)


def point_id(identity: Mapping[str, object]) -> str:
    """p- and 12 hex digits over every detail that can change the number, in canonical JSON."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return "p-" + hashlib.sha256(text.encode()).hexdigest()[:12]


def identity(
    config: ServerConfig, benchmark: Benchmark, concurrency: int | str, host: HostSpec
) -> dict[str, object]:
    """What makes the number: the machine's class, the command and everything it is given, the load.

    Not among it: time-outs, names, ports, users, and secrets.
    """
    server = host.server
    return {
        "host_class": host.host_class,
        "command": list(server.command),
        "args": dict(config.args),
        "env": dict(config.env),
        "env_file": server.env_file,
        "working_directory": server.working_directory,
        "unit": dict(server.unit),
        "benchmark": benchmark.identity(),
        "concurrency": concurrency,
    }


def numbered_like(plan: Plan, before: Plan, used: Iterable[str] = ()) -> Plan:
    """The plan with the launch ids of an earlier one where the config is the same.

    New configs get numbers that neither `before` nor `used` has: an id means one config for ever,
    in rows, units and journals.
    """
    known = {_written(launch.config): launch.id for launch in before.launches}
    numbers = (name.removeprefix("l-") for name in {*known.values(), *used})
    last = max((int(number) for number in numbers if number.isdecimal()), default=0)
    fresh = (f"l-{number:02d}" for number in itertools.count(last + 1))
    return replace(
        plan,
        launches=tuple(
            replace(launch, id=known.get(_written(launch.config)) or next(fresh))
            for launch in plan.launches
        ),
    )


def _written(config: ServerConfig) -> str:
    # Text, because True == 1 == 1.0 and they are rendered differently.
    return repr((sorted(config.args), sorted(config.env), sorted(config.swept)))


def latest(rows: Iterable[Row]) -> dict[tuple[str, int], Row]:
    """The row of each (point, trial): the one with the highest attempt."""
    found: dict[tuple[str, int], Row] = {}
    for row in rows:
        point, trial, attempt = row.key
        before = found.get((point, trial))
        if before is None or before.key[2] < attempt:
            found[point, trial] = row
    return found


def due(plan: Plan, rows: Iterable[Row], *, skip_failed: bool = False) -> dict[str, list[Due]]:
    """Plan minus the trials whose latest attempt is ok: launch id -> due trials, in plan order."""
    last = latest(rows)
    missing: dict[str, list[Due]] = {}
    for launch, point in plan.points():
        for trial in range(1, plan.trials + 1):
            row = last.get((point.id, trial))
            if row is None:
                missing.setdefault(launch.id, []).append(Due(point, trial, 1))
            elif not row.ok and not skip_failed:
                missing.setdefault(launch.id, []).append(Due(point, trial, row.key[2] + 1))
    return missing
