"""The texts that come with the tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweep.inventory import WORKLOADS
from sweep.workloads import fingerprint, shipped

NAMES = sorted(WORKLOADS)
REALISTIC = [name for name in NAMES if name != "greedy"]


def texts(name: str) -> list[str]:
    return [turn.question for conversation in shipped(name) for turn in conversation.turns]


@pytest.mark.parametrize("name", NAMES)
def test_the_inventory_knows_their_fingerprint(name):
    assert WORKLOADS[name].fingerprint == fingerprint(shipped(name))


@pytest.mark.parametrize("name", REALISTIC)
def test_they_are_many_and_of_different_lengths(name):
    found = texts(name)
    lengths = sorted(map(len, found))
    assert len(found) >= 40
    assert lengths[-1] > 2 * lengths[0]
    assert lengths[0] > 50


def test_no_two_are_alike_nor_begin_so_that_a_cache_would_share_more_than_a_few_words():
    everything = [text for name in NAMES for text in texts(name)]
    assert len({text[:48] for text in everything}) == len(everything)


def test_there_is_no_file_that_nobody_asks():
    folder = Path(__file__).parents[2] / "sweep" / "workloads" / "data"
    assert {path.stem for path in folder.glob("*.jsonl")} == set(NAMES)
