"""How much stands behind a percentile. Pure."""

from __future__ import annotations

from sweep.report.summary import Cell

# A plot shows a percentile of fewer requests than this faintly: it is one request, or two.
FEW = 20
# One value of each request; what is measured per token has hundreds of them.
_OF_REQUESTS = ("ttft_", "tpot_", "e2e_")


def requests_of(cell: Cell, column: str) -> int | None:
    """How many requests of one trial a column is made of; None: of tokens, or not known."""
    count = cell.numbers.get("requests_ok")
    return round(count) if count and column.startswith(_OF_REQUESTS) else None


def made_of_few(cell: Cell, column: str) -> int | None:
    """The requests of a percentile that less than one of them exceeds: a p99 of under 100."""
    _, _, percentile = column.rpartition("_p")
    count = requests_of(cell, column)
    if count is None or not percentile.isdigit():
        return None
    return count if count * (100 - int(percentile)) < 100 else None
