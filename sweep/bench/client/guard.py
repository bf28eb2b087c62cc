"""What may end a trial early, and the line that tells how far it is."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Callable, Dict, NamedTuple, Optional

# How far the clock may be set. While times are taken: less than a token takes at the speeds that
# are measured, so that no percentile moves by one. Before that no time is kept, only deadlines are
# held against it, and a second does them no harm.
MEASURED_STEP_S, UNMEASURED_STEP_S = 0.005, 1.0
TICK_S = 0.25  # how often it is asked


class Spoilt(Exception):
    """The trial as a whole cannot be used."""


class Late(Spoilt):
    """A deadline has passed: the server is stuck, or far slower than anybody expected."""


class Clock(NamedTuple):
    """`realtime` is CLOCK_REALTIME, the clock of the kernel's stamps; both count seconds."""

    realtime: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


def never() -> bool:
    return False


class Guard:
    """Knows the deadline, the signal and the clock that must not step; keeps the progress line."""

    def __init__(self, job: Dict[str, Any], clock: Clock, stopped: Callable[[], bool]) -> None:
        self.clock = clock
        self.stopped = stopped
        self.phase = "connect"
        self.began = clock.monotonic()
        self.timeout_s = float(job["timeout_s"])
        self.stall_s = float(job.get("stall_timeout_s") or self.timeout_s)
        self.first_s = float(job.get("first_timeout_s") or self.stall_s)
        self.offset, self.step_s = clock.realtime() - clock.monotonic(), UNMEASURED_STEP_S
        self.reason: Optional[str] = None
        self.late = False
        self.told = 0.0
        self.progress: Optional[int] = None
        if job.get("progress"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            self.progress = os.open(str(job["progress"]), flags, 0o600)

    def measure(self) -> None:
        """From now on times are taken: the clock counts as it stands."""
        self.check()
        self.phase = "measure"
        self.offset = self.clock.realtime() - self.clock.monotonic()
        self.step_s = MEASURED_STEP_S

    def verdict(self) -> Optional[str]:
        """Why the trial has to end now, or None. A reason once given stays."""
        now = self.clock.monotonic()
        # NTP slews both clocks alike, so their difference moves only when one of them is set.
        step = self.clock.realtime() - now - self.offset
        if self.reason is not None:
            return self.reason
        if abs(step) > self.step_s:
            self.reason = "this machine's clock was set by %+.3f s: the times are void" % step
        elif self.stopped():
            self.reason = "ended by a signal"
        elif now - self.began >= self.timeout_s:
            self.reason = "not done after %g s (timeout_s)" % self.timeout_s
            self.late = True
        return self.reason

    def over(self) -> bool:
        """Has the trial to end?"""
        return self.verdict() is not None

    def silent(self, seconds: float, heard: bool) -> None:
        """Nothing has come from the server for so long; `heard`: something did before that."""
        limit = self.stall_s if heard else self.first_s
        if self.reason is None and seconds > limit:
            name = "stall_timeout_s" if heard else "before the first byte"
            self.reason = "no byte from the server for %g s (%s)" % (limit, name)
            self.late = True

    def check(self) -> None:
        """Spoilt when there is a reason to end."""
        if self.verdict() is not None:
            raise (Late if self.late else Spoilt)(self.reason)

    def tell(self, counts: Dict[str, int]) -> None:
        """Overwrites the line of the progress file with phase, time and `counts`; once a second."""
        now = self.clock.monotonic()
        if self.progress is None or now - self.told < 1.0:
            return
        self.told = now
        line: Dict[str, Any] = {"phase": self.phase, "elapsed_s": round(now - self.began, 1)}
        line.update(counts)
        # One write of fixed length: a reader never finds half a line, or the rest of a longer one.
        os.pwrite(self.progress, json.dumps(line).ljust(199).encode() + b"\n", 0)

    def close(self) -> None:
        if self.progress is not None:
            os.close(self.progress)
            self.progress = None
