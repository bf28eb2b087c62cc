"""A server that stops talking ends the trial; one that is slow, or busy with others, does not."""

from __future__ import annotations

import json
from pathlib import Path

from sweep.bench.client.trial import run
from tests.bench_client.jobs import body, job
from tests.bench_client.server import StreamServer


def test_tokens_that_stop_flowing_end_the_trial():
    with StreamServer() as server:
        requests = [body(tokens=2), body(tokens=20, gap_s=4)]
        result = run(job(server, requests, 1, stall_timeout_s=0.5, first_timeout_s=30))
    assert result["error"] == {
        "phase": "measure",
        "detail": "no byte from the server for 0.5 s (stall_timeout_s)",
        "late": True,
    }
    done, hung = result["requests"]
    assert done["error"] is None
    assert hung["error"].startswith("no byte from the server for 0.5 s (stall_timeout_s) after ")


def test_a_first_byte_that_never_comes_ends_the_trial():
    with StreamServer() as server:
        requests = [body(fault="silent")]
        result = run(job(server, requests, 1, stall_timeout_s=0.1, first_timeout_s=0.7))
    assert result["error"]["detail"] == "no byte from the server for 0.7 s (before the first byte)"
    assert result["error"]["late"] is True


def test_one_slow_request_beside_others_that_flow_is_no_stall():
    with StreamServer() as server:
        requests = [body(tokens=1, gap_s=0.7), body(tokens=80, gap_s=0.05)]
        result = run(job(server, requests, 2, stall_timeout_s=0.5, first_timeout_s=30))
    assert result["error"] is None
    assert [request["error"] for request in result["requests"]] == [None, None]


def test_the_progress_says_for_how_long_nothing_came(tmp_path: Path):
    progress = tmp_path / "progress.json"
    with StreamServer() as server:
        requests = [body(tokens=3, gap_s=5)]
        limits = {"stall_timeout_s": 2.5, "first_timeout_s": 30, "progress": str(progress)}
        run(job(server, requests, 1, **limits))
    said = json.loads(progress.read_text())
    assert said["silent_s"] >= 1


def test_every_connection_of_ours_is_known_by_its_port():
    with StreamServer() as server:
        requests = [body() for _ in range(6)]
        result = run(job(server, requests, 3, warmup=[body(), body()]))
    ports = [*result["ports"], *result["warmup"]["ports"]]
    assert len(result["ports"]) == 3
    assert len(set(ports)) == len(ports) >= 4
    assert all(0 < port < 65536 for port in ports)
