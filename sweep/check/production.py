"""What serves today: is it there, does it come back by itself, is its user ours."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from sweep.check.finding import About, Answer, Finding, Identity, said
from sweep.inventory import ProductionCommands
from sweep.systemd.production import Seen
from sweep.systemd.site import blocks

_SHOWN = (
    "Id LoadState ActiveState UnitFileState NeedDaemonReload User Restart FragmentPath Transient"
)
_ACTIVE = ("active", "activating", "reloading")
# States of a unit file that bring the unit back at the next boot.
_COMES_BACK = ("enabled", "generated", "alias")


def questions(about: About) -> str:
    units = about.production_units
    shown = " ".join(f"-p {name}" for name in _SHOWN.split())
    ask = f"{about.systemctl} show {shown} -- {shlex.join(units)}" if units else ":"
    production = about.spec.production
    check = ":"
    if isinstance(production, ProductionCommands):
        check = f"sh -c {shlex.quote(production.check)} </dev/null >/dev/null 2>&1; echo $?"
    return f"""
echo @@production; {ask} 2>&1
echo @@production-check; {check}
"""


def findings(
    about: About, who: Identity, answer: Answer, seen: Sequence[Seen], health: str | None
) -> Iterator[Finding]:
    """`seen`: production and what stops with it; `health`: why production_health fails, or None."""
    if isinstance(about.spec.production, ProductionCommands):
        running = said(answer, "production-check") == "0"
        yield _by_command(about, running=running)
    else:
        units = blocks(answer.get("production"))
        if not about.production_units:
            yield Finding(
                "warning", "production", "none is named: nothing is stopped, nothing restored",
                f"name it in hosts.{about.host}.production, if something serves there",
            )  # fmt: skip
        for unit in units:
            yield from _unit(about, who, unit)
        yield from _with_it(about, seen)
        running = any(unit.get("ActiveState") in _ACTIVE for unit in units)
    yield from _health(about, health, running=running)


def _by_command(about: About, *, running: bool) -> Finding:
    if running:
        return Finding("ok", "production", "its check says that it runs")
    return Finding(
        "warning", "production", "its check says it does not run: it will not be started after",
        f"start it, or correct hosts.{about.host}.production.check",
    )  # fmt: skip


def _unit(about: About, who: Identity, unit: Mapping[str, str]) -> Iterator[Finding]:
    name, load = unit.get("Id", "?"), unit.get("LoadState")
    if name == about.spec.unit:
        yield Finding(
            "problem", "production", f"{name} is the sweep's own unit as well",
            f"give hosts.{about.host}.unit another name",
        )  # fmt: skip
    if load != "loaded":
        yield Finding(
            "problem", "production", f"{name}: systemd says {load or 'nothing'}",
            f"correct hosts.{about.host}.production (see {about.systemctl} list-units)",
        )  # fmt: skip
        return
    if unit.get("ActiveState") not in _ACTIVE:
        yield Finding(
            "warning", "production", f"{name} is {unit.get('ActiveState')}: it stays down after",
            f"{about.systemctl} start {name}, if it should serve",
        )  # fmt: skip
    else:
        yield Finding("ok", "production", f"{name} is {unit['ActiveState']}")
        yield from _comes_back(about, name, unit)
    yield from _user(about, who, name, unit.get("User", ""))


def _comes_back(about: About, name: str, unit: Mapping[str, str]) -> Iterator[Finding]:
    """Of a unit that is active: would it be so again after a restart, after a reboot?"""
    state = unit.get("UnitFileState", "")
    if unit.get("Transient") == "yes":
        yield Finding(
            "problem", "production", f"{name} was made by systemd-run: once stopped it is gone",
            "run it from a unit file, or give production: {stop:, start:, check:} instead",
        )  # fmt: skip
    elif state not in _COMES_BACK and not about.demo:
        yield Finding(
            "warning", "production",
            f"{name} is {state or 'not enabled'}: after a reboot of the host it does not come back "
            "by itself",
            f"{about.systemctl} enable {name}",
        )  # fmt: skip
    if unit.get("NeedDaemonReload") == "yes":
        yield Finding(
            "warning", "production",
            f"the file of {name} has changed since it was loaded: what is started afterwards is "
            "not what serves now",
            f"compare with `{about.systemctl} cat {name}`; then {about.systemctl} daemon-reload",
        )  # fmt: skip


def _user(about: About, who: Identity, name: str, given: str) -> Iterator[Finding]:
    ours = who.service_user(about)
    theirs = given or who.user
    if about.spec.scope == "system" and ours != theirs:
        more = (
            ", and files that root makes in shared directories are closed to it"
            if ours == "root"
            else ""
        )
        yield Finding(
            "warning", "user",
            f"the sweep's server runs as {ours}, {name} as {theirs}: compile caches and models of "
            f"one are not the other's{more}",
            f"set hosts.{about.host}.server.user: {theirs}",
        )  # fmt: skip


def _with_it(about: About, seen: Sequence[Seen]) -> Iterator[Finding]:
    others = [one.name for one in seen if one.active and one.name not in about.production_units]
    if others:
        yield Finding("ok", "production", f"stops and starts with it: {', '.join(others)}")
    for one in seen:
        if one.active and one.upheld_by:
            yield Finding(
                "problem", "production", f"{', '.join(one.upheld_by)} upholds {one.name}: systemd "
                "would start it again as soon as it is stopped",
                f"name it in hosts.{about.host}.production, too, or remove its Upholds=",
            )  # fmt: skip
    triggers = sorted({name for one in seen for name in one.triggers})
    if triggers:
        yield Finding(
            "warning", "production", f"{', '.join(triggers)} can start it in the night: the sweep "
            "then gives way (preempted)",
            f"{about.systemctl} stop {' '.join(triggers)}   (and start it again in the morning)",
        )  # fmt: skip


def _health(about: About, trouble: str | None, *, running: bool) -> Iterator[Finding]:
    if about.spec.production_health is None:
        if about.production_units or isinstance(about.spec.production, ProductionCommands):
            yield Finding(
                "warning", "health", "no production_health: the sweep can only see that production "
                "was started again, not that it serves",
                f"set hosts.{about.host}.production_health: http://127.0.0.1:PORT/health",
            )  # fmt: skip
    elif trouble is None:
        yield Finding("ok", "health", f"{about.spec.production_health} answers")
    elif running:
        yield Finding(
            "problem", "health", f"production runs, but does not answer: {trouble}",
            "wait until it serves, or correct production_health: at the end the sweep waits for it",
        )  # fmt: skip
