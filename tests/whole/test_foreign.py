"""Whoever else uses the server under test is noticed; a sweep alone never is."""

from __future__ import annotations

import subprocess
import time
from typing import Any

import pytest

from sweep.results import RunDirectory
from tests.whole.conftest import MakeHost
from tests.whole.gpuhost import SERVER_PORT, GpuHost, ended

# A few requests, one after the other, as somebody's script sends them.
INTRUDER = f"""
import json, urllib.request
body = {{"messages": [{{"role": "user", "content": "hello"}}], "max_tokens": 40}}
for _ in range(5):
    urllib.request.urlopen(urllib.request.Request(
        "http://127.0.0.1:{SERVER_PORT}/v1/chat/completions",
        json.dumps(body).encode(), {{"Content-Type": "application/json"}},
    )).read()
"""
ARGS = {
    "model-path": "simulated/122b",
    "speculative-algorithm": "NEXTN",
    "speculative-eagle-topk": 1,
}


def wait_for_progress(host: GpuHost, process: subprocess.Popen[str]) -> None:
    """Until the measured part of a trial has begun: the client says so in its directory."""
    until = time.monotonic() + 60
    while "measure" not in host.sh("cat /var/tmp/sweep-*/*/*/progress.json 2>/dev/null; :"):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)


def evidence_of(host: GpuHost, row: dict[str, object]) -> dict[str, Any]:
    found: dict[str, Any] = RunDirectory(host.run).bench(str(row["point"]), 1, 1)["evidence"]
    return found


@pytest.mark.parametrize("metrics", [True, False])
def test_requests_that_are_not_ours(gpu_host: MakeHost, metrics: bool) -> None:
    host = gpu_host(
        {"args": {**ARGS, "enable-metrics": metrics}},
        steps=[2],
        concurrency=[1, 4],
        baseline=False,
        benchmark={"kind": "builtin", "max_tokens": 4000, "requests": 4},
    )
    process = host.start("run", "short")
    wait_for_progress(host, process)
    host.machine.run("/usr/bin/python3", "-c", INTRUDER)
    result = ended(process)
    assert result.status == 0, result.err
    first, second = host.frame().to_dict("records")
    assert "foreign_requests" in str(first["flags"]).split(";")
    found = evidence_of(host, first)["foreign"]
    assert found["requests"] == 5
    assert len(found["seen"]) >= (2 if metrics else 1)
    assert evidence_of(host, first)["verdicts"]["foreign_requests"].startswith("5 or more")
    assert "5 or more requests that are not ours" in result.err
    # The next trial was ours alone.
    assert "foreign_requests" not in str(second["flags"])
    assert "foreign" not in evidence_of(host, second)


@pytest.mark.parametrize("run_on", ["host", "controller"])
def test_a_sweep_alone(gpu_host: MakeHost, run_on: str) -> None:
    host = gpu_host(
        {"args": {**ARGS, "enable-metrics": True}},
        steps="1..2",
        concurrency=[1, 4, 16],
        trials=2,
        benchmark={"kind": "builtin", "max_tokens": 64, "run_on": run_on},
    )
    result = host.sweep("run", "short")
    assert result.status == 0, result.err
    flags = set(";".join(host.frame()["flags"].fillna("")).split(";"))
    assert not flags & {"foreign_requests", "journal_incomplete"}


def test_a_trial_that_others_spoilt_says_so(gpu_host: MakeHost) -> None:
    host = gpu_host(
        {"args": ARGS},
        steps=[2],
        concurrency=[1],
        baseline=False,
        benchmark={"kind": "builtin", "max_tokens": 30000, "trial_timeout_s": 6},
    )
    process = host.start("run", "short")
    wait_for_progress(host, process)
    host.machine.run("/usr/bin/python3", "-c", INTRUDER)
    result = ended(process)
    assert result.status == 1, result.err
    (row,) = host.frame().to_dict("records")
    assert row["failure"] == "hang"
    assert "not done after 6 s" in row["failure_detail"]
    assert "not ours: 5 or more requests" in row["failure_detail"]
    assert "foreign_requests" in row["flags"].split(";")
    assert host.serves()
