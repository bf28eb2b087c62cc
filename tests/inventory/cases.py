"""The table of bad inventories: data/bad.txt explains its form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Case:
    """One inventory and every line of its refusal, without the file's name."""

    name: str
    text: str
    refusal: tuple[str, ...]


def bad_cases() -> Iterator[Case]:
    """Every case of the table."""
    sections = re.split(r"^=== ", (DATA / "bad.txt").read_text(), flags=re.MULTILINE)
    base = sections[1].split("\n", 1)[1]
    for section in sections[2:]:
        title, body = section.split("\n", 1)
        found = re.fullmatch(r"(.*?)(?: \[(\w+)\])?", title)
        assert found is not None
        lines = body.rstrip("\n").split("\n")
        given = [line for line in lines if not line.startswith(">>> ")]
        refusal = tuple(line.removeprefix(">>> ") for line in lines if line.startswith(">>> "))
        text = "\n".join(given) + "\n" if found[2] is None else _in_slot(base, found[2], given)
        # The one character that no text file may hold stands in for NUL.
        yield Case(found[1], text.replace("␀", "\0"), refusal)


def _in_slot(base: str, slot: str, given: list[str]) -> str:
    """The base with the lines in place of `[slot]`; other slots are comments."""
    lines: list[str] = []
    for line in base.rstrip("\n").split("\n"):
        found = re.fullmatch(r"( *)\[(\w+)\]", line)
        if found is None:
            lines.append(line)
        elif found[2] == slot:
            lines += [found[1] + one for one in given]
        else:
            lines.append(f"{found[1]}# nothing for {found[2]}")
    return "\n".join(lines) + "\n"


def base_text() -> str:
    """The base alone, with a valid line in [args]."""
    sections = re.split(r"^=== ", (DATA / "bad.txt").read_text(), flags=re.MULTILINE)
    return _in_slot(sections[1].split("\n", 1)[1], "args", ["speculative-eagle-topk: 1"])
