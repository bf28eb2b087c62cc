"""What speculation does: tokens per verify step, which drafts are accepted, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from sweep.report import palette
from sweep.report.plots import marks
from sweep.report.plots.drawing import Drawing, Missing, Plot
from sweep.report.summary import Group

MOST_LINES = 6
_LABEL = 0.42  # inches


def acceptance(group: Group, positions: Mapping[int, Sequence[float]]) -> Plot | Missing:
    """Acceptance length over steps, and the share of drafts accepted at each position.

    `positions`: by steps, the share of verify steps whose draft at position 1, 2, ... was accepted,
    0..1, counted by the server; what is missing follows from the lengths (see `_from_lengths`).
    """
    title = "Acceptance"
    lines = {
        load.label: [
            (cell.steps, cell.numbers["accept_length"])
            for cell in load.cells
            if cell.ok and cell.steps > 0 and "accept_length" in cell.numbers
        ]
        for load in group.loads
    }
    lines = {label: line for label, line in lines.items() if line}
    if not lines:
        return Missing(title, "no row has an acceptance length")
    shown = dict(list(lines.items())[:MOST_LINES])
    means = _means(lines)
    told = ", ".join(f"{steps} steps {length:.2f}" for steps, length in means.items())
    drawings = [Drawing(f"Acceptance length: {told}", partial(_draw_lengths, shown))]
    caption = (
        "Acceptance length: tokens of each verify step, the bonus token included, a line for each "
        "concurrency; dotted is where every draft is accepted."
    )
    counted = dict(positions) or _from_lengths(means)
    if counted:
        last = max(counted)
        told = ", ".join(f"{n}: {share:.0%}" for n, share in enumerate(counted[last], 1))
        drawings.append(Drawing(f"Accepted drafts by position at {last} steps: {told}",
                                partial(_draw_positions, counted)))  # fmt: skip
        caption += " By position: the share of verify steps that accept the draft there"
        caption += (
            ", as the server counted it." if positions else
            ", from how much each further step adds to the acceptance length."
        )  # fmt: skip
    return Plot("acceptance", title, caption, tuple(drawings))


def _means(lines: Mapping[str, Sequence[tuple[int, float]]]) -> dict[int, float]:
    found: dict[int, list[float]] = {}
    for line in lines.values():
        for steps, length in line:
            found.setdefault(steps, []).append(length)
    return {steps: fmean(lengths) for steps, lengths in sorted(found.items())}


def _from_lengths(means: Mapping[int, float]) -> dict[int, list[float]]:
    """Position shares of a chain of drafts: length(k) = 1 + the sum of the shares up to k.

    So the k-th share is length(k) - length(k - 1), as far as every number of steps was measured.
    """
    shares: list[float] = []
    before = 1.0
    for steps in range(1, max(means, default=0) + 1):
        if steps not in means:
            break
        shares.append(min(1.0, max(0.0, means[steps] - before)))
        before = means[steps]
    return {len(shares): shares} if shares else {}


def _draw_lengths(lines: Mapping[str, Sequence[tuple[int, float]]], ax: Axes) -> None:
    steps = sorted({k for line in lines.values() for k, _ in line})
    marks.steps_axis(ax, steps)
    ax.set_title("Acceptance length")
    ax.set_ylabel("tokens per verify step")
    ax.plot([0, max(steps)], [1, max(steps) + 1], ":", color=palette.MUTED, linewidth=1, zorder=1)
    highest = max(length for line in lines.values() for _, length in line)
    ax.set_ylim(1, max(2.0, highest * 1.12))
    low, high = ax.get_xlim()
    inches = marks.width_of(ax)
    ax.set_xlim(low, low + (high - low) * inches / (inches - _LABEL))
    for line in lines.values():
        ax.plot([k for k, _ in line], [y for _, y in line], color=palette.MUTED, linewidth=0.9,
                alpha=0.7, zorder=1)  # fmt: skip
        for k, length in line:
            marks.point(ax, k, length, k, size=5)
    ends = [(line[-1][1], label, palette.MUTED) for label, line in lines.items()
            if line[-1][0] == max(steps)]  # fmt: skip
    marks.end_labels(ax, max(steps), ends, gap=0.065)


def _draw_positions(shares: Mapping[int, Sequence[float]], ax: Axes) -> None:
    ax.set_title("Accepted drafts by position")
    ax.set_ylabel("share of verify steps")
    ax.set_xlabel("position of the draft token")
    ax.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_ylim(0, 1.02)
    ax.set_xlim(0.6, max(len(line) for line in shares.values()) + 0.6)
    for steps, line in sorted(shares.items()):
        places = list(range(1, len(line) + 1))
        color = palette.color(steps)
        ax.plot(places, list(line), color=color, linewidth=1, zorder=2)
        for place, share in zip(places, line, strict=True):
            marks.point(ax, place, share, steps, size=4.5)


def capacity(group: Group) -> Plot | Missing:
    """What the server admits over steps: requests at once, and KV tokens."""
    title = "Capacity"
    running = {c.steps: c.max_running_requests for c in group.capacities if c.max_running_requests}
    tokens = {c.steps: c.max_total_num_tokens for c in group.capacities if c.max_total_num_tokens}
    drawings = []
    for found, name, unit in (
        (running, "Requests admitted at once", "max_running_requests"),
        (tokens, "KV cache", "max_total_num_tokens (tokens)"),
    ):
        if found:
            told = ", ".join(f"{k} steps {value}" for k, value in found.items())
            drawings.append(Drawing(f"{name}: {told}", partial(_draw_capacity, found, name, unit)))
    if not drawings:
        return Missing(title, "no row says what the server admits")
    caption = "What each number of steps leaves for requests; labels are against the lowest steps."
    return Plot("capacity", title, caption, tuple(drawings))


def _draw_capacity(found: Mapping[int, int], name: str, unit: str, ax: Axes) -> None:
    steps = sorted(found)
    marks.steps_axis(ax, steps)
    marks.from_zero(ax, max(found.values()))
    ax.set_title(name)
    ax.set_ylabel(unit)
    ax.plot(
        steps, [found[k] for k in steps], color=palette.MUTED, linewidth=0.9, alpha=0.7, zorder=1
    )
    first = found[steps[0]]
    for k in steps:
        marks.point(ax, k, found[k], k, size=5)
        if k != steps[0] and len(steps) <= 12:
            ax.annotate(
                f"{found[k] / first - 1:+.0%}", (k, found[k]), xytext=(0, 6), ha="center",
                textcoords="offset points", fontsize=marks.LABEL_SIZE, color=palette.MUTED,
            )  # fmt: skip
