"""A server that hangs costs its launch, says where it hung, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from sweep.results import RunDirectory
from tests.whole.conftest import MakeHost
from tests.whole.gpuhost import SIM_ENV, GpuHost

SMI = """#!/bin/sh
case $* in
*--query-gpu=*) echo '0, GPU-0, Test card, 1.0, 40' ;;
*--query*) ;;
*) echo 'Test card: 100 %, 402 W' ;;
esac
"""
XID = "NVRM: Xid (PCI:0000:3f:00): 109, pid=4711, name=sglang, Ch 00000008, CTX SWITCH TIMEOUT"
DMESG = f"#!/bin/sh\necho '[999999999.000000] {XID}'\n"


@pytest.fixture
def with_card(gpu_host: MakeHost) -> Iterator[MakeHost]:
    """The host has nvidia-smi, and its kernel has something to say."""
    machine = gpu_host().machine
    for name, text in {"nvidia-smi": SMI, "dmesg": DMESG}.items():
        machine.run("tee", f"/usr/local/bin/{name}", stdin=text)
        machine.run("chmod", "755", f"/usr/local/bin/{name}")
    yield gpu_host
    machine.sh("rm -f /usr/local/bin/nvidia-smi /usr/local/bin/dmesg")


def hanging(fault: str) -> dict[str, Any]:
    args = {
        "model-path": "simulated/122b",
        "speculative-algorithm": "NEXTN",
        "speculative-eagle-topk": 1,
        "watchdog-timeout": 10,
    }
    return {"args": args, "env": {**SIM_ENV, "SWEEP_SIM_FAIL": fault}}


BENCHMARK = {"kind": "builtin", "max_tokens": 64, "stall_timeout_s": 3}


def row_and_evidence(host: GpuHost, concurrency: int) -> tuple[pd.Series, dict[str, Any]]:
    frame = host.frame().set_index(["speculative_num_steps", "concurrency"])
    row = frame.loc[(2, concurrency)]
    return row, RunDirectory(host.run).bench(str(row["point"]), 1, 1)["evidence"]


def test_a_hang_ends_its_launch_and_keeps_the_evidence(with_card: MakeHost) -> None:
    host = with_card(
        hanging("hang@steps=2,concurrency=4"),
        steps="2..3",
        concurrency=[1, 4, 16],
        benchmark=BENCHMARK,
        baseline=False,
    )
    result = host.sweep("run", "short")
    assert result.status == 1, result.err
    frame = host.frame()
    assert frame["status"].tolist() == ["ok", "failed", "failed", "ok", "ok", "ok"]
    row, evidence = row_and_evidence(host, 4)
    assert row["failure"] == "hang"
    assert "no byte from the server for 3 s (stall_timeout_s)" in row["failure_detail"]
    assert XID in row["failure_detail"]
    assert "kept in bench/: the journal's end" in row["failure_detail"]
    assert evidence["nvidia_smi"] == "Test card: 100 %, 402 W"
    assert any(XID in line for line in evidence["kernel"])
    assert any("Prefill batch" in line for line in evidence["journal"])
    assert "sweep.demo.simulator" in evidence["processes"]
    # The server that hung was not asked again.
    row, evidence = row_and_evidence(host, 16)
    assert row["failure"] == "hang"
    assert "kernel" not in evidence
    assert host.serves()
    assert host.leftovers() == []


def test_what_sglangs_own_watchdog_says_is_kept(with_card: MakeHost) -> None:
    host = with_card(
        hanging("watchdog@steps=2,concurrency=4"),
        steps=[2],
        concurrency=[1, 4],
        benchmark=BENCHMARK,
        baseline=False,
    )
    result = host.sweep("run", "short")
    assert result.status == 1, result.err
    row, evidence = row_and_evidence(host, 4)
    assert row["failure"] == "watchdog"
    assert "stacks of 1 processes" in row["failure_detail"]
    (stack,) = evidence["stacks"]
    assert stack.startswith("Pyspy dump for PID ")
    assert "eagle_worker_v2.py:791" in stack
    assert host.serves()
