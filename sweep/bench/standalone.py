"""`sweep bench URL C...`: the published table, of a server that is already up."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from sweep.bench.archive import NAME, client_archive
from sweep.bench.backends import MARGIN_S, JobSpec, TrialContext, client_job, last_lines, port_of
from sweep.bench.client.control import control
from sweep.bench.client.event import as_dict, as_list, natural
from sweep.bench.client.guard import Spoilt
from sweep.bench.client.trial import resolve
from sweep.bench.metrics import Measurement, failures, measure
from sweep.bench.shown import Level, Shown
from sweep.bench.workload import CHAT, NATIVE, Body, Workload, workload_of
from sweep.benchmarks import remark
from sweep.errors import HostUnreachable, PointError, UsageError
from sweep.inventory import BuiltinBenchmark

Watch = Callable[[Mapping[str, Any]], None]
LOOK_S = 0.5  # how often the progress is looked at


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
    levels: list[Level] = []
    try:
        for concurrency in concurrencies:
            levels.append(bench.trial(concurrency, shown))
            shown.measured(levels[-1])
    finally:  # what there is, if it was ended early
        if levels:
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
        label = workload.spec.label
        self.conditions = {"url": url.geturl(), "model": self.model, "workload": label}

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
        result = self._run(1, [], self.workload.warmups(self.model, 1), unseen)
        problem = self._problem(result, measurement := measure(result))
        if problem is not None:
            raise PointError("warmup_failed", problem)
        return int(measurement.values["output_tokens"] or 0)

    def trial(self, concurrency: int, shown: Shown) -> Level:
        warmups = self.workload.warmups(self.model, concurrency)
        requests = self.workload.bodies(self.model, concurrency, self.asked)
        self.asked += self.workload.rounds(concurrency)
        result = self._run(concurrency, warmups, requests, partial(shown.under_way, concurrency))
        said = told(result["server_before"])
        measurement = measure(
            result, steps=said.steps, draft_tokens=said.draft_tokens, admitted=said.admitted
        )
        return Level(concurrency, measurement, self._problem(result, measurement), self.conditions)

    def _problem(self, result: Mapping[str, object], measurement: Measurement) -> str | None:
        spoilt = result["error"]
        return str(spoilt["detail"]) if isinstance(spoilt, dict) else failures(measurement.requests)

    def _run(
        self, concurrency: int, warmups: list[Body], requests: list[Body], under_way: Watch
    ) -> dict[str, object]:
        described = client_job(self.workload, replace(self.ctx, concurrency=concurrency), self.url)
        described |= {"warmup": warmups, "requests": requests}
        job = JobSpec(
            argv=(sys.executable, "-I", NAME, "job.json", "result.json"),
            files={NAME: client_archive(), "job.json": json.dumps(described).encode()},
            outputs=("result.json",),
            timeout_s=float(described["timeout_s"]) + MARGIN_S,
            progress=described["progress"],
        )
        result: dict[str, object] = json.loads(run_here(job, under_way)["result.json"])
        return result


class Told(NamedTuple):
    """What a server says of itself. None: it does not."""

    steps: int
    draft_tokens: int | None
    admitted: int | None


def told(server_info: object) -> Told:
    """What /server_info says; 0 steps: no speculation, or no SGLang."""
    info = as_dict(server_info)
    states = [as_dict(state) for state in as_list(info.get("internal_states"))]
    admitted = [natural(state.get("effective_max_running_requests_per_dp")) for state in states]
    known = [number for number in admitted if number is not None]
    return Told(
        steps=natural(info.get("speculative_num_steps")) or 0,
        draft_tokens=natural(info.get("speculative_num_draft_tokens")),
        admitted=sum(known) if states and len(known) == len(states) else None,
    )


def unseen(_: Mapping[str, Any]) -> None:
    """Nobody is told how far it is."""


def run_here(job: JobSpec, under_way: Watch = unseen) -> dict[str, bytes]:
    """Run a job on this machine and return its outputs. Raises PointError when one is missing.

    A process of its own, so that nothing else of the tool runs beside the measurement. `under_way`
    is told its progress now and then.
    """
    with tempfile.TemporaryDirectory(prefix="sweep-bench-") as name:
        folder = Path(name)
        for file, content in job.files.items():
            (folder / file).write_bytes(content)
        with subprocess.Popen(
            job.argv, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as running:
            try:
                said = _wait(running, folder, job, under_way)
            finally:
                running.kill()
        missing = [output for output in job.outputs if not (folder / output).exists()]
        if missing:
            detail = f"the benchmark client left no {missing[0]} ({running.returncode}): {said}"
            raise PointError("client_error", detail)
        return {output: (folder / output).read_bytes() for output in job.outputs}


def _wait(running: subprocess.Popen[bytes], folder: Path, job: JobSpec, under_way: Watch) -> str:
    """Until it has ended; returns the end of what it had to say."""
    until = time.monotonic() + job.timeout_s
    while True:
        try:
            _, said = running.communicate(timeout=LOOK_S)
        except subprocess.TimeoutExpired as error:
            if time.monotonic() > until:
                detail = f"no result of the benchmark client after {job.timeout_s:.0f} s"
                raise PointError("client_error", detail) from error
            if job.progress and (folder / job.progress).exists():
                under_way(as_dict(json.loads((folder / job.progress).read_text() or "{}")))
        else:
            return last_lines(said.decode("utf-8", "replace"))
