"""The machine that sweeps must not fall asleep: whatever holds sleep off here, for as long as we
live."""

from __future__ import annotations

import contextlib
import selectors
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

READY_S = 5.0  # logind answers at once, or not at all
END_S = 2.0
# What the inhibitor runs: says that it holds, and ends when our end of its input is closed, which
# the kernel does however we end.
_HELD = ("sh", "-c", "echo held && exec cat >/dev/null")


@dataclass(frozen=True)
class Inhibitor:
    """A program that keeps the machine awake while the command behind its words runs."""

    name: str
    words: tuple[str, ...]


INHIBITORS = (
    Inhibitor(
        "systemd-inhibit",
        ("--what=sleep:idle", "--who=sweep", "--why=a sweep is running", "--mode=block"),
    ),
    Inhibitor("caffeinate", ("-i", "-s")),
)


@contextlib.contextmanager
def staying_awake(inhibitors: Sequence[Inhibitor] = INHIBITORS) -> Iterator[str | None]:
    """Hold sleep off inside; the name of what does it, None where nothing could. Never fails."""
    with contextlib.ExitStack() as stack:
        for inhibitor in inhibitors:
            program = shutil.which(inhibitor.name)
            if program and stack.enter_context(_holding((program, *inhibitor.words))):
                yield inhibitor.name
                return
        yield None


@contextlib.contextmanager
def _holding(words: Sequence[str]) -> Iterator[bool]:
    try:
        # A session of its own: a Ctrl-C is for the sweep, and there is nobody to ask a password.
        process = subprocess.Popen(
            [*words, *_HELD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        yield False
        return
    try:
        yield _says_so(process)
    finally:
        _end(process)


def _says_so(process: subprocess.Popen[bytes]) -> bool:
    with selectors.DefaultSelector() as selector:
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        selector.register(process.stdout, selectors.EVENT_READ)
        return bool(selector.select(READY_S)) and process.stdout.readline() == b"held\n"


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            if pipe:
                pipe.close()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
