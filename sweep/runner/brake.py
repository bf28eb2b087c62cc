"""The failure brake: a night of launches that all fail alike is stopped early."""

from __future__ import annotations

from sweep.sglang.failures import steps_independent


class Brake:
    """Counts launches that failed alike in a row; trips at `limit`, or on a hopeless first one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kind: str | None = None
        self._in_a_row = 0
        self._launches = 0

    def after_launch(self, failure: str | None) -> str | None:
        """Note how a launch ended (None: it measured something); why to stop, or None."""
        self._launches += 1
        if failure is None:
            self._kind, self._in_a_row = None, 0
            return None
        self._in_a_row = self._in_a_row + 1 if failure == self._kind else 1
        self._kind = failure
        if self._launches == 1 and steps_independent(failure):
            return f"the first launch failed with {failure}, which no number of steps changes"
        if self._in_a_row >= self._limit:
            return f"{self._in_a_row} launches in a row failed with {failure}"
        return None
