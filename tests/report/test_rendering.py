"""Any text comes out of every renderer as it went in, and is never markup."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from sweep.report import html, markdown, terminal
from sweep.report.document import (
    Answer,
    Answers,
    Bullets,
    Code,
    Document,
    Figure,
    Panel,
    Section,
    Table,
    Text,
)

VOID = {"meta", "link", "br", "img", "path", "use"}
# What rows may hold: every control character was taken out when they were written.
PLAIN = st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Cf", "Co", "Cn"))
WORDS = st.text(PLAIN, min_size=1, max_size=30).map(lambda text: " ".join(text.split()))
WORDS = WORDS.filter(bool)
NASTY = (
    "<script>alert(1)</script>", "a | b", "`tick`", "*bold* _under_", "[link](http://x)",
    "1. one", "- dash", "# head", "&amp;", "\\", "> quote", "+ plus", '" onload="x', "a <b> c",
    "![image](http://x)", "~~gone~~", "---", "===", "|", "http://example.net/a_b_c",
)  # fmt: skip


class Page(HTMLParser):
    """The texts of a page, its tags by name, its ids; raises where tags do not nest."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.ids += [str(value) for name, value in attrs if name == "id"]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        # A number and its unit are kept together.
        data = data.replace("\u00a0", " ").strip()
        if data:
            self.texts.append(data)


def everything(text: str) -> Document:
    """A document with the text in every place that takes one."""
    return Document(
        text,
        text,
        (
            Section("one", text, (Text(text), Text(text, "note"), Text(text, "warning"),
                                  Bullets((text, text)), Bullets((text,), text), Code(text, text))),
            Section("two", "fixed", (
                Table(text, (text, text), ((text, text), (text, "")), words=frozenset((0,)),
                      strong=frozenset(((0, 1),))),
                Answers(text, (Answer(text, 3, text, (text,), sure=True),
                               Answer(text, None, text, (), sure=False))),
                Figure("plot", text, text, (Panel("<svg></svg>", text),)),
            )),
        ),
    )  # fmt: skip


@pytest.mark.parametrize("text", NASTY)
def test_nasty_text_is_text(text: str) -> None:
    check_html(text)
    check_markdown(text)


@given(WORDS)
def test_any_text_is_text_in_html(text: str) -> None:
    check_html(text)


@given(WORDS)
def test_any_text_is_text_in_markdown(text: str) -> None:
    check_markdown(text)


def test_a_terminals_escapes_stay_out_of_the_page() -> None:
    assert html.escape("\x1b[31mOOM\x00 on 2 steps\n") == "\ufffd[31mOOM\ufffd on 2\u00a0steps\n"


def check_html(text: str) -> None:
    made, plain = Page(html.page(everything(text))), Page(html.page(everything("plain")))
    assert made.tags == plain.tags
    assert Counter(made.texts)[text.strip()] == Counter(plain.texts)["plain"]
    assert len(set(made.ids)) == len(made.ids)


def check_markdown(text: str) -> None:
    render = MarkdownIt("commonmark").enable("table").render
    made = Page(render(markdown.page(everything(text))))
    plain = Page(render(markdown.page(everything("plain"))))
    assert made.tags == plain.tags
    assert " ".join(made.texts).count(text) >= " ".join(plain.texts).count("plain")


def test_nothing_is_fetched_and_nothing_runs() -> None:
    page = html.page(everything("plain"))
    for word in ("http:", "https:", "<script", "@import", "url("):
        assert word not in page
    assert "default-src &#x27;none&#x27;" in page


def test_a_terminal_shows_the_sections_that_are_asked_for() -> None:
    console = Console(width=100, record=True)
    with console.capture() as shown:
        console.print(terminal.shown(everything("[b]plain"), ("two",)))
    assert "fixed" in shown.get()
    assert "[b]plain" in shown.get(), "no markup of rich's either"
    assert "- [b]plain" not in shown.get(), "section one was not asked for"


def test_code_that_holds_a_fence_stays_whole() -> None:
    code = "a\n```\nb\n````\nc"
    document = Document("t", "", (Section("s", "s", (Code(code),)),))
    page = Page(MarkdownIt("commonmark").render(markdown.page(document)))
    assert code in page.texts
