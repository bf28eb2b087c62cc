"""The client against a real server: what it sends and holds in flight, and what of trouble."""

from __future__ import annotations

import json
import os
import threading
import time
from itertools import accumulate, pairwise
from statistics import fmean, pstdev

import pytest

from sweep.bench.client.exchange import Target
from sweep.bench.client.guard import Clock
from sweep.bench.client.trial import run, schedule
from tests.bench_client.jobs import body, job, native_body
from tests.bench_client.server import StreamServer


def by_index(result: dict) -> list[dict]:
    return sorted(result["requests"], key=lambda request: request["index"])


def errors(result: dict) -> list[str | None]:
    return [request["error"] for request in by_index(result)]


def test_what_is_measured_agrees_with_what_the_server_did():
    with StreamServer() as server:
        plays = [body(tokens=30, per_chunk=4, gap_s=0.002, verify=9) for _ in range(3)]
        result = run(job(server, plays))
    assert result["error"] is None
    assert errors(result) == [None] * 3
    for request, served in zip(result["requests"], server.served, strict=True):
        assert request["tokens_out"] == 30
        assert sum(request["n"]) == 30
        assert (request["verify"], request["proposed"], request["accepted"]) == (9, 27, 20)
        assert request["asked"] == 30
        assert request["finish"] == "length"
        # The server notes the time just before it sends: nothing arrives earlier than that. Where a
        # read brought several, as on a machine with much else to do, times are estimates.
        sent_at = result["started"] + request["sent"] / 1e6
        moment = sent_at
        for gap, tokens in zip(request["t"], accumulate(request["n"]), strict=True):
            moment += gap / 1e6
            assert moment >= served.sent[-(-tokens // 4)] - 2e-6 or request["merged"]
        assert sent_at <= served.sent[0]
        assert result["started"] + request["end"] / 1e6 >= served.sent[-1]
    client = result["client"]
    assert client["stamped"] == client["reads"] > 0
    assert client["lag_ms_max"] >= client["lag_ms_p99"] >= 0
    assert client["cpu"] > 0


def test_exactly_c_requests_are_in_flight_until_they_are_used_up():
    with StreamServer() as server:
        result = run(job(server, [body(tokens=8, gap_s=0.003) for _ in range(40)], 8))
    assert errors(result) == [None] * 40
    flying = [served.flying for served in server.served]
    # Up to C at once, and from then on a new one only ever takes the place of one that ended.
    assert max(flying) == 8
    assert sorted(flying[:8]) == list(range(1, 9))
    assert min(flying[8:]) >= 1
    sent = sorted(request["sent"] for request in result["requests"])
    ended = sorted(request["end"] for request in result["requests"])
    for place in range(8, 40):
        assert ended[place - 8] <= sent[place]


def test_an_open_loop_sends_when_it_is_time_and_never_more_than_there_are_places():
    def trial(server: StreamServer, **more: object) -> dict:
        return run(job(server, [body(tokens=8, gap_s=0.003) for _ in range(30)], 5, **more))

    with StreamServer() as server:
        result = trial(server, rate=60.0, seed=7)
        other = trial(server, rate=60.0, seed=7)
        third = trial(server, rate=60.0, seed=8)
    assert errors(result) == [None] * 30
    due = [request["due"] for request in by_index(result)]
    assert due == pytest.approx([request["due"] for request in by_index(other)], abs=5000)
    assert due != pytest.approx([request["due"] for request in by_index(third)], abs=5000)
    assert due == pytest.approx([at * 1e6 for at in schedule(60.0, 7, 30)], abs=5000)
    assert due == sorted(due)
    for request in result["requests"]:
        assert request["sent"] >= request["due"]
    assert max(served.flying for served in server.served) <= 5
    sent = sorted(request["sent"] for request in result["requests"])
    assert max(after - before for before, after in pairwise(sent)) > 10_000


def test_arrivals_are_a_poisson_process():
    gaps = [after - before for before, after in pairwise(schedule(4.0, 1, 20_001))]
    assert fmean(gaps) == pytest.approx(0.25, rel=0.03)
    assert pstdev(gaps) == pytest.approx(0.25, rel=0.03)


def test_an_open_loop_waits_out_its_pauses(tmp_path):
    """Nothing comes from the server while nothing is asked: that is no stall."""
    with StreamServer() as server:
        requests = [body(tokens=2) for _ in range(3)]
        result = run(job(server, requests, rate=0.8, seed=1, stall_timeout_s=0.4))
    assert schedule(0.8, 1, 3)[1] > 0.5
    assert result["error"] is None
    assert errors(result) == [None] * 3


def test_connections_are_opened_beforehand_and_kept():
    with StreamServer() as server:
        result = run(job(server, [body(tokens=2) for _ in range(30)], 5))
    assert errors(result) == [None] * 30
    assert len({served.connection for served in server.served}) == 5
    # One more found the address, two asked for /server_info before, two after.
    assert server.connections == 5 + 1 + 4


def test_fewer_requests_than_places():
    with StreamServer() as server:
        result = run(job(server, [body() for _ in range(2)], 6))
    assert errors(result) == [None] * 2


def test_a_server_that_closes_after_each_answer():
    with StreamServer() as server:
        result = run(job(server, [body(framing="close") for _ in range(6)], 2))
    assert errors(result) == [None] * 6
    assert [request["tokens_out"] for request in result["requests"]] == [12] * 6


def test_a_whole_answer_in_one_read():
    with StreamServer() as server:
        result = run(job(server, [body(glue=True) for _ in range(4)], 2))
    assert errors(result) == [None] * 4
    for request in result["requests"]:
        assert sum(request["n"]) == 12
        assert request["merged"] >= 1


TROUBLE = {
    "drop": "connection closed after",
    "short body": "connection closed after",
    "error event": 'error event: {"error": {"message": "out of memory"',
    "no done": "no [DONE] at the end",
    "503": "HTTP 503 (no content type): busy",
    "json": "not an event stream (application/json): {}",
    "not http": "not an HTTP response",
    "invalid json": "invalid JSON in event",
    "invalid utf-8": "invalid UTF-8 in event",
    "silent": "silent for 0.3 s before the first byte",
}


@pytest.mark.parametrize("fault", TROUBLE)
def test_trouble_costs_its_own_request_and_is_named(fault):
    with StreamServer() as server:
        requests = [body(), body(fault=fault), body(), body()]
        result = run(job(server, requests, 1, idle_timeout_s=0.3))
    assert result["error"] is None
    told = errors(result)
    assert TROUBLE[fault] in told[1]
    assert [told[0], told[2], told[3]] == [None, None, None]


@pytest.mark.parametrize(
    ("play", "error"),
    [
        ({"usage": "none"}, "no usage"),
        ({"usage": "empty"}, "no usage"),
        ({"tokens": 0}, "no tokens"),
        ({"finish": "abort"}, "aborted by the server"),
    ],
)
def test_an_answer_without_proof_of_its_tokens_is_not_ok(play, error):
    with StreamServer() as server:
        result = run(job(server, [body(**play)]))
    assert errors(result) == [error]


def test_a_line_of_ten_megabytes_is_read_through():
    with StreamServer() as server:
        result = run(job(server, [body(fault="long line"), body()]))
    assert errors(result) == [None, None]


def test_an_answer_without_end_is_cut_off(monkeypatch):
    monkeypatch.setattr("sweep.bench.client.loop.MAX_READS", 50)
    with StreamServer() as server:
        result = run(job(server, [body(fault="endless"), body()]))
    assert "no end after" in errors(result)[0]
    assert errors(result)[1] is None


def test_a_server_that_drips_is_never_silent_and_yet_comes_to_an_end():
    with StreamServer() as server:
        result = run(job(server, [body(), body(fault="drip"), body()], timeout_s=2))
    assert result["error"]["detail"] == "not done after 2 s (timeout_s)"
    told = errors(result)
    assert told[0] is None
    assert told[1].startswith("not done after 2 s (timeout_s) after ")
    assert told[2] == "not sent: not done after 2 s (timeout_s)"


def test_the_native_endpoint_tells_tokens_and_drafts_of_each_request():
    with StreamServer() as server:
        plays = [native_body(tokens=23, per_chunk=4, verify=9) for _ in range(2)]
        result = run(job(server, plays, path="/generate"))
    assert errors(result) == [None] * 2
    for request in result["requests"]:
        assert sum(request["n"]) == request["tokens_out"] == request["asked"] == 23
        assert (request["verify"], request["proposed"], request["accepted"]) == (9, 27, 13)
        assert request["histogram"] == [2, 2, 4, 1]
        assert (request["finish"], request["tokens_in"], request["ignore_eos"]) == (
            "length", 7, True,
        )  # fmt: skip


NATIVE_TROUBLE = {
    "drop": "connection closed after",
    "error event": 'error event: {"error": {"message": "out of memory"',
    "no done": "no [DONE] at the end",
    "invalid utf-8": "invalid UTF-8 in event",
}


@pytest.mark.parametrize("fault", NATIVE_TROUBLE)
def test_trouble_of_the_native_endpoint(fault):
    with StreamServer() as server:
        plays = [native_body(fault=fault), native_body(usage="none"), native_body(finish="abort")]
        result = run(job(server, plays, path="/generate"))
    told = errors(result)
    assert NATIVE_TROUBLE[fault] in told[0]
    assert told[1:] == ["no usage", "aborted by the server"]


def test_a_server_that_dies_ends_the_trial_at_once():
    with StreamServer() as server:
        requests = [body(tokens=4000, gap_s=0.005) for _ in range(20)]
        threading.Timer(1.5, server.die).start()
        began = time.monotonic()
        result = run(job(server, requests, 4))
    assert time.monotonic() - began < 30  # of 5 * 20 s that it would have taken
    told = errors(result)
    assert len(told) == 20
    assert None not in told
    assert sum("after" in error for error in told) == 4
    assert any(error.startswith("not sent: cannot connect") for error in told)


def test_nobody_listens():
    with StreamServer() as server:
        pass
    result = run(job(server, [body()]))
    assert result["error"]["phase"] == "connect"
    assert (
        f"127.0.0.1:{server.port}: cannot connect: Connection refused" in result["error"]["detail"]
    )


def test_the_deadline_ends_everything_with_what_there_is():
    with StreamServer() as server:
        requests = [body(tokens=2), body(tokens=5000, gap_s=0.05), body(tokens=2)]
        result = run(job(server, requests, 1, timeout_s=4.0))
    assert result["error"] == {
        "phase": "measure", "detail": "not done after 4 s (timeout_s)", "late": True,
    }  # fmt: skip
    told = errors(result)
    assert told[0] is None
    assert told[1].startswith("not done after 4 s (timeout_s) after ")
    assert told[2] == "not sent: not done after 4 s (timeout_s)"


def test_a_clock_that_is_set_spoils_the_trial():
    with StreamServer() as server:
        began = time.monotonic()

        def stepping() -> float:
            step = 0.02 if time.monotonic() - began > 0.3 else 0.0
            return time.time() + step

        clock = Clock(stepping, time.monotonic)
        result = run(job(server, [body(tokens=500, gap_s=0.005)]), clock)
    assert result["error"]["phase"] == "measure"
    assert "clock was set by +0.020 s" in result["error"]["detail"]


@pytest.mark.parametrize(("step_s", "phase"), [(0.016, None), (1.5, "warmup")])
def test_a_clock_that_is_set_a_little_before_times_are_taken_spoils_nothing(step_s, phase):
    with StreamServer() as server:

        def stepping() -> float:
            return time.time() + (step_s if server.served else 0.0)

        warmup = [body(tokens=100, gap_s=0.01)]
        job_ = job(server, [body(tokens=20)], warmup=warmup)
        result = run(job_, Clock(stepping, time.monotonic))
    assert (result["error"] or {}).get("phase") == phase
    if phase is None:
        assert errors(result) == [None]


def test_asked_to_stop():
    with StreamServer() as server:
        requests = [body(tokens=5000, gap_s=0.01) for _ in range(3)]
        result = run(job(server, requests), stopped=lambda: bool(server.served))
    assert result["error"] == {"phase": "measure", "detail": "ended by a signal", "late": False}
    assert len(result["requests"]) == 3


def test_warm_up_then_idle_then_measure_then_collect():
    state = {"avg_spec_accept_length": 2.5, "api_key": "secret", "last_gen_throughput": 10.0}
    first = {"version": "0.5.23", "api_key": "secret", "internal_states": [{"api_key": "secret"}]}
    with StreamServer(busy=2, info=[first, {**first, "internal_states": [state]}]) as server:
        requests = [body(tokens=3)]
        result = run(job(server, requests, 2, warmup=[body(), body()], flush=True))
    assert result["error"] is None
    assert len(result["warmup"].pop("ports")) == 2
    assert result["warmup"] == {"requests": 2, "ok": 2, "tokens": 24, "error": None}
    assert result["flush"] == 200
    looked = ["GET /server_info", "GET /metrics"]
    assert server.controls == ["POST /flush_cache"] * 3 + looked * 2
    assert result["server_before"]["internal_states"] == [{}]
    after = result["server_after"]["internal_states"]
    assert after == [{"avg_spec_accept_length": 2.5, "last_gen_throughput": 10.0}]
    assert "secret" not in json.dumps(result)


def test_a_warm_up_that_fails_is_told_and_nothing_is_measured():
    with StreamServer() as server:
        result = run(job(server, [body()], 2, warmup=[body(fault="503"), body(fault="503")]))
    assert result["error"]["phase"] == "warmup"
    assert "none of 2 warm-up requests is ok: HTTP 503" in result["error"]["detail"]
    assert len(server.served) == 2


def test_a_server_that_never_becomes_idle():
    with StreamServer(busy=1000) as server:
        result = run(job(server, [body()], flush=True, flush_timeout_s=0.2))
    assert result["error"]["phase"] == "flush"
    assert "not idle after 0.2 s; /flush_cache: 400 busy" in result["error"]["detail"]


def test_headers_and_a_prefix():
    with StreamServer() as server:
        with_key = {"headers": {"Authorization": "Bearer k"}, "prefix": ""}
        run(job(server, [body()], **with_key))
        assert "Authorization: Bearer k\r\n" in server.headers[0]
        assert f"Host: 127.0.0.1:{server.port}\r\n" in server.headers[0]
        result = run(job(server, [body()], prefix="/else"))
    assert errors(result) == ["HTTP 404 (no content type): {}"]


def test_an_ipv6_address_stands_in_brackets():
    target = Target("::1", 30000, "", {}, 0, None)
    assert b"\r\nHost: [::1]:30000\r\n" in target.payload("/v1/x", {})


def test_a_long_request_goes_out_in_pieces():
    with StreamServer() as server:
        long = {**body(), "messages": [{"role": "user", "content": "x" * (16 << 20)}]}
        result = run(job(server, [long, long]))
    assert errors(result) == [None, None]
    assert server.served[1].body["messages"] == long["messages"]


def test_a_kept_connection_that_was_closed_meanwhile_is_no_failure():
    """The server says nothing about it and closes; the next request finds out."""
    with StreamServer() as server:
        server.hang_up_after = 1
        result = run(job(server, [body() for _ in range(4)]))
    assert errors(result) == [None] * 4
    assert result["client"]["resent"] == 3


def test_progress_is_one_line_at_any_time(tmp_path):
    path = tmp_path / "progress.json"
    with StreamServer() as server:
        requests = [body(tokens=250, gap_s=0.005), body()]
        result = run(job(server, requests, progress=str(path)))
    assert errors(result) == [None, None]
    line = json.loads(path.read_text())
    assert line["phase"] == "measure"
    assert line["requests"] == 2
    assert 0 <= line["done"] <= 2
    assert line["tokens"] in (0, 250, 262)
    assert path.stat().st_size == 200
    assert not os.access(path, os.X_OK)
