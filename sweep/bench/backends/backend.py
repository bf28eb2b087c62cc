"""What every backend is: a job to run beside a proven server, and how what it left is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sweep.bench.job import JobSpec
from sweep.bench.metrics import Measurement
from sweep.errors import PointError

# Reading the answers after the last one came, and starting an interpreter on a busy host.
MARGIN_S = 120.0


@dataclass(frozen=True)
class TrialContext:
    """One trial, as a backend needs to know it.

    `python` runs the client where the job runs, and the server is on `port` of 127.0.0.1 there.
    `steps` and `draft_tokens` are the server's speculative_num_steps and _num_draft_tokens,
    `admitted` its max_running_requests, `watchdog_s` its watchdog_timeout; None: not known.
    `tokenizer` is the path or name that the server has its own from.
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
    tokenizer: str | None = None

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


def last_lines(text: str, count: int = 5) -> str:
    """The last lines that say something, on one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-count:]) or "(nothing)"
