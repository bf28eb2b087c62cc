"""The timeline of a night: launches, trials, failures, waits, and how warm the GPUs were."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import (
    HOURLY,
    MINUTELY,
    MONTHLY,
    SECONDLY,
    AutoDateLocator,
    ConciseDateFormatter,
)

from sweep.report import palette
from sweep.report.data import STEPS, Results, Source
from sweep.report.plots import marks
from sweep.report.plots.drawing import Drawing, Missing, Plot

MOST_LAUNCHES = 40
MOST_DEGREES = 1000
EYE = 500
_MARGINS = (0.8, 0.2, 0.46, 0.12)
# What a launch does before its first trial and after its last, by the names of its stages.
_STOPPING = ("stop",)
_MEASURING = ("warm up", "measure")


@dataclass(frozen=True)
class Span:
    """A stretch of time in one line. `kind`: start, measure, stop or away (nobody worked on it)."""

    line: str
    kind: str
    began: datetime
    ended: datetime


@dataclass(frozen=True)
class Night:
    """What there is to draw: lines from the top, `steps` of each, crosses as (line, time, why)."""

    lines: tuple[str, ...]
    labels: tuple[str, ...]
    steps: tuple[int, ...]
    spans: tuple[Span, ...]
    failures: tuple[tuple[str, datetime, str], ...]
    left_out: int


def timeline(results: Results, source: Source) -> Plot | Missing:
    """When each launch started, measured and stopped, and what failed."""
    title = "Timeline"
    attempts = results.attempts[results.attempts["source"] == source.id]
    events = results.events[results.events["source"] == source.id]
    night = _night(attempts, events)
    if not night.spans:
        return Missing(title, "no row says when it was measured")
    height = 0.9 + 0.22 * len(night.lines)
    told = (
        f"{len(night.lines)} launches from {night.spans[0].began:%Y-%m-%d %H:%M} to "
        f"{max(span.ended for span in night.spans):%Y-%m-%d %H:%M} UTC, "
        f"{len(night.failures)} failures"
    )
    timeline = Drawing(told, partial(_draw, night), size=(8.6, height), margins=_MARGINS)
    drawings = [timeline.also((4.0, height))]
    warmth = _warmth(attempts)
    caption = (
        "A line for each launch: pale while it starts and stops, in the colour of its steps while "
        "it is measured; crosses failed."
    )
    if any(span.kind == "away" for span in night.spans):
        caption += " Hatched: nobody worked on the run."
    if night.left_out:
        caption += f" The last {MOST_LAUNCHES} launches; {night.left_out} before them are left out."
    if warmth:
        hottest = max(degrees for _, degrees, _ in warmth)
        drawings.append(
            Drawing(f"Hottest GPU, at most {hottest:.0f} °C", partial(_draw_warmth, night, warmth),
                    size=(8.6, 1.5), margins=_MARGINS).also((4.0, 1.5))
        )  # fmt: skip
    else:
        caption += " The GPUs' temperature was not recorded."
    return Plot("timeline", title, caption, tuple(drawings))


def _night(attempts: pd.DataFrame, events: pd.DataFrame) -> Night:
    spans = _joined(list(_event_spans(events)) or list(_trial_spans(attempts)))
    order = list(dict.fromkeys(span.line for span in spans if span.kind != "away"))
    lines = order[-MOST_LAUNCHES:]
    steps = _steps_of(attempts)
    shown = tuple(span for span in spans if span.line in lines or span.kind == "away")
    labels = tuple(f"{line} · {steps[line]}" if line in steps else line for line in lines)
    return Night(
        tuple(lines), labels, tuple(steps.get(line, 0) for line in lines), shown,
        tuple(_failures(attempts, lines)), len(order) - len(lines),
    )  # fmt: skip


def _joined(spans: Sequence[Span]) -> list[Span]:
    """The same with less than an eye could tell apart made one: what is drawn stays bounded."""
    if not spans:
        return []
    whole = max(span.ended for span in spans) - min(span.began for span in spans)
    kept = [spans[0]]
    for span in spans[1:]:
        last = kept[-1]
        near = span.began - last.ended < whole / EYE and span.ended - last.began < whole / EYE
        if near and (span.line, span.kind) == (last.line, last.kind):
            kept[-1] = replace(last, ended=max(last.ended, span.ended))
        else:
            kept.append(span)
    return kept


def _steps_of(attempts: pd.DataFrame) -> dict[str, int]:
    known = attempts[["launch", STEPS]].dropna().drop_duplicates("launch")
    rows: Iterable[Any] = known.itertuples(index=False)
    return {str(launch): int(steps) for launch, steps in rows}


def _event_spans(events: pd.DataFrame) -> Iterator[Span]:
    """From one event that changes what is done to the next; between two sessions is `away`."""
    kept = events[events["kind"].isin(["begin", "stage", "end"])]
    told: Iterable[Any] = kept.itertuples(index=False)
    before: Any = None
    for event in told:
        if before is not None:
            kind = _kind(before, event)
            line = "" if kind == "away" else before.launch
            if kind == "away" or (kind and isinstance(line, str)):
                yield Span(line, kind, before.at.to_pydatetime(), event.at.to_pydatetime())
        before = event


def _kind(event: Any, following: Any) -> str:
    if following.kind == "begin":
        return "away"
    if event.kind != "stage" or not isinstance(event.launch, str):
        return ""
    if event.stage in _STOPPING:
        return "stop"
    return "measure" if event.stage in _MEASURING else "start"


def _trial_spans(attempts: pd.DataFrame) -> Iterator[Span]:
    """A table has no events: its trials alone, on the line of their launch or their steps."""
    timed = attempts.dropna(subset=["started_at", "finished_at"]).sort_values("started_at")
    lines = timed["launch"].fillna("steps " + timed[STEPS].astype("string"))
    rows: Iterable[Any] = zip(lines, timed["started_at"], timed["finished_at"], strict=True)
    for line, began, ended in rows:
        yield Span(str(line), "measure", began.to_pydatetime(), ended.to_pydatetime())


def _failures(attempts: pd.DataFrame, lines: Sequence[str]) -> Iterator[tuple[str, datetime, str]]:
    """One cross for each kind of failure of a launch: all its trials fail at the same moment."""
    failed = attempts[(attempts["status"] != "ok") & attempts["launch"].isin(lines)]
    failed = failed.dropna(subset=["finished_at"]).drop_duplicates(["launch", "failure"])
    rows: Iterable[Any] = failed[["launch", "finished_at", "failure"]].itertuples(index=False)
    for launch, at, failure in rows:
        yield str(launch), at.to_pydatetime(), str(failure)


def _warmth(attempts: pd.DataFrame) -> list[tuple[datetime, float, int]]:
    """(when, degrees, steps) of the last trials that know."""
    columns = ["finished_at", "gpu_temp_c_max", STEPS]
    known = attempts.dropna(subset=columns).sort_values("finished_at").tail(MOST_DEGREES)
    rows: Iterable[Any] = known[columns].itertuples(index=False)
    return [(at.to_pydatetime(), float(degrees), int(steps)) for at, degrees, steps in rows]


def _days(at: datetime) -> float:
    """A moment as matplotlib counts: days since 1970."""
    return at.timestamp() / 86400


def _time_axis(night: Night, ax: Axes) -> None:
    began = min(span.began for span in night.spans)
    ended = max(span.ended for span in night.spans)
    low, high = _days(began), _days(ended)
    pad = (high - low) * 0.02 or 1e-4
    ax.set_xlim(low - pad, high + pad)
    locator = _locator()
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    ax.set_xlabel("UTC")


def _locator() -> AutoDateLocator:
    """Few ticks, for any stretch of time."""
    locator = AutoDateLocator(minticks=3, maxticks=6)
    # Between six ticks of the longest step of a unit and three of the next unit lie spans for which
    # matplotlib has none, and says so on stderr: a whole one of the next unit fills the gap.
    for unit, whole in ((SECONDLY, 60), (MINUTELY, 60), (HOURLY, 24), (MONTHLY, 12)):
        locator.intervald[unit] = [*locator.intervald[unit], whole]
    return locator


def _draw(night: Night, ax: Axes) -> None:
    rows = {line: len(night.lines) - 1 - index for index, line in enumerate(night.lines)}
    colors = dict(zip(night.lines, map(palette.color, night.steps), strict=True))
    _time_axis(night, ax)
    ax.set_ylim(-0.7, len(rows) - 0.3)
    ax.set_yticks(list(rows.values()), [*night.labels])
    ax.grid(visible=False)
    drawn: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for span in night.spans:
        left = _days(span.began)
        drawn.setdefault((span.line, span.kind), []).append((left, _days(span.ended) - left))
    for (line, kind), bars in drawn.items():
        if kind == "away":
            ax.broken_barh(bars, (0, 1), transform=ax.get_xaxis_transform(), facecolor="none",
                           hatch="///", linewidth=0, edgecolor=palette.GRID, zorder=0)  # fmt: skip
            continue
        height, alpha = (0.6, 1.0) if kind == "measure" else (0.22, 0.35)
        ax.broken_barh(bars, (rows[line] - height / 2, height), facecolor=colors[line],
                       alpha=alpha, linewidth=0, zorder=2)  # fmt: skip
    for line, at, why in night.failures:
        place = (_days(at), rows[line])
        ax.plot(*place, "x", color=palette.BAD, markersize=6, markeredgewidth=1.6, zorder=4)
        ax.annotate(why, place, **_beside(ax, place[0]))


def _beside(ax: Axes, at: float) -> dict[str, Any]:
    """A label to the right of its cross, to the left where the plot ends there."""
    low, high = ax.get_xlim()
    left = at > low + (high - low) * 0.7
    return {
        "xytext": (-7, 0) if left else (7, 0), "textcoords": "offset points", "va": "center",
        "ha": "right" if left else "left", "fontsize": marks.LABEL_SIZE, "color": palette.BAD,
    }  # fmt: skip


def _draw_warmth(night: Night, warmth: Sequence[tuple[datetime, float, int]], ax: Axes) -> None:
    _time_axis(night, ax)
    ax.set_ylabel("GPU °C")
    times = [_days(at) for at, _, _ in warmth]
    ax.plot(times, [degrees for _, degrees, _ in warmth], color=palette.MUTED, linewidth=0.9)
    for steps in dict.fromkeys(steps for _, _, steps in warmth):
        here = [(at, degrees) for at, (_, degrees, k) in zip(times, warmth, strict=True)
                if k == steps]  # fmt: skip
        ax.plot(*zip(*here, strict=True), ".", color=palette.color(steps), markersize=5)
