"""`results.csv` as bytes: how a row becomes a line that pandas reads right, and back. Pure."""

from __future__ import annotations

import csv
import io
import math
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sweep.rows import COLUMNS, SCHEMA, Cell, Row

INTEGERS = frozenset(
    ("schema", "trial", "attempt", "speculative_num_steps", "speculative_eagle_topk",
     "speculative_num_draft_tokens", "concurrency", "max_running_requests",
     "max_total_num_tokens", "dp_size", "requests", "requests_ok", "output_tokens")
)  # fmt: skip
TEXTS = frozenset(
    ("run_id", "host", "launch", "point", "status", "failure", "failure_detail", "flags", "config",
     "workload", "accept_source", "gpu", "throttle", "model", "sglang_version", "invocation_id",
     "unit_sha256", "started_at", "finished_at")
)  # fmt: skip
REALS = frozenset(COLUMNS) - INTEGERS - TEXTS

HEADER = (",".join(COLUMNS) + "\n").encode()

# A detail is a line of evidence, not a log; no other text comes near the second limit, which
# stays below the field limit of Python's csv reader.
DETAIL_LIMIT = 2000
TEXT_LIMIT = 100_000

# What pandas.read_csv takes for missing, or (a whole column of it) for truth values.
_MISREAD = frozenset(
    ("", "#n/a", "#n/a n/a", "#na", "-nan", "<na>", "n/a", "na", "nan", "-1.#ind", "-1.#qnan",
     "1.#ind", "1.#qnan", "null", "none", "true", "false")
)  # fmt: skip
# What pandas may read as a number; wider than it is, which costs two quotes at worst.
_NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*|\.\d+|inf(inity)?|nan)([edj][+-]?\d*)?", re.IGNORECASE)


def tidy(row: Row) -> Row:
    """The row as the CSV can hold it: typed by column, text on one line, unknown left out.

    A text that pandas would read as missing, a number or a truth value (a failure detail `NA`) is
    put in single quotes. What comes out survives being written and read, by us and by pandas.

    Raises:
        TypeError, ValueError: a cell that its column cannot hold.
    """
    values: dict[str, Cell] = {}
    for column in COLUMNS:
        cell = _tidy_cell(column, row[column])
        if cell is not None:
            values[column] = cell
    return Row(values)


def _tidy_cell(column: str, cell: Cell) -> Cell:
    if cell is None:
        return None
    if column in TEXTS:
        return _tidy_text(str(cell), DETAIL_LIMIT if column == "failure_detail" else TEXT_LIMIT)
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        raise TypeError(f"column {column} holds a number, not {cell!r}")
    if not math.isfinite(cell):
        return None
    if column in REALS:
        return float(cell)
    if cell != int(cell):
        raise ValueError(f"column {column} holds a whole number, not {cell!r}")
    return int(cell)


def _tidy_text(text: str, limit: int) -> str | None:
    whole = text.encode("utf-8", "backslashreplace").decode()
    line = "".join(" " if _breaks_a_line(c) else c for c in whole).strip()
    if len(line) > limit:
        line = line[: limit - 1] + "…"
    if not line:
        return None
    return f"'{line}'" if line.lower() in _MISREAD or _NUMBER.fullmatch(line) else line


def _breaks_a_line(character: str) -> bool:
    # C0 and C1 control characters (CR, LF, NUL, ESC) and Unicode's own line and paragraph ends.
    return unicodedata.category(character) in ("Cc", "Zl", "Zp")


def encode(row: Row) -> bytes:
    """A tidy row as the one line the CSV holds, newline included."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(row.cells())
    return out.getvalue().encode()


def _readers() -> list[Callable[[str], Cell]]:
    # Most texts of a run are the same in every row: they are kept once.
    kinds: Mapping[str, Callable[[str], Cell]] = (
        dict.fromkeys(TEXTS, sys.intern)
        | dict.fromkeys(INTEGERS, int)
        | dict.fromkeys(REALS, float)
    )
    return [kinds[column] for column in COLUMNS]


_READERS = _readers()


def decode(line: bytes) -> Row:
    """One line of the CSV, without its newline, as a typed row.

    Raises:
        ValueError: not a line that this version of the tool wrote.
    """
    text = line.decode()
    if "\r" in text or "\0" in text:
        raise ValueError("control characters")
    cells = _split(text)
    if len(cells) != len(COLUMNS):
        raise ValueError(f"{len(cells)} cells, not {len(COLUMNS)}")
    row = Row.of_cells(
        tuple(read(cell) if cell else None for read, cell in zip(_READERS, cells, strict=True))
    )
    if row["schema"] != SCHEMA or not row["point"] or not row["trial"] or not row["attempt"]:
        raise ValueError("no schema, point, trial or attempt")
    return row


def _split(text: str) -> list[str]:
    if '"' not in text:
        return text.split(",")
    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise ValueError(str(error)) from error


@dataclass(frozen=True)
class Content:
    """What a results.csv holds. `torn` is a tail without newline, `bad` counts unreadable lines.

    `header`: "ours", "none" (an empty file), "other" (another version's or another program's) or
    "lost" (the first line is no header at all).
    """

    header: str
    rows: tuple[Row, ...]
    bad: int
    torn: bytes


def parse(data: bytes) -> Content:
    """Read a whole results.csv; never fails, says what is wrong instead."""
    end = data.find(b"\n")
    if end < 0:
        return Content("none", (), 0, data)
    first = data[:end]
    if first == HEADER.rstrip(b"\n"):
        header, begin = "ours", len(HEADER)
    elif first.lstrip(b'\xef\xbb\xbf"').startswith(b"schema"):
        return Content("other", (), 0, data[data.rfind(b"\n") + 1 :])
    else:
        header, begin = "lost", 0
    rows = []
    bad = 0
    while (end := data.find(b"\n", begin)) >= 0:
        try:
            rows.append(decode(data[begin:end]))
        except ValueError:
            bad += 1
        begin = end + 1
    return Content(header, tuple(rows), bad, data[begin:])
