"""The commands around a sweep, on a real host: check, init, diff, restore, status while it runs."""

from __future__ import annotations

from pathlib import Path

from tests.whole.conftest import MakeHost
from tests.whole.gpuhost import GpuHost, ended
from tests.whole.test_interrupts import SHORT, wait_for_stage


def test_check_finds_a_good_host_good_and_changes_nothing(gpu_host: MakeHost) -> None:
    host = gpu_host(**SHORT)
    result = host.sweep("check", "short")
    assert result.status == 0, result.out
    assert "sglang.service is active" in result.out
    assert host.leftovers() == []


def test_check_names_a_taken_port_and_a_missing_python(gpu_host: MakeHost) -> None:
    host = gpu_host({"port": 22}, {"python": "/opt/none/bin/python3"}, **SHORT)
    result = host.sweep("check", "short")
    assert result.status == 5
    assert "sshd" in result.out
    assert "/opt/none/bin/python3" in result.out


def test_two_commands_from_a_running_unit_to_a_dry_run(gpu_host: MakeHost, tmp_path: Path) -> None:
    host = gpu_host(**SHORT)
    (host.directory / "inventory.yaml").unlink()
    machine = host.machine
    made = host.sweep(
        "init", "--ssh-config", str(machine.ssh_config), "--from", machine.name, "sglang.service"
    )
    assert made.status == 0, made.err
    dry = host.sweep("run", "overnight", "--dry-run")
    assert dry.status == 0, dry.err
    assert "launch 11/11" in dry.out
    assert "Conflicts=sglang.service" in dry.out
    assert "-m sweep.demo.simulator" in dry.out


def test_render_shows_what_differs_from_production(gpu_host: MakeHost) -> None:
    host = gpu_host(**SHORT)
    result = host.sweep("render", "--steps", "2", "--no-baseline", "--diff")
    assert result.status == 0, result.err
    assert "-Restart=always" in result.out
    assert "+    --speculative-num-steps 2" in result.out


def test_restore_after_the_tool_was_killed(gpu_host: MakeHost) -> None:
    host = gpu_host(**SHORT)
    process = host.start("run", "short")
    wait_for_stage(host, process, "measure")
    assert "running" in host.sweep("status").out.splitlines()[0]
    refused = host.sweep("restore", "gpu")
    assert refused.status == 5, refused.err
    assert "sweep stop" in refused.err
    process.kill()
    ended(process)
    assert "interrupted" in host.sweep("status").out.splitlines()[0]
    assert not host.active("sglang.service")
    restored = host.sweep("restore", "gpu")
    assert restored.status == 0, restored.err
    assert_given_back(host)
    again = host.sweep("restore", "gpu")
    assert (again.status, "anything to restore" in again.err) == (0, True)
    # What the killed client left there goes with the run it belongs to.
    assert host.sweep("resume").status == 0
    assert host.leftovers() == []


def test_restore_tidies_up_after_a_host_that_has_restored_itself(gpu_host: MakeHost) -> None:
    host = gpu_host(**SHORT)
    process = host.start("run", "short")
    wait_for_stage(host, process, "measure")
    process.kill()
    ended(process)
    # What the dead-man timer does when it fires.
    host.sh(f"systemctl start sweep-restore-{host.run.name}.service")
    host.sh("while [ ! -e /run/sweep/*/restored ]; do sleep 0.1; done")
    assert host.serves()
    assert any("/run/sweep" in line for line in host.leftovers())
    restored = host.sweep("restore", "gpu")
    assert restored.status == 0, restored.err
    assert "the host itself started sglang.service" in restored.err
    assert_given_back(host)
    assert host.sweep("resume").status == 0
    assert host.leftovers() == []


def assert_given_back(host: GpuHost) -> None:
    assert host.serves()
    assert host.active("router.service")
    assert [line for line in host.leftovers() if "/var/tmp/" not in line] == []
