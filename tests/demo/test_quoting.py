"""How the stand-in reads unit files: words, specifiers, variables, time spans."""

from __future__ import annotations

import pytest

from sweep.demo.manager.quoting import commands, environment_file, specifiers, split, substitute
from sweep.demo.manager.unitfile import UnitFile, clean_statuses, parse, span


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a  b\tc", ["a", "b", "c"]),
        ("\"a b\" 'c d'", ["a b", "c d"]),
        ('a"b c"d', ["ab cd"]),
        ('""', [""]),
        ("", []),
        (r"\x41 \101 \u2603 \s\t", ["A", "A", "☃", " \t"]),
        (r"a\qb", [r"a\qb"]),
        (r'"\"" "\\"', ['"', "\\"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert split(text) == words


def test_an_open_quote_is_an_error() -> None:
    with pytest.raises(ValueError, match="unbalanced"):
        split('a "b')


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a b ; c d", [["a", "b"], ["c", "d"]]),
        (r"a \; b", [["a", ";", "b"]]),
        ('a ";" b', [["a", ";", "b"]]),
        ('a "; " ; b', [["a", "; "], ["b"]]),
        ("a;b", [["a;b"]]),
    ],
)
def test_commands_of_one_line(text: str, found: list[list[str]]) -> None:
    assert commands(text) == found


def test_specifiers() -> None:
    assert specifiers("%t/x %% %n %q", {"t": "/run", "n": "u.service"}) == "/run/x % u.service %q"


@pytest.mark.parametrize(
    ("word", "words"),
    [("$A", ["x", "y"]), ("${A}", ["x y"]), ("-${A}-", ["-x y-"]), ("$$A", ["$A"]),
     ("$NONE", []), ("${NONE}", [""]), ("a$A", ["a$A"])],
)  # fmt: skip
def test_variables(word: str, words: list[str]) -> None:
    assert substitute([word], {"A": "x y"}) == words


def test_environment_files() -> None:
    text = (
        'A=plain  \nB="quo\\"te $x"\n# no=1\n;no=2\nC=\'as \\ is\'\nexport D=a\\ b\nE=\nno line\n'
    )
    assert environment_file(text) == {
        "A": "plain", "B": 'quo"te $x', "C": "as \\ is", "D": "a b", "E": "",
    }  # fmt: skip


def test_a_file_has_lists_resets_and_continued_lines() -> None:
    text = "[Service]\nExecStart=a \\\n  b\n# c\nEnvironment=A=1\nEnvironment=\nEnvironment=B=2\n"
    found = parse(text)
    assert found["Service", "Environment"] == ("B=2",)
    unit = UnitFile("u.service", found, specifiers={})
    assert [command.words for command in unit.commands("ExecStart")] == [("a", "b")]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1min 30s", 90), ("200ms", 0.2), ("1h", 3600), ("0", 0)],
)
def test_time_spans(text: str, seconds: float) -> None:
    assert span(text) == pytest.approx(seconds)


def test_a_time_span_that_is_none() -> None:
    with pytest.raises(ValueError, match="time span"):
        span("soon")


def test_success_statuses() -> None:
    assert clean_statuses("3 SIGKILL TERM") == (frozenset({3}), frozenset({9, 15}))
