"""Start scripts: the commands in them, without running them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.init.shell import commands
from sweep.init.words import plain

ENVIRONMENT = {"HOME": "/root", "MODEL": "/models/from env"}


def words_of(script: str, *positional: str) -> list[list[str]]:
    found = commands(script, ENVIRONMENT, plain(positional))
    return [[word.text if word.known else "?" for word in command.words] for command in found]


CASES = [
    ("a b c", [["a", "b", "c"]]),
    ("a 'b  c' \"d e\"", [["a", "b  c", "d e"]]),
    ("a; b && c || d | e & f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
    ("a b # comment\nc#d", [["a", "b"], ["c#d"]]),
    ("a \\\n  b", [["a", "b"]]),
    ("exec a", [["a"]]),
    ("if true; then a; else b; fi", [["true"], ["a"], ["b"]]),
    ("a >/dev/null 2>&1 b", [["a", "b"]]),
    ("a &>log <in", [["a"]]),
    ("X=1; a $X", [["a", "1"]]),
    ("X='1 2'; a $X \"$X\"", [["a", "1", "2", "1 2"]]),
    ('a "$MODEL"', [["a", "/models/from env"]]),
    ("a ${MODEL:-x} ${NO:-/x} ${NO-y}", [["a", "/models/from", "env", "/x", "y"]]),
    ("a '$MODEL' \\$MODEL", [["a", "$MODEL", "$MODEL"]]),
    ('a ""', [["a", ""]]),
    ("a $NO", [["a"]]),
    ('a "$@"', [["a", "one two", "three"]]),
    ("a $1 ${2} $*", [["a", "one", "two", "three", "one two", "three"]]),
    ('X=(--a b "c d")\nX+=(e)\na "${X[@]}"', [["a", "--a", "b", "c d", "e"]]),
    ("X=(\n  --a # why\n  b \\\n  c\n)\na ${X[@]}", [["a", "--a", "b", "c"]]),
    ("a $(date +%s) b", [["a", "?", "b"]]),
    ("a `date` b", [["a", "?", "b"]]),
    ('a "x$(date)"', [["a", "?"]]),
    ('a \'{"x": "$y"}\'', [["a", '{"x": "$y"}']]),
    ("source /opt/v/bin/activate\na", [["a"]]),
    ("cd /srv && a", [["a"]]),
    ("a 'never closed", [["a", "never closed"]]),
    ("a $(never closed", [["a", "?"]]),
    ("", []),
]


@pytest.mark.parametrize(("script", "words"), CASES)
def test_commands(script: str, words: list[list[str]]) -> None:
    assert words_of(script, "/start.sh", "one two", "three") == words


def test_what_a_command_is_started_with() -> None:
    script = """#!/bin/bash
X=set
export A=1
export B=$A
export X
. /opt/v/bin/activate
cd /srv
C=3 a
"""
    command = commands(script, {"PATH": "/usr/bin"})[-1]
    environment = {name: word.text for name, word in command.environment.items()}
    assert environment.pop("PATH") == "/opt/v/bin:/usr/bin"
    assert environment == {"A": "1", "B": "1", "X": "set", "C": "3"}
    assert command.directory == "/srv"


def test_secrets_of_a_script_are_marked() -> None:
    script = "export HF_TOKEN=hunter2\nKEY=hunter3\na --api-key $KEY --b $HF_TOKEN"
    command = commands(script, {})[-1]
    assert "hunter" not in repr(command)
    assert [word.secret for word in command.words] == [None, None, "KEY", None, "HF_TOKEN"]
    assert command.environment["HF_TOKEN"].secret == "HF_TOKEN"


PIECES = st.sampled_from(
    ["a", " ", "\n", "'", '"', "$", "`", "(", ")", "{", "}", "${X", "${X:-", "$(", "\\", "\\\n",
     ";", "&", "|", ">", "<", "<<", "2>&1", "#", "X=", "X=(", "X+=(", "[@]", "@", "*", "exec ",
     "export ", "cd ", ". /v/bin/activate", "if ", "fi"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=25).map("".join))
def test_no_script_breaks_the_reader(script: str) -> None:
    for command in commands(script, {"X": "1"}, plain(["/x.sh", "y"])):
        assert command.words
