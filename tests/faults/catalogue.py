"""All faults, and how often each is injected."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from tests.faults import disks, hosts, manners, network, orchestrator, servers
from tests.faults.fault import Fault

FAULTS: tuple[Fault, ...] = (
    *orchestrator.FAULTS, *manners.FAULTS, *network.FAULTS, *hosts.FAULTS, *servers.FAULTS,
    *disks.FAULTS,
)  # fmt: skip


@dataclass(frozen=True)
class Injection:
    """One fault, once. With the same seed everything that is drawn comes out the same."""

    fault: Fault
    number: int
    seed: str

    @property
    def name(self) -> str:
        return f"{self.fault.name}-{self.number}"

    @property
    def again(self) -> str:
        """The command that repeats just this one."""
        return (
            f"SWEEP_FAULTS=long SWEEP_FAULTS_SEED={self.seed} "
            f"pytest 'tests/faults/test_campaign.py::test_fault[{self.name}]'"
        )


def injections() -> Iterator[Injection]:
    """Those that $SWEEP_FAULTS asks for (short or long), with the seed of $SWEEP_FAULTS_SEED."""
    long, seed = os.environ.get("SWEEP_FAULTS") == "long", os.environ.get("SWEEP_FAULTS_SEED", "1")
    for fault in FAULTS:
        for number in range(1, (fault.long if long else fault.short) + 1):
            yield Injection(fault, number, seed)
