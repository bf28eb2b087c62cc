"""The clock of a sweep: nobody sets it, and it goes on while the machine sleeps."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from sweep.clock import SystemClock, since_boot

BEGAN = datetime(2026, 11, 29, 22, tzinfo=UTC)


class Machine:
    """Both clocks of a machine, to be set."""

    def __init__(self) -> None:
        self.shown, self.up_s = BEGAN, 5000.0

    def pass_by(self, seconds: float) -> None:
        self.shown += timedelta(seconds=seconds)
        self.up_s += seconds


@pytest.mark.parametrize("step", [timedelta(hours=3), timedelta(hours=-3)])
def test_what_passes_is_what_passed_whoever_sets_the_clock(step: timedelta) -> None:
    machine = Machine()
    clock = SystemClock(lambda: machine.shown, lambda: machine.up_s)
    machine.pass_by(40)
    machine.shown += step
    machine.pass_by(20)
    assert clock.now() == BEGAN + timedelta(seconds=60)


def test_it_tells_the_time_of_day_and_counts_what_the_machine_has_slept() -> None:
    shown = SystemClock().now()
    assert abs(datetime.now(UTC) - shown) < timedelta(minutes=10)
    assert since_boot() >= time.clock_gettime(time.CLOCK_MONOTONIC) - 1
