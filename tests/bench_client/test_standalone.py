"""`sweep bench URL C...` against a server that is up, one that is not, and one that fails."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sweep.bench import table
from sweep.bench.client.trial import schedule
from sweep.bench.shown import AsJson, AsTables
from sweep.bench.standalone import bench_url, told
from sweep.errors import HostUnreachable, PointError, UsageError
from sweep.inventory import BuiltinBenchmark
from sweep.rows import MEASURED
from tests.bench_client.server import StreamServer
from tests.cli.calling import sweep
from tests.demo.simulated import simulated

NOBODY = AsTables(lambda _: None)


def short(tokens: int) -> BuiltinBenchmark:
    return BuiltinBenchmark(max_tokens=tokens)


def test_the_published_layout():
    lines: list[str] = []
    with StreamServer() as server:
        assert bench_url(server.url, [1, 3], shown=AsTables(lines.append), benchmark=short(10)) == 0
        assert "POST /flush_cache" not in server.controls
        assert {served.body["model"] for served in server.served} == {"test-model"}
    assert lines[:5] == [
        "Warming up...", "  Warmup: 100 tokens, ok=True", "", table.HEADER, table.RULE,
    ]  # fmt: skip
    shape = r" +{} \| +\d+\.\d \| +\d+\.\d \| +{} \| +\d+\.\d \| +{}"
    assert re.fullmatch(shape.format(1, 40, 4), lines[5])
    assert re.fullmatch(shape.format(3, 60, 6), lines[6])
    assert lines[7] == table.RULE
    told = table.DEFINITIONS.splitlines()
    assert lines[9 : 9 + len(told)] == told
    assert lines[-1].startswith("greedy: long answers at temperature 0")
    latencies = lines[10 + len(told) :]
    assert latencies[:2] == [table.LATENCY_HEADER, table.LATENCY_RULE]
    assert latencies[2].endswith(" |             -"), "nobody speculates there"
    assert {len(line) for line in latencies[:5]} == {len(table.LATENCY_HEADER)}
    assert latencies[4] == table.LATENCY_RULE
    # This server answers in no time: the client may well be the limit, which is told.
    more = table.LATENCY_DEFINITIONS.splitlines()
    assert latencies[6 : 6 + len(more)] == more
    assert all(": client_limited: " in line for line in latencies[6 + len(more) + 1 : -1])
    assert len(lines[5]) == len(table.HEADER)
    assert {c: row["output_tokens"] for c, row in table.parse("\n".join(lines)).items()} == {
        1: 40, 3: 60,
    }  # fmt: skip


def test_no_level_sends_what_the_one_before_it_has_sent():
    benchmark = BuiltinBenchmark(workload="chat", max_tokens=2, requests=30)
    with StreamServer() as server:
        assert bench_url(server.url, [1, 2], shown=NOBODY, benchmark=benchmark) == 0
        sent = [json.dumps(served.body["messages"]) for served in server.served]
    assert len(set(sent)) >= len(sent) - 2, "warm-ups alone may be alike"


def test_requests_at_a_rate_come_when_they_are_due():
    """At 20 a second seven gaps are a third of a second; held in flight they take no time."""
    benchmark = BuiltinBenchmark(max_tokens=2, requests=8, rate=20.0)
    with StreamServer() as server:
        assert bench_url(server.url, [8], shown=NOBODY, benchmark=benchmark) == 0
        begins = [served.sent[0] for served in server.served][-8:]
    due = schedule(20.0, benchmark.seed, 8)
    for begin, at in zip(begins, due, strict=True):
        assert begin - begins[0] > at - 0.05


def test_the_native_endpoint():
    benchmark = BuiltinBenchmark(max_tokens=7, endpoint="native")
    for path in ("", "/generate"):
        with StreamServer() as server:
            assert bench_url(server.url + path, [2], shown=NOBODY, benchmark=benchmark) == 0
        assert {"text", "sampling_params", "stream"} == {*server.served[-1].body}
        assert server.headers[-1].startswith("POST /generate ")


def test_the_command_sends_what_its_flags_say(tmp_path: Path):
    with StreamServer() as server:
        shown = sweep(
            "bench", server.url, "4", "--rate", "500", "--endpoint", "native", "--max-tokens", "3",
            "--requests", "9", cwd=tmp_path,
        )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr == "", "nobody looks"
    assert re.search(r"^ +4 \| .* \| +27 \| .* \| +9$", shown.stdout, re.MULTILINE)
    assert all(head.startswith("POST /generate ") for head in server.headers)
    assert server.served[-1].body["sampling_params"]["max_new_tokens"] == 3


def test_every_column_as_json_of_a_server_that_speculates(tmp_path: Path):
    """The simulated one: its true acceptance length is known."""
    flags = "--speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1"
    command = ["1", "2", "--max-tokens", "40", "--format", "json"]
    with simulated(tmp_path, *flags.split(), "--speculative-num-draft-tokens", "4") as server:
        server.until_ready()
        shown = sweep("bench", f"http://127.0.0.1:{server.port}", *command, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    levels = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [level["concurrency"] for level in levels] == [1, 2]
    for level in levels:
        conditions = {"url", "model", "workload", "concurrency"}
        assert {*MEASURED, *conditions, "flags", "problem"} == {*level}
        assert level["url"] == f"http://127.0.0.1:{server.port}"
        assert (level["model"], level["workload"]) == ("/models/m", "greedy")
        assert level["problem"] is None
        assert 1 < level["accept_length"] <= 4
        assert 0 < level["accept_rate"] <= 1
        assert level["ttft_ms_p50"] > 0
        assert table.parse_object(json.dumps(level)) == {name: level[name] for name in MEASURED}, (
            "what it prints is what `command` reads"
        )


def test_more_at_a_time_than_the_server_admits(tmp_path: Path):
    command = ["2", "4", "--max-tokens", "20", "--format", "json"]
    with simulated(tmp_path, "--max-running-requests", "2") as server:
        server.until_ready()
        shown = sweep("bench", f"http://127.0.0.1:{server.port}", *command, cwd=tmp_path)
    fits, over = [json.loads(line)["flags"] for line in shown.stdout.splitlines()]
    assert "capped" not in fits
    assert over["capped"] == "4 requests at a time, the server admits 2"


def test_what_several_ranks_admit_is_their_sum_if_all_tell():
    ranks = [{"effective_max_running_requests_per_dp": 8}] * 2
    assert told({"internal_states": ranks}).admitted == 16
    assert told({"internal_states": [*ranks, {}]}).admitted is None
    assert told({"internal_states": []}) == told(None) == (0, None, None)


def test_how_far_a_level_is_while_it_runs(monkeypatch):
    monkeypatch.setattr("sweep.bench.standalone.LOOK_S", 0.1)
    seen: list[str] = []
    benchmark = BuiltinBenchmark(max_tokens=200, requests=3)
    with StreamServer() as server:
        server.gap_s = 0.01
        shown = AsJson(lambda _: None, seen.append)
        assert bench_url(server.url, [2], shown=shown, benchmark=benchmark) == 0
    assert re.fullmatch(r"C=2: [123] of 3 requests, [246]00 tokens", seen[-2])
    assert seen[-1] == ""
    assert any(text.startswith("C=2: warms up, ") for text in seen)


def test_what_is_measured_is_told_in_full_however_it_ends():
    lines: list[str] = []

    def emit(line: str) -> None:
        lines.append(line)
        if line.startswith("   2 |") and table.LATENCY_HEADER not in lines:
            raise KeyboardInterrupt

    with StreamServer() as server, pytest.raises(KeyboardInterrupt):
        bench_url(server.url, [1, 2, 4], shown=AsTables(emit), benchmark=short(3))
    at = lines.index(table.LATENCY_HEADER)
    assert lines[at + 2].startswith("   1 |")
    assert not [line for line in lines if line.startswith("   4 |")]


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--requests", "0", "1<=x<=1000000"),
        ("--rate", "0", "0<x<=10000"),
        ("--rate", "-1", "0<x"),
        ("--endpoint", "grpc", "'native'"),
    ],
)
def test_flags_that_cannot_be_meant(tmp_path: Path, flag: str, value: str, said: str):
    shown = sweep("bench", "http://127.0.0.1:9", "1", flag, value, cwd=tmp_path)
    assert (shown.returncode, said in shown.stderr) == (2, True), shown.stderr


def test_too_few_requests_to_fill_the_places(tmp_path: Path):
    shown = sweep("bench", "http://127.0.0.1:9", "1", "8", "--requests", "6", cwd=tmp_path)
    assert shown.returncode == 2
    assert "--requests 6: too few to hold 8 in flight" in shown.stderr


def test_an_openai_style_base_url():
    with StreamServer() as server:
        assert bench_url(server.url + "/v1/", [1], shown=NOBODY, benchmark=short(2)) == 0


def test_a_server_that_dies_between_two_rows():
    lines: list[str] = []
    with StreamServer() as server:

        def emit(line: str) -> None:
            lines.append(line)
            if line.startswith("   1 |"):
                server.die()

        assert bench_url(server.url, [1, 4], shown=AsTables(emit), benchmark=short(3)) == 1
    assert lines[6].startswith("   4 |          - |              - |        0 |        - |    0")
    assert lines[8].startswith("C=4: 127.0.0.1:")
    assert "cannot connect" in lines[8]


def test_nobody_listens():
    with StreamServer() as server:
        pass
    with pytest.raises(HostUnreachable, match="Connection refused; is the server up"):
        bench_url(server.url, [1], shown=NOBODY)


def test_something_else_listens():
    with StreamServer() as server, pytest.raises(HostUnreachable, match=r"404: \{\}"):
        bench_url(server.url + "/other", [1], shown=NOBODY)


def test_a_server_that_refuses_the_first_request():
    lines: list[str] = []
    with StreamServer() as server:
        server.refuse = True
        with pytest.raises(PointError, match="1 of 1 requests failed: HTTP 503"):
            bench_url(server.url, [1], shown=AsTables(lines.append))
    assert lines == ["Warming up..."]


@pytest.mark.parametrize(
    "url",
    ["https://", "127.0.0.1:30000", "http://", "http://host:port", "ftp://h", ""],
)
def test_urls_that_cannot_be_meant(url):
    with pytest.raises(UsageError, match="not the base URL"):
        bench_url(url, [1], shown=NOBODY)
