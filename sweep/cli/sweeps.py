"""The commands that touch a host: run, resume, stop, restore."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sweep.cli.beforehand import long_night, unknown_value_lines
from sweep.cli.look import NO_RUN, runs_dir_option
from sweep.cli.manner import (
    ON_HOST,
    DetachingCommand,
    Manner,
    manner_from,
    manner_options,
    require_other_machine,
    require_time,
)
from sweep.cli.options import Options, pass_options
from sweep.cli.plans import (
    Prepared,
    latest_pace,
    plan_options,
    prepare,
    render_units,
    secret_problems,
    webhook_problems,
)
from sweep.errors import OutOfTime, RunDirectoryError, UsageError
from sweep.limits import MOST_TRIALS

if TYPE_CHECKING:
    from sweep.results import RunDirectory

STOP_WAIT_S = 600.0


@click.command(
    cls=DetachingCommand,
    short_help="Launch a sweep.",
    epilog="\b\nExample:\n  sweep run overnight --dry-run\n  sweep run overnight\n"
    "  sweep run overnight --until 07:00 --detach\n"
    "  sweep run overnight --steps 1..5 --concurrency 1,16 --trials 3",
)
@click.argument("name", required=False)
@plan_options
@manner_options
@click.option("--dry-run", is_flag=True, help="Print units, commands and duration; touch nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before production is stopped.")
@runs_dir_option
@pass_options
def run(
    options: Options, /, name: str | None, dry_run: bool, yes: bool, runs_dir: Path, **given: Any
) -> int:
    """Launch a sweep: a CSV row per steps value and concurrency; production back at the end."""
    manner = manner_from(given)
    prepared = prepare(options, name, given)
    if manner.detach == ON_HOST:
        require_other_machine(prepared.plan.host, prepared.spec)
    for problem in (*webhook_problems(prepared), *unknown_value_lines(prepared)):
        options.say(f"warning: {problem}")
    if dry_run:
        print_dry_run(options, prepared, runs_dir, manner)
        return 0
    say_how_long(options, prepared, runs_dir, manner)
    if not yes:
        ask_first(prepared)
    from sweep.cli.carry_out import start

    return start(options, prepared, runs_dir, manner)


def print_dry_run(options: Options, prepared: Prepared, runs_dir: Path, manner: Manner) -> None:
    """Everything a run would do, from the same plan, without a connection."""
    from sweep.cli.dry_run import command_lines, plan_lines, summary_lines, until_lines
    from sweep.estimate import estimate
    from sweep.plan import due

    plan, spec = prepared.plan, prepared.spec
    units = render_units(plan, spec, NO_RUN, options.templates)
    pace = latest_pace(plan, runs_dir)
    until, expected = manner.deadline(plan, spec, pace), estimate(plan, pace)
    for line in (
        *plan_lines(plan, units),
        *command_lines(spec, NO_RUN),
        *summary_lines(plan, spec, expected),
        *(until_lines(until, datetime.now(UTC)) if until else ()),
    ):
        click.echo(line)
    if warning := long_night(plan, expected, until):
        click.echo(f"warning: {warning}", err=True)
    for problem in secret_problems(prepared):
        click.echo(f"warning: the run would be refused: {problem}", err=True)
    try:
        require_time(until, plan, due(plan, ()))
    except OutOfTime as error:
        click.echo(f"warning: the run would be refused: {error}", err=True)


def say_how_long(options: Options, prepared: Prepared, runs_dir: Path, manner: Manner) -> None:
    """How much there is to do and how long that takes, before anything is begun. Not of the demo,
    whose server starts in seconds."""
    from sweep.cli.dry_run import summary_lines
    from sweep.estimate import estimate

    plan = prepared.plan
    if prepared.spec.transport == "demo":
        return
    expected = estimate(plan, latest_pace(plan, runs_dir))
    for line in summary_lines(plan, prepared.spec, expected):
        options.say(line)
    if warning := long_night(plan, expected, manner.until):
        options.say(f"warning: {warning}")


def ask_first(prepared: Prepared) -> None:
    """On a terminal, production is stopped only after a yes."""
    from sweep.cli.dry_run import production_text

    away = production_text(prepared.spec)
    if not away or prepared.spec.transport == "demo" or not sys.stdin.isatty():
        return
    click.confirm(f"Stop {away} on {prepared.plan.host} and begin?", abort=True, err=True)


@click.command(
    cls=DetachingCommand,
    short_help="Go on with an interrupted run.",
    epilog="\b\nExample:\n  sweep resume\n  sweep resume overnight-20261129-221400 --skip-failed\n"
    "  sweep resume --only steps=4,5 --trials 3\n  sweep resume --until 07:00 --detach",
)
@click.argument("run", required=False)
@click.option("--skip-failed", is_flag=True, help="Leave trials that failed alone.")
@click.option("--only", multiple=True, metavar="steps=4,5",
              help="Only these steps or concurrencies; may be repeated.")  # fmt: skip
@click.option("--trials", type=click.IntRange(1, MOST_TRIALS),
              help="Measure each point this often in all.")  # fmt: skip
@click.option("--accept-changes", is_flag=True,
              help="Go on although flags, GPU or SGLang changed.")  # fmt: skip
@manner_options
@runs_dir_option
@pass_options
def resume(options: Options, /, run: str | None, runs_dir: Path, **given: Any) -> int:
    """Go on with an interrupted run (default: the latest): every trial that has no ok row yet."""
    from sweep.cli.carry_out import go_on

    return go_on(options, runs_dir, run, given, manner_from(given))


@click.command(
    short_help="End a running sweep in the orderly way.", epilog="\b\nExample:\n  sweep stop"
)
@click.argument("run", required=False)
@runs_dir_option
@pass_options
def stop(options: Options, /, run: str | None, runs_dir: Path) -> None:
    """End a running sweep in the orderly way, as Ctrl-C does, and wait until it has ended."""
    from sweep.results import current_run

    found = current_run(runs_dir, run)
    if found.is_away:
        stop_there(options, found)
        return
    state = found.lock_state()
    if not state.held or state.owner is None:
        raise RunDirectoryError(f"{found.id} is not running")
    if state.owner.host != socket.gethostname():
        raise RunDirectoryError(
            f"{found.id} is swept by {state.owner}; call `sweep stop {found.id}` on that machine"
        )
    try:
        os.kill(state.owner.pid, signal.SIGTERM)
        # One that Ctrl-Z has stopped would hear of it when somebody lets it go on.
        os.kill(state.owner.pid, signal.SIGCONT)
    except OSError as error:
        raise RunDirectoryError(f"{found.id}: cannot signal {state.owner}: {error}") from error
    click.echo(f"{found.id}: asked {state.owner} to end; production is restored first", err=True)
    until = time.monotonic() + STOP_WAIT_S
    while found.lock_state().held:
        if time.monotonic() > until:
            raise RunDirectoryError(f"{found.id} still runs after {STOP_WAIT_S:.0f} s")
        time.sleep(0.2)
    click.echo(f"{found.id} has ended", err=True)


def stop_there(options: Options, run: RunDirectory) -> None:
    """The same for a run that works on its host."""
    from sweep.cli.elsewhere import away

    with away(options, run) as there:
        if not there.refresh().held:
            raise RunDirectoryError(f"{run.id} is not running any more; it was fetched")
        name = there.remote.host.name
        click.echo(f"{run.id}: asked it to end on {name}; production is restored first", err=True)
        there.stop()
    click.echo(f"{run.id} has ended", err=True)


@click.command(
    short_help="Put back what a host ran before.", epilog="\b\nExample:\n  sweep restore blackwell"
)
@click.argument("host", required=False)
@pass_options
def restore(options: Options, host: str | None) -> None:
    """Put back what the host ran before a sweep, from the record the sweep left there."""
    from sweep.cli.carry_out import put_back

    hosts = options.load().hosts
    if host is None and len(hosts) == 1:
        host = next(iter(hosts))
    if host is None or host not in hosts:
        raise UsageError(f"which host? The inventory has {', '.join(hosts)}")
    put_back(host, hosts[host], options.inventory_path())


COMMANDS = (run, resume, stop, restore)
