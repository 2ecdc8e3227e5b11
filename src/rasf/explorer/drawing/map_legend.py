"""The lines under a map: what symbols mean, who drives, how often a cell is visited. Each gives markup and height."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.explorer.drawing import palette
from rasf.explorer.drawing.map_symbols import symbol_at
from rasf.explorer.drawing.svg import element, number, shorten, shown, text, text_width, tooltip
from rasf.explorer.scenes.scene import Layout

SIZE = 13
_LINE = 21.0


def counted(number_of: int, thing: str) -> str:
    """One cell, two cells."""
    return f"{number_of} {thing}" if number_of == 1 else f"{number_of} {thing}s"


def ranked_drivers(driver: Ints) -> list[tuple[int, int]]:
    """The sources that drive some cell and how many, the most first."""
    found, cells = np.unique(driver[driver >= 0], return_counts=True)
    order = np.lexsort((found, -cells))
    return [(int(found[place]), int(cells[place])) for place in order]


def symbol_legend(layout: Layout, unseen: bool, left: float, width: float) -> tuple[str, float]:
    """What stands on the map, in words, in as many lines as it takes."""
    items = []
    for symbol, words in layout.meaning.items():
        cell = layout.symbols.find(symbol)
        if cell in layout.walls:
            items.append((element("rect", class_="wall", x=-8, y=-8, width=16, height=16, rx=2), words))
        elif cell >= 0 and (icon := symbol_at(layout, cell, 0.85)):
            items.append((icon, words))
    if unseen:
        items.append((text("?", 0, 4.5, class_="letter soft"), "never met in training"))
    parts, x, y = [], left, 12.0
    for icon, words in items:
        needed = 26 + text_width(words, SIZE) + 14
        if x > left and x + needed - 14 > left + width:
            x, y = left, y + _LINE + 2
        said = shorten(words, SIZE, width - 26)
        parts.append(element("g", icon, text(said, 16, 4.5), transform=f"translate({number(x + 9)} {number(y)})"))
        x += needed
    return "".join(parts), (y + 14 if items else 0.0)


def driver_legend(driver: Ints, names: Sequence[str], id_prefix: str, left: float, width: float) -> tuple[str, float]:
    """The sources that drive most cells, with pattern, number and name; the rest in one line."""
    ranked = ranked_drivers(driver)
    look_of = palette.looks([source for source, _ in ranked])
    lines = [
        (look_of[source], f"policy {source}", names[source] if source < len(names) else "", cells)
        for source, cells in ranked[: palette.DRIVERS]
    ]
    if rest := ranked[palette.DRIVERS :]:
        others = f"{len(rest)} others" if len(rest) > 1 else "1 other"
        numbers = ", ".join(str(source) for source, _ in rest)
        lines.append((palette.OTHER, others, f"policies {numbers}", sum(cells for _, cells in rest)))
    parts = [text("Who drives the choice, and what it was trained for", left, 13, class_="strong")]
    y = 28.0
    for look, said, name, cells in lines:
        count = counted(cells, "cell")
        number_width = 1.05 * text_width(said, SIZE) + 12
        room = width - 32 - number_width - text_width(count, SIZE) - 12
        swatch = element(
            "rect",
            class_="swatch",
            width=24,
            height=14,
            rx=2,
            fill=f"url(#{palette.pattern_id(id_prefix, look)})",
            stroke=palette.driver_colour(look),
        )
        line = (
            tooltip(f"{said}: {name}")
            + swatch
            + text(said, 32, 11.5, class_="strong")
            + text(shorten(name, SIZE, room), 32 + number_width, 11.5)
            + text(count, width, 11.5, class_="soft", text_anchor="end")
        )
        parts.append(element("g", line, class_="driver", transform=f"translate({number(left)} {number(y - 6)})"))
        y += _LINE
    if not lines:
        parts.append(text("nobody: nothing was learned for this map", left, y + 5, class_="soft"))
        y += _LINE
    return "".join(parts), y


def visit_scale(visits: Floats) -> float:
    """The number at the end of the scale."""
    finite = visits[np.isfinite(visits)]
    return float(finite.max(initial=0.0))


def visit_step(visits: float, largest: float) -> int:
    """The step of heat; roots, so that cells passed once still show beside a cell where somebody waits."""
    return palette.heat_step(float(np.sqrt(visits / largest))) if visits > 0 and largest > 0 else 0


def visit_legend(visits: Floats, left: float, width: float) -> tuple[str, float]:
    """The scale of heat with numbers."""
    largest = visit_scale(visits)
    parts = [text("Steps an episode spends in a cell, in the mean", left, 13, class_="strong")]
    wide = width / palette.HEAT
    for step in range(palette.HEAT):
        x = left + step * wide
        parts.append(element("rect", x=x, y=22, width=wide, height=14, fill=palette.heat_colour(step)))
    parts.append(element("rect", class_="frame", x=left, y=22, width=width, height=14))
    for edge in (0, 3, 5, 7, palette.HEAT):
        value = largest * (edge / palette.HEAT) ** 2
        anchor = "start" if edge == 0 else "end" if edge == palette.HEAT else "middle"
        parts.append(text(shown(value, 2), left + edge * wide, 51, text_anchor=anchor, class_="soft tick"))
    return "".join(parts), 60.0
