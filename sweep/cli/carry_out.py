"""Carrying a plan out: the run directory, signals, progress, and what is said at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from sweep import __version__
from sweep.awake import staying_awake
from sweep.cli.beforehand import check_before
from sweep.cli.closing import notify_specs, report_at_the_end
from sweep.cli.detaching import Background, how_to_follow, split
from sweep.cli.elsewhere import come_home, send
from sweep.cli.manner import ON_HOST, Manner, require_other_machine, require_time
from sweep.cli.options import Options
from sweep.cli.plans import Prepared, latest_pace, read_secrets, render_units
from sweep.cli.resuming import (
    Resumed,
    Todo,
    changes_to_doc,
    everything,
    read_run,
    resume_words,
)
from sweep.cli.summary import print_closing
from sweep.clock import SystemClock
from sweep.errors import HostRefused, SweepError
from sweep.estimate import pace_of
from sweep.hints import Commands
from sweep.host import connect
from sweep.inventory import HostSpec
from sweep.notify import notifying
from sweep.plan import Plan, due
from sweep.plan_document import plan_to_doc
from sweep.progress import Progress, Stage, progress_for
from sweep.results import RunDirectory, gave_back, new_run, open_run, untouched
from sweep.runner import Sweep, execute
from sweep.signals import InterruptibleClock
from sweep.systemd import Systemd, runs_on
from sweep.unit import Templates, own_templates
from sweep.until import Until


def start(options: Options, prepared: Prepared, runs_dir: Path, manner: Manner) -> int:
    """A fresh run of a prepared plan; the exit status."""
    plan, spec = prepared.plan, prepared.spec
    # Whatever can be refused is refused before there is a directory, let alone a connection.
    render_units(plan, spec, "check", options.templates)
    templates = own_templates(options.templates)
    read_secrets(prepared)
    until = manner.deadline(plan, spec, latest_pace(plan, runs_dir))
    todo = due(plan, ())
    require_time(until, plan, todo)
    document = {
        "sweep_version": __version__,
        "inventory": str(prepared.inventory.resolve()),
        "templates": None if templates is None else str(templates.resolve()),
        "template_sha256": Templates(options.templates).sha256(),
        "changes": changes_to_doc(prepared.changes),
        "host": spec.model_dump(mode="json", exclude_defaults=True),
        "plan": plan_to_doc(plan),
        "fingerprint": {},
    }
    run = new_run(runs_dir, plan.sweep)
    if manner.detach == ON_HOST:
        with kept_if_begun(run):
            with run.lock():
                run.write_plan(document)
            with connect(plan.host, spec) as host:
                for line in check_before(
                    host, host.spec, plan, SystemClock(), Commands(prepared.inventory)
                ):
                    options.say(line)
            return send(options, run, templates, manner)

    def work(progress: Progress) -> int:
        with run.lock(), kept_if_begun(run):
            run.write_plan(document)
            options.say(f"run {run.id}: {run.path}")
            options.detail(f"unit template: {templates or 'the packaged one'}")
            execution = Execution(
                options, run, plan, spec, progress, until=until, report=manner.report
            )
            return execution.work(todo, resumed=False)

    return in_its_process(options, run, manner, work)


@contextmanager
def kept_if_begun(run: RunDirectory) -> Iterator[None]:
    """A run that has done nothing on its host leaves none here: it would be the latest one."""
    try:
        yield
    finally:
        if untouched(run):
            run.remove()


def go_on(
    options: Options, runs_dir: Path, name: str | None, given: Mapping[str, Any], manner: Manner
) -> int:
    """An interrupted run, from where its rows end; the exit status."""
    come_home(options, open_run(runs_dir, name))
    found = read_run(options, runs_dir, name, given)
    if manner.detach == ON_HOST:
        return _go_on_there(options, found, given, manner)

    def work(progress: Progress) -> int:
        return _go_on(options, found, given, manner, progress)

    return in_its_process(options, found.run, manner, work)


def in_its_process(
    options: Options, run: RunDirectory, manner: Manner, work: Callable[[Progress], int]
) -> int:
    """Work on the run here, or in a process of its own; the exit status. A detached sweep has its
    own: here it is 0 once the host is taken."""
    if manner.detach is None:
        return work(progress_for(options.console()))
    side = split(run)
    if isinstance(side, Background):
        return work(side.progress(options.console()))
    status = side.wait()
    if status is None:
        for line in how_to_follow(run):
            options.say(line)
    return status or 0


def _go_on(
    options: Options, found: Resumed, given: Mapping[str, Any], manner: Manner, progress: Progress
) -> int:
    run = found.run
    with run.lock() as notes:
        for note in notes:
            options.say(f"{run.id}: {note}")
        if found.changed:
            run.write_plan({**run.plan(), **found.document()})
        rows = run.rows()
        missing = due(found.plan, rows, skip_failed=bool(given["skip_failed"]))
        until = manner.deadline(found.plan, found.spec, pace_of(rows))
        if until is not None:
            until.taken.replay(run.events())
        execution = Execution(
            replace(options, templates=found.templates),
            run,
            found.plan,
            found.spec,
            progress,
            bool(given["accept_changes"]),
            found.wanted,
            until,
            manner.report,
        )
        todo = found.wanted(missing)
        if gave_back(run.events()):
            require_time(until, found.plan, todo)
        # With nothing left to measure, production may still wait for its host.
        if todo or not gave_back(run.events()):
            return execution.work(todo, resumed=True)
        options.say(f"{run.id}: nothing left to do")
        print_closing(run, found.plan, color=options.color)
        return 1 if found.wanted(due(found.plan, run.rows())) else 0


def _go_on_there(options: Options, found: Resumed, given: Mapping[str, Any], manner: Manner) -> int:
    require_other_machine(found.plan.host, found.spec)
    with found.run.lock():
        if found.changed:
            found.run.write_plan({**found.run.plan(), **found.document()})
    return send(options, found.run, found.templates, manner, resume_words(given))


def put_back(name: str, spec: HostSpec, inventory: Path) -> None:
    """Production as it was recorded on the host, by every run that left its record there."""
    clock = SystemClock()
    with connect(name, spec) as host:
        found = runs_on(host, host.spec, clock)
        for run in found:
            if run.owner is not None and run.dead is None:
                raise HostRefused(
                    f"{name}: {run.owner} is sweeping it now (run {run.run_id}); end that with "
                    "`sweep stop` first"
                )
        for run in found:
            restored = Systemd(host, host.spec, clock, run.run_id, Commands(inventory)).restore()
            click.echo(f"{name}: run {run.run_id}: {restored.text}", err=True)
        if not found:
            click.echo(f"{name}: no run has left anything to restore", err=True)


@dataclass(frozen=True)
class Execution:
    """One process working on one run: from the first connection to the closing lines.

    `wanted` narrows what is due (`--only`); what it leaves out does not count in the end. `report`:
    make one then.
    """

    options: Options
    run: RunDirectory
    plan: Plan
    spec: HostSpec
    progress: Progress
    accept_changes: bool = False
    wanted: Callable[[Todo], Todo] = everything
    until: Until | None = None
    report: bool = True

    def work(self, todo: Todo, *, resumed: bool) -> int:
        """Do what is due; the exit status. Whatever ends it, the run's directory says so."""
        with notifying(notify_specs(self.options, self.run, self.plan), self.run):
            return self._work(todo, resumed=resumed)

    def _work(self, todo: Todo, *, resumed: bool) -> int:
        counts = {name: len(trials) for name, trials in todo.items()}
        self.run.begin(counts, resumed=resumed, until=self.until.at if self.until else None)
        self.progress.begin(self.plan, todo)
        try:
            with self._awake(), InterruptibleClock(self._acknowledge) as clock:
                braked = self._execute(clock, todo, resumed=resumed)
        except SweepError as error:
            self.end(str(error), error.exit_code)
            raise
        except BaseException as error:
            self.end(f"{type(error).__name__}: {error}", 70)
            raise
        left = self.wanted(due(self.plan, self.run.rows()))
        return self.end(braked or "finished", 1 if braked or left else 0)

    def _execute(self, clock: InterruptibleClock, todo: Todo, *, resumed: bool) -> str | None:
        if todo:
            self.run.require_room()
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
                until=self.until,
                commands=self._commands(),
            )
            if self.until is not None:
                sweep.note(f"ends in time for production to serve again by {self.until.text}")
            if not resumed:
                for line in check_before(host, host.spec, self.plan, clock, self._commands()):
                    sweep.note(line)
            return execute(sweep, host, todo)

    def _commands(self) -> Commands:
        """What messages propose, wherever this sweep's inventory and its run lie."""
        inventory = self.run.plan().get("inventory")
        return Commands(Path(str(inventory)) if inventory else None, self.run.path.parent)

    @contextmanager
    def _awake(self) -> Iterator[None]:
        """This machine does not go to sleep by itself, if that can be had."""
        if self.spec.transport == "demo":
            yield
            return
        with staying_awake() as held_by:
            if held_by is None:
                self.progress.note("this machine must stay awake until the sweep has ended")
            else:
                self.progress.note(f"{held_by} keeps this machine awake meanwhile")
            yield

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
        if self.report:
            report_at_the_end(self.options, self.run, exit_code)
        return exit_code
