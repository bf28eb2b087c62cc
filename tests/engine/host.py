"""A test host with the engine inside, where production and what is swept are SGLang itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tests.engine.build import ENVIRONMENT, STANDIN, Engine
from tests.testhost import Machine, Pool
from tests.testhost.shell import sh, wait_until
from tests.whole.gpuhost import PRODUCTION_PORT, ROOT, Ended, GpuHost

PLACE = "/opt/engine"
SITUATION = {**ENVIRONMENT, "PYTHONPATH": f"{PLACE}/standin:{PLACE}/packages"}
COMMAND = ("/usr/bin/python3", "-m", "sglang.launch_server")
# One thread, and a pool that does not follow the memory that happens to be free.
ARGUMENTS: dict[str, object] = {
    "model-path": f"{PLACE}/models/target",
    "device": "cpu",
    "max-total-tokens": 20000,
}
SPECULATION: dict[str, object] = {
    "speculative-algorithm": "STANDALONE",
    "speculative-draft-model-path": f"{PLACE}/models/draft",
    "speculative-eagle-topk": 1,
}
START_S = 300
NOTHING: Mapping[str, Path] = MappingProxyType({})


@dataclass(frozen=True)
class Form:
    """How much is swept. A launch takes half a minute, a trial a few seconds."""

    steps: tuple[int, ...]
    concurrency: tuple[int, ...]

    @property
    def deadline_s(self) -> float:
        return len(self.steps) * (START_S + 60 * len(self.concurrency)) + START_S


FORMS = {
    "short": Form((0, 2), (1, 4)),
    "medium": Form((0, 1, 2, 3, 5, 8), (1, 4, 8)),
    "full": Form(tuple(range(11)), (1, 4, 16)),
}


def form() -> Form:
    return FORMS[os.environ.get("SWEEP_ENGINE", "short")]


def with_engine(
    pool: Pool, engine: Engine, name: str, more: Mapping[str, Path] = NOTHING
) -> Machine:
    """A host with the engine's parts (and more) at PLACE, read-only; it finds SGLang there."""
    machine = pool.fresh(name)
    machine.off(hard=False)
    parts = {"standin": STANDIN, "packages": engine.packages, "models": engine.models, **more}
    for part, source in parts.items():
        target = machine.root / PLACE.lstrip("/") / part
        target.mkdir(parents=True)
        sh("mount", "-o", "bind,ro", source, target)
    machine.on()
    words = " ".join(f"{key}={value}" for key, value in SITUATION.items())
    version = machine.sh(f"env {words} python3 -c 'import sglang; print(sglang.__version__)'")
    assert version == "0.5.23"
    return machine


class EngineHost(GpuHost):
    """A GPU host without a GPU: everything on it is real."""

    def dress(self) -> None:
        """Production serves, as it does on a host that has been up for long."""
        self.machine.install_service("sglang.service", production(), start=False)
        self.machine.run("systemctl", "start", "sglang.service")
        wait_until(self.serves, "production to serve", timeout_s=START_S)

    def sweep(self, *arguments: str, deadline_s: float = 60) -> Ended:
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            process.terminate()
            out, err = process.communicate(timeout=START_S)
            raise AssertionError(f"the tool did not end:\n{out}\n{err}") from None
        return Ended(process.returncode, out, err)


def production() -> str:
    flags = {**ARGUMENTS, "port": PRODUCTION_PORT}
    words = (*COMMAND, *(f"--{flag} {value}" for flag, value in flags.items()))
    lines = (f"Environment={name}={value}" for name, value in SITUATION.items())
    return "\n".join(
        ("[Unit]", "Description=production", "[Service]", *lines, f"ExecStart={' '.join(words)}",
         "Restart=on-failure", "RestartSec=5", "TimeoutStopSec=60", "")
    )  # fmt: skip


def engine_host(machine: Machine, directory: Path, sweeps: dict[str, object]) -> EngineHost:
    server = {
        "command": list(COMMAND),
        "args": {**ARGUMENTS, **SPECULATION},
        "env": SITUATION,
        "health_timeout_s": START_S,
    }
    return EngineHost(machine, ROOT, directory, sweeps, server)
