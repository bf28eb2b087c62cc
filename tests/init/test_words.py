"""Words as systemd expands them, files of variables, and what is taken for a secret."""

from __future__ import annotations

import pytest

from sweep.init.words import Word, environment_file, expand
from sweep.sglang.secrecy import holds_secret, names_secret
from sweep.unit.quoting import environment_file_line

ENVIRONMENT = {"A": "one two", "B": "b", "EMPTY": "", "API_KEY": "hunter2"}

EXPANDED = [
    ("plain", ["plain"]),
    ("$A", ["one", "two"]),
    ("${A}", ["one two"]),
    ("x${B}y${B}", ["xbyb"]),
    ("$$A", ["$A"]),
    ("a$A", ["a$A"]),
    ("$EMPTY", []),
    ("${EMPTY}", [""]),
    ("$NOWHERE", []),
    ("${NOWHERE}", [""]),
    ("", [""]),
]


@pytest.mark.parametrize(("word", "words"), EXPANDED)
def test_expand(word: str, words: list[str]) -> None:
    assert [found.text for found in expand([word], ENVIRONMENT)] == words


def test_a_secret_keeps_the_name_of_its_variable_and_is_never_shown() -> None:
    words = expand(["--api-key", "${API_KEY}", "$API_KEY"], ENVIRONMENT)
    assert [word.secret for word in words] == [None, "API_KEY", "API_KEY"]
    assert "hunter2" not in repr(words)
    assert Word("hf_0123456789abcdef").shown == "<secret>"


def test_environment_file() -> None:
    text = """# comment
; another
A=1
 B = two words
C="a \\"quoted\\" $x"
D='single \\ '
E=a\\ b
F='it'"'"'s'
G=continued \\
  here
not an assignment
1H=x
I=
"""
    assert environment_file(text) == {
        "A": "1", "B": "two words", "C": 'a "quoted" $x', "D": "single \\ ", "E": "a b",
        "F": "it's", "G": "continued   here", "I": "",
    }  # fmt: skip


@pytest.mark.parametrize("value", ["", "a b", '"', "\\", "$x `y`", "it's", "# x", "é☃", 'a\\"b'])
def test_what_the_tool_writes_can_be_read_back(value: str) -> None:
    assert environment_file(environment_file_line("A", value, "key")) == {"A": value}


SECRET_NAMES = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "API_KEY", "AWS_SECRET_ACCESS_KEY",
                "OPENAI_APIKEY", "DB_PASSWORD", "PGPASSWD", "GCP_CREDENTIALS"]  # fmt: skip
OPEN_NAMES = ["TOKENIZERS_PARALLELISM", "MAX_TOKENS", "SGLANG_MAX_TOKENS_X", "PATH", "CUDA_HOME"]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_names_of_secrets(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize("name", OPEN_NAMES)
def test_names_of_no_secrets(name: str) -> None:
    assert not names_secret(name)


def test_values_that_give_themselves_away() -> None:
    assert holds_secret("http://user:pass@proxy:3128")
    assert holds_secret('{"auth": "hf_0123456789abcdef"}')
    assert not holds_secret("http://proxy:3128")
    assert not holds_secret("hf_transfer")
