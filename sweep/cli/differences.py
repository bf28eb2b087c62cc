"""What a resumed run would mix: two plans of one sweep, held against each other. For people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sweep.inventory import HostSpec
from sweep.plan import Plan, identity

UNSET = "unset"
# Parts of a point's identity whose own settings are named one by one.
_TAKEN_APART = ("args", "env", "benchmark", "concurrency")


def plan_differences(saved: tuple[Plan, HostSpec], now: tuple[Plan, HostSpec]) -> list[str]:
    """`name old -> new` for each setting that changed, as far as it changes any number."""
    (old_plan, _), (new_plan, _) = saved, now
    if old_plan.host == new_plan.host and _points(old_plan) == _points(new_plan):
        return []
    before, after = _settings(*saved), _settings(*now)
    found = [
        f"{name} {before.get(name, UNSET)} -> {after.get(name, UNSET)}"
        for name in dict.fromkeys((*before, *after))
        if before.get(name, UNSET) != after.get(name, UNSET)
    ]
    return found or ["its points are no longer what they were"]


def _points(plan: Plan) -> set[str]:
    return {point.id for _, point in plan.points()}


def _settings(plan: Plan, host: HostSpec) -> dict[str, str]:
    """Every setting by name, with all values that the plan's launches give it."""
    values: dict[str, dict[str, None]] = {}
    for number, launch in enumerate(plan.launches):
        told: Mapping[str, object] = dict(launch.config.args) | dict(launch.config.env)
        for name in values.keys() | told.keys():
            # A flag that earlier launches do without was unset there.
            known = values.setdefault(name, {UNSET: None} if number else {})
            known[str(told.get(name, UNSET))] = None
    found = {name: ",".join(values[name]) for name in sorted(values)}
    whole = identity(plan.launches[0].config, plan.benchmark, 1, host)
    found |= {name: str(value) for name, value in whole.items() if name not in _TAKEN_APART}
    found |= {f"benchmark.{name}": str(value) for name, value in plan.benchmark}
    found["host"] = plan.host
    found["concurrency"] = ",".join(dict.fromkeys(str(p.concurrency) for _, p in plan.points()))
    return found


def settings_apart(
    one: tuple[Mapping[str, Any], Plan | None], other: tuple[Mapping[str, Any], Plan | None]
) -> list[tuple[str, str, str]]:
    """What two runs (plan.json and its plan) were made with and differ in: (name, one, other)."""
    before, after = (_everything(*run) for run in (one, other))
    return [
        (name, before.get(name, UNSET), after.get(name, UNSET))
        for name in dict.fromkeys((*before, *after))
        if before.get(name, UNSET) != after.get(name, UNSET)
    ]


def _everything(document: Mapping[str, Any], plan: Plan | None) -> dict[str, str]:
    """Settings of the plan, and what the host was found to be; nothing of a table."""
    if plan is None or not plan.launches or "host" not in document:
        return {}
    host = HostSpec.model_validate_json(json.dumps(document["host"]))
    found = {name: str(value) for name, value in document.get("fingerprint", {}).items()}
    return _settings(plan, host) | found
