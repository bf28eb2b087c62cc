"""What a host's systemd says about one of its units: its own parse, not ours."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweep.errors import HostRefused
from sweep.host import Host, sections
from sweep.unit.text import Entry, entries

_BUS = "org.freedesktop.systemd1"
_UNIT = ("Id", "LoadState", "LoadError", "FragmentPath", "DropInPaths", "SourcePath",
         "NeedDaemonReload")  # fmt: skip
_SERVICE = ("ExecStartEx", "Environment", "EnvironmentFiles", "PassEnvironment", "User", "Group",
            "WorkingDirectory", "DynamicUser")  # fmt: skip


@dataclass(frozen=True)
class UnitFacts:
    """A unit as systemd has it.

    name               with its suffix
    files              the unit file, its drop-ins and what it was generated from (a Quadlet)
    argv               the words of ExecStart, the program absolute, `$` not yet expanded
    expands            whether systemd expands `$` in them
    environment        Environment=, unquoted
    environment_files  EnvironmentFile=, with whether the file may be missing
    directives         every directive of the unit and its drop-ins in order, as written
    stale              the files were changed since systemd read them
    """

    name: str
    files: tuple[str, ...]
    source: str
    argv: tuple[str, ...]
    expands: bool
    environment: Mapping[str, str]
    environment_files: tuple[tuple[str, bool], ...]
    passed: tuple[str, ...]
    user: str
    group: str
    working_directory: str
    dynamic_user: bool
    directives: tuple[Entry, ...]
    stale: bool


def read_unit(host: Host, unit: str, *, user_scope: bool) -> UnitFacts:
    """Raises HostRefused when there is no such service, or systemd cannot be asked."""
    name = unit_name(unit)
    result = host.run(_script(name, user="--user" if user_scope else ""), timeout_s=30)
    answers = sections(result.stdout)
    where = f"{host.name}: {name}"
    general = _properties(answers.get("unit", b""), _UNIT)
    if general is None:
        raise HostRefused(
            f"{where}: busctl does not reach systemd: {result.tail(3)}; "
            "init reads units through it (packages systemd and dbus, dbus-user-session for "
            "scope: user). Without it write the inventory by hand: `sweep init` makes an example"
        )
    _require_loaded(general, where, answers)
    service = _properties(answers.get("service", b""), _SERVICE)
    if service is None or not service["ExecStartEx"]:
        raise HostRefused(f"{where}: has no ExecStart; name the service that runs SGLang")
    start = service["ExecStartEx"][0]
    text = answers.get("cat", b"").decode(errors="replace")
    fragments = [general["FragmentPath"], *general["DropInPaths"], general["SourcePath"]]
    return UnitFacts(
        name=general["Id"],
        files=tuple(path for path in fragments if path),
        source=general["SourcePath"],
        argv=(start[0], *start[1][1:]),
        expands="no-env-expand" not in start[2],
        environment=_assignments(service["Environment"]),
        environment_files=tuple((path, optional) for path, optional in service["EnvironmentFiles"]),
        passed=tuple(service["PassEnvironment"]),
        user=service["User"],
        group=service["Group"],
        working_directory=service["WorkingDirectory"].removeprefix("!"),
        dynamic_user=service["DynamicUser"],
        directives=tuple(entries(text)),
        stale=general["NeedDaemonReload"],
    )


def unit_name(unit: str) -> str:
    """`sglang`, `sglang.service` and the Quadlet `sglang.container` are one service."""
    name = unit.removesuffix(".container")
    return name if name.endswith(".service") else f"{name}.service"


def _script(name: str, *, user: str) -> str:
    """Object paths of units are their names, every character but letters and digits as _hex."""
    label = "".join(
        chr(byte) if chr(byte).isascii() and chr(byte).isalnum() else f"_{byte:02x}"
        for byte in name.encode()
    )
    if label[:1].isdigit():
        label = f"_{ord(label[0]):02x}{label[1:]}"
    ask = f"busctl {user} --json=short get-property {_BUS} /org/freedesktop/systemd1/unit/{label}"
    return f"""
echo @@unit; {ask} {_BUS}.Unit {" ".join(_UNIT)} || exit 1
echo @@service; {ask} {_BUS}.Service {" ".join(_SERVICE)}
echo @@cat; systemctl {user} cat -- {shlex.quote(name)} 2>/dev/null
echo @@others; systemctl {user} list-units --all --type=service --plain --no-legend '*sglang*'
true
"""


def _properties(answer: bytes, names: Sequence[str]) -> dict[str, Any] | None:
    """busctl prints one JSON object a property, in the order asked."""
    lines = answer.decode(errors="replace").splitlines()
    if len(lines) != len(names):
        return None
    return {name: json.loads(line)["data"] for name, line in zip(names, lines, strict=True)}


def _require_loaded(general: Mapping[str, Any], where: str, answers: Mapping[str, bytes]) -> None:
    state = general["LoadState"]
    if state == "loaded":
        return
    others = [line.split()[0] for line in answers.get("others", b"").decode().splitlines() if line]
    hint = f"; there is {', '.join(others)}" if others else "; is it a user's unit (scope: user)?"
    reason = (general["LoadError"][1] or state).rstrip(".")
    raise HostRefused(f"{where}: {reason}{hint if state == 'not-found' else ''}")


def _assignments(pairs: Sequence[str]) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)
