"""Every flag provoked on a simulated server that behaves so, and none on one that does not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from sweep.bench.backends import Builtin, TrialContext, backend_for
from sweep.bench.job import JobSpec
from sweep.bench.metrics import Measurement, with_acceptance
from sweep.bench.standalone import run_here
from sweep.bench.verdicts import Evidence, verdicts
from sweep.inventory import BuiltinBenchmark, SyntheticWorkload
from sweep.sglang.activity import Activity, activity
from tests.demo.simulated import SPECULATIVE, Simulated, simulated

FLUSHED = "Cache flushed successfully!"
LOUD = ("--decode-log-interval", "10")


@dataclass(frozen=True)
class Judged:
    measurement: Measurement
    activity: Activity
    found: dict[str, str]

    @property
    def others(self) -> dict[str, str]:
        """Flags of the server: the client may be held up by whatever else this machine does."""
        return {flag: text for flag, text in self.found.items() if flag != "client_limited"}


def trial(
    server: Simulated, concurrency: int = 4, admitted: int = 48, kv: int = 10**6, **settings: object
) -> Judged:
    """One trial as the runner has it measured and judged; the log stands for the journal."""
    server.until_ready()
    backend = backend_for(BuiltinBenchmark(**({"max_tokens": 400} | settings)))
    assert isinstance(backend, Builtin)
    context = TrialContext(
        python=sys.executable, port=server.port, model="/models/m", concurrency=concurrency,
        steps=3, draft_tokens=4,
    )  # fmt: skip
    measured = backend.read(context, run_here(backend.job(context)))
    return judged(measured, server, concurrency, admitted, kv)


def judged(
    measured: Measurement, server: Simulated, concurrency: int, admitted: int, kv: int
) -> Judged:
    seen = activity(server.log.rpartition(FLUSHED)[2].encode())
    if measured.values["accept_length"] is None and seen.accept_length is not None:
        measured = with_acceptance(measured, seen.accept_length, "journal", 4)
    evidence = Evidence(
        concurrency=concurrency,
        steps=3,
        requests=measured.requests,
        values=measured.values,
        client=measured.evidence["client"],
        admitted=admitted,
        kv_tokens=kv,
        activity=seen,
    )
    return Judged(measured, seen, verdicts(evidence))


def test_a_server_that_behaves(tmp_path):
    with simulated(tmp_path, *SPECULATIVE, *LOUD) as server:
        for settings in ({}, {"workload": "chat", "max_tokens": 200}):
            got = trial(server, **settings)
            assert got.others == {}
            assert got.measurement.values["accept_source"] == "requests"
        assert got.measurement.values["requests_ok"] == 40


def test_random_tokens_are_measured_too(tmp_path):
    with simulated(tmp_path, *SPECULATIVE, *LOUD) as server:
        workload = SyntheticWorkload(input_tokens=300, output_tokens=150)
        got = trial(server, workload=workload, max_tokens=150)
    assert got.others == {}
    assert got.measurement.values["output_tokens"] == 8 * 150
    assert {request["tokens_in"] for request in got.measurement.requests} == {300}


def test_the_native_endpoint_says_the_same(tmp_path):
    with simulated(tmp_path, *SPECULATIVE, *LOUD) as server:
        openai, native = trial(server), trial(server, endpoint="native")
    assert native.others == {}
    before, after = openai.measurement.values, native.measurement.values
    for column in ("output_tokens", "accept_length", "accept_rate"):
        assert after[column] == pytest.approx(before[column], rel=0.02), column
    assert before["accept_source"] == after["accept_source"] == "requests"
    assert all(request["histogram"] for request in native.measurement.requests)


def test_an_open_loop_on_a_server_with_room(tmp_path):
    with simulated(tmp_path, *SPECULATIVE, *LOUD) as server:
        got = trial(server, concurrency=64, admitted=48, rate=20.0, requests=30, max_tokens=50)
    assert got.others == {}
    assert got.measurement.values["requests_ok"] == 30
    assert got.measurement.values["concurrency_achieved"] < 48


@pytest.mark.parametrize(
    ("quirks", "flag", "tokens", "said"),
    [
        (
            "short",
            "short_output",
            400,
            "8 of 8 answers were not as long as asked for (from 200 to 200",
        ),
        ("retract", "retracted", 400, "requests were thrown back into the queue"),
        ("cold", "cold", 400, "no request got anything for 1.0 s early on"),
        ("drift", "unstable", 2000, "in the second half of the trial"),
        ("mute", "no_acceptance_data", 400, "neither requests nor totals nor decode lines"),
    ],
)
def test_a_server_that_does_not(tmp_path, quirks, flag, tokens, said):
    with simulated(tmp_path, *SPECULATIVE, *LOUD, speed="10", quirks=quirks) as server:
        got = trial(server, max_tokens=tokens)
    assert set(got.others) == {flag}
    assert said in got.found[flag]


def test_acceptance_is_the_same_from_every_source(tmp_path):
    with simulated(tmp_path, *SPECULATIVE, "--decode-log-interval", "2") as server:
        told = trial(server).measurement.values
    with simulated(tmp_path, *SPECULATIVE, "--decode-log-interval", "2", quirks="old") as server:
        read = trial(server).measurement.values
    assert (told["accept_source"], read["accept_source"]) == ("requests", "journal")
    assert read["accept_length"] == pytest.approx(told["accept_length"], rel=0.02)
    assert read["accept_rate"] == pytest.approx(told["accept_rate"], rel=0.03)


def test_more_requests_than_it_admits(tmp_path):
    flags = (*SPECULATIVE, *LOUD, "--max-running-requests", "2")
    with simulated(tmp_path, *flags, speed="4") as server:
        got = trial(server, admitted=2, max_tokens=600)
        assert got.found["capped"].startswith(
            "4 requests at a time, the server admits 2; its queue"
        )
        assert "unstable" not in got.found
        # Nobody told how much it admits: its queue does.
        unknown = verdicts(
            Evidence(4, 3, got.measurement.requests, got.measurement.values, activity=got.activity)
        )
    assert unknown == {
        "capped": "requests waited in the server's queue for most of the trial, up to 2"
    }


def test_more_tokens_than_its_memory_holds(tmp_path):
    flags = (*SPECULATIVE, *LOUD, "--max-total-tokens", "1500")
    with simulated(tmp_path, *flags, speed="4") as server:
        got = trial(server, kv=1500, max_tokens=600)
    assert "of KV memory, there are 1500; its queue held up to 2" in got.found["capped"]


def test_a_client_that_is_held_up(tmp_path):
    """Stopped for a while, as by a machine that has other things to do."""
    with simulated(tmp_path, *SPECULATIVE, *LOUD, speed="10") as server:
        server.until_ready()
        backend = backend_for(BuiltinBenchmark(max_tokens=400, requests=80))
        context = TrialContext(
            python=sys.executable, port=server.port, model="/models/m", concurrency=8,
            steps=3, draft_tokens=4,
        )  # fmt: skip
        outputs = held_up(backend.job(context), tmp_path, server)
        measured = backend.read(context, outputs)
        got = judged(measured, server, 8, 48, 10**6)
    assert got.found["client_limited"].endswith("were empty while there was more to send")


def held_up(job: JobSpec, tmp_path: Path, server: Simulated) -> dict[str, bytes]:
    """Run a job that is stopped for two seconds as soon as its first measured answers are done."""
    for name, content in job.files.items():
        (tmp_path / name).write_bytes(content)
    process = subprocess.Popen(job.argv, cwd=tmp_path)
    while "Decode batch" not in server.log.partition(FLUSHED)[2]:
        assert process.poll() is None
    process.send_signal(signal.SIGSTOP)
    subprocess.run(["sleep", "2"], check=True)
    process.send_signal(signal.SIGCONT)
    process.wait(60)
    result = (tmp_path / "result.json").read_bytes()
    assert json.loads(result)["error"] is None
    return {"result.json": result}
