"""The commands that only read: render, check, status, logs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sweep.cli.options import Options, pass_options
from sweep.cli.output import written_to
from sweep.cli.plans import plan_options, prepare, render_units, secret_problems, webhook_problems
from sweep.errors import HostRefused, RunDirectoryError, UsageError
from sweep.hints import DEFAULT_RUNS, Commands

if TYPE_CHECKING:
    from sweep.check import Finding
    from sweep.results import LockState, RunDirectory, Status

# Stands for the run id wherever no run exists yet: in a rendered unit, in a dry run.
NO_RUN = "RUN"

runs_dir_option = click.option(
    "--runs-dir", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT_RUNS,
    show_default=True, help="Where runs are kept.",
)  # fmt: skip


@click.command(
    short_help="Print or write every rendered unit.",
    epilog="\b\nExample:\n  sweep render overnight --steps 3 | less\n"
    "  sweep render overnight -o units/\n  sweep render overnight --steps 3 --diff",
)
@click.argument("name", required=False)
@plan_options
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False),
              help="Write one file per launch into this directory.")  # fmt: skip
@click.option("--diff", is_flag=True, help="Differences to production's unit (asks the host).")
@click.option("--against", type=click.Choice(["production", "sweep"]), default="production",
              show_default=True, help="With --diff: our own installed unit instead.")  # fmt: skip
@pass_options
def render(
    options: Options,
    /,
    name: str | None,
    output: Path | None,
    diff: bool,
    against: str,
    **given: Any,
) -> None:
    """Print or write every rendered unit of a sweep, offline."""
    from sweep.cli.dry_run import plan_lines

    prepared = prepare(options, name, given)
    units = render_units(prepared.plan, prepared.spec, NO_RUN, options.templates)
    if diff:
        _print_diffs(prepared, units, against)
        return
    if output is None:
        for line in plan_lines(prepared.plan, units):
            click.echo(line)
        return
    files = {
        output / f"{launch.id}-steps{launch.config.steps}.service": units[launch.id].text
        for launch in prepared.plan.launches
    }
    if stale := sorted(set(output.glob("l-*.service")) - set(files)):
        raise UsageError(f"-o: {stale[0]} is of another rendering; name an empty directory")
    for path, text in files.items():
        with written_to(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        click.echo(path)


def _print_diffs(prepared: Any, units: Any, against: str) -> None:
    """Each unit against what the host has now: production's first unit, or our installed one."""
    from sweep.host import connect
    from sweep.unit import unit_diff

    spec = prepared.spec
    if against == "production" and not (isinstance(spec.production, tuple) and spec.production):
        raise UsageError("--diff: this host names no production unit; try --against sweep")
    unit = spec.unit if against == "sweep" else spec.production[0]
    with connect(prepared.plan.host, spec) as host:
        user = " --user" if spec.scope == "user" else ""
        shown = host.run(f"systemctl{user} cat --no-pager -- {shlex.quote(unit)}")
    if not shown.ok:
        raise HostRefused(f"{prepared.plan.host}: {unit} cannot be shown: {shown.tail(1)}")
    for launch in prepared.plan.launches:
        click.echo(
            unit_diff(
                shown.text, units[launch.id].text, f"{unit} on {prepared.plan.host}", launch.id
            ),
            nl=False,
        )


@click.command(
    short_help="What is done, running, failed.",
    epilog="\b\nExample:\n  sweep status\n  sweep status overnight-20261129-221400\n"
    "  sweep status --watch",
)
@click.argument("run", required=False)
@click.option("--watch", is_flag=True, help="Until the run ends; Ctrl-C ends the watching alone.")
@runs_dir_option
@pass_options
def status(options: Options, /, run: str | None, watch: bool, runs_dir: Path) -> None:
    """What is done, running, failed, and how long it will take; from the run's directory alone.

    A run that was detached to its host is fetched from there first.
    """
    from sweep.results import current_run

    found = current_run(runs_dir, run)
    if watch:
        from sweep.cli.watch import watch_run

        watch_run(found, partial(_look, options, found), color=options.color)
        return
    for line in _look(options, found).lines():
        click.echo(line)


def _look(options: Options, run: RunDirectory) -> Status:
    from sweep.results import read_status

    return read_status(run, elsewhere(options, run))


def elsewhere(options: Options, run: RunDirectory) -> LockState | None:
    """Fetch a run that works on its host, and whether it still does; None: it is here."""
    if not run.is_away:
        return None
    from sweep.cli.elsewhere import look_there

    return look_there(options, run)


@click.command(
    short_help="The journal of one launch.",
    epilog="\b\nExample:\n  sweep logs                      the latest launch of the latest run\n"
    "  sweep logs overnight-20261129-221400 l-03",
)
@click.argument("run", required=False)
@click.argument("launch", required=False)
@runs_dir_option
@pass_options
def logs(options: Options, /, run: str | None, launch: str | None, runs_dir: Path) -> None:
    """The journal of one launch, as it was saved (without secrets)."""
    from sweep.results import current_run

    found = current_run(runs_dir, run)
    elsewhere(options, found)
    saved = found.journals()
    if not saved:
        raise RunDirectoryError(f"{found.id}: no journal saved yet; one is when a launch ends")
    if launch is not None and launch not in saved:
        raise RunDirectoryError(
            f"{found.id}: no journal of {launch}; there are those of {', '.join(sorted(saved))}"
        )
    click.echo(found.journal(launch or saved[-1]), nl=False)


@click.command(
    short_help="What could spoil the night; reads only.",
    epilog="\b\nExample:\n  sweep check overnight",
)
@click.argument("name", required=False)
@plan_options
@pass_options
def check(options: Options, /, name: str | None, **given: Any) -> int:
    """Can this host run this sweep tonight? Reads only, changes nothing."""
    from sweep.check import Finding
    from sweep.check import check as check_host
    from sweep.clock import SystemClock
    from sweep.host import connect

    prepared = prepare(options, name, given)
    here = [
        *(Finding("problem", "secrets", text) for text in secret_problems(prepared)),
        *(Finding("warning", "notify", text) for text in webhook_problems(prepared)),
    ]
    _print_findings(options, here)
    with connect(prepared.plan.host, prepared.spec) as host:
        findings = check_host(
            host, host.spec, prepared.plan, SystemClock(), Commands(prepared.inventory)
        )
    _print_findings(options, findings)
    return 5 if any(finding.level == "problem" for finding in (*here, *findings)) else 0


def _print_findings(options: Options, findings: Sequence[Finding]) -> None:
    for finding in findings:
        if finding.level != "ok" or options.verbosity >= 0:
            click.echo(f"{finding.level:8} {finding.subject}: {finding.text}")
            if finding.fix:
                click.echo(f"{'':8} -> {finding.fix}")


COMMANDS = (render, check, status, logs)
