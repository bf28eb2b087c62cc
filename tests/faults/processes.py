"""The processes that sweep, where one is no plain child of the campaign's."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from sweep.results import Event, RunDirectory

LOOK_S = 0.05


class Sweeper(Protocol):
    """What the campaign asks of a process that sweeps; a Popen has it all."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def kill(self) -> None: ...
    def send_signal(self, sig: int, /) -> None: ...


class Detached:
    """The half of `sweep run --detach` that goes on.

    It is no child of anybody here: it lives as long as it holds the run's lock, and has ended as
    its last event says, or without a word.
    """

    def __init__(self, run: RunDirectory, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._run = run

    def poll(self) -> int | None:
        if self.returncode is None and not self._run.lock_state().held:
            self.returncode = _exit_code(self._run.events())
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        until = time.monotonic() + (timeout or float("inf"))
        while (status := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired(["sweep"], timeout or 0)
            time.sleep(LOOK_S)
        return status

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, sig: int, /) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, sig)


def _exit_code(events: Sequence[Event]) -> int:
    """What a process said last; one that was killed has said nothing."""
    last = [event for event in events if event.kind in ("begin", "end")][-1:]
    said = [int(event.fields["exit_code"]) for event in last if event.kind == "end"]
    return said[0] if said else -signal.SIGKILL


def detached_half(front: subprocess.Popen[bytes], runs: Path) -> Sweeper:
    """Who sweeps once `sweep run --detach` has split itself; the front if it never does."""
    while front.poll() is None:
        for path in runs.glob("*/plan.json"):
            run = RunDirectory(path.parent)
            owner = run.lock_state().owner
            if owner is not None and owner.pid != front.pid:
                return Detached(run, owner.pid)
        time.sleep(LOOK_S)
    return front


class Terminal:
    """A terminal that the tool is called on, once. What is shown there is kept in a file."""

    def __init__(self) -> None:
        self._ours, self._line = pty.openpty()
        self._closing = threading.Event()
        self._reader: threading.Thread | None = None

    def call(self, words: Sequence[str], directory: Path, shown: Path) -> subprocess.Popen[bytes]:
        """A command in a session of its own, which this is the terminal of."""
        self._reader = threading.Thread(target=self._read, args=(shown,), daemon=True)
        self._reader.start()
        line = self._line
        return subprocess.Popen(
            ["setsid", "--ctty", *words], cwd=directory, stdin=line, stdout=line, stderr=line
        )

    def close(self) -> None:
        """The window is closed: the session that has this terminal is told, and cannot print."""
        self._closing.set()
        if self._reader is not None:
            self._reader.join()
        for number in (self._line, self._ours):
            os.close(number)

    def _read(self, shown: Path) -> None:
        with shown.open("ab", buffering=0) as file:
            while not self._closing.is_set():
                if select.select([self._ours], [], [], LOOK_S)[0]:
                    file.write(os.read(self._ours, 65536))
