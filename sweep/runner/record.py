"""Rows: what one attempt at one trial becomes in results.csv, measured or failed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sweep.bench.backends import TrialSpoilt
from sweep.bench.metrics import Measurement
from sweep.errors import LaunchError, PointError
from sweep.plan import Due, Launch
from sweep.rows import Cell, Row, flags_text, utc
from sweep.runner.launch import Ready
from sweep.runner.session import Session
from sweep.sglang.args import expected

# Where the simulated server's models live: whoever asks for one does not measure a real one.
SIMULATED = "simulated/"


@dataclass(frozen=True)
class Trial:
    """One attempt at one trial. `ready` is None when its server never got that far.

    `ended` is known for one that ended when nobody looked; None: now.
    """

    launch: Launch
    due: Due
    began: datetime
    ready: Ready | None = None
    ended: datetime | None = None

    @property
    def key(self) -> tuple[str, int, int]:
        """(point id, trial, attempt), as the row has it."""
        return self.due.key

    @property
    def concurrency(self) -> int | None:
        """As a number: `max` is what the server admits, unknown while there is none."""
        if self.due.point.concurrency != "max":
            return int(self.due.point.concurrency)
        return self.ready.capacity.max_running_requests if self.ready else None


def record_result(session: Session, trial: Trial, measurement: Measurement) -> None:
    """Write the row of a measured trial."""
    values = dict(measurement.values) | {"status": "ok"}
    _append(session, trial, values, measurement)


def record_failure(session: Session, trial: Trial, error: PointError | LaunchError) -> None:
    """Write the row of a spoilt trial, with what was measured all the same."""
    measurement = error.measurement if isinstance(error, TrialSpoilt) else Measurement({})
    values = dict(measurement.values) | {
        "status": "failed",
        "failure": error.failure,
        "failure_detail": error.detail,
    }
    _append(session, trial, values, measurement)


def _append(
    session: Session, trial: Trial, values: Mapping[str, Cell], measurement: Measurement
) -> None:
    sweep = session.sweep
    row = Row(
        {
            **_of_plan(session, trial),
            **(_of_server(trial.ready) if trial.ready else {}),
            **values,
            "flags": flags_text(measurement.flags | _flags(session, trial)),
            "started_at": utc(trial.began),
            "finished_at": utc(trial.ended or sweep.clock.now()),
        }
    )
    bench = {"requests": list(measurement.requests), "evidence": measurement.evidence or {}}
    sweep.progress.row(sweep.run.append(row, bench))


def _of_plan(session: Session, trial: Trial) -> dict[str, Cell]:
    """What is known of a row before anything was started."""
    sweep, launch, due = session.sweep, trial.launch, trial.due
    intended = expected(launch.config)
    benchmark = sweep.plan.benchmark
    return {
        "host": sweep.plan.host,
        "launch": launch.id,
        "point": due.point.id,
        "trial": due.trial,
        "attempt": due.attempt,
        "speculative_num_steps": launch.config.steps,
        "speculative_eagle_topk": _number(intended["speculative_eagle_topk"]),
        "speculative_num_draft_tokens": _number(intended["speculative_num_draft_tokens"]),
        "config": json.dumps(dict(launch.config.swept)) if launch.config.swept else None,
        "workload": benchmark.label,
        "temperature": benchmark.temperature,
        "concurrency": trial.concurrency,
        "gpu": gpu_text(tuple(gpu.name for gpu in session.facts.gpus)),
        "model": str(launch.config.flag("model-path")),
        "unit_sha256": sweep.units[launch.id].sha256,
    }


def _of_server(ready: Ready) -> dict[str, Cell]:
    """What the running server has shown."""
    return {
        "max_running_requests": ready.capacity.max_running_requests,
        "max_total_num_tokens": ready.capacity.max_total_num_tokens,
        "dp_size": ready.capacity.dp_size,
        "startup_s": None if ready.startup_s is None else round(ready.startup_s, 3),
        "sglang_version": ready.version,
        "invocation_id": f"i-{ready.started.invocation_id}",
        "unit_sha256": ready.unit_sha256,
    }


def _flags(session: Session, trial: Trial) -> set[str]:
    found: set[str] = set()
    demo = session.sweep.spec.transport == "demo"
    if demo or str(trial.launch.config.flag("model-path")).startswith(SIMULATED):
        found.add("simulated")
    if trial.ready is None:
        return found
    found |= set(trial.ready.capacity.flags)
    admitted, concurrency = trial.ready.capacity.max_running_requests, trial.concurrency
    if admitted is not None and concurrency is not None and concurrency > admitted:
        found.add("capped")
    return found


def gpu_text(names: tuple[str, ...]) -> str | None:
    """`4x NVIDIA RTX PRO 6000`; several kinds are joined by ` + `."""
    kinds = dict.fromkeys(names)
    return " + ".join(f"{names.count(kind)}x {kind}" for kind in kinds) or None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None
