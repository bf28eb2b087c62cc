"""Against the simulated server: the same words and answers as SGLang, read by the same code."""

from __future__ import annotations

import http.client
from contextlib import suppress
from pathlib import Path

import pytest

from sweep.plan import ServerConfig
from sweep.sglang.api import Api
from sweep.sglang.args import expected
from sweep.sglang.failures import classify
from sweep.sglang.journal import scrape
from sweep.sglang.verify import capacity, mismatches
from tests.demo.simulated import SPECULATIVE, simulated

MEANT = ServerConfig(
    args=(
        ("model-path", "/models/m"),
        ("speculative-algorithm", "NEXTN"),
        ("speculative-num-steps", 3),
        ("speculative-eagle-topk", 1),
    ),
    env=(),
)


def test_a_healthy_server(tmp_path: Path) -> None:
    with simulated(tmp_path, *SPECULATIVE, "--enable-metrics") as server:
        server.until_ready()
        api = Api(server.port)
        assert api.health().ok
        info = api.server_info()
        assert mismatches(expected(MEANT), info) == ()
        more = ServerConfig((*MEANT.args[:2], ("speculative-num-steps", 4), MEANT.args[3]), ())
        assert len(mismatches(expected(more), info)) == 2
        server.chat("12")
        found = scrape(server.log_file.read_bytes())
        assert (found.ready, found.failure, found.speculative_num_draft_tokens) == (True, None, 4)
        agreed = capacity(found, info)
        assert agreed.max_running_requests == found.max_running_requests
        assert agreed.flags == frozenset()
        assert api.flush_cache() is True
        assert api.abort_all() is True
        assert api.models()[0]["id"]
        assert api.model_info()["model_path"] == "/models/m"
        assert api.metrics()


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("oom", "cuda_oom"),
        ("kv", "kv_cache_too_small"),
        ("weights", "kv_cache_too_small"),
        ("graph_capture", "graph_capture"),
        ("nccl", "nccl"),
        ("host_oom", "host_oom_kill"),
        ("model_missing", "model_not_found"),
        ("warmup", "warmup_failed"),
        ("exit0", "unknown"),
    ],
)
def test_a_start_that_fails(tmp_path: Path, fault: str, kind: str) -> None:
    with simulated(tmp_path, *SPECULATIVE, fail=fault) as server:
        status = server.ended()
    found = classify(
        server.log_file.read_bytes(),
        result="success" if status == 0 else "exit-code",
        exit_code="exited" if status >= 0 else "killed",
        exit_status=abs(status),
    )
    assert found.kind == kind, found


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        (("--no-such-flag",), "bad_argument"),
        (SPECULATIVE[:4], "invalid_configuration"),
    ],
)
def test_arguments_that_fail(tmp_path: Path, flags: tuple[str, ...], kind: str) -> None:
    with simulated(tmp_path, *flags) as server:
        status = server.ended()
    found = classify(
        server.log_file.read_bytes(), result="exit-code", exit_code="1", exit_status=status
    )
    assert found.kind == kind, found


@pytest.mark.parametrize(
    ("fault", "kind"), [("crash", "scheduler_crash"), ("watchdog", "watchdog")]
)
def test_a_server_that_dies_while_it_serves(tmp_path: Path, fault: str, kind: str) -> None:
    flags = (*SPECULATIVE, "--watchdog-timeout", "5")
    with simulated(tmp_path, *flags, fail=fault) as server:
        server.until_ready()
        with suppress(OSError, http.client.HTTPException):
            server.chat("long", max_tokens=100_000)
        server.ended()
    log = server.log_file.read_bytes()
    found = classify(log, result="signal", exit_code="killed", exit_status=9, ready=True)
    assert found.kind == kind, found
    assert scrape(log).ready
