"""From drawings to PNG and SVG files, and to SVG that is part of a page."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from sweep.report import document, palette
from sweep.report.plots.drawing import Drawing, Plot

PNG_DPI = 160
_POINTS = 72
_COLUMNS = 3
_TITLE, _TITLE_SIZE = 0.34, 11  # inches, points
# On a page a figure grows with the room, until its text is larger than that around it.
_LARGEST = 1.45
# On the page text is the reader's own font; what is measured here is wider, so it fits.
_STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.labelcolor": palette.MUTED,
    "axes.edgecolor": palette.MUTED,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": palette.GRID,
    "grid.linewidth": 0.7,
    "text.color": palette.INK,
    "xtick.color": palette.MUTED,
    "ytick.color": palette.MUTED,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "figure.facecolor": palette.SURFACE,
    "axes.facecolor": "none",
    "savefig.facecolor": palette.SURFACE,
    "lines.linewidth": 1.5,
    "lines.markersize": 6,
    "svg.fonttype": "none",
    "axes.formatter.useoffset": False,
}


@dataclass(frozen=True)
class Drawn:
    """A plot in both forms: for the page, and as files by their names."""

    figure: document.Figure
    files: dict[str, bytes]


def drawn(plot: Plot) -> Drawn:
    """Draw every panel once for the page and once as pixels; the SVG file is the page's panels."""
    panels: list[document.Panel] = []
    whole: list[str] = []
    for number, drawing in enumerate(plot.drawings):
        name = f"{plot.name}-{number}"
        whole.append(_svg(drawing, name))
        if drawing.narrow is None:
            panels.append(document.Panel(inlined(whole[-1]), drawing.alt))
        else:
            panels.append(document.Panel(inlined(whole[-1]), drawing.alt, "wide"))
            svg = inlined(_svg(drawing.narrow, f"{name}n"))
            panels.append(document.Panel(svg, drawing.alt, "narrow"))
    places = _places(plot)
    return Drawn(
        document.Figure(plot.name, plot.title, plot.caption, tuple(panels)),
        {
            f"{plot.name}.png": _png(plot, places),
            f"{plot.name}.svg": _together(plot, places, whole).encode(),
        },
    )


@contextmanager
def _style(salt: str) -> Iterator[None]:
    style: Any = {**_STYLE, "svg.hashsalt": salt}
    with mpl.rc_context(style):
        yield


def _svg(drawing: Drawing, name: str) -> str:
    with _style(name):
        figure = Figure(figsize=drawing.size)
        FigureCanvasSVG(figure)
        _draw(drawing, figure, (0.0, 0.0))
        out = io.StringIO()
        # No date: the same results make the same file.
        figure.savefig(out, format="svg", metadata={"Date": None})
    return _own_ids(_DROPPED.sub("", out.getvalue()), name)


def _draw(drawing: Drawing, figure: Figure, corner: tuple[float, float]) -> None:
    """On axes that leave the margins of the drawing free. `corner`: left and bottom, in inches."""
    left, right, bottom, top = drawing.margins
    width, height = figure.get_size_inches()
    across, up = drawing.size[0] - left - right, drawing.size[1] - bottom - top
    place = ((corner[0] + left) / width, (corner[1] + bottom) / height, across / width, up / height)
    drawing.draw(figure.add_axes(place))


# -- the files ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Places:
    """Where each panel lies: `corners` are left and top of each, in inches from the upper left."""

    width: float
    height: float
    corners: tuple[tuple[float, float], ...]


def _places(plot: Plot) -> _Places:
    """Rows of panels of one size; wide ones below each other."""
    alone = any(drawing.narrow is not None for drawing in plot.drawings)
    columns = 1 if alone else min(_COLUMNS, len(plot.drawings))
    width = max(drawing.size[0] for drawing in plot.drawings)
    corners: list[tuple[float, float]] = []
    top = _TITLE
    for first in range(0, len(plot.drawings), columns):
        row = plot.drawings[first : first + columns]
        corners += [(width * column, top) for column in range(len(row))]
        top += max(drawing.size[1] for drawing in row)
    return _Places(width * columns, top, tuple(corners))


def _png(plot: Plot, places: _Places) -> bytes:
    with _style(plot.name):
        figure = Figure(figsize=(places.width, places.height))
        FigureCanvasAgg(figure)
        figure.text(0.1 / places.width, 1 - 0.19 / places.height, plot.title, fontsize=_TITLE_SIZE,
                    fontweight="bold", va="center")  # fmt: skip
        for drawing, (left, top) in zip(plot.drawings, places.corners, strict=True):
            _draw(drawing, figure, (left, places.height - top - drawing.size[1]))
        out = io.BytesIO()
        figure.savefig(out, format="png", dpi=PNG_DPI)
    return out.getvalue()


def _together(plot: Plot, places: _Places, panels: list[str]) -> str:
    """Panels as one SVG file."""
    width, height = places.width * _POINTS, places.height * _POINTS
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{width:g}pt" height="{height:g}pt" viewBox="0 0 {width:g} {height:g}">',
        f"<title>{escape(plot.title)}</title>",
        "<style>*{stroke-linejoin: round; stroke-linecap: butt}</style>",
        f'<rect width="100%" height="100%" fill="{palette.SURFACE}"/>',
        f'<text x="7" y="18" fill="{palette.INK}" '
        f'style="font: bold {_TITLE_SIZE}px sans-serif">{escape(plot.title)}</text>',
    ]
    for svg, (left, top) in zip(panels, places.corners, strict=True):
        place = f'x="{left * _POINTS:g}" y="{top * _POINTS:g}"'
        parts.append(svg.strip().replace("<svg ", f"<svg {place} ", 1))
    return "\n".join([*parts, "</svg>\n"])


# -- on the page ----------------------------------------------------------------------------------


_COLORS = {pair[0]: f"var({name})" for name, pair in palette.variables().items()}
_DROPPED = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<style.*?</style>", re.DOTALL
)
_SIZE = re.compile(r'(<svg\b[^>]*?)\s(?:width|height)="[^"]*"', re.DOTALL)
_NUMBER = re.compile(r"-?\d+\.\d{3,}")


def _own_ids(svg: str, name: str) -> str:
    """Ids that no other figure of the page has, and fewer digits."""
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(href="|url\()#', rf"\1#{name}-", svg)
    return _NUMBER.sub(lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), svg)


def inlined(svg: str) -> str:
    """A panel as part of a page: its colours are the page's, and it is as wide as there is room."""
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])  # type: ignore[index]
    while (smaller := _SIZE.sub(r"\1", svg, count=1)) != svg:
        svg = smaller
    svg = re.sub(r"#[0-9a-f]{6}\b", lambda found: _COLORS.get(found[0], found[0]), svg)
    told = f'aria-hidden="true" focusable="false" style="max-width: {width * _LARGEST:.0f}px" '
    return svg.replace("<svg ", f"<svg {told}", 1).strip()
