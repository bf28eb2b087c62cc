"""Time, passed in: what the sweep reads the clock from and waits with."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Where time comes from. `sleep` may raise `errors.Interrupted` when the sweep must end."""

    def now(self) -> datetime:
        """The time of day, in UTC; of two times of one process the difference is what passed."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never jumps."""
        ...

    def sleep(self, seconds: float) -> None: ...


# Goes on while the machine sleeps: what macOS calls MONOTONIC does, on Linux it is another one.
_NEVER_SET = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def time_of_day() -> datetime:
    """As this machine's clock shows it now."""
    return datetime.now(UTC)


def since_boot() -> float:
    """Seconds on a clock that nobody sets; the time that the machine has slept counts."""
    return time.clock_gettime(_NEVER_SET)


class SystemClock:
    """This machine's clock as it was when this was made, whoever sets it meanwhile.

    A clock that NTP corrects by hours in the night would make a trial of hours, or one that ended
    before it began; and what is left until a given moment would be more or less at once.
    """

    def __init__(
        self,
        time_of_day: Callable[[], datetime] = time_of_day,
        since_boot: Callable[[], float] = since_boot,
    ) -> None:
        self._began, self._began_s = time_of_day(), since_boot()
        self._since_boot = since_boot

    def now(self) -> datetime:
        return self._began + timedelta(seconds=self._since_boot() - self._began_s)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
