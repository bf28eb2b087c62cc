"""The values in SGLang's `server_args=` line: what it resolved its command line to.

`ServerArgs(a=1, b='x')` up to 0.5.17, a dict `{'a': 1, 'b': 'x'}` from 0.5.20 on
(srt/entrypoints/engine.py). Read by a small tokenizer, never by `eval`: a value may be the repr of
any object, text in quotes may look like another argument, and the line may be cut short.
"""

from __future__ import annotations

import re

# Longer than any line seen (0.5.23 prints about 16 KB), short enough to stay cheap.
LONGEST = 256 * 1024

Value = str | int | float | bool | None

_TOKEN = re.compile(
    # a string that is cut goes on to the end, else each of its quotes would be tried in turn
    r"(?P<text>'(?:[^'\\]|\\.|\\\Z)*(?:'|\Z)|\"(?:[^\"\\]|\\.|\\\Z)*(?:\"|\Z))"
    r"|(?P<open>[(\[{<])|(?P<close>[)\]}>])|(?P<comma>,)|(?P<equals>=)|(?P<colon>:)"
    r"|(?P<word>[^\s'\"()\[\]{}<>,=:]+)|(?P<rest>\s)",
    re.DOTALL,
)
_INT = re.compile(r"-?[0-9]{1,18}")
_FLOAT = re.compile(r"-?[0-9]{1,18}\.?[0-9]{0,18}(?:e[+-]?[0-9]{1,2})?")
_CONSTANTS: dict[str, Value] = {"None": None, "True": True, "False": False}


def server_args(text: str) -> dict[str, Value]:
    """Arguments by name from what follows `server_args=`: scalars only, lists and objects left out.

    Stops at the closing bracket, or where the text ends.
    """
    values: dict[str, Value] = {}
    key: str | None = None
    depth, parts = 0, list[str]()
    for token in _TOKEN.finditer(text[:LONGEST]):
        kind, word = token.lastgroup, token[0]
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
            if depth <= 0:
                break
        if depth == 1 and kind == "comma":
            _keep(values, key, parts)
            key, parts = None, []
        elif depth == 1 and kind in ("equals", "colon") and key is None and parts:
            key, parts = parts[-1].strip("'\""), []
        elif depth > 1 or kind not in ("open", "rest"):
            parts.append(word)
    if depth <= 0:
        _keep(values, key, parts)
    return values


def _keep(values: dict[str, Value], key: str | None, parts: list[str]) -> None:
    if key is None or not parts:
        return
    text = "".join(parts)
    if text in _CONSTANTS:
        values[key] = _CONSTANTS[text]
    elif _INT.fullmatch(text):
        values[key] = int(text)
    elif _FLOAT.fullmatch(text):
        values[key] = float(text)
    elif len(parts) == 1 and text[0] in "'\"":
        values[key] = re.sub(r"\\(['\"\\])", r"\1", text[1:-1])
