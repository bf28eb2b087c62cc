"""A sweep that lost its process or its host goes on where it was: nothing is measured twice."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable

import pandas as pd
import pytest

from tests.whole.conftest import MakeHost
from tests.whole.gpuhost import SIM_ENV, Ended, GpuHost, ended, latest_attempts
from tests.whole.test_interrupts import POINTS, SHORT, wait_for_stage

UNIT, JOBS = "sglang-sweep.service", "'sweep-job-*.service'"
# Long enough to be met on the way, in a trial and in a start.
LONG_TRIALS = {**SHORT, "benchmark": {"kind": "builtin", "max_tokens": 1200}}
LONG_START = {"env": {**SIM_ENV, "SWEEP_SIM_START_S": "6"}}


def wait_until(check: Callable[[], object], what: str, timeout_s: float = 60) -> None:
    until = time.monotonic() + timeout_s
    while not check():
        assert time.monotonic() < until, f"waited {timeout_s} s for {what}"
        time.sleep(0.05)


def events(host: GpuHost, kind: str) -> list[dict[str, object]]:
    lines = (host.run / "events.jsonl").read_text().split("\n")[:-1]
    return [event for line in lines if (event := json.loads(line))["event"] == kind]


def starts(host: GpuHost, launch: str) -> list[object]:
    """The invocations that the run knows of one launch."""
    return [one["invocation"] for one in events(host, "started") if one["launch"] == launch]


def client_at_work(host: GpuHost) -> bool:
    return bool(host.sh(f"systemctl list-units --plain --no-legend {JOBS}"))


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    ended(process)


def assert_complete(host: GpuHost, resumed: Ended, attempts: int = 1) -> pd.DataFrame:
    """The same points and trials as of a sweep that nobody disturbed, each measured once."""
    assert resumed.status == 0, resumed.err
    frame = host.frame()
    assert not frame.duplicated(["point", "trial", "attempt"]).any()
    latest = latest_attempts(frame)
    assert set(latest["status"]) == {"ok"}
    assert set(zip(latest["speculative_num_steps"], latest["concurrency"], strict=True)) == POINTS
    assert len(latest) == len(POINTS)
    assert frame["attempt"].max() == attempts
    assert host.serves()
    assert host.leftovers() == []
    return frame


def first_launch(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["launch"] == "l-01"]


# Every other stage is met by the fault campaign.
@pytest.mark.parametrize("stage", ["start", "stop"])
def test_killed_where_nothing_can_be_gone_on_with(gpu_host: MakeHost, stage: str) -> None:
    host = gpu_host(**SHORT)
    process = host.start("run", "short")
    wait_for_stage(host, process, stage)
    kill(process)
    assert_complete(host, host.sweep("resume"))


def test_a_start_goes_on_and_is_not_begun_again(gpu_host: MakeHost) -> None:
    host = gpu_host(LONG_START, **SHORT)
    process = host.start("run", "short")
    wait_for_stage(host, process, "wait healthy")
    kill(process)
    frame = first_launch(assert_complete(host, host.sweep("resume")))
    assert len(starts(host, "l-01")) == 1
    assert set(frame["invocation_id"]) == {f"i-{starts(host, 'l-01')[0]}"}
    # Seen from the start, or not at all.
    assert (frame["startup_s"].isna() | (frame["startup_s"] > 5)).all()


def test_a_client_at_work_is_waited_for(gpu_host: MakeHost) -> None:
    host = gpu_host(**LONG_TRIALS)
    process = host.start("run", "short")
    wait_for_stage(host, process, "measure")
    wait_until(lambda: client_at_work(host), "the client")
    kill(process)
    # It is held until the next process has found it.
    host.sh(f"systemctl kill -s STOP {JOBS}")
    process = host.start("resume")
    wait_until(lambda: events(host, "adopted"), "the next process")
    host.sh(f"systemctl kill -s CONT {JOBS}")
    resumed = ended(process)
    frame = first_launch(assert_complete(host, resumed))
    assert len(starts(host, "l-01")) == 1
    assert frame["invocation_id"].nunique() == 1
    assert frame["startup_s"].nunique() == 1, "measured by the process that saw it"
    began = pd.Timestamp(str(events(host, "adopted")[0]["ts"]))
    assert (
        pd.Timestamp(frame["started_at"].min()) < began < pd.Timestamp(frame["finished_at"].min())
    )


def test_what_a_client_measured_while_nobody_was_there_is_kept(gpu_host: MakeHost) -> None:
    host = gpu_host(**LONG_TRIALS)
    process = host.start("run", "short")
    wait_for_stage(host, process, "measure")
    wait_until(lambda: client_at_work(host), "the client")
    kill(process)
    wait_until(lambda: not client_at_work(host), "the client's end")
    resumed = host.sweep("resume")
    assert "measured while nobody was there" in resumed.err
    frame = first_launch(assert_complete(host, resumed))
    assert len(starts(host, "l-01")) == 1
    assert frame["invocation_id"].nunique() == 1
    began = pd.Timestamp(str(events(host, "begin")[1]["ts"]))
    assert pd.Timestamp(frame["finished_at"].min()) < began, "when it ended, not when it was found"


def test_a_server_that_somebody_restarted_is_not_gone_on_with(gpu_host: MakeHost) -> None:
    host = gpu_host(**LONG_TRIALS)
    process = host.start("run", "short")
    wait_for_stage(host, process, "measure")
    kill(process)
    host.sh(f"systemctl restart {UNIT}")
    assert_complete(host, host.sweep("resume"))
    assert events(host, "adopted") == []
    assert len(starts(host, "l-01")) == 2


def test_a_client_that_lost_its_server_is_measured_again(gpu_host: MakeHost) -> None:
    host = gpu_host(**LONG_TRIALS)
    process = host.start("run", "short")
    wait_for_stage(host, process, "measure")
    wait_until(lambda: client_at_work(host), "the client")
    kill(process)
    host.sh(f"systemctl kill -s KILL {UNIT}")
    assert_complete(host, host.sweep("resume"))


def test_a_host_away_for_too_long_is_left_to_itself_and_resumed(gpu_host: MakeHost) -> None:
    host = gpu_host(host={"reconnect_for_s": 3, "deadman_s": 303}, **LONG_TRIALS)
    process = host.start("run", "short")
    wait_for_stage(host, process, "measure")
    wait_until(lambda: client_at_work(host), "the client")
    host.machine.link.cut("drop")
    try:
        result = ended(process)
    finally:
        host.machine.link.restore()
    assert result.status == 5, result.err
    assert "its own timer restores production" in result.err
    assert f"sweep resume {host.run.name}" in result.err
    assert_complete(host, host.sweep("resume"))
    assert len(starts(host, "l-01")) == 1


def test_a_start_that_nobody_could_watch_is_not_called_late(gpu_host: MakeHost) -> None:
    """The connection is away for longer than a start may take, which it does not take."""
    host = gpu_host({**LONG_START, "health_timeout_s": 12}, {"reconnect_for_s": 60}, **SHORT)
    process = host.start("run", "short")
    wait_for_stage(host, process, "wait healthy")
    host.machine.link.cut("drop")
    time.sleep(25)
    host.machine.link.restore()
    frame = first_launch(assert_complete(host, ended(process)))
    assert frame["startup_s"].isna().all(), "nobody saw its end"


def test_woken_up_after_the_timer_fetches_results_and_leaves_the_host(gpu_host: MakeHost) -> None:
    host = gpu_host(**LONG_TRIALS)
    process = host.start("run", "short")
    run = wait_for_stage(host, process, "measure")
    wait_until(lambda: client_at_work(host), "the client")
    process.send_signal(signal.SIGSTOP)  # a lid is closed
    wait_until(lambda: not client_at_work(host), "the client's end")
    host.sh(f"systemctl start sweep-restore-{run.name}.service")
    wait_until(host.serves, "production")
    process.send_signal(signal.SIGCONT)
    result = ended(process)
    assert result.status == 5, result.err
    assert "the host's own timer has given it back" in result.err
    assert f"sweep resume {run.name}" in result.err
    assert host.serves()
    frame = host.frame()
    assert frame.iloc[0]["status"] == "ok", "what was measured is fetched"
    assert_complete(host, host.sweep("resume"), attempts=int(len(frame) > 1) + 1)
