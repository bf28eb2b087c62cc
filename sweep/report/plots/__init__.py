"""The plots of a report. matplotlib is imported in this package alone, and only when it is drawn.

throughput   over steps, over concurrency, for one user against the GPU, the gain at a glance
acceptance   acceptance length, accepted drafts by position, capacity
latency      time to first token, time between tokens
night        launches, trials, failures and waits over time
canvas       drawings -> files, and panels of the page
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweep.errors import UsageError

try:
    # With its compiled parts, which may be those of another Python.
    import matplotlib.figure  # noqa: F401
except ImportError as error:
    raise UsageError(
        f"plots need matplotlib, which cannot be imported here ({error}): "
        "pip install --force-reinstall matplotlib; `sweep recommend` and `sweep report "
        "--format csv` do without it"
    ) from error

from sweep.report.data import Results, Source
from sweep.report.plots.acceptance import acceptance, capacity
from sweep.report.plots.canvas import drawn
from sweep.report.plots.drawing import Missing, Plot
from sweep.report.plots.latency import itl, ttft
from sweep.report.plots.night import timeline
from sweep.report.plots.throughput import by_concurrency, by_steps, gain, interactivity
from sweep.report.summary import Group

__all__ = ["Missing", "Plot", "drawn", "group_plots", "source_plots", "ttft"]


def group_plots(
    group: Group, gpus: int | None, positions: Mapping[int, Sequence[float]]
) -> list[Plot | Missing]:
    """Every plot of one group, in the order of the page.

    `gpus` serve the model, None when that is not known; `positions`: see `acceptance`.
    """
    return [
        gain(group),
        by_steps(group),
        by_concurrency(group),
        interactivity(group, gpus),
        acceptance(group, positions),
        capacity(group),
        ttft(group),
        itl(group),
    ]


def source_plots(results: Results, source: Source) -> list[Plot | Missing]:
    """Every plot of one input as a whole."""
    return [timeline(results, source)]
