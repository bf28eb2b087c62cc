"""Specs, plans and answers for the tests of `sweep.check`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sweep.check.finding import About, Answer, Finding, Identity
from sweep.inventory import Benchmark, BuiltinBenchmark, FlagValue, HostSpec, ServerSpec
from sweep.plan import Launch, Plan, Point, ServerConfig
from sweep.systemd.paths import Paths

NOW = datetime(2026, 3, 1, 21, 0, tzinfo=UTC)
MODEL = "/models/m"


def make_spec(server: dict[str, Any] | None = None, **more: Any) -> HostSpec:
    given = {"command": ("/opt/sglang/bin/python3", "-m", "sglang.launch_server"), **(server or {})}
    return HostSpec(**{"address": "gpu", "server": ServerSpec(**given), **more})


def make_plan(
    spec: HostSpec, args: Mapping[str, FlagValue] | None = None, benchmark: Benchmark | None = None
) -> Plan:
    """One launch of the host's own flags and `args`."""
    flags = {**spec.server.args, **(args or {})}
    config = ServerConfig(tuple(flags.items()), tuple(spec.server.env.items()))
    launch = Launch("l-01", config, (Point("p-1", 1),))
    return Plan("overnight", "gpu", benchmark or BuiltinBenchmark(), 1, 3, (launch,))


def make_about(
    server: dict[str, Any] | None = None, args: dict[str, FlagValue] | None = None, **more: Any
) -> About:
    """From 21:00 UTC for twelve hours."""
    spec = make_spec(server, **more)
    return About("gpu", spec, make_plan(spec, args), NOW, NOW + timedelta(hours=12))


def make_identity(user: str = "root", uid: int = 0, scope: str = "system") -> Identity:
    return Identity(uid, user, (), Paths("", scope, uid, "check", "sglang-sweep.service"))


def make_answer(**sections: str) -> Answer:
    """Sections by name; an underscore stands for a dash."""
    return {name.replace("_", "-"): f"{text}\n".encode() for name, text in sections.items()}


def said(findings: Iterable[Finding]) -> list[str]:
    """Each finding as one line: level, subject, text."""
    return [f"{one.level} {one.subject}: {one.text}" for one in findings]
