"""The inventory: hosts, and sweeps to run on them, as frozen values.

These are the values alone, their types and plain limits. `inventory_file.load_inventory` makes
them from the YAML file, fills in defaults and holds them against every rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    WrapSerializer,
)

from sweep.limits import MOST_REQUESTS, MOST_TRIALS

Scalar = str | int | float | bool
# A flag's value: true = the bare flag, false = the flag is left out, a list = several words.
FlagValue = Scalar | tuple[Scalar, ...]


def _plain(value: Mapping[str, Any], handler: SerializerFunctionWrapHandler) -> Any:
    return handler(dict(value))


V = TypeVar("V")
# A mapping nobody can change afterwards; dumped as a plain dict.
Frozen = Annotated[Mapping[str, V], AfterValidator(MappingProxyType), WrapSerializer(_plain)]

Port = Annotated[int, Field(ge=1, le=65535)]
Seconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class _Spec(BaseModel):
    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, validate_default=True
    )


class SecretRef(_Spec):
    """Where a secret is read on the controller, when a launch is installed: exactly one of both."""

    env: str | None = None
    file: str | None = None


class ServerSpec(_Spec):
    """The SGLang server of a host, before a sweep changes anything.

    `args` are SGLang flags without dashes, in the canonical spelling of `sglang.flags`. `secrets`
    named in capitals go to the unit's environment, others to SGLang's `--config` file. `unit` are
    further directives of the unit's [Service] section.
    """

    command: Annotated[tuple[str, ...], Field(min_length=1)]
    port: Port = 30900
    user: str | None = None
    group: str | None = None
    working_directory: str | None = None
    env_file: str | None = None
    unit: Frozen[Scalar | tuple[Scalar, ...]] = {}
    args: Frozen[FlagValue] = {}
    env: Frozen[str] = {}
    secrets: Frozen[SecretRef] = {}
    health_timeout_s: Seconds = 1800


class ProductionCommands(_Spec):
    """Production that systemd does not run, as shell commands; `check` exits 0 while it runs."""

    stop: Annotated[str, Field(min_length=1)]
    start: Annotated[str, Field(min_length=1)]
    check: Annotated[str, Field(min_length=1)]


class HostSpec(_Spec):
    """One GPU host. With `transport: demo` everything else has a working default; with
    `transport: local` it is this machine, and whatever SSH would need stays unset.

    `host_class` names machines whose numbers may be compared; a loaded host always has one (its
    own name where the file gives none).
    """

    transport: Literal["ssh", "local", "demo"] = "ssh"
    address: str = ""
    user: str | None = None
    ssh_port: Port | None = None
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
    reconnect_for_s: Annotated[float, Field(ge=0)] = 600
    deadman_s: Seconds = 1200
    server: ServerSpec


# What the tool's own client can send, each with the fingerprint of what that is, so that points
# measured with other prompts are other points. `bench.workload` has them; a test compares.
WORKLOADS: Mapping[str, str] = MappingProxyType({"greedy": "c3bb306740d0"})


class BuiltinBenchmark(_Spec):
    """The tool's own client. `requests` None means max(4, 2*C) at concurrency C.

    The time-outs are derived where they are None: `bench.deadlines`.
    """

    kind: Literal["builtin"] = "builtin"
    workload: str = "greedy"
    temperature: Annotated[float, Field(ge=0)] = 0.0
    max_tokens: Count = 1000
    requests: Annotated[int, Field(ge=1, le=MOST_REQUESTS)] | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    run_on: Literal["host", "controller"] = "host"
    trial_timeout_s: Seconds | None = None
    stall_timeout_s: Seconds | None = None


class CommandBenchmark(_Spec):
    """The user's own script, run on the host; `{concurrency}`, `{url}` and `{port}` are filled in.

    Its output is read as the published table or as one JSON object of measured columns.
    """

    kind: Literal["command"]
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    workload: str = "command"
    temperature: Annotated[float, Field(ge=0)] | None = None
    trial_timeout_s: Seconds | None = None


Benchmark = BuiltinBenchmark | CommandBenchmark


class SweepSpec(_Spec):
    """One experiment. `steps` and `concurrency` are already expanded; `max` stays a word.

    `params` are further flags to vary, in canonical spelling: the plain product of their lists.
    """

    host: str
    steps: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
    concurrency: Annotated[tuple[Count | Literal["max"], ...], Field(min_length=1)]
    baseline: bool = True
    trials: Annotated[int, Field(ge=1, le=MOST_TRIALS)] = 1
    benchmark: Benchmark = BuiltinBenchmark()
    max_consecutive_failures: Count = 3
    params: Frozen[tuple[FlagValue, ...]] = {}


class Inventory(_Spec):
    """The whole file."""

    hosts: Frozen[HostSpec]
    sweeps: Frozen[SweepSpec]
