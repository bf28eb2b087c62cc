"""What the tool refuses to do to a host, and what it then leaves alone."""

from __future__ import annotations

import pytest

from tests.whole.conftest import MakeHost
from tests.whole.gpuhost import SERVER_PORT, SIM_ENV, SIMULATOR, ended
from tests.whole.test_interrupts import SHORT, wait_for_stage


def test_a_second_sweep_is_refused_naming_the_owner(gpu_host: MakeHost) -> None:
    host = gpu_host(**SHORT)
    first = host.start("run", "short")
    owner = wait_for_stage(host, first, "wait healthy")
    second = host.sweep("run", "short")
    assert second.status == 5, second.err
    assert owner.name in second.err
    assert f"pid {first.pid}" in second.err
    assert ended(first).status == 0
    assert host.serves()


def test_a_unit_of_somebody_else_is_never_edited(gpu_host: MakeHost) -> None:
    host = gpu_host(**SHORT)
    text = "[Service]\nExecStart=/bin/sleep infinity\n"
    host.machine.install_service("sglang-sweep.service", text, start=False)
    try:
        result = host.sweep("run", "short")
        assert result.status == 5, result.err
        assert "somebody else's unit" in result.err
        path = host.machine.root / "etc/systemd/system/sglang-sweep.service"
        assert path.read_text() == text
        assert host.serves()
    finally:
        host.machine.remove_service("sglang-sweep.service")


def test_an_old_server_on_the_port_is_never_measured(gpu_host: MakeHost) -> None:
    host = gpu_host(**SHORT)
    words = (*SIMULATOR, "--model-path", "simulated/122b", "--port", str(SERVER_PORT))
    text = f"[Service]\nEnvironment=PYTHONPATH=/opt/sweep-sim\nExecStart={' '.join(words)}\n"
    host.machine.install_service("old.service", text)
    host.sh(f"until ss -Hltn 'sport = :{SERVER_PORT}' | grep -q .; do sleep 0.1; done")
    since = "systemctl show -p ActiveEnterTimestampMonotonic sglang.service"
    before = host.sh(since)
    try:
        result = host.sweep("run", "short")
        assert result.status == 1, result.err
        frame = host.frame()
        assert set(frame["failure"]) == {"port_in_use"}
        assert "sweep.demo.simulator" in frame["failure_detail"][0]
        assert host.active("old.service"), "nobody else's process is ever killed"
        assert host.sh(since) == before, "production was not stopped for nothing"
    finally:
        host.machine.remove_service("old.service")
    assert host.serves()


def test_production_that_was_down_stays_down(gpu_host: MakeHost) -> None:
    host = gpu_host(**SHORT)
    host.sh("systemctl stop sglang.service")
    try:
        result = host.sweep("run", "short")
        assert result.status == 0, result.err
        assert not host.active("sglang.service")
        assert not host.active("router.service")
        assert host.leftovers() == []
    finally:
        host.sh("systemctl start router.service")


def test_production_started_in_the_middle_wins(gpu_host: MakeHost) -> None:
    host = gpu_host(**SHORT)
    process = host.start("run", "short")
    wait_for_stage(host, process, "measure")
    host.sh("systemctl start sglang.service")
    result = ended(process)
    assert result.status == 5, result.err
    assert "somebody started sglang.service" in result.err
    assert host.frame()["failure"].tolist() == ["preempted"]
    assert host.active("sglang.service")
    assert host.serves()
    assert host.leftovers() == []


def test_a_host_that_does_not_answer_is_exit_5(gpu_host: MakeHost) -> None:
    host = gpu_host(host={"address": "127.0.0.1", "ssh_port": 1}, **SHORT)
    result = host.sweep("run", "short")
    assert result.status == 5, result.err


@pytest.mark.parametrize(
    ("script", "said"), [("exit 127", "does not run there"), ("echo 2.7.18", "is Python 2.7.18")]
)
def test_a_python_that_cannot_run_the_client_stops_no_production(
    gpu_host: MakeHost, script: str, said: str
) -> None:
    host = gpu_host(host={"python": "/usr/local/bin/old-python"}, **SHORT)
    host.sh(f"printf '#!/bin/sh\\n{script}\\n' >/usr/local/bin/old-python; "
            "chmod 755 /usr/local/bin/old-python")  # fmt: skip
    began = host.sh("systemctl show -p ActiveEnterTimestampMonotonic sglang.service")
    result = host.sweep("run", "short")
    assert result.status == 5, result.err
    assert said in result.err
    assert host.sh("systemctl show -p ActiveEnterTimestampMonotonic sglang.service") == began
    assert host.leftovers() == []


def test_a_host_without_a_tool_of_ours_stops_no_production(gpu_host: MakeHost) -> None:
    host = gpu_host(**SHORT)
    host.sh("mv /usr/bin/ss /usr/bin/ss.away")
    try:
        result = host.sweep("run", "short")
    finally:
        host.sh("mv /usr/bin/ss.away /usr/bin/ss")
    assert result.status == 5, result.err
    assert "missing there: ss" in result.err
    assert host.serves()


def test_a_host_that_forwards_no_ports(gpu_host: MakeHost) -> None:
    host = gpu_host(**SHORT)
    config = host.machine.root / "etc/ssh/sshd_config.d/forward.conf"
    config.write_text("AllowTcpForwarding no\n")
    host.sh("systemctl restart ssh")
    try:
        result = host.sweep("run", "short")
        assert result.status == 0, result.err
        benchmark = {"kind": "builtin", "max_tokens": 64, "run_on": "controller"}
        host = gpu_host(**{**SHORT, "benchmark": benchmark})
        result = host.sweep("run", "short")
        assert result.status == 5, result.err
        assert "AllowTcpForwarding" in result.err
        said = host.sweep("check", "short").out
        assert "problem  forwarding: sshd forwards no port" in said
    finally:
        config.unlink()
        host.sh("systemctl restart ssh")
    assert host.serves()
    assert host.leftovers() == []


def test_a_port_taken_while_the_server_loads_is_known_at_once(gpu_host: MakeHost) -> None:
    host = gpu_host({"env": {**SIM_ENV, "SWEEP_SIM_START_S": "8"}}, **{**SHORT, "steps": "1"})
    process = host.start("run", "short")
    wait_for_stage(host, process, "wait healthy")
    text = f"[Service]\nExecStart=/usr/bin/python3 -m http.server {SERVER_PORT}\n"
    host.machine.install_service("thief.service", text)
    try:
        result = ended(process)
        assert result.status == 1, result.err
        frame = host.frame()
        assert set(frame["failure"]) == {"port_in_use"}
        assert " of root: /usr/bin/python3 -m http.server" in frame["failure_detail"][0]
        assert host.active("thief.service")
    finally:
        host.machine.remove_service("thief.service")
    assert host.serves()


def test_a_sweep_that_cannot_succeed_does_not_begin(gpu_host: MakeHost) -> None:
    host = gpu_host({"user": "nobody-such"}, **SHORT)
    since = "systemctl show -p ActiveEnterTimestampMonotonic sglang.service"
    before = host.sh(since)
    result = host.sweep("run", "short")
    assert result.status == 5, result.err
    assert "no launch of this sweep can succeed, and nothing was touched" in result.err
    assert "there is no user nobody-such on the host -> create it, or correct" in result.err
    assert host.sh(since) == before, "production was not stopped for nothing"
    assert not list((host.directory / "runs").glob("*")), "a run that did nothing leaves none"


def test_what_may_spoil_the_night_is_named_and_the_sweep_begins(gpu_host: MakeHost) -> None:
    host = gpu_host(**SHORT)
    (host.machine.root / "etc/cron.d/nightly").write_text("0 3 * * * root systemctl restart x\n")
    try:
        result = host.sweep("run", "short")
        assert result.status == 0, result.err
        assert "warning: cron: jobs that may touch the server" in result.err
    finally:
        (host.machine.root / "etc/cron.d/nightly").unlink()
