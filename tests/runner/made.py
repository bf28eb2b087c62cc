"""A sweep without a host, for what needs no host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from sweep.inventory import HostSpec, ServerSpec
from sweep.plan import Plan
from sweep.progress import PlainProgress
from sweep.results import new_run
from sweep.runner import Sweep
from sweep.signals import InterruptibleClock

NOWHERE = HostSpec(transport="demo", server=ServerSpec(command=("/bin/true",)))


@contextmanager
def sweep_of(
    plan: Plan, place: Path, spec: HostSpec = NOWHERE, clock: InterruptibleClock | None = None
) -> Iterator[Sweep]:
    """A sweep whose run directory is in `place`, and locked."""
    run = new_run(place, plan.sweep)
    with run.lock(), clock or InterruptibleClock(lambda _name, _count: None) as ticking:
        yield Sweep(
            plan=plan,
            units={},
            spec=spec,
            run=run,
            progress=PlainProgress(Console(quiet=True)),
            clock=ticking,
        )
