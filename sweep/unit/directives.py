"""The user's own directives (`server.unit`): where they stand, and which are not the user's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sweep.errors import InventoryError
from sweep.inventory import Scalar
from sweep.unit.quoting import directive_value

Directive = tuple[str, str]

_NAME = re.compile(r"[A-Z][A-Za-z0-9]*(-[A-Za-z0-9]+)*")

_UNIT_SECTION = frozenset({
    "After", "Before", "BindsTo", "CollectMode", "Documentation", "JoinsNamespaceOf",
    "JobRunningTimeoutSec", "JobTimeoutSec", "PartOf", "Requires", "RequiresMountsFor",
    "Requisite", "StartLimitBurst", "StartLimitIntervalSec", "Upholds", "Wants",
})  # fmt: skip

# What the tool relies on, and why a launch would not be what the plan says without it.
_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        ("Alias", "Also", "DefaultInstance", "RequiredBy", "WantedBy"),
        "the unit lives under /run for one launch and is never enabled",
    ),
    "Conflicts": "production units go to `production`",
    "Description": "the tool names run and launch there",
    **dict.fromkeys(
        ("OnFailure", "OnSuccess", "FailureAction", "SuccessAction"),
        "a failed launch is a result: nothing else may start because of it",
    ),
    **dict.fromkeys(
        ("Type", "BusName", "ForkingPID", "GuessMainPID", "NotifyAccess", "PIDFile",
         "RemainAfterExit", "ExecStart", "ExecStartEx"),
        "the tool follows the one process it starts (`server.command`)",
    ),
    **dict.fromkeys(
        ("Restart", "RestartSec", "RestartForceExitStatus", "RestartMode", "RestartSteps",
         "RestartMaxDelaySec", "SuccessExitStatus", "WatchdogSec"),
        "a server that ends must stay ended, so that its end is recorded",
    ),
    **dict.fromkeys(
        ("KillMode", "SendSIGKILL"),
        "every process of the server must be gone before the next launch",
    ),
    **dict.fromkeys(
        ("StandardOutput", "StandardError", "LogNamespace", "LogLevelMax", "LogFilterPatterns",
         "LogRateLimitIntervalSec", "LogRateLimitBurst"),
        "the tool reads every line of the server in the journal",
    ),
    **dict.fromkeys(
        ("PrivateNetwork", "NetworkNamespacePath"),
        "the server must be reached at 127.0.0.1 of the host",
    ),
    **dict.fromkeys(
        ("RootDirectory", "RootImage", "RootHash"), "the server runs in the host's own root"
    ),
    "DynamicUser": "the benchmark client needs a user who exists: set `server.user`",
    "User": "set `server.user`",
    "Group": "set `server.group`",
    "WorkingDirectory": "set `server.working_directory`",
    "Environment": "set `server.env`",
    "UnsetEnvironment": "leave the variable out of `server.env`",
}  # fmt: skip


@dataclass(frozen=True)
class Directives:
    """Lines for the sections of a unit, in the user's order."""

    unit: tuple[Directive, ...]
    service: tuple[Directive, ...]
    environment_files: tuple[str, ...]


def user_directives(given: Mapping[str, Scalar | tuple[Scalar, ...]]) -> Directives:
    """Sort `server.unit` into sections. A list is the same directive several times.

    Raises InventoryError for a directive the tool relies on, naming the reason.
    """
    unit: list[Directive] = []
    service: list[Directive] = []
    files: list[str] = []
    for name, value in given.items():
        path = f"server.unit.{name}"
        _check_name(name, path)
        for one in value if isinstance(value, tuple) else (value,):
            text = directive_value(_word(one), path)
            _check_value(name, text, path)
            if name == "EnvironmentFile":
                files.append(text)
            elif name in _UNIT_SECTION or name.startswith(("Condition", "Assert")):
                unit.append((name, text))
            else:
                service.append((name, text))
    return Directives(tuple(unit), tuple(service), tuple(files))


def refusal(name: str) -> str | None:
    """Why this directive cannot be set by the user, or None."""
    return _REFUSED.get(name)


def _check_name(name: str, path: str) -> None:
    if not _NAME.fullmatch(name):
        raise InventoryError(f"{path}: {name!r} is not the name of a systemd directive")
    reason = refusal(name)
    if reason:
        raise InventoryError(f"{path}: not allowed: {reason}")


def _check_value(name: str, text: str, path: str) -> None:
    """systemd removes a runtime directory when the unit stops: not the one with our state."""
    if name == "RuntimeDirectory" and any(
        word.strip("\"'").split("/")[0] == "sweep" for word in text.split()
    ):
        raise InventoryError(f"{path}: the tool keeps its state in /run/sweep; take another name")


def _word(value: Scalar) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
