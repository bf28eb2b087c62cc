"""How points, failures and labels look in every plot."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from sweep.report import palette
from sweep.report.summary import Cell

LABEL_SIZE = 7.5
_LABEL = 0.75
# More trials of a point than these are a smear; the interval says what they say.
MOST_DOTS = 20


def point(
    ax: Axes, x: float, y: float, steps: int, *, hollow: bool = False, size: float = 6
) -> None:
    """One measured point in the colour of its steps; hollow where a queue is measured as well."""
    color = palette.color(steps)
    ax.plot(
        [x], [y], palette.marker(steps), color=color, markersize=size, zorder=4,
        markerfacecolor=palette.SURFACE if hollow else color,
        markeredgecolor=color, markeredgewidth=1.4 if hollow else 0.6, clip_on=False,
    )  # fmt: skip


def spread(ax: Axes, x: float, cell: Cell) -> None:
    """The interval of a point's mean as a whisker, and its trials as faint dots."""
    color = palette.color(cell.steps)
    if cell.interval is not None:
        ax.plot([x, x], [cell.interval.low, cell.interval.high], color=color, linewidth=1, zorder=3)
    if 1 < cell.n <= MOST_DOTS:
        ax.plot([x] * cell.n, list(cell.values), ".", color=color, markersize=3, alpha=0.5,
                zorder=2)  # fmt: skip


def failure(ax: Axes, x: float, reason: str) -> None:
    """A cross at the foot of the plot, and above it why nothing was measured there."""
    foot = ax.get_xaxis_transform()
    ax.plot([x], [0.04], "x", color=palette.BAD, markersize=6, markeredgewidth=1.4, transform=foot,
            zorder=5)  # fmt: skip
    ax.text(x, 0.1, reason, color=palette.BAD, fontsize=LABEL_SIZE, rotation=90, ha="center",
            va="bottom", transform=foot)  # fmt: skip


def steps_axis(ax: Axes, steps: Sequence[int]) -> None:
    """Steps along x, each measured value a tick as far as there is room."""
    low, high = min(steps), max(steps)
    pad = max(0.4, (high - low) * 0.05)
    ax.set_xlim(low - pad, high + pad)
    ax.set_xlabel("speculative steps")
    if len(steps) <= 12:
        ax.xaxis.set_major_locator(FixedLocator(list(steps)))
    else:
        ax.xaxis.set_major_locator(MaxNLocator(10, integer=True))


def concurrency_axis(ax: Axes, concurrencies: Sequence[int]) -> None:
    """Concurrency along x, each doubling the same distance, with room for labels at its end."""
    ax.set_xscale("log", base=2)
    low, high = min(concurrencies), max(concurrencies)
    inches = width_of(ax)
    # What is to the right of the last value is a label of `_LABEL` inches.
    room = max(2**0.3, (high / low) ** (_LABEL / (inches - _LABEL)))
    ax.set_xlim(low / max(1.1, room**0.2), high * room)
    ax.xaxis.set_major_locator(FixedLocator(_apart(concurrencies, inches)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_xlabel("concurrency (requests in flight)")


def _apart(values: Sequence[int], inches: float) -> list[int]:
    """The values that are far enough from each other for a label each."""
    whole = max(values) / min(values)
    kept: list[int] = []
    for value in sorted(values):
        if not kept or value >= kept[-1] * max(1.05, whole ** (0.32 / inches)):
            kept.append(value)
    return kept


def from_zero(ax: Axes, highest: float) -> None:
    """y from 0, with room above for a label: a height is then as much as it looks."""
    ax.set_ylim(0, highest * 1.16 if highest > 0 else 1)
    ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.yaxis.set_major_formatter(FuncFormatter(_short))


def _short(value: float, _: object = None) -> str:
    """Four digits at most, which is what the margin has room for."""
    return f"{value / 1000:g}k" if abs(value) >= 10_000 else f"{value:g}"


def end_labels(ax: Axes, x: float, labels: Sequence[tuple[float, str, str]], gap: float) -> None:
    """Names beside the ends of lines: (y, text, colour) each, moved apart by at least `gap`.

    `gap` is a fraction of the height of the axes, whose limits must be set already.
    """
    to_axes = ax.transData.transform
    low, high = ax.transAxes.transform([(0, 0), (0, 1)])[:, 1]
    wanted = sorted(
        ((to_axes((x, y))[1] - low) / (high - low), text, color) for y, text, color in labels
    )
    places: list[float] = []
    for place, _, _ in wanted:
        places.append(max(place, places[-1] + gap) if places else place)
    over = max(0.0, places[-1] - 1.0) if places else 0.0
    for index in range(len(places) - 1, -1, -1):
        ceiling = places[index + 1] - gap if index + 1 < len(places) else places[index] - over
        places[index] = min(places[index], ceiling)
    for place, (_, text, color) in zip(places, wanted, strict=True):
        ax.annotate(
            text, xy=(x, place), xycoords=("data", "axes fraction"), xytext=(6, 0),
            textcoords="offset points", color=color, fontsize=LABEL_SIZE, va="center",
            annotation_clip=False,
        )  # fmt: skip


def free(ax: Axes, place: tuple[float, float], told: list[tuple[float, float]], text: str) -> bool:
    """Whether there is room for a short label beside those at `told` (in points); then it is one of
    them. The limits of the axes must be set already."""
    x, y = (value / ax.figure.dpi * 72 for value in ax.transData.transform(place))
    wide, high = 8 + 0.8 * LABEL_SIZE * len(text), 1.8 * LABEL_SIZE
    if any(abs(x - left) < wide and abs(y - low) < high for left, low in told):
        return False
    told.append((x, y))
    return True


def width_of(ax: Axes) -> float:
    """How wide the axes are, in inches."""
    return float(ax.bbox.width / ax.figure.dpi)


def number(value: float) -> str:
    """A number as a label: 3 significant digits, thousands in full."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
