"""Files of conversations in every form, good ones and broken ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.errors import InventoryError
from sweep.inventory import FileWorkload
from sweep.workloads import Conversation, Turn, fingerprint, read_file, read_workload

SHAREGPT = {
    "id": "x1",
    "conversations": [
        {"from": "gpt", "value": "left over from a part before"},
        {"from": "human", "value": "one?"},
        {"from": "gpt", "value": "1"},
        {"from": "human", "value": "two?"},
        {"from": "gpt", "value": "2"},
    ],
}
OPENAI = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "one?"}]},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "two?"},
    ]
}
QUESTIONS = {"question_id": 81, "category": "writing", "turns": ["one?", "two?"]}


def written(tmp_path: Path, text: str, **more: object) -> FileWorkload:
    (tmp_path / "f").write_text(text)
    return read_file(FileWorkload(file="f", **more), tmp_path)


def found(tmp_path: Path, *values: object, **more: object) -> tuple[Conversation, ...]:
    return read_workload(written(tmp_path, "\n".join(map(json.dumps, values)), **more))


def questions(conversation: Conversation) -> list[tuple[str, str]]:
    return [(turn.question, turn.answer) for turn in conversation.turns]


@pytest.mark.parametrize(
    ("value", "turns"),
    [
        (SHAREGPT, [("one?", "1"), ("two?", "2")]),
        (OPENAI, [("one?", "1"), ("two?", "")]),
        ({"custom_id": "7", "body": OPENAI}, [("one?", "1"), ("two?", "")]),
        # Nobody has answered the first question: the second cannot be asked.
        (QUESTIONS, [("one?", "")]),
        (QUESTIONS | {"reference": ["1", "2"]}, [("one?", "1"), ("two?", "2")]),
        ({"prompt": "one?"}, [("one?", "")]),
        (
            {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]},
            [("a\nb", "")],
        ),
    ],
)
def test_every_form(tmp_path, value, turns):
    (conversation,) = found(tmp_path, value)
    assert questions(conversation) == turns
    assert conversation.system == ("Be brief." if "messages" in json.dumps(value) and "Be brief" in
                                   json.dumps(value) else "")  # fmt: skip


def test_an_array_is_as_good_as_lines(tmp_path):
    values = [SHAREGPT, OPENAI, QUESTIONS]
    lines = found(tmp_path, *values)
    for indent in (None, 2):
        assert read_workload(written(tmp_path, json.dumps(values, indent=indent))) == lines


def test_a_conversation_as_it_is_replayed(tmp_path):
    (conversation,) = found(tmp_path, OPENAI)
    assert conversation.messages(0) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "one?"},
    ]
    assert conversation.messages(1, "(2)\n") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "(2)\none?"},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "two?"},
    ]


def test_at_most_so_many_turns(tmp_path):
    assert [len(one.turns) for one in found(tmp_path, SHAREGPT, max_turns=1)] == [1]
    assert written(tmp_path, json.dumps(SHAREGPT)).turns == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"prompt": "a"}\n\n{"prompt": }\n', "f:3: is not JSON"),
        ('[{"prompt": "a"},\n {"prompt": "b"},\n {"prompt"]', "f:3: is not JSON here"),
        ('[{"prompt": "a"},\n', "f:2: the array does not end as it should"),
        ('[{"prompt": "a"}] x', "f:1: the array does not end"),
        ('{"prompt": "a"}\n"b"\n', "f:2: is no JSON object"),
        ('{"text": "a"}', "f:1: has none of the keys conversations, messages, turns, prompt"),
        ('{"prompt": 5}', "f:1: prompt is no text"),
        ('{"prompt": " "}', "f:1: prompt holds an empty question"),
        ('{"turns": "a"}', "f:1: turns is no list"),
        ('{"conversations": [{"from": "me", "value": "a"}]}', "f:1: conversations: 'from' is 'me'"),
        ('{"messages": [{"role": "tool", "content": "a"}]}', "f:1: messages: 'role' is 'tool'"),
        ('{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}', "f:1: content"),
        ('{"conversations": []}', "f: holds no conversation with a question"),
        ("", "f: holds no conversation with a question"),
        ("[" * 100000, "f:1: is not JSON here"),
    ],
)
def test_what_is_wrong_is_told_by_line(tmp_path, text, problem):
    with pytest.raises(InventoryError) as caught:
        written(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/{problem}")


def test_a_format_that_is_named_must_be_the_one_there_is(tmp_path):
    assert found(tmp_path, QUESTIONS, format="questions")
    with pytest.raises(InventoryError, match=r"f:1: is of the format questions .*, not sharegpt"):
        found(tmp_path, QUESTIONS, format="sharegpt")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InventoryError, match="none: cannot be read: No such file"):
        read_file(FileWorkload(file="none"), tmp_path)
    (tmp_path / "f").write_bytes(b'{"prompt": "a"}\n\xff')
    with pytest.raises(InventoryError, match="f:2: is not UTF-8 text here"):
        read_file(FileWorkload(file="f"), tmp_path)
    with (tmp_path / "f").open("wb") as file:
        file.truncate(65 << 20)
    with pytest.raises(InventoryError, match="is larger than 64 MB"):
        read_file(FileWorkload(file="f"), tmp_path)


def test_a_file_that_has_changed_is_refused(tmp_path):
    spec = written(tmp_path, '{"prompt": "a"}')
    (tmp_path / "f").write_text('{"prompt": "a", "id": 7}\n\n')
    assert read_workload(spec) == (Conversation((Turn("a"),)),)
    (tmp_path / "f").write_text('{"prompt": "b"}')
    with pytest.raises(InventoryError, match=r"f has changed: it held texts .*; put it back"):
        read_workload(spec)


TEXTS = st.lists(st.text(min_size=1), min_size=1, max_size=4)


@given(st.lists(TEXTS, min_size=1, max_size=3), st.lists(TEXTS, min_size=1, max_size=3))
def test_the_fingerprint_is_that_of_the_texts(one, other):
    a, b = ([Conversation(tuple(map(Turn, texts))) for texts in many] for many in (one, other))
    assert (fingerprint(a) == fingerprint(b)) == (a == b)
