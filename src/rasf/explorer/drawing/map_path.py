"""One rollout on a map: a line that keeps to the right of its way, so that going and coming back are two lines."""

from __future__ import annotations

import math
from itertools import pairwise

from rasf.arrays import Ints
from rasf.explorer.drawing.svg import element, number, points

Place = tuple[float, float]
_LANE, _WIDEST_LANE = 0.13, 5.0  # of a cell, to the right
_MARK_EVERY = 3  # steps between marks of direction


def draw_path(columns: int, centres: list[Place], path: Ints, step: int | None, side: float) -> str:
    """The way walked and the way ahead, marks of direction, and the agent at `step` (at the first cell for None)."""
    last = len(centres) - 1
    now = 0 if step is None else min(max(step, 0), last)
    walked = last if step is None else now
    shift = min(_LANE * side, _WIDEST_LANE)
    places = _lanes(centres, shift)
    parts = []
    behind, ahead = _between(places, 0, walked), _between(places, walked, last)
    if len(ahead) > 1:
        parts.append(element("polyline", class_="ahead-edge", points=points(ahead)))
        parts.append(element("polyline", class_="ahead", points=points(ahead)))
    if len(behind) > 1:
        parts.append(element("polyline", class_="path-edge", points=points(behind)))
        parts.append(element("polyline", class_="path", points=points(behind)))
    parts += _marks(centres, shift)
    x, y = centres[now]
    cell = int(path[now])
    parts.append(
        element(
            "g",
            element("circle", class_="agent-edge", r=min(side * 0.3, 14)),
            element("circle", class_="agent-body", r=min(side * 0.22, 10)),
            class_="agent",
            data_x=cell % columns,
            data_y=cell // columns,
            transform=f"translate({number(x)} {number(y)})",
        )
    )
    return "".join(parts)


def _right(here: Place, there: Place) -> Place | None:
    """The unit vector to the right of the way, or None where nobody moved (y points down)."""
    dx, dy = there[0] - here[0], there[1] - here[1]
    length = math.hypot(dx, dy)
    return None if length == 0 else (-dy / length, dx / length)


def _lanes(centres: list[Place], shift: float) -> list[tuple[int, Place]]:
    """Corners of the line, each with its step."""
    ways = [_right(here, there) for here, there in pairwise(centres)]
    found: list[tuple[int, Place]] = []
    before: Place | None = None
    for step, (x, y) in enumerate(centres):
        after = next((way for way in ways[step:] if way is not None), None) if step < len(ways) else None
        turned_back = before is not None and after is not None and before[0] + after[0] == 0 == before[1] + after[1]
        sides = [way for way in (before, after) if way is not None]
        if turned_back or not sides:
            corners = sides or [(0.0, 0.0)]
        elif len(sides) == 2 and sides[0] != sides[1]:
            corners = [(sides[0][0] + sides[1][0], sides[0][1] + sides[1][1])]
        else:
            corners = sides[:1]
        found += [(step, (x + shift * right[0], y + shift * right[1])) for right in corners]
        before = ways[step] if step < len(ways) and ways[step] is not None else before
    return found


def _between(places: list[tuple[int, Place]], first: int, last: int) -> list[Place]:
    return [place for step, place in places if first <= step <= last]


def _marks(centres: list[Place], shift: float) -> list[str]:
    """Arrow heads on the line, every few moves."""
    marks, moves, reach = [], 0, shift * 1.15
    for (x, y), there in pairwise(centres):
        right = _right((x, y), there)
        if right is None:
            continue
        if moves % _MARK_EVERY == 1:
            ahead = (right[1], -right[0])
            mx = (x + there[0]) / 2 + shift * right[0]
            my = (y + there[1]) / 2 + shift * right[1]
            corners = [
                (mx + ahead[0] * reach, my + ahead[1] * reach),
                (mx - ahead[0] * reach + right[0] * reach, my - ahead[1] * reach + right[1] * reach),
                (mx - ahead[0] * reach - right[0] * reach, my - ahead[1] * reach - right[1] * reach),
            ]
            marks.append(element("polygon", class_="mark", points=points(corners)))
        moves += 1
    return marks
