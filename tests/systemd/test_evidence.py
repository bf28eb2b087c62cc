"""What a host tells about a server that hangs: cards, kernel, processes; and that it is silent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sweep.runner.watchdog import LogSilence
from sweep.systemd import Started, Systemd
from tests.systemd.targets import NO_SECRETS, Target, rendered, taken, wait_for

DMESG = """#!/bin/sh
echo '[    0.500000] NVRM: Xid (PCI:0000:3f:00): 31, of a day long ago'
echo '[999999999.000001] usb 1-1: new device'
echo '[999999999.000002] NVRM: Xid (PCI:0000:3f:00): 79, pid=4711, GPU has fallen off the bus.'
"""


def start(target: Target, systemd: Systemd, script: str) -> Started:
    """A unit that runs a script of sh."""
    path = f"{target.host.root}/var/tmp/evidence-test.sh"
    target.host.put(path, script.encode(), mode=0o755)
    systemd.install(rendered(target, f"/bin/sh {path}"), NO_SECRETS)
    return systemd.start()


@pytest.fixture
def scripted(target: Target) -> Iterator[Target]:
    yield target
    target.sh(f"rm -f {target.host.root}/var/tmp/evidence-test.sh")


def test_the_processes_of_a_server_that_hangs(scripted: Target) -> None:
    with taken(scripted) as systemd:
        start(scripted, systemd, "sleep 301 & sleep 302")
        wait_for(lambda: len(systemd.poll().cgroup_pids) == 3, "its processes")
        processes = systemd.evidence().processes
        for command in ("evidence-test.sh", "sleep 301", "sleep 302"):
            assert command in processes


def test_cards_and_kernel_of_this_start_only(root: Target) -> None:
    for name, text in {"nvidia-smi": "#!/bin/sh\necho 'P0 402W'\n", "dmesg": DMESG}.items():
        root.host.put(f"/usr/local/bin/{name}", text.encode(), mode=0o755)
    try:
        with taken(root) as systemd:
            start(root, systemd, "sleep 301")
            found = systemd.evidence()
    finally:
        root.sh("rm -f /usr/local/bin/nvidia-smi /usr/local/bin/dmesg /var/tmp/evidence-test.sh")
    assert found.nvidia_smi == "P0 402W"
    assert [line.partition("] ")[2] for line in found.kernel] == [
        "NVRM: Xid (PCI:0000:3f:00): 79, pid=4711, GPU has fallen off the bus."
    ]


def test_a_silent_start_is_told_once_with_its_last_line(scripted: Target) -> None:
    told: list[str] = []
    with taken(scripted, hurried=True) as systemd:
        started = start(scripted, systemd, "sleep 0.5; echo 'shard 1 of 9'; sleep 300")
        wait_for(lambda: b"shard" in systemd.journal(started.invocation_id), "its lines")
        clock = systemd.site.clock
        silence = LogSilence(systemd, started, clock, told.append, quiet_s=1.0)

        def looked() -> bool:
            clock.sleep(1)
            silence.look()
            return bool(told)

        wait_for(looked, "the hint")
        assert told == ["no line in the journal for 1 s, the last was: shard 1 of 9"]
        for _ in range(5):
            looked()
        assert len(told) == 1


def test_a_start_that_talks_is_not_called_silent(scripted: Target) -> None:
    told: list[str] = []
    with taken(scripted, hurried=True) as systemd:
        started = start(scripted, systemd, "while :; do echo at work; sleep 0.05; done")
        clock = systemd.site.clock
        silence = LogSilence(systemd, started, clock, told.append, quiet_s=2.0)
        for _ in range(20):
            clock.sleep(2)
            silence.look()
    assert told == []
