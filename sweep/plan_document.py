"""The plan as JSON, the way plan.json holds it, and back. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from sweep.errors import RunDirectoryError
from sweep.inventory import Benchmark, FlagValue
from sweep.plan import Launch, Plan, Point, ServerConfig

_BENCHMARK: TypeAdapter[Benchmark] = TypeAdapter(Benchmark)


def plan_to_doc(plan: Plan) -> dict[str, Any]:
    """The plan as plain JSON values; `plan_from_doc` gives an equal plan back."""
    return {
        "sweep": plan.sweep,
        "host": plan.host,
        "benchmark": plan.benchmark.model_dump(mode="json"),
        "trials": plan.trials,
        "max_consecutive_failures": plan.max_consecutive_failures,
        "launches": [_launch_to_doc(launch) for launch in plan.launches],
    }


def _launch_to_doc(launch: Launch) -> dict[str, Any]:
    config = launch.config
    return {
        "id": launch.id,
        "args": [[name, _value_to_doc(value)] for name, value in config.args],
        "env": [list(pair) for pair in config.env],
        "swept": [[name, _value_to_doc(value)] for name, value in config.swept],
        "points": [{"id": point.id, "concurrency": point.concurrency} for point in launch.points],
    }


def _value_to_doc(value: FlagValue) -> object:
    return list(value) if isinstance(value, tuple) else value


def plan_from_doc(document: Mapping[str, Any]) -> Plan:
    """The plan that `plan_to_doc` made this of.

    Raises:
        RunDirectoryError: it is not one of those.
    """
    try:
        return Plan(
            sweep=str(document["sweep"]),
            host=str(document["host"]),
            # By way of JSON: there a list is how a tuple is written, even in strict mode.
            benchmark=_BENCHMARK.validate_json(json.dumps(document["benchmark"])),
            trials=int(document["trials"]),
            max_consecutive_failures=int(document["max_consecutive_failures"]),
            launches=tuple(_launch_from_doc(one) for one in document["launches"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunDirectoryError(
            f"the plan in plan.json cannot be read: {type(error).__name__}: {error}; was it "
            "edited? `sweep report RUN/results.csv` reads the rows all the same"
        ) from error


def _launch_from_doc(document: Mapping[str, Any]) -> Launch:
    config = ServerConfig(
        args=_pairs(document["args"]),
        env=tuple((str(name), str(value)) for name, value in document["env"]),
        swept=_pairs(document["swept"]),
    )
    points = tuple(Point(str(one["id"]), one["concurrency"]) for one in document["points"])
    return Launch(str(document["id"]), config, points)


def _pairs(found: Sequence[Sequence[Any]]) -> tuple[tuple[str, FlagValue], ...]:
    return tuple(
        (str(name), tuple(value) if isinstance(value, list) else value) for name, value in found
    )
