"""trial.json: what makes a row when the server is gone."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.plan import Due
from sweep.runner.launch import Ready
from sweep.runner.record import Trial
from sweep.runner.ticket import read_subject, read_ticket, write_ticket
from sweep.sglang.verify import Capacity
from sweep.systemd import Started
from tests.results.made import make_plan

PLAN = make_plan(launches=2, concurrency=(1, "max"))
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
NUMBERS = st.none() | st.integers(0, 10**9)


@given(
    place=st.sampled_from([*PLAN.points()]),
    trial=st.integers(1, 99),
    moments=st.tuples(MOMENTS, MOMENTS),
    startup_s=st.none() | st.floats(0, 1e6),
    numbers=st.tuples(NUMBERS, NUMBERS),
    model=st.text(),
)
def test_what_is_written_is_read(
    place: tuple[object, object],
    trial: int,
    moments: tuple[datetime, datetime],
    startup_s: float | None,
    numbers: tuple[int | None, int | None],
    model: str,
) -> None:
    launch, point = place
    ready = Ready(
        started=Started("f" * 32, moments[0]),
        startup_s=startup_s,
        capacity=Capacity(*numbers, dp_size=2, flags=frozenset({"journal_incomplete"})),
        info={"version": "0.5.23", "served_model_name": model, "internal_states": [{"a": None}]},
        unit_sha256="0" * 64,
    )
    made = Trial(launch, Due(point, trial, trial + 1), moments[1], ready)  # type: ignore[arg-type]
    assert read_ticket(write_ticket(made, ready), PLAN) == made


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"{}", b'{"launch": "l-01"}'])
def test_what_is_no_ticket_is_none(content: bytes | None) -> None:
    assert read_ticket(content, PLAN) is None
    assert read_subject(content) is None


def test_a_point_that_the_plan_has_no_more_is_none() -> None:
    launch, point = next(PLAN.points())
    ready = Ready(
        Started("f" * 32, datetime.now(UTC)), 1.0, Capacity(1, 1, 1, frozenset()), {}, "0" * 64
    )
    content = write_ticket(Trial(launch, Due(point, 1, 1), datetime.now(UTC), ready), ready)
    other = json.loads(content) | {"point": "p-ffffffffffff"}
    assert read_ticket(json.dumps(other).encode(), PLAN) is None
    assert read_subject(json.dumps(other).encode()) == f"{launch.label} C=1 trial 1"
