"""--until: which moment is meant, and what may still begin before it."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.inventory import BuiltinBenchmark
from sweep.plan import Launch, Plan, Point, ServerConfig
from sweep.results import Event
from sweep.until import Until, moment

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = datetime(2026, 11, 29, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "now", "meant"),
    [
        ("07:00", "2026-11-29T22:00+01:00", "2026-11-30T07:00+01:00"),
        ("7:00", "2026-11-29T06:59+01:00", "2026-11-29T07:00+01:00"),
        ("07:00", "2026-11-29T07:00+01:00", "2026-11-30T07:00+01:00"),
        ("00:00", "2026-12-31T23:59+01:00", "2027-01-01T00:00+01:00"),
        (" 07:00:30 ", "2026-11-29T07:00+01:00", "2026-11-29T07:00:30+01:00"),
        # The clocks go from 02:00 to 03:00: seven hours on the wall are six.
        ("07:00", "2026-03-28T23:00+01:00", "2026-03-29T07:00+02:00"),
        # A time that is left out is read as if it were winter, or, once that has passed, summer.
        ("02:30", "2026-03-28T23:00+01:00", "2026-03-29T01:30+01:00"),
        ("02:30", "2026-03-29T01:45+01:00", "2026-03-29T03:30+02:00"),
        # The clocks go from 03:00 back to 02:00: 02:30 comes twice.
        ("02:30", "2026-10-24T23:00+02:00", "2026-10-25T02:30+02:00"),
        ("02:30", "2026-10-25T02:45+02:00", "2026-10-25T02:30+01:00"),
        ("02:30", "2026-10-25T02:45+01:00", "2026-10-26T02:30+01:00"),
        ("2026-11-30T07:00+00:00", "2026-11-29T22:00+01:00", "2026-11-30T08:00+01:00"),
    ],
)
def test_the_next_time_the_clock_shows_it(text: str, now: str, meant: str) -> None:
    found = moment(text, datetime.fromisoformat(now), BERLIN)
    assert found.astimezone(UTC) == datetime.fromisoformat(meant)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("7", "is no time"),
        ("25:00", "no such time of day"),
        ("07:60", "no such time of day"),
        ("07:00:60", "no such time of day"),
        ("tomorrow", "is no time"),
        ("", "is no time"),
        ("07:00 UTC", "is no time"),
        ("2026-11-30T07:00", "names no time zone"),
        ("2026-11-29T21:00Z", "has passed"),
    ],
)
def test_what_is_no_time_says_how_to_write_one(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"{why}.*; "):
        moment(text, NIGHT, BERLIN)


@given(
    st.integers(0, 366 * 86400).map(lambda s: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(0, s)),
    st.times().map(lambda at: at.replace(second=0, microsecond=0)),
)
def test_it_is_ahead_and_within_a_day_and_a_change_of_clocks(now: datetime, at: time) -> None:
    found = moment(f"{at:%H:%M}", now, BERLIN)
    assert timedelta() < found - now <= timedelta(hours=25)


def plan(trials: int = 1) -> Plan:
    config = ServerConfig(args=(), env=())
    points = (Point("p-1", 1), Point("p-2", 16))
    launches = tuple(Launch(f"l-{n:02d}", config, points) for n in range(1, 5))
    return Plan("overnight", "gpu", BuiltinBenchmark(), trials, 3, launches)


def until(minutes: float, *, production: bool = True, trials: int = 1) -> Until:
    return Until(NIGHT + timedelta(minutes=minutes), plan(trials), None, production)


def events(*stages: tuple[str, str | None, int | None, float], end: bool = False) -> list[Event]:
    """(stage, launch, concurrency, seconds it takes), one after the other."""
    lengths = (seconds for *_, seconds in stages)
    moments = itertools.accumulate(lengths, lambda at, s: at + timedelta(seconds=s), initial=NIGHT)
    found = [
        Event(at, "stage", {"stage": stage, "launch": launch, "concurrency": concurrency})
        for at, (stage, launch, concurrency, _) in zip(moments, stages, strict=False)
    ]
    if end:
        total = timedelta(seconds=sum(seconds for *_, seconds in stages))
        found.append(Event(NIGHT + total, "end", {}))
    return [Event(NIGHT, "begin", {}), *found]


def a_launch(name: str, start: float) -> list[tuple[str, str | None, int | None, float]]:
    return [
        ("install", name, None, 1),
        ("wait healthy", name, None, start - 1),
        ("measure", name, 1, 20),
        ("measure", name, 16, 10),
        ("stop", name, None, 5),
    ]


def test_what_was_taken_is_read_from_the_stages() -> None:
    found = until(60)
    stages = [*a_launch("l-01", 100), *a_launch("l-02", 80), ("restore", None, None, 90)]
    found.taken.replay(events(("connect", None, None, 1), *stages, end=True))
    assert (found.start_s(), found.stop_s()) == (90, 5)
    assert (found.trial_s(1), found.trial_s(16)) == (20, 10)
    assert found.back_s() == 1.25 * (5 + 100)  # as long as the slowest start, longer than a restore
    assert until(60, production=False).back_s() == 1.25 * 15


def test_a_process_that_was_killed_leaves_nothing_half_done() -> None:
    found = until(60)
    killed = events(*a_launch("l-01", 100))[:-1]  # while it measured at C=16
    found.taken.replay([*killed, *events(("connect", None, None, 1))])
    assert list(found.taken.starts) == [100]
    assert dict(found.taken.trials) == {1: found.taken.trials[1], 16: found.taken.trials[16]}
    assert (list(found.taken.trials[1]), list(found.taken.trials[16])) == ([20], [])
    assert not found.taken.stops


def test_a_clock_that_was_set_back_in_a_start_leaves_it_out() -> None:
    found = until(60)
    begin, install, *later = events(*a_launch("l-01", 100))
    set_back = [Event(one.at - timedelta(hours=2), one.kind, one.fields) for one in later]
    found.taken.replay([begin, install, *set_back])
    assert not found.taken.starts
    assert list(found.taken.trials[1]) == [20]


def test_a_launch_that_was_adopted_says_nothing_about_starts() -> None:
    found = until(60)
    adopted = [("verify", "l-01", None, 1.0), *a_launch("l-01", 100)[2:], *a_launch("l-02", 80)]
    found.taken.replay(events(("connect", None, None, 1), *adopted, ("restore", None, None, 1)))
    assert list(found.taken.starts) == [80]
    assert list(found.taken.stops) == [5, 5]


def test_before_anything_is_measured_the_estimate_counts() -> None:
    # 180 s start, 15 s stop, production another 180 s, all of the way back a quarter more
    found = until(60)
    assert (found.start_s(), found.stop_s(), found.back_s()) == (180, 15, 1.25 * 195)
    launch = found.plan.launches[0]
    last = NIGHT + timedelta(minutes=60, seconds=-180 - found.trial_s(1) - found.back_s())
    assert found.why_no_launch(last, launch, 1) is None
    late = found.why_no_launch(last + timedelta(seconds=1), launch, 1)
    assert late is not None
    assert "l-01 with one trial takes about" in late


def test_a_trial_may_still_fit_where_a_launch_does_not() -> None:
    found = until(60)
    found.taken.replay(events(*a_launch("l-01", 100), ("install", "l-02", None, 1)))
    at = NIGHT + timedelta(minutes=60, seconds=-found.back_s() - 30)
    assert found.why_no_launch(at, found.plan.launches[1], 1) is not None
    assert found.why_no_trial(at, 1) is None
    assert found.why_end(at) is None
    assert found.why_no_trial(at + timedelta(seconds=11), 1) is not None
    assert found.why_no_trial(at + timedelta(seconds=11), 16) is None
    over = found.why_end(at + timedelta(seconds=31))
    assert over is not None
    assert "going on takes" not in over
    assert "giving the host back may take" in over


@pytest.mark.parametrize("trials", [1, 3])
def test_how_far_the_plan_gets(trials: int) -> None:
    def reach(minutes: float) -> tuple[int, int]:
        found = until(minutes, trials=trials)
        found.taken.replay(events(*a_launch("l-01", 100), ("restore", None, None, 0)))
        return found.reach(NIGHT)

    one = (100 + trials * (20 + 10) + 5) / 60
    back = 1.25 * 105 / 60
    assert reach(0) == (0, 0)
    assert reach(4 * one + back) == (4, 8 * trials)
    assert reach(2 * one + back + 0.1) == (2, 4 * trials)
    assert reach(one + 125 / 60 + back) == (2, 2 * trials + 1)
    assert reach(10_000) == (4, 8 * trials)
