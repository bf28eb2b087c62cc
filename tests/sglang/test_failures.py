"""Why a launch failed: the log, systemd's word, and both together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.rows import FAILURES
from sweep.sglang.failures import classify, steps_independent
from tests.sglang.forms import ARGS, DECODE, FORMS, LINES, READY

CRASH = (
    "[2026-11-03 02:10:02 DP0 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "/opt/sglang/scheduler.py", line 6359, in run_scheduler_process\n'
    "    scheduler.run_event_loop()\n"
    "{raised}\n\n"
    "[2026-11-03 02:10:03] SIGQUIT received. signum=None, frame=None. It usually means one child "
    "failed.\n"
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
SERVING = FORMS["cat"](LINES)


@pytest.mark.parametrize(
    ("result", "code", "status", "ready", "kind"),
    [
        ("oom-kill", "killed", 9, False, "host_oom_kill"),
        ("oom-kill", "2", 9, True, "host_oom_kill"),
        ("exit-code", "exited", 203, False, "exec_failed"),
        ("exit-code", "1", 217, False, "exec_failed"),
        ("exit-code", "exited", 203, True, "exec_failed"),
        ("exit-code", "exited", 127, False, "exec_failed"),
        ("exit-code", "exited", 126, False, "exec_failed"),
        ("resources", "", None, False, "exec_failed"),
        ("exit-code", "exited", 2, False, "bad_argument"),
        ("exit-code", "exited", 2, True, "unknown"),
        ("timeout", "killed", 15, False, "start_timeout"),
        ("timeout", "killed", 9, True, "unknown"),
        ("watchdog", "dumped", 6, True, "watchdog"),
        ("exit-code", "exited", 1, False, "unknown"),
        ("signal", "killed", 9, False, "unknown"),
        ("core-dump", "dumped", 11, False, "unknown"),
        ("success", "exited", 0, False, "unknown"),
        ("", "", None, False, "unknown"),
    ],
)
def test_systemd_alone(result: str, code: str, status: int | None, ready: bool, kind: str) -> None:
    found = classify(b"", result=result, exit_code=code, exit_status=status, ready=ready)
    assert found.kind == kind
    assert found.detail


def test_a_log_that_says_why_beats_the_exit_status() -> None:
    crashed = (SERVING + CRASH.format(raised=OOM)).encode()
    for status, code in ((9, "killed"), (0, "exited"), (2, "exited")):
        found = classify(crashed, result="signal", exit_code=code, exit_status=status, ready=True)
        assert (found.kind, found.detail) == ("cuda_oom", OOM)


def test_the_kernels_kill_beats_a_warning_in_the_log() -> None:
    found = classify(f"{ARGS}\n{OOM}\n".encode(), result="oom-kill", exit_code="killed")
    assert found.kind == "host_oom_kill"


def test_a_container_that_ends_with_0_after_a_crash() -> None:
    log = ARGS + "\n" + CRASH.format(raised="AssertionError: Memory pool size is too small")
    found = classify(log.encode(), result="success", exit_code="exited", exit_status=0)
    assert found.kind == "kv_cache_too_small"


def test_an_end_nobody_explains_shows_the_last_line() -> None:
    found = classify(SERVING.encode(), result="success", exit_code="1", exit_status=0, ready=True)
    assert found.kind == "unknown"
    assert found.detail.startswith("ended with status 0 (Result=success); its last line: Decode")
    found = classify(b"\n", result="signal", exit_code="killed", exit_status=9)
    assert found.detail == "killed by signal 9 (Result=signal); it printed nothing"


def test_a_server_that_does_not_answer_any_more_hangs() -> None:
    unwell = (
        "[2026-11-03 02:40:00] Health check failed. Server couldn't get a response from "
        "detokenizer for last 20 seconds. tic start time: 02:39:40. last_heartbeat time: 02:31:00"
    )
    found = classify(f"{SERVING}{unwell}\n".encode(), ready=True)
    assert found.kind == "hang"
    assert found.detail.startswith("Health check failed.")


def test_healthy_by_http_but_the_log_lacks_the_line() -> None:
    log = SERVING.replace(READY, "").replace(DECODE, OOM + "\n" + DECODE)
    assert classify(log.encode(), ready=True).kind == "unknown"
    assert classify(log.encode(), ready=False).kind == "cuda_oom"


def test_after_the_stop_we_asked_for_nothing_counts() -> None:
    stop = "[2026-11-03 02:50:00] SIGTERM received. signum=None frame=None. Draining requests\n"
    log = SERVING + stop + CRASH.format(raised=OOM)
    assert classify(log.encode(), ready=True).kind == "unknown"


def test_a_child_told_to_quit_is_not_the_root() -> None:
    quit_first = "[2026-11-03 02:10:02] Subprocess scheduler_0 (pid=9) crashed with exit code -3. X"
    log = SERVING + quit_first + "\n" + CRASH.format(raised="RuntimeError: NCCL error: internal")
    assert classify(log.encode(), ready=True).kind == "nccl"
    killed = quit_first.replace("-3", "-9")
    assert classify((SERVING + killed).encode(), ready=True).kind == "host_oom_kill"


def test_the_detail_is_one_short_line_without_secrets() -> None:
    raised = "RuntimeError: bad --api-key topsecret\x07 \x1b[31mred " + "x" * 500
    found = classify((ARGS + "\n" + CRASH.format(raised=raised)).encode())
    assert found.detail.startswith("RuntimeError: bad --api-key [redacted]")
    assert len(found.detail) <= 300
    assert found.detail.isprintable()


def test_source_lines_in_a_traceback_are_no_evidence() -> None:
    code = (
        '    assert slots > 0, "max_running_request is zero"\nIndexError: list index out of range'
    )
    found = classify((ARGS + "\n" + CRASH.format(raised=code)).encode())
    assert (found.kind, found.detail) == ("scheduler_crash", "IndexError: list index out of range")


@pytest.mark.parametrize("kind", FAILURES)
def test_what_more_steps_cannot_change(kind: str) -> None:
    never = {"bad_argument", "exec_failed", "model_not_found", "port_in_use", "host_disk_full"}
    assert steps_independent(kind) is (kind in never | {"gpu_busy", "preempted"})


@given(
    st.binary(max_size=200),
    st.sampled_from(["", "success", "exit-code", "signal", "core-dump", "timeout", "new-word"]),
    st.sampled_from(["", "0", "1", "2", "3", "exited", "killed", "dumped"]),
    st.integers(),
)
def test_always_an_answer(journal: bytes, result: str, code: str, status: int) -> None:
    found = classify(journal, result=result, exit_code=code, exit_status=status)
    assert found.kind in FAILURES
    assert "\n" not in found.detail
