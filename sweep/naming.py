"""Names people write: which are fit for an id, and which one they may have meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

# Read by pandas as missing, as a number or as a truth value when a whole column says so.
_NOT_NAMES = frozenset({"na", "nan", "null", "none", "inf", "infinity", "true", "false"})


def name_problem(name: str) -> str | None:
    """Why a name cannot be an id in file names and CSV cells, and what to write; None if it can."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]{0,63}", name):
        return (
            "is no name (a letter, then at most 63 letters, digits, dots, dashes, underscores); "
            "write another"
        )
    if name.lower() in _NOT_NAMES:
        return "would be read as missing or as a value in results.csv; write another name"
    return None


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """`did you mean 'x'?`, or the names there are."""
    known = list(names)
    near = difflib.get_close_matches(given, known, 1)
    return f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(known)}"
