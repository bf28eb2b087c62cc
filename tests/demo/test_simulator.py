"""The simulated server answers, streams, admits and stops as SGLang 0.5.23 does."""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo.simulated import SPECULATIVE, Simulated, chat_body, free_port, simulated

SCHEDULER_LINE = re.compile(r"max_total_num_tokens=(\d+), .*max_running_requests=(\d+)\b")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    """A shared server with steps=3: tests must leave it idle."""
    with simulated(
        tmp_path_factory.mktemp("sim"), *SPECULATIVE, "--enable-metrics", "--decode-log-interval=5"
    ) as running:
        running.until_ready()
        yield running


def test_start_up_lines_come_in_sglangs_order(server: Simulated) -> None:
    expected = [
        "Max running requests is reset to 48",
        "speculative_num_draft_tokens is adjusted",
        "server_args={'",
        "Load weight begin.",
        "Multi-thread loading shards: 100% Completed",
        "Load weight end.",
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 318911",
        "Memory pool end.",
        "Capture target verify CUDA graph begin.",
        "Capture draft extend CUDA graph end.",
        "max_total_num_tokens=318911, chunked_prefill_size=8192, max_prefill_tokens=16384, "
        "max_running_requests=17, context_len=262144, available_gpu_mem=",
        "Tree cache initialized:",
        "Engine startup timings (s): load_weight=",
        "INFO:     Started server process",
        "INFO:     Uvicorn running on http://127.0.0.1:",
        "Prefill batch, #new-seq: 1",
        "The server is fired up and ready to roll!",
    ]
    at = -1
    for line in expected:
        assert line in server.log[at + 1 :], line
        at = server.log.index(line, at + 1)


def test_the_scheduler_line_is_glued_behind_a_bar(server: Simulated) -> None:
    (line,) = (line for line in server.log.split("\n") if SCHEDULER_LINE.search(line))
    assert line.startswith("\rCapturing batches")
    assert "[00:00][20" in line


@pytest.mark.parametrize(
    "path", ["/", "/v1/loads", "/health", "/health_generate", "/ready", "/v1/models", "/model_info",
             "/get_model_info", "/server_info", "/get_server_info", "/metrics"],
)  # fmt: skip
def test_endpoints_answer(server: Simulated, path: str) -> None:
    assert server.get(path).status == 200


@pytest.mark.parametrize("path", ["/version", "/get_load"])
def test_endpoints_that_are_not_there(server: Simulated, path: str) -> None:
    assert server.get(path).status == 404


def test_server_info_holds_resolved_arguments_and_states(server: Simulated) -> None:
    info = server.get("/server_info").json
    assert info["version"] == "0.5.23"
    assert info["speculative_algorithm"] == "EAGLE"
    assert info["speculative_num_draft_tokens"] == 4
    assert info["max_running_requests"] == 48
    assert info["max_total_num_tokens"] == 318911
    (state,) = info["internal_states"]
    assert state["effective_max_running_requests_per_dp"] == 17
    assert state["memory_usage"]["token_capacity"] == 318911


def test_models(server: Simulated) -> None:
    (card,) = server.get("/v1/models").json["data"]
    assert (card["id"], card["max_model_len"]) == ("/models/m", 262144)


def test_a_stream_holds_several_tokens_a_chunk_and_usage_at_the_end(server: Simulated) -> None:
    answer = server.chat(
        "stream", stream=True, stream_options={"include_usage": True},
        return_spec_tokens_details=True,
    )  # fmt: skip
    first, *middle, finish, details, usage = answer.events
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert first["object"] == "chat.completion.chunk"
    texts = [event["choices"][0]["delta"]["content"] for event in middle]
    assert sum(len(text.split()) for text in texts) == 100
    assert len(texts) < 50
    assert finish["choices"][0]["finish_reason"] == "length"
    spec = details["sglext"]["spec_tokens_details"]
    assert details["choices"] == usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 100
    assert spec["spec_accept_length"] == pytest.approx(100 / spec["spec_verify_ct"])
    assert spec["spec_num_proposed_drafts"] == 3 * spec["spec_verify_ct"]
    assert sum(spec["spec_correct_drafts_histogram"]) == spec["spec_verify_ct"]


def test_usage_in_every_chunk_when_asked_for(server: Simulated) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    events = server.chat("usage", stream=True, stream_options=options).events
    counts = [event["usage"]["completion_tokens"] for event in events if event.get("usage")]
    assert counts == sorted(counts)
    assert counts[-1] == 100


def test_no_usage_unless_asked_for(server: Simulated) -> None:
    events = server.chat("none", stream=True).events
    assert not any("usage" in event or "sglext" in event for event in events)


def test_whole_answers(server: Simulated) -> None:
    chat = server.chat("whole", return_spec_tokens_details=True).json
    assert chat["object"] == "chat.completion"
    assert len(chat["choices"][0]["message"]["content"].split()) == 100
    assert chat["usage"]["completion_tokens"] == 100
    assert chat["sglext"]["spec_tokens_details"]["spec_verify_ct"] > 0
    plain = server.post("/v1/completions", {"prompt": "whole", "ignore_eos": True}).json
    assert (plain["object"], plain["usage"]["completion_tokens"]) == ("text_completion", 16)
    assert len(plain["choices"][0]["text"].split()) == 16


def test_generate_streams_the_whole_text_each_time(server: Simulated) -> None:
    body = {"text": "go", "stream": True, "sampling_params": {"max_new_tokens": 60}}
    body["sampling_params"]["ignore_eos"] = True  # type: ignore[index]
    events = server.post("/generate", body).events
    counts = [event["meta_info"]["completion_tokens"] for event in events]
    assert [len(event["text"].split()) for event in events] == counts
    meta = events[-1]["meta_info"]
    assert meta["finish_reason"] == {"type": "length", "length": 60}
    assert {"id", "prompt_tokens", "cached_tokens", "e2e_latency", "spec_accept_rate",
            "spec_accept_length", "spec_num_correct_drafts", "spec_num_proposed_drafts",
            "spec_verify_ct", "spec_correct_drafts_histogram"} <= set(meta)  # fmt: skip


def test_the_same_prompt_is_accepted_the_same_way(server: Simulated) -> None:
    body = {"text": "again", "sampling_params": {"max_new_tokens": 200, "ignore_eos": True}}
    one, two = (server.post("/generate", body).json for _ in range(2))
    histogram = "spec_correct_drafts_histogram"
    assert one["text"] == two["text"]
    assert one["meta_info"][histogram] == two["meta_info"][histogram]
    assert one["meta_info"]["cached_tokens"] == 0 < two["meta_info"]["prompt_tokens"]


def test_without_ignore_eos_it_may_stop_early(server: Simulated) -> None:
    body = {"text": "stop", "sampling_params": {"max_new_tokens": 5000}}
    answer = server.post("/generate", body).json["meta_info"]
    assert answer["finish_reason"]["type"] == "stop"
    assert answer["completion_tokens"] < 1700


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{", "Bad Request"),
        ({"messages": []}, "BadRequestError"),
        ({"messages": [{"content": "x"}]}, "Bad Request"),
        (chat_body("x", stream="perhaps"), "Bad Request"),
        (chat_body("x", max_tokens=300000), "BadRequestError"),
    ],
)
def test_bodies_it_refuses(server: Simulated, body: object, kind: str) -> None:
    answer = server.post("/v1/chat/completions", body)
    assert answer.status == 400
    assert answer.json["type"] == kind


def test_acceptance_totals_grow_with_decode_lines_and_a_flush_empties_them(
    server: Simulated,
) -> None:
    server.chat("totals", max_tokens=300)
    (state,) = server.get("/server_info").json["internal_states"]
    assert 3 < state["avg_spec_accept_length"] < 4
    assert state["last_gen_throughput"] > 0
    assert server.post("/flush_cache").status == 200
    (state,) = server.get("/server_info").json["internal_states"]
    assert "avg_spec_accept_length" not in state
    line = re.search(
        r"Decode batch, #running-req: 1, #token: \d+, token usage: [\d.]+, accept len: ([\d.]+), "
        r"accept rate: [\d.]+, cuda graph: True, gen throughput \(token/s\): [\d.]+, "
        r"#queue-req: 0",
        server.log,
    )
    assert line is not None
    assert 1 <= float(line[1]) <= 4


def test_a_flush_is_refused_while_a_request_runs(server: Simulated) -> None:
    with server.streaming(50000) as response:
        assert server.post("/flush_cache").status == 400
        assert server.post("/abort_request", {"abort_all": True}).status == 200
        assert b'"finish_reason":"abort"' in response.read()
    assert server.post("/flush_cache?timeout=5").status == 200


def test_a_client_that_goes_away_ends_its_request(server: Simulated) -> None:
    with server.streaming(100000):
        pass
    assert server.post("/flush_cache?timeout=30").status == 200


def test_metrics(server: Simulated) -> None:
    text = server.get("/metrics").body.decode()
    names = ["spec_accept_length", "spec_num_steps", "spec_verify_calls_total", "gen_throughput",
             "num_running_reqs", "num_queue_reqs", "max_total_num_tokens",
             "generation_tokens_total"]  # fmt: skip
    for name in names:
        assert re.search(rf"^sglang:{name}{{.*}} [\d.]+$", text, re.MULTILINE), name


def test_only_max_running_requests_run_at_once(tmp_path: Path) -> None:
    flags = ("--max-running-requests", "4", "--decode-log-interval", "1")
    with simulated(tmp_path, *flags) as server:
        server.until_ready()
        with concurrent.futures.ThreadPoolExecutor(12) as clients:
            answers = list(clients.map(lambda n: server.chat(f"{n}").json, range(12)))
        assert all(answer["usage"]["completion_tokens"] == 100 for answer in answers)
        seen = re.findall(r"Decode batch, #running-req: (\d+),.*#queue-req: (\d+)", server.log)
        assert max(int(running) for running, _ in seen) == 4
        assert max(int(queued) for _, queued in seen) >= 4


def test_the_kv_pool_limits_what_runs_at_once(tmp_path: Path) -> None:
    with simulated(tmp_path, "--max-total-tokens", "250", "--decode-log-interval", "1") as server:
        server.until_ready()
        with concurrent.futures.ThreadPoolExecutor(5) as clients:
            list(clients.map(lambda n: server.chat(f"{n}"), range(5)))
        seen = re.findall(r"Decode batch, #running-req: (\d+)", server.log)
        assert max(map(int, seen)) == 2


def test_sixty_four_clients_are_served(tmp_path: Path) -> None:
    with simulated(tmp_path, *SPECULATIVE) as server:
        server.until_ready()
        options = {"include_usage": True}
        with concurrent.futures.ThreadPoolExecutor(64) as clients:
            chats = clients.map(
                lambda n: server.chat(f"{n}", stream=True, stream_options=options), range(128)
            )
            answers = [chat.events[-1] for chat in chats]
    assert {answer["usage"]["completion_tokens"] for answer in answers} == {100}


def test_an_api_key_guards_all_but_health_and_metrics(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.yaml"
    secrets.write_text("api-key: s3cret\n")
    with simulated(tmp_path, "--config", str(secrets), "--enable-metrics") as server:
        server.until_ready()
        for path in ("/health", "/health_generate", "/ready", "/metrics"):
            assert server.get(path).status == 200
        for path in ("/v1/models", "/server_info", "/model_info"):
            assert server.get(path).status == 401
        assert server.chat().status == 401
        server.headers["Authorization"] = "Bearer s3cret"
        assert server.get("/server_info").json["api_key"] == "s3cret"
        assert "s3cret" not in server.get("/server_info").json["launch_command"]


def test_every_dp_rank_prints_its_line_and_has_a_state(tmp_path: Path) -> None:
    with simulated(tmp_path, "--dp", "2", "--tp", "2") as server:
        server.until_ready()
        prefixes = re.findall(r"(DP\d TP\d)\] max_total_num_tokens", server.log)
        assert prefixes == ["DP0 TP0", "DP1 TP0"]
        assert len(server.get("/server_info").json["internal_states"]) == 2


def test_without_metrics_there_are_none(tmp_path: Path) -> None:
    with simulated(tmp_path) as server:
        server.until_ready()
        assert server.get("/metrics").status == 404
        assert "avg_spec_accept_length" not in server.get("/server_info").json


def test_a_log_level_that_hides_the_scheduler_line(tmp_path: Path) -> None:
    with simulated(tmp_path, "--log-level", "warning") as server:
        server.until("Uvicorn running")
        assert not SCHEDULER_LINE.search(server.log)


def test_a_taken_port_is_noticed_only_after_the_load(tmp_path: Path) -> None:
    with simulated(tmp_path) as first:
        first.until_ready()
        with simulated(tmp_path / "..", port=first.port) as second:
            assert second.ended() == 3
            assert SCHEDULER_LINE.search(second.log)
            assert "[Errno 98] error while attempting to bind on address" in second.log
            assert first.get("/health").status == 200


def test_sigterm_cuts_what_runs_and_ends_by_sigkill(tmp_path: Path) -> None:
    with simulated(tmp_path, *SPECULATIVE, speed="5") as server:
        server.until_ready()
        with server.streaming(3000) as response:
            server.process.send_signal(signal.SIGTERM)
            server.until("Draining requests and shutting down")
            assert server.get("/health").status == 503
            with pytest.raises(http.client.IncompleteRead):
                response.read()
        assert server.ended() == -signal.SIGKILL
        assert "Subprocess scheduler_0" in server.log


def test_it_is_not_idle_while_it_prefills(tmp_path: Path) -> None:
    with simulated(tmp_path, *SPECULATIVE, speed="0.01") as server:
        server.until("Uvicorn running")
        server.until('"GET /model_info HTTP/1.1" 200')  # the warm-up's request comes next
        statuses = [server.post("/flush_cache").status for _ in range(30)]
        assert statuses == sorted(statuses)
        assert statuses[-1] == 400


def test_measured_rates_are_the_models(tmp_path: Path) -> None:
    """Not a promise about this machine: what the server says of itself is printed, not judged."""
    with simulated(tmp_path, *SPECULATIVE, speed="10") as server:
        server.until_ready()
        truth = server.get("/sim/truth").json
        server.chat("rate", max_tokens=2000)
        text = re.findall(r"gen throughput \(token/s\): ([\d.]+)", server.log)
        print(json.dumps(truth), "decode lines:", text)
        assert truth["speed"] == 10
        assert text


def test_it_listens_nowhere_before_the_load_is_done(tmp_path: Path) -> None:
    with simulated(tmp_path, port=free_port(), start_s="0.5") as server:
        server.until("Load weight begin")
        with pytest.raises(ConnectionRefusedError):
            server.get("/health")
        server.until_ready()
