"""One host and one sweep on it, for the time of one injection."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.faults.processes import Sweeper, Terminal, detached_half
from tests.testhost import Machine
from tests.whole.gpuhost import GpuHost

ENDS_WITHIN_S = 150.0
REACHED_WITHIN_S = 60.0
LOOK_S = 0.01


class NeverError(AssertionError):
    """The sweep did not come as far as the fault was to strike, or did not end."""


@dataclass(frozen=True)
class Death:
    """A process that ended without giving the host back, and what it had reached.

    `invocations` had been started by then, the `finished` clients had left their result on the
    host (names of jobs: POINT-tT-aA).
    """

    invocations: frozenset[str]
    finished: frozenset[str]


@dataclass
class Ground:
    """The host, the directory the tool is called from, and the process that is disturbed."""

    host: GpuHost
    chance: random.Random
    undisturbed_s: float = 8.0
    statuses: list[int] = field(default_factory=list)
    deaths: list[Death] = field(default_factory=list)
    process: Sweeper | None = None
    terminal: Terminal | None = None

    @property
    def machine(self) -> Machine:
        return self.host.machine

    @property
    def directory(self) -> Path:
        return self.host.directory

    def sh(self, script: str, *, check: bool = True) -> str:
        return self.host.sh(script, check=check)

    # -- the tool

    def start(self, *arguments: str) -> Sweeper:
        """Call the tool in a session of its own; what it says goes to files.

        Without the report that a run ends with: it only costs time here. The first call has the
        terminal, if there is one.
        """
        if arguments[0] in ("run", "resume"):
            arguments = (*arguments, "--no-report")
        number = len(list(self.directory.glob("call-*.err")))
        with (
            (self.directory / f"call-{number}.out").open("wb") as out,
            (self.directory / f"call-{number}.err").open("wb") as err,
        ):
            err.write(f"$ sweep {' '.join(arguments)}\n".encode())
            err.flush()
            if self.terminal is not None and number == 0:
                shown = self.directory / f"call-{number}.err"
                called = self.terminal.call(self._words(arguments), self.directory, shown)
            else:
                called = self.call(arguments, out, err)
        self.process = detached_half(called, self.runs) if "--detach" in arguments else called
        return self.process

    def call(
        self, arguments: Sequence[str], out: IO[bytes], err: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._words(arguments),
            cwd=self.directory, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            start_new_session=True,
        )  # fmt: skip

    def _words(self, arguments: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "sweep", *arguments]

    def close_terminal(self) -> None:
        """The terminal of the first call is there no more, if it was."""
        if self.terminal is not None:
            self.terminal.close()
            self.terminal = None

    def wait(self, process: Sweeper | None = None) -> int:
        """Until the process has ended; its exit status."""
        process = process or self._running()
        try:
            status = process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise NeverError(f"the sweep did not end within {ENDS_WITHIN_S:.0f} s") from None
        self.statuses.append(status)
        return status

    def signal(self, number: signal.Signals) -> None:
        self._running().send_signal(number)

    def kill(self) -> None:
        """kill -9, and a note of what the host had by then."""
        process = self._running()
        process.kill()
        self.wait(process)
        if self.statuses[-1] == -signal.SIGKILL:
            self.note_death()

    def note_death(self) -> None:
        """What was there when a process ended without a word."""
        self.deaths.append(Death(frozenset(self.invocations()), frozenset(self._finished())))

    def end(self) -> None:
        """Nothing of the tool goes on here, whatever became of the injection."""
        self.close_terminal()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def _finished(self) -> Iterator[str]:
        shown = self.machine.sh("grep -sxl 0 /var/tmp/sweep-*/*/*/exit", check=False)
        for line in shown.splitlines():
            yield Path(line).parent.name

    def _running(self) -> Sweeper:
        if self.process is None:
            raise NeverError("the sweep was not started yet")
        return self.process

    def said(self, last: int = 25) -> str:
        """The end of what every call said, for a report."""
        calls = sorted(self.directory.glob("call-*.err"), key=lambda path: path.stat().st_mtime_ns)
        ends = [path.read_text(errors="replace").splitlines()[-last:] for path in calls]
        return "\n".join(line for lines in ends for line in lines)

    # -- the run

    @property
    def runs(self) -> Path:
        return self.directory / "runs"

    @property
    def has_run(self) -> bool:
        """Whether any run has begun: there is something to resume."""
        return any(self.runs.glob("*/plan.json"))

    @property
    def run(self) -> Path:
        """The directory of the run; NeverError while there is none."""
        found = sorted(self.runs.glob("*/plan.json"))
        if not found:
            raise NeverError(f"no run was begun\n{self.said()}")
        return found[-1].parent

    @property
    def csv(self) -> Path:
        return self.run / "results.csv"

    def events(self) -> list[dict[str, Any]]:
        found = []
        for path in sorted(self.runs.glob("*/events.jsonl")):
            for line in path.read_bytes().splitlines():
                with contextlib.suppress(ValueError):
                    found.append(json.loads(line))
        return found

    def invocations(self) -> set[str]:
        """Of every launch so far, as `systemctl show` has them."""
        return {str(event["invocation"]) for event in self.events() if "invocation" in event}

    def stage(self) -> str:
        """Where the run stands, in words."""
        for event in reversed(self.events()):
            if event["event"] == "stage":
                parts = (event.get("launch"), event.get("stage"))
                return " ".join(str(part) for part in parts if part)
        return "nothing yet"

    def wait_for_stage(self, stage: str, nth: int = 1) -> None:
        """Until the stage begins for the nth time. NeverError when the sweep ends before that."""
        until = time.monotonic() + REACHED_WITHIN_S
        process = self._running()
        while self._times(stage) < nth:
            if process.poll() is not None or time.monotonic() > until:
                if self._times(stage) >= nth:
                    return
                raise NeverError(f"{stage!r} never began for the {nth}. time\n{self.said()}")
            time.sleep(LOOK_S)

    def _times(self, stage: str) -> int:
        return sum(1 for event in self.events() if event.get("stage") == stage)

    # -- the host

    def wait_until_serving(self, within_s: float) -> bool:
        """Whether production and what depends on it serve within that time."""
        until = time.monotonic() + within_s
        while not self.is_serving():
            if time.monotonic() > until:
                return False
            time.sleep(0.2)
        return True

    def is_serving(self) -> bool:
        return self.host.serves() and self.host.active("router.service")

    def give_back_by_timer(self) -> None:
        """What the dead-man timer does when it fires, at once."""
        unit = f"sweep-restore-{self.run.name}.service"
        self.sh(f"{self.host.login.systemctl} start --no-block {unit}")
