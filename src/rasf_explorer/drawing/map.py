"""A map with GPI's choices: arrows, selected source policies, visits, and the path of one rollout.

The page reads and moves some elements of the picture, so their markup is fixed:

- A cell is `<g class="cell" data-cell="17" data-action="left" data-driver="3">`. The driver is the selected source
  policy. A cell in which no action is taken has no `data-action` and no `data-driver`. A wall is
  `<g class="wall-cell">` without data.
- The agent is `<g class="agent" data-x="4" data-y="1" transform="translate(..)">`. Its data are the column and row of
  its cell, and its translation is the `centre` of the cell. A map without a path has no agent.
- Elements on top of the cells do not catch clicks.

Source policies are numbered from 0, as in the library. Symbols are drawn around the origin for a cell of 32 by 32, and
scaled by `unit`. Symbols differ by outline and letter, so that they can be distinguished in grey.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from rasf.arrays import Bools, Floats, Ints
from rasf_explorer.drawing import palette
from rasf_explorer.drawing.svg import (
    SIZE,
    counted,
    edged,
    element,
    heat_legend,
    legend_lines,
    number,
    picture,
    points,
    shorten,
    shown,
    text,
    text_width,
    tooltip,
)
from rasf_explorer.scenes.scene import ACTIONS, Layout, MapPolicy

WIDTH = 440.0
_MARGIN, _INNER = 12.0, 416.0
_LARGEST_CELL, _LARGEST_UNIT = 84.0, 2.0  # largest side of a cell, largest scale of symbols
_NUMBERED = 10  # largest number of cells that show their number of visits
_FAINT = 0.005  # an arrow is faint if a rollout makes fewer steps than this in its cell, on average
_TURN = (180, -90, 0, 90)  # rotation in degrees of an arrow that points right, for the actions left, up, right, down
_ASIDE = ((2.6, 0.0), (0.0, 2.6), (-2.6, 0.0), (0.0, -2.6))  # shift of a symbol away from the arrow, by action
_ARROW = ((-8.0, -1.3), (1.3, -1.3), (1.3, -5.6), (8.6, 0.0), (1.3, 5.6), (1.3, 1.3), (-8.0, 1.3))
_NUDGE = ((9.6, -5.2), (15.0, 0.0), (9.6, 5.2))  # corners of the smaller arrow beside a symbol
# a path is shifted to its right by the share _LANE of a cell's side, at most by _WIDEST_LANE units of the viewBox
_LANE, _WIDEST_LANE = 0.13, 5.0
_MARK_EVERY = 3  # number of moves between arrow heads on a path


def side(layout: Layout) -> float:
    """Return the side of a cell, in units of the viewBox."""
    return min(_INNER / max(layout.columns, layout.rows), _LARGEST_CELL)


def centre(layout: Layout, cell: int) -> tuple[float, float]:
    """Return the centre of a cell, in units of the viewBox."""
    wide = side(layout)
    left = (WIDTH - wide * layout.columns) / 2
    row, column = divmod(int(cell), layout.columns)
    return left + wide * (column + 0.5), _MARGIN + wide * (row + 0.5)


def draw_map(
    layout: Layout,
    policy: MapPolicy,
    *,
    names: Sequence[str],
    visits: Floats | None = None,
    path: Ints | None = None,
    step: int | None = None,
    selected: int | None = None,
    context: int = 0,
    drivers: bool = True,
    id_prefix: str = "map",
) -> str:
    """Draw the map in one context.

    Args:
        layout: The map.
        policy: GPI's choice in every cell.
        names: Task and risk of each source policy, in words.
        visits: Mean number of steps per rollout in each cell (C,), drawn as heat. Default: none.
        path: Cells of a rollout. Default: none.
        step: The step of the path at which the agent is drawn. Default: the agent is at step 0 of a fully drawn path.
        selected: A cell that is drawn with a frame. Default: none.
        context: The objects collected so far, as a bit mask. Default: 0.
        drivers: Whether to show the selected source policies, if no visits are given. Default: True.
        id_prefix: Start of all ids in the picture. Default: "map".

    Returns:
        The picture, as SVG text.
    """
    sheet = _Sheet(layout, policy, names, visits, drivers and visits is None, context, id_prefix)
    path = None if path is None or not len(path) else path
    over = "" if path is None else _path(layout, path, step)
    over += "" if selected is None else _frame(layout, selected)
    top = _MARGIN + side(layout) * layout.rows + 12
    below = ""
    for markup, height in sheet.legends():
        below += element("g", markup, class_="legend", transform=f"translate(0 {number(top)})")
        top += height + 6
    unit = side(layout) / 32
    arrows = "".join(
        element("polygon", id=f"{id_prefix}-{name}", points=points((x * unit, y * unit) for x, y in corners))
        for name, corners in (("arrow", _ARROW), ("nudge", _NUDGE))
    )
    defs = element("defs", palette.patterns(id_prefix, sheet.look_of.values()), arrows)
    return picture(
        WIDTH,
        top,
        defs + sheet.cells() + element("g", over, class_="over") + below,
        kind="map" if path is None else "map walked",
        title="Map: the action in every cell" + ("" if visits is None else ", and its visits"),
        description=sheet.in_words(path),
        id_prefix=id_prefix,
    )


@dataclass(frozen=True)
class _Sheet:
    """The cells of a map and the legends below them."""

    layout: Layout
    policy: MapPolicy
    names: Sequence[str]
    heat: Floats | None  # (C,) visits: mean number of steps per rollout in each cell; None if visits are not shown
    drivers: bool
    context: int
    id_prefix: str

    @cached_property
    def ranked(self) -> list[tuple[int, int]]:
        """The selected source policies and their number of cells, in descending order."""
        driver = self.policy.driver
        found, cells = np.unique(driver[driver >= 0], return_counts=True)
        return [(int(found[place]), int(cells[place])) for place in np.lexsort((found, -cells))]

    @cached_property
    def look_of(self) -> dict[int, int]:
        """Looks (`palette`) by selected source policy; empty if source policies are not shown."""
        return palette.looks([source for source, _ in self.ranked]) if self.drivers else {}

    @cached_property
    def largest(self) -> float:
        """The mean number of visits of the most visited cell."""
        return 0.0 if self.heat is None else float(self.heat[np.isfinite(self.heat)].max(initial=0.0))

    @cached_property
    def unseen(self) -> Bools:
        """For each cell (C,), whether it has no action because nothing was learned there."""
        unseen = np.asarray(self.policy.action) < 0
        unseen[[*self.layout.walls, *self.layout.goals, *self.layout.hazards]] = False
        return unseen

    @cached_property
    def numbered(self) -> set[int]:
        """The most visited cells without a symbol, which show their visits as a number."""
        if self.heat is None:
            return set()
        layout, heat = self.layout, self.heat
        taken = {layout.start, *layout.walls, *layout.goals, *layout.hazards, *layout.objects}
        free = [int(cell) for cell in np.argsort(-heat, kind="stable") if int(cell) not in taken and heat[cell] >= 0.05]
        if len(free) <= _NUMBERED:
            return set(free)
        # the number that the first omitted cell would show; cells that would show the same number are omitted, too
        rest = _visit_words(float(heat[free[_NUMBERED]]))
        return {cell for cell in free[:_NUMBERED] if _visit_words(float(heat[cell])) != rest}

    def heat_step(self, cell: int) -> int | None:
        """Return a cell's step on the scale of heat (`palette`), in proportion to the square root of its visits."""
        if self.heat is None:
            return None
        visits = float(self.heat[cell])
        return palette.heat_step(math.sqrt(visits / self.largest)) if visits > 0 and self.largest > 0 else 0

    def cells(self) -> str:
        layout, wide = self.layout, side(self.layout)
        box = {"x": -wide / 2, "y": -wide / 2, "width": wide, "height": wide}
        walls, parts = set(layout.walls), []
        for cell in range(layout.rows * layout.columns):
            place = "translate({} {})".format(*map(number, centre(layout, cell)))
            if cell in walls:
                parts.append(element("g", element("rect", class_="wall", **box), class_="wall-cell", transform=place))
                continue
            action, driver = int(self.policy.action[cell]), int(self.policy.driver[cell])
            inside = tooltip(self._cell_in_words(cell, action, driver))
            inside += element("rect", class_="box", fill=self._fill(cell, driver), **box)
            symbol = self._symbol(cell)
            if symbol and action >= 0:
                aside = "translate({} {})".format(*(number(away * wide / 32) for away in _ASIDE[action]))
                symbol = element("g", symbol, transform=aside) + self._arrow(cell, action, "nudge")
            elif action >= 0:
                symbol = self._arrow(cell, action, "arrow")
            name, source = ACTIONS[action] if action >= 0 else None, driver if driver >= 0 else None
            kept = {"data_cell": cell, "data_action": name, "data_driver": source}
            parts.append(element("g", inside, symbol, class_="cell", **kept, transform=place))
        return "".join(parts)

    def _fill(self, cell: int, driver: int) -> str | None:
        hot = self.heat_step(cell)
        if hot is not None:
            return palette.heat_colour(hot)
        return f"url(#{palette.pattern_id(self.id_prefix, self.look_of[driver])})" if driver in self.look_of else None

    def _symbol(self, cell: int) -> str:
        """Draw the symbol of a cell, its number of visits, or a question mark where nothing was learned."""
        wide, layout = side(self.layout), self.layout
        collected = cell in layout.objects and bool(self.context >> layout.objects.index(cell) & 1)
        if symbol := symbol_at(layout, cell, min(wide / 32, _LARGEST_UNIT), collected=collected):
            return symbol
        hot = self.heat_step(cell)
        if self.heat is not None and hot is not None and cell in self.numbered:
            size = min(wide * 0.36, 16)
            fill = "var(--on-high)" if hot >= palette.FIRST_HIGH else "var(--on-low)"
            style = f"font-size:{number(size)}px;fill:{fill}"
            return text(_visit_words(float(self.heat[cell])), 0, size * 0.36, class_="letter", style=style)
        return _UNKNOWN if self.unseen[cell] else ""

    def _arrow(self, cell: int, action: int, shape: str) -> str:
        hot = self.heat_step(cell)
        kind = "go" if hot is None else "go on-high" if hot >= palette.FIRST_HIGH else "go on-low"
        if self.heat is not None and self.heat[cell] < _FAINT:
            kind += " faint"
        return element("use", href=f"#{self.id_prefix}-{shape}", class_=kind, transform=f"rotate({_TURN[action]})")

    def legends(self) -> list[tuple[str, float]]:
        """Return the legends that are not empty, each with its height."""
        found = [self._symbol_legend()]
        if self.heat is not None:
            shares = [edge / palette.HEAT for edge in (0, 3, 5, 7, palette.HEAT)]
            ticks = [(share, shown(self.largest * share**2, 2)) for share in shares]
            title = "Mean number of steps per episode in a cell"
            found.append((heat_legend(title, ticks, _MARGIN, 13, _INNER), 60.0))
        elif self.drivers:
            found.append(self._driver_legend())
        return [(markup, height) for markup, height in found if markup]

    def _symbol_legend(self) -> tuple[str, float]:
        layout, items = self.layout, []
        for symbol, words in layout.meaning.items():
            cell = layout.symbols.find(symbol)
            if cell in layout.walls:
                items.append((element("rect", class_="wall", x=-8, y=-8, width=16, height=16, rx=2), words))
            elif cell >= 0 and (icon := symbol_at(layout, cell, 0.85)):
                items.append((icon, words))
        if self.unseen.any():
            items.append((_UNKNOWN, "never visited in training"))
        markup, y = legend_lines(items, _MARGIN, 12.0, _INNER)
        return markup, y + 14

    def _driver_legend(self) -> tuple[str, float]:
        """Draw a line with pattern, number and name for each policy with its own look, and a line for all others."""
        lines = [
            (self.look_of[source], f"policy {source}", self.names[source], cells)
            for source, cells in self.ranked[: palette.DRIVERS]
        ]
        if rest := self.ranked[palette.DRIVERS :]:
            others = f"{len(rest)} others" if len(rest) > 1 else "1 other"
            numbers = ", ".join(str(source) for source, _ in rest)
            lines.append((palette.OTHER, others, f"policies {numbers}", sum(cells for _, cells in rest)))
        parts = [text("Selected source policies, and what they were trained for", _MARGIN, 13, class_="strong")]
        y = 28.0
        for look, said, name, cells in lines:
            count = counted(cells, "cell")
            number_width = 1.05 * text_width(said, SIZE) + 12
            room = _INNER - 32 - number_width - text_width(count, SIZE) - 12
            fill, stroke = f"url(#{palette.pattern_id(self.id_prefix, look)})", f"var(--d{look})"
            line = (
                tooltip(f"{said}: {name}")
                + element("rect", class_="swatch", width=24, height=14, rx=2, fill=fill, stroke=stroke)
                + text(said, 32, 11.5, class_="strong")
                + text(shorten(name, SIZE, room), 32 + number_width, 11.5)
                + text(count, _INNER, 11.5, class_="soft", text_anchor="end")
            )
            parts.append(element("g", line, class_="driver", transform=f"translate({number(_MARGIN)} {number(y - 6)})"))
            y += 21
        if not lines:
            parts.append(text("none: nothing was learned for this map", _MARGIN, y + 5, class_="soft"))
            y += 21
        return "".join(parts), y

    def _at(self, cell: int) -> str:
        row, column = divmod(int(cell), self.layout.columns)
        return f"row {row + 1}, column {column + 1}"

    def _cell_in_words(self, cell: int, action: int, driver: int) -> str:
        said = self._at(cell)
        if what := self.layout.meaning.get(self.layout.symbols[cell]):
            said += f", {what}"
        if action >= 0:
            said += f": {ACTIONS[action]}" + (f", by policy {driver}" if driver >= 0 else "")
        if self.heat is not None:
            said += f"; {shown(float(self.heat[cell]), 2)} steps per episode"
        return said

    def in_words(self, path: Ints | None) -> str:
        layout, policy, names = self.layout, self.policy, self.names
        start = layout.start
        said = [f"A map of {layout.rows} rows and {layout.columns} columns, the start at {self._at(start)}."]
        if policy.action[start] >= 0:
            said.append(f"At the start GPI takes {ACTIONS[policy.action[start]]}, by policy {policy.driver[start]}.")
        if self.ranked:
            selected = "; ".join(
                f"policy {source} ({names[source]}) {counted(cells, 'cell')}"
                for source, cells in self.ranked[: palette.DRIVERS]
            )
            rest = len(self.ranked) - palette.DRIVERS
            said.append(f"Selected policies: {selected}{f'; and {rest} more' if rest > 0 else ''}.")
        if self.heat is not None and self.largest > 0:
            top = int(np.nanargmax(self.heat))
            said.append(f"Most steps are spent at {self._at(top)}, {shown(float(self.heat[top]), 2)} per episode.")
        if path is not None:
            said.append(f"A rollout of {counted(len(path) - 1, 'step')} that ends at {self._at(path[-1])}.")
        return " ".join(said)


def _visit_words(visits: float) -> str:
    return f"{visits:.1f}" if visits < 9.95 else f"{visits:.0f}"


def _frame(layout: Layout, cell: int) -> str:
    (x, y), wide = centre(layout, cell), side(layout)
    box = {"x": x - wide / 2, "y": y - wide / 2, "width": wide, "height": wide, "rx": 3}
    return element("g", edged("rect", "selected", **box), data_selected=cell)


# symbols


def symbol_at(layout: Layout, cell: int, unit: float, *, collected: bool = False) -> str:
    """Return the symbol of a cell, or an empty string for a cell without a symbol.

    Args:
        layout: The map.
        cell: The cell.
        unit: Scale of the symbol. The scale of a cell of 32 by 32 is 1.
        collected: Whether an object in the cell was collected. Default: False.

    Returns:
        Markup around the origin.
    """
    symbol = layout.symbols[cell]
    if cell in layout.goals:
        cloth = points((x * unit, y * unit) for x, y in ((-4.2, -9.0), (8.0, -4.6), (-4.2, 0.0)))
        pole = element("line", class_="pole", x1=-4.8 * unit, y1=-9.4 * unit, x2=-4.8 * unit, y2=9.4 * unit)
        return pole + element("polygon", class_="flag", points=cloth)
    if cell in layout.hazards:
        several = len({layout.symbols[hazard] for hazard in layout.hazards}) > 1
        return warning(unit, symbol if several else "!")
    if cell in layout.objects:
        classes = sorted({layout.symbols[found] for found in layout.objects})
        kind = "collected" if collected else "object"
        outline = _outline(classes.index(symbol), "object collected" if collected else "object", unit)
        return outline + _letter(symbol, unit, f"{kind}-letter")
    if cell == layout.start:
        return element("circle", class_="start", r=8.4 * unit) + _letter("S", unit, "start-letter")
    return ""


def warning(unit: float, letter: str = "!") -> str:
    """Draw a warning triangle with a letter."""
    corners = points((x * unit, y * unit) for x, y in ((0.0, -8.6), (9.2, 7.2), (-9.2, 7.2)))
    return element("polygon", class_="trap", points=corners) + _letter(letter, unit * 0.93, "trap-letter", 6.0)


def _letter(letter: str, unit: float, kind: str, drop: float = 4.1) -> str:
    return text(letter, 0, drop * unit, class_=f"letter {kind}", style=f"font-size:{number(11.5 * unit)}px")


_UNKNOWN = text("?", 0, 4.5, class_="letter soft")


def _outline(place: int, kind: str, unit: float) -> str:
    """Draw the shape of a class of objects: a circle, a square, or a polygon with 4, 5, 6 or 8 corners."""
    shape = place % 6
    if shape == 0:
        return element("circle", class_=kind, r=8.0 * unit)
    if shape == 1:
        corner, width = -7.4 * unit, 14.8 * unit
        return element("rect", class_=kind, x=corner, y=corner, width=width, height=width, rx=1.5 * unit)
    corners = (4, 5, 6, 8)[shape - 2]
    radius = (10.2 if corners == 4 else 9.0) * unit
    around = [2 * math.pi * corner / corners - math.pi / 2 for corner in range(corners)]
    places = points((radius * math.cos(angle), radius * math.sin(angle)) for angle in around)
    return element("polygon", class_=kind, points=places)


# the path of a rollout: a line that is shifted to the right of the direction of travel, so that two passes through a
# cell in opposite directions do not overlap


def _path(layout: Layout, path: Ints, step: int | None) -> str:
    """Draw the path before and after `step`, arrow heads, and the agent (in the first cell if `step` is None)."""
    centres = [complex(*centre(layout, cell)) for cell in path]  # y points down, so the factor 1j turns to the right
    wide, last = side(layout), len(path) - 1
    now = 0 if step is None else min(max(step, 0), last)
    walked = last if step is None else now
    shift = min(_LANE * wide, _WIDEST_LANE)
    corners = _lane(centres, shift)
    ahead = [corner for at, corner in corners if walked <= at]
    behind = [corner for at, corner in corners if at <= walked]
    lines = [(kind, line) for kind, line in (("ahead", ahead), ("path", behind)) if len(line) > 1]
    parts = [edged("polyline", kind, points=_points(line)) for kind, line in lines]
    parts += _marks(centres, shift)
    row, column = divmod(int(path[now]), layout.columns)
    agent = element("circle", class_="agent-edge", r=min(wide * 0.3, 14))
    agent += element("circle", class_="agent-body", r=min(wide * 0.22, 10))
    place = f"translate({number(centres[now].real)} {number(centres[now].imag)})"
    parts.append(element("g", agent, class_="agent", data_x=column, data_y=row, transform=place))
    return "".join(parts)


def _points(places: Sequence[complex]) -> str:
    return points((place.real, place.imag) for place in places)


def _right(here: complex, there: complex) -> complex:
    """Return the unit vector to the right of a move; 0 if the agent stays in the cell."""
    return 1j * (there - here) / abs(there - here) if there != here else 0j


def _lane(centres: Sequence[complex], shift: float) -> list[tuple[int, complex]]:
    """Return the corners of the line, each with its step. A cell in which the path turns back has two corners."""
    ways = [_right(here, there) for here, there in pairwise(centres)]
    found: list[tuple[int, complex]] = []
    before = 0j
    for step, middle in enumerate(centres):
        after = next((way for way in ways[step:] if way), 0j)
        if before and before + after == 0:
            sides = [before, after]
        elif before == after:
            sides = [after]
        else:
            sides = [before + after]
        found += [(step, middle + shift * right) for right in sides]
        before = ways[step] if step < len(ways) and ways[step] else before
    return found


def _marks(centres: Sequence[complex], shift: float) -> list[str]:
    """Draw arrow heads on the line, every few moves."""
    moves = [(here, there) for here, there in pairwise(centres) if here != there]
    marks, reach = [], shift * 1.15
    for here, there in moves[1::_MARK_EVERY]:
        right = _right(here, there)
        middle, ahead, wide = (here + there) / 2 + shift * right, -1j * right * reach, right * reach
        marks.append(
            element(
                "polygon", class_="mark", points=_points([middle + ahead, middle - ahead + wide, middle - ahead - wide])
            )
        )
    return marks
