"""How long a request waits for its first token, and each token for the next."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from sweep.report import palette
from sweep.report.percentiles import FEW, requests_of
from sweep.report.plots import marks
from sweep.report.plots.drawing import Drawing, Missing, Plot
from sweep.report.plots.throughput import MOST_PANELS
from sweep.report.summary import Cell, Group, Load

_PERCENTILES = ("p50", "p90", "p99")
# Beyond this the largest would press the others against the axis.
_LOG_FROM = 12.0
_PALE = 0.3


def ttft(group: Group) -> Plot | Missing:
    """Time to first token."""
    return _percentiles(group, "ttft_ms", "Time to first token")


def itl(group: Group) -> Plot | Missing:
    """Inter-token latency: the gap before an arrival, per token."""
    return _percentiles(group, "itl_ms", "Time between tokens")


def _percentiles(group: Group, column: str, title: str) -> Plot | Missing:
    loads = [load for load in group.loads if any(_known(cell, column) for cell in load.cells)]
    if not loads:
        return Missing(title, f"no row has {column}_p50")
    drawings = [
        Drawing(_said(load, column, title), partial(_draw, load, column))
        for load in loads[:MOST_PANELS]
    ]
    caption = "The point is the median, the bars end at the 90th and the 99th percentile."
    if any(_few(cell, column) for load in loads for cell in load.cells):
        caption += f" Pale bars are of fewer than {FEW} requests a trial: of one or two of them."
    name = column.replace("_ms", "").replace("_", "-")
    return Plot(name, title, caption, tuple(drawings))


def _known(cell: Cell, column: str) -> bool:
    return cell.ok and f"{column}_p50" in cell.numbers


def _few(cell: Cell, column: str) -> bool:
    requests = requests_of(cell, f"{column}_p99")
    return requests is not None and requests < FEW


def _values(cell: Cell, column: str) -> list[float]:
    return [cell.numbers[f"{column}_{p}"] for p in _PERCENTILES if f"{column}_{p}" in cell.numbers]


def _said(load: Load, column: str, title: str) -> str:
    told = [
        f"{cell.steps} steps {'/'.join(map(marks.number, _values(cell, column)))}"
        for cell in load.cells
        if _known(cell, column)
    ]
    return f"{title} at {load.label}, median/90th/99th percentile in ms: {', '.join(told)}"


def _draw(load: Load, column: str, ax: Axes) -> None:
    cells = [cell for cell in load.cells if _known(cell, column)]
    values = [value for cell in cells for value in _values(cell, column)]
    ax.set_title(load.label)
    ax.set_ylabel("ms")
    marks.steps_axis(ax, [cell.steps for cell in cells])
    _scale(ax, values)
    for cell in cells:
        middle, *high = _values(cell, column)
        color = palette.color(cell.steps)
        alpha = _PALE if _few(cell, column) else 1.0
        if high:
            ax.plot([cell.steps] * 2, [middle, high[-1]], color=color, linewidth=1.2, zorder=2,
                    alpha=alpha)  # fmt: skip
        for value, size in zip(high, (5, 9), strict=False):
            ax.plot([cell.steps], [value], "_", color=color, markersize=size, zorder=3,
                    alpha=alpha)  # fmt: skip
        marks.point(ax, cell.steps, middle, cell.steps, hollow=cell.capped, size=5)


def _scale(ax: Axes, values: Sequence[float]) -> None:
    low, high = min(values), max(values)
    if low <= 0 or high / low < _LOG_FROM:
        marks.from_zero(ax, high)
        return
    ax.set_yscale("log")
    ax.set_ylim(low / 1.5, high * 1.5)
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
