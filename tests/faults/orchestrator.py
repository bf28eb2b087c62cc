"""Faults of the process that sweeps, and of who watches it."""

from __future__ import annotations

import signal
import time

from tests.faults.fault import ANY, STAGES, Fault
from tests.faults.ground import Ground


def kill(ground: Ground) -> None:
    ground.kill()


def kill_twice(ground: Ground) -> None:
    """The resume is killed, too."""
    ground.kill()
    process = ground.start("resume")
    time.sleep(ground.chance.uniform(0.3, ground.undisturbed_s))
    if process.poll() is None:
        ground.kill()


def kill_then_two_resumes(ground: Ground) -> None:
    """Two people resume at the same moment: one of them is refused."""
    ground.kill()
    first, second = ground.start("resume"), ground.start("resume")
    statuses = ground.wait(first), ground.wait(second)
    through = ground.statuses[0] == 0  # before it could be killed: both have nothing to do
    assert through or set(statuses) & {4, 5}, f"both went on: {statuses}"


def a_second_sweep(ground: Ground) -> None:
    """Another sweep of the same host is refused, and the first does not notice."""
    first = ground.process
    second = ground.start("run", "short", "--runs-dir", "others")
    status = ground.wait(second)
    ground.statuses.pop()
    ground.process = first
    assert status == 5, f"a second sweep of the same host ended with {status}"


def send(number: signal.Signals, short: int = 1) -> Fault:
    def strike(ground: Ground) -> None:
        ground.signal(number)

    return Fault(number.name.lower(), ANY, strike, short=short, long=6)


def interrupt_twice(ground: Ground) -> None:
    ground.signal(signal.SIGINT)
    time.sleep(ground.chance.uniform(0.05, 0.5))
    ground.signal(signal.SIGINT)


def asleep(ground: Ground) -> None:
    """A lid that is closed for a while."""
    ground.signal(signal.SIGSTOP)
    time.sleep(10)
    ground.signal(signal.SIGCONT)


def asleep_too_long(ground: Ground) -> None:
    """The host gives itself back meanwhile; who wakes up may not take it again."""
    ground.signal(signal.SIGSTOP)
    ground.give_back_by_timer()
    assert ground.wait_until_serving(30), "the timer's unit did not bring production back"
    ground.signal(signal.SIGCONT)
    status = ground.wait()
    assert status == 5, f"woken up after the host had given itself back, it ended with {status}"


def killed_and_given_back(ground: Ground) -> None:
    ground.kill()
    ground.give_back_by_timer()


FAULTS = (
    Fault("kill-9", ANY, kill, short=3, long=50),
    *(
        Fault(f"kill-9-at-{stage.replace(' ', '-')}", stage, kill, later_s=0.3, long=5)
        for stage in STAGES
    ),
    Fault("kill-9-twice", ANY, kill_twice, long=12),
    Fault("kill-9-then-two-resumes", ANY, kill_then_two_resumes, long=4),
    Fault("a-second-sweep", "measure", a_second_sweep, nth=(1,), short=0, long=2),
    send(signal.SIGTERM),
    send(signal.SIGINT, short=0),
    send(signal.SIGHUP),
    Fault("sigint-twice", ANY, interrupt_twice, alone=True, long=8),
    Fault("asleep", ANY, asleep, short=0),
    Fault("asleep-until-the-timer-fires", "measure", asleep_too_long, later_s=0.5),
    Fault("kill-9-and-the-timer-fires", "measure", killed_and_given_back, alone=True),
)
