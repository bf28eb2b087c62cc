"""Time, passed in: what the sweep reads the clock from and waits with."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where time comes from. `sleep` may raise `errors.Interrupted` when the sweep must end."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never jumps."""
        ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """This machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
