"""The host is started anew in mid-sweep: production first, then the sweep goes on by itself."""

from __future__ import annotations

import pytest

from tests.whole.conftest import MakeHost
from tests.whole.gpuhost import GpuHost, ended
from tests.whole.test_adoption import (
    LONG_START,
    LONG_TRIALS,
    assert_complete,
    client_at_work,
    events,
    wait_until,
)
from tests.whole.test_interrupts import SHORT, wait_for_stage


def measuring(host: GpuHost, trials: int) -> bool:
    """So many trials were begun, and one of them is at work."""
    found = [one for one in events(host, "stage") if one["stage"] == "measure"]
    return len(found) >= trials and client_at_work(host)


@pytest.mark.parametrize(("stage", "hard"), [("wait healthy", False), ("measure", True)])
def test_what_was_not_recorded_is_done_again(gpu_host: MakeHost, stage: str, hard: bool) -> None:
    host = gpu_host(LONG_START, **LONG_TRIALS)
    process = host.start("run", "short")
    wait_for_stage(host, process, stage)
    host.machine.reboot(hard=hard)
    result = ended(process)
    assert "was rebooted while the sweep ran" in result.err
    frame = assert_complete(host, result)
    assert len(frame) == 4
    served = [one for one in events(host, "stage") if one["stage"] == "wait for production"]
    assert len(served) == 1


def test_nothing_to_go_on_with_is_an_end(gpu_host: MakeHost) -> None:
    """Rebooted when it gives the host back: production is the host's work, then all is done."""
    host = gpu_host(**SHORT)
    process = host.start("run", "short")
    wait_for_stage(host, process, "restore")
    host.machine.reboot(hard=True)
    assert_complete(host, ended(process))


def test_a_launch_that_brings_its_host_down_twice_ends_the_sweep(gpu_host: MakeHost) -> None:
    host = gpu_host(**LONG_TRIALS)
    process = host.start("run", "short")
    wait_for_stage(host, process, "measure")
    host.machine.reboot(hard=True)
    wait_until(lambda: measuring(host, 2), "the trial anew")
    host.machine.reboot(hard=True)
    result = ended(process)
    assert result.status == 5, result.err
    assert "was rebooted 2 times while l-01 ran" in result.err
    frame = host.frame()
    assert frame["failure"].tolist()[-1] == "unknown"
    assert "rebooted" in frame["failure_detail"].tolist()[-1]
    assert host.serves()
    assert_complete(host, host.sweep("resume"), attempts=2)
