"""What a resumed run does: the plan as the inventory has it now, held against the one on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sweep.cli.differences import plan_differences
from sweep.cli.options import Options
from sweep.errors import RunDirectoryError, UsageError
from sweep.inventory import HostSpec
from sweep.inventory_file import load_inventory, parse_concurrency, parse_steps
from sweep.matrix import Changes, build_plan
from sweep.plan import Due, Launch, Plan, Point, numbered_like
from sweep.plan_document import plan_from_doc, plan_to_doc
from sweep.results import RunDirectory, open_run
from sweep.unit import Templates

Todo = dict[str, list[Due]]


def everything(todo: Todo) -> Todo:
    """No narrowing: all that is due."""
    return todo


@dataclass(frozen=True)
class Resumed:
    """A run to go on with. `changed`: what plan.json says of it is not what it says there now.

    `inventory` is the file it is made from, `templates` the user's own unit template, if any.
    `kept` is the plan that later resumes go on with: what --only and --trials ask for together
    is asked for once.
    """

    run: RunDirectory
    inventory: Path
    templates: Path | None
    plan: Plan
    kept: Plan
    template_sha256: str
    spec: HostSpec
    changed: bool
    wanted: Callable[[Todo], Todo]

    def document(self) -> dict[str, Any]:
        """The parts of plan.json that a resumed run may change."""
        return {
            "inventory": str(self.inventory),
            "templates": None if self.templates is None else str(self.templates),
            "template_sha256": self.template_sha256,
            "plan": plan_to_doc(self.kept),
            "host": self.spec.model_dump(mode="json", exclude_defaults=True),
        }


def read_run(
    options: Options, runs_dir: Path, name: str | None, given: Mapping[str, Any]
) -> Resumed:
    """The run, with its plan made anew from the inventory and compared with the one it began with.

    Raises RunDirectoryError when anything that makes a number has changed, unless accepted.
    """
    run = open_run(runs_dir, name)
    document = run.plan()
    saved = plan_from_doc(document.get("plan", {}))
    inventory = options.inventory or Path(str(document.get("inventory")))
    templates = _templates(options, document)
    template = Templates(templates).sha256()
    plan, spec = _current(options, inventory, document, saved)
    differences = plan_differences((saved, saved_host(document)), (plan, spec))
    if document.get("template_sha256") not in (None, template):
        differences.append("the unit template")
    if differences and not given["accept_changes"]:
        raise RunDirectoryError(
            f"{run.id}: the inventory has changed since this run began: {'; '.join(differences)}; "
            "put it back, or add --accept-changes (changed flags make new points), or start a new "
            "run"
        )
    plan = numbered_like(plan, saved, (str(row["launch"]) for row in run.rows()))
    now = replace(plan, trials=given["trials"]) if given["trials"] else plan
    resumed = Resumed(
        run=run,
        inventory=inventory.resolve(),
        templates=templates.resolve() if templates else None,
        plan=now,
        kept=plan if given["only"] else now,
        template_sha256=template,
        spec=spec,
        changed=False,
        wanted=wanted(now, given["only"]),
    )
    changed = any(document.get(key) != value for key, value in resumed.document().items())
    return replace(resumed, changed=changed)


def resume_words(given: Mapping[str, Any]) -> list[str]:
    """The options of a resume as they are written: for the tool on the host."""
    words = [f"--{name}" for name in ("skip-failed", "accept-changes")
             if given[name.replace("-", "_")]]  # fmt: skip
    for text in given["only"]:
        words += ["--only", text]
    return [*words, "--trials", str(given["trials"])] if given["trials"] else words


def _templates(options: Options, document: Mapping[str, Any]) -> Path | None:
    """Where the run's own unit template lies; None: it uses the packaged one."""
    saved = document.get("templates")
    return options.templates or (Path(str(saved)) if saved else None)


def _current(
    options: Options, path: Path, document: Mapping[str, Any], saved: Plan
) -> tuple[Plan, HostSpec]:
    """Plan and host as the inventory has them now; as plan.json has them where it is gone."""
    if not path.is_file() and options.inventory is None:
        if not document.get("sent"):  # to its own host, where there never was an inventory
            options.say(f"{path} is gone: going on with what plan.json holds")
        return saved, saved_host(document)
    inventory = load_inventory(path)
    changes = changes_from_doc(document.get("changes", {}))
    plan = build_plan(inventory, saved.sweep, changes)
    # More trials may have been asked for by an earlier resume; the inventory may ask for more yet.
    return replace(plan, trials=max(plan.trials, saved.trials)), inventory.hosts[plan.host]


def saved_host(document: Mapping[str, Any]) -> HostSpec:
    """The host as plan.json has it. Raises RunDirectoryError when it cannot be read."""
    try:
        return HostSpec.model_validate_json(json.dumps(document.get("host", {})))
    except ValueError as error:
        raise RunDirectoryError("the host in plan.json cannot be read; was it edited?") from error


def changes_to_doc(changes: Changes) -> dict[str, Any]:
    """The command line's changes, as plan.json keeps them for a resume."""
    return asdict(changes)


def changes_from_doc(document: Mapping[str, Any]) -> Changes:
    """What `changes_to_doc` made this of. Raises RunDirectoryError when it is not one of those."""

    def plain(value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    try:
        known = {key: plain(value) for key, value in document.items() if key != "flags"}
        flags = {name: plain(value) for name, value in document.get("flags", {}).items()}
        return Changes(**known, flags=flags)
    except (AttributeError, TypeError) as error:
        raise RunDirectoryError(
            "the changes in plan.json cannot be read; was it edited?"
        ) from error


def wanted(plan: Plan, only: Sequence[str]) -> Callable[[Todo], Todo]:
    """The filter that --only asks for: every term must hold. Raises UsageError when none can."""
    terms = [_term(text) for text in only]

    def keep(launch: Launch, point: Point) -> bool:
        return all(term(launch, point) for term in terms)

    if not any(keep(launch, point) for launch, point in plan.points()):
        steps = dict.fromkeys(str(launch.config.steps) for launch in plan.launches)
        numbers = dict.fromkeys(str(point.concurrency) for _, point in plan.points())
        raise UsageError(
            f"--only {' '.join(only)}: no such point; this run has steps {','.join(steps)} at "
            f"concurrency {','.join(numbers)}"
        )

    def select(todo: Todo) -> Todo:
        launches = {launch.id: launch for launch in plan.launches}
        kept = {
            name: [one for one in trials if keep(launches[name], one.point)]
            for name, trials in todo.items()
        }
        return {name: trials for name, trials in kept.items() if trials}

    return select


def _term(text: str) -> Callable[[Launch, Point], bool]:
    key, equals, value = text.partition("=")
    try:
        if equals and key == "steps":
            steps = parse_steps(value)
            return lambda launch, _: launch.config.steps in steps
        if equals and key == "concurrency":
            concurrencies = parse_concurrency(value)
            return lambda _, point: point.concurrency in concurrencies
    except ValueError as error:
        raise UsageError(f"--only {text}: {error}") from error
    raise UsageError(f"--only {text}: write steps=4,5 or concurrency=1,16")
