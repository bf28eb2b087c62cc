"""Where the benchmark client runs: beside the server (the default), or here through the tunnel."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from sweep.bench.backends import JobSpec, TrialContext
from sweep.errors import LaunchError
from sweep.results.files import require_room, translated
from sweep.systemd import Job, JobState, Left, Systemd, UnitState

# More than any result of a client: with less free it may not have been written.
RESULT_BYTES = 1 << 20
# A look waits so long for a client's end: how the server and the client are is known as often.
END_WAIT_S = 1.0


class Client(Protocol):
    """One benchmark client at work."""

    def poll(self) -> tuple[UnitState, JobState]:
        """How the server and the client stand, in one look."""
        ...

    def outputs(self, names: tuple[str, ...]) -> dict[str, bytes]:
        """What the client left, as far as it is there."""
        ...

    def end(self) -> None:
        """End it if it still runs, and forget what it left."""
        ...


class Clients(Protocol):
    """Starts benchmark clients; `place` fits a trial to where they run."""

    local: bool  # on this machine, not on the server's

    def place(self, context: TrialContext) -> TrialContext: ...
    def start(self, name: str, job: JobSpec, /) -> Client: ...

    def left(self) -> Sequence[Left]:
        """Clients of this run that were started and not ended, whichever process did it."""
        ...

    def found(self, name: str, job: JobSpec | None = None, /) -> Client:
        """One of those; with its job where it may still be at work."""
        ...


class HostClients:
    """Clients as transient units on the host, under the server's user."""

    local = False

    def __init__(self, systemd: Systemd, user: str | None) -> None:
        self._systemd = systemd
        self._user = user

    def place(self, context: TrialContext) -> TrialContext:
        return context

    def start(self, name: str, job: JobSpec, /) -> Client:
        jobs = self._systemd.jobs
        try:
            started = jobs.start(
                name, job.argv, job.files, user=self._user, progress=job.progress or "stderr"
            )
        except LaunchError:
            jobs.forget(jobs.job(name))
            raise
        return HostClient(self._systemd, started)

    def left(self) -> Sequence[Left]:
        return self._systemd.jobs.left()

    def found(self, name: str, job: JobSpec | None = None, /) -> Client:
        progress = (job.progress if job else None) or "stderr"
        return HostClient(self._systemd, self._systemd.jobs.job(name, progress))


class HostClient:
    """A client on the host: a lost connection costs it nothing."""

    def __init__(self, systemd: Systemd, job: Job) -> None:
        self._systemd = systemd
        self._job = job

    def poll(self) -> tuple[UnitState, JobState]:
        state = self._systemd.poll_when_ended(self._job, END_WAIT_S)
        assert state.job is not None  # noqa: S101 - it was asked for
        return state, state.job

    def outputs(self, names: tuple[str, ...]) -> dict[str, bytes]:
        return self._systemd.jobs.files(self._job, names)

    def end(self) -> None:
        self._systemd.jobs.forget(self._job)


class LocalClients:
    """Clients on this machine (`run_on: controller`), which reach the server through SSH."""

    local = True

    def __init__(self, stack: ExitStack, port: int, systemd: Systemd) -> None:
        self._stack = stack
        self._port = port
        self._systemd = systemd

    def place(self, context: TrialContext) -> TrialContext:
        return replace(context, python=sys.executable, port=self._port)

    def start(self, _name: str, job: JobSpec, /) -> Client:
        client = LocalClient(self._systemd, job)
        self._stack.callback(client.end)
        return client

    def left(self) -> Sequence[Left]:
        """None: a client that lost its sweep has lost its way to the server, too."""
        return ()

    def found(self, name: str, _job: JobSpec | None = None, /) -> Client:
        raise LookupError(f"no client of an earlier process runs here: {name}")


class LocalClient:
    """A client as a child of this process, in a directory of its own."""

    def __init__(self, systemd: Systemd, job: JobSpec) -> None:
        self._systemd = systemd
        self._progress = job.progress
        with translated(Path(tempfile.gettempdir()), "put the benchmark client in"):
            self._folder = tempfile.TemporaryDirectory(prefix="sweep-bench-")
            for name, content in job.files.items():
                self._path(name).touch(mode=0o600)
                self._path(name).write_bytes(content)
        # A group of its own: a Ctrl-C on the terminal is for the sweep, which ends the client.
        self._process = subprocess.Popen(
            job.argv,
            cwd=self._folder.name,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _path(self, name: str) -> Path:
        return Path(self._folder.name) / name

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def poll(self) -> tuple[UnitState, JobState]:
        status = self._process.poll()
        return self._systemd.poll(), JobState(status is None, status, self._said())

    def _said(self) -> str:
        path = self._path(self._progress) if self._progress else None
        return path.read_text(errors="replace").strip() if path and path.exists() else ""

    def outputs(self, names: tuple[str, ...]) -> dict[str, bytes]:
        found = {name: self._path(name).read_bytes() for name in names if self._path(name).exists()}
        if len(found) < len(names):
            # It may be that it could not be written: that is no trouble of the server's.
            require_room(Path(self._folder.name), RESULT_BYTES)
        return found

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._folder.cleanup()
