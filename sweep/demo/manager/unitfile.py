"""A unit file as systemd reads it: lists, resets, drop-ins, relations, commands."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sweep.demo.manager.quoting import commands, specifiers, split

RELATIONS = ("Requires", "Requisite", "Wants", "BindsTo", "PartOf", "Conflicts", "After", "Before",
             "PropagatesReloadTo")  # fmt: skip
# For each relation, the property that shows it from the other side.
REVERSE = {
    "Requires": "RequiredBy", "Requisite": "RequisiteOf", "Wants": "WantedBy",
    "BindsTo": "BoundBy", "PartOf": "ConsistsOf", "Conflicts": "ConflictedBy",
    "Triggers": "TriggeredBy", "PropagatesStopTo": "StopPropagatedFrom",
}  # fmt: skip
_SPAN = {"us": 1e-6, "ms": 1e-3, "": 1.0, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0}
_SPAN |= {"h": 3600.0, "hr": 3600.0, "d": 86400.0}


@dataclass(frozen=True)
class Command:
    """One Exec line: its words before variables are put in. `ignore_failure` is the prefix `-`."""

    words: tuple[str, ...]
    ignore_failure: bool = False
    verbatim: bool = False


@dataclass(frozen=True)
class UnitFile:
    """Directives by (section, key), each a list in order; where they stand.

    `specifiers` None: made by systemd-run, whose values are taken as they are; `argv` is then the
    command. One without any directive stands for a unit that is nowhere.
    """

    name: str
    directives: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    path: str = ""
    drop_ins: tuple[str, ...] = ()
    specifiers: Mapping[str, str] | None = None
    argv: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        return bool(self.path or self.directives)

    @property
    def bad(self) -> bool:
        """A service that systemd refuses to load: no command, several, or none it could run."""
        if not self.known or not self.name.endswith(".service"):
            return False
        try:
            found = self.commands("ExecStart")
        except ValueError:
            return True
        several = len(found) > 1 and self.get("Type") != "oneshot"
        program = found[0].words[0] if found and found[0].words else ""
        return not program or several or ("/" in program and not program.startswith("/"))

    def _expand(self, text: str) -> str:
        return text if self.specifiers is None else specifiers(text, self.specifiers)

    def all(self, key: str, section: str = "Service") -> tuple[str, ...]:
        return self.directives.get((section, key), ())

    def get(self, key: str, default: str = "", section: str = "Service") -> str:
        """The last assignment, specifiers expanded."""
        values = self.all(key, section)
        return self._expand(values[-1]) if values else default

    def names(self, relation: str) -> tuple[str, ...]:
        """Unit names of a relation of [Unit]."""
        words = [word for line in self.all(relation, "Unit") for word in line.split()]
        return tuple(dict.fromkeys(map(self._expand, words)))

    def words(self, key: str) -> tuple[str, ...]:
        """Words of a list directive of [Service], unquoted and expanded."""
        lines = self.all(key)
        return tuple(self._expand(word) for line in lines for word in split(line))

    def commands(self, key: str) -> tuple[Command, ...]:
        """The commands of ExecStart= and friends. Raises ValueError for broken quotes."""
        if key == "ExecStart" and self.argv:
            return (Command(self.argv),)
        return tuple(one for line in self.all(key) for one in self._commands(line))

    def _commands(self, line: str) -> Iterable[Command]:
        prefixes = re.match(r"[-@:+!|]*", line)
        marks = prefixes[0] if prefixes else ""
        for words in commands(line[len(marks) :]):
            yield Command(tuple(map(self._expand, words)), "-" in marks, ":" in marks)

    def seconds(self, key: str, default: float, section: str = "Service") -> float:
        """A time span in seconds."""
        text = self.get(key, "", section)
        return span(text) if text else default


def span(text: str) -> float:
    """`1min 30s`, `90`, `200ms`, `infinity` as seconds. Raises ValueError."""
    if text == "infinity":
        return float("inf")
    parts = re.findall(r"([\d.]+)\s*([a-z]*)", text.replace("seconds", "s"))
    if not parts or any(unit not in _SPAN for _, unit in parts):
        raise ValueError(f"not a time span: {text!r}")
    return sum(float(number) * _SPAN[unit] for number, unit in parts)


def clean_statuses(text: str) -> tuple[frozenset[int], frozenset[int]]:
    """SuccessExitStatus=: exit statuses and signals that count as success."""
    statuses, signals = set(), set()
    for word in text.split():
        if word.isdigit():
            statuses.add(int(word))
        elif "SIG" + word.removeprefix("SIG") in signal.Signals.__members__:
            signals.add(int(signal.Signals["SIG" + word.removeprefix("SIG")]))
    return frozenset(statuses), frozenset(signals)


def parse(
    text: str, before: Mapping[tuple[str, str], tuple[str, ...]] | None = None
) -> dict[tuple[str, str], tuple[str, ...]]:
    """A unit file's lines as lists, after those of `before`; an empty assignment empties one."""
    found = dict(before or {})
    section = ""
    for line in _logical_lines(text):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            continue
        key, equals, value = line.partition("=")
        if equals:
            at = (section, key.strip())
            found[at] = (*found.get(at, ()), value.strip()) if value.strip() else ()
    return found


def _logical_lines(text: str) -> Iterable[str]:
    joined = ""
    for raw in text.split("\n"):
        line = raw.strip(" \t\r")
        if line.startswith(("#", ";")):
            continue
        if raw.rstrip("\r").endswith("\\"):
            joined += raw.lstrip(" \t")[:-1] + " " if not joined else raw[:-1] + " "
            continue
        whole = (joined + raw).strip(" \t\r") if joined else line
        joined = ""
        if whole:
            yield whole
    if joined.strip():
        yield joined.strip()


def load(name: str, directories: Iterable[Path], values: Mapping[str, str]) -> UnitFile:
    """The unit of that name with its drop-ins."""
    places = list(directories)
    path = next((place / name for place in places if (place / name).is_file()), None)
    if path is None:
        return UnitFile(name)
    directives = parse(path.read_text("utf-8", "surrogateescape"))
    drop_ins: dict[str, Path] = {}
    for place in reversed(places):
        drop_ins |= {found.name: found for found in (place / f"{name}.d").glob("*.conf")}
    extra = [drop_ins[key] for key in sorted(drop_ins)]
    for found in extra:
        directives = parse(found.read_text("utf-8", "surrogateescape"), directives)
    return UnitFile(
        name, directives, str(path), tuple(map(str, extra)), {**values, **_of_name(name)}
    )


def transient(
    name: str, given: Iterable[tuple[str, str, str]], argv: Iterable[str] = ()
) -> UnitFile:
    """A unit made by systemd-run: (section, key, value) in order, and its command."""
    directives: dict[tuple[str, str], tuple[str, ...]] = {}
    for section, key, value in given:
        directives[section, key] = (*directives.get((section, key), ()), value)
    return UnitFile(name, directives, argv=tuple(argv))


def _of_name(name: str) -> dict[str, str]:
    stem = name.rpartition(".")[0]
    prefix, _, instance = stem.partition("@")
    return {"n": name, "N": stem, "p": prefix, "i": instance, "I": instance.replace("-", "/")}
