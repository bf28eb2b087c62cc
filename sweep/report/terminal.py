"""A document in a terminal: its first answers and tables, as rich shows them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from textwrap import indent

from rich.console import Group as Together
from rich.console import RenderableType
from rich.table import Table as RichTable
from rich.text import Text as RichText

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
)


def shown(document: Document, sections: tuple[str, ...] = ("answer",)) -> RenderableType:
    """The sections whose ids begin with one of `sections`, without figures."""
    return Together(
        *(
            part
            for section in document.sections
            if section.id.startswith(sections)
            for part in _section(section)
        )
    )


def _section(section: Section) -> Iterator[RenderableType]:
    yield RichText(section.title, style="bold")
    for block in section.blocks:
        yield _block(block)


@singledispatch
def _block(block: Block) -> RenderableType:
    raise TypeError(f"no form for {type(block).__name__}")


@_block.register
def _(block: Text) -> RenderableType:
    return RichText(block.text, style="yellow" if block.tone == "warning" else "")


@_block.register
def _(block: Bullets) -> RenderableType:
    lines = [block.title] if block.title else []
    return RichText("\n".join([*lines, *(f"- {item}" for item in block.items)]))


@_block.register
def _(block: Code) -> RenderableType:
    code = RichText(indent(block.text.rstrip(), "  "))
    return Together(RichText(f"{block.title}:"), code) if block.title else code


@_block.register
def _(block: Table) -> RenderableType:
    table = RichTable(title=RichText(block.caption), title_justify="left")
    for number, name in enumerate(block.columns):
        table.add_column(RichText(name), justify="left" if number in block.words else "right")
    for row, cells in enumerate(block.rows):
        table.add_row(
            *(
                RichText(cell, style="bold" if (row, column) in block.strong else "")
                for column, cell in enumerate(cells)
            )
        )
    return table


@_block.register
def _(block: Answers) -> RenderableType:
    table = RichTable(show_edge=False, pad_edge=False)
    table.add_column("")
    table.add_column("steps", justify="right")
    table.add_column("", overflow="fold")
    for item in block.items:
        steps = "-" if item.steps is None else str(item.steps)
        said = RichText(item.headline, style="bold")
        if item.facts:
            said.append("\n" + "\n".join(item.facts), style="not bold")
        table.add_row(item.label, RichText(steps, style="bold"), said)
    return table


@_block.register
def _(block: Figure) -> RenderableType:
    return RichText(f"{block.title}: {block.name}.svg")
