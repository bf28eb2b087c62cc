"""`--until 07:00`: when production has to serve again, and what may still begin before that.

Judged by what starts, trials, stops and restores of this run have taken; before any of them was
measured, by the estimate. How long giving the host back takes is never taken too lightly: whatever
runs over is ended in time for that.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from statistics import median

from sweep.estimate import ASSUMED_STOP_S, Pace, start_s, trial_s
from sweep.plan import Launch, Plan
from sweep.results import Event
from sweep.results.status import duration

# Production is often another server on the same weights, with a cache that has grown cold since.
SAFETY = 1.25
KEPT = 50  # of each part; what is asked before each trial must not grow with the run
_TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?")
FORMS = "write a time of this machine's clock as 07:00, or a moment as 2026-11-30T07:00+01:00"


def moment(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """The next time the clocks show `text`, or the moment it names; in `zone`, else the system's.

    Of a time that comes twice when the clocks are set back the one still ahead is meant, of a time
    that they leave out the earlier reading. Raises ValueError "<what is wrong>; <what to do>".
    """
    found = _TIME_OF_DAY.fullmatch(text.strip())
    if found is None:
        return _named(text, now, zone)
    try:
        clock = time(int(found[1]), int(found[2]), int(found[3] or 0))
    except ValueError as error:
        raise ValueError(f"there is no such time of day; {FORMS}") from error
    today = now.astimezone(zone).date()
    days = (today + timedelta(days=number) for number in range(3))
    readings = (_reading(day, clock, fold, zone) for day in days for fold in (0, 1))
    return min(at for at in readings if at > now).astimezone(zone)


def _named(text: str, now: datetime, zone: tzinfo | None) -> datetime:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ValueError(f"is no time; {FORMS}") from error
    if at.tzinfo is None:
        raise ValueError(f"names no time zone; {FORMS}")
    if at <= now:
        raise ValueError("has passed; name a moment that is still to come")
    return at.astimezone(zone)


def _reading(day: date, clock: time, fold: int, zone: tzinfo | None) -> datetime:
    """A local time as a moment in UTC, where comparing and subtracting mean what they say."""
    return datetime.combine(day, clock.replace(fold=fold), tzinfo=zone).astimezone(UTC)


class Taken:
    """Seconds that the latest starts, trials, stops and restores of a run took."""

    def __init__(self) -> None:
        self.starts: deque[float] = deque(maxlen=KEPT)
        self.stops: deque[float] = deque(maxlen=KEPT)
        self.restores: deque[float] = deque(maxlen=KEPT)
        self.trials: dict[object, deque[float]] = defaultdict(lambda: deque(maxlen=KEPT))
        self._launch: object = None
        self._launched: datetime | None = None  # None: it has measured, or was adopted
        self._part: tuple[deque[float], datetime] | None = None

    def replay(self, events: Iterable[Event]) -> None:
        """What earlier processes of the run did. One that was killed leaves its last part out."""
        for event in events:
            if event.kind == "stage":
                self.stage(event.at, event.fields)
            elif event.kind == "end":
                self._close(event.at)
            if event.kind in ("begin", "end"):
                self._launch = self._launched = self._part = None

    def stage(self, at: datetime, fields: Mapping[str, object]) -> None:
        """A stage begins, with the fields of its event: what was going on before has ended."""
        self._close(at)
        name, launch = fields.get("stage"), fields.get("launch")
        if launch != self._launch:
            # One that was adopted from a process that died was not started here.
            self._launch, self._launched = launch, at if name == "install" else None
        if name == "measure":
            if self._launched is not None:
                _keep(self.starts, at - self._launched)
                self._launched = None
            self._part = (self.trials[fields.get("concurrency")], at)
        elif name in ("stop", "restore"):
            self._part = (self.stops if name == "stop" else self.restores, at)

    def _close(self, at: datetime) -> None:
        if self._part is not None:
            into, since = self._part
            _keep(into, at - since)
            self._part = None


def _keep(into: deque[float], took: timedelta) -> None:
    """Events tell the time of day: where a clock was set back meanwhile, it is not known."""
    if took >= timedelta():
        into.append(took.total_seconds())


@dataclass(frozen=True)
class Until:
    """The moment by which production serves again, and the run as far as it was timed.

    `production`: there is something to be started in the end. `pace` is an earlier run's.
    """

    at: datetime
    plan: Plan
    pace: Pace | None
    production: bool
    taken: Taken = field(default_factory=Taken)

    @property
    def text(self) -> str:
        """The moment as people write it, with its zone."""
        return f"{self.at:%a %H:%M %Z}" if not self.at.second else f"{self.at:%a %H:%M:%S %Z}"

    def start_s(self) -> float:
        """From nothing to the first trial."""
        return median(self.taken.starts) if self.taken.starts else start_s(self.pace)

    def stop_s(self) -> float:
        return median(self.taken.stops) if self.taken.stops else ASSUMED_STOP_S

    def trial_s(self, concurrency: int | str) -> float:
        found = self.taken.trials.get(concurrency)
        return median(found) if found else trial_s(self.plan, concurrency, self.pace)

    def back_s(self) -> float:
        """From now to production serving again: our server stopped, production started.

        Production is taken to start like the servers of this run: a restore that had nothing to
        start says little about one that has.
        """
        stop = max(self.taken.stops, default=ASSUMED_STOP_S)
        starts = [*self.taken.restores]
        if self.production:
            starts.append(max(self.taken.starts, default=start_s(self.pace)))
        return SAFETY * (stop + max(starts, default=0.0))

    def why_no_launch(self, now: datetime, launch: Launch, concurrency: int | str) -> str | None:
        """Why this launch cannot begin any more: its start and its first trial take too long."""
        seconds = self.start_s() + self.trial_s(concurrency)
        return self._why_not(now, f"{launch.id} with one trial", seconds)

    def why_no_trial(self, now: datetime, concurrency: int | str) -> str | None:
        """Why no further trial at this concurrency can begin."""
        return self._why_not(now, f"a trial at C={concurrency}", self.trial_s(concurrency))

    def why_end(self, now: datetime) -> str | None:
        """Why whatever is going on has to end now."""
        return self._why_not(now, "going on", 0.0)

    def _why_not(self, now: datetime, what: str, seconds: float) -> str | None:
        left, back = (self.at - now).total_seconds(), self.back_s()
        if seconds + back <= left:
            return None
        takes = f"{what} takes about {duration(seconds)}, " if seconds else ""
        return (
            f"production is to serve again by {self.text}, in {duration(left)}: {takes}giving the "
            f"host back may take {duration(back)}"
        )

    def reach(self, now: datetime) -> tuple[int, int]:
        """How far the plan would get from now on: launches begun, trials measured."""
        launches = trials = 0
        for launch in self.plan.launches:
            wanted = [p.concurrency for p in launch.points for _ in range(self.plan.trials)]
            if self.why_no_launch(now, launch, wanted[0]):
                break
            launches += 1
            now += timedelta(seconds=self.start_s())
            for concurrency in wanted:
                if self.why_no_trial(now, concurrency):
                    return launches, trials
                trials += 1
                now += timedelta(seconds=self.trial_s(concurrency))
            now += timedelta(seconds=self.stop_s())
        return launches, trials
