"""Other ways to sweep: a service user, secrets, other benchmarks, a lagging journal, a kill."""

from __future__ import annotations

import time

import pytest

from tests.whole.conftest import MakeHost
from tests.whole.gpuhost import SIM_ENV, ended
from tests.whole.test_interrupts import SHORT, wait_for_stage

CANARY = "canary-7f3a9b-do-not-store"
SCRIPT = """
import sys, urllib.request
c = int(sys.argv[1])
urllib.request.urlopen(sys.argv[2] + "/v1/models", timeout=10).close()
print("   C |  Agg tok/s |  Per-req tok/s |   Tokens |  Wall(s) |   Ok")
print("-" * 65)
print(f"{c:4d} | {100.0 * c:10.1f} | {100.0:14.1f} | {4000:8d} | {21.9:8.1f} | {4:4d}")
"""


def test_a_service_user_runs_server_and_client_and_keeps_its_home(gpu_host: MakeHost) -> None:
    host = gpu_host({"user": "plain"}, **SHORT)
    result = host.sweep("run", "short")
    assert result.status == 0, result.err
    assert set(host.frame()["status"]) == {"ok"}
    assert host.sh("find /home/plain ! -user plain") == ""
    host.sh("runuser -u plain -- sh -c 'mkdir -p ~/.cache/torch && touch ~/.cache/torch/x'")
    assert host.leftovers() == []


def test_secrets_are_used_and_stand_nowhere(
    gpu_host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEP_TEST_KEY", CANARY)
    reference = {"env": "SWEEP_TEST_KEY"}
    host = gpu_host({"secrets": {"api-key": reference, "HF_TOKEN": reference}}, **SHORT)
    process = host.start("run", "short")
    wait_for_stage(host, process, "measure")
    words = host.sh("cat /proc/[0-9]*/cmdline /run/systemd/system/* 2>/dev/null | tr '\\0' ' '")
    result = ended(process)
    assert result.status == 0, result.err
    assert CANARY not in words
    assert CANARY not in result.out + result.err
    for path in host.directory.rglob("*"):
        assert not path.is_file() or CANARY.encode() not in path.read_bytes(), path
    assert host.sh(f"grep -rl {CANARY} /run/sweep /var/tmp /var/lib/sweep /run/systemd/system",
                   check=False) == ""  # fmt: skip
    shown = host.sweep("run", "short", "--dry-run")
    assert CANARY not in shown.out


def test_ones_own_script_is_the_benchmark(gpu_host: MakeHost) -> None:
    words = ["/usr/bin/python3", "/root/bench.py", "{concurrency}", "{url}"]
    host = gpu_host(**{**SHORT, "benchmark": {"kind": "command", "command": words}})
    (host.machine.root / "root/bench.py").write_text(SCRIPT)
    result = host.sweep("run", "short")
    assert result.status == 0, result.err
    frame = host.frame().set_index("concurrency")
    assert set(frame.loc[4, "agg_tok_s"]) == {400.0}
    assert set(frame["requests_ok"]) == {4}


def test_the_client_can_run_here(gpu_host: MakeHost) -> None:
    benchmark = {"kind": "builtin", "max_tokens": 64, "run_on": "controller"}
    host = gpu_host(**{**SHORT, "benchmark": benchmark})
    result = host.sweep("run", "short")
    assert result.status == 0, result.err
    assert set(host.frame()["status"]) == {"ok"}
    assert host.leftovers() == []


def test_max_is_what_the_server_admits(gpu_host: MakeHost) -> None:
    host = gpu_host(**{**SHORT, "concurrency": [1, "max"]})
    result = host.sweep("run", "short")
    assert result.status == 0, result.err
    frame = host.frame()
    assert set(frame["concurrency"]) == {1, 26, 21}
    assert not frame["flags"].str.contains("capped").any()
    assert "nothing left to do" in host.sweep("resume").err


def test_a_journal_without_the_line_is_flagged(gpu_host: MakeHost) -> None:
    host = gpu_host({"env": {**SIM_ENV, "SWEEP_SIM_FAIL": "no_line@steps=2"}}, **SHORT)
    result = host.sweep("run", "short")
    assert result.status == 0, result.err
    frame = host.frame().set_index("speculative_num_steps")
    assert frame.loc[2, "flags"].str.contains("journal_incomplete").all()
    assert not frame.loc[1, "flags"].str.contains("journal_incomplete").any()
    assert set(frame.loc[2, "max_running_requests"]) == {21}


def test_a_lagging_journal_never_gives_the_launch_befores_numbers(gpu_host: MakeHost) -> None:
    host = gpu_host(**{**SHORT, "steps": "1..4", "concurrency": [1]})
    process = host.start("run", "short")
    wait_for_stage(host, process, "wait healthy")
    # journald stops taking lines for a second, again and again.
    while process.poll() is None:
        host.sh("systemctl kill -s STOP systemd-journald; sleep 1; "
                "systemctl kill -s CONT systemd-journald; sleep 0.5", check=False)  # fmt: skip
    result = ended(process)
    assert result.status == 0, result.err
    frame = host.frame()
    assert frame["max_running_requests"].tolist() == [26, 21, 17, 14]
    assert frame["max_total_num_tokens"].tolist() == [455357, 377207, 318911, 273660]


@pytest.mark.parametrize("stage", ["measure", "restore"])
def test_killed_then_resumed_by_another_process(gpu_host: MakeHost, stage: str) -> None:
    host = gpu_host(**SHORT)
    process = host.start("run", "short")
    wait_for_stage(host, process, stage)
    process.kill()
    ended(process)
    time.sleep(0.5)
    result = host.sweep("resume")
    assert result.status == 0, result.err
    frame = host.frame()
    assert set(frame["status"]) == {"ok"}
    assert not frame.duplicated(["point", "trial"]).any()
    assert len(frame) == 4
    assert host.serves()
    assert host.leftovers() == []


def test_a_host_lost_while_restoring_is_given_back_by_a_resume(gpu_host: MakeHost) -> None:
    limits = {"reconnect_for_s": 2, "deadman_s": 302}
    host = gpu_host(host=limits, **{**SHORT, "steps": [1], "concurrency": [1]})
    process = host.start("run", "short")
    wait_for_stage(host, process, "restore")
    host.machine.link.cut("reject")
    try:
        result = ended(process)
    finally:
        host.machine.link.restore()
    assert result.status == 5, result.err
    assert "its own timer restores production within" in result.err
    assert f"go on with: sweep resume {host.run.name}" in result.err
    resumed = host.sweep("resume")
    assert resumed.status == 0, resumed.err
    assert len(host.frame()) == 1
    assert host.serves()
    assert host.leftovers() == []
