"""Another benchmark client, declared: its command line, its result file, and what that says."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sweep.inventory import ClientBenchmark
from sweep.rows import Cell

Words = tuple[str, ...]
Files = Mapping[str, bytes]
# Where a column's value stands in a result: keys joined by dots, and what it is multiplied with.
Place = str | tuple[str, float]


@dataclass(frozen=True)
class Asked:
    """One trial, as such a client has to be told it. `prompts` are its requests, in order.

    `python` is the host's: SGLang's clients run in it. `api_key` may stand in a file alone.
    """

    spec: ClientBenchmark
    url: str
    model: str
    tokenizer: str
    concurrency: int
    prompts: Words
    python: str
    api_key: str | None = None


@dataclass(frozen=True)
class Client:
    """How one client is run and read.

    It runs `command` in a folder with `files`, and leaves its result at `result`, a path there,
    which the run directory keeps as `kept`. `version` are words that print its version, and fail
    where it is not installed: `install` says what to do then.
    `links` are symbolic links to make in the folder, name -> target.
    `places` are the columns that it measures and where its result has them. `document` finds the
    JSON object in the result file (ValueError, LookupError: it is none).
    """

    result: str
    kept: str
    install: str
    version: Callable[[ClientBenchmark, str], Words]
    command: Callable[[Asked], Words]
    files: Callable[[Asked], Files]
    places: Mapping[str, Place]
    links: Callable[[Asked], Mapping[str, str]] = lambda _: {}
    document: Callable[[bytes], object] = json.loads


def program(spec: ClientBenchmark) -> str:
    """The command of a client that is not a module of Python."""
    return spec.program or spec.kind


def json_lines(prompts: Words, key: str) -> bytes:
    """A dataset of one prompt a line, each an object with this key."""
    return b"".join(json.dumps({key: prompt}).encode() + b"\n" for prompt in prompts)


def columns(document: object, places: Mapping[str, Place]) -> tuple[dict[str, Cell], list[str]]:
    """The columns as far as the document has them, and the places at which it has no number.

    A time of 0 ms is how some clients write that they have none: it is unknown, too.
    """
    values: dict[str, Cell] = {}
    missing = []
    for column, place in places.items():
        keys, factor = (place, 1.0) if isinstance(place, str) else place
        number = _number(document, keys)
        if number is None or ("_ms_" in column and number == 0):
            missing.append(keys)
        elif column in ("requests_ok", "output_tokens"):
            values[column] = round(number)
        else:
            values[column] = number * factor
    return values, missing


def _number(document: object, keys: str) -> float | None:
    found = document
    for key in keys.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return None
    return float(found)
