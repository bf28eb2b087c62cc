"""The inventory: hosts, and sweeps to run on them, as frozen values.

These are the values alone, their types and plain limits. `inventory_file.load_inventory` makes
them from the YAML file, fills in defaults and holds them against every rule.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sweep.benchmarks import (
    WORKLOADS,
    Benchmark,
    BuiltinBenchmark,
    ClientBenchmark,
    CommandBenchmark,
    FileWorkload,
    SyntheticWorkload,
)
from sweep.limits import MOST_TRIALS
from sweep.spec import Count, Frozen, Port, Seconds, Spec

__all__ = [
    "NOTIFY_WORDS",
    "WORKLOADS", "Benchmark", "BuiltinBenchmark", "ClientBenchmark", "CommandBenchmark",
    "FileWorkload", "FlagValue",
    "HostSpec", "Inventory", "NotifyEvent", "NotifySpec", "ProductionCommands", "Scalar",
    "SecretRef", "ServerSpec", "SweepSpec", "SyntheticWorkload",
]  # fmt: skip

Scalar = str | int | float | bool
# A flag's value: true = the bare flag, false = the flag is left out, a list = several words.
FlagValue = Scalar | tuple[Scalar, ...]


class SecretRef(Spec):
    """Where a secret is read on the controller, when a launch is installed: exactly one of both."""

    env: str | None = None
    file: str | None = None


class ServerSpec(Spec):
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
    unit: Frozen[Scalar | tuple[Scalar, ...]] = Field(default_factory=dict)
    args: Frozen[FlagValue] = Field(default_factory=dict)
    env: Frozen[str] = Field(default_factory=dict)
    secrets: Frozen[SecretRef] = Field(default_factory=dict)
    health_timeout_s: Seconds = 1800


class ProductionCommands(Spec):
    """Production that systemd does not run, as shell commands; `check` exits 0 while it runs."""

    stop: Annotated[str, Field(min_length=1)]
    start: Annotated[str, Field(min_length=1)]
    check: Annotated[str, Field(min_length=1)]


class HostSpec(Spec):
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


NotifyEvent = Literal["finished", "failed", "stalled", "restored"]
# What the words of a notify command may name in braces.
NOTIFY_WORDS = ("event", "run", "text")


class NotifySpec(Spec):
    """Whom to tell how a run goes (see `sweep.notify`): exactly one of `command` and `webhook`.

    A webhook's URL is often a password, so it may be a reference to one. `stalled_after_s` without
    a new stage or row is a stall: above what one start may take (health_timeout_s is 1800).
    """

    command: tuple[str, ...] = ()
    webhook: str | SecretRef | None = None
    events: Annotated[tuple[NotifyEvent, ...], Field(min_length=1)] = (
        "finished", "failed", "stalled", "restored",
    )  # fmt: skip
    timeout_s: Seconds = 10
    stalled_after_s: Seconds = 2700


class SweepSpec(Spec):
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
    params: Frozen[tuple[FlagValue, ...]] = Field(default_factory=dict)
    notify: tuple[NotifySpec, ...] = ()


class Inventory(Spec):
    """The whole file."""

    hosts: Frozen[HostSpec]
    sweeps: Frozen[SweepSpec]
