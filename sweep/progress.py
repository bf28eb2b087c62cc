"""What a person sees while a sweep runs: a live line on a terminal, plain lines elsewhere.

Everything goes to stderr. A terminal that went away never ends a sweep.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from sweep.plan import Due, Launch, Plan, Point, swept_text
from sweep.results.status import duration
from sweep.rows import Row

# A signal is acknowledged within the second, so look often; and wait at the end, but not for ever.
LOOK_S = 0.05
PATIENCE_S = 2.0


@dataclass(frozen=True)
class Stage:
    """Where the sweep stands. `name` is the step of a launch: start, wait healthy, measure, ..."""

    name: str
    launch: Launch | None = None
    point: Point | None = None
    trial: int | None = None


class Progress(Protocol):
    """Told by the runner what happens; shows it."""

    def begin(self, plan: Plan, due: Mapping[str, Sequence[Due]]) -> None: ...
    def stage(self, stage: Stage) -> None: ...
    def detail(self, text: str) -> None: ...
    def row(self, row: Row) -> None: ...
    def note(self, text: str) -> None: ...
    def end(self) -> None: ...


def row_line(row: Row) -> str:
    """One result in one line: steps, concurrency, then the figures or why it failed."""
    swept = swept_text(json.loads(str(row["config"] or "{}")).items())
    trial = f" trial {row['trial']}" if row["trial"] not in (None, 1) else ""
    head = f"steps={row['speculative_num_steps']}{swept} C={row['concurrency']}{trial}"
    if not row.ok:
        return f"{head} failed: {row['failure']}: {row['failure_detail']}"
    parts = [f"{float(row['agg_tok_s'] or 0):.1f} tok/s"]
    if row["per_req_tok_s"] is not None:
        parts.append(f"{float(row['per_req_tok_s']):.1f} per request")
    if row["accept_length"] is not None:
        parts.append(f"acceptance {float(row['accept_length']):.2f}")
    flags = f" [{row['flags']}]" if row["flags"] else ""
    return f"{head}  {', '.join(parts)}{flags}"


class Pace:
    """How far the sweep is, and when it may end: from the trials done so far, none before that."""

    def __init__(self, plan: Plan, due: Mapping[str, Sequence[Due]]) -> None:
        self._order = [launch.id for launch in plan.launches if launch.id in due]
        self._total = sum(len(trials) for trials in due.values())
        self._done = 0
        self._began = time.monotonic()

    def row(self) -> None:
        self._done += 1

    def launch_number(self, launch: Launch) -> str:
        if launch.id not in self._order:
            return launch.id
        return f"launch {self._order.index(launch.id) + 1}/{len(self._order)}"

    def text(self) -> str:
        elapsed = time.monotonic() - self._began
        said = f"{self._done}/{self._total} trials, {duration(elapsed)}"
        if 0 < self._done < self._total:
            left = elapsed / self._done * (self._total - self._done)
            said += f", about {duration(left)} left"
        return said


def stage_text(stage: Stage, pace: Pace) -> str:
    parts = []
    if stage.launch is not None:
        parts.append(f"{pace.launch_number(stage.launch)} ({stage.launch.label})")
    if stage.point is not None:
        parts.append(f"C={stage.point.concurrency}")
    if stage.trial is not None and stage.trial > 1:
        parts.append(f"trial {stage.trial}")
    return " ".join([*parts, stage.name])


class PlainProgress:
    """One line per event, with the time since the start; for logs, pipes and `nohup`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._pace: Pace | None = None

    def _say(self, text: str) -> None:
        at = timedelta(seconds=round(time.monotonic() - self._began))
        say(self._console, f"[{at}] {text}")

    def begin(self, plan: Plan, due: Mapping[str, Sequence[Due]]) -> None:
        self._pace = Pace(plan, due)

    def stage(self, stage: Stage) -> None:
        if self._pace is not None:
            self._say(stage_text(stage, self._pace))

    def detail(self, text: str) -> None:
        pass

    def row(self, row: Row) -> None:
        if self._pace is not None:
            self._pace.row()
            self._say(f"{row_line(row)}   ({self._pace.text()})")

    def note(self, text: str) -> None:
        self._say(text)

    def end(self) -> None:
        pass


class LiveProgress:
    """A line that changes in place, with results scrolling above it; for terminals."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pace: Pace | None = None
        self._stage = ""
        self._detail = ""
        self._live = Live(
            console=console, get_renderable=self._line, refresh_per_second=4, transient=True
        )

    def _line(self) -> Text:
        pace = self._pace.text() if self._pace else ""
        detail = f" {self._detail}" if self._detail else ""
        return Text(f"● {self._stage}{detail}   {pace}", overflow="ellipsis", no_wrap=True)

    def begin(self, plan: Plan, due: Mapping[str, Sequence[Due]]) -> None:
        self._pace = Pace(plan, due)
        self._live.start()

    def stage(self, stage: Stage) -> None:
        self._detail = ""
        if self._pace is not None:
            self._stage = stage_text(stage, self._pace)

    def detail(self, text: str) -> None:
        self._detail = text

    def row(self, row: Row) -> None:
        if self._pace is not None:
            self._pace.row()
        say(self._console, ("✓ " if row.ok else "✗ ") + row_line(row))

    def note(self, text: str) -> None:
        say(self._console, text)

    def end(self) -> None:
        self._live.stop()


class BackgroundProgress:
    """Another progress, told from a thread of its own.

    A terminal that was stopped (Ctrl-S), or a pipe nobody reads, blocks whoever writes to it: that
    must not be the sweep. There is no lock, so that a signal handler may tell it something.
    """

    def __init__(self, inner: Progress) -> None:
        self._inner = inner
        self._told: deque[Callable[[], None]] = deque()
        self._over = False
        self._thread = threading.Thread(target=self._show, daemon=True)

    def _show(self) -> None:
        while self._told or not self._over:
            while self._told:
                self._told.popleft()()
            time.sleep(LOOK_S)

    def begin(self, plan: Plan, due: Mapping[str, Sequence[Due]]) -> None:
        self._told.append(lambda: self._inner.begin(plan, due))
        self._thread.start()

    def stage(self, stage: Stage) -> None:
        self._told.append(lambda: self._inner.stage(stage))

    def detail(self, text: str) -> None:
        self._told.append(lambda: self._inner.detail(text))

    def row(self, row: Row) -> None:
        self._told.append(lambda: self._inner.row(row))

    def note(self, text: str) -> None:
        self._told.append(lambda: self._inner.note(text))

    def end(self) -> None:
        """Show what is left to show, as far as anybody can be shown it."""
        self._told.append(self._inner.end)
        self._over = True
        self._thread.join(PATIENCE_S)


def say(console: Console, text: str) -> None:
    """Print one line; a terminal or pipe that is gone is no reason to end a sweep."""
    try:
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    except OSError:
        console.quiet = True


def progress_for(console: Console) -> Progress:
    """Live on a terminal, plain lines otherwise."""
    shown = LiveProgress(console) if console.is_terminal else PlainProgress(console)
    return BackgroundProgress(shown)
