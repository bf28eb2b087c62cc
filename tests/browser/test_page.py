"""The report in a real browser: it loads in silence, light and dark, on a phone and on a desk.

With SWEEP_BROWSER_SHOTS=DIR each view is kept there as PNG.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from sweep.report.making import make_report
from tests.browser.chromium import Browser, Visit, browser, program
from tests.browser.runs import RUNS

LOOKS = (Path(__file__).parent / "looks.js").read_text()
CONTRAST = 4.5


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all pages. Where there is none the tests are skipped; in CI they fail."""
    if program() is None and os.environ.get("CI") != "true":
        pytest.skip("no chromium here: apt-get install chromium")
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module", params=RUNS)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """report.html of one kind of run."""
    place = tmp_path_factory.mktemp(request.param, numbered=False)
    written = make_report([RUNS[request.param](place)]).write(place / "report")
    return written[0]


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_loads_in_silence_and_everything_has_its_place(
    chromium: Browser, page: Path, width: int, scheme: str
) -> None:
    visit = chromium.open(page, width=width, scheme=scheme)
    keep_shot(visit, page, f"{width}-{scheme}")
    assert [url for url in visit.requests if not url.startswith("data:")] == [page.as_uri()]
    assert visit.complaints == []
    assert visit.evaluate(LOOKS) == []


# The ground of the page, and every colour of text on it.
COLORS = """(() => {
  const of = (element, property) => getComputedStyle(element)[property];
  const texts = [...document.querySelectorAll("p, li, td, th, h1, h2, h3, a, svg text")];
  const inks = texts.map((text) => of(text, text.tagName === "text" ? "fill" : "color"));
  return [of(document.body, "backgroundColor"), ...new Set(inks)];
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_read_on_its_background(chromium: Browser, page: Path, scheme: str) -> None:
    colors = chromium.open(page, width=1400, scheme=scheme).evaluate(COLORS)
    ground, *inks = map(numbers, colors)
    assert is_light(ground) == (scheme == "light")
    for ink in inks:
        assert contrast(ink, ground) >= 3.0, (ink, ground)


def numbers(color: str) -> tuple[int, ...]:
    """`rgb(1, 2, 3)`."""
    return tuple(map(int, color.partition("(")[2].rstrip(")").split(",")[:3]))


def is_light(color: tuple[int, ...]) -> bool:
    return sum(color) > 600


def test_it_is_one_small_file(page: Path) -> None:
    assert page.stat().st_size < 2_000_000


def count(selector: str, condition: str) -> str:
    """How many elements of a selector a condition on `e` holds for, as JavaScript."""
    return f"[...document.querySelectorAll('{selector}')].filter((e) => {condition}).length"


def test_it_is_read_aloud(chromium: Browser, page: Path) -> None:
    """Every picture says what it shows, every table has headers, headings go down one by one."""
    visit = chromium.open(page, width=1400, scheme="light")
    assert visit.evaluate("document.documentElement.lang") == "en"
    assert visit.evaluate(count("[role=img]", "!e.ariaLabel")) == 0
    assert visit.evaluate(count("table", "!e.querySelector('th[scope=col]') || !e.caption")) == 0
    assert visit.evaluate(count("a", "!document.querySelector(e.hash)")) == 0
    levels = visit.evaluate("[...document.querySelectorAll('h1,h2,h3')].map((h) => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = visit.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


def test_on_paper_it_is_light(chromium: Browser, page: Path) -> None:
    visit = chromium.open(page, width=1400, scheme="dark")
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    chromium.call("Emulation.setEmulatedMedia", media="print", features=dark)
    assert is_light(numbers(visit.evaluate("getComputedStyle(document.body).backgroundColor")))


def contrast(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """WCAG 2."""

    def luminance(color: tuple[int, ...]) -> float:
        parts = [c / 255 for c in color[:3]]
        r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    bright = sorted((luminance(one), luminance(other)))
    return (bright[1] + 0.05) / (bright[0] + 0.05)


def keep_shot(visit: Visit, page: Path, name: str) -> None:
    place = os.environ.get("SWEEP_BROWSER_SHOTS")
    if place:
        Path(place).mkdir(parents=True, exist_ok=True)
        visit.screenshot(Path(place) / f"{page.parents[1].name}-{name}.png")
