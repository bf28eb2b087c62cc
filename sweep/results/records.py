"""`bench/<point>-t1-a1.json`: one attempt with everything known about it; the CSV's own source."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sweep.errors import RunDirectoryError
from sweep.results.files import read_bytes, translated, write_atomic
from sweep.rows import SCHEMA, Row

Key = tuple[str, int, int]

_ID = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,99}")
_NAME = re.compile(rf"(?P<point>{_ID.pattern})-t(?P<trial>[1-9]\d*)-a(?P<attempt>[1-9]\d*)\.json")


def checked_id(text: str) -> str:
    """An id that may be part of a file name: a letter, then letters, digits, `.`, `_`, `-`.

    Raises:
        ValueError: anything else.
    """
    if not _ID.fullmatch(text):
        raise ValueError(f"not an id: {text!r}")
    return text


def record_name(key: Key) -> str:
    point, trial, attempt = key
    if trial < 1 or attempt < 1:
        raise ValueError(f"trials and attempts count from 1: {key}")
    return f"{checked_id(point)}-t{trial}-a{attempt}.json"


def record_keys(directory: Path) -> Iterator[Key]:
    """The (point, trial, attempt) of every record in bench/, by file name."""
    if not directory.is_dir():
        return
    with translated(directory, "list"):
        names = [path.name for path in directory.iterdir()]
    for name in sorted(names):
        if found := _NAME.fullmatch(name):
            yield found["point"], int(found["trial"]), int(found["attempt"])


def write_record(directory: Path, row: Row, bench: Mapping[str, Any]) -> None:
    """Write the record of one attempt: a tidy row and per-request data, durable before return.

    A number that JSON has no word for (NaN, infinity) becomes null: unknown, never 0.
    """
    document = {"schema": SCHEMA, "row": dict(row.values), "bench": bench}
    try:
        text = _json(document)
    except ValueError:
        text = _json(_finite(document))
    write_atomic(directory / record_name(row.key), text.encode("utf-8", "backslashreplace") + b"\n")


def _json(document: object) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return value


def read_record(directory: Path, key: Key) -> tuple[Row, dict[str, Any]]:
    """The row and the per-request data of one attempt.

    Raises:
        RunDirectoryError: there is no such record, or it is damaged.
    """
    path = directory / record_name(key)
    data = read_bytes(path)
    if data is None:
        raise RunDirectoryError(f"{path}: no such attempt in this run")
    try:
        return _parse(data, key)
    except (ValueError, KeyError, TypeError) as error:
        raise RunDirectoryError(f"{path}: damaged: {error}") from error


def _parse(data: bytes, key: Key) -> tuple[Row, dict[str, Any]]:
    document = json.loads(data)
    if document["schema"] != SCHEMA:
        raise ValueError(f"schema {document['schema']!r}, not {SCHEMA}")
    row = Row(document["row"])
    if row.key != key:
        raise ValueError(f"holds {row.key}")
    return row, dict(document["bench"])
