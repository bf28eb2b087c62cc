"""SGLang's flags as a unit gives them, turned into `server.args` of an inventory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import yaml

from sweep.init.speculation import for_a_sweep
from sweep.init.start import Read
from sweep.init.words import Word
from sweep.inventory import FlagValue, Scalar
from sweep.sglang.flags import REMOVED, canonical, flags, is_speculative
from sweep.sglang.secrecy import flag_names_secret
from sweep.sglang.spelling import SECRET, name_problem, value_problem

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
# An abbreviation in many guides that became ambiguous (0.5.23 ends with exit 2).
_ONCE_CLEAR = {"speculative-draft": "speculative-draft-model-path"}

_NOT_OURS = {
    "host": "the tool starts the server on 127.0.0.1",
    "port": "the tool has a port of its own (server.port)",
}
_HTTPS = "the tool asks the server over plain HTTP on 127.0.0.1"
_HELD_OUT = "<secret>"


@dataclass(frozen=True)
class Flags:
    """What the flags of a unit come to.

    args        for `server.args`, in canonical spelling
    secrets     flag -> the variable it is to be read from on the controller
    old         words for `server.command`: flags only this host's older SGLang takes
    host, port  where the unit's server listens; None where it does not say
    first_step  the lowest steps value that fits the draft tokens of a tree; 1 otherwise
    notes       what was changed or left out, a sentence each
    """

    args: Mapping[str, FlagValue]
    secrets: Mapping[str, str] = field(default_factory=dict)
    old: tuple[str, ...] = ()
    host: str | None = None
    port: int | None = None
    first_step: int = 1
    notes: tuple[str, ...] = ()


def read_flags(words: Sequence[Word], version: str | None) -> Flags:
    """`version` is that of the host's SGLang, None if it could not be found out."""
    notes: list[str] = []
    old: list[str] = []
    given: dict[str, tuple[Word, ...]] = {}
    for spelling, values in _pairs(words, notes):
        name, fixed = _today(spelling, version, notes)
        if name is None:
            old += [f"--{spelling}", *(word.text for word in values)]
            continue
        if name in given:
            notes.append(f"--{name} is given more than once: the last one counts, as in SGLang")
            del given[name]
        given[name] = values if fixed is None else (Word(fixed),)
    listens = {name: _shown(given[name]) for name in _NOT_OURS if name in given}
    secrets = _take_secrets(given, notes)
    _take_what_is_not_ours(given, notes)
    args = _args(given, notes)
    swept, first_step = for_a_sweep(args, notes)
    return Flags(
        args=swept,
        secrets=secrets,
        old=tuple(old),
        host=listens.get("host"),
        port=int(listens["port"]) if listens.get("port", "").isdecimal() else None,
        first_step=first_step,
        notes=tuple(notes),
    )


def hidden(words: Sequence[Word]) -> tuple[Word, ...]:
    """The same words, the values of secret flags marked as such, `--flag=value` as two words."""
    found: list[Word] = []
    variable: str | None = None
    for word in words:
        name, equals, value = word.text.lstrip("-").partition("=")
        if not _is_flag(word):
            found.append(replace(word, secret=word.secret or variable))
            continue
        variable = _variable(name) if _names_secret(name) else None
        if variable and equals:
            found += [Word(f"--{name}"), replace(word, text=value, secret=word.secret or variable)]
        else:
            found.append(word)
    return tuple(found)


def _names_secret(flag: str) -> bool:
    return canonical(flag) in SECRET or flag_names_secret(flag)


def _variable(flag: str) -> str:
    return f"SGLANG_{flag.replace('-', '_').upper()}"


def with_config_file(words: Sequence[Word], read: Read) -> tuple[tuple[Word, ...], tuple[str, ...]]:
    """The words with the flags of SGLang's own `--config FILE` written out, and a note about it.

    The file's flags stand first, so that those of the command line win (srt/server_args.py).
    """
    texts = [word.text for word in words]
    at = next((i for i, text in enumerate(texts) if text.split("=")[0] == "--config"), None)
    if at is None:
        return tuple(words), ()
    _, equals, path = texts[at].partition("=")
    end = at + 1 if equals else at + 2
    path = path or "".join(texts[at + 1 : end])
    content = _mapping(read(path))
    if content is None:
        note = f"--config {path} could not be read: flags that stand there are not in this file"
        return tuple(words), (note,)
    rest = [*words[:at], *words[end:]]
    note = f"the flags of {path} (--config) are written out here"
    return (*_config_words(content), *rest), (note,)


def _mapping(text: str | None) -> Mapping[object, object] | None:
    try:
        content = yaml.safe_load(text) if text else None
    except yaml.YAMLError:
        return None
    return content if isinstance(content, dict) else None


def _config_words(content: Mapping[object, object]) -> Iterator[Word]:
    for key, value in content.items():
        name = f"--{str(key).replace('_', '-')}"
        if isinstance(value, list):
            yield Word(name)
            yield from (Word(str(item)) for item in value)
        elif isinstance(value, bool):
            if value:
                yield Word(name)
        else:
            yield Word(f"{name}={value}")


def _pairs(words: Sequence[Word], notes: list[str]) -> Iterator[tuple[str, tuple[Word, ...]]]:
    """Flags with their words: as many as the flag takes, if it is unknown all up to the next."""
    at, strays = 0, 0
    if words and not _is_flag(words[0]):
        yield "model-path", (words[0],)  # sglang serve MODEL
        at = 1
    while at < len(words):
        name, equals, value = words[at].text.lstrip("-").partition("=")
        end = at + 1
        while end < len(words) and not _is_flag(words[end]):
            end += 1
        values = tuple(words[at + 1 : end])
        if equals:
            strays += len(values)
            values = (Word(value, words[at].secret, words[at].known),)
        else:
            taken = _takes(name, len(values))
            strays += len(values) - taken
            values = values[:taken]
        yield name, values
        at = end
    if strays:
        notes.append(f"{strays} words between the flags belong to none of them: left out")


def _takes(name: str, there: int) -> int:
    flag = flags().get(name)
    if flag is None or flag.words:
        return there
    return 0 if flag.kind in ("bool", "optional-bool") else min(there, 1)


def _is_flag(word: Word) -> bool:
    return word.text.startswith("-") and not _NUMBER.fullmatch(word.text) and len(word.text) > 1


def _today(spelling: str, version: str | None, notes: list[str]) -> tuple[str | None, str | None]:
    """The canonical name of a flag today, and its value where the new flag has a fixed one.

    None as a name: keep the old spelling, since this host's SGLang knows only that.
    """
    if spelling in flags():
        return canonical(spelling), None
    if spelling in REMOVED:
        return _replaced(spelling, version, notes)
    longer = {flag.name for known, flag in flags().items() if known.startswith(spelling)}
    name = _ONCE_CLEAR.get(spelling) or (longer.pop() if len(longer) == 1 else None)
    if name:
        notes.append(f"--{spelling} is short for {name}: written in full")
        return name, None
    return spelling, None


def _replaced(
    spelling: str, version: str | None, notes: list[str]
) -> tuple[str | None, str | None]:
    last, new = REMOVED[spelling]
    if version and _number(version) <= _number(last) and not is_speculative(spelling):
        notes.append(
            f"--{spelling} is a flag of releases up to {last}; this host has {version}, so it "
            "stands in server.command"
        )
        return None, None
    if not new:
        return spelling, None  # named and left out with every other flag SGLang does not have
    name, _, fixed = new.partition(": ")
    notes.append(
        f"--{spelling} is an old spelling (until {last}): written as {new}; check its value"
    )
    return name, fixed or None


def _number(version: str) -> tuple[int, ...]:
    """0.5.10.post1 -> (0, 5, 10, 1)"""
    return tuple(map(int, re.findall(r"\d+", version)))


def _take_secrets(given: dict[str, tuple[Word, ...]], notes: list[str]) -> dict[str, str]:
    """Flags whose value must not stand in a file: flag -> variable of the controller."""
    found: dict[str, str] = {}
    for name in list(given):
        values = given[name]
        hidden = any(word.secret or word.shown == _HELD_OUT for word in values)
        if name.startswith("ssl-") or not hidden:
            continue
        del given[name]
        if len(values) != 1:
            notes.append(f"--{name} holds a secret among several words: left out")
            continue
        variable = values[0].secret or _variable(name)
        found[name] = variable
        notes.append(f"--{name} is a secret: export {variable} on this machine before a run")
    return found


def _take_what_is_not_ours(given: dict[str, tuple[Word, ...]], notes: list[str]) -> None:
    for name in list(given):
        reason = _HTTPS if name.startswith("ssl-") else _NOT_OURS.get(name)
        if reason:
            value = "" if name == "ssl-keyfile-password" else _shown(given[name])
            notes.append(f"--{name} {value}".rstrip() + f" left out: {reason}")
            del given[name]


def _args(given: Mapping[str, tuple[Word, ...]], notes: list[str]) -> dict[str, FlagValue]:
    """Values as SGLang's flags take them; what the inventory would refuse is left out and named."""
    args: dict[str, FlagValue] = {}
    for name, words in given.items():
        if not all(word.known for word in words):
            notes.append(f"--{name} left out: its value comes from a command; write it by hand")
            continue
        value = _value(name, [word.text for word in words])
        problem = name_problem(name) or value_problem(name, value)
        if problem:
            why = problem.split("; ")[0]
            notes.append(f"--{name} {_shown(words)}".rstrip() + f" left out: {why}")
        else:
            args[name] = value
    return args


def _value(name: str, texts: Sequence[str]) -> FlagValue:
    flag = flags().get(name)
    kind = flag.kind if flag else None
    if not texts:
        return True if flag is None or kind in ("bool", "optional-bool") else ()
    typed = tuple(_typed(text, kind) for text in texts)
    return typed if (flag and flag.words) or len(typed) > 1 else typed[0]


def _typed(text: str, kind: str | None) -> Scalar:
    number = _NUMBER.fullmatch(text)
    if number and not number[2] and kind in ("int", "size", "float", None):
        return int(text)
    if number and kind == "float":
        return float(text)
    # An unknown flag may take text: only a number that is written back as it stood becomes one.
    return float(text) if number and kind is None and repr(float(text)) == text else text


def _shown(words: Sequence[Word]) -> str:
    return " ".join(word.shown for word in words)
