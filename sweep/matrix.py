"""From a sweep to its launches: the values to vary, in the order they run. Pure.

One server config is one launch: the baseline first, then each steps value, and inside it the
product of the sweep's params. `build_plan` adds the points and holds every config against SGLang's
rules once more, so that a change on the command line is checked like the file.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sweep.errors import InventoryError, UsageError
from sweep.inventory import FlagValue, HostSpec, Inventory, ServerSpec, SweepSpec
from sweep.limits import MOST_LAUNCHES
from sweep.naming import did_you_mean
from sweep.plan import Launch, Plan, Point, ServerConfig, identity, point_id
from sweep.sglang.args import STEPS, Complaint, flag_complaints, merged, spelt
from sweep.sglang.flags import is_speculative
from sweep.sglang.rules import complaints

Flags = Mapping[str, FlagValue]


@dataclass(frozen=True)
class Changes:
    """What a command line changes in a sweep of the inventory; None means as in the file.

    `flags` are server flags (`--set`), in any spelling SGLang takes; they beat `server.args` and
    take a flag out of `params`.
    """

    host: str | None = None
    steps: tuple[int, ...] | None = None
    concurrency: tuple[int | str, ...] | None = None
    trials: int | None = None
    baseline: bool | None = None
    flags: Flags = field(default_factory=dict)


def expand(
    sweep: SweepSpec, server: ServerSpec, *, overrides: Flags | None = None
) -> tuple[ServerConfig, ...]:
    """Every server config of the sweep, in the order of its launches, none twice.

    Steps 0 renders no speculative flag, so params that are speculative flags do not multiply it.
    """
    given = spelt(overrides or {})
    fixed = merged(spelt(server.args), given)
    params = {
        name: (given[name],) if name in given else values for name, values in sweep.params.items()
    }
    steps = sweep.steps
    if sweep.baseline:
        steps = (0, *(number for number in steps if number != 0))
    found: dict[tuple[object, ...], ServerConfig] = {}
    for number in steps:
        for values in itertools.product(*params.values()):
            config = _config(number, fixed, dict(zip(params, values, strict=True)), server)
            # repr, because True == 1 == 1.0 and they are rendered differently.
            found.setdefault((repr(config.args), repr(config.swept)), config)
    return tuple(found.values())


def _config(steps: int, fixed: Flags, swept: Flags, server: ServerSpec) -> ServerConfig:
    def rendered(flags: Flags) -> dict[str, FlagValue]:
        return {name: v for name, v in flags.items() if steps > 0 or not is_speculative(name)}

    swept = rendered(swept)
    args = merged(rendered(fixed), swept)
    if steps > 0:
        args[STEPS] = steps
    return ServerConfig(
        args=tuple((name, value) for name, value in args.items() if value is not False),
        env=tuple(server.env.items()),
        swept=tuple(swept.items()),
    )


def build_plan(inventory: Inventory, sweep_name: str | None, changes: Changes) -> Plan:
    """The plan of a sweep with the changes of a command line. Touches nothing.

    Raises:
        UsageError: no such sweep or host, or no name where there are several sweeps.
        InventoryError: what results breaks a rule; one line for each.
    """
    name = _sweep_name(inventory, sweep_name)
    sweep = _changed(inventory.sweeps[name], changes)
    if sweep.host not in inventory.hosts:
        raise UsageError(
            f"--host {sweep.host}: no such host in the inventory; "
            + did_you_mean(sweep.host, inventory.hosts)
        )
    host = inventory.hosts[sweep.host]
    if problem := too_many(sweep):
        raise InventoryError(f"sweep {name}: {problem}")
    configs = expand(sweep, host.server, overrides=changes.flags)
    _check(name, sweep, configs, changes)
    return Plan(
        sweep=name,
        host=sweep.host,
        benchmark=sweep.benchmark,
        trials=sweep.trials,
        max_consecutive_failures=sweep.max_consecutive_failures,
        launches=tuple(
            Launch(f"l-{number:02d}", config, _points(sweep, config, host))
            for number, config in enumerate(configs, 1)
        ),
    )


def _sweep_name(inventory: Inventory, given: str | None) -> str:
    names = list(inventory.sweeps)
    if given is None and len(names) == 1:
        return names[0]
    if given is None:
        raise UsageError(f"the inventory has {len(names)} sweeps; name one of {', '.join(names)}")
    if given not in inventory.sweeps:
        raise UsageError(f"no sweep {given} in the inventory; {did_you_mean(given, names)}")
    return given


def _changed(sweep: SweepSpec, changes: Changes) -> SweepSpec:
    new = {
        key: value
        for key in ("host", "steps", "concurrency", "trials", "baseline")
        if (value := getattr(changes, key)) is not None
    }
    return sweep.model_copy(update=new)


def _points(sweep: SweepSpec, config: ServerConfig, host: HostSpec) -> tuple[Point, ...]:
    return tuple(
        Point(point_id(identity(config, sweep.benchmark, number, host)), number)
        for number in sweep.concurrency
    )


def _check(
    name: str, sweep: SweepSpec, configs: tuple[ServerConfig, ...], changes: Changes
) -> None:
    """Raises InventoryError with every rule that the sweep breaks, each once."""
    lines = [f"--set {c.flag}: {c.text}" for c in flag_complaints(changes.flags, absent=True)]
    lines = lines or [
        f"sweep {name} on host {sweep.host}: {complaint.flag} {complaint.text}"
        for complaint in plan_complaints(configs)
    ]
    if lines:
        raise InventoryError("\n".join(lines))


def plan_complaints(configs: tuple[ServerConfig, ...]) -> Iterator[Complaint]:
    """SGLang's rules over every config of a sweep; each flag is complained about once."""
    seen: set[str] = set()
    for config in configs:
        for complaint in complaints(dict(config.args)):
            if complaint.flag not in seen:
                seen.add(complaint.flag)
                yield complaint


def too_many(sweep: SweepSpec) -> str | None:
    """What is wrong with a sweep of more launches than `MOST_LAUNCHES`; None if it has fewer."""
    number = (len(sweep.steps) + sweep.baseline) * math.prod(map(len, sweep.params.values()))
    if number <= MOST_LAUNCHES:
        return None
    return f"makes {number} launches, more than {MOST_LAUNCHES}; vary less at a time"
