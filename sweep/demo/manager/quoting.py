"""How systemd reads words: quotes, C escapes, specifiers, variables, environment files. Pure."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping

_BLANK = " \t\n\r"
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPES |= {"\\": "\\", '"': '"', "'": "'", "s": " "}
_NUMBERS = {"x": (2, 16), "u": (4, 16), "U": (8, 16)}
_VARIABLE = re.compile(r"\$(?:(\$)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_WHOLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


def commands(text: str) -> list[list[str]]:
    """An Exec line's commands: a lone `;` parts them, `\\;` is a semicolon."""
    found: list[list[str]] = []
    begin = 0
    for lone in re.finditer(r"(?:^|(?<=[ \t])) *;(?=[ \t]|$)", text):
        try:
            found.append(split(text[begin : lone.start()]))
        except ValueError:
            continue  # it stands within quotes
        begin = lone.end()
    found.append(split(text[begin:]))
    return [[";" if word == "\\;" else word for word in words] for words in found]


def split(text: str) -> list[str]:
    """Words of ExecStart= or Environment=: blanks part them, quotes bind, C escapes are read.

    Raises ValueError for a quote that is not closed.
    """
    words: list[str] = []
    word: bytearray | None = None
    quote = ""
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            read, at = _escape(text, at + 1)
            word = (word or bytearray()) + read
            continue
        at += 1
        if quote:
            if char == quote:
                quote = ""
            else:
                word = (word or bytearray()) + char.encode()
        elif char in "\"'":
            quote, word = char, word or bytearray()
        elif char in _BLANK:
            if word is not None:
                words.append(_text(word))
            word = None
        else:
            word = (word or bytearray()) + char.encode()
    if quote:
        raise ValueError("unbalanced quoting")
    return [*words, _text(word)] if word is not None else words


def _escape(text: str, at: int) -> tuple[bytes, int]:
    """What an escape stands for, and where reading goes on; `at` is behind the backslash."""
    char = text[at]
    if char in _ESCAPES:
        return _ESCAPES[char].encode(), at + 1
    length, base = _NUMBERS.get(char, (3, 8))
    start = at + 1 if char in _NUMBERS else at
    digits = text[start : start + length]
    allowed = string.hexdigits if base == 16 else string.octdigits
    if len(digits) == length and all(digit in allowed for digit in digits):
        number = int(digits, base)
        encoded = chr(number).encode() if char in "uU" else bytes([number & 0xFF])
        return encoded, start + length
    return b"\\" + char.encode(), at + 1  # unknown: it stays as it is


def _text(word: bytearray) -> str:
    return word.decode("utf-8", "surrogateescape")


def specifiers(text: str, values: Mapping[str, str]) -> str:
    """`%t` and friends; `%%` is a percent sign, an unknown one stays."""
    return re.sub(
        "%(.)", lambda found: {"%": "%", **values}.get(found[1], found[0]), text, flags=re.DOTALL
    )


def substitute(words: list[str], environment: Mapping[str, str]) -> list[str]:
    """Variables of a command line: `$NAME` as a word splits, `${NAME}` does not, `$$` is `$`."""
    found: list[str] = []
    for word in words:
        whole = _WHOLE.fullmatch(word)
        if whole:
            found += environment.get(whole[1], "").split()
        else:
            found.append(_VARIABLE.sub(lambda v: v[1] or environment.get(v[2] or "", ""), word))
    return found


def environment_file(text: str) -> dict[str, str]:
    """An EnvironmentFile: `NAME=value` lines, a shell's quotes, `#` and `;` comments."""
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end].lstrip()
        name, equals, _ = line.partition("=")
        if not equals or line.startswith(("#", ";")):
            at = end + 1
            continue
        value, at = _value(text, text.index("=", at) + 1)
        found[name.strip().removeprefix("export ").strip()] = value
    return found


def _value(text: str, at: int) -> tuple[str, int]:
    """One value, to the newline that ends it; blanks around what is not quoted are cut off."""
    value, kept = "", 0
    quote = ""
    while at < len(text) and text[at] in " \t":
        at += 1
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\\" and quote != "'" and at < len(text):
            following = text[at]
            at += 1
            if following == "\n":
                continue
            if quote and following not in '"\\$`':
                value += char
            value += following
            kept = len(value)
        elif quote:
            if char == quote:
                quote = ""
            else:
                value += char
            kept = len(value)
        elif char in "\"'":
            quote = char
        elif char == "\n":
            break
        else:
            value += char
            kept = kept if char in " \t\r" else len(value)
    return value[:kept], at
