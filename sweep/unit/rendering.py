"""A server config on a host becomes the text of a systemd unit."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sweep.errors import InventoryError
from sweep.inventory import FlagValue, HostSpec, Scalar, ServerSpec
from sweep.plan import ServerConfig, swept_text
from sweep.sglang.args import given_flags
from sweep.sglang.spelling import plain_size
from sweep.unit.directives import Directive, user_directives
from sweep.unit.quoting import environment_assignment, exec_word, executable, rest_of_line
from sweep.unit.secrets import is_variable
from sweep.unit.templates import Templates
from sweep.unit.text import Entry, check_relied_on, entries

_FLAG = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_DEFAULTS: tuple[Directive, ...] = (("TimeoutStopSec", "90"),)
_FIXED: tuple[Directive, ...] = (
    ("Type", "exec"),
    ("Restart", "no"),
    ("KillMode", "control-group"),
    ("LogRateLimitIntervalSec", "0"),
)

# Words of the command line that belong together, and the key of the inventory they come from.
_Words = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class RenderedUnit:
    """One launch's unit.

    name         the unit's name on the host
    text         the whole file; `sha256` is its hash in hex
    argv         what the server is started with; `%t`, in the value of --config alone, is the
                 runtime directory of the host's systemd: /run, or /run/user/UID in a user manager
    environment  the variables the unit itself sets: neither secrets nor the user's own files
    secret_env   variables expected in %t/sweep/<run id>/secrets.env
    secret_flags keys expected in %t/sweep/<run id>/secrets.yaml, which the server's user can read
    """

    name: str
    text: str
    sha256: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    secret_env: tuple[str, ...]
    secret_flags: tuple[str, ...]


def render(
    host: HostSpec, config: ServerConfig, *, run_id: str, launch_id: str, templates: Templates
) -> RenderedUnit:
    """The unit of one launch. Raises InventoryError: a value no unit holds, a broken template."""
    server, state = host.server, f"%t/sweep/{run_id}"
    secret_env = tuple(name for name in server.secrets if is_variable(name))
    secret_flags = tuple(name for name in server.secrets if not is_variable(name))
    environment = {"PYTHONUNBUFFERED": "1", **dict(config.env)}
    groups = [("server.command", server.command), *_flags(config, server, secret_flags)]
    secrets_yaml = f"{state}/secrets.yaml" if secret_flags else None
    values: dict[str, object] = {
        "unit": host.unit,
        "run_id": run_id,
        "launch_id": launch_id,
        "steps": config.steps,
        "description": _description(run_id, launch_id, config),
        "exec_start": _exec_start(groups, secrets_yaml),
        "environment": [
            environment_assignment(name, value, f"server.env.{name}")
            for name, value in environment.items()
        ],
        **_sections(host, f"{state}/secrets.env" if secret_env else None),
    }
    text = templates.fill(values)
    check_relied_on(text, _needed(values), str(templates.path()))
    words = [word for _, group in groups for word in group]
    return RenderedUnit(
        name=host.unit,
        text=text,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        argv=(*words, *(("--config", secrets_yaml) if secrets_yaml else ())),
        environment=environment,
        secret_env=secret_env,
        secret_flags=secret_flags,
    )


def _flags(
    config: ServerConfig, server: ServerSpec, secret_flags: Sequence[str]
) -> Iterable[_Words]:
    """SGLang's flags in the config's order, then the tool's own."""
    given = given_flags(config)
    for name, value in config.args:
        path = f"server.args.{name}"
        if not _FLAG.fullmatch(name):
            raise InventoryError(f"{path}: {name!r} is not a flag's name; write it without dashes")
        if name in ("host", "port"):
            raise InventoryError(f"{path}: the tool sets it; the port is `server.port`")
        if name in secret_flags:
            raise InventoryError(f"{path}: stands in `server.secrets` as well; leave one of them")
        if name == "config" and secret_flags:
            raise InventoryError(
                f"{path}: SGLang takes one --config, and secret flags need it; "
                "write the file's flags into `server.args`"
            )
        if name in given:
            yield path, _flag(name, value)
    yield "server.port", ("--host", "127.0.0.1")
    yield "server.port", ("--port", str(server.port))


def _flag(name: str, value: FlagValue) -> tuple[str, ...]:
    """A flag and its words. argparse takes a word with a dash for a flag, unless `=` binds it."""
    if value is True:
        return (f"--{name}",)
    if isinstance(value, tuple):
        return (f"--{name}", *map(_word, value))
    word = _word(plain_size(name, value))
    return (f"--{name}={word}",) if word.startswith("-") else (f"--{name}", word)


def _word(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def _exec_start(groups: Iterable[_Words], secrets_yaml: str | None) -> str:
    """The command line, a flag a line, quoted."""
    lines = []
    for path, words in groups:
        quoted = [exec_word(word, path) for word in words]
        if path == "server.command":
            quoted[0] = executable(words[0], path)
        lines.append(" ".join(quoted))
    if secrets_yaml:
        lines.append(f"--config {secrets_yaml}")
    return " \\\n    ".join(lines)


def _sections(host: HostSpec, secrets_env: str | None) -> dict[str, object]:
    """What the template gets besides the command line and the environment."""
    server, own = host.server, user_directives(host.server.unit)
    if host.scope == "user" and (server.user or server.group):
        key = "user" if server.user else "group"
        raise InventoryError(
            f"server.{key}: a user's systemd starts everything as that user; leave it out"
        )
    plain = {
        name: rest_of_line(value, f"server.{name}") if value else None
        for name, value in (
            ("user", server.user),
            ("group", server.group),
            ("working_directory", server.working_directory),
            ("env_file", server.env_file),
        )
    }
    env_file = plain.pop("env_file")
    # The last file wins, as in systemd: a secret is never what an older file says.
    files = [env_file, *own.environment_files, secrets_env]
    given = {name for name, _ in own.service}
    defaults = [entry for entry in _DEFAULTS if entry[0] not in given]
    return {
        **plain,
        "production": _production(host),
        "environment_files": [file for file in files if file],
        "fixed_directives": _FIXED,
        "unit_directives": own.unit,
        "service_directives": (*defaults, *own.service),
    }


def _production(host: HostSpec) -> list[str]:
    """Units that end when ours starts; production that systemd does not run is not among them."""
    if not isinstance(host.production, tuple):
        return []
    return [rest_of_line(name, "production") for name in host.production]


def _needed(values: Mapping[str, object]) -> list[Entry]:
    """What must stand in the unit, whoever wrote the template."""
    needed: list[Entry] = [("Service", name, value) for name, value in _FIXED]
    needed += entries(f"[Service]\nExecStart={values['exec_start']}\n")
    for name in _strings(values["production"]):
        needed += [("Unit", "Conflicts", name), ("Unit", "After", name)]
    for key, name in (
        ("user", "User"), ("group", "Group"), ("working_directory", "WorkingDirectory"),
    ):  # fmt: skip
        if values[key]:
            needed.append(("Service", name, str(values[key])))
    needed += [("Service", "Environment", text) for text in _strings(values["environment"])]
    files = _strings(values["environment_files"])
    return needed + [("Service", "EnvironmentFile", name) for name in files]


def _strings(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _description(run_id: str, launch_id: str, config: ServerConfig) -> str:
    what = f"speculative-num-steps={config.steps}{swept_text(config.swept)}"
    return rest_of_line(f"sweep {run_id} {launch_id}: {what}", "sweep")
