"""The answer as a tidy table: one row per point, for notebooks, spreadsheets and papers.

Columns: source, group, steps, concurrency (as asked for), metric, n, tok_s, tok_s_low, tok_s_high
(95 %), change, change_low, change_high and verdict (against the baseline; changes are fractions),
best (of its load), capped, failure, max_running_requests, max_total_num_tokens, then the mean of
every measured column of results.csv that any point has.

verdict: `gain` and `loss` are beyond the noise, a `tie` is not; with ` (assumed noise)` behind it
nothing was measured twice, and it would be so if trials differed as much as is assumed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pandas as pd

from sweep.errors import UsageError
from sweep.report.markdown import plain
from sweep.report.summary import Analysis, Cell, Group, Load
from sweep.rows import MEASURED

FORMATS = ("csv", "json", "parquet", "md", "latex")

# What a page has room for: the whole table goes into files that programs read.
_SHORT = ("steps", "concurrency", "n", "tok_s", "tok_s_low", "tok_s_high", "change", "verdict",
          "best", "capped", "failure")  # fmt: skip
_WHOLE = ("steps", "n")


def tidy_table(analysis: Analysis) -> pd.DataFrame:
    """One row per point of every group, in order; see the module's docstring."""
    rows = [row for group in analysis.groups for row in _rows(group)]
    columns = [*dict.fromkeys(key for row in rows for key in row)] or ["source", "group"]
    table = pd.DataFrame.from_records(rows, columns=columns)
    whole = [name for name in ("max_running_requests", "max_total_num_tokens") if name in table]
    return table.astype(dict.fromkeys(whole, "Int64"))


def _rows(group: Group) -> Iterator[dict[str, Any]]:
    for load in group.loads:
        for cell in load.cells:
            yield _row(group, load, cell)


def _row(group: Group, load: Load, cell: Cell) -> dict[str, Any]:
    capacity = group.capacity(cell.steps)
    change = cell.change
    row: dict[str, Any] = {
        "source": group.source,
        "group": group.label,
        "steps": cell.steps,
        "concurrency": load.load,
        "metric": load.metric,
        "n": cell.n,
        "tok_s": cell.mean,
        "tok_s_low": cell.interval.low if cell.interval else None,
        "tok_s_high": cell.interval.high if cell.interval else None,
        "change": change.change if change else None,
        "change_low": change.interval.low if change else None,
        "change_high": change.interval.high if change else None,
        "verdict": change.said if change else None,
        "best": cell.steps == load.best,
        "capped": cell.capped,
        "failure": cell.failure,
        "max_running_requests": capacity.max_running_requests if capacity else None,
        "max_total_num_tokens": capacity.max_total_num_tokens if capacity else None,
    }
    return row | {name: value for name, value in cell.numbers.items() if name in MEASURED}


def export(analysis: Analysis, form: str) -> bytes:
    """The tidy table in one of `FORMATS`; md and latex hold the columns that fit a page.

    Raises:
        UsageError: parquet, and pyarrow is not installed.
    """
    table = tidy_table(analysis)
    if form == "parquet":
        return _parquet(table)
    if form == "csv":
        return table.to_csv(index=False, lineterminator="\n").encode()
    if form == "json":
        records = json.loads(table.to_json(orient="records", double_precision=15))
        return (json.dumps(records, indent=1, ensure_ascii=False) + "\n").encode()
    columns, rows = _page(table, analysis)
    text = {"md": _markdown, "latex": _latex}[form](columns, rows)
    return text.encode()


def _parquet(table: pd.DataFrame) -> bytes:
    out = io.BytesIO()
    try:
        table.to_parquet(out, index=False)
    except ImportError as error:
        raise UsageError(
            "parquet needs pyarrow, which is not installed: pip install 'specsweep[parquet]', or "
            "take --format csv"
        ) from error
    return out.getvalue()


def _page(table: pd.DataFrame, analysis: Analysis) -> tuple[list[str], list[list[str]]]:
    """The short table as text: names, and rows of cells."""
    names = [name for name in _SHORT if name in table]
    if len(analysis.groups) > 1:
        names = ["group", *names]
    rows = [
        [_text(name, value) for name, value in zip(names, row, strict=True)]
        for row in table[names].itertuples(index=False)
    ]
    return [name.replace("tok_s", "tok/s").replace("_", " ") for name in names], rows


def _text(name: str, value: Any) -> str:
    if value is None or pd.isna(value):
        return ""
    if isinstance(value, bool) or name in ("best", "capped"):
        return "yes" if value else ""
    if name == "change":
        return f"{value:+.1%}"
    return f"{value:.1f}" if isinstance(value, float) and name not in _WHOLE else str(value)


def _markdown(columns: list[str], rows: list[list[str]]) -> str:
    cells = [[plain(cell) for cell in line] for line in (columns, *rows)]
    lines = [cells[0], ["---"] * len(columns), *cells[1:]]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "]": "{]}",
}  # fmt: skip


def _latex(columns: list[str], rows: list[list[str]]) -> str:
    """A tabular that needs no package."""
    lines = [
        f"\\begin{{tabular}}{{{'r' * len(columns)}}}",
        "\\hline",
        _latex_row(columns),
        "\\hline",
    ]
    lines += [_latex_row(row) for row in rows]
    return "\n".join([*lines, "\\hline", "\\end{tabular}"]) + "\n"


def _latex_row(cells: list[str]) -> str:
    lines = [" ".join(cell.split()) for cell in cells]
    return " & ".join("".join(_LATEX.get(c, c) for c in line) for line in lines) + r" \\"
