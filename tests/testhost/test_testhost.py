"""The test hosts themselves: what the other tests rely on."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testhost import Machine, Pool


def ssh(machine: Machine, user: str, command: str) -> str:
    alias = machine.name if user == "root" else f"{machine.name}-{user}"
    words = ["ssh", "-F", str(machine.ssh_config), alias, command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr


def test_boots_whole(machine: Machine) -> None:
    expected = {"bookworm": "252", "trixie": "257"}[machine.release]
    assert f"systemd {expected}" in machine.sh("systemctl --version")
    assert machine.sh("systemctl is-system-running --wait", check=False) == "running"


@pytest.mark.parametrize(
    ("user", "sudo"),
    [("root", "0"), ("ops", "0"), ("plain", "plain is not"), ("locked", "a password is")],
)
def test_users_log_in(machine: Machine, user: str, sudo: str) -> None:
    assert ssh(machine, user, "whoami").strip() == user
    if user != "root":
        told = ssh(machine, user, "sudo -n id -u").strip()
        assert told == sudo if sudo == "0" else told.startswith("sudo: ")


def test_plain_has_a_user_manager_without_a_login(machine: Machine) -> None:
    assert machine.sh("systemctl is-active user@$(id -u plain)") == "active"


def test_the_simulators_libraries_are_there(machine: Machine) -> None:
    script = "PYTHONPATH=/opt/sweep-sim /usr/bin/python3 -c 'import uvicorn, starlette, sweep'"
    assert machine.sh(f"runuser -u sglang -- sh -c {script!r} 2>&1") == ""


def test_services_come_and_go(machine: Machine) -> None:
    unit = "[Service]\nExecStart=sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
    machine.install_service("there.service", unit)
    assert machine.sh("systemctl is-active there; systemctl is-enabled there").split() == [
        "active",
        "enabled",
    ]
    machine.remove_service("there.service")
    assert machine.sh("systemctl show -P LoadState there") == "not-found"


def test_faults_and_their_end(testhost: Pool) -> None:
    machine = testhost.fresh("faulty", disk="64m")
    machine.link.cut()
    assert "timed out" in ssh(machine, "root", "true")
    machine.link.restore()
    machine.link.cut("reject")
    assert "refused" in ssh(machine, "root", "true")
    machine.link.restore()
    machine.link.delay(40)
    assert ssh(machine, "root", "echo late").strip() == "late"
    machine.link.restore()
    machine.fill_disk()
    assert "No space left" in ssh(machine, "root", "echo text >/root/file")
    machine.off()
    machine.heal()
    assert ssh(machine, "root", "echo text >/root/file; cat /root/file").strip() == "text"
    boot = machine.sh("cat /proc/sys/kernel/random/boot_id")
    machine.reboot()
    assert machine.sh("cat /proc/sys/kernel/random/boot_id") != boot
    assert machine.sh("cat /root/file") == "text"
    testhost.discard("faulty")


def test_boots_again_and_again(testhost: Pool) -> None:
    machine = testhost.fresh("often", release="trixie")
    for hard in (True, False, False, True):
        machine.reboot(hard=hard)
        assert machine.sh("systemctl is-system-running --wait", check=False) == "running"
    testhost.discard("often")


def test_oom_kill_is_what_systemd_reports(machine: Machine) -> None:
    for _ in range(2):
        machine.run("systemd-run", "--unit=eater", "sleep", "infinity")
        machine.oom_kill("eater.service")
        machine.sh("while systemctl is-active --quiet eater; do sleep 0.02; done")
        assert machine.sh("systemctl show -P Result eater") == "oom-kill"
        machine.sh("systemctl reset-failed eater")


def test_hosts_reach_each_other_and_nothing_else(testhost: Pool) -> None:
    one, two = testhost.shared("bookworm"), testhost.shared("trixie")
    banner = f"exec 3<>/dev/tcp/{two.address}/22; head -c 4 <&3"
    assert one.run("bash", "-c", banner).stdout == "SSH-"
    assert one.sh("ip route show default") == ""


def test_pools_do_not_meet(testhost: Pool) -> None:
    with Pool() as other:
        machine = other.shared()
        assert ssh(machine, "root", "hostname").strip() == "bookworm-shared"
        assert machine.address != testhost.shared().address
    assert ssh(testhost.shared(), "root", "hostname").strip() == "bookworm-shared"
    assert not machine.root.exists()


def test_a_host_to_play_with_is_there_until_it_is_told_to_end(machine: Machine) -> None:
    command = [sys.executable, "-m", "tests.testhost", "up", machine.release]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().partition("#")[0]
            done = subprocess.run(
                [*line.split(), "hostname"], capture_output=True, text=True, check=False, timeout=60
            )
            assert done.stdout.strip() == "playground", done.stderr
        finally:
            process.send_signal(signal.SIGTERM)
        assert "removed" in process.stdout.read()
    assert process.returncode == 0
    assert not Path(line.split()[2]).exists()
