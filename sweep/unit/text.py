"""The text of a unit: its directives, two units side by side, and what one of ours must hold."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from sweep.errors import InventoryError
from sweep.sglang.secrecy import without_secrets
from sweep.unit.directives import refusal
from sweep.unit.quoting import BLANK

# A directive of a unit: section, name, value.
Entry = tuple[str, str, str]

_LISTS_OF_UNITS = ("Conflicts", "After")
_REPEATED = (*_LISTS_OF_UNITS, "Environment", "EnvironmentFile")
_ANYBODYS = ("Description", *_REPEATED)


def entries(text: str) -> Iterator[Entry]:
    """The directives of a unit in order, lines that end in a backslash joined as systemd does."""
    section, pending = "", ""
    for raw in text.split("\n"):
        line = raw.strip(BLANK)
        if line.startswith(("#", ";")) or (not line and not pending):
            continue
        if (len(raw) - len(raw.rstrip("\\"))) % 2:
            pending += line[:-1] + " "
            continue
        line, pending = pending + line, ""
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif "=" in line:
            name, value = line.split("=", 1)
            yield section, name.strip(BLANK), value.strip(BLANK)


def check_relied_on(text: str, needed: Sequence[Entry], template: str) -> None:
    """A template of the user's may add to a unit; what the tool relies on must stand in it, alone.

    Raises InventoryError naming `template` and the line that is missing or in the way.
    """
    found = [entry for made in entries(text) for entry in _each_unit(made)]
    for section, name, value in needed:
        here = [given for where, key, given in found if (where, key) == (section, name)]
        if value not in here:
            raise InventoryError(
                f"{template}: its unit lacks `{name}={value}` in [{section}]; the tool relies on it"
            )
        if name not in _REPEATED and len(here) > 1:
            raise InventoryError(f"{template}: its unit has {name}= more than once in [{section}]")
    ours = {name for _, name, _ in needed}
    for _, name, value in found:
        reason = refusal(name)
        if reason and name not in ours and name not in _ANYBODYS:
            raise InventoryError(f"{template}: `{name}={value}` is not allowed: {reason}")


def unit_diff(old: str, new: str, old_name: str, new_name: str) -> str:
    """A unified diff of two units' texts, secrets masked; empty when the rest is the same."""
    before, after = (without_secrets(text).rstrip("\n").split("\n") for text in (old, new))
    lines = difflib.unified_diff(before, after, old_name, new_name, lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _each_unit(entry: Entry) -> Iterator[Entry]:
    section, name, value = entry
    if name in _LISTS_OF_UNITS:
        yield from ((section, name, word) for word in value.split())
    else:
        yield entry
