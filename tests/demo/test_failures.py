"""Failures on demand print SGLang's own words and end as SGLang ends."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from sweep.demo.failures import Fault, read_faults
from tests.demo.simulated import SPECULATIVE, simulated

KILLED = -signal.SIGKILL
FIRED_UP = "The server is fired up and ready to roll!"


@pytest.mark.parametrize(
    ("kind", "status", "signature"),
    [
        ("oom", KILLED, r"torch\.OutOfMemoryError: CUDA out of memory"),
        ("kv", KILLED, r"Not enough memory\. Please try to increase --mem-fraction-static"),
        ("weights", KILLED, r"Loaded weights leave no GPU memory for the KV cache"),
        ("graph_capture", KILLED, r"Capture cuda graph failed"),
        ("nccl", KILLED, r"NCCL error:"),
        ("host_oom", 1, r"Rank \d+ scheduler died during initialization \(exit code: -9\)"),
        ("model_missing", 1, r"OSError: .* is not a local folder"),
        ("warmup", KILLED, r"Initialization failed\. warmup error"),
        ("exit0", 0, r"^\Z"),
    ],
)
def test_a_start_that_fails(tmp_path: Path, kind: str, status: int, signature: str) -> None:
    with simulated(tmp_path, *SPECULATIVE, fail=f"{kind}@steps=3") as server:
        assert server.ended() == status
        assert re.search(signature, server.log)
        assert FIRED_UP not in server.log
        if status == KILLED and kind != "warmup":
            assert "Scheduler hit an exception: Traceback" in server.log
            assert "Received sigquit from a child process" in server.log


@pytest.mark.parametrize(
    ("flags", "status", "signature"),
    [
        (["--no-such-flag"], 2, "error: unrecognized arguments: --no-such-flag"),
        (["--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3"], 1, "TypeError: '>'"),
        (["--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3",
          "--speculative-eagle-topk", "4"], KILLED, "Scheduler hit an exception"),
    ],
)  # fmt: skip
def test_arguments_that_fail(tmp_path: Path, flags: list[str], status: int, signature: str) -> None:
    with simulated(tmp_path, *flags) as server:
        assert server.ended() == status
        assert signature in server.log


def test_a_crash_waits_for_its_concurrency(tmp_path: Path) -> None:
    with simulated(tmp_path, *SPECULATIVE, fail="crash@concurrency=2") as server:
        server.until_ready()
        assert server.chat("alone").status == 200
        with (
            server.open("POST", "/generate", _long("a")).sock,
            server.open("POST", "/generate", _long("b")).sock,
        ):
            assert server.ended() == KILLED
        assert "illegal memory access" in server.log
        assert "SIGQUIT received. signum=None" in server.log


def test_a_watchdog_ends_a_hung_forward(tmp_path: Path) -> None:
    with simulated(tmp_path, "--watchdog-timeout", "5", fail="watchdog") as server:
        server.until_ready()
        with server.open("POST", "/generate", _long("a")).sock:
            assert server.ended() == KILLED
        assert (
            "Scheduler watchdog timeout (self.watchdog_timeout=5.0, self.soft=False)" in server.log
        )


def test_a_hang_ends_health_but_not_the_process(tmp_path: Path) -> None:
    with simulated(tmp_path, fail="hang") as server:
        server.until_ready()
        with server.open("POST", "/generate", _long("a")).sock:
            while server.get("/health").status == 200:
                pass
            assert server.get("/flush_cache").status == 400
            assert server.process.poll() is None


def test_never_healthy_is_up_and_starting(tmp_path: Path) -> None:
    with simulated(tmp_path, fail="never_healthy") as server:
        server.until("Uvicorn running")
        assert server.get("/health").status == 503
        assert server.get("/ready").status == 503
        assert server.get("/server_info").status == 200
        assert server.process.poll() is None


def test_another_configuration_than_the_one_asked_for(tmp_path: Path) -> None:
    with simulated(tmp_path, *SPECULATIVE, fail="wrong_configuration") as server:
        server.until_ready()
        assert server.get("/server_info").json["speculative_num_steps"] == 2


def test_no_scheduler_line(tmp_path: Path) -> None:
    with simulated(tmp_path, fail="no_line") as server:
        server.until_ready()
        assert "max_total_num_tokens=" not in server.log


def test_a_fault_of_another_steps_value_does_nothing(tmp_path: Path) -> None:
    with simulated(tmp_path, *SPECULATIVE, fail="oom@steps=7;exit0@steps=2") as server:
        server.until_ready()
        assert server.get("/health").status == 200


def test_faults_are_read_from_a_file_when_the_server_starts(tmp_path: Path) -> None:
    file = tmp_path / "fail"
    assert not read_faults(f"@{file}", 3).at_start("oom")
    file.write_text("oom@steps=3\ncrash@steps=3,concurrency=16\n")
    faults = read_faults(f"@{file}", 3)
    assert faults.at_start("oom")
    assert faults.serving(15) is None
    assert faults.serving(16) == Fault("crash", 16)
    assert not read_faults(f"@{file}", 4).at_start("oom")


@pytest.mark.parametrize("text", ["boom", "oom@colour=red", "oom@steps"])
def test_faults_that_cannot_be_meant(text: str) -> None:
    with pytest.raises(ValueError, match="SWEEP_SIM_FAIL"):
        read_faults(text, 1)


def _long(prompt: str) -> dict[str, object]:
    return {"text": prompt, "sampling_params": {"max_new_tokens": 20000, "ignore_eos": True}}
