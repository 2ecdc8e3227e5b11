"""A map with what GPI does on it: arrows, who drives, visits, one rollout's path.

The page reads and moves a few things in the picture, so they are fixed:

- a cell is `<g class="cell" data-cell="17" data-action="left" data-driver="3">`; action and driver are missing where
  nobody acts; walls are `<g class="wall-cell">` and carry no number;
- the agent is `<g class="agent" data-x="4" data-y="1" transform="translate(..)">`, data in cells (column, row), the
  translation in units of the viewBox, as `centre` says it; it is there when there is a path;
- what lies over the cells lets clicks through.

Sources are numbered as in the library, from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.explorer.drawing import palette
from rasf.explorer.drawing.map_legend import (
    counted,
    driver_legend,
    ranked_drivers,
    symbol_legend,
    visit_legend,
    visit_scale,
    visit_step,
)
from rasf.explorer.drawing.map_path import draw_path
from rasf.explorer.drawing.map_symbols import ACTIONS, LARGEST_UNIT, TURN, arrow_shapes, beside, symbol_at
from rasf.explorer.drawing.svg import check_prefix, element, number, picture, shown, text, tooltip
from rasf.explorer.scenes.scene import Layout, MapPolicy

WIDTH = 440.0
_MARGIN = 12.0
_LARGEST_CELL = 84.0
_NUMBERED = 10  # of the most visited cells, how many carry their number at most
_HARDLY = 0.005  # steps an episode: fewer are drawn as none
LAYERS = ("arrows", "drivers", "visits")


def side(layout: Layout) -> float:
    """The side of a cell, in units of the viewBox."""
    return min((WIDTH - 2 * _MARGIN) / max(layout.columns, layout.rows), _LARGEST_CELL)


def centre(layout: Layout, cell: int) -> tuple[float, float]:
    """The middle of a cell, in units of the viewBox: where the agent is translated to."""
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
    show: Sequence[str] = ("arrows", "drivers"),
    id_prefix: str = "map",
) -> str:
    """The map in one context. With "visits" shown, `visits` must be there; a path is walked up to `step`."""
    check_prefix(id_prefix)
    if unknown := sorted(set(show) - set(LAYERS)):
        raise ValueError(f"show must hold arrows, drivers or visits, got {unknown[0]!r}")
    if "visits" in show and visits is None:
        raise ValueError("visits must be given where they are to be shown")
    heat = visits if "visits" in show else None
    sources = policy.driver if "drivers" in show and heat is None else None
    look_of = palette.looks([source for source, _ in ranked_drivers(policy.driver)])
    sheet = _Sheet(
        layout,
        policy,
        heat,
        look_of if sources is not None else {},
        "arrows" in show,
        {cell for bit, cell in enumerate(layout.objects) if context >> bit & 1},
        _most_visited(layout, heat) if heat is not None else set(),
        visit_scale(heat) if heat is not None else 0.0,
        id_prefix,
    )
    over = ""
    if path is not None and len(path):
        over += draw_path(layout.columns, [centre(layout, cell) for cell in path], path, step, side(layout))
    if selected is not None:
        over += _frame(layout, selected)

    top = _MARGIN + side(layout) * layout.rows + 12
    inner = WIDTH - 2 * _MARGIN
    legends = [symbol_legend(layout, bool(_unseen(layout, policy).any()), _MARGIN, inner)]
    if heat is not None:
        legends.append(visit_legend(heat, _MARGIN, inner))
    elif sources is not None:
        legends.append(driver_legend(sources, names, id_prefix, _MARGIN, inner))
    below = ""
    for markup, height in legends:
        if height:
            below += element("g", markup, class_="legend", transform=f"translate(0 {number(top)})")
            top += height + 6
    used = look_of.values() if sources is not None else ()
    defs = element("defs", palette.patterns(id_prefix, used), arrow_shapes(id_prefix, side(layout) / 32))
    return picture(
        WIDTH,
        top,
        defs + _cells(sheet) + element("g", over, class_="over") + below,
        kind="map walked" if path is not None else "map",
        title="Map: what is done in every cell" + (", and how often it is visited" if heat is not None else ""),
        description=_in_words(layout, policy, names, heat, path),
        id_prefix=id_prefix,
        data={"rows": layout.rows, "columns": layout.columns, "side": side(layout)},
    )


@dataclass(frozen=True)
class _Sheet:
    """What all cells have in common."""

    layout: Layout
    policy: MapPolicy
    heat: Floats | None
    look_of: dict[int, int]  # empty where drivers are not shown
    arrows: bool
    collected: set[int]
    numbered: set[int]  # cells that carry their visits as a number
    largest: float  # number of visits
    id_prefix: str

    def step(self, cell: int) -> int | None:
        """Of heat, where visits are shown."""
        return None if self.heat is None else visit_step(float(self.heat[cell]), self.largest)


def _cells(sheet: _Sheet) -> str:
    layout, wide = sheet.layout, side(sheet.layout)
    box = {"x": -wide / 2, "y": -wide / 2, "width": wide, "height": wide}
    walls, unseen = set(layout.walls), _unseen(layout, sheet.policy)
    parts = []
    for cell in range(layout.rows * layout.columns):
        place = "translate({} {})".format(*map(number, centre(layout, cell)))
        if cell in walls:
            parts.append(element("g", element("rect", class_="wall", **box), class_="wall-cell", transform=place))
            continue
        action, driver = int(sheet.policy.action[cell]), int(sheet.policy.driver[cell])
        inside = tooltip(_cell_in_words(layout, cell, action, driver, sheet.heat))
        inside += element("rect", class_="box", fill=_fill(sheet, cell, driver), **box)
        symbol = _symbol(sheet, cell)
        if unseen[cell] and not symbol:
            symbol = text("?", 0, 4.5, class_="letter soft")
        if sheet.arrows and action >= 0:
            inside += beside(symbol, action, wide / 32) + _arrow(sheet, cell, action, "nudge" if symbol else "arrow")
        else:
            inside += symbol
        parts.append(
            element(
                "g",
                inside,
                class_="cell",
                data_cell=cell,
                data_action=ACTIONS[action] if action >= 0 else None,
                data_driver=driver if driver >= 0 else None,
                transform=place,
            )
        )
    return "".join(parts)


def _fill(sheet: _Sheet, cell: int, driver: int) -> str | None:
    hot = sheet.step(cell)
    if hot is not None:
        return palette.heat_colour(hot)
    return f"url(#{palette.pattern_id(sheet.id_prefix, sheet.look_of[driver])})" if driver in sheet.look_of else None


def _symbol(sheet: _Sheet, cell: int) -> str:
    """What stands in a cell, or the number of visits in one that is free."""
    wide, hot = side(sheet.layout), sheet.step(cell)
    unit = min(wide / 32, LARGEST_UNIT)
    if symbol := symbol_at(sheet.layout, cell, unit, collected=cell in sheet.collected):
        return symbol
    if sheet.heat is None or hot is None or cell not in sheet.numbered:
        return ""
    visits, size = float(sheet.heat[cell]), min(wide * 0.36, 16)
    style = f"font-size:{number(size)}px;fill:{palette.on_heat(hot)}"
    return text(_visit_words(visits), 0, size * 0.36, class_="letter", style=style)


def _arrow(sheet: _Sheet, cell: int, action: int, shape: str) -> str:
    hot = sheet.step(cell)
    kind = "go" if hot is None else "go on-high" if hot >= palette.FIRST_HIGH else "go on-low"
    if sheet.heat is not None and sheet.heat[cell] < _HARDLY:
        kind += " faint"
    return element("use", href=f"#{sheet.id_prefix}-{shape}", class_=kind, transform=f"rotate({TURN[action]})")


def _unseen(layout: Layout, policy: MapPolicy) -> np.ndarray:
    """Free cells where nobody acts: nothing was learned there."""
    unseen = np.asarray(policy.action) < 0
    unseen[[*layout.walls, *layout.goals, *layout.hazards]] = False
    return unseen


def _most_visited(layout: Layout, heat: Floats) -> set[int]:
    taken = {layout.start, *layout.walls, *layout.goals, *layout.hazards, *layout.objects}
    free = [int(cell) for cell in np.argsort(-heat, kind="stable") if int(cell) not in taken and heat[cell] >= 0.05]
    if len(free) <= _NUMBERED:
        return set(free)
    rest = _visit_words(float(heat[free[_NUMBERED]]))  # who reads the same as one left out is left out, too
    return {cell for cell in free[:_NUMBERED] if _visit_words(float(heat[cell])) != rest}


def _visit_words(visits: float) -> str:
    return f"{visits:.1f}" if visits < 9.95 else f"{visits:.0f}"


def _frame(layout: Layout, cell: int) -> str:
    (x, y), wide = centre(layout, cell), side(layout)
    box = {"x": x - wide / 2, "y": y - wide / 2, "width": wide, "height": wide, "rx": 3}
    return element(
        "g",
        element("rect", class_="selected-edge", **box),
        element("rect", class_="selected", **box),
        data_selected=cell,
    )


def _at(layout: Layout, cell: int) -> str:
    return f"row {int(cell) // layout.columns + 1}, column {int(cell) % layout.columns + 1}"


def _cell_in_words(layout: Layout, cell: int, action: int, driver: int, heat: Floats | None) -> str:
    said = _at(layout, cell)
    if what := layout.meaning.get(layout.symbols[cell]):
        said += f", {what}"
    if action >= 0:
        said += f": {ACTIONS[action]}" + (f", by policy {driver}" if driver >= 0 else "")
    if heat is not None:
        said += f"; {shown(float(heat[cell]), 2)} steps an episode"
    return said


def _in_words(layout: Layout, policy: MapPolicy, names: Sequence[str], heat: Floats | None, path: Ints | None) -> str:
    said = [f"A map of {layout.rows} rows and {layout.columns} columns, the start at {_at(layout, layout.start)}."]
    first = int(policy.action[layout.start])
    if first >= 0:
        said.append(f"At the start it goes {ACTIONS[first]}, and policy {int(policy.driver[layout.start])} drives.")
    ranked = ranked_drivers(policy.driver)
    if ranked:
        drive = "; ".join(
            f"policy {source} ({names[source] if source < len(names) else 'unnamed'}) {counted(cells, 'cell')}"
            for source, cells in ranked[: palette.DRIVERS]
        )
        rest = len(ranked) - palette.DRIVERS
        said.append(f"Who drives: {drive}{f'; and {rest} more' if rest > 0 else ''}.")
    if heat is not None and visit_scale(heat) > 0:
        top = int(np.nanargmax(heat))
        said.append(f"Most steps are spent at {_at(layout, top)}, {shown(float(heat[top]), 2)} an episode.")
    if path is not None and len(path):
        said.append(f"A rollout of {counted(len(path) - 1, 'step')} that ends at {_at(layout, int(path[-1]))}.")
    return " ".join(said)
