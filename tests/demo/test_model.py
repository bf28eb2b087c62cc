"""The model behind the simulator has the shape of the published sweep."""

from __future__ import annotations

import statistics
from itertools import pairwise

import pytest

from sweep.demo.model import Acceptance, Limits, truth

PUBLISHED_CAPACITY = {1: (26, 455357), 2: (21, 377207)}
PUBLISHED_ABOUT = {3: 17, 4: 14}
PUBLISHED_ALONE = {0: 122, 1: 124.3, 2: 185.7, 3: 234, 4: 277.4, 5: 281.7}


def test_capacity_is_the_published_one_and_falls_with_every_step() -> None:
    found = [truth(steps) for steps in range(11)]
    for steps, (requests, tokens) in PUBLISHED_CAPACITY.items():
        assert found[steps].max_running_requests == requests
        assert found[steps].max_total_num_tokens == tokens
    for steps, requests in PUBLISHED_ABOUT.items():
        assert found[steps].max_running_requests == requests
    for fewer, more in pairwise(found):
        assert more.max_running_requests < fewer.max_running_requests
        assert more.max_total_num_tokens < fewer.max_total_num_tokens


@pytest.mark.parametrize("steps", PUBLISHED_ALONE)
def test_one_request_alone_runs_at_the_published_rate(steps: int) -> None:
    assert truth(steps).rate(1) == pytest.approx(PUBLISHED_ALONE[steps])


@pytest.mark.parametrize(("concurrency", "best"), [(4, 4), (16, 3), (32, 3), (64, 3)])
def test_the_best_steps_are_the_published_ones(concurrency: int, best: int) -> None:
    assert max(range(11), key=lambda steps: truth(steps).aggregate(concurrency)) == best


def test_acceptance_rises_and_flattens() -> None:
    lengths = [truth(steps).accept_length() for steps in range(11)]
    gains = [more - fewer for fewer, more in pairwise(lengths)]
    assert lengths[0] == 1
    assert gains == sorted(gains, reverse=True)
    assert gains[-1] > 0


def test_sampling_accepts_less_than_greedy() -> None:
    assert truth(4).accept_length(0.7) < truth(4).accept_length(0.0)


def test_drawn_acceptance_is_repeatable_and_has_the_right_mean() -> None:
    chances = truth(4).chances()
    drawn = [Acceptance(chances, 7).at(step) for step in range(50)]
    again = Acceptance(chances, 7)
    assert [again.at(step) for step in reversed(range(50))] == drawn[::-1]
    many = Acceptance(chances, 1)
    mean = statistics.fmean(many.at(step) for step in range(20000))
    assert 1 + mean == pytest.approx(truth(4).accept_length(), rel=0.02)


def test_limits_of_the_command_line() -> None:
    assert truth(2, limits=Limits(max_running_requests=48)).max_running_requests == 21
    assert truth(2, limits=Limits(max_running_requests=8)).max_running_requests == 8
    tight = truth(2, limits=Limits(max_total_tokens=10))
    assert (tight.max_total_num_tokens, tight.max_running_requests) == (10, 5)
    less = truth(2, limits=Limits(mem_fraction_static=0.8))
    assert less.max_total_num_tokens < truth(2).max_total_num_tokens
