"""From the options of a command to a plan, a host and rendered units: offline, touching nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sweep.cli.options import Options
from sweep.errors import InventoryError, SweepError, UsageError
from sweep.limits import MOST_TRIALS

if TYPE_CHECKING:
    from sweep.estimate import Pace
    from sweep.inventory import FlagValue, HostSpec, NotifySpec
    from sweep.matrix import Changes
    from sweep.plan import Plan
    from sweep.unit import RenderedUnit

Parsed = TypeVar("Parsed")
Command = Callable[..., Any]

_PLAN_OPTIONS = (
    click.option("--host", help="Another host of the inventory."),
    click.option("--steps", help="1..10, 0,1,3 or 1..10:3."),
    click.option("--concurrency", metavar="LIST", help="1,4,16,max"),
    click.option("--trials", type=click.IntRange(1, MOST_TRIALS),
                 help="Repetitions of each point."),
    click.option(
        "--set", "settings", multiple=True, metavar="FLAG=VALUE",
        help="Another SGLang flag, or another value for one; may be repeated.",
    ),
    click.option("--no-baseline", is_flag=True, help="No launch without speculation."),
)  # fmt: skip


def plan_options(command: Command) -> Command:
    """The options that change what a sweep of the inventory runs."""
    for option in reversed(_PLAN_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True)
class Prepared:
    """A plan that is valid in every respect that can be known offline, and the file it is from."""

    inventory: Path
    plan: Plan
    spec: HostSpec
    changes: Changes
    notify: tuple[NotifySpec, ...] = ()


def prepare(options: Options, name: str | None, given: Mapping[str, Any]) -> Prepared:
    """The sweep `name` of the inventory with the plan options `given`, as a plan."""
    from sweep.inventory_file import load_inventory
    from sweep.matrix import build_plan

    path = options.inventory_path()
    options.detail(f"inventory: {path.resolve()}")
    inventory = load_inventory(path)
    changes = changes_from(given)
    plan = build_plan(inventory, name, changes)
    notify = inventory.sweeps[plan.sweep].notify
    return Prepared(path, plan, inventory.hosts[plan.host], changes, notify)


def latest_pace(plan: Plan, runs_dir: Path) -> Pace | None:
    """How fast the latest run of the same sweep was, where there is one."""
    from sweep.estimate import pace_of
    from sweep.plan_document import plan_from_doc
    from sweep.results import open_run, run_ids

    for run_id in reversed(run_ids(runs_dir)):
        # A run that is damaged or of another version is no reason not to begin a new one.
        with suppress(SweepError):
            found = open_run(runs_dir, run_id)
            if plan_from_doc(found.plan().get("plan", {})).sweep == plan.sweep:
                return pace_of(found.rows())
    return None


def read_secrets(prepared: Prepared) -> None:
    """Raise InventoryError, with a line for each secret that cannot be read on this machine."""
    if problems := secret_problems(prepared):
        raise InventoryError("\n".join(problems))


def secret_problems(prepared: Prepared) -> list[str]:
    """`inventory.yaml:14: hosts.gpu.server.secrets.api-key: ...` for each secret that is not there,
    or is none that SGLang takes."""
    from sweep.inventory_file import line_of
    from sweep.unit import secret_files

    server, host = prepared.spec.server, prepared.plan.host
    found = []
    for name, ref in server.secrets.items():
        try:
            secret_files(server.model_copy(update={"secrets": {name: ref}}))
        except InventoryError as error:
            line = line_of(prepared.inventory, ("hosts", host, "server", "secrets", name))
            found.append(f"{prepared.inventory}:{line}: hosts.{host}.{error}")
    return found


def webhook_problems(prepared: Prepared) -> list[str]:
    """The same for each webhook of the sweep whose URL cannot be read: nobody is told by it."""
    from sweep.inventory import SecretRef
    from sweep.inventory_file import line_of
    from sweep.unit import secret_value

    sweep = prepared.plan.sweep
    found = []
    for number, spec in enumerate(prepared.notify):
        if isinstance(spec.webhook, SecretRef):
            line = line_of(prepared.inventory, ("sweeps", sweep, "notify", number, "webhook"))
            try:
                secret_value(spec.webhook, f"sweeps.{sweep}.notify.webhook")
            except InventoryError as error:
                found.append(f"{prepared.inventory}:{line}: {error}; until then it tells nobody")
    return found


def changes_from(given: Mapping[str, Any]) -> Changes:
    """The plan options as a value; what cannot be meant is a usage error naming the option."""
    from sweep.inventory_file import parse_concurrency, parse_setting, parse_steps
    from sweep.matrix import Changes

    flags: dict[str, FlagValue] = {}
    for text in given["settings"]:
        flag, value = _parsed("--set", parse_setting, text)
        flags[flag] = value
    steps, concurrency = given["steps"], given["concurrency"]
    return Changes(
        host=given["host"],
        steps=None if steps is None else _parsed("--steps", parse_steps, steps),
        concurrency=(
            None
            if concurrency is None
            else _parsed("--concurrency", parse_concurrency, concurrency)
        ),
        trials=given["trials"],
        baseline=False if given["no_baseline"] else None,
        flags=flags,
    )


def _parsed(option: str, parse: Callable[[str], Parsed], text: str) -> Parsed:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from error


def render_units(
    plan: Plan, spec: HostSpec, run_id: str, templates: Path | None
) -> dict[str, RenderedUnit]:
    """Every unit of the plan, by launch id."""
    from sweep.unit import Templates, render

    found = Templates(templates)
    return {
        launch.id: render(spec, launch.config, run_id=run_id, launch_id=launch.id, templates=found)
        for launch in plan.launches
    }
