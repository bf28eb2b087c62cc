"""Labels of the plots, and what they are of."""

from __future__ import annotations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sweep.report.plots import marks, ttft
from sweep.report.plots.drawing import Plot
from tests.report.made import group_of, table


@pytest.mark.parametrize("text", ["4", "16", "1024"])
def test_labels_never_lie_on_each_other(text: str) -> None:
    """Two of them at every distance: either there is room for both, or one is left out."""
    figure = Figure(figsize=(4, 3))
    FigureCanvasAgg(figure)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, 288), ylim=(0, 216))  # a point each, as labels are measured
    drawn = 0
    for across in range(0, 48, 3):
        for up in range(-18, 19, 3):
            told: list[tuple[float, float]] = []
            places = [(100, 100), (100 + across, 100 + up)]
            shown = [
                ax.annotate(text, place, (5, 4), textcoords="offset points",
                            fontsize=marks.LABEL_SIZE)
                for place in places
                if marks.free(ax, place, told, text)
            ]  # fmt: skip
            boxes = [one.get_window_extent() for one in shown]
            assert len(boxes) < 2 or not boxes[0].overlaps(boxes[1]), (across, up)
            drawn += len(boxes) == 2
    assert drawn > 50


@pytest.mark.parametrize(("requests", "pale"), [(4, True), (19, True), (20, False), (None, False)])
def test_a_percentile_of_few_requests_is_pale_and_said_to_be(
    requests: int | None, pale: bool
) -> None:
    frame = table({0: 100, 1: 150}, loads=(1,), requests_ok=requests, ttft_ms_p50=10,
                  ttft_ms_p90=12, ttft_ms_p99=15)  # fmt: skip
    plot = ttft(group_of(frame))
    assert isinstance(plot, Plot)
    assert ("Pale bars are of fewer than 20 requests" in plot.caption) is pale
    ax = Figure().add_subplot()
    plot.drawings[0].draw(ax)
    assert any(line.get_alpha() == 0.3 for line in ax.lines) is pale
