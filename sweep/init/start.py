"""How a unit starts SGLang: by itself, through a script, in a container."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from sweep.init.container import ENGINES, Container, container
from sweep.init.shell import commands
from sweep.init.words import Word, plain
from sweep.sglang.secrecy import is_secret

# What a file on the host says, by its path; None for no such file, or one that is no text.
Read = Callable[[str], str | None]

SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
GUESS = ("/usr/bin/python3", "-m", "sglang.launch_server")
_SHEBANG = re.compile(r"#!\s*(\S+)(?:[ \t]+([^\n]*))?")
_DEEPEST = 4
# What a script does on the way that changes nothing for the server.
_IDLE = ("echo", "printf", "set", "shopt", "trap", "true", ":", "[", "[[", "sleep", "date", "test")


@dataclass(frozen=True)
class Start:
    """A start of SGLang.

    command    what starts it, up to and without SGLang's own flags; None if it was not found
    flags      SGLang's flags, words after a container's paths are turned into the host's
    added      variables the start sets besides the unit's
    env_files  files of variables the start names
    directory  where the start changes to
    ports      a container's: port inside -> port of the host
    obstacles  what the tool cannot render about it, one sentence each
    """

    command: tuple[Word, ...] | None
    flags: tuple[Word, ...] = ()
    added: Mapping[str, Word] | None = None
    env_files: tuple[str, ...] = ()
    directory: str | None = None
    ports: Mapping[str, str] | None = None
    obstacles: tuple[str, ...] = ()

    @property
    def environment(self) -> Mapping[str, Word]:
        return self.added or {}

    def through(self, obstacle: str) -> Start:
        return replace(self, obstacles=(obstacle, *self.obstacles))


@dataclass(frozen=True)
class _Scene:
    """What a command line is started with, and how far inside others it stands."""

    environment: Mapping[str, str]
    read: Read
    depth: int = 0

    def inside(self, added: Mapping[str, Word]) -> _Scene:
        texts = {name: word.text for name, word in added.items()}
        return _Scene({**self.environment, **texts}, self.read, self.depth + 1)


def understand(words: Sequence[Word], environment: Mapping[str, str], read: Read) -> Start:
    """What a command line comes to. `environment` is what it is started with."""
    return _understand(words, _Scene(environment, read))


def _understand(words: Sequence[Word], scene: _Scene) -> Start:
    if not words or scene.depth > _DEEPEST:
        return Start(None, obstacles=("no command was found in it",))
    program = PurePosixPath(words[0].text).name
    end = _launcher_end(words)
    if program == "env":
        found = _env(words, scene)
    elif program in ENGINES or program.endswith("-compose"):
        found = _contained(words, scene)
    elif end:
        found = Start(tuple(words[:end]), tuple(words[end:]))
    elif program in SHELLS:
        found = _shell(words, scene)
    elif (script := _shell_script(words[0], scene.read)) is not None:
        found = _script(script, words, scene).through(
            f"the unit runs the script {words[0].text}: sweep starts SGLang itself, not the script"
        )
    else:
        found = _stranger(words)
    return found


def _launcher_end(words: Sequence[Word]) -> int:
    """How many words start SGLang; whatever stands before (numactl, uv run) is part of it."""
    texts = [word.text for word in words]
    for at, text in enumerate(texts):
        if text == "-m" and texts[at + 1 : at + 2] == ["sglang.launch_server"]:
            return at + 2
        if PurePosixPath(text).name == "sglang" and texts[at + 1 : at + 2] == ["serve"]:
            return at + 2
        if PurePosixPath(text).name == "launch_server.py":
            return at + 1
    return 0


def _stranger(words: Sequence[Word]) -> Start:
    """A program of the user's own: if it takes SGLang's flags, it can be started as it is."""
    first = next((at for at, word in enumerate(words) if word.text.startswith("--")), len(words))
    return Start(tuple(words[:first]), tuple(words[first:])).through(
        f"{words[0].shown} is no way to start SGLang that sweep knows: it is started as it is, and "
        "must take SGLang's flags and stay in the foreground"
    )


def _env(words: Sequence[Word], scene: _Scene) -> Start:
    """env [-i] [-u NAME] [NAME=value]... command"""
    rest, added = list(words[1:]), dict[str, Word]()
    while rest:
        name, equals, value = rest[0].text.partition("=")
        if rest[0].text in ("-u", "--unset", "-C", "--chdir"):
            del rest[:2]
        elif rest[0].text.startswith("-"):
            del rest[0]
        elif equals and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            secret = rest[0].secret or (name if is_secret(name, value) else None)
            added[name] = Word(value, secret, rest[0].known)
            del rest[0]
        else:
            break
    inner = _understand(rest, scene.inside(added))
    return replace(inner, added={**added, **inner.environment})


def _shell(words: Sequence[Word], scene: _Scene) -> Start:
    """bash -c TEXT, or bash FILE."""
    rest = list(words[1:])
    inline = False
    while rest and rest[0].text.startswith(("-", "+")):
        option = rest.pop(0).text
        inline = inline or ("c" in option and not option.startswith("--"))
        if option in ("-o", "+o", "-O", "--rcfile", "--init-file") and rest:
            rest.pop(0)
    if not rest:
        return Start(None, obstacles=(f"{words[0].text} without a command",))
    if inline:
        found = _script(rest[0].text, rest[1:], scene)
        return found.through(
            f"the unit runs a line of {words[0].text}: sweep starts SGLang itself, not the shell"
        )
    text = scene.read(rest[0].text)
    if text is None:
        return Start(None, obstacles=(f"the script {rest[0].shown} cannot be read",))
    return _script(text, rest, scene).through(
        f"the unit runs the script {rest[0].text}: sweep starts SGLang itself, not the script"
    )


def _script(text: str, positional: Sequence[Word], scene: _Scene) -> Start:
    """The first command of a script that starts SGLang, and what else the script would do."""
    others: list[str] = []
    for command in commands(text, scene.environment, positional):
        if _worth_following(command.words, scene.read):
            inner = _understand(command.words, scene.inside(command.environment))
            done = replace(
                inner,
                added={**command.environment, **inner.environment},
                directory=inner.directory or command.directory,
            )
            return done.through(_not_done(others)) if others else done
        name = command.words[0].shown.rsplit("/", 1)[-1]
        if name not in (*_IDLE, *others):
            others.append(name)
    return Start(None, obstacles=("no command in it starts SGLang as far as sweep can see",))


def _worth_following(words: Sequence[Word], read: Read) -> bool:
    program = PurePosixPath(words[0].text).name
    if program in ENGINES:
        return any(word.text in ("run", "compose", "start") for word in words[1:3])
    if _launcher_end(words) or program.endswith("-compose") or program in (*SHELLS, "env"):
        return True
    return words[0].text.startswith("/") and "sglang" in (_shell_script(words[0], read) or "")


def _not_done(others: Sequence[str]) -> str:
    return (
        f"before that the script runs {', '.join(others)}: not done by sweep; what the server "
        "needs of it belongs under server.env or server.unit"
    )


def _shell_script(program: Word, read: Read) -> str | None:
    """The text of a program that is a shell script; None for every other one."""
    text = read(program.text) or ""
    shebang = _SHEBANG.match(text)
    words = f"{shebang[1]} {shebang[2] or ''}".split() if shebang else []
    return text if any(PurePosixPath(word).name in SHELLS for word in words) else None


def _contained(words: Sequence[Word], scene: _Scene) -> Start:
    found = container(words, scene.environment)
    if found is None:
        verb = " ".join(word.shown for word in words[:3])
        return Start(
            None, obstacles=(f"`{verb}` names a container: its flags are not in the unit",)
        )
    if found.words and found.words[0].text.startswith("--"):
        inner = Start(plain(GUESS), found.words)  # the image's own entry point is SGLang's
    else:
        inner = _understand(found.words, _Scene({}, lambda _: None, scene.depth + 1))
    return _outside(found, inner).through(
        f"the unit runs SGLang in a container ({found.engine}, image {found.image or 'unknown'}): "
        "sweep renders native units only; install the same SGLang on the host"
    )


def _outside(found: Container, inner: Start) -> Start:
    """The container's start as it could be without the container."""
    added = {**found.environment, **inner.environment}
    if found.devices:
        added["CUDA_VISIBLE_DEVICES"] = Word(found.devices)
    return Start(
        command=plain(GUESS) if inner.command else None,
        flags=tuple(map(found.outside, inner.flags)),
        added={name: found.outside(word) for name, word in added.items()},
        env_files=found.env_files,
        ports=found.ports,
    )
