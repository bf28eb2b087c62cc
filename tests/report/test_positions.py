"""Accepted drafts by position, from the server's histograms and from acceptance lengths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sweep.report.analysis import analyse
from sweep.report.data import load_results
from sweep.report.plots.acceptance import _from_lengths
from sweep.report.plots.throughput import pareto
from sweep.report.positions import gpus, positions, shares_of
from tests.report.nights import make_night


@pytest.mark.parametrize(
    ("histograms", "shares"),
    [
        ([], []),
        ([None, None], []),
        ([[0, 0, 0]], []),
        ([[2, 3, 5]], [0.8, 0.5]),
        ([[1, 1], [1, 1, 2]], [4 / 6, 2 / 6]),
        ([None, [0, 4]], [1.0]),
        ([["x"], [1, 1]], [0.5]),
    ],
)
def test_shares_of_histograms(histograms: list[Any], shares: list[float]) -> None:
    assert shares_of(histograms) == pytest.approx(shares)


def test_from_the_records_of_a_run(tmp_path: Path) -> None:
    results = load_results([make_night(tmp_path, (0, 1, 3), (1, 4)).path])
    found = positions(results, analyse(results).groups[0])
    assert {steps: len(shares) for steps, shares in found.items()} == {1: 1, 3: 3}
    assert found[3] == pytest.approx([0.82, 0.67, 0.55], abs=0.08)


@pytest.mark.parametrize(
    ("lengths", "shares"),
    [
        ({}, {}),
        ({1: 1.8, 2: 2.4, 3: 2.7}, {3: [0.8, 0.6, 0.3]}),
        ({1: 1.8, 3: 2.7}, {1: [0.8]}),
        ({2: 2.4}, {}),
        ({1: 1.8, 2: 1.7}, {2: [0.8, 0.0]}),
    ],
)
def test_from_acceptance_lengths(lengths: dict[int, float], shares: dict[int, list[float]]) -> None:
    found = _from_lengths(lengths)
    assert found.keys() == shares.keys()
    for steps, expected in shares.items():
        assert found[steps] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("args", "count"),
    [
        ({}, None),
        ({"model-path": "/m"}, 1),
        ({"tp-size": 4}, 4),
        ({"tp-size": 4, "pp-size": 2, "dp-size": 2}, 16),
        ({"tp-size": 8, "dp-size": 8, "enable-dp-attention": True}, 8),
    ],
)
def test_gpus_of_a_plan(args: dict[str, object], count: int | None) -> None:
    document = {"plan": {"launches": [{"args": [list(pair) for pair in args.items()]}]}}
    assert gpus(document) == count
    assert gpus({}) is None


@pytest.mark.parametrize(
    ("points", "front"),
    [
        ([(1, 1)], [(1, 1)]),
        ([(1, 3), (2, 2), (3, 1)], [(1, 3), (2, 2), (3, 1)]),
        ([(1, 3), (2, 2), (2, 1), (1, 2)], [(1, 3), (2, 2)]),
        ([(1, 1), (2, 2)], [(2, 2)]),
        ([(2, 2), (2, 2)], [(2, 2)]),
    ],
)
def test_pareto(points: list[tuple[float, float]], front: list[tuple[float, float]]) -> None:
    assert pareto(points) == front
