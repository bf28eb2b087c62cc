"""--detach=host, seen from the controller: sending a run away, and keeping up with it there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click

from sweep.cli.closing import notify_specs, report_at_the_end
from sweep.cli.detaching import BEFORE, commands
from sweep.cli.manner import Manner
from sweep.cli.options import Options
from sweep.cli.resuming import saved_host
from sweep.cli.summary import print_closing
from sweep.clock import Clock, SystemClock
from sweep.detached import (
    Bundle,
    Place,
    Remote,
    choose,
    place_for,
    run_files,
    tool_files,
)
from sweep.errors import HostError, HostRefused, HostUnreachable, RunDirectoryError
from sweep.hints import of_run
from sweep.host import Host, connect
from sweep.inventory import HostSpec
from sweep.notify import notifying
from sweep.plan_document import plan_from_doc
from sweep.results import Event, LockState, RunDirectory, copies
from sweep.unit import secret_values

LOOK_S = 0.5
STOP_WAIT_S = 1800.0


@dataclass(frozen=True)
class Away:
    """A run that works, or worked, on its host."""

    options: Options
    run: RunDirectory
    remote: Remote
    clock: Clock

    def refresh(self) -> LockState:
        """Bring the copy up to date; a run that has ended there leaves nothing behind there."""
        if self.remote.fetch(self.run):
            return replace(self.run.lock_state(), held=True)
        self._bring_home()
        return self.run.lock_state()

    def follow(self) -> int:
        """Show what it prints until it has taken its host, or has ended: the exit status."""
        shown = self._printed()
        asked_to_end = False
        while True:
            try:
                active = self.remote.fetch(self.run)
                printed = self._printed()
                click.echo(printed[len(shown) :], nl=False, err=True)
                shown = printed
                if not active:
                    return self._ended()
                stages = {event.fields.get("stage") for event in self._news()}
                if stages - {None, *BEFORE} and not asked_to_end:
                    self.remote.forget_secrets()
                    return 0
                self.clock.sleep(LOOK_S)
            except KeyboardInterrupt:
                asked_to_end = True
                self.remote.stop()

    def stop(self) -> None:
        """End it there and wait for that. Raises RunDirectoryError when it does not end."""
        self.remote.stop()
        until = self.clock.monotonic() + STOP_WAIT_S
        while self.remote.active():
            if self.clock.monotonic() > until:
                raise RunDirectoryError(f"{self.run.id} still runs after {STOP_WAIT_S:.0f} s")
            self.clock.sleep(LOOK_S)
        self._bring_home()

    def _ended(self) -> int:
        self._bring_home()
        code = self._exit_code()
        if code is None:
            raise HostError(
                f"{self.remote.host.name}: the sweep ended there without a word; see "
                f"{self.run.output_path}"
            )
        return code

    def _news(self) -> list[Event]:
        """What has happened to the run since it was sent away."""
        return self.run.events()[self.remote.place.events :]

    def _exit_code(self) -> int | None:
        """What it ended with there; None: it was killed."""
        end = [event for event in self._news() if event.kind == "end"]
        return int(end[-1].fields.get("exit_code", 70)) if end else None

    def _bring_home(self) -> None:
        """The rest of it, then nothing of it there; its end is told, and reported, from here."""
        self.remote.fetch(self.run)
        found = copies.fingerprint_there(self.run)
        with self.run.lock():
            if copies.place(self.run) != self.remote.place.to_bytes():
                return  # somebody else who looked was quicker, and it may be away again
            document = self.run.plan()
            fingerprint = {**document.get("fingerprint", {}), **found}
            self.run.write_plan({**document, "fingerprint": fingerprint})
            self.remote.forget()
            copies.forget(self.run)
        plan = plan_from_doc(document.get("plan", {}))
        news, code = self._news(), self._exit_code()
        with notifying(notify_specs(self.options, self.run, plan), self.run) as notifier:
            for event in news:
                if event.kind in ("restored", "end"):
                    notifier.heard(event)
            if self.remote.place.report and code is not None:
                report_at_the_end(self.options, self.run, code)

    def _printed(self) -> str:
        path = self.run.output_path
        return path.read_text(errors="replace") if path.exists() else ""


@contextmanager
def away(options: Options, run: RunDirectory) -> Iterator[Away]:
    """The connection to the host that the run is on."""
    document = run.plan()
    place = Place.parse(copies.place(run) or b"")
    host_name = plan_from_doc(document.get("plan", {})).host
    with connect(host_name, saved_host(document)) as host:
        yield Away(options, run, Remote(host, place), SystemClock())


def require_here(run: RunDirectory) -> None:
    """Raise RunDirectoryError while the run is on its host."""
    if run.is_away:
        raise RunDirectoryError(
            f"{run.id} works on its host; `{of_run('status', run.path)}` shows it, "
            f"`{of_run('stop', run.path)}` ends it"
        )


def come_home(options: Options, run: RunDirectory) -> None:
    """Fetch a run that has ended on its host. Raises RunDirectoryError while it works there."""
    if run.is_away:
        with away(options, run) as there:
            there.refresh()
        require_here(run)


def look_there(options: Options, run: RunDirectory) -> LockState | None:
    """Bring the copy of a run up to date, as far as its host can be reached: whether it works
    there. None: it is not on its host."""
    if not run.is_away:
        return None
    try:
        with away(options, run) as there:
            return there.refresh()
    except HostUnreachable as error:
        options.say(f"{error}; what follows was fetched before")
        return replace(run.lock_state(), held=True)


def send(
    options: Options,
    run: RunDirectory,
    templates: Path | None,
    manner: Manner,
    words: Sequence[str] = (),
) -> int:
    """Copy the run to its host and resume it there; the exit status as far as it is known.

    `words` are further options of that resume. The plan lies in the run's directory already.
    """
    document = run.plan()
    spec, name = saved_host(document), plan_from_doc(document.get("plan", {})).host
    secrets = secret_values(spec.server)
    options.say(f"run {run.id}: {run.path}")
    run.require_room()
    with connect(name, spec) as host:
        # Two who send one run away would take each other's copy apart.
        with run.lock():
            require_here(run)
            remote = _installed(host, spec, run, templates, report=manner.report)
            for secret, value in secrets.items():
                remote.put_secret(secret, value)
            options.say(f"{name}: copied to {remote.place.base}, for {remote.place.python}")
            further = (*words, *manner.words())
            remote.start(("resume", run.id, *further))
        there = Away(options, run, remote, SystemClock())
        status = there.follow()
    if run.is_away:
        _say_how_to_follow(options, run, name)
    else:
        print_closing(run, plan_from_doc(document.get("plan", {})), color=options.color)
    return status


def _installed(
    host: Host, spec: HostSpec, run: RunDirectory, templates: Path | None, *, report: bool
) -> Remote:
    """The tool on the host with the first of its Pythons that runs it. Raises HostRefused."""
    why = []
    for python in choose(host, spec):
        try:
            tool = dict(tool_files(python))
        except HostRefused as error:
            why.append(str(error))
            continue
        place = place_for(host, run.id, scope=spec.scope, python=python.path)
        place = replace(place, events=len(run.events()), report=report)
        remote = Remote(host, place)
        # Written first: whatever happens now, the next look at the run cleans up there.
        run.write(copies.PLACE, place.to_bytes())
        remote.install(Bundle({**tool, **dict(run_files(run, spec, place, templates))}))
        trouble = remote.prove()
        if trouble is None:
            return remote
        why.append(f"{python.text}: {trouble}")
        remote.forget()
        copies.forget(run)
    raise HostRefused(
        f"{host.name}: the tool does not run there: {'; '.join(why)}. Production was not touched; "
        "--detach sweeps from here"
    )


def _say_how_to_follow(options: Options, run: RunDirectory, name: str) -> None:
    options.say(f"{run.id} goes on on {name}; this machine may sleep")
    for line in commands(run):
        options.say(line)
