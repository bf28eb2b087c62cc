"""Faults of the wire, of sshd, and of a jump host."""

from __future__ import annotations

import time
from typing import Literal

from tests.faults.fault import ANY, BEFORE, Act, Fault
from tests.faults.ground import Ground

How = Literal["drop", "down", "reject"]
KINDS: tuple[tuple[str, How], ...] = (
    ("silent", "drop"), ("refused", "reject"), ("cable", "down"),
)  # fmt: skip
# The window in which a connection may come back, where a fault is about its end.
SHORT_WINDOW = {"reconnect_for_s": 5, "deadman_s": 305}


def cut(how: How, seconds: float) -> Act:
    def strike(ground: Ground) -> None:
        ground.machine.link.cut(how)
        time.sleep(seconds)
        ground.machine.link.restore()

    return strike


def cut_for_good(how: How) -> Act:
    """Until the sweep has given up."""

    def strike(ground: Ground) -> None:
        ground.machine.link.cut(how)

    return strike


def reconnect(ground: Ground) -> None:
    ground.machine.link.restore()


def given_back_while_cut(ground: Ground) -> None:
    """The host's timer fires while nobody reaches it; who comes back may not take it again."""
    ground.machine.link.cut("drop")
    ground.give_back_by_timer()
    assert ground.wait_until_serving(30), "the timer's unit did not bring production back"
    time.sleep(6)
    ground.machine.link.restore()


def drop_logins(ground: Ground) -> None:
    ground.machine.drop_logins()


def sshd_down(ground: Ground) -> None:
    ground.machine.sh("systemctl stop ssh.service ssh.socket 2>/dev/null; true")
    ground.machine.drop_logins()
    time.sleep(ground.chance.uniform(1, 4))
    ground.machine.sh("systemctl reset-failed ssh.service; systemctl start ssh.service")


def in_a_transfer(ground: Ground) -> None:
    """The client's archive is on its way to the host over a slow wire when all logins end."""
    ground.machine.link.slow(256)
    ground.wait_for_stage("measure", ground.chance.choice((1, 2, 3)))
    time.sleep(ground.chance.uniform(0.2, 1.2))
    ground.machine.drop_logins()
    ground.machine.link.restore()


def last_login_ends(ground: Ground) -> None:
    """Every session of the user is terminated; lingering keeps the units."""
    ground.machine.sh(
        "for one in $(loginctl list-sessions --no-legend | grep -w plain | awk '{print $1}'); do "
        "loginctl terminate-session $one; done",
        check=False,
    )
    ground.machine.drop_logins()


def slow(ground: Ground) -> None:
    ground.machine.link.slow(2000)


def far(ground: Ground) -> None:
    ground.machine.link.delay(80)


FAULTS = (
    *(
        Fault(f"cut-2s-{name}", ANY, cut(how, 2), short=int(how != "down"), long=6)
        for name, how in KINDS),
    *(
        Fault(f"cut-12s-{name}", ANY, cut(how, 12), short=int(how == "drop"), long=4)
        for name, how in KINDS
    ),
    Fault("cut-60s-silent", "measure", cut("drop", 60), short=0, long=2,
          host={"reconnect_for_s": 100}),
    *(
        Fault(f"cut-for-good-{name}", ANY, cut_for_good(how), mend=reconnect, host=SHORT_WINDOW,
              alone=False, short=int(how == "reject"), long=3)
        for name, how in KINDS
    ),
    Fault("cut-and-the-timer-fires", "measure", given_back_while_cut, later_s=0.5),
    Fault("delay-80ms", BEFORE, far, mend=reconnect),
    Fault("2-mbit-s", BEFORE, slow, mend=reconnect, short=0),
    Fault("sshd-stopped", ANY, sshd_down, long=6),
    Fault("logins-killed", ANY, drop_logins, long=6),
    Fault("cut-in-a-transfer", "verify", in_a_transfer, nth=(1,), mend=reconnect),
    Fault("jump-host-second-leg", "measure", cut("drop", 12), later_s=0.5, way="jump"),
    Fault("last-login-ends", "measure", last_login_ends, later_s=0.5, way="user"),
)  # fmt: skip
