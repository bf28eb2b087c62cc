"""How the runner has a trial measured: the own client, another one, or the user's command.

A backend makes a job, which somebody runs in a directory of its own, and reads what it left there.
"""

from __future__ import annotations

from sweep.bench.backends.backend import MARGIN_S, Backend, TrialContext, TrialSpoilt, last_lines
from sweep.bench.backends.builtin import Builtin, client_job, port_of
from sweep.bench.backends.command import Command
from sweep.bench.backends.other import Other, client_of
from sweep.bench.job import JobSpec
from sweep.bench.metrics import Measurement
from sweep.bench.workload import workload_of
from sweep.inventory import Benchmark, ClientBenchmark, CommandBenchmark

__all__ = [
    "MARGIN_S", "Backend", "Builtin", "Command", "JobSpec", "Measurement", "Other", "TrialContext",
    "TrialSpoilt", "backend_for", "client_job", "client_of", "last_lines", "port_of",
]  # fmt: skip


def backend_for(benchmark: Benchmark) -> Backend:
    """The backend of a sweep. Raises InventoryError: the workload's file has changed."""
    if isinstance(benchmark, CommandBenchmark):
        return Command(benchmark)
    if isinstance(benchmark, ClientBenchmark):
        return Other(benchmark, workload_of(benchmark.load))
    return Builtin(benchmark, workload_of(benchmark))
