"""How long the rest of a run takes, judged by what it has measured so far. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from sweep.plan import Launch, Plan, latest
from sweep.results.events import Event
from sweep.rows import Row


@dataclass(frozen=True)
class Episode:
    """One start of a launch, from its first stage to the first stage of something else.

    `before_trials_s`: up to its first trial, or up to now. `measuring`: it has reached one.
    `closed`: it ran to its end; a process that died or was stopped leaves it open.
    """

    launch: str
    began: datetime
    ended: datetime
    before_trials_s: float
    measuring: bool
    closed: bool


def remaining_s(
    plan: Plan, rows: Sequence[Row], events: Sequence[Event], at: datetime
) -> float | None:
    """Seconds until the process that works on the run is through with what it set out to do.

    A launch costs what launches cost beside their trials (the median), a trial what trials at its
    concurrency took. None while no trial was measured.
    """
    begin = next((event for event in reversed(events) if event.kind == "begin"), None)
    trials = _trial_seconds(plan, rows)
    episodes = list(_episodes(events, at))
    launch_s = _launch_seconds(episodes, rows)
    if begin is None or not trials or launch_s is None:
        return None
    last = episodes[-1]
    current = last if last.began >= begin.at and not last.closed else None
    total = 0.0
    for launch, concurrencies in _open(plan, rows, begin):
        spent = current.before_trials_s if current and current.launch == launch.id else 0.0
        total += max(0.0, launch_s - spent)
        total += sum(_typical(trials, concurrency) for concurrency in concurrencies)
    if events[-1].kind == "stage" and events[-1].fields.get("trial") is not None:
        total -= (at - events[-1].at).total_seconds()
    return max(0.0, total)


def _episodes(events: Sequence[Event], at: datetime) -> Iterator[Episode]:
    current: str | None = None
    began = first_trial = last = at
    measuring = False
    for event in events:
        launch = event.fields.get("launch") if event.kind == "stage" else current
        if event.kind in ("begin", "end"):
            launch = None
        if launch != current:
            if current is not None:
                # A process that was killed wrote nothing: its launch ended with its last event.
                closed = event.kind == "stage"
                until = event.at if closed else last
                before = ((first_trial if measuring else until) - began).total_seconds()
                yield Episode(current, began, until, before, measuring, closed)
            current, began, measuring = launch, event.at, False
        if event.kind == "stage" and event.fields.get("trial") is not None and not measuring:
            first_trial, measuring = event.at, True
        last = event.at
    if current is not None:
        before = ((first_trial if measuring else at) - began).total_seconds()
        yield Episode(current, began, at, before, measuring, closed=False)


def _launch_seconds(episodes: Sequence[Episode], rows: Sequence[Row]) -> float | None:
    """What a launch costs beside its trials: the median of whole ones, else of starts alone."""
    trials: dict[str, list[tuple[datetime, float]]] = {}
    for row in rows:
        began, seconds = _moment(row["started_at"]), _seconds(row)
        if began is not None and seconds is not None:
            trials.setdefault(str(row["launch"]), []).append((began, seconds))
    whole = [
        (episode.ended - episode.began).total_seconds()
        - sum(
            seconds
            for began, seconds in trials.get(episode.launch, ())
            if episode.began <= began <= episode.ended
        )
        for episode in episodes
        if episode.closed and episode.measuring
    ]
    begun = [episode.before_trials_s for episode in episodes if episode.measuring]
    return median(whole or begun) if whole or begun else None


def _trial_seconds(plan: Plan, rows: Sequence[Row]) -> Mapping[int | str, list[float]]:
    """Seconds that measured trials took, by their concurrency in the plan (a number or `max`)."""
    concurrency = {point.id: point.concurrency for _, point in plan.points()}
    found: dict[int | str, list[float]] = {}
    for row in rows:
        seconds = _seconds(row)
        if row.ok and seconds is not None and row["point"] in concurrency:
            found.setdefault(concurrency[str(row["point"])], []).append(seconds)
    return found


def _typical(trials: Mapping[int | str, list[float]], concurrency: int | str) -> float:
    known = trials.get(concurrency)
    return median(known or [one for seconds in trials.values() for one in seconds])


def _open(
    plan: Plan, rows: Sequence[Row], begin: Event
) -> Iterator[tuple[Launch, list[int | str]]]:
    """The launches this process still has trials of, with the concurrencies of those trials."""
    last = latest(rows)
    due: Mapping[str, int] = begin.fields.get("due") or {}
    for launch in plan.launches:
        never, again, done = [], [], 0
        for point in launch.points:
            for trial in range(1, plan.trials + 1):
                row = last.get((point.id, trial))
                finished = _moment(row["finished_at"]) if row else None
                if row is None:
                    never.append(point.concurrency)
                elif finished and finished >= begin.at:
                    done += 1
                elif not row.ok:
                    again.append(point.concurrency)
        left = [*never, *again][: max(0, due.get(launch.id, 0) - done)]
        if left:
            yield launch, left


def _seconds(row: Row) -> float | None:
    began, ended = _moment(row["started_at"]), _moment(row["finished_at"])
    return (ended - began).total_seconds() if began and ended else None


def _moment(cell: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(cell))
    except ValueError:
        return None
    return found if found.tzinfo else None
