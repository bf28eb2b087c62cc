"""--detach=host: the run works on the GPU host while the controller may sleep, and comes home."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from sweep.unit import packaged_templates
from tests.testhost import Pool
from tests.whole.conftest import MakeHost
from tests.whole.gpuhost import ROOT, USER, GpuHost, sweep_of
from tests.whole.test_interrupts import SHORT

CANARY = "canary-5e1d07-do-not-store"
KEPT = "ls -d /var/lib/sweep-detached /run/sweep-detached /run/user/*/sweep-detached 2>/dev/null; :"


def wait_until_home(host: GpuHost) -> str:
    """Look again and again until the run is not there any more; the last status."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        shown = host.sweep("status")
        assert shown.status == 0, shown.err
        if not (host.run / "detached.json").exists():
            return shown.out
        time.sleep(2)  # each look is a process and a connection
    raise AssertionError(shown.out)


def all_is_left_as_it_was(host: GpuHost) -> None:
    assert host.serves()
    assert host.active("router.service")
    assert host.leftovers() == []
    assert host.machine.sh(KEPT) == ""


def test_it_runs_there_and_comes_home(
    gpu_host: MakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEP_TEST_KEY", CANARY)
    reference = {"env": "SWEEP_TEST_KEY"}
    told = [{"command": ["sh", "-c", f"cat >> {tmp_path}/told"]}]
    server = {"secrets": {"api-key": reference, "HF_TOKEN": reference}}
    host = gpu_host(server, **SHORT, notify=told)
    shown = host.sweep("--no-color", "run", "short", "--detach=host")  # with a report
    assert shown.status == 0, shown.err
    assert "this machine may sleep" in shown.err
    assert "production is sglang.service" in shown.err
    # Nothing of the tool is left here; the secrets were read, and are on the host nowhere but in
    # the files of the server under test.
    assert host.machine.sh("ls -A /run/sweep-detached/*; :") == ""
    words = host.sh("cat /proc/[0-9]*/cmdline /run/systemd/transient/* 2>/dev/null | tr '\\0' ' '")
    assert CANARY not in words
    assert host.sh(f"grep -rl {CANARY} /var/lib/sweep-detached /var/tmp; :") == ""
    running = host.sweep("status")
    assert ": running (pid " in running.out or ": done" in running.out
    assert ": done" in wait_until_home(host)
    frame = host.frame()
    assert list(frame["status"]) == ["ok"] * 4
    assert len(list((host.run / "bench").glob("*.json"))) == 4
    plan = json.loads((host.run / "plan.json").read_text())
    assert plan["host"]["address"] == host.machine.name
    assert "sglang_version" in plan["fingerprint"]
    assert "ready to roll" in host.sweep("logs").out
    assert (host.run / "report.html").exists()
    heard = [json.loads(line)["event"] for line in (tmp_path / "told").read_text().splitlines()]
    assert heard == ["restored", "finished"]
    for path in host.directory.rglob("*"):
        assert not path.is_file() or CANARY.encode() not in path.read_bytes(), path
    all_is_left_as_it_was(host)
    assert "nothing left to do" in host.sweep("resume").err


def test_stop_there_then_resume_from_here(gpu_host: MakeHost) -> None:
    host = gpu_host(**{**SHORT, "trials": 8})  # more than is asked before the stop
    assert host.sweep("run", "short", "--detach=host").status == 0
    host.machine.link.cut()
    asleep = host.sweep("status")
    host.machine.link.restore()
    assert (asleep.status, ": running" in asleep.out) == (0, True)
    assert "what follows was fetched before" in asleep.err
    refused = host.sweep("resume")
    assert refused.status == 4, refused.err
    assert "works on its host" in refused.err
    stopped = host.sweep("stop")
    assert stopped.status == 0, stopped.err
    all_is_left_as_it_was(host)
    assert "ended by SIGTERM" in host.sweep("status").out
    resumed = host.sweep("resume")
    assert resumed.status == 0, resumed.err
    frame = host.frame()
    assert set(frame["status"]) == {"ok"}
    assert len(frame.drop_duplicates(["point", "trial"])) == 32
    all_is_left_as_it_was(host)


def test_a_run_from_here_goes_on_there(gpu_host: MakeHost) -> None:
    """Through sudo, with a unit template and texts that are on the controller only."""
    texts = {"kind": "builtin", "max_tokens": 64, "workload": {"file": "texts.jsonl"}}
    sudo = {"address": "whole-ops", "become": "sudo"}
    host = gpu_host(host=sudo, **{**SHORT, "benchmark": texts})
    asked = [json.dumps({"prompt": f"What is {number}?"}) for number in range(16)]
    (host.directory / "texts.jsonl").write_text("\n".join(asked))
    own = packaged_templates() / "sglang.service.j2"
    (host.directory / "templates").mkdir()
    (host.directory / "templates" / own.name).write_text(f"# our own\n{own.read_text()}")
    begun = host.sweep("run", "short", "--steps", "1", "--concurrency", "1")
    assert begun.status == 0, begun.err
    shown = host.sweep("resume", "--trials", "3", "--detach=host")
    assert shown.status == 0, shown.err
    assert ": done" in wait_until_home(host)
    assert len(host.frame()) == 3
    assert (host.run / "units" / "l-01.service").read_text().startswith("# our own\n")
    all_is_left_as_it_was(host)
    assert "nothing left to do" in host.sweep("resume").err, "the plan is still the controller's"


def test_killed_there_it_is_taken_up_again(gpu_host: MakeHost) -> None:
    host = gpu_host(**SHORT)
    assert host.sweep("run", "short", "--detach=host").status == 0
    host.sh("systemctl kill --signal=KILL 'sweep-detached-*'")
    resumed = host.sweep("resume", "--detach=host")
    assert resumed.status == 0, resumed.err
    assert ": done" in wait_until_home(host)
    frame = host.frame()
    assert set(frame["status"]) == {"ok"}
    assert not frame.duplicated(["point", "trial"]).any()
    all_is_left_as_it_was(host)


def test_a_refusal_there_is_shown_here(gpu_host: MakeHost) -> None:
    host = gpu_host(**SHORT)
    host.sh("mkdir -p /run/systemd/system && echo '[Service]' > "
            "/run/systemd/system/sglang-sweep.service && systemctl daemon-reload")  # fmt: skip
    try:
        shown = host.sweep("run", "short", "--detach=host")
    finally:
        host.sh("rm /run/systemd/system/sglang-sweep.service; systemctl daemon-reload")
    assert shown.status == 5, shown.err
    assert "sglang-sweep.service" in shown.err
    all_is_left_as_it_was(host)


def test_a_python_that_is_too_old_is_refused_before_anything(
    testhost: Pool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    machine = testhost.fresh("old-python")
    host = GpuHost(machine, ROOT, tmp_path_factory.mktemp("old"), {"short": sweep_of(**SHORT)})
    host.dress()
    host.write_inventory()
    about = json.dumps({"path": "/usr/bin/python3", "version": [3, 9, 2], "pydantic": None,
                        "abi": "cpython-39-x86_64-linux-gnu", "machine": "x86_64"})  # fmt: skip
    (machine.root / "opt/python3").write_text(f"#!/bin/sh\necho '{about}'\n")
    machine.sh("chmod +x /opt/python3; mv /usr/bin/python3.11 /usr/bin/py; ln -sf /opt/python3 "
               "/usr/bin/python3")  # fmt: skip
    pid = machine.sh("systemctl show -p MainPID sglang.service")
    shown = host.sweep("run", "short", "--detach=host")
    assert shown.status == 5, shown.err
    assert "needs Python 3.11 or newer there" in shown.err
    assert "found /usr/bin/python3 (Python 3.9.2)" in shown.err
    assert machine.sh("systemctl show -p MainPID sglang.service") == pid
    assert machine.sh(KEPT) == ""
    testhost.discard("old-python")


def test_a_newer_python_gets_what_fits_it(
    testhost: Pool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Where pip reaches no index, it is refused and production has not noticed."""
    machine = testhost.fresh("newer-python", release="trixie")
    host = GpuHost(machine, ROOT, tmp_path_factory.mktemp("newer"), {"short": sweep_of(**SHORT)})
    host.dress()
    host.write_inventory()
    shown = host.sweep("run", "short", "--steps", "1", "--concurrency", "1", "--detach=host")
    if shown.status == 0:
        assert ": done" in wait_until_home(host)
    else:
        assert shown.status == 5, shown.err
        assert "cannot be fetched here" in shown.err
        assert "Production was not touched" in shown.err
    all_is_left_as_it_was(host)
    testhost.discard("newer-python")


def test_in_user_scope(testhost: Pool, tmp_path_factory: pytest.TempPathFactory) -> None:
    machine = testhost.fresh("detached-user")
    sweeps = {"short": sweep_of(**SHORT)}
    host = GpuHost(machine, USER, tmp_path_factory.mktemp("user"), sweeps)
    host.dress()
    host.write_inventory()
    shown = host.sweep("run", "short", "--steps", "1", "--concurrency", "1", "--detach=host")
    assert shown.status == 0, shown.err
    assert ": done" in wait_until_home(host)
    assert list(host.frame()["status"]) == ["ok"]
    all_is_left_as_it_was(host)
    assert machine.sh("ls -d /home/plain/.local/state/sweep-detached 2>/dev/null; :") == ""
    testhost.discard("detached-user")
