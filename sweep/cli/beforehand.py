"""What a run says before it takes its host: doubts of the plan, and what a check finds there.

A sweep that cannot succeed is refused while production still serves; what only may spoil the night
is named, and the sweep begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sweep.errors import HostRefused

if TYPE_CHECKING:
    from sweep.check import Finding
    from sweep.cli.plans import Prepared
    from sweep.clock import Clock
    from sweep.estimate import Estimate
    from sweep.hints import Commands
    from sweep.host import Host
    from sweep.inventory import HostSpec
    from sweep.plan import Plan

# More than this is hardly meant for one night: 1..100 is soon written instead of 1..10.
NIGHT_S = 12 * 3600.0
MANY_LAUNCHES = 50


def unknown_value_lines(prepared: Prepared) -> Iterator[str]:
    """Each flag with a value that no release we know takes: newer ones and plugins may."""
    from sweep.inventory_file import where_written
    from sweep.sglang.choices import some_choices, unknown_values
    from sweep.sglang.flags import NEWEST, canonical

    plan = prepared.plan
    set_here = {canonical(name) for name in prepared.changes.flags}
    pairs = {pair for one in plan.launches for pair in unknown_values(dict(one.config.args))}
    for name, word in sorted(pairs):
        place = f"--set {name}"
        if name not in set_here:
            place = where_written(prepared.inventory, plan.sweep, plan.host, name)
        yield (
            f"{place}: {word!r} is no value that SGLang up to {NEWEST} takes, and one that does "
            f"not ends with exit 2; see whether the host's does, or write one of "
            f"{some_choices(name)}"
        )


def long_night(plan: Plan, expected: Estimate, until: object) -> str | None:
    """What to say of a plan that is more than a night's work and is told no end."""
    from sweep.results.status import duration

    many = len(plan.launches) > MANY_LAUNCHES
    if until is not None or not (many or expected.total_s > NIGHT_S):
        return None
    return (
        f"{len(plan.launches)} launches are expected to take {duration(expected.total_s)}; if that "
        "is not meant, narrow steps, concurrency or params, or give it an end: --until 07:00"
    )


def check_before(
    host: Host, spec: HostSpec, plan: Plan, clock: Clock, commands: Commands
) -> Sequence[str]:
    """What `sweep check` has against this sweep, a line for each. It reads only.

    Raises HostRefused where no launch can succeed. On the demo host there is nothing to lose.
    """
    from sweep.check import check

    if spec.transport == "demo":
        return ()
    findings = check(host, spec, plan, clock, commands)
    found = [one for one in findings if one.level != "ok"]
    hopeless = [one for one in found if one.hopeless]
    if hopeless:
        raise HostRefused(
            f"{host.name}: no launch of this sweep can succeed, and nothing was touched: "
            + "; ".join(_line(one) for one in hopeless)
        )
    return [f"{one.level}: {_line(one)}" for one in found]


def _line(finding: Finding) -> str:
    return f"{finding.subject}: {finding.text}" + (f" -> {finding.fix}" if finding.fix else "")
