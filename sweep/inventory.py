"""The inventory: hosts, and sweeps to run on them, as frozen values.

`load_inventory` reads the YAML file; every error names file, line and path and says what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

Scalar = str | int | float | bool
# A flag's value: true = the bare flag, false = the flag is left out, a list = several words.
FlagValue = Scalar | tuple[Scalar, ...]


class _Spec(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class SecretRef(_Spec):
    """Where a secret is read on the controller, when a launch is installed: exactly one of both."""

    env: str | None = None
    file: str | None = None


class ServerSpec(_Spec):
    """The SGLang server of a host, before a sweep changes anything.

    `args` are SGLang flags without dashes, as SGLang spells them today. `secrets` named in capitals
    go to the unit's environment, others to SGLang's `--config` file.
    """

    command: tuple[str, ...]
    port: int = 30900
    user: str | None = None
    group: str | None = None
    working_directory: str | None = None
    env_file: str | None = None
    unit: Mapping[str, Scalar | tuple[Scalar, ...]] = {}
    args: Mapping[str, FlagValue] = {}
    env: Mapping[str, str] = {}
    secrets: Mapping[str, SecretRef] = {}
    health_timeout_s: float = 1800


class ProductionCommands(_Spec):
    """Production that systemd does not run: shell commands on the host. `check` exits 0 while it runs."""

    stop: str
    start: str
    check: str


class HostSpec(_Spec):
    """One GPU host. With `transport: demo` everything else has a working default."""

    transport: Literal["ssh", "demo"] = "ssh"
    address: str = ""
    user: str | None = None
    ssh_port: int | None = None
    identity_file: str | None = None
    ssh_config: str | None = None
    become: Literal["none", "sudo"] = "none"
    scope: Literal["system", "user"] = "system"
    host_key: str = "strict"
    host_class: str = ""
    unit: str = "sglang-sweep.service"
    production: tuple[str, ...] | ProductionCommands = ()
    production_health: str | None = None
    python: str = "/usr/bin/python3"
    reconnect_for_s: float = 600
    deadman_s: float = 1200
    server: ServerSpec


class BuiltinBenchmark(_Spec):
    """The tool's own client. `requests` None means max(4, 2*C) at concurrency C."""

    kind: Literal["builtin"] = "builtin"
    workload: str = "greedy"
    temperature: float = 0.0
    max_tokens: int = 1000
    requests: int | None = None
    seed: int = 0
    run_on: Literal["host", "controller"] = "host"
    trial_timeout_s: float | None = None


class CommandBenchmark(_Spec):
    """The user's own script, run on the host; `{concurrency}`, `{url}` and `{port}` are filled in.

    Its output is read as the published table or as one JSON object of measured columns.
    """

    kind: Literal["command"]
    command: tuple[str, ...]
    workload: str = "command"
    temperature: float | None = None
    trial_timeout_s: float | None = None


Benchmark = BuiltinBenchmark | CommandBenchmark


class SweepSpec(_Spec):
    """One experiment. `steps` and `concurrency` are already expanded; `max` stays a word."""

    host: str
    steps: tuple[int, ...]
    concurrency: tuple[int | Literal["max"], ...]
    baseline: bool = True
    trials: int = 1
    benchmark: Benchmark = BuiltinBenchmark()
    max_consecutive_failures: int = 3
    params: Mapping[str, tuple[FlagValue, ...]] = {}


class Inventory(_Spec):
    """The whole file."""

    hosts: Mapping[str, HostSpec]
    sweeps: Mapping[str, SweepSpec]
