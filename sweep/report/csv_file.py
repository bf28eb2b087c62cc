"""A CSV file of anybody's as a frame of what stands in it; `data` says what it means."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from sweep.errors import UsageError


def read_csv(path: Path) -> pd.DataFrame:
    """Every cell under its name, a column as text where it is not all numbers.

    Raises:
        UsageError: it cannot be read, is empty, or its rows have cells without a name.
    """
    try:
        # A stray word must cost a cell, not the file.
        table = pd.read_csv(
            path, skipinitialspace=True, low_memory=False, encoding_errors="replace"
        )
    except pd.errors.EmptyDataError as error:
        raise UsageError(f"{path} is empty: not even a header") from error
    except (OSError, pd.errors.ParserError) as error:
        raise UsageError(f"{path} cannot be read: {str(error).strip()}") from error
    table = _in_place(path, table).rename(columns=str.strip)
    return table.loc[:, ~table.columns.duplicated()]


def _in_place(path: Path, table: pd.DataFrame) -> pd.DataFrame:
    """Of rows that are longer than the header, such as those that end in a comma, pandas makes the
    first cells an index and moves the others."""
    if isinstance(table.index, pd.RangeIndex):
        return table
    names = table.columns
    whole = table.reset_index()
    if whole.iloc[:, len(names) :].notna().any(axis=None):
        raise UsageError(
            f"{path} cannot be read: its rows have more cells than its header has names"
        )
    return whole.iloc[:, : len(names)].set_axis(names, axis=1)
