"""What neighbours say: much where noise hides a curve, nothing where it does not."""

from __future__ import annotations

import math

import pytest

from sweep.report.beliefs import MOST_POINTS, believe
from sweep.report.estimates import Belief, Estimate
from sweep.report.summary import Noise

TWO_PEAKS = (100.0, 200.0, 150.0, 220.0, 180.0)
HILL = (100.0, 140.0, 170.0, 190.0, 200.0, 200.0, 190.0, 170.0)


def points(levels: tuple[float, ...], loads: tuple[int, ...] = (1,)) -> dict[str, list[Estimate]]:
    return {
        str(load): [
            Estimate(str(load), steps, load, 1, math.log(level * load), 0.0, 1.0, 1.0)
            for steps, level in enumerate(levels)
        ]
        for load in loads
    }


def believed(sigma: float, levels: tuple[float, ...], loads: tuple[int, ...] = (1,)) -> Belief:
    return believe(Noise(sigma, 100, True), points(levels, loads))["1"]


def test_without_noise_nothing_is_borrowed() -> None:
    found = believed(0.001, TWO_PEAKS)
    assert [math.exp(one) for one in found.mean] == pytest.approx(TWO_PEAKS, rel=0.005)
    assert found.top(range(5)) == 3


def test_a_slip_on_a_hill_is_taken_for_noise_where_there_is_much() -> None:
    slipped = (*HILL[:4], 180.0, *HILL[5:])
    loads = (1, 4, 16, 64)
    noisy = points(HILL, loads) | {"1": points(slipped)["1"]}
    found = believe(Noise(0.08, 100, True), noisy)["1"]
    assert math.exp(found.mean[4]) > 188, "all its neighbours say 200"
    quiet = believe(Noise(0.002, 100, True), noisy)["1"]
    assert math.exp(quiet.mean[4]) == pytest.approx(180, rel=0.01)


def test_a_difference_is_as_unsure_as_its_points() -> None:
    unsure, sure = believed(0.05, HILL), believed(0.005, HILL)
    assert unsure.difference(4, 0)[1] > sure.difference(4, 0)[1] > 0
    assert sure.difference(4, 4) == (0.0, 0.0)


def test_too_many_points_and_a_single_one_are_left_to_themselves() -> None:
    many = points(tuple(float(100 + steps) for steps in range(MOST_POINTS + 1)))
    assert believe(Noise(0.02, 100, True), many) == {}
    assert believe(Noise(0.02, 100, True), points((100.0,))) == {}
