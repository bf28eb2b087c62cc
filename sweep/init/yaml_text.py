"""Values as YAML that every reader takes alike, and that `load_inventory` accepts."""

from __future__ import annotations

import json
import re

import yaml

# Plain only where no reader of YAML can see a number, a date, a truth value or syntax.
_PLAIN = re.compile(r"-{0,2}[A-Za-z_/][A-Za-z0-9_./+@=-]*(:[A-Za-z0-9_./+@=-]+)*")
_WORDS = re.compile(r"y|n|yes|no|on|off|true|false|null|inf|nan", re.IGNORECASE)
# What JSON writes in a way that YAML reads differently, or that YAML does not allow at all.
_BEYOND_JSON = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff]|[^\x00-\uffff]")


def scalar(value: object) -> str:
    """A string, number or truth value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    return _text(str(value))


def flow(values: tuple[object, ...]) -> str:
    """[a, b]"""
    return f"[{', '.join(map(scalar, values))}]"


def comment(text: str) -> str:
    """Text for behind a `#`: one line, nothing that ends it."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _number(value: float) -> str:
    text = repr(value)
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    sign = exponent if exponent[0] in "+-" else f"+{exponent}"
    return f"{mantissa}{'' if '.' in mantissa else '.0'}e{sign}"


def _text(value: str) -> str:
    if _PLAIN.fullmatch(value) and not _WORDS.fullmatch(value):
        return value
    if _BEYOND_JSON.search(value):
        quoted: str = yaml.safe_dump(
            value, default_style='"', allow_unicode=False, width=float("inf")
        )
        return quoted.strip()
    # Single quotes know no escapes: what is in them stands as it is.
    if '"' in value and "'" not in value and value.isprintable():
        return f"'{value}'"
    return json.dumps(value, ensure_ascii=False)
