"""SIGHUP, SIGINT and SIGTERM become a request that every wait of the sweep notices.

Nothing is torn out of the middle of a write: a handler only counts, and every wait looks.
The first signal ends the sweep in the orderly way: `sleep` raises Interrupted, cleaning up runs
inside `shielded()`. The second one ends the cleaning up as well, and the host finishes it itself.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from types import FrameType, TracebackType
from typing import Any

from sweep.clock import SystemClock
from sweep.errors import Interrupted

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
# How late a wait notices a signal, at most. It looks, because a handler that wakes it up would need
# a lock, which the thread that it interrupts may hold.
LOOK_S = 0.1


class InterruptibleClock:
    """A clock whose sleeps end early, with Interrupted, when a signal has asked the sweep to end.

    A signal that is ignored stays ignored: `nohup` outlives the terminal.

    `acknowledge` is called from the handler with the signal's name and how many came so far.
    """

    def __init__(self, acknowledge: Callable[[str, int], None]) -> None:
        self._acknowledge = acknowledge
        self._clock = SystemClock()
        self._first: int | None = None
        self._count = 0
        self._tolerated = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> InterruptibleClock:
        self._before = {
            number: signal.signal(number, self._handle)
            for number in SIGNALS
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, signum: int, _frame: FrameType | None) -> None:
        self._count += 1
        self._first = self._first or signum
        self._acknowledge(signal.Signals(signum).name, self._count)

    def now(self) -> datetime:
        return self._clock.now()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait; raises Interrupted soon when more signals came than are tolerated here."""
        until = self.monotonic() + seconds
        self.check()
        while (left := until - self.monotonic()) > 0:
            time.sleep(min(left, LOOK_S))
            self.check()

    def check(self) -> None:
        """Raise Interrupted when more signals came than are tolerated here."""
        if self._first is not None and self._count > self._tolerated:
            raise Interrupted(self._first)

    @contextmanager
    def shielded(self, signals: int = 1) -> Iterator[None]:
        """Inside, that many signals only get noted. For giving the host back."""
        before, self._tolerated = self._tolerated, max(self._tolerated, signals)
        try:
            yield
        finally:
            self._tolerated = before
