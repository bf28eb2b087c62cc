"""The three languages, as tables; what they mean to a real systemd is in test_on_systemd.py."""

from __future__ import annotations

import pytest

from sweep.errors import InventoryError
from sweep.unit.quoting import (
    directive_value,
    environment_assignment,
    environment_file_line,
    exec_word,
    executable,
    rest_of_line,
)

# text, as a word of ExecStart=, as Environment=A=text, as a line of an EnvironmentFile
LANGUAGES = [
    ("", '""', "A=", 'A=""'),
    ("plain", "plain", "A=plain", 'A="plain"'),
    ("/m/Qwen3.5-122B@v1", "/m/Qwen3.5-122B@v1", "A=/m/Qwen3.5-122B@v1", 'A="/m/Qwen3.5-122B@v1"'),
    ("--flag", "--flag", "A=--flag", 'A="--flag"'),
    ("a b", '"a b"', '"A=a b"', 'A="a b"'),
    (" ", '" "', '"A= "', 'A=" "'),
    (";", '";"', '"A=;"', 'A=";"'),
    ("#", '"#"', '"A=#"', 'A="#"'),
    ("50%", '"50%%"', '"A=50%%"', 'A="50%"'),
    ("$HOME ${X}", '"$$HOME $${X}"', '"A=$HOME ${X}"', r'A="\$HOME \${X}"'),
    ('say "x"', "'say \"x\"'", "'A=say \"x\"'", r'A="say \"x\""'),
    ("it's", '"it\'s"', '"A=it\'s"', 'A="it\'s"'),
    ("\"'", r'''"\"'"''', r'''"A=\"'"''', r'''A="\"'"'''),
    ("a\\", r'"a\\"', r'"A=a\\"', r'A="a\\"'),
    ("`x`", '"`x`"', '"A=`x`"', r'A="\`x\`"'),
    ("é☃😀", '"é☃😀"', '"A=é☃😀"', 'A="é☃😀"'),
    ("a\tb", r'"a\x09b"', r'"A=a\x09b"', 'A="a\tb"'),
    ('{"a": "100%"}', '\'{"a": "100%%"}\'', '\'A={"a": "100%%"}\'', r'A="{\"a\": \"100%\"}"'),
]


@pytest.mark.parametrize(("text", "word", "assignment", "line"), LANGUAGES)
def test_three_languages(text: str, word: str, assignment: str, line: str) -> None:
    assert exec_word(text, "key") == word
    assert environment_assignment("A", text, "key") == assignment
    assert environment_file_line("A", text, "key") == line


def test_control_characters_are_written_by_number_in_words() -> None:
    assert exec_word("\r\x1b[0m", "key") == r'"\x0d\x1b[0m"'


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/usr/bin/python3", "/usr/bin/python3"),
        ("/opt/my env/python", '"/opt/my env/python"'),
        ("/opt/50%/python", '"/opt/50%%/python"'),
        ("/-@:+!|x", '"/-@:+!|x"'),
    ],
)
def test_executable(path: str, word: str) -> None:
    assert executable(path, "server.command") == word


@pytest.mark.parametrize(
    "path", ["python3", "", "-/bin/x", "@/bin/x", "/bin/", '/a"b', "/a'b", "/a\\b", "/a$b", "/a\tb"]
)
def test_executable_refused(path: str) -> None:
    with pytest.raises(InventoryError, match=r"^server\.command: "):
        executable(path, "server.command")


@pytest.mark.parametrize("text", ["a\nb", "\n", "a\0b", "\ufdd0", "\ufffe", "\U0010ffff", "\ud800"])
def test_refused_in_every_language(text: str) -> None:
    for attempt in (
        lambda: exec_word(text, "some.key"),
        lambda: executable(f"/{text}", "some.key"),
        lambda: environment_assignment("A", text, "some.key"),
        lambda: environment_file_line("A", text, "some.key"),
        lambda: rest_of_line(text, "some.key"),
        lambda: directive_value(text, "some.key"),
    ):
        with pytest.raises(InventoryError, match=r"^some\.key: "):
            attempt()


@pytest.mark.parametrize("text", ["\x01", "\r", "\x1b[31m", "\x7f"])
def test_control_characters_refused_where_systemd_drops_them(text: str) -> None:
    for attempt in (
        lambda: environment_assignment("A", text, "some.key"),
        lambda: environment_file_line("A", text, "some.key"),
        lambda: rest_of_line(text, "some.key"),
    ):
        with pytest.raises(InventoryError, match=r"^some\.key: .*control"):
            attempt()


@pytest.mark.parametrize("name", ["", "1A", "A B", "A-B", "Ä", "A="])
def test_names_of_variables(name: str) -> None:
    with pytest.raises(InventoryError, match=r"^some\.key: "):
        environment_assignment(name, "x", "some.key")
    with pytest.raises(InventoryError, match=r"^some\.key: "):
        environment_file_line(name, "x", "some.key")


@pytest.mark.parametrize("text", [" x", "x ", "x\\"])
def test_rest_of_line_keeps_its_ends(text: str) -> None:
    with pytest.raises(InventoryError, match=r"^server\.user: "):
        rest_of_line(text, "server.user")


def test_refusals_never_repeat_a_value() -> None:
    for refuse in (exec_word, rest_of_line):
        with pytest.raises(InventoryError) as caught:
            refuse("hunter2\n", "some.key")
        assert "hunter2" not in str(caught.value)
