"""Carrying a plan out: the run directory, signals, progress, and what is said at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from sweep import __version__
from sweep.cli.options import Options
from sweep.cli.plans import Prepared, read_secrets, render_units
from sweep.cli.resuming import Todo, changes_to_doc, everything, read_run
from sweep.cli.summary import print_closing
from sweep.clock import SystemClock
from sweep.errors import HostRefused, SweepError
from sweep.host import connect
from sweep.inventory import HostSpec
from sweep.plan import Plan, due
from sweep.plan_document import plan_to_doc
from sweep.progress import Progress, Stage, progress_for
from sweep.results import RunDirectory, gave_back, new_run
from sweep.runner import Sweep, execute
from sweep.signals import InterruptibleClock
from sweep.systemd import Systemd, runs_on
from sweep.unit import Templates, own_templates


def start(options: Options, prepared: Prepared, runs_dir: Path) -> int:
    """A fresh run of a prepared plan; the exit status."""
    plan, spec = prepared.plan, prepared.spec
    # Whatever can be refused is refused before there is a directory, let alone a connection.
    render_units(plan, spec, "check", options.templates)
    templates = own_templates(options.templates)
    read_secrets(prepared)
    run = new_run(runs_dir, plan.sweep)
    with run.lock():
        run.write_plan(
            {
                "sweep_version": __version__,
                "inventory": str(prepared.inventory.resolve()),
                "templates": None if templates is None else str(templates.resolve()),
                "template_sha256": Templates(options.templates).sha256(),
                "changes": changes_to_doc(prepared.changes),
                "host": spec.model_dump(mode="json", exclude_defaults=True),
                "plan": plan_to_doc(plan),
                "fingerprint": {},
            }
        )
        options.say(f"run {run.id}: {run.path}")
        options.detail(f"unit template: {templates or 'the packaged one'}")
        execution = Execution(options, run, plan, spec, progress_for(options.console()))
        return execution.work(due(plan, ()), resumed=False)


def go_on(options: Options, runs_dir: Path, name: str | None, given: Mapping[str, Any]) -> int:
    """An interrupted run, from where its rows end; the exit status."""
    found = read_run(options, runs_dir, name, given)
    run = found.run
    with run.lock() as notes:
        for note in notes:
            options.say(f"{run.id}: {note}")
        if found.changed:
            run.write_plan({**run.plan(), **found.document()})
        missing = due(found.plan, run.rows(), skip_failed=bool(given["skip_failed"]))
        execution = Execution(
            replace(options, templates=found.templates),
            run,
            found.plan,
            found.spec,
            progress_for(options.console()),
            bool(given["accept_changes"]),
            found.wanted,
        )
        todo = found.wanted(missing)
        # With nothing left to measure, production may still wait for its host.
        if todo or not gave_back(run.events()):
            return execution.work(todo, resumed=True)
        options.say(f"{run.id}: nothing left to do")
        print_closing(run, found.plan, color=options.color)
        return 1 if found.wanted(due(found.plan, run.rows())) else 0


def put_back(name: str, spec: HostSpec) -> None:
    """Production as it was recorded on the host, by every run that left its record there."""
    clock = SystemClock()
    with connect(name, spec) as host:
        found = [run for run in runs_on(host, host.spec, clock) if not run.restored]
        for run in found:
            if run.owner is not None and run.dead is None:
                raise HostRefused(
                    f"{name}: {run.owner} is sweeping it now (run {run.run_id}); end that with "
                    "`sweep stop` first"
                )
        for run in found:
            restored = Systemd(host, host.spec, clock, run.run_id).restore()
            click.echo(f"{name}: run {run.run_id}: {restored.text}", err=True)
        if not found:
            click.echo(f"{name}: no run has left anything to restore", err=True)


@dataclass(frozen=True)
class Execution:
    """One process working on one run: from the first connection to the closing lines.

    `wanted` narrows what is due (`--only`); what it leaves out does not count in the end.
    """

    options: Options
    run: RunDirectory
    plan: Plan
    spec: HostSpec
    progress: Progress
    accept_changes: bool = False
    wanted: Callable[[Todo], Todo] = everything

    def work(self, todo: Todo, *, resumed: bool) -> int:
        """Do what is due; the exit status. Whatever ends it, the run's directory says so."""
        self.run.begin({name: len(trials) for name, trials in todo.items()}, resumed=resumed)
        self.progress.begin(self.plan, todo)
        try:
            with InterruptibleClock(self._acknowledge) as clock:
                braked = self._execute(clock, todo)
        except SweepError as error:
            self.end(str(error), error.exit_code)
            raise
        except BaseException as error:
            self.end(f"{type(error).__name__}: {error}", 70)
            raise
        left = self.wanted(due(self.plan, self.run.rows()))
        return self.end(braked or "finished", 1 if braked or left else 0)

    def _execute(self, clock: InterruptibleClock, todo: Todo) -> str | None:
        self.progress.stage(Stage("connect"))
        self.run.event("stage", stage="connect")
        with connect(self.plan.host, self.spec, sleep=clock.sleep) as host:
            sweep = Sweep(
                plan=self.plan,
                units=render_units(self.plan, host.spec, self.run.id, self.options.templates),
                spec=host.spec,
                run=self.run,
                progress=self.progress,
                clock=clock,
                accept_changes=self.accept_changes,
            )
            return execute(sweep, host, todo)

    def _acknowledge(self, name: str, count: int) -> None:
        """From the signal handler: say within the second what is waited for."""
        if count == 1:
            self.progress.note(
                f"{name}: ending the sweep; the server is stopped and production restored first "
                "(once more: leave that to the host)"
            )
        else:
            self.progress.note(f"{name} again: the host restores production by itself")

    def end(self, reason: str, exit_code: int) -> int:
        """Say in the directory and to the person how it ended."""
        self.progress.end()
        self.run.end(reason, exit_code)
        print_closing(self.run, self.plan, color=self.options.color)
        return exit_code
