"""A document as one HTML file that needs nothing else: no script, no network, no other file. Pure.

Light or dark is the reader's own choice (prefers-color-scheme), for the figures too: their colours
are the style sheet's (`palette`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import singledispatch
from html import escape as escaped
from importlib import resources

from sweep.report import palette
from sweep.report.document import (
    Answer,
    Answers,
    Block,
    Bullets,
    Code,
    Document,
    Figure,
    Panel,
    Section,
    Table,
    Text,
)

# Nothing is fetched and nothing runs, whatever a row's text may hold.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_WIDE_TABLE = 7
# A number and its unit stay on one line.
_UNIT = re.compile(r"(?<=\d) (?=(?:%|ms|tok/s|steps?|h|min|s)(?:\W|$))")

# What a log may hold and a page may not: a terminal's escapes, NUL.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def escape(text: str) -> str:
    """Text as HTML holds it, in content and in attributes."""
    return _UNIT.sub("\u00a0", escaped(_CONTROL.sub("\ufffd", text)))


def page(document: Document) -> str:
    """The whole file."""
    style = resources.files("sweep.report").joinpath("page.css").read_text()
    head = (
        '<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(document.title)}</title>\n"
        f"<style>\n{palette.style_sheet()}{style}</style>\n"
    )
    body = (
        f"<header><h1>{escape(document.title)}</h1>\n"
        f'<p class="note">{escape(document.subtitle)}</p></header>\n'
        f"{_contents(document.sections)}"
        f"<main>\n{_joined(map(_section, document.sections))}</main>\n"
    )
    whole = f"<head>\n{head}</head>\n<body>\n{body}</body>\n"
    return f'<!doctype html>\n<html lang="en">\n{whole}</html>\n'


def _contents(sections: Iterable[Section]) -> str:
    links = _joined(
        f'<li><a href="#{escape(one.id)}">{escape(one.title)}</a></li>\n' for one in sections
    )
    return f'<nav aria-label="Contents"><ul>\n{links}</ul></nav>\n'


def _section(section: Section) -> str:
    return (
        f'<section id="{escape(section.id)}" aria-labelledby="h-{escape(section.id)}">\n'
        f'<h2 id="h-{escape(section.id)}">{escape(section.title)}</h2>\n'
        f"{_joined(map(_block, section.blocks))}</section>\n"
    )


@singledispatch
def _block(block: Block) -> str:
    raise TypeError(f"no form for {type(block).__name__}")


@_block.register
def _(block: Text) -> str:
    role = ' role="note"' if block.tone == "warning" else ""
    kind = "" if block.tone == "plain" else f' class="{block.tone}"'
    return f"<p{kind}{role}>{escape(block.text)}</p>\n"


@_block.register
def _(block: Bullets) -> str:
    items = _joined(f"<li>{escape(item)}</li>\n" for item in block.items)
    title = f"<h3>{escape(block.title)}</h3>\n" if block.title else ""
    return f"{title}<ul>\n{items}</ul>\n"


@_block.register
def _(block: Code) -> str:
    title = f"<figcaption>{escape(block.title)}</figcaption>\n" if block.title else ""
    # As it is, blanks too: it is pasted.
    return f'<figure class="code">{title}<pre><code>{escaped(block.text)}</code></pre></figure>\n'


@_block.register
def _(block: Table) -> str:
    def kind(column: int) -> str:
        return ' class="words"' if column in block.words else ""

    head = _joined(
        f'<th scope="col"{kind(number)}>{escape(name)}</th>'
        for number, name in enumerate(block.columns)
    )
    body = _joined(f"<tr>{_cells(block, row)}</tr>\n" for row in range(len(block.rows)))
    wide = " wide" if len(block.columns) > _WIDE_TABLE else ""
    label = escape(block.caption)
    return (
        f'<div class="table{wide}" tabindex="0" role="region" aria-label="{label}">\n'
        f"<table><caption>{escape(block.caption)}</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n"
    )


def _cells(table: Table, row: int) -> str:
    made = []
    for column, text in enumerate(table.rows[row]):
        tag = 'th scope="row"' if column == 0 else "td"
        words, strong = column in table.words, (row, column) in table.strong
        kinds = ["words"] * words + ["strong"] * strong
        kind = f' class="{" ".join(kinds)}"' if kinds else ""
        made.append(f"<{tag}{kind}>{escape(text)}</{tag[:2]}>")
    return _joined(made)


@_block.register
def _(block: Answers) -> str:
    return (
        f'<ul class="answers" aria-label="{escape(block.title)}">\n'
        f"{_joined(map(_answer, block.items))}</ul>\n"
    )


def _answer(answer: Answer) -> str:
    if answer.steps is None:
        value = '<span class="steps">–</span>'
    else:
        color = palette.variable(answer.steps)
        unit = "step" if answer.steps == 1 else "steps"
        value = f'<span class="steps" style="color: var({color})">{answer.steps}</span> {unit}'
    facts = _joined(f"<li>{escape(fact)}</li>" for fact in answer.facts)
    return (
        f'<li class="answer{"" if answer.sure else " unsure"}">\n'
        f'<h3>{escape(answer.label)}</h3>\n<p class="value">{value}</p>\n'
        f'<p class="headline">{escape(answer.headline)}</p>\n<ul>{facts}</ul></li>\n'
    )


@_block.register
def _(block: Figure) -> str:
    caption = f'<p class="note">{escape(block.caption)}</p>' if block.caption else ""
    return (
        f'<figure class="plot" id="{escape(block.name)}">'
        f"<figcaption><h3>{escape(block.title)}</h3>{caption}</figcaption>\n"
        f'<div class="panels">\n{_joined(map(_panel, block.panels))}</div></figure>\n'
    )


def _panel(panel: Panel) -> str:
    return (
        f'<div class="panel {panel.width}" role="img" aria-label="{escape(panel.alt)}">'
        f"{panel.svg}</div>\n"
    )


def _joined(parts: Iterable[str]) -> str:
    return "".join(parts)
