"""Reading by form says the same as reading the JSON of every event, whatever comes."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sweep.bench.client.answer import Answer
from sweep.bench.client.event import Said, read, said_by
from sweep.bench.client.frames import WINDOW, Form, learn
from sweep.bench.client.wire import Payload
from sweep.bench.client.wire import events as events_of
from tests.bench_client.server import FAULTS, Play, event, frame, native_stream, stream
from tests.bench_client.test_wire import START, arrivals, cut

END_OF_BODY = b"0\r\n\r\n"


def never(raw: bytes, at: int) -> None:
    """Learns nothing: every event is read as JSON."""


class Plain(Answer):
    """Takes the whole body first, then every event by its JSON: no way of reading it is quicker."""

    def _read(self, payload: Payload, learn: object) -> None:
        whole = payload.rest()
        for offset, name, data in events_of(whole.payload):
            self._event(bisect_right(self.ends, whole.place(offset)), name, data)


def said(answer: Answer) -> dict[str, object]:
    fields = ("error", "finish", "usage", "spec", "done", "places", "characters", "so_far", "told")
    return {name: getattr(answer, name) for name in fields} | {"brought": answer.brought()}


def same(pieces: Sequence[bytes]) -> Answer:
    """The answer in these pieces, once it is sure that all ways of reading agree on it."""
    quick = Answer(arrivals(pieces))
    assert said(quick) == said(Answer(arrivals(pieces), never)) == said(Plain(arrivals(pieces)))
    return quick


def body(events: Sequence[bytes]) -> bytes:
    return START + b"".join(map(frame, events)) + END_OF_BODY


class Counted:
    """Learns as the reader does, and counts the events that were read by their form."""

    def __init__(self) -> None:
        self.read = 0

    def __call__(self, raw: bytes, at: int) -> Form | None:
        form = learn(raw, at)
        return form and CountedForm(self, form)


class CountedForm:
    def __init__(self, counted: Counted, form: Form) -> None:
        self.counted, self.form = counted, form

    def run(self, raw: bytes, at: int) -> object:
        found = self.form.run(raw, at)
        self.counted.read += len(found.ends) if found else 0
        return found


def by_form(events: Sequence[bytes]) -> int:
    """How many of these events are read without JSON."""
    counted = Counted()
    whole = arrivals([body(events)])
    assert said(Answer(whole, counted)) == said(Answer(whole, never))
    return counted.read


TEXTS = st.text(max_size=8) | st.sampled_from(['"', "\\", "\n", "wörd", "😀", "\x7f", "%s", "%"])


def chat(text: str | None, so_far: int | None, **more: object) -> dict[str, object]:
    made = {"id": "c1", "created": 17, "choices": [{"delta": {"content": text}}], **more}
    count = {"prompt_tokens": 7, "total_tokens": 7 + (so_far or 0), "completion_tokens": so_far}
    return made if so_far is None else {**made, "usage": count}


@pytest.mark.parametrize("usage", ["each", "end"])
@pytest.mark.parametrize("per_chunk", [1, 4])
def test_nearly_all_events_are_read_by_their_form(usage, per_chunk):
    play = Play(tokens=400, per_chunk=per_chunk, usage=usage)
    assert by_form(list(stream(play))) > 400 // per_chunk - 5
    if usage == "each":
        assert by_form(list(native_stream(play))) > 400 // per_chunk - 5


def test_a_form_is_read_beyond_one_window():
    play = Play(tokens=3000)
    events = list(stream(play))
    assert len(body(events)) > 3 * WINDOW
    assert by_form(events) > 2990


def test_an_event_of_another_form_stops_nothing():
    events = [event(chat("a", number)) for number in range(1, 100)]
    events[50] = event(chat("a", 51, system_fingerprint="f"))
    assert by_form(events) > 90


@given(
    made=st.lists(
        st.tuples(
            TEXTS | st.none(),
            st.integers(0, 3) | st.none(),
            st.sampled_from([{}, {}, {}, {"created": 18}, {"id": "c2"}, {"error": None}]),
        ),
        max_size=30,
    ),
    ascii_only=st.booleans(),
    compact=st.booleans(),
    places=st.sets(st.integers(0, 4000), max_size=12),
)
@settings(max_examples=300, deadline=None)
def test_any_stream_is_read_alike(made, ascii_only, compact, places):
    events = []
    for text, so_far, more in made:
        separators = (",", ":") if compact else None
        told = json.dumps(
            chat(text, so_far, **more), ensure_ascii=ascii_only, separators=separators
        )
        events.append(b"data: " + told.encode("utf-8", "surrogatepass") + b"\n\n")
    same(cut(body([*events, event("[DONE]")]), places))


@given(
    play=st.builds(
        Play,
        tokens=st.integers(0, 30),
        per_chunk=st.integers(1, 4),
        usage=st.sampled_from(["each", "end", "none", "empty"]),
        verify=st.sampled_from([None, 5]),
        finish=st.sampled_from(["length", "abort"]),
        fault=st.sampled_from(["", "error event", "invalid json", "invalid utf-8", "no done"]),
        after=st.integers(0, 20),
    ),
    native=st.booleans(),
    places=st.sets(st.integers(0, 6000), max_size=12),
    at=st.integers(0, 8000),
    broken=st.binary(max_size=3),
)
@settings(max_examples=300, deadline=None)
def test_any_broken_answer_is_read_alike(play, native, places, at, broken):
    raw = body(list(native_stream(play) if native else stream(play)))
    same(cut(raw, places))
    same(cut(raw[:at], places))
    same(cut(raw[:at] + broken + raw[at:], places))
    same(cut(raw[:at] + broken + raw[at + len(broken) :], places))


LINES = [
    b"data: ", b"event: error", b"event: x", b": remark", b"", b"\r", b"data", b"id: 3",
    b'data: {"choices": [{"delta": {"content": "a"}}], "usage": {"completion_tokens": 3}}',
    b'data: {"choices": [{"delta": {"content": "b"}}], "usage": {"completion_tokens": 4}}',
    b'data: {"choices": [{"delta": {"content": "b"}}], "usage": {"completion_tokens": 05}}',
    b'data: {"choices": [{"delta": {"content": "a\\q"}}], "usage": {"completion_tokens": 5}}',
    b'data: {"choices": [{"delta": {"content": "a\xff"}}], "usage": {"completion_tokens": 5}}',
    b'data: {"choices": [{"delta": {"content": "a"}}], "usage": {"completion_tokens": 5.5}}',
    b'data: {"choices": [{"text": "a", "index": 0}], "usage": {}}',
    b'data: {"choices": [{"text": "b\\u00e9", "index": 0}], "usage": {}}',
    b'data: {"text": "a", "output_ids": [1], "meta_info": {"completion_tokens": 1}}',
    b'data: {"text": "ab", "output_ids": [1, 20], "meta_info": {"completion_tokens": 2}}',
    b'data: {"text": "ab", "output_ids": [1, 02], "meta_info": {"completion_tokens": 3}}',
]  # fmt: skip


@given(
    chunks=st.lists(st.lists(st.sampled_from(LINES), max_size=4), max_size=25),
    size=st.sampled_from([b"%x\r\n", b"%X\r\n", b"0%x\r\n", b"%x;more\r\n", b"%d\r\n"]),
    blank=st.sampled_from([b"\n\n", b"\n", b"\r\n\r\n"]),
)
@example(chunks=[[LINES[1], LINES[8]], [LINES[8]], [LINES[9]], [LINES[9]]], size=b"%x\r\n",
         blank=b"\n\n")  # fmt: skip
@settings(max_examples=500, deadline=None)
def test_any_lines_in_any_chunks_are_read_alike(chunks, size, blank):
    raw = START
    for lines in chunks:
        data = b"\n".join(lines) + blank
        raw += size % len(data) + data + b"\r\n"
    same([raw + END_OF_BODY])


def test_what_stands_in_a_hole_is_what_the_json_says():
    """A name that only looks like one of a count, or a text that is counted nowhere."""
    events = [
        b'data: {"choices": [{"delta": {"x\\"content": "ab"}}], "completion_tokens": 4}\n\n',
        b'data: {"choices": [{"delta": {"content": "ab", "content": "c"}}]}\n\n',
        b'data: {"choices": [], "usage": {"completion_tokens": 1, "completion_tokens": 2}}\n\n',
        b'data: {"a": {"content": "ab"}, "usage": {"completion_tokens": 3}}\n\n',
    ]
    for one in events:
        assert learn(frame(one), 0) is None
        same([body([one] * 20)])


def test_events_that_are_errors_are_never_a_form():
    failed = event({"error": {"message": "no"}, **chat("a", 1)})
    assert same([body([event(chat("a", 1)), *[failed] * 20])]).error.startswith("error event")
    named = b"event: error\n" + event(chat("a", 1))
    assert same([body([named, *[event(chat("a", 1))] * 20])]).error.startswith("error event")


@pytest.mark.parametrize("behind", range(-6, 7))
def test_a_read_that_ends_near_the_end_of_a_chunk(behind):
    """The event is in the read that has its last byte, not in that of the blank line."""
    events = list(stream(Play(tokens=20)))
    ends = list(accumulate([len(START), *(len(frame(one)) for one in events)]))
    for number in (3, 4, 5, 19):
        same(cut(body(events), {*ends, ends[number] + behind}))
        same(cut(body(events), {*ends, ends[number] + behind} - {ends[number]}))


def test_a_long_line_among_others_is_read_alike():
    events = list(stream(Play(tokens=50)))
    assert same([body([*events[:20], FAULTS["long line"], *events[20:]])]).error is None


@pytest.mark.parametrize(
    "text", ["", '"', "\\", "\n", "\t", "é", "😀", "%b", "\u2028", "\ud83d", "a\x7fb"]
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_texts_of_any_kind_have_the_same_length(text, ascii_only):
    events = []
    for number in range(1, 12):
        told = json.dumps(chat(text * number, None), ensure_ascii=ascii_only)
        events.append(b"data: " + told.encode("utf-8", "surrogatepass") + b"\n\n")
    same([body(events)])


NAMES = st.sampled_from(["c1", "", "0a-b_C", "a.b", "é", '"', "\\", "%b", "x" * 40, 5, None])


@given(
    name=NAMES,
    prompt=st.integers(0, 2000) | st.sampled_from([10**17, 10**18, -1, 1.5, None, "7"]),
    count=st.integers(0, 40),
    at=st.integers(0, 8000),
    broken=st.binary(max_size=3) | st.sampled_from([b'"', b"0", b"9", b"e5", b"\\", b"\n", b"}"]),
    cut_at=st.sets(st.integers(0, 8000), max_size=6),
)
@settings(max_examples=400, deadline=None)
def test_what_other_answers_taught_makes_nothing_of_this_one(
    name, prompt, count, at, broken, cut_at
):
    """Names and prompts differ from answer to answer; forms are remembered without them."""
    events = []
    for number in range(count):
        told = {"completion_tokens": number, "total_tokens": 9, "prompt_tokens": prompt}
        events.append(event(chat("a" * (number % 3), None, id=name, usage=told)))
    raw = body([*events, event("[DONE]")])
    same(cut(raw, cut_at))
    same(cut(raw[:at] + broken + raw[at:], cut_at))
    same(cut(raw[:at] + broken + raw[at + len(broken) :], cut_at))


@pytest.mark.parametrize(
    "ids", ["", " ", "1", "0", "1, 20", "1,20", "1,", ",1", "1 2", "01", "1,  2", "9" * 19]
)
def test_ids_are_what_json_has_for_them(ids):
    told = b'{"text": "a", "output_ids": [%s], "meta_info": {"completion_tokens": %d}}'
    events = [b"data: " + told % (ids.encode(), number) + b"\n\n" for number in range(1, 40)]
    broken = same([body([*events, event("[DONE]")])]).error
    assert (broken or "").startswith("invalid JSON") == (ids in ("1,", ",1", "1 2", "01"))
    assert same([body([*events[:20], events[20].replace(b"[", b"[,"), *events])]).error is not None


def by_json(data: bytes) -> Said | None:
    told = json.loads(data.decode("utf-8"))
    return said_by(told) if isinstance(told, dict) and not told.get("error") else None


def without_id(said: Said | None) -> Said | None:
    return said and said._replace(usage={**said.usage, "id": 0}, spec={**said.spec, "id": 0})


@given(
    told=st.sampled_from([
        chat("ab", 3), chat(None, None), chat("a", 1, error={"id": "x"}), {"error": "id"},
        {"a": '"id": "x"', "meta_info": {"id": "c1", "completion_tokens": 4}}, {'x"id': "ab"},
    ]),
    compact=st.booleans(),
    at=st.integers(0, 200),
    broken=st.binary(max_size=2) | st.sampled_from([b'"', b'"id": "x"', b'"id":"', b"\\", b"\xff"]),
)  # fmt: skip
@settings(max_examples=500, deadline=None)
def test_an_event_says_the_same_without_its_id(told, compact, at, broken):
    data = json.dumps(told, separators=(",", ":") if compact else None).encode()
    for one in (data, data[:at] + broken + data[at:], data[:at] + broken + data[at + 1 :]):
        try:
            expected = by_json(one)
        except ValueError as error:
            with pytest.raises(type(error)):
                read(one)
        else:
            assert without_id(read(one)) == without_id(expected)
