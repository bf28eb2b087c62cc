"""A document as Markdown, for a repository, an issue or a terminal. Pure."""

from __future__ import annotations

import re
from functools import singledispatch

from sweep.report.document import (
    Answers,
    Block,
    Bullets,
    Code,
    Document,
    Figure,
    Section,
    Table,
    Text,
    steps_text,
)

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&$])")
_FENCE = re.compile(r"`{3,}")


def page(document: Document) -> str:
    """The whole file. Figures are the files beside it."""
    parts = [f"# {plain(document.title)}", plain(document.subtitle)]
    parts += [_section(section) for section in document.sections]
    return "\n\n".join(part for part in parts if part) + "\n"


def plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    line = " ".join(text.split())
    escaped = _SPECIAL.sub(r"\\\1", line)
    # What would begin a list, a rule or a heading at the start of a line.
    return re.sub(r"^(\d+)([.)])(?=\s|$)|^([-+])(?=\s|$)|^([-=])(?=\4*$)", r"\1\\\2\3\4", escaped)


def _section(section: Section) -> str:
    return "\n\n".join([f"## {plain(section.title)}", *map(_block, section.blocks)])


@singledispatch
def _block(block: Block) -> str:
    raise TypeError(f"no form for {type(block).__name__}")


@_block.register
def _(block: Text) -> str:
    return f"> {plain(block.text)}" if block.tone == "warning" else plain(block.text)


@_block.register
def _(block: Bullets) -> str:
    items = "\n".join(f"- {plain(item)}" for item in block.items)
    return f"### {plain(block.title)}\n\n{items}" if block.title else items


@_block.register
def _(block: Code) -> str:
    longest = max((len(found) for found in _FENCE.findall(block.text)), default=2)
    fence = "`" * (longest + 1)
    title = f"{plain(block.title)}:\n\n" if block.title else ""
    return f"{title}{fence}\n{block.text.rstrip()}\n{fence}"


@_block.register
def _(block: Table) -> str:
    rule = ["---" if column in block.words else "--:" for column in range(len(block.columns))]
    lines = [
        tuple(map(plain, block.columns)),
        tuple(rule),
        *(tuple(_cell(block, row, column) for column in range(len(cells)))
          for row, cells in enumerate(block.rows)),
    ]  # fmt: skip
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{plain(block.caption)}\n\n{table}"


def _cell(table: Table, row: int, column: int) -> str:
    text = plain(table.rows[row][column])
    return f"**{text}**" if text and (row, column) in table.strong else text


@_block.register
def _(block: Answers) -> str:
    told = []
    for item in block.items:
        steps = "nothing measured" if item.steps is None else f"**{steps_text(item.steps)}**"
        head = f"- {plain(item.label)}: {steps}, {plain(item.headline)}"
        told.append("\n".join([head, *(f"  - {plain(fact)}" for fact in item.facts)]))
    return "\n".join(told)


@_block.register
def _(block: Figure) -> str:
    caption = f"\n\n{plain(block.caption)}" if block.caption else ""
    alt = plain(f"{block.title}. {'. '.join(dict.fromkeys(p.alt for p in block.panels))}")
    return f"### {plain(block.title)}\n\n![{alt}]({block.name}.png){caption}"
