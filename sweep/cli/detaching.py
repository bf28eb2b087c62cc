"""--detach: the sweep goes on in a process of its own, which no closed terminal ends.

The process is split while it has one thread and no lock. The detached half keeps the terminal's
output until the host is taken, so that whoever waits there is told of a refusal.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweep.errors import SweepError
from sweep.hints import of_run
from sweep.progress import BackgroundProgress, PlainProgress, Progress, Stage
from sweep.results import RunDirectory

if TYPE_CHECKING:
    from rich.console import Console

LEFT = b"1"
# Whatever refuses a sweep does so in one of these; the next one works on the host.
BEFORE = ("connect", "take the host")


@dataclass(frozen=True)
class Foreground:
    """The half that the terminal waits for. `wait` is None once the other has left."""

    pid: int
    reading: int

    def wait(self) -> int | None:
        """None: the other goes on alone. Else it has ended: its exit status."""
        while True:
            try:
                if os.read(self.reading, 1) == LEFT:
                    return None
                status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
                return status if status >= 0 else 128 - status
            except KeyboardInterrupt:
                # It has no terminal to hear of it, and ends in the orderly way.
                os.kill(self.pid, signal.SIGINT)


@dataclass(frozen=True)
class Background:
    """The half that sweeps."""

    run: RunDirectory
    writing: int

    def progress(self, console: Console) -> Progress:
        return BackgroundProgress(LeavingProgress(console, self.leave))

    def leave(self) -> None:
        """From now on print into the run's directory; the terminal is free, or was closed."""
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        try:
            output = self.run.open_output()
        except SweepError:
            output = os.open(os.devnull, os.O_WRONLY)
        for number in (1, 2):
            os.dup2(output, number)
        os.close(output)
        with contextlib.suppress(BrokenPipeError):
            os.write(self.writing, LEFT)
        os.close(self.writing)


def split(run: RunDirectory) -> Foreground | Background:
    """Return twice: in this process, and in a new one of a session without a terminal."""
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Foreground(pid, reading)
    os.close(reading)
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return Background(run, writing)


class LeavingProgress(PlainProgress):
    """Plain lines; leaves the terminal when the host is taken."""

    def __init__(self, console: Console, leave: Callable[[], None]) -> None:
        super().__init__(console)
        self._leave: Callable[[], None] | None = leave

    def stage(self, stage: Stage) -> None:
        if self._leave is not None and stage.name not in BEFORE:
            self._leave()
            self._leave = None
            self._console.quiet = False  # of a terminal that was closed before
        super().stage(stage)


def commands(run: RunDirectory) -> Iterator[str]:
    """Those that talk to a run that goes on, as they are typed in this directory."""
    yield f"how it stands: {of_run('status', run.path)}"
    yield f"a launch's journal: {of_run('logs', run.path)}"
    yield f"end it: {of_run('stop', run.path)}"


def how_to_follow(run: RunDirectory) -> Iterator[str]:
    """What to say last on the terminal, for a run that goes on by itself."""
    yield f"{run.id} goes on without this terminal, and prints into {run.output_path}"
    yield from commands(run)
    if "SSH_CONNECTION" in os.environ and "SSH_AUTH_SOCK" in os.environ:
        yield (
            "the SSH agent of this login may end with it: a lost connection can then only be made "
            "anew with a key file that needs no agent"
        )
