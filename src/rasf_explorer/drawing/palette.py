"""Colours, patterns and the scale of heat, for a light and a dark theme. Colour is never the only distinction.

A source policy is drawn with a look: a colour and a pattern. The seven colours stay distinct under red-green colour
blindness (simulated by a test), and the seven patterns differ without colour. Heat is the scale of colours for numbers.
Heat has one hue, from the lightness of the background ("paper") to the lightness of the text ("ink"). So heat is
readable in grey, in both themes. Text has a contrast of at least 4.5 to its background.

Colours are CSS custom properties, so one picture works in both themes. A picture is dark if the picture or an ancestor
has the class `dark` or `body--dark`, otherwise light. A picture that is its own document follows the theme of the
system, unless the picture has the class `light`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

DRIVERS = 7  # number of source policies with their own look; all further policies have the look "other"
OTHER = DRIVERS
HEAT = 9  # number of steps of the scale of colours
FIRST_HIGH = 5  # text on this step of heat and on higher steps has the colour `on-high`

_COLOURS = {  # in the light and the dark theme; d0 to d7: looks of source policies (d7: "other"); h0 to h8: heat
    "paper": ("#ffffff", "#14181f"),
    "ink": ("#1c2430", "#eef1f5"),
    "soft": ("#56606e", "#a9b3c0"),
    "line": ("#d5dae1", "#363e4a"),
    "wall": ("#4a5361", "#626c7a"),
    "accent": ("#0b61a4", "#7cc0ff"),
    "link": ("#39424f", "#c9d1dc"),
    "trail": ("#b35900", "#ffb454"),
    "warn": ("#b3261e", "#ff9d8a"),
    "warn-fill": ("#ffd9c7", "#5a2118"),
    "d0": ("#0066c0", "#3a8ef5"),
    "d1": ("#d08000", "#f0a040"),
    "d2": ("#0f6b4a", "#1a9a58"),
    "d3": ("#cf6f9a", "#e88aac"),
    "d4": ("#289dcf", "#8fe3ff"),
    "d5": ("#4d5300", "#e9df8a"),
    "d6": ("#6f4a94", "#9a82d6"),
    "d7": ("#7a828e", "#98a1ad"),
    "h0": ("#f4f7fb", "#1a2029"),
    "h1": ("#dfe8f4", "#1f2c3d"),
    "h2": ("#c5d7ec", "#253c57"),
    "h3": ("#9fbfe1", "#2d4f75"),
    "h4": ("#749fcf", "#386595"),
    "h5": ("#4677ad", "#4b83bb"),
    "h6": ("#315f96", "#74a6d6"),
    "h7": ("#1f487a", "#a5c8ea"),
    "h8": ("#103059", "#dcebfa"),
    "on-low": ("#1c2430", "#eef1f5"),
    "on-high": ("#ffffff", "#10151c"),
}
LIGHT = {name: light for name, (light, _) in _COLOURS.items()}
DARK = {name: dark for name, (_, dark) in _COLOURS.items()}

# marks of the patterns on a tile of 8 by 8; diagonals extend over the corners, so that diagonals join across tiles
_MARKS = (
    '<path d="M-2 2l4-4M0 8l8-8M6 10l4-4"/>',
    '<path d="M2 2h.01M6 6h.01" stroke-width="2.6" stroke-linecap="round"/>',
    '<path d="M0 2h8M0 6h8"/>',
    '<path d="M-2 6l4 4M0 0l8 8M6-2l4 4"/>',
    '<path d="M2 0v8M6 0v8"/>',
    '<path d="M0 4h8M4 0v8"/>',
    '<path d="M-2 2l4-4M0 8l8-8M6 10l4-4M-2 6l4 4M0 0l8 8M6-2l4 4" stroke-width=".8"/>',
    "",
)


def variables(theme: dict[str, str]) -> str:
    """Return a theme as CSS custom properties."""
    return ";".join(f"--{name}:{colour}" for name, colour in theme.items())


def _picture_style() -> str:
    """Return the style sheet of a picture, minified."""
    rules = (Path(__file__).parent.parent / "static" / "picture.css").read_text()
    rules = re.sub(r"\s*([{}:;,])\s*", r"\1", re.sub(r"/\*.*?\*/", "", rules, flags=re.DOTALL)).strip()
    return (
        f".rasf{{{variables(LIGHT)}}}.dark .rasf,.body--dark .rasf,svg.rasf.dark{{{variables(DARK)}}}"
        f"@media (prefers-color-scheme:dark){{svg.rasf:root:not(.light){{{variables(DARK)}}}}}{rules}"
    )


STYLE = _picture_style()


def heat_step(share: float) -> int:
    """Return the step of heat for a number, given its position between the lowest (0) and the highest number (1)."""
    return min(max(int(share * HEAT), 0), HEAT - 1)


def heat_colour(step: int) -> str:
    """Return the colour of a step of heat."""
    return f"var(--h{step})"


def looks(drivers: list[int]) -> dict[int, int]:
    """Return a look for each source policy.

    Args:
        drivers: The selected source policies, in descending order of their number of cells.

    Returns:
        Looks by source policy. If possible, a policy keeps its look when the other policies change.
    """
    found: dict[int, int] = {}
    for driver in drivers:
        if len(found) >= DRIVERS:
            found[driver] = OTHER
            continue
        taken = set(found.values())
        found[driver] = next(look for step in range(DRIVERS) if (look := (driver + step) % DRIVERS) not in taken)
    return found


def pattern_id(id_prefix: str, look: int) -> str:
    """Return the id of the pattern of a look."""
    return f"{id_prefix}-look{look}"


def patterns(id_prefix: str, used: Iterable[int]) -> str:
    """Return definitions of the patterns of some looks: marks in the look's colour on a tint of this colour."""
    return "".join(
        f'<pattern id="{pattern_id(id_prefix, look)}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<g fill="none" stroke="var(--d{look})" stroke-width="1.1">'
        f'<rect width="8" height="8" fill="var(--d{look})" fill-opacity=".2" stroke="none"/>'
        f"{_MARKS[look]}</g></pattern>"
        for look in sorted(set(used))
    )
