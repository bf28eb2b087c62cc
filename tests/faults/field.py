"""The hosts of a campaign: made when first needed, kept while they are in order."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random

from tests.faults.fault import BEFORE, Fault, nothing
from tests.faults.ground import Ground
from tests.faults.judge import Trial, ok_trials, rows
from tests.testhost import Machine, Pool
from tests.testhost.shell import sh
from tests.whole.gpuhost import ROOT, SIM_ENV, SUDO, USER, GpuHost, Login, sweep_of

DISK = "400m"
# Long enough that a trial can be met in the middle, short enough for hundreds of sweeps.
BENCHMARK = {"kind": "builtin", "max_tokens": 400}
ENV = {**SIM_ENV, "SWEEP_SIM_FAIL": "@/tmp/sweep-sim-fail"}
# One host of each systemd, each with another way to become root.
WAYS: Mapping[str, tuple[str, Login]] = {
    "bookworm": ("bookworm", ROOT),
    "trixie": ("trixie", SUDO),
    "user": ("bookworm", USER),
}


class Field:
    """Dressed hosts by name, the jump host, and what an undisturbed sweep has in the end."""

    def __init__(self, pool: Pool, directory: Path) -> None:
        self._pool = pool
        self._machines: dict[str, Machine] = {}
        self._in_order: set[str] = set()
        self.undisturbed = ground = self._ground(
            "bookworm", Fault("none", BEFORE, nothing), directory
        )
        began = time.monotonic()
        ground.start("run", "short")
        assert ground.wait() == 0, ground.said()
        self.undisturbed_s = time.monotonic() - began
        self.trials: frozenset[Trial] = ok_trials(rows(ground))

    def ground(self, fault: Fault, chance: Random, directory: Path) -> Ground:
        """A host in order for that fault, drawn where there is a choice."""
        name = fault.way if fault.way == "user" else chance.choice(("bookworm", "trixie"))
        ground = self._ground(name, fault, directory)
        ground.chance = chance
        ground.undisturbed_s = self.undisturbed_s
        return ground

    def take_back(self, fault: Fault, ground: Ground) -> None:
        """End everything of the injection; a host that is not as it was is not used again."""
        ground.end()
        with contextlib.suppress(Exception):
            fault.mend(ground)
        sh("umount", ground.runs, check=False)
        if not (ground.is_serving() and ground.host.leftovers() == []):
            self._in_order.discard(ground.machine.name)

    def _ground(self, way: str, fault: Fault, directory: Path) -> Ground:
        release, login = WAYS[way]
        benchmark = {**BENCHMARK, **fault.benchmark}
        points = {"steps": "1..2", "concurrency": [1, 4], "baseline": False}
        name = f"faults-{way}"
        host = GpuHost(
            machine=self._machine(name, release),
            login=login,
            directory=directory,
            sweeps={"short": sweep_of(**points, benchmark=benchmark)},
            server={"env": ENV, **fault.server},
            host=fault.host,
        )
        if name not in self._in_order:
            host.dress()
            self._in_order.add(name)
        if fault.way == "jump":
            host.host = {**host.host, "ssh_config": str(self._through_jump(host, directory))}
        host.write_inventory()
        return Ground(host, Random(0))

    def _machine(self, name: str, release: str) -> Machine:
        if name not in self._in_order:
            self._machines[name] = self._pool.fresh(name, release=release, disk=DISK)
        self._machines[name].heal()
        return self._machines[name]

    def _through_jump(self, host: GpuHost, directory: Path) -> Path:
        """An ssh_config that reaches the host by way of another one."""
        jump = self._pool.shared("bookworm")
        path = directory / "ssh_config"
        lines = host.machine.ssh_config.read_text().replace(
            "  BatchMode yes", f"  ProxyJump {jump.name}\n  BatchMode yes"
        )
        path.write_text(lines + jump.ssh_config.read_text())
        return path
