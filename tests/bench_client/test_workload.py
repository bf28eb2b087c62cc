"""What is sent: the same every time, and never the warm-up's."""

from __future__ import annotations

import dataclasses
import json

import pytest

from sweep.bench.workload import GREEDY, WORKLOADS, bodies, named, request_count, warmups
from sweep.errors import InventoryError
from sweep.inventory import BuiltinBenchmark


@pytest.mark.parametrize(("concurrency", "count"), [(1, 4), (2, 4), (4, 8), (16, 32), (64, 128)])
def test_the_published_number_of_requests(concurrency, count):
    assert request_count(BuiltinBenchmark(), concurrency) == count
    assert len(bodies(BuiltinBenchmark(), "m", concurrency)) == count
    assert len(bodies(BuiltinBenchmark(requests=7), "m", concurrency)) == 7


def test_the_published_request():
    body = bodies(BuiltinBenchmark(), "the-model", 1)[0]
    assert body["model"] == "the-model"
    assert body["temperature"] == 0.0
    assert body["max_tokens"] == 1000
    assert body["ignore_eos"] is True
    assert body["stream"] is True
    assert body["stream_options"]["include_usage"] is True
    assert [message["role"] for message in body["messages"]] == ["user"]
    json.dumps(body)


def test_settings_reach_the_request():
    body = bodies(BuiltinBenchmark(max_tokens=7, temperature=0.5), "m", 1)[0]
    assert (body["max_tokens"], body["temperature"]) == (7, 0.5)


def test_the_same_settings_give_the_same_requests():
    assert bodies(BuiltinBenchmark(), "m", 16) == bodies(BuiltinBenchmark(), "m", 16)


def test_warm_ups_are_of_no_trial_and_differ_from_the_first_word():
    texts = [body["messages"][0]["content"] for body in warmups("m", 64)]
    assert len({text.split()[0] for text in texts}) == 64
    prompts = {prompt for workload in WORKLOADS.values() for prompt in workload.prompts}
    assert not prompts & set(texts)


def test_prompts_are_distinct_and_begin_differently():
    assert len({prompt[:12] for prompt in GREEDY.prompts}) == len(GREEDY.prompts) >= 16


def test_the_fingerprint_follows_the_prompts():
    changed = dataclasses.replace(GREEDY, prompts=(*GREEDY.prompts, "One more."))
    assert changed.fingerprint() != GREEDY.fingerprint()
    assert len(GREEDY.fingerprint()) == 12


def test_an_unknown_name():
    assert named("greedy") is GREEDY
    with pytest.raises(InventoryError, match="did you mean 'greedy'"):
        named("gredy")
    with pytest.raises(InventoryError, match="there is: greedy"):
        named("xyz")
