"""The colours of the steps, held against eyes of every kind and against both backgrounds."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import pytest

from sweep.report import palette

# Machado, Oliveira, Fernandes 2009: what a dichromat sees of a linear RGB colour.
SIGHT = {
    "all three cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216),
                   (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
                     (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602),
                   (0.004733, 0.691367, 0.303900)),
}  # fmt: skip
# Differences in Oklab x 100: below about 2 nobody tells two marks apart.
APART = 2.0


def linear(color: str) -> list[float]:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]


def seen(color: str, sight: str) -> tuple[float, float, float]:
    """Oklab of what that eye sees."""
    r, g, b = (sum(x * y for x, y in zip(row, linear(color), strict=True)) for row in SIGHT[sight])
    cones = (
        0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b,
        0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b,
        0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b,
    )
    x, y, z = (math.cbrt(one) for one in cones)
    return (
        0.2104542553 * x + 0.7936177850 * y - 0.0040720468 * z,
        1.9779984951 * x - 2.4285922050 * y + 0.4505937099 * z,
        0.0259040371 * x + 0.7827717662 * y - 0.8086757660 * z,
    )


def contrast(one: str, other: str) -> float:
    """WCAG 2: relative luminance against relative luminance."""
    bright = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (linear(one), linear(other))]
    return (max(bright) + 0.05) / (min(bright) + 0.05)


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("colors", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
def test_the_steps_most_measured_are_told_apart(colors: tuple[str, ...], sight: str) -> None:
    for one, other in combinations(colors[1:8], 2):
        assert math.dist(seen(one, sight), seen(other, sight)) * 100 > APART


@pytest.mark.parametrize("colors", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
def test_order_survives_as_lightness(colors: tuple[str, ...]) -> None:
    lightness = [seen(color, "all three cones")[0] for color in colors[1:]]
    assert all(before < after for before, after in pairwise(lightness))


def test_every_colour_of_data_and_text_is_seen_on_its_background() -> None:
    light, dark = palette.OTHERS["--surface"]
    for name, (day, night) in palette.variables().items():
        if name in ("--surface", "--grid"):
            continue
        least = 4.5 if name in ("--ink", "--muted", "--bad") else 3.0
        assert contrast(day, light) >= least, name
        assert contrast(night, dark) >= least, name


def test_each_colour_stands_for_one_thing() -> None:
    lights = [light for light, _ in palette.variables().values()]
    assert len(set(lights)) == len(lights)


def test_a_step_has_the_same_colour_and_marker_everywhere() -> None:
    assert palette.color(3) == palette.LIGHT[3]
    assert palette.variable(3) == "--steps-3"
    assert palette.color(40) == palette.color(10)
    assert len({palette.marker(steps) for steps in range(11)}) == 11
