"""What is a secret in a unit or a command line, by its name or by its look, and hiding it there.

Units and command lines of other people are shown by the tool: differences to production's unit, who
has a port or a card. What `init --from` takes for a secret is masked in all of them.
"""

from __future__ import annotations

import re

from sweep.sglang.redact import MASK

# Variables and values that hold a secret. TOKENIZERS_PARALLELISM and MAX_TOKENS do not.
_NAME = r"(?:TOKEN(?!IZ|S\b|S_)|KEY|SECRET|PASSW|CREDENTIAL)"
_FLAG = r"(?:api[-_]?key|token|secret|password)"
_LOOKS = r"\b(?:hf_|sk-|gh[po]_|github_pat_|glpat-|nvapi-|xox[bp]-|AKIA)[A-Za-z0-9_-]{12,}"
_IN_URL = r"[^/@\s]+:[^/@\s]+"
_SECRET_NAME = re.compile(_NAME)
_SECRET_FLAG = re.compile(rf"(?:^|-){_FLAG}$")
_SECRET_VALUE = re.compile(rf"://{_IN_URL}@|{_LOOKS}|\bBearer\s+\S")

# How a name is written before its value: NAME=, --flag=, --flag and blanks or a joined line.
_BEFORE = (
    rf"(?:(?<![\w-])(?!KeyringMode=)\w{{0,80}}?{_NAME}\w{{0,80}}="
    rf"|--(?:[\w-]{{0,80}}?[-_])?{_FLAG}(?:=|(?:[ \t]|\\\n)+(?!-)))"
)
# ${NAME} is filled in by systemd and tells nothing.
_KNOWN = r"(?!\$\{\w+\}(?:[\s\"']|$)|\[redacted\])"
_WORD = r"""(?:'[^'\n]*'|"(?:\\.|[^"\\\n])*"|\\.|[^\s'"\\])+"""
_PATTERNS = tuple(
    (re.compile(pattern, re.IGNORECASE), kept)
    for pattern, kept in (
        # "NAME=several words": the quotes are around both
        (rf"""(["'])({_BEFORE}){_KNOWN}(?:\\.|(?!\1)[^\\\n])+\1""", rf"\1\2{MASK}\1"),
        (rf"({_BEFORE}){_KNOWN}{_WORD}", rf"\1{MASK}"),
        # {"api_key": "X"}
        (
            r"((?:api_?key|token|secret|password)['\"]\s{0,2}:\s{0,2})(?:'[^'\n]*'|\"[^\"\n]*\")",
            rf"\1{MASK}",
        ),
        (rf"(://){_IN_URL}(?=@)", rf"\1{MASK}"),
        (r"(\bBearer\s+)(?!\[redacted\])[^\s'\"]+", rf"\1{MASK}"),
        (_LOOKS, MASK),
    )
)


def names_secret(name: str) -> bool:
    """Does a variable of this name hold a secret, as far as names go?"""
    return bool(_SECRET_NAME.search(name.upper()))


def flag_names_secret(flag: str) -> bool:
    """The same of a flag, as `api-key`: a flag like --ssl-keyfile names a file."""
    return bool(_SECRET_FLAG.search(flag))


def holds_secret(text: str) -> bool:
    """Does a text look as if it held a secret, whatever its name?"""
    return bool(_SECRET_VALUE.search(text))


def is_secret(name: str, value: str) -> bool:
    return names_secret(name) or holds_secret(value)


def without_secrets(text: str) -> str:
    """A unit or a command line as it may be shown to anybody; names stay, values are masked."""
    for pattern, kept in _PATTERNS:
        text = pattern.sub(kept, text)
    return text
