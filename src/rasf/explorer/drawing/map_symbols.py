"""What stands on a map's cells, as shapes around the origin: objects, traps, the goal, the start, arrows.

Sizes are for a cell of 32 by 32; `unit` scales them. Shapes differ by outline and letter, so that a print in grey is
read as well as the screen.
"""

from __future__ import annotations

import math

from rasf.explorer.drawing.svg import element, number, points, text
from rasf.explorer.scenes.scene import Layout

TURN = (180, -90, 0, 90)  # of an arrow that points right, for left, up, right, down
ACTIONS = ("left", "up", "right", "down")
LARGEST_UNIT = 2.0  # in large cells symbols stop growing
_ARROW = ((-8.0, -1.3), (1.3, -1.3), (1.3, -5.6), (8.6, 0.0), (1.3, 5.6), (1.3, 1.3), (-8.0, 1.3))
_NUDGE = ((9.6, -5.2), (15.0, 0.0), (9.6, 5.2))


def arrow_shapes(id_prefix: str, unit: float) -> str:
    """Definitions of two arrows to the right: one for a free cell, one beside what stands in the middle."""
    return "".join(
        element("polygon", id=f"{id_prefix}-{name}", points=points((x * unit, y * unit) for x, y in corners))
        for name, corners in (("arrow", _ARROW), ("nudge", _NUDGE))
    )


def beside(markup: str, action: int, unit: float) -> str:
    """What stands in a cell moved a little aside, to make room for the arrow at the edge."""
    if action < 0 or not markup:
        return markup
    dx, dy = ((2.6, 0.0), (0.0, 2.6), (-2.6, 0.0), (0.0, -2.6))[action]
    return element("g", markup, transform=f"translate({number(dx * unit)} {number(dy * unit)})")


def symbol_at(layout: Layout, cell: int, unit: float, *, collected: bool = False) -> str:
    """What stands in a cell, or nothing."""
    symbol = layout.symbols[cell]
    if cell in layout.goals:
        return _flag(unit)
    if cell in layout.hazards:
        several = len({layout.symbols[hazard] for hazard in layout.hazards}) > 1
        return _warning(symbol if several else "!", unit)
    if cell in layout.objects:
        classes = sorted({layout.symbols[found] for found in layout.objects})
        return _object(classes.index(symbol), symbol, unit, collected=collected)
    if cell == layout.start:
        return element("circle", class_="start", r=8.4 * unit) + _letter("S", unit, "start-letter")
    return ""


def warning(unit: float) -> str:
    """The sign of danger."""
    return _warning("!", unit)


def _letter(letter: str, unit: float, kind: str, drop: float = 4.1) -> str:
    size = f"font-size:{number(11.5 * unit)}px"
    return text(letter, 0, drop * unit, class_=f"letter {kind}", style=size)


def _warning(letter: str, unit: float) -> str:
    corners = points((x * unit, y * unit) for x, y in ((0.0, -8.6), (9.2, 7.2), (-9.2, 7.2)))
    return element("polygon", class_="trap", points=corners) + _letter(letter, unit * 0.93, "trap-letter", 6.0)


def _flag(unit: float) -> str:
    cloth = points((x * unit, y * unit) for x, y in ((-4.2, -9.0), (8.0, -4.6), (-4.2, 0.0)))
    pole = element("line", class_="pole", x1=-4.8 * unit, y1=-9.4 * unit, x2=-4.8 * unit, y2=9.4 * unit)
    return pole + element("polygon", class_="flag", points=cloth)


def _object(place: int, letter: str, unit: float, *, collected: bool) -> str:
    kind = "object collected" if collected else "object"
    shape = place % 6
    if shape == 0:
        outline = element("circle", class_=kind, r=8.0 * unit)
    elif shape == 1:
        outline = element(
            "rect", class_=kind, x=-7.4 * unit, y=-7.4 * unit, width=14.8 * unit, height=14.8 * unit, rx=1.5 * unit
        )
    else:
        corners = (4, 5, 6, 8)[shape - 2]
        radius = 10.2 if corners == 4 else 9.0
        around = [2 * math.pi * corner / corners - math.pi / 2 for corner in range(corners)]
        outline = element(
            "polygon",
            class_=kind,
            points=points((radius * unit * math.cos(angle), radius * unit * math.sin(angle)) for angle in around),
        )
    return outline + _letter(letter, unit, "collected-letter" if collected else "object-letter")
