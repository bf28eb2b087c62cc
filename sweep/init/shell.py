"""The commands of a start script, as far as they can be read without running it.

Quotes, variables with their defaults, arrays, `export`, positional words and continued lines are
understood. Substitutions, subshells and the truth of conditions are not: their words are marked
unknown, every branch is taken for a command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sweep.init.words import Word
from sweep.sglang.secrecy import is_secret

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=(.*)", re.DOTALL)
_EXPANSION = re.compile(
    r"\$(?:(?P<plain>[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])"
    r"|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*|[0-9@*])(?P<array>\[[@*]\])?"
    r"(?:(?P<default>:?[-=])(?P<other>[^{}]*))?\})"
)
_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "{", "}", "!", "exec",
     "command", "builtin", "time", "nohup"}
)  # fmt: skip
_DECLARE = ("export", "declare", "typeset", "readonly", "local")
_LIST = re.compile(r"\$(@|\{(@|[A-Za-z_][A-Za-z0-9_]*\[@\])\})")
_OPERATORS = ";&|\n"


@dataclass(frozen=True)
class Command:
    """A simple command: its words, and the variables set for it alone or exported before it."""

    words: tuple[Word, ...]
    environment: Mapping[str, Word]
    directory: str | None


@dataclass
class _State:
    """What the script has set so far: lists of words, since arrays are such."""

    variables: dict[str, list[Word]]
    exported: dict[str, Word] = field(default_factory=dict)
    directory: str | None = None


def commands(
    text: str, environment: Mapping[str, str], positional: Sequence[Word] = ()
) -> list[Command]:
    """Every simple command of a script in order, `exec` and keywords taken away.

    `environment` is what the script is started with, `positional` its `$0`, `$1`, ...
    """
    variables = {name: [_held(name, value)] for name, value in environment.items()}
    variables |= {str(number): [word] for number, word in enumerate(positional)}
    variables |= {"@": list(positional[1:]), "*": list(positional[1:])}
    state = _State(variables)
    found = []
    reader = _Reader(text, state)
    while not reader.done:
        command = _obey(reader.command(), state)
        if command:
            found.append(command)
    return found


def _obey(words: list[Word], state: _State) -> Command | None:
    """Take what a command sets into the state; return it if it is one that starts something."""
    here: dict[str, Word] = {}
    while words:
        assigned = _assignment(words[0])
        if assigned:
            here[assigned[0]] = assigned[1]
        elif words[0].text not in _KEYWORDS:
            break
        words = words[1:]
    if not words:
        for name, value in here.items():
            state.variables[name] = [value]
            if name in state.exported:
                state.exported[name] = value
        return None
    name, rest = words[0].text, words[1:]
    if name in _DECLARE:
        _declare(name, rest, state)
    elif name == "cd" and rest:
        state.directory = rest[-1].text if rest[-1].known else None
    elif name in ("source", ".") and rest and rest[0].text.endswith("/bin/activate"):
        _activate(rest[0].text.removesuffix("/activate"), state)
    else:
        return Command(tuple(words), {**state.exported, **here}, state.directory)
    return None


def _declare(command: str, words: Sequence[Word], state: _State) -> None:
    for word in words:
        assigned = _assignment(word)
        name = assigned[0] if assigned else word.text
        if assigned:
            state.variables[name] = [assigned[1]]
        if command == "export" and name in state.variables:
            state.exported[name] = _joined(state.variables[name])


def _activate(directory: str, state: _State) -> None:
    """A virtual environment puts its programs first."""
    path = _joined(state.variables.get("PATH", [Word("/usr/local/bin:/usr/bin:/bin")]))
    state.variables["PATH"] = [Word(f"{directory}:{path.text}")]
    state.exported["PATH"] = state.variables["PATH"][0]


def _assignment(word: Word) -> tuple[str, Word] | None:
    found = _ASSIGNMENT.fullmatch(word.text)
    if not found or found[2]:
        return None
    held = _held(found[1], found[3])
    return found[1], Word(held.text, word.secret or held.secret, word.known)


def _held(name: str, value: str) -> Word:
    return Word(value, name if is_secret(name, value) else None)


def _joined(words: Sequence[Word]) -> Word:
    secret = next((word.secret for word in words if word.secret), None)
    return Word(" ".join(w.text for w in words), secret, all(w.known for w in words))


class _Reader:
    """Cuts a script into commands, expanding on the way: assignments of arrays are done at once."""

    def __init__(self, text: str, state: _State) -> None:
        self._text = text
        self._at = 0
        self._state = state

    @property
    def done(self) -> bool:
        return self._at >= len(self._text)

    def command(self) -> list[Word]:
        """The words up to the next operator, redirections left out."""
        words: list[Word] = []
        while not self.done:
            character = self._text[self._at]
            if character in _OPERATORS:
                self._at += 1
                break
            if character in " \t\r":
                self._at += 1
            elif character == "#":
                self._skip_line()
            elif self._text.startswith("\\\n", self._at):
                self._at += 2
            elif self._redirection():
                continue
            elif character in "()":
                self._at += 1
            else:
                words += self._word()
        return words

    def _word(self) -> list[Word]:
        """One word, which may become none or several: `$@`, an array, an unquoted variable."""
        start, pieces = self._at, [Word("")]
        quoted = False
        while not self.done and self._text[self._at] not in " \t\r" + _OPERATORS + "<>()":
            character = self._text[self._at]
            if character == "\\":
                _glue(pieces, [Word(self._text[self._at + 1 : self._at + 2].replace("\n", ""))])
                self._at += 2
            elif character == "'":
                end = self._find("'", self._at + 1)
                _glue(pieces, [Word(self._text[self._at + 1 : end])])
                self._at, quoted = end + 1, True
            elif character == '"':
                quoted = self._double(pieces) or quoted
            elif character in "$`":
                self._expand(pieces, split=True)
            else:
                _glue(pieces, [Word(character)])
                self._at += 1
        array = re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=", self._text[start : self._at])
        if array and self._text[self._at : self._at + 1] == "(":
            self._array(array[1], append=bool(array[2]))
            return []
        return pieces if quoted else [piece for piece in pieces if piece.text or not piece.known]

    def _double(self, pieces: list[Word]) -> bool:
        """Whether the quotes make a word even if nothing is in them; `"$@"` of nothing does not."""
        self._at += 1
        start = self._at
        while not self.done and self._text[self._at] != '"':
            character = self._text[self._at]
            if character == "\\" and self._text[self._at + 1 : self._at + 2] in (
                '"',
                "\\",
                "$",
                "`",
                "\n",
            ):
                _glue(pieces, [Word(self._text[self._at + 1].replace("\n", ""))])
                self._at += 2
            elif character in "$`":
                self._expand(pieces, split=False)
            else:
                _glue(pieces, [Word(character)])
                self._at += 1
        self._at += 1
        list_alone = _LIST.fullmatch(self._text[start : self._at - 1])
        return not list_alone or bool(pieces[-1].text)

    def _expand(self, pieces: list[Word], *, split: bool) -> None:
        found = _EXPANSION.match(self._text, self._at)
        if found:
            self._at = found.end()
            _glue(pieces, self._value(found, split=split))
            return
        opener = self._text[self._at : self._at + 2]
        if opener in ("$(", "${") or opener[0] == "`":
            self._at = self._closing(opener)
            _glue(pieces, [Word("", known=False)])
        else:
            _glue(pieces, [Word("$")])
            self._at += 1

    def _value(self, found: re.Match[str], *, split: bool) -> list[Word]:
        name = found["plain"] or found["name"]
        held = self._state.variables.get(name)
        if found["default"] and (held is None or not "".join(word.text for word in held)):
            held = [Word(found["other"].strip("\"'"))]
        if held is None:
            known = name in "@*" or not re.fullmatch(r"[0-9#?$!-]", name)
            return [] if name in ("@", "*") else [Word("", known=known)]
        if found["array"] or name in ("@", "*"):
            return held
        value = held[0] if held else Word("")
        if not split:
            return [value]
        return [Word(part, value.secret, value.known) for part in value.text.split()] or [value]

    def _array(self, name: str, *, append: bool) -> None:
        self._at += 1
        words: list[Word] = []
        while not self.done and self._text[self._at] != ")":
            if self._text[self._at] in " \t\r\n":
                self._at += 1
            elif self._text[self._at] == "#":
                self._skip_line()
            elif self._text.startswith("\\\n", self._at):
                self._at += 2
            else:
                before = self._at
                words += self._word()
                self._at = max(self._at, before + 1)
        self._at += 1
        self._state.variables[name] = [
            *(self._state.variables.get(name, []) if append else []),
            *words,
        ]

    def _redirection(self) -> bool:
        found = re.compile(r"[0-9]*(&>>?|>&|>>|>\||<<<|<&|>|<)[ \t]*").match(self._text, self._at)
        if not found:
            return False
        self._at = found.end()
        if not self.done and self._text[self._at] not in _OPERATORS:
            self._word()
        return True

    def _skip_line(self) -> None:
        self._at = self._find("\n", self._at)

    def _find(self, text: str, start: int) -> int:
        found = self._text.find(text, start)
        return len(self._text) if found < 0 else found

    def _closing(self, opener: str) -> int:
        """Just behind the end of a substitution."""
        if opener[0] == "`":
            return self._find("`", self._at + 1) + 1
        close, depth, at = (")" if opener == "$(" else "}"), 0, self._at + 1
        while at < len(self._text):
            depth += {opener[1]: 1, close: -1}.get(self._text[at], 0)
            at += 1
            if depth == 0:
                break
        return at


def _glue(pieces: list[Word], more: Sequence[Word]) -> None:
    """Join the first of `more` to the last piece; the rest are words of their own."""
    if not more:
        return
    pieces[-1] = _concatenated(pieces[-1], more[0])
    pieces += more[1:]


def _concatenated(one: Word, other: Word) -> Word:
    return Word(one.text + other.text, one.secret or other.secret, one.known and other.known)
