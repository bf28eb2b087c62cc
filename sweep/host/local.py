"""This machine as a host: the same verbs without SSH, for a tool that runs where SGLang does."""

from __future__ import annotations

import contextlib
import getpass
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sweep.errors import HostError, HostRefused
from sweep.host.script import KILL_AFTER_S
from sweep.host.scripted import ScriptedHost, own, sudo_refusal, words
from sweep.host.verbs import TIMED_OUT, Result
from sweep.inventory import HostSpec

GRACE_S = 5.0  # for the script's own time limit to do its work
SETTLE_S = 0.5
PROBE_TIMEOUT_S = 30.0
# What sshd gives to a command; whatever else this process was started with is not the host's.
KEPT = ("HOME", "LOGNAME", "PATH", "SHELL", "USER")


class LocalHost(ScriptedHost):
    """A `Host` that is this machine. There is no connection, so none is ever lost."""

    def __init__(self, name: str, spec: HostSpec) -> None:
        """HostRefused when scripts do not run with the rights they need."""
        super().__init__(name, spec)
        self._environment = {key: os.environ[key] for key in KEPT if key in os.environ}
        self._directory = Path("/")
        with contextlib.suppress(RuntimeError):  # a uid without a name has no home
            self._environment.setdefault("HOME", str(Path.home()))
            self._directory = Path.home() if Path.home().is_dir() else self._directory
        result = self.run(":", timeout_s=PROBE_TIMEOUT_S)
        if not result.ok and self._sudo:
            raise HostRefused(sudo_refusal(name, getpass.getuser(), result))
        if not result.ok:
            raise HostRefused(f"{name}: no script runs on this machine: {words(result)}")

    @property
    def host_key(self) -> str:
        return ""

    def run(self, script: str, *, timeout_s: float = 30, stdin: bytes = b"") -> Result:
        line = self._command(script, timeout_s, len(stdin))
        began = time.monotonic()
        try:
            # A session of its own: a Ctrl-C on the terminal is for the sweep, not for its scripts.
            process = subprocess.Popen(
                ["/bin/sh", "-c", line],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise HostError(f"{self.name}: cannot start a shell: {error.strerror}") from error
        result = _converse(process, stdin, timeout_s + KILL_AFTER_S + GRACE_S)
        if result.exit_status == 128 + signal.SIGKILL and time.monotonic() - began >= timeout_s:
            result = replace(result, exit_status=TIMED_OUT)  # SIGTERM did not help
        return own(result)

    @contextlib.contextmanager
    def tunnel(self, port: int, *, direct: bool = False) -> Iterator[int]:  # noqa: ARG002
        yield port

    def close(self) -> None:
        """Nothing to close; it may be used again."""


def _converse(process: subprocess.Popen[bytes], stdin: bytes, limit_s: float) -> Result:
    """Feed and drain it to its end. What outlives its own time limit is killed, and left to that:
    nobody waits for a process that even SIGKILL does not end."""
    try:
        stdout, stderr = process.communicate(stdin, timeout=limit_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        return Result(TIMED_OUT, *_said_until_now(process))
    return Result(process.returncode, stdout, stderr)


def _said_until_now(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """What was printed when the time was up, also where somebody still holds on to the pipes."""
    try:
        return process.communicate(timeout=SETTLE_S)
    except subprocess.TimeoutExpired as error:
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                if pipe:
                    pipe.close()
        return error.stdout or b"", error.stderr or b""
