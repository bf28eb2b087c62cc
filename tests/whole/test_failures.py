"""A launch that fails costs its own rows, says why, and nothing else."""

from __future__ import annotations

import pandas as pd

from tests.whole.conftest import MakeHost
from tests.whole.gpuhost import SIM_ENV, GpuHost

FAULTS = {
    2: ("oom@steps=2", "cuda_oom"),
    3: ("exit0@steps=3", "unknown"),
    4: ("crash@steps=4,concurrency=16", "scheduler_crash"),
    5: ("never_healthy@steps=5", "start_timeout"),
    6: ("wrong_configuration@steps=6", "wrong_configuration"),
    7: ("kv@steps=7", "kv_cache_too_small"),
}


def failing(*faults: str) -> dict[str, object]:
    return {"env": {**SIM_ENV, "SWEEP_SIM_FAIL": ";".join(faults)}, "health_timeout_s": 6}


def row_of(host: GpuHost, steps: int, concurrency: int) -> pd.Series:
    frame = host.frame().set_index(["speculative_num_steps", "concurrency"])
    return frame.loc[(steps, concurrency)]


def test_each_failure_costs_its_own_rows_only(gpu_host: MakeHost) -> None:
    host = gpu_host(
        failing(*(fault for fault, _ in FAULTS.values())),
        steps="1..8",
        concurrency=[1, 16],
        max_consecutive_failures=9,
    )
    result = host.sweep("run", "short")
    assert result.status == 1, result.err
    frame = host.frame()
    assert len(frame) == 18
    good = frame[frame["status"] == "ok"]
    found = set(zip(good["speculative_num_steps"], good["concurrency"], strict=True))
    assert found == {(steps, c) for steps in (0, 1, 8) for c in (1, 16)} | {(4, 1)}
    for steps, (_, kind) in FAULTS.items():
        row = row_of(host, steps, 16)
        assert row["failure"] == kind, (steps, row["failure"], row["failure_detail"])
        assert isinstance(row["failure_detail"], str)
    assert f"sweep resume {host.run.name}" in result.err
    assert host.serves()
    assert host.leftovers() == []


def test_three_failures_alike_in_a_row_stop_the_sweep(gpu_host: MakeHost) -> None:
    faults = (f"oom@steps={steps}" for steps in (2, 3, 4, 5))
    host = gpu_host(failing(*faults), steps="1..6", concurrency=[1])
    result = host.sweep("run", "short")
    assert result.status == 1
    frame = host.frame()
    assert frame["speculative_num_steps"].tolist() == [0, 1, 2, 3, 4]
    assert "stopped by the failure brake: 3 launches in a row failed with cuda_oom" in result.err
    assert host.serves()


def test_a_flag_the_server_refuses_stops_at_the_first_launch(gpu_host: MakeHost) -> None:
    args = {
        "model-path": "simulated/122b",
        "speculative-algorithm": "NEXTN",
        "speculative-eagle-topk": 1,
        "no-such-flag": 1,
    }
    host = gpu_host({"args": args}, steps="1..3", concurrency=[1])
    result = host.sweep("run", "short")
    assert result.status == 1, result.err
    frame = host.frame()
    assert frame["failure"].tolist() == ["bad_argument"]
    assert "unrecognized arguments: --no-such-flag" in frame["failure_detail"][0]
    assert "which no number of steps changes" in result.err
    assert host.serves()


def test_resume_repeats_what_failed_and_nothing_else(gpu_host: MakeHost) -> None:
    flag = "/tmp/sweep-sim-fail"
    server = failing("@" + flag)
    host = gpu_host(server, steps="1..3", concurrency=[1, 4])
    host.machine.sh(f"echo 'oom@steps=2' > {flag}")
    assert host.sweep("run", "short").status == 1
    before = host.frame()
    assert (before["status"] == "failed").sum() == 2
    assert host.sweep("resume", "--skip-failed").status == 1
    assert len(host.frame()) == len(before)
    host.machine.sh(f"rm {flag}")
    result = host.sweep("resume")
    assert result.status == 0, result.err
    frame = host.frame()
    assert len(frame) == len(before) + 2
    again = frame[frame["attempt"] == 2]
    assert set(again["speculative_num_steps"]) == {2}
    assert set(again["status"]) == {"ok"}
