"""A unit and its surroundings become the `server` of an inventory, and what production is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from sweep.errors import InventoryError
from sweep.init.carry import Directives, carried, requirements
from sweep.init.flags import Flags, hidden, read_flags, with_config_file
from sweep.init.look import Look, Python
from sweep.init.read import UnitFacts
from sweep.init.start import GUESS, Start, understand
from sweep.init.words import Word, environment_file, expand, plain
from sweep.inventory import FlagValue
from sweep.sglang.secrecy import is_secret
from sweep.unit.quoting import environment_assignment

DEFAULT_PORT = 30000  # SGLang's own, 0.4.3 to 0.5.23
OUR_PORT = 30900
PLACEHOLDER = "/path/to/the/model"
SYSTEM_PYTHON = "/usr/bin/python3"
_LOGGING = "SGLANG_LOGGING_CONFIG_PATH"


@dataclass(frozen=True)
class ServerDraft:
    """What is to be written under a host. `secrets` is name -> variable of the controller.

    `obstacles` say what of the start cannot be rendered; then `native` is the command line that
    would do the same without it, fit for showing. `notes` say what else was changed.
    """

    command: tuple[str, ...]
    port: int
    python: str
    user: str | None
    group: str | None
    working_directory: str | None
    env_file: str | None
    unit: Directives
    args: Mapping[str, FlagValue]
    env: Mapping[str, str]
    secrets: Mapping[str, str]
    first_step: int
    production_health: str | None
    obstacles: tuple[str, ...]
    native: str
    notes: tuple[str, ...]


def draft_server(facts: UnitFacts, look: Look, *, user_scope: bool) -> ServerDraft:
    """Everything that can be known from a unit, without changing anything on its host."""
    notes: list[str] = []
    environment = _environment(facts, look, notes)
    argv = expand(facts.argv, environment) if facts.expands else plain(facts.argv)
    start = understand(argv, environment, look.read)
    words, more = with_config_file(start.flags, look.read)
    words = hidden(words)
    python = look.python(_interpreters(start, look, environment))
    flags = read_flags(words, python.sglang if python else None)
    notes += [*more, *flags.notes]
    if python and not python.sglang and start.obstacles:
        notes.append(f"{python.path} has no SGLang: install it, or write another server.command")
    native = start.ports is None
    unit = carried(facts.directives, notes) if native else {}
    env, secrets = _variables(facts, start, notes)
    port = _production_port(flags, start)
    args = dict(flags.args)
    if "model-path" not in args:
        args = {"model-path": PLACEHOLDER, **args}
        notes.append("the unit names no model: write its path or name as model-path")
    env_file = _env_files(facts, start, unit)
    command = _command(start, flags, environment, look, notes)
    return ServerDraft(
        command=command,
        port=OUR_PORT if port != OUR_PORT else OUR_PORT + 1,
        python=_client_python(python, notes),
        **_account(facts, start, notes, user_scope=user_scope),
        env_file=env_file,
        unit=unit,
        args=args,
        env=env,
        secrets={**secrets, **flags.secrets},
        first_step=flags.first_step,
        production_health=_health(words, flags, port) if start.command else None,
        obstacles=start.obstacles,
        native=shlex.join([*command, *(word.shown for word in words)]),
        notes=(*notes, *_warnings(facts, start, {**environment, **env})),
    )


def _environment(facts: UnitFacts, look: Look, notes: list[str]) -> dict[str, str]:
    """What the unit's process finds in its environment, as far as the unit says; files win."""
    found = dict(facts.environment)
    used = facts.expands and any("$" in word for word in facts.argv)
    for path, optional in facts.environment_files:
        text = look.read(path)
        if text is None and used and not optional:
            notes.append(f"{path} could not be read: what ExecStart takes from it is missing here")
        found |= environment_file(text or "")
    return found


def _variables(
    facts: UnitFacts, start: Start, notes: list[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Environment= and what the start adds, secrets apart. Files of variables stay files."""
    given = {name: Word(value) for name, value in facts.environment.items()}
    env: dict[str, str] = {}
    secrets: dict[str, str] = {}
    for name, word in {**given, **start.environment}.items():
        path = f"{name} left out of env"
        if word.secret or is_secret(name, word.text):
            secrets[name] = name
            notes.append(f"{name} is a secret: export {name} on this machine before a run")
        elif not word.known:
            notes.append(f"{path}: its value comes from a command; write it by hand")
        else:
            try:
                environment_assignment(name, word.text, path)
            except InventoryError as error:
                notes.append(str(error))
            else:
                env[name] = word.text
    return env, secrets


def _env_files(facts: UnitFacts, start: Start, unit: Directives) -> str | None:
    """One file is `env_file`; several, or one that may be missing, go to the unit's own words."""
    files = [*facts.environment_files, *((path, False) for path in start.env_files)]
    if len(files) == 1 and not files[0][1]:
        return files[0][0]
    if files:
        unit["EnvironmentFile"] = tuple(
            f"{'-' if optional else ''}{path.replace('%', '%%')}" for path, optional in files
        )
    return None


def _command(
    start: Start,
    flags: Flags,
    environment: Mapping[str, str],
    look: Look,
    notes: list[str],
) -> tuple[str, ...]:
    if start.command is None:
        return GUESS
    words = [word.shown for word in start.command]
    if any(word.secret or word.shown != word.text or not word.known for word in start.command):
        notes.append("server.command holds something that may not be shown or known: check it")
    if not words[0].startswith("/"):
        path = start.environment.get("PATH", Word(environment.get("PATH", ""))).text or None
        found = look.which(words[0], path)
        if found is None:
            notes.append(f"{words[0]} was not found on the host: write its absolute path")
        words[0] = found or f"/usr/bin/{PurePosixPath(words[0]).name}"
    return (*words, *flags.old)


def _interpreters(start: Start, look: Look, environment: Mapping[str, str]) -> list[str]:
    """Where the Python that runs SGLang may be: named in the command, or beside its program."""
    found: list[str] = []
    path = start.environment.get("PATH", Word(environment.get("PATH", ""))).text or None
    for word in start.command or ():
        program = PurePosixPath(word.text)
        if re.fullmatch(r"python[0-9.]*", program.name):
            absolute = str(program) if program.is_absolute() else look.which(str(program), path)
            found += [absolute] if absolute else []
        elif program.is_absolute() and program.name == "sglang":
            found += [str(program.parent / "python3"), str(program.parent / "python")]
    return found


def _client_python(python: Python | None, notes: list[str]) -> str:
    if python:
        return python.path
    notes.append(f"no interpreter of SGLang was found: {SYSTEM_PYTHON} runs the benchmark client")
    return SYSTEM_PYTHON


def _account(
    facts: UnitFacts, start: Start, notes: list[str], *, user_scope: bool
) -> dict[str, str | None]:
    user, group, directory = facts.user, facts.group, start.directory or facts.working_directory
    if facts.dynamic_user:
        notes.append("DynamicUser= left out: the server runs as root unless server.user is written")
        user = group = ""
    if directory and not directory.startswith("/"):
        notes.append(f"WorkingDirectory={directory} left out: write an absolute path if it matters")
        directory = ""
    return {
        "user": None if user_scope else user or None,
        "group": None if user_scope else group or None,
        "working_directory": directory or None,
    }


def _production_port(flags: Flags, start: Start) -> int:
    """Where production listens on the host: outside its container if it is in one."""
    inside = flags.port or DEFAULT_PORT
    outside = (start.ports or {}).get(str(inside), "")
    return int(outside) if outside.isdecimal() else inside


def _health(words: Sequence[Word], flags: Flags, port: int) -> str:
    scheme = "https" if any(word.text.startswith("--ssl-certfile") for word in words) else "http"
    host = flags.host or ""
    if host in ("", "0.0.0.0", "::", "localhost", "*"):  # noqa: S104 - compared, not bound
        host = "127.0.0.1"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/health"


def _warnings(facts: UnitFacts, start: Start, environment: Mapping[str, str]) -> list[str]:
    found = list(requirements(facts.directives))
    if start.command is None:
        found.append("production_health is not written: the unit does not say where it listens")
    if facts.stale:
        found.append("the unit's files are newer than what systemd runs: systemctl daemon-reload")
    if _LOGGING in environment:
        found.append(f"{_LOGGING} is set: the scheduler's lines must still reach standard error")
    return found
