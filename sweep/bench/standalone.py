"""`sweep bench URL C...`: the published table, of a server that is already up."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from sweep.bench.archive import NAME, client_archive
from sweep.bench.backends import MARGIN_S, JobSpec, TrialContext, client_job, last_lines, port_of
from sweep.bench.client.control import control
from sweep.bench.client.event import as_dict, natural
from sweep.bench.client.guard import Spoilt
from sweep.bench.client.trial import resolve
from sweep.bench.metrics import Measurement, failures, measure
from sweep.bench.shown import Level, Shown
from sweep.bench.workload import CHAT, NATIVE, Body, Workload, workload_of
from sweep.benchmarks import remark
from sweep.errors import HostUnreachable, PointError, UsageError
from sweep.inventory import BuiltinBenchmark


def bench_url(
    url: str,
    concurrencies: Sequence[int],
    *,
    shown: Shown,
    benchmark: BuiltinBenchmark | None = None,
    api_key: str | None = None,
) -> int:
    """Benchmark a server that somebody else runs: nothing of it is flushed or changed.

    Returns 0 when every request was ok, else 1. Raises UsageError (a URL that cannot be meant),
    HostUnreachable (nobody answers there), PointError (it answers, but not to a first request).
    """
    target = checked(url)
    bench = Bench(target, workload_of(benchmark or BuiltinBenchmark()), api_key)
    shown.begun()
    shown.warmed_up(bench.warm_up())
    levels = []
    for concurrency in concurrencies:
        level = bench.trial(concurrency)
        shown.measured(level)
        levels.append(level)
    shown.ended(levels, remark(bench.workload.spec.label))
    return 1 if any(level.problem for level in levels) else 0


def checked(url: str) -> SplitResult:
    """The parts of a base URL. Raises UsageError."""
    form = UsageError(f"{url}: not the base URL of a server, such as http://127.0.0.1:30000")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise form from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise form
    if parts.query or parts.fragment or parts.username:
        raise form
    if parts.path.rstrip("/") in ("/v1", CHAT, NATIVE):
        parts = parts._replace(path="")  # as OpenAI clients want it
    return parts


class Bench:
    """One server, asked for its model once, then measured at one concurrency after the other."""

    def __init__(self, url: SplitResult, workload: Workload, api_key: str | None) -> None:
        self.url = url
        self.workload = workload
        self.ctx = TrialContext(
            python=sys.executable, port=port_of(url), model="", concurrency=1, api_key=api_key
        )
        self.model = self._ask_model()
        self.asked = 0  # its cache is not ours to empty

    def _ask_model(self) -> str:
        job = client_job(self.workload, self.ctx, self.url)
        try:
            status, body = control(resolve(job), "GET", "/v1/models")
        except Spoilt as error:
            raise HostUnreachable(f"{error}; is the server up, and is this its port?") from error
        try:
            return str(json.loads(body)["data"][0]["id"])
        except (ValueError, LookupError, TypeError) as error:
            said = last_lines(body[:300].decode("utf-8", "replace"))
            hint = "is this an OpenAI-compatible server, and does it need an API key?"
            if "CERTIFICATE_VERIFY_FAILED" in said:
                hint = "SSL_CERT_FILE=CA.pem in the environment makes its certificate known"
            raise HostUnreachable(
                f"{self.url.geturl()}/v1/models: {status or 'no answer'}: {said}; {hint}"
            ) from error

    def warm_up(self) -> int:
        """One request; returns its tokens. Raises PointError when it is not ok."""
        result = self._run(1, warmups=[], requests=self.workload.warmups(self.model, 1))
        problem = self._problem(result, measurement := measure(result))
        if problem is not None:
            raise PointError("warmup_failed", problem)
        return int(measurement.values["output_tokens"] or 0)

    def trial(self, concurrency: int) -> Level:
        warmups = self.workload.warmups(self.model, concurrency)
        requests = self.workload.bodies(self.model, concurrency, self.asked)
        self.asked += self.workload.rounds(concurrency)
        result = self._run(concurrency, warmups, requests)
        steps, draft_tokens = speculation(result["server_before"])
        measurement = measure(result, steps=steps, draft_tokens=draft_tokens)
        return Level(concurrency, measurement, self._problem(result, measurement))

    def _problem(self, result: Mapping[str, object], measurement: Measurement) -> str | None:
        spoilt = result["error"]
        return str(spoilt["detail"]) if isinstance(spoilt, dict) else failures(measurement.requests)

    def _run(
        self, concurrency: int, warmups: list[Body], requests: list[Body]
    ) -> dict[str, object]:
        described = client_job(self.workload, replace(self.ctx, concurrency=concurrency), self.url)
        described |= {"warmup": warmups, "requests": requests}
        job = JobSpec(
            argv=(sys.executable, "-I", NAME, "job.json", "result.json"),
            files={NAME: client_archive(), "job.json": json.dumps(described).encode()},
            outputs=("result.json",),
            timeout_s=float(described["timeout_s"]) + MARGIN_S,
        )
        result: dict[str, object] = json.loads(run_here(job)["result.json"])
        return result


def speculation(server_info: object) -> tuple[int, int | None]:
    """Steps and draft tokens, as /server_info says; 0 steps: no speculation, or no SGLang."""
    info = as_dict(server_info)
    steps = natural(info.get("speculative_num_steps"))
    return steps or 0, natural(info.get("speculative_num_draft_tokens"))


def run_here(job: JobSpec) -> dict[str, bytes]:
    """Run a job on this machine and return its outputs. Raises PointError when one is missing.

    A process of its own, so that nothing else of the tool runs beside the measurement.
    """
    with tempfile.TemporaryDirectory(prefix="sweep-bench-") as name:
        folder = Path(name)
        for file, content in job.files.items():
            (folder / file).write_bytes(content)
        try:
            ended = subprocess.run(
                job.argv, cwd=folder, timeout=job.timeout_s, check=False, capture_output=True
            )
        except subprocess.TimeoutExpired as error:
            detail = f"no result of the benchmark client after {job.timeout_s:.0f} s"
            raise PointError("client_error", detail) from error
        missing = [output for output in job.outputs if not (folder / output).exists()]
        if missing:
            said = last_lines(ended.stderr.decode("utf-8", "replace"))
            detail = f"the benchmark client left no {missing[0]} ({ended.returncode}): {said}"
            raise PointError("client_error", detail)
        return {output: (folder / output).read_bytes() for output in job.outputs}
