"""How the runner has a trial measured: the own client, or the user's command.

A backend makes a job, which somebody runs in a directory of its own, and reads what it left there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit

from sweep.bench import table
from sweep.bench.archive import NAME, client_archive
from sweep.bench.deadlines import FIRST_S, FLUSH_S, stall_timeout_s, trial_timeout_s
from sweep.bench.job import JobSpec
from sweep.bench.metrics import Measurement, failures, measure
from sweep.bench.workload import Workload, workload_of
from sweep.errors import PointError
from sweep.inventory import Benchmark, BuiltinBenchmark, CommandBenchmark
from sweep.rows import MEASURED

__all__ = [
    "Backend", "Builtin", "Command", "JobSpec", "Measurement", "TrialContext", "TrialSpoilt",
    "backend_for",
]  # fmt: skip

COMMAND_TIMEOUT_S = 3600.0
# Reading the answers after the last one came, and starting an interpreter on a busy host.
MARGIN_S = 120.0
PROGRESS = "progress.json"
# Runs a command and leaves behind how it ended, whoever it was that ran the job.
KEEP_STATUS = '"$@" >command.out 2>command.err; echo $? >command.status'


@dataclass(frozen=True)
class TrialContext:
    """One trial, as a backend needs to know it.

    `python` runs the client where the job runs, and the server is on `port` of 127.0.0.1 there.
    `steps` and `draft_tokens` are the server's speculative_num_steps and _num_draft_tokens,
    `admitted` its max_running_requests, `watchdog_s` its watchdog_timeout; None: not known.
    """

    python: str
    port: int
    model: str
    concurrency: int
    trial: int = 1
    steps: int = 0
    draft_tokens: int | None = None
    api_key: str | None = field(default=None, repr=False)
    admitted: int | None = None
    watchdog_s: float | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class TrialSpoilt(PointError):
    """Requests failed. `measurement` holds what was measured all the same, for the failed row."""

    def __init__(self, failure: str, detail: str, measurement: Measurement) -> None:
        super().__init__(failure, detail)
        self.measurement = measurement


class Backend(Protocol):
    """One way to measure a trial."""

    def job(self, ctx: TrialContext) -> JobSpec:
        """What to run."""
        ...

    def read(self, ctx: TrialContext, outputs: Mapping[str, bytes]) -> Measurement:
        """The measurement in the job's outputs. Raises PointError: client_error, hang,
        warmup_failed.
        """
        ...


def backend_for(benchmark: Benchmark) -> Backend:
    """The backend of a sweep. Raises InventoryError: the workload's file has changed."""
    if isinstance(benchmark, CommandBenchmark):
        return Command(benchmark)
    return Builtin(benchmark, workload_of(benchmark))


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


def client_job(workload: Workload, ctx: TrialContext, url: SplitResult) -> dict[str, Any]:
    """The client's job (see `sweep.bench.client`), with neither warm-up nor flush."""
    spec = workload.spec
    timeout_s = trial_timeout_s(spec, ctx.concurrency, ctx.admitted)
    stall_s = stall_timeout_s(spec, ctx.watchdog_s)
    return {
        "host": url.hostname,
        "port": url.port or 80,
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


@dataclass(frozen=True)
class Command:
    """The user's own script: its output holds the published table or one JSON object."""

    spec: CommandBenchmark

    def job(self, ctx: TrialContext) -> JobSpec:
        holes = {"{concurrency}": str(ctx.concurrency), "{url}": ctx.url, "{port}": str(ctx.port)}
        words = [
            re.sub("|".join(map(re.escape, holes)), lambda hole: holes[hole[0]], word)
            for word in self.spec.command
        ]
        return JobSpec(
            argv=("/bin/sh", "-c", KEEP_STATUS, "sh", *words),
            files={},
            outputs=("command.out", "command.err", "command.status"),
            timeout_s=self.spec.trial_timeout_s or COMMAND_TIMEOUT_S,
        )

    def read(self, ctx: TrialContext, outputs: Mapping[str, bytes]) -> Measurement:
        out, err, status = (
            outputs.get(f"command.{name}", b"").decode("utf-8", "replace")
            for name in ("out", "err", "status")
        )
        if status.strip() != "0":
            how = f"exit status {status.strip()}" if status else "it did not end by itself"
            raise self._refusal(f"{how}: {last_lines(err or out)}")
        try:
            values = table.parse(out).get(ctx.concurrency) or table.parse_object(out) or {}
        except ValueError as error:
            raise self._refusal(str(error)) from error
        if values.get("agg_tok_s") is None:
            raise self._refusal(
                f"neither a table row for C={ctx.concurrency} nor a JSON object with agg_tok_s "
                f"in its output, which ends: {last_lines(out)}"
            )
        if values.get("requests_ok") == 0:
            raise self._refusal(f"no request is ok: {last_lines(out)}")
        missing = ctx.steps > 0 and values.get("accept_length") is None
        return Measurement(
            values={name: values.get(name) for name in MEASURED},
            flags=frozenset({"no_acceptance_data"} if missing else ()),
            evidence={"stdout": out, "stderr": err},
        )

    def _refusal(self, why: str) -> PointError:
        return PointError("client_error", f"{' '.join(self.spec.command)}: {why}")


def last_lines(text: str, count: int = 5) -> str:
    """The last lines that say something, on one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-count:]) or "(nothing)"
