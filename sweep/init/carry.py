"""Directives of a unit that the tool's own unit keeps: limits, sandboxing, places, priorities."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sweep.errors import InventoryError
from sweep.sglang.secrecy import holds_secret, names_secret
from sweep.unit.directives import refusal, user_directives
from sweep.unit.text import Entry

Directives = dict[str, str | int | tuple[str, ...]]

# The tool has its own, or they belong to a service that is to stay up: not worth a word.
_EXPECTED = frozenset({
    "Type", "ExecStart", "Restart", "RestartSec", "KillMode", "KillSignal", "Environment",
    "EnvironmentFile", "User", "Group", "WorkingDirectory", "StandardOutput", "StandardError",
    "StandardInput", "SyslogIdentifier", "TimeoutStartSec", "TimeoutStopSec", "TimeoutSec",
    "PIDFile", "NotifyAccess", "RemainAfterExit", "SuccessExitStatus", "SendSIGKILL",
    "RestartPreventExitStatus", "RestartForceExitStatus", "RestartSteps", "RestartMaxDelaySec",
    "FinalKillSignal", "Delegate",
})  # fmt: skip
# Named when they are left out: the server may need what they do.
_COMMANDS = ("ExecStartPre", "ExecStartPost", "ExecCondition", "ExecReload", "ExecStop",
             "ExecStopPost")  # fmt: skip
# Given twice the last one holds; every other directive is taken for a list.
_SINGLE = re.compile(
    r"Limit\w+|Nice|OOM\w+|IO\w+|CPU(Sched\w+|Weight|Quota|Shares)|Memory\w+|Tasks\w+|UMask|Slice"
    r"|Private\w+|Protect\w+|NoNewPrivileges|\w+Sec|\w+Mode|NUMAPolicy|DevicePolicy|Dynamic\w+"
)
_OF_THE_UNIT = re.compile(r"%[nNpPiIjJfy]")


def carried(entries: Sequence[Entry], notes: list[str]) -> Directives:
    """What goes to `server.unit`, in the unit's order. What is left out is added to `notes`."""
    found: dict[str, list[str]] = {}
    left: list[str] = []
    for section, name, value in entries:
        if section != "Service" or name in _EXPECTED:
            continue
        if name in _COMMANDS or refusal(name) or name == "RuntimeDirectory":
            left += [] if name in left else [name]
        elif not value:
            found.pop(name, None)
        elif _SINGLE.fullmatch(name):
            found[name] = [value]
        else:
            found.setdefault(name, []).append(value)
    for name in list(found):
        problem = _problem(name, found[name])
        if problem:
            notes.append(f"{name}= left out: {problem}")
            del found[name]
    if left:
        names = ", ".join(f"{name}=" for name in left)
        notes.append(f"left out of the unit: {names}; what the server needs belongs to server.unit")
    return {
        name: _number(values[0]) if len(values) == 1 else tuple(values)
        for name, values in found.items()
    }


def _number(value: str) -> str | int:
    return int(value) if re.fullmatch(r"-?[1-9][0-9]{0,17}|0", value) else value


def _problem(name: str, values: Sequence[str]) -> str | None:
    if any(_OF_THE_UNIT.search(value) for value in values):
        return "it holds the name of the unit it was written for"
    if any(holds_secret(value) for value in values) or (
        names_secret(name) and name != "KeyringMode"
    ):
        return "it may hold a secret"
    try:
        user_directives({name: tuple(values)})
    except InventoryError as error:
        return str(error).split(": ", 1)[1]
    return None


def requirements(entries: Sequence[Entry]) -> Iterator[str]:
    """A sentence about each unit that must run for this one."""
    for section, name, value in entries:
        if section == "Unit" and name in ("Requires", "BindsTo", "Requisite") and value:
            yield f"{name}={value}: sweep does not start it; it must run during a sweep"
