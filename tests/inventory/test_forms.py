"""How steps, concurrencies and settings are written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.inventory import FlagValue
from sweep.inventory_file import parse_concurrency, parse_setting, parse_steps


def refusal(parse: Callable[[str], object], text: str) -> str | None:
    try:
        parse(text)
    except ValueError as error:
        return str(error)
    return None


STEPS = st.lists(st.integers(0, 1000), min_size=1, max_size=30, unique=True)


@given(STEPS)
def test_steps_written_out_come_back(steps: list[int]) -> None:
    assert parse_steps(",".join(map(str, steps))) == tuple(steps)


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 50), st.sampled_from(["..", "-"]))
def test_a_range_is_a_range(first: int, length: int, stride: int, dots: str) -> None:
    last = min(first + length, 1000)
    expected = tuple(range(first, last + 1, stride))
    assert parse_steps(f"{first}{dots}{last}:{stride}") == expected
    if stride == 1:
        assert parse_steps(f" {first} {dots} {last} ") == expected


@given(st.lists(st.integers(1, 65536) | st.just("max"), min_size=1, max_size=20, unique=True))
def test_concurrencies_written_out_come_back(found: list[int | str]) -> None:
    assert parse_concurrency(", ".join(map(str, found))) == tuple(found)


@given(st.text() | st.text(alphabet="0123456789.,-: max", max_size=20))
def test_any_text_is_parsed_or_refused_with_a_sentence(text: str) -> None:
    for parse in (parse_steps, parse_concurrency, parse_setting):
        sentence = refusal(parse, text)
        assert sentence is None or ("; " in sentence and sentence.isprintable())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' has a gap; write 1..10, 1-10, 0,1,3 or 1..10:3"),
        ("-1", "'-1' is below 0; write 1..10, 1-10, 0,1,3 or 1..10:3 (0 is no speculation)"),
        ("5..1", "'5..1' counts down; write 1..5"),
        ("1..10:0", "'1..10:0' never gets on; write a stride from 1 up"),
        ("1...3", "'1...3' is neither a number nor a range; write 1..10, 1-10, 0,1,3 or 1..10:3"),
        ("1e1", "'1e1' is neither a number nor a range; write 1..10, 1-10, 0,1,3 or 1..10:3"),
        ("1,1", "1 stands there twice; write it once"),
        ("1..999999999", "999999999 is more than 1000; write less"),
    ],
)
def test_steps_that_are_none(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared whole
        parse_steps(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "flag", "value"),
    [
        ("tp=8", "tp", 8),
        ("--tp-size=8", "tp-size", 8),
        ("mem-fraction-static=0.85", "mem-fraction-static", 0.85),
        ("schedule-conservativeness=1", "schedule-conservativeness", 1.0),
        ("enable-metrics=true", "enable-metrics", True),
        ("chunked-prefill-size=false", "chunked-prefill-size", False),
        ("revision=1.10", "revision", "1.10"),
        ("context-length=128k", "context-length", "128k"),
        ("cuda-graph-bs-decode=1,2,4", "cuda-graph-bs-decode", (1, 2, 4)),
        ('json-model-override-args={"a": "b=c"}', "json-model-override-args", '{"a": "b=c"}'),
        ("flag-of-a-fork=3", "flag-of-a-fork", 3),
        ("flag-of-a-fork=0.5", "flag-of-a-fork", 0.5),
        ("flag-of-a-fork=x,y", "flag-of-a-fork", "x,y"),
        ("tp=four", "tp", "four"),
    ],
)
def test_settings(text: str, flag: str, value: FlagValue) -> None:
    found = parse_setting(text)
    assert found == (flag, value)
    assert type(found[1]) is type(value)


@pytest.mark.parametrize("text", ["tp", "=4", "tp=", "", "--=1"])
def test_settings_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="; "):
        parse_setting(text)
