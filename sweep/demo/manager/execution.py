"""From a unit file to a running process: environment, words, where its output goes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from sweep.demo.manager.journal import Stream
from sweep.demo.manager.process import EXEC, STDOUT, Plan, SetupFailed, resolve, spawn
from sweep.demo.manager.quoting import environment_file, specifiers, split, substitute
from sweep.demo.manager.unitfile import Command, UnitFile
from sweep.demo.manager.world import World


def unit_environment(world: World, file: UnitFile, invocation_id: str) -> dict[str, str]:
    """What the unit's processes start with. OSError for an environment file that is missing."""
    found = world.environment(invocation_id)
    if file.get("User"):
        found |= {"USER": file.get("User"), "LOGNAME": file.get("User")}
    assigned = file.words("Environment")
    found |= dict(word.split("=", 1) for word in assigned if "=" in word)
    for line in file.all("EnvironmentFile"):
        path = line if file.specifiers is None else specifiers(line, file.specifiers)
        optional = path.startswith("-")
        place = Path(path.removeprefix("-"))
        if place.exists() or not optional:
            found |= environment_file(place.read_text("utf-8", "surrogateescape"))
    for word in split(" ".join(file.all("UnsetEnvironment"))):
        found.pop(word, None)
    return found


async def run_command(
    world: World,
    file: UnitFile,
    command: Command,
    environment: Mapping[str, str],
    fields: Mapping[str, str],
) -> tuple[asyncio.subprocess.Process, Stream]:
    """Start one command of a unit; `fields` sign its lines in the journal. Raises SetupFailed."""
    words = list(command.words)
    if not words:
        raise SetupFailed(EXEC, "no command")
    argv = words if command.verbatim else [words[0], *substitute(words[1:], environment)]
    argv[0] = resolve(argv[0], environment["PATH"])
    directory = file.get("WorkingDirectory", "/").removeprefix("-")
    directory = f"{world.root}/home" if directory == "~" else directory
    identifier = file.get("SyslogIdentifier") or Path(argv[0]).name
    stream = Stream(world.journal, {**fields, "SYSLOG_IDENTIFIER": identifier})
    opened: list[int] = []
    try:
        out = _output(file.get("StandardOutput", "journal"), stream.write_end, None, opened)
        error = _output(file.get("StandardError", "inherit"), stream.write_end, out, opened)
        plan = Plan(tuple(argv), environment, directory, file.get("User"), out, error)
        process = await spawn(plan)
    except SetupFailed:
        stream.started(0)
        stream.close()
        raise
    finally:
        for descriptor in opened:
            os.close(descriptor)
    stream.started(process.pid)
    world.children.add(process.pid)
    return process, stream


def _output(setting: str, journal: int, inherit: int | None, opened: list[int]) -> int:
    """The descriptor for StandardOutput= or StandardError=; one it opens is added to `opened`."""
    kind, _, path = setting.partition(":")
    if kind == "inherit" and inherit is not None:
        return inherit
    flags = {
        "file": os.O_CREAT,
        "append": os.O_CREAT | os.O_APPEND,
        "truncate": os.O_CREAT | os.O_TRUNC,
        "null": 0,
    }
    if kind not in flags:
        return journal
    try:
        opened.append(os.open(path or os.devnull, os.O_WRONLY | flags[kind], 0o644))
    except OSError as error:
        raise SetupFailed(STDOUT, f"Failed to set up standard output: {error}") from error
    return opened[-1]
