"""One host of the file: its keys, what a demo host does not need to say, and its rules."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from sweep.inventory import FlagValue, HostSpec, ProductionCommands, SecretRef, ServerSpec
from sweep.inventory_file.host_rules import ADDRESS_MISSING, host_problems
from sweep.inventory_file.report import Report
from sweep.inventory_file.shapes import Values, build, flag_values, kind_of, mapping
from sweep.inventory_file.yaml_tree import Path
from sweep.naming import name_problem
from sweep.sglang.args import flag_complaints, spelt
from sweep.sglang.flags import canonical

_SSH_ALONE = ("address", "user", "ssh_port", "identity_file", "ssh_config", "host_key")
_WITHOUT_SSH = ("local", "demo")


def read_host(report: Report, name: str, value: object) -> HostSpec | None:
    """The host `name`, or None with its problems in the report."""
    path: Path = ("hosts", name)
    problem = name_problem(name)
    if problem:
        report.add(path, problem)
    given = mapping(report, path, value)
    if given is None:
        return None
    _connection(report, path, given)
    demo = given.get("transport") == "demo"
    values = _with_demo_defaults(given) if demo else dict(given)
    server = _server(report, (*path, "server"), values.get("server"), demo=demo)
    if server is not None:
        values["server"] = server
    else:
        values.pop("server", None)
    production = values.get("production")
    if isinstance(production, Mapping):
        commands = mapping(report, (*path, "production"), production) or {}
        built = build(report, (*path, "production"), ProductionCommands, commands)
        values["production"] = built if built is not None else ()
    elif isinstance(production, str):
        report.add((*path, "production"), f"is text, not a list; write [{production}]")
    host = build(report, path, HostSpec, {"host_class": name, "address": "", **values})
    if host is None or server is None:
        return None
    for where, text in host_problems(host):
        report.add((*path, *where), text)
    return None if report.within(path) else host


def _connection(report: Report, path: Path, given: Values) -> None:
    """The keys that say how to reach the host: one of them is needed, or none makes sense."""
    transport = given.get("transport")
    if transport not in _WITHOUT_SSH:
        if "address" not in given and not report.touches((*path, "address")):
            report.add((*path, "address"), ADDRESS_MISSING)
        return
    for key in _SSH_ALONE:
        if key in given:
            report.add((*path, key), f"means nothing with transport: {transport}; remove it")


def _with_demo_defaults(given: Values) -> dict[str, object]:
    defaults: dict[str, object] = {
        "address": "127.0.0.1",
        "host_class": "demo",
        "production": ["sglang.service"],
        "production_health": "http://127.0.0.1:30000/health",
        "python": sys.executable,
        "server": {},
    }
    if not given.get("production", ["some"]):
        del defaults["production_health"]
    return {**defaults, **given}


def _demo_server() -> dict[str, object]:
    """The simulated SGLang, run by this interpreter."""
    return {
        "command": [sys.executable, "-m", "sweep.demo.simulator"],
        "args": {
            "model-path": "simulated/122b-a10b-mtp",
            "tp-size": 4,
            "speculative-algorithm": "NEXTN",
            "speculative-eagle-topk": 1,
        },
        "health_timeout_s": 120,
    }


def _server(report: Report, path: Path, value: object, *, demo: bool) -> ServerSpec | None:
    if value is None and not demo:
        if not report.touches(path):
            report.add(path, "is missing; write server: with command and args")
        return None
    given = mapping(report, path, value)
    if given is None:
        return None
    values = {**_demo_server(), **given} if demo else dict(given)
    if "args" in values:
        values["args"] = _args(report, (*path, "args"), values["args"])
    if "unit" in values:
        values["unit"] = flag_values(report, (*path, "unit"), values["unit"])
    if "env" in values:
        values["env"] = _texts(report, (*path, "env"), values["env"])
    if "secrets" in values:
        values["secrets"] = _secrets(report, (*path, "secrets"), values["secrets"])
    return build(report, path, ServerSpec, values)


def _args(report: Report, path: Path, value: object) -> dict[str, FlagValue]:
    given = flag_values(report, path, value)
    for complaint in flag_complaints(given):
        report.add((*path, complaint.flag), complaint.text)
    return spelt(given)


def _texts(report: Report, path: Path, value: object) -> dict[str, str]:
    """The environment: numbers and truth values are the text that stands in the file."""
    found: dict[str, str] = {}
    for name, given in (mapping(report, path, value) or {}).items():
        where = (*path, name)
        if isinstance(given, str | int | float):
            text = given if isinstance(given, str) else report.tree.written.get(where, str(given))
            found[name] = text
        else:
            report.add(where, f"is {kind_of(given)}, not text; write text")
    return found


def _secrets(report: Report, path: Path, value: object) -> dict[str, SecretRef]:
    found: dict[str, SecretRef] = {}
    for name, given in (mapping(report, path, value) or {}).items():
        where = (*path, name)
        if isinstance(given, str | int | float):
            # The value itself is never repeated: it may be the secret.
            report.add(
                where, "holds a value instead of a reference; write {env: NAME} or {file: PATH}"
            )
            continue
        reference = mapping(report, where, given)
        if reference is None:
            continue
        built = build(report, where, SecretRef, reference)
        if built is not None:
            found[canonical(name)] = built
    return found


def written_flag(args: object, flag: str) -> str | None:
    """How the file spells the flag `flag` among `args`, if it does."""
    names = args if isinstance(args, Mapping) else {}
    return next((str(name) for name in names if canonical(str(name)) == flag), None)
