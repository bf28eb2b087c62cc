"""One colour and one marker for each number of steps, everywhere in a report. Pure.

Steps are ordered, so their colours are: from blue by red to ochre, lighter all the way (darker in
the dark), so that order survives every kind of colour blindness; 0 is grey. Neighbours also differ
by their marker. A figure is drawn in the light colours; on the page each of them becomes a variable
of the style sheet, which has another value in the dark.
"""

from __future__ import annotations

LIGHT = ("#6e757c", "#012298", "#4c1da0", "#771c96", "#991c82", "#b41f69",
         "#c62b4d", "#d23c2b", "#d25500", "#ca6d05", "#c47d10")  # fmt: skip
DARK = ("#969ea6", "#4c75d2", "#8d76dc", "#bc78d5", "#e17dc4", "#fc85ae",
        "#fe9ca0", "#feaf9c", "#febe9d", "#ffcb9f", "#fed7a5")  # fmt: skip
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">", "p", "h")

# What is not data: name -> (light, dark). Each light colour is used for nothing else.
INK = "#1b1d1f"
MUTED = "#5c636b"
GRID = "#e2e4e7"
SURFACE = "#fefefd"
GAIN = "#0b62a8"
LOSS = "#b85c00"
BAD = "#b3261e"
OTHERS = {
    "--ink": (INK, "#e3e5e8"),
    "--muted": (MUTED, "#9ba3ac"),
    "--grid": (GRID, "#2d3136"),
    "--surface": (SURFACE, "#16181b"),
    "--gain": (GAIN, "#4f9fe0"),
    "--loss": (LOSS, "#e08a3c"),
    "--bad": (BAD, "#f2867d"),
}


def color(steps: int) -> str:
    """The colour of a number of steps, in the light."""
    return LIGHT[_place(steps)]


def marker(steps: int) -> str:
    """The marker of a number of steps, as matplotlib names it."""
    return MARKERS[_place(steps)]


def variable(steps: int) -> str:
    """The style sheet's name for the colour of a number of steps."""
    return f"--steps-{_place(steps)}"


def _place(steps: int) -> int:
    return min(max(steps, 0), len(LIGHT) - 1)


def variables() -> dict[str, tuple[str, str]]:
    """Every colour of a report by its name in the style sheet: (light, dark)."""
    steps = {f"--steps-{place}": pair for place, pair in enumerate(zip(LIGHT, DARK, strict=True))}
    return OTHERS | steps


def style_sheet() -> str:
    """The variables as CSS; on paper it is always light."""
    light = "".join(f"{name}: {pair[0]}; " for name, pair in variables().items())
    dark = "".join(f"{name}: {pair[1]}; " for name, pair in variables().items())
    return (
        f":root {{ {light}}}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n"
    )
