"""Words of a command line read from a host, and what must not be shown of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sweep.sglang.secrecy import holds_secret, is_secret

_BRACED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\$")
_WHOLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True)
class Word:
    """One word. `secret` names the variable whose secret is in `text`, `known` is false when a part
    of it could not be found out."""

    text: str
    secret: str | None = None
    known: bool = True

    def __repr__(self) -> str:
        return f"Word({self.shown!r})"

    @property
    def shown(self) -> str:
        """The word as people and files may see it."""
        if self.secret:
            return f"${{{self.secret}}}"
        if holds_secret(self.text):
            return "<secret>"
        return self.text if self.known else f"{self.text}<unknown>"


def plain(texts: Iterable[str]) -> tuple[Word, ...]:
    return tuple(map(Word, texts))


def expand(argv: Iterable[str], environment: Mapping[str, str]) -> tuple[Word, ...]:
    """What systemd makes of an ExecStart's words before it starts them.

    `$NAME` as a word of its own becomes as many words as it holds, `${NAME}` is filled in where it
    stands, `$$` is a dollar, a variable that is not set is empty (systemd.service(5)).
    """
    words: list[Word] = []
    for text in argv:
        whole = _WHOLE.fullmatch(text)
        if whole:
            name = whole[1]
            secret = name if is_secret(name, environment.get(name, "")) else None
            words += [Word(part, secret) for part in environment.get(name, "").split()]
        else:
            words.append(_filled_in(text, environment))
    return tuple(words)


def _filled_in(text: str, environment: Mapping[str, str]) -> Word:
    secrets: list[str] = []

    def value(found: re.Match[str]) -> str:
        if found[1] is None:
            return "$"
        held = environment.get(found[1], "")
        if is_secret(found[1], held):
            secrets.append(found[1])
        return held

    filled = _BRACED.sub(value, text)
    return Word(filled, secrets[0] if secrets else None)


def environment_file(text: str) -> dict[str, str]:
    """The assignments of an EnvironmentFile, by systemd's rules (src/basic/env-file.c): a shell's
    quotes, backslashes and comments, no expansion."""
    found: dict[str, str] = {}
    for line in re.sub(r"\\\n", "", text).split("\n"):
        stripped = line.strip()
        name, equals, value = stripped.partition("=")
        if not equals or stripped.startswith(("#", ";")):
            continue
        name = name.strip()
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            found[name] = _unquoted(value.strip())
    return found


def _unquoted(value: str) -> str:
    pieces = re.findall(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^'"\\]+)""", value)
    text = ""
    for single, double, escaped, bare in pieces:
        text += single + re.sub(r'\\(["\\`$])', r"\1", double) + escaped + bare
    return text
