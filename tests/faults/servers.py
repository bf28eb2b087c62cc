"""Faults of the server under test."""

from __future__ import annotations

from tests.faults.fault import BEFORE, Act, Fault
from tests.faults.ground import Ground

UNIT = "sglang-sweep.service"
# What the simulated server reads its failures from when it starts; no file: it does not fail.
FAIL_FILE = "/tmp/sweep-sim-fail"
IMPATIENT = {"trial_timeout_s": 6}


def fails(how: str) -> Act:
    def strike(ground: Ground) -> None:
        ground.machine.sh(f"echo '{how}' >{FAIL_FILE}")

    return strike


def repaired(ground: Ground) -> None:
    ground.machine.sh(f"rm -f {FAIL_FILE}")


def oom_kill(ground: Ground) -> None:
    ground.machine.oom_kill(UNIT)


def signal_server(name: str) -> Act:
    def strike(ground: Ground) -> None:
        ground.machine.sh(f"systemctl kill -s {name} {UNIT}", check=False)

    return strike


FAULTS = (
    Fault("server-oom-killed", "measure", oom_kill, later_s=0.5),
    Fault("server-oom-killed-starting", "wait healthy", oom_kill, later_s=0.2, short=0),
    Fault("server-sigkilled", "measure", signal_server("KILL"), later_s=1.0, long=6),
    Fault("server-sigkilled-starting", "wait healthy", signal_server("KILL"), later_s=0.3, short=0),
    Fault("server-never-healthy", BEFORE, fails("never_healthy@steps=2"), mend=repaired,
          server={"health_timeout_s": 6}, long=2),
    Fault("server-hangs-in-a-trial", BEFORE, fails("hang@steps=1,concurrency=4"), mend=repaired,
          benchmark=IMPATIENT, long=2),
    Fault("server-stopped-in-a-trial", "measure", signal_server("STOP"), later_s=1.0,
          benchmark=IMPATIENT, short=0),
    Fault("server-exits-0", BEFORE, fails("exit0@steps=2"), mend=repaired, short=0, long=2),
)  # fmt: skip
