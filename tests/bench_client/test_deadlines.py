"""Deadlines grow with what is sent, and SGLang's own watchdog comes before ours."""

from __future__ import annotations

import json

import pytest

from sweep.bench.backends import backend_for
from sweep.bench.deadlines import stall_timeout_s, trial_timeout_s
from sweep.inventory import BuiltinBenchmark
from tests.bench_client.test_backends import context


@pytest.mark.parametrize(
    ("settings", "concurrency", "admitted", "expected"),
    [
        # 660 s for the first tokens and the flush, then 2 tok/s: 4 rounds, and a warm-up of 100
        ({}, 1, 48, 660 + (4 * 1000 + 100) / 2),
        ({}, 64, 64, 660 + (2 * 1000 + 100) / 2),
        ({}, 64, None, 660 + (2 * 1000 + 100) / 2),
        # what is not admitted waits for its turn: 128 requests by 9 at a time
        ({}, 64, 9, 660 + (15 * 1000 + 8 * 100) / 2),
        ({"requests": 640}, 64, 64, 660 + (10 * 1000 + 100) / 2),
        ({"rate": 0.5}, 64, 64, 660 + 128 / 0.5 + (2 * 1000 + 100) / 2),
        ({"max_tokens": 64}, 1, 48, 660 + (4 * 64 + 100) / 2),
        ({"trial_timeout_s": 77.0}, 64, 9, 77.0),
    ],
)
def test_a_trial_may_take_as_long_as_its_tokens(settings, concurrency, admitted, expected):
    assert trial_timeout_s(BuiltinBenchmark(**settings), concurrency, admitted) == expected


@pytest.mark.parametrize(
    ("settings", "watchdog_s", "expected"),
    [
        ({}, None, 480.0),
        ({}, 300.0, 480.0),
        ({}, 10.0, 120.0),
        ({}, 1e6, 900.0),
        ({"stall_timeout_s": 5.0}, 300.0, 5.0),
    ],
)
def test_a_stall_is_longer_than_the_servers_own_watchdog_needs(settings, watchdog_s, expected):
    assert stall_timeout_s(BuiltinBenchmark(**settings), watchdog_s) == expected


def test_the_client_is_told():
    job = json.loads(backend_for(BuiltinBenchmark()).job(context()).files["job.json"])
    assert job["first_timeout_s"] >= job["stall_timeout_s"]
    assert job["idle_timeout_s"] > job["stall_timeout_s"]
    assert job["timeout_s"] > job["first_timeout_s"]
