"""`sweep status --watch`: how a run stands, again and again in the same place."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import fmean

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sweep.plan import Plan, latest
from sweep.plan_document import plan_from_doc
from sweep.results import RunDirectory, Status
from sweep.results.status import duration
from sweep.rows import Row

LOOK_S = 1.0
PLAIN_S = 10.0  # without a terminal: at most a line in that time
# Of the time, at most this share is spent reading: a run of very many rows is looked at less often.
READING_SHARE = 0.2
MOST_FAILURES = 8
# A picture higher than its terminal scrolls at each look. Around the launches: an empty line, the
# title, the names of the columns, and the cursor's own line.
TABLE_LINES = 4
FEWEST_LAUNCHES = 3


@dataclass(frozen=True)
class Best:
    """The highest mean so far at one concurrency. `steps` of `of` have been measured there."""

    load: int | str
    label: str
    tok_s: float
    steps: int
    of: int


@dataclass(frozen=True)
class Failed:
    """What failed alike: `trials` of one launch."""

    label: str
    trials: int
    failure: str
    detail: str


def watch_run(run: RunDirectory, look: Callable[[], Status], *, color: bool) -> None:
    """Show the run on stdout until nobody works on it any more, or until Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt):
        watch(run, look, Console(no_color=not color, highlight=False))


def watch(
    run: RunDirectory,
    look: Callable[[], Status],
    console: Console,
    sleep: Callable[[float], None] = time.sleep,
) -> Status:
    """Show the run until nobody works on it any more; how it stands then. `look` finds that out.

    Where it is no terminal: a line for what has changed, and the whole picture in the end.
    """
    if not console.is_terminal:
        return _watch_plainly(run, look, console, sleep)
    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
        while True:
            began = time.monotonic()
            status = look()
            plan = plan_from_doc(run.plan().get("plan", {}))
            over = status.state != "running"
            live.update(view(status, plan, run.rows(), None if over else console), refresh=True)
            if over:
                return status
            sleep(max(LOOK_S, (time.monotonic() - began) / READING_SHARE))


def _watch_plainly(
    run: RunDirectory,
    look: Callable[[], Status],
    console: Console,
    sleep: Callable[[float], None],
) -> Status:
    shown: object = None
    while True:
        status = look()
        if status.state != "running":
            console.print(view(status, plan_from_doc(run.plan().get("plan", {})), run.rows()))
            return status
        now = status.now.text() if status.now else "nothing yet"
        if shown != (shown := (status.ok, status.failed, now)):
            said = f"{status.run_id} on {status.host}: running, {status.ok} of {status.trials} "
            said += f"trials ok, {status.failed} failed, now {now}, {time_text(status)}"
            console.print(f"{status.at.astimezone():%H:%M:%S} {said}", soft_wrap=True)
            console.file.flush()
        sleep(PLAIN_S)


def view(
    status: Status, plan: Plan, rows: Sequence[Row], fit: Console | None = None
) -> RenderableType:
    """One picture of a run; of its launches as many as `fit` has lines for, those around now."""
    parts: list[RenderableType] = [_head(status), _bar(status)]
    if status.now:
        since = (status.at - status.now.since).total_seconds()
        parts.append(Text(f"now    {status.now.text()}, for {duration(since)}"))
    parts.append(Text(f"time   {time_text(status)}"))
    if status.why:
        parts.append(Text(f"why    {status.why}"))
    if best := list(best_so_far(plan, rows)):
        parts += [Text(), _best_table(best)]
    below: list[RenderableType] = []
    if failed := list(failures(plan, rows)):
        below += [Text(), *_failure_lines(failed)]
    if now := status.what_now():
        below += [Text(), *map(Text, now)]
    room = len(status.launches)
    if fit is not None:
        room = fit.height - len(fit.render_lines(Group(*parts, *below))) - TABLE_LINES
    return Group(*parts, Text(), _launch_table(status, max(room, FEWEST_LAUNCHES)), *below)


def _head(status: Status) -> Text:
    text = Text(f"{status.run_id}", style="bold")
    return text.append(f" on {status.host}: {status.state}", style="not bold")


def _bar(status: Status) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    done = status.ok + status.failed
    said = f"{status.ok} of {status.trials} trials ok, {status.failed} failed"
    grid.add_row(ProgressBar(total=max(1, status.trials), completed=done, width=30), Text(said))
    return grid


def time_text(status: Status) -> str:
    """How long it has taken and will take, and when it will be over."""
    parts = []
    if status.elapsed_s is not None:
        took = "so far" if status.state == "running" else "in all"
        parts.append(f"{duration(status.elapsed_s)} {took}")
    if status.remaining_s is not None:
        over = (status.at + timedelta(seconds=status.remaining_s)).astimezone()
        left = f"about {duration(status.remaining_s)} left"
        parts.append(
            f"{left}; {status.cut_short}" if status.cut_short else f"{left}, until {over:%H:%M}"
        )
    elif status.state == "running":
        parts.append("how long it takes is known after the first trial")
    return ", ".join(parts) or "not begun"


def best_so_far(plan: Plan, rows: Sequence[Row]) -> Iterator[Best]:
    """At each concurrency of the plan the config with the highest mean of its ok trials so far.

    The plain mean: what it is worth, `sweep report` says.
    """
    last = latest(rows)
    found: dict[int | str, list[tuple[float, str]]] = {}
    planned: dict[int | str, int] = {}
    for launch, point in plan.points():
        planned[point.concurrency] = planned.get(point.concurrency, 0) + 1
        values = [
            float(row["agg_tok_s"])
            for trial in range(1, plan.trials + 1)
            if (row := last.get((point.id, trial))) and row.ok and row["agg_tok_s"] is not None
        ]
        if values:
            found.setdefault(point.concurrency, []).append((fmean(values), launch.label))
    for load, measured in found.items():
        value, label = max(measured)
        yield Best(load, label, value, len(measured), planned[load])


def _best_table(best: Sequence[Best]) -> RenderableType:
    table = Table(title="best so far", title_justify="left", box=None, pad_edge=False)
    for name in ("C", "config", "tok/s", "measured"):
        table.add_column(name, justify="left" if name == "config" else "right",
                         overflow="fold")  # fmt: skip
    for one in best:
        table.add_row(str(one.load), one.label, f"{one.tok_s:.1f}", f"{one.steps} of {one.of}")
    return table


def _launch_table(status: Status, room: int) -> RenderableType:
    """At most `room` launches, with the one at work in the middle of them."""
    now = status.now.launch if status.now else None
    at = next((place for place, one in enumerate(status.launches) if one.id == now), 0)
    first = max(0, min(at - room // 2, len(status.launches) - room))
    shown = status.launches[first : first + room]
    title = "launches"
    if len(shown) < len(status.launches):
        title += f" {first + 1} to {first + len(shown)} of {len(status.launches)}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in ("", "config", "ok", "failed", "missing"):
        table.add_column(name, justify="left" if name in ("", "config") else "right",
                         overflow="fold")  # fmt: skip
    for one in shown:
        table.add_row(
            one.id, one.label, str(one.ok), str(one.failed or ""), str(one.missing or ""),
            style="bold" if one.id == now else "dim" if one.missing == one.trials else "",
        )  # fmt: skip
    return table


def failures(plan: Plan, rows: Sequence[Row]) -> Iterator[Failed]:
    """The trials whose latest attempt failed, those that failed alike in a launch together."""
    labels = {launch.id: launch.label for launch in plan.launches}
    counted: dict[tuple[str, str, str], int] = {}
    for row in latest(rows).values():
        if not row.ok:
            key = (str(row["launch"]), str(row["failure"]), str(row["failure_detail"] or ""))
            counted[key] = counted.get(key, 0) + 1
    for (launch, failure, detail), trials in counted.items():
        yield Failed(f"{launch} {labels.get(launch, '')}".strip(), trials, failure, detail)


def _failure_lines(failed: Sequence[Failed]) -> Iterator[RenderableType]:
    yield Text("failures", style="italic")
    for one in failed[-MOST_FAILURES:]:
        line = Text(f"{one.label}: ").append(one.failure, style="red")
        yield line.append(f" ({one.trials} trials) {one.detail}", style="not red")
    if len(failed) > MOST_FAILURES:
        yield Text(f"and {len(failed) - MOST_FAILURES} more before these")
