"""A trial as the runner has it measured: the job is run as a host would, and read back."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sweep.bench.backends import Builtin, Command, TrialContext, TrialSpoilt, backend_for
from sweep.bench.standalone import run_here
from sweep.errors import PointError
from sweep.inventory import BuiltinBenchmark, CommandBenchmark
from sweep.rows import MEASURED
from tests.bench_client.server import StreamServer
from tests.bench_client.test_table import PUBLISHED


def context(port: int = 30900, concurrency: int = 1, **more: object) -> TrialContext:
    return TrialContext(
        python=sys.executable, port=port, model="m", concurrency=concurrency, **more
    )


def command(script: str, *words: str) -> Command:
    return Command(
        CommandBenchmark(kind="command", command=("/bin/sh", "-c", script, "sh", *words))
    )


def measured(backend: Command, ctx: TrialContext) -> dict:
    return dict(backend.read(ctx, run_here(backend.job(ctx))).values)


def refusal(backend: Command, ctx: TrialContext) -> PointError:
    with pytest.raises(PointError) as caught:
        measured(backend, ctx)
    assert caught.value.failure == "client_error"
    return caught.value


def test_backend_for():
    assert isinstance(backend_for(BuiltinBenchmark()), Builtin)
    assert isinstance(backend_for(CommandBenchmark(kind="command", command=("x",))), Command)
    with pytest.raises(ValueError, match="no workload 'cod'"):
        BuiltinBenchmark(workload="cod")


def test_a_trial_of_the_own_client():
    backend = backend_for(BuiltinBenchmark(max_tokens=20))
    with StreamServer() as server:
        ctx = context(server.port, 3, api_key="k3y")
        spec = backend.job(ctx)
        got = backend.read(ctx, run_here(spec))
        assert all("Authorization: Bearer k3y\r\n" in fields for fields in server.headers)
        assert server.controls[0] == "POST /flush_cache"
        prompts = [served.body["messages"][0]["content"] for served in server.served]
    assert got.values["requests_ok"] == got.values["requests"] == 6
    assert got.values["output_tokens"] == 120
    assert set(got.values) == set(MEASURED)
    # This server answers in no time: the client may well be the limit.
    assert got.flags <= {"client_limited"}
    assert len(got.requests) == 6
    assert all(prompt.startswith(("1. ", "2. ", "3. ")) for prompt in prompts[:3])
    assert len(prompts) == 9
    assert "k3y" not in " ".join(spec.argv) + repr(ctx)


def test_requests_that_fail_fail_the_trial_and_what_was_measured_is_kept():
    result = {
        "error": None, "concurrency": 1, "requests": [], "started": None, "ended": None,
        "flush": 200, "server_before": None, "server_after": None, "client": None,
    }  # fmt: skip
    request = dict.fromkeys(("verify", "first", "finish", "asked", "tokens_out", "sent"))
    request |= {"error": "HTTP 503 (x): busy", "ignore_eos": True, "end": 5, "t": [], "n": []}
    backend = backend_for(BuiltinBenchmark())

    def read(**more: object) -> TrialSpoilt:
        with pytest.raises(TrialSpoilt) as caught:
            backend.read(context(), {"result.json": json.dumps({**result, **more}).encode()})
        return caught.value

    broken = read(requests=[request])
    assert broken.failure == "client_error"
    assert broken.detail == "1 of 1 requests failed: HTTP 503 (x): busy (1)"
    assert broken.measurement.values["requests_ok"] == 0
    cold = read(error={"phase": "warmup", "detail": "none of 4", "late": False})
    assert (cold.failure, cold.detail) == ("warmup_failed", "warmup: none of 4")
    busy = read(error={"phase": "flush", "detail": "busy", "late": False})
    assert busy.failure == "client_error"
    assert read(error={"phase": "warmup", "detail": "not done", "late": True}).failure == "hang"


def test_no_result_at_all():
    for outputs in ({}, {"result.json": b""}, {"result.json": b"{"}):
        with pytest.raises(PointError, match=r"left no result; is .* a Python 3\.8 or newer"):
            backend_for(BuiltinBenchmark()).read(context(), outputs)


def test_a_command_is_told_where_to_measure():
    script = 'echo "{\\"agg_tok_s\\": $1$2, \\"wall_s\\": 3}"; echo "$3" >&2'
    ctx = context(30911, 16)
    backend = command(script, "{concurrency}", "00", "{url} {port} {concurrency}{x}")
    got = backend.read(ctx, run_here(backend.job(ctx)))
    assert got.values["agg_tok_s"] == 1600
    assert got.values["wall_s"] == 3
    assert got.evidence["stderr"] == "http://127.0.0.1:30911 30911 16{x}\n"
    assert set(got.values) == set(MEASURED)


def test_a_command_that_prints_the_published_table():
    backend = command("cat <<'END'\n" + PUBLISHED + "END\n")
    assert measured(backend, context(concurrency=4))["output_tokens"] == 7217
    told = refusal(backend, context(concurrency=16)).detail
    assert "neither a table row for C=16 nor a JSON object with agg_tok_s" in told
    assert "4 |      542.6" in told


def test_a_command_without_acceptance_is_flagged_when_there_is_speculation():
    backend = command("cat <<'END'\n" + PUBLISHED + "END\n")
    with_steps = context(steps=3)
    assert backend.read(with_steps, run_here(backend.job(with_steps))).flags == {
        "no_acceptance_data"
    }
    told = command('echo \'{"agg_tok_s": 10, "accept_length": 2.5, "accept_source": "mine"}\'')
    got = told.read(with_steps, run_here(told.job(with_steps)))
    assert got.flags == frozenset()
    assert got.values["accept_source"] == "mine"


def test_a_command_that_fails():
    told = refusal(command("echo one; echo no GPU >&2; exit 7"), context()).detail
    assert told.endswith("exit status 7: no GPU")
    assert refusal(command("exit 0"), context()).detail.endswith("which ends: (nothing)")
    bad = command('echo \'{"agg_tok_s": "fast"}\'')
    assert refusal(bad, context()).detail.endswith("agg_tok_s is 'fast'")
    none_ok = command('echo \'{"agg_tok_s": 0, "requests_ok": 0}\'')
    assert "no request is ok" in refusal(none_ok, context()).detail
    missing = Command(CommandBenchmark(kind="command", command=("/no/such/script",)))
    assert "exit status 127" in refusal(missing, context()).detail


def test_a_command_that_was_ended_from_outside():
    with pytest.raises(PointError, match="it did not end by itself"):
        command("x").read(context(), {"command.out": PUBLISHED.encode()})


def test_deadlines_follow_the_inventory():
    assert backend_for(BuiltinBenchmark(trial_timeout_s=60)).job(context()).timeout_s == 180
    spec = CommandBenchmark(kind="command", command=("x",), trial_timeout_s=60)
    assert Command(spec).job(context()).timeout_s == 60


def test_the_job_fits_a_directory_of_its_own():
    job = backend_for(BuiltinBenchmark()).job(context())
    for name in (*job.files, *job.outputs, job.progress):
        assert Path(name).name == name
