"""How a run is carried out: until when, and in whose process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from sweep.errors import OutOfTime, UsageError

if TYPE_CHECKING:
    from sweep.estimate import Pace
    from sweep.inventory import HostSpec
    from sweep.plan import Due, Plan
    from sweep.until import Until

HERE, ON_HOST = "here", "host"
Command = Callable[..., Any]


@dataclass(frozen=True)
class Manner:
    """`until`: the moment by which production serves again; None: no such moment. `detach`: None,
    or where the sweep goes on when its terminal is closed: in a process here or on the host.
    `report`: make the report in the end."""

    until: datetime | None = None
    detach: str | None = None
    report: bool = True

    def words(self) -> list[str]:
        """The same for the tool on the host, whose clock may be in another zone. A report is made
        where the run comes home."""
        until = ["--until", self.until.isoformat(timespec="seconds")] if self.until else []
        return [*until, "--no-report"]

    def deadline(self, plan: Plan, spec: HostSpec, pace: Pace | None) -> Until | None:
        """--until for this plan; `pace` is that of the latest run of its sweep."""
        from sweep.until import Until

        if self.until is None:
            return None
        return Until(self.until, plan, pace, production=bool(spec.production))


class DetachingCommand(click.Command):
    """Takes `--detach` alone or as `--detach=host`, never the word behind it: that is a NAME."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = args[: args.index("--")] if "--" in args else args
        rest = args[len(words) :]
        alone = [f"--detach={HERE}" if word == "--detach" else word for word in words]
        return super().parse_args(ctx, [*alone, *rest])


def require_time(until: Until | None, plan: Plan, todo: Mapping[str, Sequence[Due]]) -> None:
    """Before there is a connection: raise OutOfTime unless --until allows the first launch."""
    first = next((launch for launch in plan.launches if todo.get(launch.id)), None)
    if until is None or first is None:
        return
    concurrency = todo[first.id][0].point.concurrency
    reason = until.why_no_launch(datetime.now(UTC), first, concurrency)
    if reason is not None:
        raise OutOfTime(f"{reason}; nothing was done on {plan.host}")


def require_other_machine(name: str, spec: HostSpec) -> None:
    """Raise UsageError where =host means nothing: the host is this machine already."""
    if spec.transport != "ssh":
        raise UsageError(f"--detach=host: hosts.{name} is this machine; write --detach")


_OPTIONS = (
    click.option(
        "--until", metavar="07:00",
        help="Stop in time for production to be serving again by then, on this machine's clock.",
    ),
    click.option(
        "--detach", metavar="[=host]", type=click.Choice((HERE, ON_HOST)),
        help="Go on when the terminal is closed; =host: on the GPU host, so that this machine may "
        "sleep.",
    ),
    click.option("--no-report", is_flag=True, help="Make no report.html in the end."),
)  # fmt: skip


def manner_options(command: Command) -> Command:
    """The options of run and resume that are about the process, not about the plan."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def manner_from(given: Mapping[str, Any]) -> Manner:
    """The options as a value. UsageError: --until names no time to come."""
    text = given["until"]
    until = None if text is None else _moment(text)
    return Manner(until, given["detach"], report=not given["no_report"])


def _moment(text: str) -> datetime:
    from sweep.until import moment

    try:
        return moment(text, datetime.now(UTC))
    except ValueError as error:
        raise UsageError(f"--until {text}: {error}") from error
