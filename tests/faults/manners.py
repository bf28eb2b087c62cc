"""Faults of a sweep that goes on without its terminal (`--detach`), or loses it."""

from __future__ import annotations

import signal

from tests.faults.fault import ANY, Fault
from tests.faults.ground import Ground
from tests.faults.orchestrator import kill, kill_twice
from tests.faults.processes import Terminal

DETACHED = ("--detach",)
# On a terminal the tool asks before it stops production.
ON_A_TERMINAL = ("--yes",)


def terminated(ground: Ground) -> None:
    ground.signal(signal.SIGTERM)


def on_a_terminal(ground: Ground) -> None:
    ground.terminal = Terminal()


def close_terminal(ground: Ground) -> None:
    ground.close_terminal()


FAULTS = (
    Fault("detached-kill-9", ANY, kill, words=DETACHED, long=8),
    Fault("detached-kill-9-twice", ANY, kill_twice, words=DETACHED, short=0),
    Fault("detached-sigterm", ANY, terminated, words=DETACHED, short=0),
    Fault("detached-terminal-closed", ANY, close_terminal, prepare=on_a_terminal,
          words=(*DETACHED, *ON_A_TERMINAL), long=8),
    Fault("detached-terminal-closed-at-connect", "connect", close_terminal, prepare=on_a_terminal,
          later_s=0.2, words=(*DETACHED, *ON_A_TERMINAL)),
    Fault("terminal-closed", ANY, close_terminal, prepare=on_a_terminal, words=ON_A_TERMINAL,
          long=6),
)  # fmt: skip
