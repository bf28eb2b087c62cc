"""The tool's own client (`sweep.bench.client`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from sweep.bench.archive import NAME, client_archive
from sweep.bench.backends.backend import MARGIN_S, TrialContext, TrialSpoilt
from sweep.bench.deadlines import FIRST_S, FLUSH_S, stall_timeout_s, trial_timeout_s
from sweep.bench.job import JobSpec
from sweep.bench.metrics import Measurement, failures, measure
from sweep.bench.workload import Workload
from sweep.errors import PointError
from sweep.inventory import BuiltinBenchmark

PROGRESS = "progress.json"


@dataclass(frozen=True)
class Builtin:
    """The tool's own client (`sweep.bench.client`)."""

    spec: BuiltinBenchmark
    workload: Workload

    def job(self, ctx: TrialContext) -> JobSpec:
        described = client_job(self.workload, ctx, urlsplit(ctx.url))
        described["warmup"] = self.workload.warmups(ctx.model, ctx.concurrency)
        described["flush"] = True
        return JobSpec(
            argv=(ctx.python, "-I", NAME, "job.json", "result.json"),
            files={NAME: client_archive(), "job.json": json.dumps(described).encode()},
            outputs=("result.json",),
            timeout_s=described["timeout_s"] + MARGIN_S,
            progress=PROGRESS,
        )

    def read(self, ctx: TrialContext, outputs: Mapping[str, bytes]) -> Measurement:
        try:
            result = json.loads(outputs["result.json"])
        except (KeyError, ValueError) as error:
            raise PointError(
                "client_error",
                f"the benchmark client left no result; is {ctx.python} a Python 3.8 or newer?",
            ) from error
        measurement = measure(result, steps=ctx.steps, draft_tokens=ctx.draft_tokens)
        spoilt = result["error"]
        if spoilt is not None:
            detail = f"{spoilt['phase']}: {spoilt['detail']}"
            raise TrialSpoilt(_kind(spoilt), detail, measurement)
        failed = failures(measurement.requests)
        if failed is not None:
            raise TrialSpoilt("client_error", failed, measurement)
        return measurement


def _kind(spoilt: Mapping[str, Any]) -> str:
    if spoilt["late"]:
        return "hang"
    return "warmup_failed" if spoilt["phase"] == "warmup" else "client_error"


def port_of(url: SplitResult) -> int:
    return url.port or {"http": 80, "https": 443}[url.scheme]


def client_job(workload: Workload, ctx: TrialContext, url: SplitResult) -> dict[str, Any]:
    """The client's job (see `sweep.bench.client`), with neither warm-up nor flush."""
    spec = workload.spec
    timeout_s = trial_timeout_s(spec, ctx.concurrency, ctx.admitted)
    stall_s = stall_timeout_s(spec, ctx.watchdog_s)
    return {
        "host": url.hostname,
        "port": port_of(url),
        "https": url.scheme == "https",
        "prefix": url.path.rstrip("/"),
        "path": workload.path,
        "headers": {"Authorization": f"Bearer {ctx.api_key}"} if ctx.api_key else {},
        "concurrency": ctx.concurrency,
        "rate": spec.rate,
        "seed": spec.seed,
        "warmup": [],
        "requests": workload.bodies(ctx.model, ctx.concurrency),
        "flush": False,
        "timeout_s": timeout_s,
        # One request alone may be silent a little longer than all of them: then it is the server.
        "idle_timeout_s": min(stall_s + 60, timeout_s),
        "stall_timeout_s": stall_s,
        "first_timeout_s": max(stall_s, FIRST_S),
        "flush_timeout_s": FLUSH_S,
        "progress": PROGRESS,
    }
