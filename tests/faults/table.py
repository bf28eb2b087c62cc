"""What a campaign found, as the table that is printed in the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from tests.faults.catalogue import FAULTS

COLUMNS = ("fault", "times", "lost", "wrong", "twice", "restored", "seconds to recover")
Found = Mapping[str, Any]


def table(outcomes: Sequence[Found]) -> Iterator[str]:
    """One line per fault, in the order of the catalogue, and their sum.

    Seconds: what it took longer than an undisturbed sweep until every row was there and production
    served, the fault's own time and all resumes included; the median and the longest.
    """
    found = {str(one["fault"]) for one in outcomes}
    names = [fault.name for fault in FAULTS if fault.name in found]
    groups = {name: [one for one in outcomes if one["fault"] == name] for name in names}
    lines = [COLUMNS, *(_line(name, group) for name, group in groups.items())]
    lines.append(_line("all", outcomes))
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    for first, *others in lines:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells])


def _line(name: str, group: Sequence[Found]) -> tuple[str, ...]:
    sums = (str(sum(int(one[column]) for one in group)) for column in ("lost", "wrong", "twice"))
    restored = sum(bool(one["restored"]) for one in group)
    seconds = [float(one["seconds"]) for one in group]
    return (
        name,
        str(len(group)),
        *sums,
        f"{restored}/{len(group)}",
        f"{median(seconds):.0f} (at most {max(seconds):.0f})" if seconds else "",
    )
