"""The user's own script: its output holds the published table or one JSON object."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sweep.bench import table
from sweep.bench.backends.backend import TrialContext, last_lines
from sweep.bench.job import JobSpec
from sweep.bench.metrics import Measurement
from sweep.errors import PointError
from sweep.inventory import CommandBenchmark
from sweep.rows import MEASURED

COMMAND_TIMEOUT_S = 3600.0
# Runs a command and leaves behind how it ended, whoever it was that ran the job.
KEEP_STATUS = '"$@" >command.out 2>command.err; echo $? >command.status'


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
