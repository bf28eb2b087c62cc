"""How far a sweep has come, from one boot of its host to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from sweep.plan import Due, Launch
from sweep.runner.brake import Brake
from sweep.runner.session import Sweep

# A workload that brings its host down must not do so all night.
MOST_REBOOTS = 2


class Course:
    """What is due, and what ends the sweep before all of it is done.

    `stopped` says why the brake tripped; None while it has not.
    """

    def __init__(self, sweep: Sweep, due: Mapping[str, Sequence[Due]]) -> None:
        self._sweep = sweep
        self._due = due
        self._brake = Brake(sweep.plan.max_consecutive_failures)
        self._measured = False
        self._reboots: Counter[str] = Counter()
        self._launch = ""
        self.stopped: str | None = None

    def owed(self, launch: Launch) -> list[Due]:
        """Its due trials that have no row yet."""
        return [one for one in self._due.get(launch.id, ()) if not self._sweep.run.has(one.key)]

    def order(self, standing: Launch | None) -> list[Launch]:
        """The plan's launches, first the one that runs already."""
        return sorted(self._sweep.plan.launches, key=lambda launch: launch != standing)

    def begin(self, launch: Launch) -> None:
        self._launch = launch.id

    def end(self, failure: str | None) -> None:
        """A launch has ended: with the kind of its failure, or None when it measured something."""
        self._launch = ""
        if failure is None and not self._measured:
            self._measured = True
            self._sweep.note("first launch measured: safe to leave")
        self.stopped = self._brake.after_launch(failure)
        if self.stopped is not None:
            self._sweep.note(f"stopped by the failure brake: {self.stopped}")

    def rebooted(self) -> str | None:
        """The host was started anew; why the sweep had better not go on, or None."""
        self._reboots[self._launch] += 1
        if not self.hopeless(0):
            return None
        during = f"while {self._launch} ran" if self._launch else "between two launches"
        return f"{self._sweep.plan.host} was rebooted {MOST_REBOOTS} times {during}"

    def hopeless(self, more: int) -> bool:
        """Have there been too many reboots in what is going on, with that many more?"""
        return self._reboots[self._launch] + more >= MOST_REBOOTS
