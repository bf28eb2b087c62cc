"""Throughput: over steps, over concurrency, one user against the GPU, the gain at a glance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from sweep.report import palette
from sweep.report.plots import marks
from sweep.report.plots.drawing import Drawing, Missing, Plot
from sweep.report.summary import Cell, Group, Load, percent

# More panels than this and nobody looks at any of them.
MOST_PANELS = 12
_LEGEND = 0.8  # inches
METRIC_NAMES = {"agg_tok_s": "tok/s, all requests", "per_req_tok_s": "tok/s of one request"}


def by_steps(group: Group) -> Plot | Missing:
    """Tokens per second over steps, a panel for each concurrency, from zero."""
    title = "Throughput over steps"
    loads = [load for load in group.loads if any(cell.ok for cell in load.cells)]
    if not loads:
        return Missing(title, "no trial has been measured yet")
    drawings = [
        Drawing(_said_by_steps(load), partial(_draw_by_steps, load)) for load in loads[:MOST_PANELS]
    ]
    noise = group.noise
    whiskers = "are 95 % intervals" if noise.measured else f"assume {noise.sigma:.0%} noise"
    caption = (
        "Each panel is one concurrency, from zero. The label marks the recommended steps. Whiskers "
        f"{whiskers}, faint dots are single trials, hollow points ran more requests than the "
        "server admits, crosses failed."
    )
    if len(loads) > MOST_PANELS:
        caption += f" The first {MOST_PANELS} of {len(loads)} concurrencies are drawn."
    return Plot("throughput-by-steps", title, caption, tuple(drawings))


def _said_by_steps(load: Load) -> str:
    told = [f"{cell.steps} steps {marks.number(cell.mean)}" for cell in load.cells if cell.mean]
    return f"{load.label}, {METRIC_NAMES[load.metric]}: {', '.join(told)}"


def _draw_by_steps(load: Load, ax: Axes) -> None:
    good = [(cell, cell.mean) for cell in load.cells if cell.mean is not None]
    ax.set_title(load.label)
    ax.set_ylabel(METRIC_NAMES[load.metric])
    marks.steps_axis(ax, [cell.steps for cell in load.cells])
    marks.from_zero(ax, max(_top(cell) for cell, _ in good))
    ax.plot([cell.steps for cell, _ in good], [mean for _, mean in good], color=palette.MUTED,
            linewidth=0.9, alpha=0.7, zorder=1)  # fmt: skip
    for cell in load.cells:
        if cell.mean is not None:
            marks.spread(ax, cell.steps, cell)
            marks.point(ax, cell.steps, cell.mean, cell.steps, hollow=cell.capped)
        elif cell.failure:
            marks.failure(ax, cell.steps, cell.failure)
    best = load.cell(load.best)
    if best is not None and best.mean is not None:
        ax.annotate(
            marks.number(best.mean), (best.steps, _top(best)), xytext=(0, 6), ha="center",
            textcoords="offset points", fontweight="bold", color=palette.color(best.steps),
        )  # fmt: skip


def _top(cell: Cell) -> float:
    """The highest of what is drawn of a point."""
    dots = cell.values if cell.n <= marks.MOST_DOTS else ()
    return max([cell.mean or 0.0, *dots, cell.interval.high if cell.interval else 0.0])


def by_concurrency(group: Group) -> Plot | Missing:
    """Aggregate tokens per second over concurrency, a line for each number of steps."""
    title = "Throughput over concurrency"
    lines = {steps: line for steps in group.steps if (line := _line(group, steps, "agg_tok_s"))}
    if not any(len(line) > 1 for line in lines.values()):
        return Missing(title, "no steps value was measured at more than one concurrency")
    limits = {one.steps: one.max_running_requests for one in group.capacities}
    caption = "One line for each number of steps."
    if any(limits.values()):
        caption += (
            " The bar across a line is where the server stops admitting requests; beyond it the "
            "points are hollow."
        )
    told = [
        f"{steps} steps from {marks.number(line[0][1])} at C={line[0][0]:g} to "
        f"{marks.number(line[-1][1])} at C={line[-1][0]:g}"
        for steps, line in lines.items()
    ]
    drawing = Drawing(
        f"Aggregate tok/s: {', '.join(told)}",
        partial(_draw_by_concurrency, lines, limits),
        size=(7.6, 3.7),
    ).also((4.0, 3.4))
    return Plot("throughput-by-concurrency", title, caption, (drawing,))


Line = list[tuple[float, float, bool]]


def _line(group: Group, steps: int, column: str) -> Line:
    """(concurrency, value, capped) of one number of steps, by concurrency."""
    cells = [cell for load in group.loads if (cell := load.cell(steps)) is not None]
    return sorted(
        (float(cell.concurrency), cell.numbers[column], cell.capped)
        for cell in cells
        if cell.ok and cell.concurrency and column in cell.numbers
    )


def _draw_by_concurrency(lines: dict[int, Line], limits: dict[int, int | None], ax: Axes) -> None:
    concurrencies = sorted({round(place) for line in lines.values() for place, _, _ in line})
    marks.concurrency_axis(ax, concurrencies)
    marks.from_zero(ax, max(value for line in lines.values() for _, value, _ in line))
    ax.set_ylabel(METRIC_NAMES["agg_tok_s"])
    for steps, line in lines.items():
        color = palette.color(steps)
        ax.plot([x for x, _, _ in line], [y for _, y, _ in line], color=color, zorder=2)
        for place, value, capped in line:
            marks.point(ax, place, value, steps, hollow=capped, size=5)
        limit = limits.get(steps)
        if limit and (value_there := _between(line, limit)) is not None:
            ax.plot([limit], [value_there], "|", color=color, markersize=13, markeredgewidth=2,
                    zorder=5)  # fmt: skip
    ends = [(line[-1][0], line[-1][1], steps) for steps, line in lines.items()]
    for end in sorted({place for place, _, _ in ends}):
        labels = [(y, _steps_name(steps), palette.color(steps)) for x, y, steps in ends if x == end]
        marks.end_labels(ax, end, labels, gap=0.05)


def _steps_name(steps: int) -> str:
    return "off" if steps == 0 else f"{steps} steps" if steps > 1 else "1 step"


def _between(line: Line, place: float) -> float | None:
    """The value of a line between its points, on the scale of the axis."""
    for (left, low, _), (right, high, _) in pairwise(line):
        if left <= place <= right:
            return low + (high - low) * math.log(place / left) / math.log(right / left)
    return None


def interactivity(group: Group, gpus: int | None) -> Plot | Missing:
    """What one user gets against what a GPU gives, with the Pareto front."""
    title = "One user against the whole server"
    points = [
        (cell.numbers["agg_tok_s"] / (gpus or 1), cell.numbers["per_req_tok_s"], cell)
        for load in group.loads
        for cell in load.cells
        if cell.ok and {"agg_tok_s", "per_req_tok_s"} <= cell.numbers.keys()
    ]
    if len(points) < 2:
        return Missing(title, "it needs aggregate and per-request tok/s of at least two points")
    front = pareto([(x, y) for x, y, _ in points])
    best = [cell for x, y, cell in points if (x, y) in front]
    told = ", ".join(f"{cell.steps} steps at C={cell.concurrency}" for cell in best)
    caption = (
        "Up is faster for each user, right is more from the same GPUs. No point is better in both "
        "than one on the line (the Pareto front); numbers are concurrencies."
    )
    drawing = Drawing(
        f"On the Pareto front: {told}",
        partial(_draw_interactivity, points, front, gpus),
        size=(7.6, 3.7),
        margins=(0.62, 0.3, 0.46, 0.12),
    ).also((4.0, 3.4))
    return Plot("interactivity", title, caption, (drawing,))


def pareto(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other exceeds in both, by rising x; more is better in both."""
    front: list[tuple[float, float]] = []
    for x, y in sorted(set(points), reverse=True):
        if not front or y > front[-1][1]:
            front.append((x, y))
    return front[::-1]


def _draw_interactivity(
    points: Sequence[tuple[float, float, Cell]],
    front: Sequence[tuple[float, float]],
    gpus: int | None,
    ax: Axes,
) -> None:
    marks.from_zero(ax, max(y for _, y, _ in points))
    # The legend stands to the right of every point.
    room = marks.width_of(ax)
    ax.set_xlim(0, max(x for x, _, _ in points) * 1.03 * room / (room - _LEGEND))
    ax.set_xlabel("tok/s per GPU" if gpus else "tok/s of the whole server")
    ax.set_ylabel("tok/s of one user")
    ax.plot(
        [x for x, _ in front], [y for _, y in front], color=palette.MUTED, linewidth=1, zorder=1
    )
    for x, y, cell in points:
        marks.point(ax, x, y, cell.steps, hollow=cell.capped, size=5)
    told: list[tuple[float, float]] = []
    for x, y, cell in points:
        text = str(cell.concurrency)
        if (x, y) in front and marks.free(ax, (x, y), told, text):
            ax.annotate(
                text, (x, y), xytext=(5, 4), textcoords="offset points",
                color=palette.color(cell.steps), fontsize=marks.LABEL_SIZE,
            )  # fmt: skip
    steps = sorted({cell.steps for _, _, cell in points})
    for number in steps:
        ax.plot([], [], palette.marker(number), color=palette.color(number), markersize=5,
                label=_steps_name(number))  # fmt: skip
    ax.legend(frameon=False, fontsize=marks.LABEL_SIZE, loc="center right", borderaxespad=0,
              handletextpad=0.1, labelcolor=palette.INK)  # fmt: skip


def gain(group: Group) -> Plot | Missing:
    """The change against the baseline for every point, as a map of steps and concurrency."""
    title = f"Gain over {_steps_name(group.baseline) if group.baseline else 'no speculation'}"
    known = [cell for load in group.loads for cell in load.cells if cell.change is not None]
    if group.baseline is None or not known:
        return Missing("Gain at a glance", "nothing was measured beside the baseline")
    loads = group.loads[: MOST_PANELS * 2]
    told = []
    for load in loads:
        changes = [f"{c.steps} steps {c.change.text()}" for c in load.cells if c.change]
        told.append(f"{load.label}: {', '.join(changes)}")
    others = {load.baseline for load in loads} - {None, group.baseline}
    caption = "Blue is faster, orange slower; * ran more requests than the server admits."
    if others:
        caption += " Where the baseline itself was not measured, against the lowest steps there."
    drawing = _gain_drawing(". ".join(told), group, loads)
    return Plot("gain", title, caption, (drawing,))


_CELL = (0.66, 0.28)
_NARROW = 4.0


def _gain_drawing(alt: str, group: Group, loads: Sequence[Load]) -> Drawing:
    """Steps down and concurrencies across; turned on a phone, where that fits better there."""

    def sized(across: int, down: int, *, turned: bool) -> Drawing:
        width = min(7.6, max(2.4, 0.74 + _CELL[0] * across))
        size = (width, max(1.5, 0.6 + _CELL[1] * down))
        return Drawing(alt, partial(_draw_gain, group, loads, turned), size=size,
                       margins=(0.62, 0.12, 0.46, 0.06))  # fmt: skip

    wide = sized(len(loads), len(group.steps), turned=False)
    if wide.size[0] <= _NARROW:
        return wide
    turned = len(loads) > len(group.steps)
    narrow = sized(len(group.steps), len(loads), turned=True) if turned else wide
    size = (min(_NARROW, narrow.size[0]), narrow.size[1])
    return replace(wide, narrow=replace(narrow, size=size))


def _draw_gain(group: Group, loads: Sequence[Load], turned: bool, ax: Axes) -> None:
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    sides = ((len(loads), [load.load for load in loads], "concurrency"),
             (len(group.steps), [str(k) for k in group.steps], "speculative steps"))  # fmt: skip
    for axis, (count, names, label) in zip("yx" if turned else "xy", sides, strict=True):
        ax.set(**{f"{axis}lim": (-0.5, count - 0.5), f"{axis}label": label})
        (ax.set_xticks if axis == "x" else ax.set_yticks)(range(count), names)
    # Shades are of the ratio's logarithm: twice as fast is as strong as half as fast.
    strongest = max(
        [0.1, *(abs(_shade(cell)) for load in loads for cell in load.cells if cell.change)]
    )
    room = marks.width_of(ax) / sides[turned][0]
    for column, load in enumerate(loads):
        for row, steps in enumerate(group.steps):
            cell = load.cell(steps)
            if cell is not None and (cell.ok or cell.failure):
                place = (row, column) if turned else (column, row)
                _draw_cell(ax, place, load, cell, (strongest, room))


def _shade(cell: Cell) -> float:
    return math.log(max(1 + cell.change.change, 1e-3)) if cell.change else 0.0


def _draw_cell(
    ax: Axes, place: tuple[int, int], load: Load, cell: Cell, scale: tuple[float, float]
) -> None:
    """`scale`: the strongest shade of all, and how many inches a cell is wide."""
    strongest, room = scale
    shade = _shade(cell)
    pole = palette.GAIN if shade >= 0 else palette.LOSS
    column, row = place
    best = cell.ok and cell.steps == load.best
    if cell.ok:
        ax.add_patch(
            Rectangle((column - 0.47, row - 0.45), 0.94, 0.9, facecolor=pole, linewidth=0,
                      alpha=0.04 + 0.56 * abs(shade) / strongest)
        )  # fmt: skip
    if best:
        ax.add_patch(
            Rectangle((column - 0.47, row - 0.45), 0.94, 0.9, fill=False, linewidth=1.4,
                      edgecolor=palette.INK)
        )  # fmt: skip
    text = _gain_text(cell, room)
    ax.text(
        column, row, text, ha="center", va="center",
        color=palette.INK if cell.ok else palette.BAD, fontweight="bold" if best else "normal",
        fontsize=marks.LABEL_SIZE if cell.ok or text == "×" else marks.LABEL_SIZE - 1,
    )  # fmt: skip


def _gain_text(cell: Cell, room: float) -> str:
    """As much as fits into so many inches."""
    if not cell.ok:
        return f"× {cell.failure}" if room > 1.1 else "×"
    text = percent(cell.change.change) if cell.change else "0"
    if room < 0.55:
        text = text.removesuffix(" %")
    mark = "*" if cell.capped else ""
    return f"{text}{mark}" if room > 0.32 else ""
