"""The plan through plan.json and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.errors import RunDirectoryError
from sweep.inventory import BuiltinBenchmark, CommandBenchmark
from sweep.plan import Launch, Plan, Point, ServerConfig
from sweep.plan_document import plan_from_doc, plan_to_doc

scalars = st.one_of(
    st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
values = st.one_of(scalars, st.lists(scalars, max_size=3).map(tuple))
pairs = st.lists(st.tuples(st.text(), values), max_size=4).map(tuple)
configs = st.builds(
    ServerConfig,
    args=pairs,
    env=st.lists(st.tuples(st.text(), st.text()), max_size=3).map(tuple),
    swept=pairs,
)
points = st.builds(Point, id=st.text(), concurrency=st.one_of(st.integers(1), st.just("max")))
benchmarks = st.one_of(
    st.builds(
        BuiltinBenchmark,
        temperature=st.floats(0, 2),
        requests=st.one_of(st.none(), st.integers(1, 10)),
        run_on=st.sampled_from(["host", "controller"]),
        trial_timeout_s=st.one_of(st.none(), st.floats(1, 100)),
    ),
    st.builds(
        CommandBenchmark,
        kind=st.just("command"),
        command=st.lists(st.text(min_size=1), min_size=1, max_size=3).map(tuple),
        temperature=st.one_of(st.none(), st.floats(0, 2)),
    ),
)
plans = st.builds(
    Plan,
    sweep=st.text(),
    host=st.text(),
    benchmark=benchmarks,
    trials=st.integers(1, 9),
    max_consecutive_failures=st.integers(1, 9),
    launches=st.lists(
        st.builds(Launch, id=st.text(), config=configs, points=st.lists(points).map(tuple)),
        max_size=3,
    ).map(tuple),
)


@given(plans)
def test_every_plan_comes_back_as_it_was(plan: Plan) -> None:
    back = plan_from_doc(json.loads(json.dumps(plan_to_doc(plan))))
    assert back == plan
    assert repr(back) == repr(plan)  # 1, 1.0 and True are equal, and are different flags


@pytest.mark.parametrize(
    "damage",
    [
        {},
        {"sweep": "x"},
        {"launches": [{"id": "l-01"}]},
        {"benchmark": {"kind": "unheard-of"}},
        {"trials": "many"},
        {"launches": 3},
    ],
)
def test_what_is_no_plan_is_refused(damage: dict[str, Any]) -> None:
    whole = plan_to_doc(Plan("s", "h", BuiltinBenchmark(), 1, 3, ()))
    document = {**whole, **damage} if damage else {}
    if damage == {"sweep": "x"}:
        del document["host"]
    with pytest.raises(RunDirectoryError, match=r"plan\.json"):
        plan_from_doc(document)
