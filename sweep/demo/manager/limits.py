"""How often a unit may be started: StartLimitBurst= within StartLimitIntervalSec=."""

from __future__ import annotations

import time

from sweep.demo.manager.unitfile import UnitFile


class StartLimit:
    """Counts the starts of one unit."""

    def __init__(self) -> None:
        self._starts: list[float] = []

    def reset(self) -> None:
        self._starts.clear()

    def allows(self, file: UnitFile) -> bool:
        """Whether one more start is allowed now; it counts if it is."""
        within = file.seconds("StartLimitIntervalSec", 10, "Unit")
        burst = int(file.get("StartLimitBurst", "5", "Unit"))
        now = time.monotonic()
        self._starts = [moment for moment in self._starts if now - moment < within]
        if within and len(self._starts) >= burst:
            return False
        self._starts.append(now)
        return True
