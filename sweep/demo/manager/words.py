"""A command line of systemctl taken apart, and the answer to one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

_VALUED = {
    "-p": "property", "--property": "property", "-s": "signal", "--signal": "signal",
    "--kill-whom": "whom", "--kill-who": "whom", "--job-mode": "job_mode", "-t": "type",
    "--type": "type", "--state": "state", "-n": "lines", "--lines": "lines", "-o": "output",
    "--output": "output", "-P": "value_of", "--legend": "legend",
}  # fmt: skip
_SUFFIXES = (".service", ".timer", ".target", ".socket", ".slice", ".mount", ".path")


@dataclass
class Answer:
    """What the command prints and ends with."""

    status: int = 0
    out: str = ""
    error: str = ""

    def fail(self, status: int, message: str) -> None:
        self.status = max(self.status, status)
        self.error += message + "\n"


@dataclass
class Words:
    """A command line of systemctl: flags without value, options with one or several, the rest."""

    flags: set[str] = field(default_factory=set)
    options: dict[str, list[str]] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)

    def last(self, option: str, default: str = "") -> str:
        return self.options.get(option, [default])[-1]


def read_words(argv: Iterable[str]) -> Words:
    """Options may stand anywhere before `--`."""
    words = Words()
    left = list(argv)
    while left:
        word = left.pop(0)
        if word == "--":
            words.rest += left
            break
        name, equals, value = word.partition("=")
        short = word[:2] if word[:1] == "-" and word[1:2] != "-" else ""
        if name in _VALUED and (equals or word in _VALUED):
            words.options.setdefault(_VALUED[name], []).append(value if equals else left.pop(0))
        elif short in _VALUED:
            words.options.setdefault(_VALUED[short], []).append(word[2:])
        elif word.startswith("-"):
            words.flags.add(name)
        else:
            words.rest.append(word)
    return words


def unit_name(word: str) -> str:
    return word if word.endswith(_SUFFIXES) else f"{word}.service"
