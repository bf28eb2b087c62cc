"""How steps, concurrencies and settings are written, in the inventory and on the command line.

Each parser raises ValueError with one sentence "<what is wrong>; <what to do>".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from sweep.benchmarks import Workload
from sweep.errors import InventoryError
from sweep.inventory import WORKLOADS, FileWorkload, FlagValue, Scalar, SyntheticWorkload
from sweep.limits import MOST_CONCURRENCY, MOST_STEPS, MOST_TOKENS
from sweep.naming import did_you_mean
from sweep.sglang.flags import flags
from sweep.sglang.spelling import shown
from sweep.workloads import read_file

_NUMBER = r"0|[1-9][0-9]{0,17}"
_RANGE = re.compile(rf"({_NUMBER})\s*(?:\.\.|-)\s*({_NUMBER})(?:\s*:\s*({_NUMBER}))?")
_STEPS_FORMS = "write 1..10, 1-10, 0,1,3 or 1..10:3"

Concurrency = int | Literal["max"]


def parse_steps(text: str) -> tuple[int, ...]:
    """`1..10`, `1-10`, `0,1,3`, `1..10:3` (every third) and commas between these -> the numbers.

    In the order given, which must not name one twice.
    """
    found: list[int] = []
    for part in _parts(text, _STEPS_FORMS):
        found += _steps_of(part)
    return checked_steps(found)


def _steps_of(part: str) -> Sequence[int]:
    if re.fullmatch(_NUMBER, part):
        return [int(part)]
    if re.fullmatch(r"-[0-9.]+", part):
        raise ValueError(f"{shown(part)} is below 0; {_STEPS_FORMS} (0 is no speculation)")
    match = _RANGE.fullmatch(part)
    if match is None:
        raise ValueError(f"{shown(part)} is neither a number nor a range; {_STEPS_FORMS}")
    first, last, stride = int(match[1]), int(match[2]), int(match[3] or 1)
    if last < first:
        raise ValueError(f"{shown(part)} counts down; write {last}..{first}")
    if stride == 0:
        raise ValueError(f"{shown(part)} never gets on; write a stride from 1 up")
    _in_limits(last, MOST_STEPS)
    return range(first, last + 1, stride)


def checked_steps(steps: Sequence[int]) -> tuple[int, ...]:
    """Steps as numbers -> the same, if they are some, none twice, 0 to `MOST_STEPS`."""
    if not steps:
        raise ValueError(f"names no steps; {_STEPS_FORMS}")
    for number in steps:
        if number < 0:
            raise ValueError(f"{number} steps are below 0; write 0 for no speculation")
        _in_limits(number, MOST_STEPS)
    _no_twins(steps)
    return tuple(steps)


def parse_concurrency(text: str) -> tuple[Concurrency, ...]:
    """`1,4,16,max` -> the numbers and the word `max`, in the order given."""
    form = "write whole numbers and max, as in 1,4,16,max"
    found: list[Concurrency] = []
    for part in _parts(text, form):
        if part != "max" and not re.fullmatch(_NUMBER, part):
            raise ValueError(f"{shown(part)} is no concurrency; {form}")
        found.append("max" if part == "max" else int(part))
    return checked_concurrency(found)


def checked_concurrency(found: Sequence[Concurrency]) -> tuple[Concurrency, ...]:
    """Concurrencies -> the same, if they are some, none twice, each 1 to `MOST_CONCURRENCY`."""
    if not found:
        raise ValueError("names no concurrency; write some, as in 1,4,16,max")
    for number in found:
        if number != "max" and number < 1:
            raise ValueError(f"a concurrency of {number} sends nothing; write 1 or more")
        if number != "max":
            _in_limits(number, MOST_CONCURRENCY)
    _no_twins(found)
    return tuple(found)


def parse_setting(text: str) -> tuple[str, FlagValue]:
    """`FLAG=VALUE` -> the flag as written and its value, typed by what SGLang's flag takes.

    `true` and `false` are truth values (false leaves the flag out); a flag of several words takes
    them with commas between; text flags keep their text; unknown flags read numbers as numbers.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    name = name.removeprefix("--")
    if not name.isprintable() or not name or not equals:
        raise ValueError("is not FLAG=VALUE; write for example tp-size=4 or enable-metrics=true")
    if not value:
        raise ValueError(f"gives {name} no value; write one, or {name}=false to leave it out")
    if value in ("true", "false"):
        return name, value == "true"
    flag = flags().get(name)
    if flag is not None and flag.words:
        return name, tuple(_typed(word, flag.kind) for word in value.split(","))
    return name, _typed(value, flag.kind if flag else None)


def parse_workload(text: str) -> Workload:
    """A workload's name, `IN:OUT` (random tokens of these numbers), or a file of conversations."""
    if text in WORKLOADS:
        return text
    if not text.strip():
        raise ValueError(f"is empty; {did_you_mean(text, WORKLOADS)}")
    if match := re.fullmatch(rf"({_NUMBER}):({_NUMBER})", text):
        for number in (int(match[1]), int(match[2])):
            _in_limits(number, MOST_TOKENS)
            if number < 1:
                raise ValueError("asks for 0 tokens; write for example 1024:256")
        return SyntheticWorkload(input_tokens=int(match[1]), output_tokens=int(match[2]))
    if not Path(text).exists():
        known = did_you_mean(text, WORKLOADS)
        raise ValueError(f"{shown(text)} is neither a file nor a workload; {known}")
    try:
        return read_file(FileWorkload(file=text), Path.cwd())
    except InventoryError as error:
        raise ValueError(f"{error}; name another file, or mend it") from error


def _typed(text: str, kind: str | None) -> Scalar:
    if kind in ("int", None) and re.fullmatch(rf"-?({_NUMBER})", text):
        return int(text)
    if kind in ("float", None) and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", text):
        return float(text)
    return text


def _parts(text: str, form: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise ValueError(f"{shown(text)} has a gap; {form}")
    return parts


def _in_limits(number: int, most: int) -> None:
    if number > most:
        raise ValueError(f"{number} is more than {most}; write less")


def _no_twins(found: Sequence[object]) -> None:
    seen: set[object] = set()
    for one in found:
        if one in seen:
            raise ValueError(f"{one} stands there twice; write it once")
        seen.add(one)
