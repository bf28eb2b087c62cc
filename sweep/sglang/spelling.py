"""One flag alone: is it spelt as SGLang spells it, and does its value fit?

Every answer is None or one sentence "<what is wrong>; <what to do>" that names the releases the
rule was seen in.
"""

from __future__ import annotations

import difflib
import math
import re
from decimal import Decimal

from sweep.inventory import FlagValue, Scalar
from sweep.sglang.choices import meant
from sweep.sglang.flags import NEWEST, REMOVED, Flag, flags

# A flag this tool must not touch goes around it: words of the command are rendered as they are.
OLDER = "for a server that old write it as words of server.command"

OWNED = {
    "host": "is set by the tool (127.0.0.1); remove it",
    "port": "is set by the tool; write it as server.port of the host",
    "speculative-num-steps": "is set by the tool; write the values as steps of the sweep",
    "api-key": "would stand in the unit and in ps; write it under server.secrets",
    "admin-api-key": "would stand in the unit and in ps; write it under server.secrets",
    "ssl-keyfile-password": "would stand in the unit and in ps; write it under server.secrets",
    "ssl-keyfile": "makes the server speak HTTPS, and the tool asks it over plain HTTP; remove it",
    "ssl-certfile": "makes the server speak HTTPS, and the tool asks it over plain HTTP; remove it",
}
_SIZE = re.compile(r"(?P<number>\d+(?P<part>\.\d+)?)(?P<unit>[kMGT]|[KMGT]i)?")
_POWERS_OF_TEN = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_POWERS_OF_TWO = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
SECRET = ("api-key", "admin-api-key", "ssl-keyfile-password")


def shown(value: object) -> str:
    """A value as messages quote it: on one line, not too long."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f"'{text[:60]}...'" if len(text) > 60 else f"'{text}'"


def name_problem(name: str) -> str | None:
    """What is wrong with a flag's name, be it known or not: facts 1.5 and 1.6.

    A name that 0.5.23 does not have and that resembles none it has is let pass: newer releases and
    forks have more flags.
    """
    if name in flags():
        return None
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if plain != name:
        what = "is no spelling of a flag (small letters, digits, dashes between them)"
        return f"{what}; " + (f"did you mean '{plain}'?" if plain in flags() else "spell it so")
    return _removed(name) or _abbreviated(name) or _misspelt(name)


def _removed(name: str) -> str | None:
    if name not in REMOVED:
        return None
    last, new = REMOVED[name]
    what = f"is a flag that SGLang takes no longer (until {last}, newer ones end with exit 2)"
    return f"{what}; " + (f"write {new}, or " if new else "remove it, or ") + OLDER


def _abbreviated(name: str) -> str | None:
    longer = sorted({flag.name for known, flag in flags().items() if known.startswith(name)})
    if not longer:
        return None
    if len(longer) == 1:
        return (
            "is an abbreviation, which breaks with the next flag that begins alike; "
            f"write '{longer[0]}'"
        )
    some = ", ".join(longer[:4]) + (", ..." if len(longer) > 4 else "")
    return f"is ambiguous (SGLang {NEWEST} ends with exit 2); write one of {some} in full"


def _misspelt(name: str) -> str | None:
    # One letter wrong, missing or too many; more may be a flag of another release.
    near = difflib.get_close_matches(name, flags(), 1, cutoff=max(0.8, 1 - 1.2 / len(name)))
    return f"is no flag of SGLang {NEWEST}; did you mean '{near[0]}'?" if near else None


def value_problem(name: str, value: FlagValue) -> str | None:
    """What is wrong with a flag's value, by what the flag takes in 0.5.23; unknown flags take all.

    False for a flag with a value means "not given" and is right only where values are compared.
    """
    words = value if isinstance(value, tuple) else (value,)
    if any("\n" in str(word) or "\0" in str(word) for word in words):
        return "holds a line break or NUL, which no unit can carry; write it on one line"
    if name == "log-level" and str(value).lower() not in ("info", "debug"):
        return (
            f"at {shown(value)} hides the line with max_running_requests (SGLang 0.4.3 to "
            f"{NEWEST} print it at info); write info or remove it"
        )
    flag = flags().get(name)
    if flag is None:
        return None
    return _shape_problem(flag, value) or next(filter(None, (_word(flag, w) for w in words)), None)


def _shape_problem(flag: Flag, value: FlagValue) -> str | None:
    if flag.kind in ("bool", "optional-bool"):
        if not isinstance(value, bool):
            return f"is a switch and takes no value, not {shown(value)}; write true or false"
    elif isinstance(value, tuple) and not flag.words:
        return f"takes one value (SGLang {NEWEST}), not a list; write one"
    elif value == ():
        return "takes at least one word, not an empty list; write one or remove it"
    return None


def _word(flag: Flag, word: Scalar) -> str | None:
    text = str(word)
    wrong = None
    if flag.kind in ("bool", "optional-bool"):
        return None
    if isinstance(word, bool):
        wrong = "takes a value", "write the value, or remove it for SGLang's default"
    elif flag.kind == "int" and not re.fullmatch(r"-?\d+", text):
        wrong = "takes a whole number", "write one, such as 4"
    elif flag.kind == "float" and not _is_number(text):
        wrong = "takes a number", "write one, such as 0.85"
    elif flag.kind == "size" and size_of(text) is None:
        wrong = "takes a size", "write one, such as 131072 or 128k"
    elif flag.kind in ("str", "json") and isinstance(word, float):
        return f"is text, and {word!r} would be a number; write it in quotes"
    elif near := meant(text, flag.choices):
        return f"{shown(word)} is no value of it in SGLang up to {NEWEST}; did you mean '{near}'?"
    return wrong and f"{wrong[0]} (SGLang {NEWEST}), not {shown(word)}; {wrong[1]}"


def size_of(text: str) -> int | None:
    """128 of "128", 128000 of "128k", 131072 of "128Ki"; None where SGLang takes no size from it.

    Decimals go with powers of ten only: "1.5k" (srt/utils/common.py human_readable_int, 0.5.23).
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None or (found["part"] and found["unit"] not in _POWERS_OF_TEN):
        return None
    scale = _POWERS_OF_TEN.get(found["unit"]) or _POWERS_OF_TWO.get(found["unit"], 1)
    return int(Decimal(found["number"]) * scale)


def plain_size(name: str, word: Scalar) -> Scalar:
    """131072 for context-length 128Ki; any other flag's word as it is.

    Every release takes the plain number there, 0.5.9 takes nothing else.
    """
    flag = flags().get(name)
    size = size_of(str(word)) if flag is not None and flag.kind == "size" else None
    return word if size is None else size


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
