"""A report as blocks of text, tables and figures; `html`, `markdown`, `terminal` render it. Pure.

Every text is plain: a renderer escapes it for its own language.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Tone = Literal["plain", "note", "warning"]


@dataclass(frozen=True)
class Text:
    """One paragraph. A `note` may be read past, a `warning` may not."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]
    title: str = ""


@dataclass(frozen=True)
class Code:
    """Something to paste. `title` says what it is."""

    text: str
    title: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of texts under `columns`; the first cell of a row is its header.

    `words`: the columns that hold words, by number; all others hold numbers. `strong` are the
    cells, as (row, column), that the eye should find first.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = frozenset()
    strong: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Answer:
    """What is best at one load; `steps` is None where nothing was measured.

    `headline` is against the baseline; `doubt`: what of the choice itself is open, if anything.
    """

    label: str
    steps: int | None
    headline: str
    facts: tuple[str, ...]
    sure: bool
    doubt: str = ""


def steps_text(steps: int) -> str:
    """A steps value in a sentence."""
    return "no speculation" if steps == 0 else "1 step" if steps == 1 else f"{steps} steps"


@dataclass(frozen=True)
class Answers:
    """The answer at each load."""

    title: str
    items: tuple[Answer, ...]


@dataclass(frozen=True)
class Panel:
    """One picture. `svg` is for the page (see `plots.svg`); `alt` says in words what it shows.

    A `wide` panel needs the whole width where there is some; a `narrow` one is the same picture
    for a phone.
    """

    svg: str = field(repr=False)
    alt: str
    width: Literal["normal", "wide", "narrow"] = "normal"


@dataclass(frozen=True)
class Figure:
    """A figure of one or more panels; `name` is that of its files, without their ending."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]


Block = Text | Bullets | Code | Table | Answers | Figure


@dataclass(frozen=True)
class Section:
    """A part of the page under its heading; `id` is its anchor."""

    id: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """The whole report."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
