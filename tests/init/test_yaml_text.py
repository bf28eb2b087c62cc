"""Whatever stands in a unit comes back from the file as it was, to PyYAML and to the inventory."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sweep.init.yaml_text import comment, flow, scalar
from sweep.inventory_file.yaml_tree import read_tree

AWKWARD = [
    "no", "Yes", "on", "null", "~", "", " ", "1e3", "007", "0x10", "12:30", "2026-01-01", "1_000",
    "- a", "a: b", "a #b", "#a", "'", '"', "{a}", "[a]", "*a", "&a", "!a", "%a", "@a", "`a", "|",
    ">", "a\tb", "a\\b", "é☃😀", "\u2028", "\ufeff", "-", "--", "---", "-m", "--flag", ".5",
    "=", "<<", "y", "http://127.0.0.1:30000/health", "inf", "-.inf", ".nan", "a:b", "a:", ":",
    "?", "/x y",
]  # fmt: skip


def read(text: str) -> object:
    tree = read_tree(f"key: {text}\nlist: [{text}, x]\n")
    assert not tree.problems
    loaded = yaml.safe_load(f"key: {text}\nlist: [{text}, x]\n")
    assert tree.value == loaded
    assert loaded["list"] == [loaded["key"], "x"]
    return loaded["key"]


@pytest.mark.parametrize("text", AWKWARD)
def test_awkward_text(text: str) -> None:
    assert read(scalar(text)) == text


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=30))
def test_any_text(text: str) -> None:
    assert read(scalar(text)) == text


@given(
    st.integers(-(10**17), 10**17)
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
)
def test_numbers(value: float) -> None:
    found = read(scalar(value))
    assert found == value
    assert type(found) is type(value)


def test_flow() -> None:
    assert (
        flow(("/usr/bin/python3", "-m", "a b", 1, True)) == '[/usr/bin/python3, -m, "a b", 1, true]'
    )


def test_comments_stay_on_their_line() -> None:
    assert comment("a\nb\x1b[0m\u2028c  d") == "a b [0m c d"
