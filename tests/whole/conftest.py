"""One host for the tests of this directory that give it back as they found it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.testhost import Pool
from tests.whole.gpuhost import ROOT, GpuHost, sweep_of

MakeHost = Callable[..., GpuHost]


@pytest.fixture(scope="session")
def dressed(testhost: Pool, tmp_path_factory: pytest.TempPathFactory) -> GpuHost:
    """A host with production running, shared by tests that leave it so."""
    machine = testhost.fresh("whole")
    host = GpuHost(machine, ROOT, tmp_path_factory.mktemp("whole"), {})
    host.dress()
    return host


@pytest.fixture
def gpu_host(dressed: GpuHost, tmp_path: Path) -> MakeHost:
    """`gpu_host(steps=..., server={...}, host={...})`: an inventory of its own for that host."""

    def make(
        server: dict[str, object] | None = None,
        host: dict[str, object] | None = None,
        **sweep: object,
    ) -> GpuHost:
        made = GpuHost(
            dressed.machine, ROOT, tmp_path, {"short": sweep_of(**sweep)}, server or {}, host or {}
        )
        made.write_inventory()
        return made

    return make
