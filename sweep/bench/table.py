"""The published table: one line per concurrency, printed live, and read from other scripts.

   C |  Agg tok/s |  Per-req tok/s |   Tokens |  Wall(s) |   Ok
-----------------------------------------------------------------
   1 |      182.7 |          185.7 |     4000 |     21.9 |    4
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence

from sweep.rows import MEASURED, Cell

HEADER = "   C |  Agg tok/s |  Per-req tok/s |   Tokens |  Wall(s) |   Ok"
RULE = "-" * 65
DEFINITIONS = """\
Agg tok/s      tokens of all ok requests / wall
Per-req tok/s  mean over ok requests of the request's own tokens / (its end - its sending)
Tokens         output tokens of ok requests, from the server's usage
Wall(s)        first sending to last end
Ok             requests whose answer came whole, with tokens"""

# Eight columns: whoever reads the published table, as `parse` does, takes them for something else.
LATENCY_HEADER = (
    "   C | TTFT p50 | TTFT p99 | TPOT p50 | TPOT p99 |  ITL p99 | Steady tok/s | Accept length"
)
LATENCY_RULE = "-" * len(LATENCY_HEADER)
LATENCY_DEFINITIONS = """\
TTFT           ms from the sending to the first text
TPOT           ms per token after the first: (end - first) / (tokens - 1)
ITL            ms before a token, as its chunk came: the gap divided among the chunk's tokens
Steady tok/s   tokens that came while C requests were in flight / that time
Accept length  tokens per verify step, the bonus token included; - without speculation or its
               counts (SGLang 0.5.20 and newer tell them, and --endpoint native)"""
_LATENCIES = (
    ("ttft_ms_p50", 8, 1), ("ttft_ms_p99", 8, 1), ("tpot_ms_p50", 8, 2), ("tpot_ms_p99", 8, 2),
    ("itl_ms_p99", 8, 2), ("steady_tok_s", 12, 1), ("accept_length", 13, 2),
)  # fmt: skip

# Titles of a table that is read, in lower case -> the column.
COLUMNS: Mapping[str, str] = {
    "agg tok/s": "agg_tok_s",
    "per-req tok/s": "per_req_tok_s",
    "tokens": "output_tokens",
    "wall(s)": "wall_s",
    "ok": "requests_ok",
}
# (column, characters, digits) of a line.
_PUBLISHED = (
    ("agg_tok_s", 10, 1), ("per_req_tok_s", 14, 1), ("output_tokens", 8, 0), ("wall_s", 8, 1),
    ("requests_ok", 4, 0),
)  # fmt: skip
COUNTS = ("requests", "requests_ok", "output_tokens")
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
NUMBER = re.compile(r"[+-]?\d[\d_,]*(?:\.\d+)?(?:[eE][+-]?\d+)?")


def warmup_lines(tokens: int, ok: bool) -> list[str]:
    """What stands under `Warming up...`, and the head of the table."""
    return [f"  Warmup: {tokens} tokens, ok={ok}", "", HEADER, RULE]


def row(concurrency: int, values: Mapping[str, Cell]) -> str:
    """One line of the table; `-` where a value is unknown."""
    return _row(concurrency, values, _PUBLISHED)


def latency_row(concurrency: int, values: Mapping[str, Cell]) -> str:
    """One line under `LATENCY_HEADER`."""
    return _row(concurrency, values, _LATENCIES)


def _row(
    concurrency: int, values: Mapping[str, Cell], columns: Sequence[tuple[str, int, int]]
) -> str:
    cells = [f"{concurrency:>4}"]
    for column, width, digits in columns:
        value = values.get(column)
        known = f"{value:.{digits}f}" if isinstance(value, int | float) else "-"
        cells.append(f"{known:>{width}}")
    return " | ".join(cells)


def parse(text: str) -> dict[int, dict[str, Cell]]:
    """The rows of every table in `text`: concurrency -> columns of `rows.MEASURED`.

    Looks for a head with `C` and `Agg tok/s` between bars. Order and further columns do not
    matter, nor do colours, carriage returns, rules, prefixes before the head, or Markdown's outer
    bars; a cell that is no number is unknown. `Ok` may be `4/4`. A later row of the same
    concurrency wins.
    """
    found: dict[int, dict[str, Cell]] = {}
    titles: list[str] = []
    for line in ANSI.sub("", text).replace("\r", "\n").split("\n"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        lowered = [cell.lower() for cell in cells]
        if "c" in lowered and "agg tok/s" in lowered:
            titles = lowered
        elif titles and len(cells) == len(titles):
            read = dict(zip(titles, cells, strict=True))
            if read["c"].isdigit():
                found[int(read["c"])] = _columns(read)
    return found


def _columns(read: Mapping[str, str]) -> dict[str, Cell]:
    values: dict[str, Cell] = {}
    for title, column in COLUMNS.items():
        text, _, total = read.get(title, "").partition("/")
        values[column] = _number(text, column)
        if column == "requests_ok" and total:
            values["requests"] = _number(total, "requests")
    return {column: value for column, value in values.items() if value is not None}


def _number(text: str, column: str) -> Cell:
    if not NUMBER.fullmatch(text.strip()):
        return None
    value = float(text.replace(",", "").replace("_", ""))
    return round(value) if column in COUNTS else value


def parse_object(text: str) -> dict[str, Cell] | None:
    """The measured columns of the last JSON object that begins a line and ends the text or a line.

    Keys that are no columns are left out. None when there is no such object; ValueError when a
    column holds something that is no number (accept_source: no text).
    """
    lines = text.splitlines()
    for index in reversed(range(len(lines))):
        if not lines[index].startswith("{"):
            continue
        for candidate in (lines[index], "\n".join(lines[index:])):
            try:
                loaded = json.loads(candidate)
            except ValueError:
                continue
            return {name: _cell(name, loaded[name]) for name in MEASURED if name in loaded}
    return None


def _cell(name: str, value: object) -> Cell:
    if value is None or (name == "accept_source" and isinstance(value, str)):
        return value
    countable = isinstance(value, int | float) and not isinstance(value, bool)
    if countable and name != "accept_source" and math.isfinite(number := float(str(value))):
        return round(number) if isinstance(value, int) else number
    raise ValueError(f"{name} is {value!r}")
