"""What a dry run says: every launch with its points and unit, the commands, the time it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from sweep.benchmarks import remark
from sweep.estimate import Estimate
from sweep.inventory import HostSpec, ProductionCommands
from sweep.plan import Launch, Plan
from sweep.results.status import duration
from sweep.sglang.secrecy import without_secrets
from sweep.systemd.outline import outline
from sweep.unit import RenderedUnit
from sweep.until import Until


def plan_lines(plan: Plan, units: Mapping[str, RenderedUnit]) -> Iterator[str]:
    """Every unit of the plan, each under its launch number and its points."""
    total = len(plan.launches)
    for number, launch in enumerate(plan.launches, 1):
        unit = units[launch.id]
        yield f"### launch {number}/{total}: {launch.id}  {launch.label}"
        yield f"### points: {points_text(plan, launch)}"
        yield f"### {unit.name}  sha256 {unit.sha256[:12]}"
        yield from unit.text.rstrip("\n").split("\n")
        yield ""


def points_text(plan: Plan, launch: Launch) -> str:
    trials = f", {plan.trials} trials each" if plan.trials > 1 else ""
    return ", ".join(f"C={point.concurrency}" for point in launch.points) + trials


def summary_lines(plan: Plan, spec: HostSpec, expected: Estimate) -> Iterator[str]:
    """How much, how long, and what happens to production."""
    points = sum(1 for _ in plan.points())
    yield (
        f"{plan.sweep} on {plan.host}: {len(plan.launches)} launches, {points} points, "
        f"{points * plan.trials} trials"
    )
    if said := remark(plan.benchmark.label):
        yield said
    yield f"expected: {duration(expected.total_s)} ({expected.basis})"
    away = production_text(spec)
    if away:
        yield f"production ({away}) is away for that long, and is restored at the end"
    else:
        yield "no production is named for this host: nothing is stopped, nothing is restored"


def until_lines(until: Until, now: datetime) -> Iterator[str]:
    """How far the plan gets before production has to serve again."""
    launches, trials = until.reach(now)
    total = sum(len(launch.points) for launch in until.plan.launches) * until.plan.trials
    left = duration((until.at - now).total_seconds())
    yield (
        f"until {until.text}, in {left}: about {launches} of {len(until.plan.launches)} launches, "
        f"{trials} of {total} trials"
    )


def command_lines(spec: HostSpec, run_id: str) -> Iterator[str]:
    """What would be done on the host."""
    where = {"local": "this machine", "demo": "the demo host"}.get(spec.transport, spec.address)
    yield f"### on {where}" + (" (through sudo)" if spec.become == "sudo" else "")
    yield from outline(spec, run_id)
    yield ""


def production_text(spec: HostSpec) -> str:
    if isinstance(spec.production, ProductionCommands):
        return without_secrets(spec.production.stop)
    return ", ".join(spec.production)
