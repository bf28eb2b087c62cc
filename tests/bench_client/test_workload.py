"""What is sent: the same every time, no prompt twice, and never the warm-up's."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.bench.workload import (
    CHAT,
    COMPLETIONS,
    NATIVE,
    Workload,
    workload_of,
)
from sweep.benchmarks import remark
from sweep.errors import InventoryError
from sweep.inventory import WORKLOADS, BuiltinBenchmark, FileWorkload, SyntheticWorkload
from sweep.workloads import Conversation, Turn, read_file

SYNTHETIC = SyntheticWorkload(input_tokens=50, output_tokens=20)


def bodies(concurrency: int, model: str = "m", **settings: object) -> list[dict[str, Any]]:
    return workload_of(BuiltinBenchmark(**settings)).bodies(model, concurrency)


def asked(body: dict[str, Any]) -> str:
    return "\n".join(message["content"] for message in body["messages"])


@pytest.mark.parametrize(("concurrency", "count"), [(1, 4), (2, 4), (4, 8), (16, 32), (64, 128)])
def test_the_published_number_of_requests(concurrency, count):
    assert len(bodies(concurrency)) == count
    assert len(bodies(concurrency, requests=7)) == 7


def test_the_published_requests():
    body, *rest = bodies(16, "the-model")
    assert body["model"] == "the-model"
    assert (body["temperature"], body["max_tokens"], body["ignore_eos"]) == (0.0, 1000, True)
    assert body["stream"] is True
    assert body["stream_options"]["include_usage"] is True
    assert "top_p" not in body
    assert [message["role"] for message in body["messages"]] == ["user"]
    # Sixteen prompts, in turn, as they are.
    assert [asked(one) for one in rest[15:]] == [asked(one) for one in (body, *rest[:15])]


@pytest.mark.parametrize("name", sorted(set(WORKLOADS) - {"greedy"}))
def test_a_realistic_workload(name):
    found = bodies(1, workload=name)
    assert len({asked(body) for body in found}) == len(found) == 40
    assert {body["ignore_eos"] for body in found} == {False}
    assert {body["max_tokens"] for body in found} == {WORKLOADS[name].max_tokens}
    assert {body.get("top_p", 1.0) for body in found} == {WORKLOADS[name].top_p}
    # Every concurrency asks the same texts, then more of them.
    more = bodies(32, workload=name)
    assert more[:40] == found
    assert len({asked(body) for body in more}) == len(more) == 64


def test_settings_reach_the_request():
    body = bodies(1, workload="code", max_tokens=7, temperature=0.5, top_p=0.8, ignore_eos=True)[0]
    sent = body["max_tokens"], body["temperature"], body["top_p"], body["ignore_eos"]
    assert sent == (7, 0.5, 0.8, True)
    json.dumps(body)


WORKLOAD = st.one_of(st.sampled_from(sorted(WORKLOADS)), st.just(SYNTHETIC))


@given(WORKLOAD, st.integers(0, 99), st.integers(1, 70), st.integers(1, 200))
def test_two_trials_send_the_same_in_the_same_order(workload, seed, concurrency, requests):
    settings = {"workload": workload, "seed": seed, "requests": requests}
    assert bodies(concurrency, **settings) == bodies(concurrency, **settings)


@given(WORKLOAD, st.integers(1, 70), st.integers(1, 200))
def test_no_request_is_sent_twice_unless_told_so(workload, concurrency, requests):
    found = bodies(concurrency, workload=workload, requests=requests, unique_prompts=True)
    assert len({json.dumps(body) for body in found}) == len(found) == requests


def test_the_seed_changes_the_order_alone():
    one, other = bodies(1, workload="chat"), bodies(1, workload="chat", seed=1)
    assert one != other
    assert Counter(map(asked, one)) == Counter(map(asked, other))


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 120))
def test_a_cache_that_is_not_emptied_has_seen_no_prompt(one, other, requests):
    workload = workload_of(BuiltinBenchmark(workload="chat", requests=requests))
    first = workload.bodies("m", one)
    then = workload.bodies("m", other, asked_before=workload.rounds(one))
    assert {asked(body) for body in first}.isdisjoint(asked(body) for body in then)


def test_prompts_that_may_repeat_do():
    found = bodies(1, workload="chat", requests=80, unique_prompts=False)
    assert found[:40] == found[40:]


def test_random_tokens_are_as_many_as_asked_for():
    workload = workload_of(BuiltinBenchmark(workload=SYNTHETIC))
    found = workload.bodies("m", 4)
    assert (workload.path, workload_of(BuiltinBenchmark()).path) == (COMPLETIONS, CHAT)
    assert {len(body["prompt"]) for body in [*found, *workload.warmups("m", 4)]} == {50}
    assert {body["max_tokens"] for body in found} == {20}
    assert len(found) == 8
    # Another concurrency on the same server would find these in its cache.
    assert found[0]["prompt"] != workload.bodies("m", 5)[0]["prompt"]


LONG = tuple(Turn(f"q{number}", f"a{number}") for number in range(5))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.integers(1, 20))
def test_conversations_grow_and_their_questions_keep_their_distance(lengths, concurrency):
    talks = tuple(
        Conversation(tuple(Turn(f"{i}:{t.question}", t.answer) for t in LONG[:length]))
        for i, length in enumerate(lengths)
    )
    spec = BuiltinBenchmark(
        workload=FileWorkload(file="f", turns=max(lengths)), requests=6 * concurrency
    )
    found = Workload(spec, talks).bodies("m", concurrency)
    last: dict[str, tuple[int, list[object]]] = {}
    for place, body in enumerate(found):
        messages = body["messages"]
        first = messages[0]["content"]
        if len(messages) > 1:
            before, said = last[first]
            assert messages[: len(said)] == said
            assert len(messages) == len(said) + 2
            assert place - before > concurrency
        last[first] = place, messages


def test_a_file_that_changes_after_the_plan_was_made_is_not_sent(tmp_path):
    path = tmp_path / "f"
    path.write_text('{"prompt": "a"}')
    spec = BuiltinBenchmark(workload=read_file(FileWorkload(file="f"), tmp_path))
    assert asked(workload_of(spec).bodies("m", 1)[0]) == "a"
    path.write_text('{"prompt": "b"}')
    with pytest.raises(InventoryError, match="has changed"):
        workload_of(spec)


def test_warm_ups_are_of_no_trial_and_differ_from_the_first_word():
    found = workload_of(BuiltinBenchmark(workload="chat")).warmups("m", 64)
    texts = [asked(body) for body in found]
    assert len({text.split()[0] for text in texts}) == 64
    everything = {asked(body) for name in WORKLOADS for body in bodies(64, workload=name)}
    assert not everything & set(texts)
    # Sampling has kernels of its own, which are compiled at first use.
    assert {(body["temperature"], body["top_p"]) for body in found} == {(0.7, 0.95)}
    assert {(body["max_tokens"], body["ignore_eos"]) for body in found} == {(100, True)}


@pytest.mark.parametrize(
    ("workload", "told"), [("greedy", "greedy"), (SYNTHETIC, "synthetic"), ("chat", None)]
)
def test_what_to_know_of_a_workload(workload, told):
    said = remark(BuiltinBenchmark(workload=workload).label)
    assert (said.partition(":")[0] if said else None) == told


@pytest.mark.parametrize("workload", ["greedy", "chat", SYNTHETIC])
def test_the_native_endpoint_is_asked_the_same(workload):
    settings = {"workload": workload, "max_tokens": 20, "temperature": 0.5, "top_p": 0.9}
    openai = bodies(3, **settings)
    native = bodies(3, **settings, endpoint="native")
    assert len(native) == len(openai)
    for one, other in zip(native, openai, strict=True):
        if "messages" in other:
            assert one["text"] == "\n\n".join(message["content"] for message in other["messages"])
        else:
            assert one["input_ids"] == other["prompt"]
        assert one["sampling_params"] == {
            "max_new_tokens": 20, "temperature": 0.5, "top_p": 0.9,
            "ignore_eos": other["ignore_eos"],
        }  # fmt: skip
        assert one["stream"] is True
    asks = workload_of(BuiltinBenchmark(**settings, endpoint="native"))
    assert asks.path == NATIVE
    for warm_up in asks.warmups("m", 3):
        assert warm_up["sampling_params"]["max_new_tokens"] == 100
        assert warm_up["sampling_params"]["ignore_eos"] is True


def test_a_rate_stands_in_the_name():
    assert BuiltinBenchmark(workload="chat", rate=4).label == "chat-4rps"
    assert BuiltinBenchmark(workload="chat", rate=0.25).label == "chat-0.25rps"
    assert remark("greedy-4rps") == remark("greedy") is not None
    synthetic = BuiltinBenchmark(workload=SYNTHETIC, rate=1e-5)
    assert remark(synthetic.label) == remark("synthetic-1-1") is not None
