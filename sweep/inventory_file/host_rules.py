"""What must hold of one host beyond the shape of its keys. Pure; nothing is looked up anywhere.

Each rule yields (path below the host, "<what is wrong>; <what to do>").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from sweep.inventory import HostSpec
from sweep.inventory_file.server_rules import control_problem, server_problems
from sweep.inventory_file.yaml_tree import Path
from sweep.naming import did_you_mean
from sweep.sglang.spelling import shown

Problems = Iterator[tuple[Path, str]]

# systemd.unit(5): the characters of a unit's name, and 255 of them at most.
# A leading dash would be an option to systemctl.
_UNIT = re.compile(r"(?!-)[A-Za-z0-9:_.\\-]+(@[A-Za-z0-9:_.\\-]*)?\.[a-z]+")
_PRODUCTION_TYPES = (".service", ".socket", ".target", ".timer", ".path")
ADDRESS_MISSING = "is missing; write the host's name, IP or alias of ~/.ssh/config"
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


def host_problems(host: HostSpec) -> Problems:
    """Every rule over one host whose keys have the right shape."""
    for rule in (_connection, _unit, _production, _health, _limits):
        yield from rule(host)
    for path, text in server_problems(host.server, scope=host.scope):
        yield ("server", *path), text


def _connection(host: HostSpec) -> Problems:
    if host.transport == "ssh":
        yield from _address(host)
    if host.user is not None and re.search(r"\s|^-|^$|@", host.user):
        yield ("user",), f"{shown(host.user)} is no login name; write one, such as root"
    if host.host_key not in ("strict", "accept-new") and not _FINGERPRINT.fullmatch(host.host_key):
        yield (
            ("host_key",),
            f"{shown(host.host_key)} is neither strict, accept-new nor a fingerprint; write one of "
            "these (ssh-keygen -lf shows SHA256: and 43 characters)",
        )
    if host.scope == "user" and host.become == "sudo":
        yield (
            ("become",),
            "cannot be sudo with scope: user, which runs as the login user; write none",
        )
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", host.host_class):
        yield (
            ("host_class",),
            f"{shown(host.host_class)} is no name (letters, digits, dots, dashes, underscores); "
            "write one, such as 4x-rtx-pro-6000",
        )
    for key in ("identity_file", "ssh_config"):
        value = getattr(host, key)
        if value is not None and (not value.strip() or control_problem(value)):
            yield (key,), f"{shown(value)} is no path; write one or remove it"


def _address(host: HostSpec) -> Problems:
    address = host.address
    with_port = re.fullmatch(r"\[?([^\[\]]+)\]:([0-9]+)|([^:]+):([0-9]+)", address)
    if not address:
        yield ("address",), ADDRESS_MISSING
    elif "@" in address:
        user, name = address.split("@", 1)
        yield ("address",), f"holds a user as well; write address: {name} and user: {user}"
    elif with_port:
        name, port = with_port[1] or with_port[3], with_port[2] or with_port[4]
        yield ("address",), f"holds a port as well; write address: {name} and ssh_port: {port}"
    elif not re.fullmatch(r"[A-Za-z0-9_:.%][A-Za-z0-9_:.%-]*", address):
        yield ("address",), f"{shown(address)} is no host; write its name, IP or ssh alias"


def _unit(host: HostSpec) -> Problems:
    if not _UNIT.fullmatch(host.unit) or not host.unit.endswith(".service") or "@." in host.unit:
        yield (
            ("unit",),
            f"{shown(host.unit)} is no name of a service; write one, such as sglang-sweep.service",
        )
    elif len(host.unit) > 255:
        yield ("unit",), "is longer than the 255 characters systemd allows; write a shorter one"


def _production(host: HostSpec) -> Problems:
    if not isinstance(host.production, tuple):
        for key in ("stop", "start", "check"):
            if "\0" in getattr(host.production, key):
                yield ("production", key), "holds NUL; remove it"
        return
    for index, name in enumerate(host.production):
        path: Path = ("production", index)
        if not _UNIT.fullmatch(name) or not name.endswith(_PRODUCTION_TYPES) or "@." in name:
            near = did_you_mean(name, [f"{name}.service"]) if name.isidentifier() else ""
            do = near or f"write one that ends in {', '.join(_PRODUCTION_TYPES)}"
            yield path, f"{shown(name)} is no name of a unit; {do}"
        elif name == host.unit:
            yield path, "is the tool's own unit; write what serves when no sweep runs, or []"
        elif name in host.production[:index]:
            yield path, f"{shown(name)} stands there twice; remove one"


def _health(host: HostSpec) -> Problems:
    url = host.production_health
    if url is None:
        return
    path: Path = ("production_health",)
    form = "write it as http://127.0.0.1:30000/health"
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError as error:
        yield path, f"{shown(url)} is no URL ({error}); {form}"
        return
    if port is None or not parts.hostname or not re.fullmatch(r"[!-~]+", url):
        yield path, f"{shown(url)} is no http or https URL; {form}"
    elif parts.username is not None:
        yield path, "holds a password, which would stand in logs; write it without"
    elif port == host.server.port:
        yield (
            path,
            f"asks port {port}, which server.port gives to the server under test; write "
            "production's own port, or another server.port",
        )
    elif host.production == ():
        yield path, "waits for production that is not named; write production: [its unit]"


def _limits(host: HostSpec) -> Problems:
    least = host.reconnect_for_s + 300
    if host.deadman_s < least:
        given = (
            "deadman_s" in host.model_fields_set or "reconnect_for_s" not in host.model_fields_set
        )
        yield (
            ("deadman_s" if given else "reconnect_for_s",),
            f"with deadman_s {host.deadman_s:g} and reconnect_for_s {host.reconnect_for_s:g} the "
            "host puts production back while a lost connection may yet return; write deadman_s: "
            f"{least:g} or more (reconnect_for_s + 300)",
        )
    if not host.python.startswith("/") or control_problem(host.python):
        yield (
            ("python",),
            f"{shown(host.python)} is no absolute path; write one, such as /usr/bin/python3",
        )
