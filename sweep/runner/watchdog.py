"""Is the server still at work? Silence while it starts is told, a hang in a trial ends the launch.

The deadlines of a trial are the client's own (`bench.deadlines`): it sits beside the server, so it
knows how long nothing came even while the connection to the host is away.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from sweep.bench.backends import TrialSpoilt
from sweep.bench.metrics import Measurement
from sweep.clock import Clock
from sweep.errors import LaunchError, PointError
from sweep.systemd import Started, Systemd

# A big model's start is never silent for so long: weights, graphs and kernels all tell how far.
QUIET_S = 180.0
LOOK_EVERY_S = 30.0
# From here on the live line says that nothing comes.
WORTH_TELLING_S = 10


class ServerHung(LaunchError):
    """The server stopped answering in a trial. `measurement` is what was measured before."""

    def __init__(self, detail: str, measurement: Measurement) -> None:
        super().__init__("hang", detail)
        self.measurement = measurement


def as_launch_error(error: PointError) -> PointError | LaunchError:
    """A hang is the server's: it is not measured any further, so the launch ends."""
    if error.failure != "hang":
        return error
    spoilt = error.measurement if isinstance(error, TrialSpoilt) else Measurement({})
    return ServerHung(error.detail, spoilt)


class LogSilence:
    """Tells once when a starting server has written nothing to its journal for `quiet_s`."""

    def __init__(
        self,
        systemd: Systemd,
        started: Started,
        clock: Clock,
        tell: Callable[[str], None],
        quiet_s: float = QUIET_S,
    ) -> None:
        self._systemd = systemd
        self._started = started
        self._clock = clock
        self._tell = tell
        self._quiet_s = quiet_s
        self._next_look = clock.monotonic() + quiet_s
        self._told = False

    def look(self) -> None:
        """Called at every turn of a wait; looks at the journal now and then."""
        if self._clock.monotonic() < self._next_look:
            return
        self._next_look = self._clock.monotonic() + min(LOOK_EVERY_S, self._quiet_s)
        invocation = self._started.invocation_id
        now = self._clock.now().timestamp() + self._systemd.facts.clock_offset_s
        if self._systemd.journal_between(invocation, now - self._quiet_s, now).strip():
            self._told = False
        elif not self._told:
            self._told = True
            self._tell(self._text(self._systemd.journal(invocation, lines=1)))

    def _text(self, last: bytes) -> str:
        line = last.decode(errors="replace").strip().split("\r")[-1]
        if not line:
            return f"the journal has no line of the server, {self._quiet_s:.0f} s after its start"
        return f"no line in the journal for {self._quiet_s:.0f} s, the last was: {line[:200]}"


def progress_text(line: str) -> str:
    """The client's own progress, as it stands in the live line."""
    try:
        said = json.loads(line)
        silent_s = int(said.get("silent_s", 0))
        text = (
            f"{said['phase']} {said['done']}/{said['requests']} requests, {said['tokens']} tokens"
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
    return f"{text}, silent for {silent_s} s" if silent_s >= WORTH_TELLING_S else text
