"""Who can be read, turn by turn."""

from __future__ import annotations

import select
import time
from typing import Any, Callable, List, Tuple

IN, OUT = 1, 4  # poll and epoll agree on these numbers
# Waking up costs more than reading. Where so many are in flight, what comes is left to gather for
# so long; the kernel stamps it meanwhile.
MANY, REST_S = 64, 1e-3


class Poller:
    """Waits for so many sockets, by epoll or else by poll.

    `turns`: when it told who can be read, by `now`.
    """

    def __init__(self, sockets: int, now: Callable[[], float]) -> None:
        epoll = hasattr(select, "epoll")
        self._poller: Any = select.epoll() if epoll else select.poll()
        self._all = (sockets + 1,) if epoll else ()  # not the first 1023
        self._unit = 1.0 if epoll else 1e3  # milliseconds
        self._many = sockets >= MANY
        self._now = now
        self.turns: List[float] = []
        self.register = self._poller.register
        self.modify = self._poller.modify
        self.unregister = self._poller.unregister

    def wait(self, seconds: float) -> List[Tuple[int, int]]:
        """Sockets that are ready, and for what; none after so many seconds."""
        ready: List[Tuple[int, int]] = self._poller.poll(seconds * self._unit, *self._all)
        self.turns.append(self._now())
        return ready

    def rest(self) -> None:
        """Lets arrivals gather until the next turn, where that pays."""
        left = self.turns[-1] + REST_S - self._now()
        if self._many and left > 0:
            time.sleep(min(left, REST_S))

    def close(self) -> None:
        if hasattr(self._poller, "close"):
            self._poller.close()
