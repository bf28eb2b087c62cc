"""Keeping the machine awake: held while we live, gone however we end, no reason to fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweep.awake import Inhibitor, staying_awake
from tests.testhost import Machine, Pool

# env runs what stands behind it, as an inhibitor does.
HOLDS = Inhibitor("env", ("SWEEP_TEST_INHIBITOR=1",))
FAILS = Inhibitor("false", ())
MISSING = Inhibitor("no-such-program", ())


def inhibitors_of(pid: int) -> list[int]:
    """Processes that a process has started and that hold for it."""
    found = []
    for status in Path("/proc").glob("[0-9]*/environ"):
        try:
            if b"SWEEP_TEST_INHIBITOR" in status.read_bytes():
                parent = (status.parent / "stat").read_text().rpartition(")")[2].split()[1]
                found += [int(status.parent.name)] if int(parent) in (pid, 1) else []
        except (OSError, IndexError):
            continue
    return found


@pytest.mark.parametrize(
    ("inhibitors", "held_by"),
    [
        ((HOLDS,), "env"),
        ((MISSING, FAILS, HOLDS), "env"),
        ((MISSING, FAILS), None),
        ((), None),
    ],
)
def test_the_first_that_holds(inhibitors: tuple[Inhibitor, ...], held_by: str | None) -> None:
    before = inhibitors_of(os.getpid())
    with staying_awake(inhibitors) as found:
        assert found == held_by
        assert bool(inhibitors_of(os.getpid())) == (held_by is not None)
    assert inhibitors_of(os.getpid()) == before == []


def test_nothing_is_left_of_a_process_that_was_killed() -> None:
    program = (
        "import time\nfrom sweep.awake import Inhibitor, staying_awake\n"
        "with staying_awake((Inhibitor('env', ('SWEEP_TEST_INHIBITOR=2',)),)) as found:\n"
        "    print(found, flush=True)\n    time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "env\n"
    (holder,) = inhibitors_of(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    until = time.monotonic() + 30
    while Path(f"/proc/{holder}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{holder}").exists()


def test_logind_is_told(testhost: Pool) -> None:
    """On a host with logind: its own list has it, until the process is killed."""
    machine: Machine = testhost.shared("bookworm")
    program = (
        "import sys, time\nsys.path.insert(0, '/opt/sweep-sim')\n"
        "from sweep.awake import staying_awake\n"
        "with staying_awake() as found:\n"
        "    print(found, flush=True)\n    time.sleep(600)\n"
    )
    (machine.root / "root/awake.py").write_text(program)
    listed = "systemd-inhibit --list --no-pager"
    said = machine.sh(
        f"python3 /root/awake.py >/root/awake.out & pid=$!\n"
        "n=0; until [ -s /root/awake.out ] || [ $n = 100 ]; do sleep 0.1; n=$((n + 1)); done\n"
        f"cat /root/awake.out; {listed} | grep -c 'a sweep is running'; kill -9 $pid\n"
        f"n=0; while {listed} | grep -q 'a sweep is running' && [ $n != 100 ]; do sleep 0.1; "
        f"n=$((n + 1)); done; {listed} | grep -c 'a sweep is running'; :"
    )
    assert said.split() == ["systemd-inhibit", "1", "0"]
