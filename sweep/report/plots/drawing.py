"""What a plot is before it is drawn. matplotlib is imported in this package alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from matplotlib.axes import Axes

# Inches: what fits a phone at the size of the page's own text, and what fits a page.
NORMAL = (4.0, 2.7)


@dataclass(frozen=True)
class Drawing:
    """One panel. `draw` draws it on empty axes of `size` inches; `alt` says in words what it shows.

    `narrow`: the same for a phone, where `size` would not fit one. `margins`: what labels need to
    the left, right, bottom and top of the axes, in inches.
    """

    alt: str
    draw: Callable[[Axes], None]
    size: tuple[float, float] = NORMAL
    narrow: Drawing | None = None
    margins: tuple[float, float, float, float] = (0.62, 0.12, 0.46, 0.28)

    def also(self, size: tuple[float, float]) -> Drawing:
        """This drawing, and for a phone the same at another size."""
        return replace(self, narrow=replace(self, size=size))


@dataclass(frozen=True)
class Plot:
    """A figure of one or more panels; `name` is that of its files, without their ending."""

    name: str
    title: str
    caption: str
    drawings: tuple[Drawing, ...]

    def named(self, name: str) -> Plot:
        """The same plot under another name."""
        return replace(self, name=name)


@dataclass(frozen=True)
class Missing:
    """A plot that there is nothing to draw for, and why."""

    title: str
    why: str
