"""Other benchmark clients: the job around them, the words they are given, what is read of theirs.

`results/` holds files in the exact shape of theirs, written for these tests; the programs here play
a client that leaves one of them. SGLang's own run in `tests/engine/test_clients.py`.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from sweep.bench.backends import Other, TrialContext, TrialSpoilt, backend_for, client_of
from sweep.bench.backends.client import columns
from sweep.bench.metrics import Measurement
from sweep.errors import PointError
from sweep.inventory import ClientBenchmark
from sweep.rows import MEASURED
from tests.bench_client.server import StreamServer

RESULTS = Path(__file__).parent / "results"


def benchmark(kind: str = "sglang", **more: object) -> ClientBenchmark:
    return ClientBenchmark(kind=kind, **{"max_tokens": 50, **more})


def other(kind: str = "sglang", **more: object) -> Other:
    backend = backend_for(benchmark(kind, **more))
    assert isinstance(backend, Other)
    return backend


def context(port: int = 30900, **more: object) -> TrialContext:
    known = {"python": sys.executable, "port": port, "model": "m", "concurrency": 2}
    return TrialContext(**{**known, "tokenizer": "/models/m", **more})


def words(kind: str, **more: object) -> list[str]:
    backend = other(kind, **more)
    return list(client_of(backend.spec).command(backend.asked(context(api_key="k3y"))))


def after(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def player(folder: Path, then: str) -> str:
    """A program that does `then` in the place of a client, in a shell; asked for its version, it
    says one."""
    script = folder / "player"
    script.write_text(f"""#!/bin/sh
case "$*" in *metadata*|*--version*) echo player 1.2; exit;; esac
env >told.env; {then}
""")
    script.chmod(0o755)
    return str(script)


def leaving(kind: str, file: str, folder: Path) -> str:
    """A player that leaves a copy of `file` where this kind of client does."""
    place = client_of(benchmark(kind)).result
    return player(folder, f"mkdir -p $(dirname {place}); cat {RESULTS / file} >{place}")


def measured(backend: Other, ctx: TrialContext) -> Measurement:
    """Runs the job as a host does, and reads what it left, as far as it is there."""
    job = backend.job(ctx)
    with tempfile.TemporaryDirectory() as name:
        for file, content in job.files.items():
            Path(name, file).write_bytes(content)
        subprocess.run(job.argv, cwd=name, timeout=120, check=False, capture_output=True)
        left = {path.name: path.read_bytes() for path in Path(name).iterdir() if path.is_file()}
    return backend.read(ctx, {name: left[name] for name in job.outputs if name in left})


def spoilt(backend: Other, ctx: TrialContext) -> PointError:
    with pytest.raises(PointError) as caught:
        measured(backend, ctx)
    assert caught.value.failure == "client_error"
    return caught.value


# -- every client ----------------------------------------------------------------------------------

# The same trial, as far as a client tells it.
TRIAL = {
    "requests": 4, "requests_ok": 4, "output_tokens": 200, "wall_s": 2.0, "agg_tok_s": 100.0,
    "ttft_ms_mean": 31.0, "ttft_ms_p50": 30.0, "ttft_ms_p90": 36.0, "ttft_ms_p99": 39.5,
    "tpot_ms_mean": 19.25, "tpot_ms_p50": 19.0, "tpot_ms_p90": 20.5, "tpot_ms_p99": 21.0,
    "e2e_ms_mean": 980.0, "e2e_ms_p50": 975.0, "e2e_ms_p90": 1010.0, "e2e_ms_p99": 1020.0,
}  # fmt: skip
IN_FLIGHT = {"concurrency_achieved": 1.96}
ITL = {"itl_ms_mean": 19.0, "itl_ms_p50": 18.5, "itl_ms_p90": 24.0, "itl_ms_p99": 40.0}
ITL_CHUNK = {"itl_chunk_ms_p50": 18.5, "itl_chunk_ms_p99": 40.0}
NOT_IN_0_5_9 = ("ttft_ms_p90", "tpot_ms_p90")
READ = {
    ("sglang", "sglang.jsonl"): TRIAL | IN_FLIGHT | ITL,
    ("sglang", "sglang-0.5.9.jsonl"): {
        name: value for name, value in (TRIAL | IN_FLIGHT).items() if name not in NOT_IN_0_5_9
    },
    ("sglang-rust", "sglang-rust.jsonl"): TRIAL | IN_FLIGHT | ITL,
    ("guidellm", "guidellm.json"): TRIAL | IN_FLIGHT,
    ("vllm", "vllm.json"): TRIAL | ITL_CHUNK,
    ("aiperf", "aiperf.json"): TRIAL | IN_FLIGHT | ITL_CHUNK,
}
PLACES_WITHOUT_A_NUMBER = {
    "sglang-0.5.9.jsonl": [
        "p90_ttft_ms", "p90_tpot_ms", "mean_itl_ms", "median_itl_ms", "p90_itl_ms", "p99_itl_ms",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "file"), READ)
def test_a_trial_of_each_client_becomes_a_row(kind: str, file: str, tmp_path: Path):
    backend = other(kind, program=leaving(kind, file, tmp_path))
    with StreamServer() as server:
        got = measured(backend, context(server.port, api_key="k3y"))
        served = [one.body["messages"][0]["content"] for one in server.served]
        flushed = server.controls[0]
    known = {name: value for name, value in got.values.items() if value is not None}
    assert known == pytest.approx(READ[kind, file])
    assert set(got.values) == set(MEASURED)
    # The own client has warmed up, once per place, and flushed before it.
    assert len(served) == 2
    assert all("Warm-up" in text for text in served)
    assert flushed == "POST /flush_cache"
    told = got.evidence["benchmark"]
    assert told["kind"] == kind
    assert told["version"] == "player 1.2"
    assert told["missing"] == PLACES_WITHOUT_A_NUMBER.get(file, [])


@pytest.mark.parametrize("kind", sorted({kind for kind, _ in READ}))
def test_what_every_client_is_given(kind: str):
    given = words(kind, args=("--their-own", "1"), program="/opt/x/bin/it")
    assert given[0] == "/opt/x/bin/it"
    assert "k3y" not in " ".join(given)
    assert any("http://127.0.0.1:30900" in word for word in given) or kind == "guidellm"
    job = other(kind).job(context(api_key="k3y"))
    assert job.argv == ("/bin/sh", "run-trial")
    assert b"k3y" not in job.files["run-trial"]
    assert job.files["environment"] == b"export OPENAI_API_KEY=k3y\n"
    assert job.kept == (client_of(benchmark(kind)).kept,)


@pytest.mark.parametrize("kind", sorted({kind for kind, _ in READ}))
def test_the_client_and_its_words_are_part_of_a_point(kind: str):
    plain = benchmark(kind).identity()
    for changed in ({"args": ("--x",)}, {"program": "/b"}, {"tokenizer": "/t"}, {"max_tokens": 51}):
        assert benchmark(kind, **changed).identity() != plain
    assert benchmark(kind, trial_timeout_s=5).identity() == plain
    assert plain != benchmark(kind).load.identity()
    assert benchmark(kind).label == f"greedy-{kind}"


# -- what goes wrong -------------------------------------------------------------------------------


def test_a_client_that_is_not_there_says_what_to_install():
    with StreamServer() as server:
        error = spoilt(other(program="/nowhere/python3"), context(server.port))
    assert error.detail.startswith("the benchmark sglang cannot run: ")
    assert "/nowhere/python3" in error.detail
    assert client_of(benchmark()).install in error.detail


def test_a_python_without_sglang_says_what_to_install(tmp_path: Path):
    run = f'exec {shlex.quote(sys.executable)} -I "$@"'
    with StreamServer() as server:
        error = spoilt(other(program=player(tmp_path, run)), context(server.port))
    assert "No module named sglang.benchmark.serving or sglang.bench_serving; " in error.detail
    assert client_of(benchmark()).install in error.detail


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("echo it broke >&2; exit 3", "the benchmark sglang: exit status 3: it broke"),
        ("echo all is well", "the benchmark sglang: it left no result: all is well"),
        ("echo '{' >result.jsonl", "its result file is no such JSON"),
        ("echo '[1]' >result.jsonl", "completed is 0 or not in its result"),
        ("echo '{\"completed\": 4}' >result.jsonl", "output_throughput is 0 or not in its result"),
        ("echo '{\"completed\": 0}' >result.jsonl", "completed is 0 or not in its result"),
        (": >result.jsonl", "its result file is no such JSON"),
    ],
)  # fmt: skip
def test_a_client_that_leaves_nothing_to_read(then: str, said: str, tmp_path: Path):
    with StreamServer() as server:
        error = spoilt(other(program=player(tmp_path, then)), context(server.port))
    assert said in error.detail


def test_requests_that_fail_fail_the_trial_and_what_was_measured_is_kept(tmp_path: Path):
    backend = other(program=leaving("sglang", "sglang.jsonl", tmp_path), requests=6)
    with StreamServer() as server, pytest.raises(TrialSpoilt) as caught:
        measured(backend, context(server.port))
    assert "2 of 6 requests failed" in caught.value.detail
    assert caught.value.measurement.values["agg_tok_s"] == 100.0


def test_a_server_that_does_not_answer_is_a_failed_warm_up(tmp_path: Path):
    with StreamServer() as server:
        port = server.port
    backend = other(program=player(tmp_path, "touch was-run"))
    with pytest.raises(PointError) as caught:
        measured(backend, context(port))
    assert caught.value.failure == "warmup_failed"


def test_acceptance_is_that_of_the_server_between_two_looks(tmp_path: Path):
    before, later = ({"internal_states": [state]} for state in ({}, {"avg_spec_accept_length": 3}))
    backend = other(program=leaving("sglang", "sglang.jsonl", tmp_path))
    ctx = context(steps=3, draft_tokens=5)
    with StreamServer(info=[before, before, later, later]) as server:
        got = measured(backend, replace(ctx, port=server.port))
    assert got.values["accept_length"] == 3
    assert got.values["accept_rate"] == 0.5
    assert got.values["accept_source"] == "server_totals"
    assert not got.flags


def test_speculation_whose_acceptance_nobody_tells_is_flagged(tmp_path: Path):
    backend = other(program=leaving("sglang", "sglang.jsonl", tmp_path))
    with StreamServer(info=[{"internal_states": [{}]}]) as server:
        got = measured(backend, context(server.port, steps=3, draft_tokens=5))
    assert got.values["accept_length"] is None
    assert got.flags == {"no_acceptance_data"}


def test_no_number_is_unknown_and_never_0():
    places = {"agg_tok_s": "a.b", "ttft_ms_p50": "t", "e2e_ms_mean": ("s", 1000.0), "wall_s": "w"}
    assert columns({"a": {"b": 0}, "t": 0.0, "s": 1.5, "w": None}, places) == (
        {"agg_tok_s": 0.0, "e2e_ms_mean": 1500.0}, ["t", "w"],
    )  # fmt: skip
    for nothing in (None, [], "x", {"a": 5}, {"a": {"b": True}}, {"a": {"b": float("nan")}}):
        assert columns(nothing, {"agg_tok_s": "a.b"}) == ({}, ["a.b"])


# -- each of them ----------------------------------------------------------------------------------


def test_the_words_of_sglang():
    given = words("sglang", temperature=0.5, top_p=0.9, ignore_eos=False, args=("--tag", "x"))
    assert after(given, "--model") == after(given, "--tokenizer") == "/models/m"
    assert after(given, "--served-model-name") == "m"
    assert after(given, "--sharegpt-output-len") == "50"
    assert after(given, "--num-prompts") == "4"
    assert after(given, "--max-concurrency") == "2"
    assert json.loads(after(given, "--extra-request-body")) == {
        "temperature": 0.5, "top_p": 0.9, "stream_options": {"continuous_usage_stats": True},
    }  # fmt: skip
    assert "--disable-ignore-eos" in given
    assert "--disable-ignore-eos" not in words("sglang")
    assert given[-2:] == ["--tag", "x"]
    assert after(words("sglang", tokenizer="/t"), "--tokenizer") == "/t"


def test_sglang_is_sent_the_texts_of_the_workload():
    job = other(workload="chat", requests=3).job(context())
    talks = json.loads(job.files["prompts.json"])
    own = [body["messages"][0]["content"] for body in other(workload="chat", requests=3).workload
           .bodies("m", 2)]  # fmt: skip
    assert [talk["conversations"][0]["value"] for talk in talks] == own
    assert len(own) == 3


def test_the_rust_client_takes_the_same_words():
    python, rust = words("sglang"), words("sglang-rust")
    assert rust[:3] == [sys.executable, "-m", "sglang.benchmark.rust_client"]
    assert rust[3:] == python[python.index("--backend") :]


def test_guidellm_is_told_all_of_it_in_a_file_that_may_hold_the_key():
    job = other("guidellm", ignore_eos=False, temperature=0.5).job(context(api_key="k3y"))
    spec = json.loads(job.files["scenario.json"])["spec"]
    assert spec["backend"]["api_key"] == "k3y"
    assert spec["backend"]["target"] == "http://127.0.0.1:30900"
    assert spec["backend"]["max_tokens"] == 50
    assert spec["backend"]["extras"]["body"] == {
        "temperature": 0.5, "top_p": 1.0, "ignore_eos": False,
    }  # fmt: skip
    assert spec["profile"] == {"kind": "concurrent", "streams": [2]}
    assert spec["constraints"] == [{"kind": "max_requests", "count": 4}]
    assert len(job.files["prompts.jsonl"].splitlines()) == 4
    assert words("guidellm")[:4] == ["guidellm", "run", "--config", "scenario.json"]


def test_the_words_of_vllm():
    given = words("vllm", temperature=0.5, args=("--goodput", "ttft:500"))
    assert given[:3] == ["vllm", "bench", "serve"]
    assert after(given, "--served-model-name") == "m"
    assert after(given, "--model") == after(given, "--tokenizer") == "/models/m"
    assert after(given, "--custom-output-len") == "50"
    assert after(given, "--temperature") == "0.5"
    assert "--ignore-eos" in given
    assert "--ignore-eos" not in words("vllm", ignore_eos=False)
    assert given[-2:] == ["--goodput", "ttft:500"]


def test_the_words_of_aiperf():
    given = words("aiperf", temperature=0.5)
    extra = [given[i + 1] for i, word in enumerate(given) if word == "--extra-inputs"]
    assert extra == ["temperature:0.5", "top_p:1.0", "max_tokens:50", "ignore_eos:true"]
    assert after(given, "--request-count") == "4"
    # A path is no name for it: the folder is linked under one.
    assert after(given, "--tokenizer") == "tokenizer"
    script = other("aiperf").job(context()).files["run-trial"].decode()
    assert "\nln -sfn /models/m tokenizer\n" in script
    assert after(words("aiperf", tokenizer="org/m"), "--tokenizer") == "org/m"
