"""systemd-run: transient services, alone or started by a transient timer."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field

from sweep.demo.manager.registry import Registry
from sweep.demo.manager.unitfile import transient
from sweep.demo.manager.words import Answer, unit_name

_VALUED = ("--unit", "--property", "--description", "--uid", "--gid", "--setenv", "--slice",
           "--working-directory", "--on-active", "--timer-property", "--service-type", "--nice",
           "--background", "--path-property", "--socket-property")  # fmt: skip
_SHORT = {"-u": "--unit", "-p": "--property", "-E": "--setenv"}
# Where a property of the transient service belongs; all others are of [Service].
_OF_UNIT = ("After", "Before", "Requires", "Wants", "BindsTo", "PartOf", "Conflicts", "Description",
            "CollectMode", "StartLimitBurst", "StartLimitIntervalSec", "OnFailure",
            "PropagatesReloadTo")  # fmt: skip


@dataclass
class _Asked:
    options: dict[str, list[str]] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    command: list[str] = field(default_factory=list)

    def last(self, option: str, default: str = "") -> str:
        return self.options.get(option, [default])[-1]


class SystemdRun:
    """Runs one command line of systemd-run after another."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def run(self, argv: list[str]) -> Answer:
        asked = _read(argv)
        answer = Answer()
        given = asked.last("--unit") or f"run-u{secrets.randbelow(10**6)}"
        stem = given.removesuffix(".timer").removesuffix(".service")
        service, timer = unit_name(stem), f"{stem}.timer"
        timed = "--on-active" in asked.options
        if not asked.command:
            answer.fail(1, "Command line to execute required.")
        for name in (service, timer) if timed else (service,):
            if self._registry.loaded(name) or self._registry.unit(name).exists:
                answer.fail(
                    1,
                    f"Failed to start transient {name.rpartition('.')[2]} unit: Unit {name} was "
                    "already loaded or has a fragment file.",
                )
        if answer.status:
            return answer
        collect = bool(asked.flags & {"--collect", "-G"})
        settings = _service_settings(asked)
        self._registry.add_transient(transient(service, settings, asked.command), collect=collect)
        if timed:
            directives = _timer_settings(asked)
            self._registry.add_transient(transient(timer, directives), collect=collect)
            await self._registry.start(timer)
            started = f"Running timer as unit: {timer}\nWill run service as unit: {service}\n"
        else:
            await self._start(service, asked, answer)
            started = f"Running as unit: {service}\n"
        if not asked.flags & {"--quiet", "-q"}:
            answer.error += started
        return answer

    async def _start(self, service: str, asked: _Asked, answer: Answer) -> None:
        unit = self._registry.unit(service)
        if await self._registry.start(service) != "done":
            answer.fail(1, f"Job for {service} failed.")
        if "--wait" in asked.flags:
            await unit.until_ended()
            answer.status = int(unit.properties()["ExecMainStatus"])


def _timer_settings(asked: _Asked) -> list[tuple[str, str, str]]:
    settings = [("Timer", "OnActiveSec", asked.last("--on-active"))]
    for pair in asked.options.get("--timer-property", []):
        key, _, value = pair.partition("=")
        settings.append(("Unit" if key in _OF_UNIT else "Timer", key, value))
    return settings


def _service_settings(asked: _Asked) -> list[tuple[str, str, str]]:
    settings = [("Unit", "Description", asked.last("--description", " ".join(asked.command)))]
    for pair in asked.options.get("--property", []):
        key, _, value = pair.partition("=")
        settings.append(("Unit" if key in _OF_UNIT else "Service", key, value))
    for option, key in (
        ("--uid", "User"),
        ("--gid", "Group"),
        ("--service-type", "Type"),
        ("--working-directory", "WorkingDirectory"),
    ):
        if option in asked.options:
            settings.append(("Service", key, asked.last(option)))
    for pair in asked.options.get("--setenv", []):
        name, equals, value = pair.partition("=")
        text = value if equals else os.environ.get(name, "")
        escaped = f"{name}={text}".replace("\\", "\\\\").replace('"', '\\"')
        settings.append(("Service", "Environment", f'"{escaped}"'))
    return settings


def _read(argv: list[str]) -> _Asked:
    """Options end where the command begins."""
    asked = _Asked()
    left = list(argv)
    while left:
        word = left.pop(0)
        if word == "--":
            asked.command = left
            break
        if not word.startswith("-"):
            asked.command = [word, *left]
            break
        name, equals, value = word.partition("=")
        if word[:2] in _SHORT and word[:2] != "--":
            name, value = _SHORT[word[:2]], word[2:] or left.pop(0)
            asked.options.setdefault(name, []).append(value)
        elif name in _VALUED:
            asked.options.setdefault(name, []).append(value if equals else left.pop(0))
        else:
            asked.flags.add(word)
    return asked
