"""Drives in the same traffic, seen from above, and the speed of the own car (the agent) at every step.

Each drive has a window, which shows a part of the road. The page's script moves the *movers*: the elements with the
attribute `data-mover`. Movers are the contents of each window, each car, and the mark of the step in the chart of
speeds. `moves` returns the positions of the movers in the order of the numbers in `data-mover`: in metres on the road,
in units of the viewBox in the chart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rasf.arrays import Floats
from rasf_explorer.drawing.axes import Scale, round_ticks, x_axis, y_axis
from rasf_explorer.drawing.svg import counted, edged, element, legend_lines, number, picture, points, shown, text
from rasf_explorer.scenes.scene import Drive, Road

WIDTH = 560.0
_EDGE, _GAP, _WORDS = 8.0, 16.0, 42.0  # margin, gap between two drives, height of the words above each drive
_LEFT, _HIGH = 44.0, 96.0  # x coordinate of the chart's left end, and height of the chart
_BEHIND = 0.35  # a window that follows the own car shows this share of its width behind the car
_CROSS = "M-1.1-1.1l2.2 2.2m0-2.2l-2.2 2.2"


class Acted(NamedTuple):
    """A risk ("chosen" or "neutral"), its label, and its drive, which is None until the drive is ready."""

    kind: str
    label: str
    drive: Drive | None


def moves(road: Road, drives: Sequence[Drive], step: int) -> Floats:
    """Return the positions of all movers at a step.

    Args:
        road: The road.
        drives: The drives. A drive that has ended stays at its last step.
        step: The step.

    Returns:
        Positions (movers, 4): x, y, angle in degrees, and 1 if the car has crashed, else 0. For a car that is not on
        the road, they are nan.
    """
    found = []
    for drive in drives:
        cars = drive.cars[min(step, drive.steps)] * (1.0, 1.0, 180 / np.pi, 1.0)
        (wide, deep), (x, y) = road.window, road.middle
        left = cars[0, 0] - _BEHIND * wide if road.follows else x - wide / 2
        found += [[[-left, deep / 2 - y, 0.0, 0.0]], cars]
    return np.concatenate([*found, [[_steps(drives)(step), 0.0, 0.0, 0.0]]])


def draw_road(road: Road, acted: Sequence[Acted], step: int = 0, *, id_prefix: str = "road") -> str:
    """Draw drives at a step, with a chart of their speeds below.

    Args:
        road: The road. Windows of a long road are stacked. Windows of any other road are in one row.
        acted: The drives and their risks.
        step: The step. Default: 0.
        id_prefix: Start of all ids in the picture. Default: "road".

    Returns:
        The picture, as SVG text.
    """
    drives = [one.drive for one in acted if one.drive is not None]
    places, (wide, deep) = moves(road, drives, step), road.window
    across = 1 if road.follows else len(acted)
    scale = (WIDTH - 2 * _EDGE - _GAP * (across - 1)) / (across * wide)
    body, said, first = "", [], 0
    for i, one in enumerate(acted):
        column, row = (0, i) if road.follows else (i, 0)
        x, y = _EDGE + column * (scale * wide + _GAP), _EDGE + _WORDS + row * (scale * deep + _WORDS + _GAP)
        facts = "computing ..." if one.drive is None else _facts(one.drive)
        body += text(one.label, x, y - 26, class_="strong") + text(facts, x, y - 9, class_="soft")
        clip = element("rect", x=x, y=y, width=scale * wide, height=scale * deep, rx=4)
        body += element("defs", element("clipPath", clip, id=f"{id_prefix}-window{i}"))
        seen = element("rect", class_="verge", width=wide, height=deep)
        if one.drive is not None:
            last = first + 1 + len(one.drive.sizes)
            seen += _world(road, one.kind, one.drive, places[first:last], first)
            first = last
        seen = element("g", seen, transform=f"translate({number(x)} {number(y)}) scale({scale:.4f})")
        body += element("g", seen, clip_path=f"url(#{id_prefix}-window{i})")
        said.append(f"{one.label}: {facts}.")
    below = _EDGE + (1 if not road.follows else len(acted)) * (scale * deep + _WORDS + _GAP)
    legend, height = _legend(below + 6, [one.kind for one in acted], road, drives)
    body += legend
    if drives:
        body += _speeds([one for one in acted if one.drive is not None], height + 44, places[-1, 0], first)
        height += 44 + _HIGH + 42
    title = "The own car and its traffic, from above, and its speed"
    said.append(f"Step {step} is shown.")
    return picture(WIDTH, height, body, kind="road", title=title, description=" ".join(said), id_prefix=id_prefix)


def _facts(drive: Drive) -> str:
    steps = f"collision at step {drive.steps}" if drive.collided else f"no collision in {counted(drive.steps, 'step')}"
    return f"{steps}, mean {shown(float(drive.speeds[1:].mean()))} m/s"


def _world(road: Road, kind: str, drive: Drive, places: Floats, first: int) -> str:
    """Draw the contents of a window: the road, the path of the own car, the other cars, and the own car on top."""
    parts = [element("polyline", class_="lane", points=points(middle), stroke_width=w) for middle, w in road.lanes]
    for line, broken in road.lines:
        parts.append(element("polyline", class_="lane-line broken" if broken else "lane-line", points=points(line)))
    for x, y in road.obstacles:
        parts.append(element("rect", class_="obstacle", x=x - 1, y=y - 1, width=2, height=2))
    parts.append(element("polyline", class_=f"way {kind}", points=points(drive.cars[:, 0, :2])))
    cars = [
        _car(kind if i == 0 else "other", size, place, first + i + 1)
        for i, (size, place) in enumerate(zip(drive.sizes, places[1:], strict=True))
    ]
    return element("g", *parts, *reversed(cars), **_placed(places[0], first), class_="mover")


def _car(kind: str, size: Floats, place: Floats, mover: int | None) -> str:
    long, wide = size.tolist()
    body = element("rect", class_="body", x=-long / 2, y=-wide / 2, width=long, height=wide, rx=0.5)
    if kind != "other":
        body += element("path", class_="nose", d=f"M{number(long / 2 - 0.5)} 0l-1.6-.7v1.4z")
    body += element("path", class_="cross-edge", d=_CROSS) + element("path", class_="cross", d=_CROSS)
    return element("g", body, class_=f"mover car {kind}{' crashed' if place[3] > 0 else ''}", **_placed(place, mover))


def _placed(place: Floats, mover: int | None) -> dict[str, str | int | None]:
    x, y, angle, _ = place.tolist()
    if np.isnan(x):
        return {"data_mover": mover, "display": "none"}
    turned = f" rotate({number(angle)})" if angle else ""
    return {"data_mover": mover, "transform": f"translate({number(x)} {number(y)}){turned}"}


def _steps(drives: Sequence[Drive]) -> Scale:
    """Return an axis of whole numbers for the steps of the longest drive."""
    longest = max((drive.steps for drive in drives), default=1)
    apart = next((n for n in (1, 2, 5, 10, 20) if longest <= 8 * n), 50)
    return Scale([float(tick) for tick in range(0, longest + apart, apart)], _LEFT, WIDTH - _EDGE - 8)


def _speeds(acted: Sequence[Acted], top: float, now: float, mover: int) -> str:
    """Draw speed against steps, with a line for each drive and a cross at a collision."""
    drives = [one.drive for one in acted if one.drive is not None]
    x, bottom = _steps(drives), top + _HIGH
    y = Scale(round_ticks(0.0, max(float(drive.speeds.max()) for drive in drives), 3), bottom, top)
    body = x_axis(x, bottom, top, "step", WIDTH / 2) + y_axis(y, _LEFT, x.end, "speed, m/s")
    mark = element("line", class_="now", x1=0, x2=0, y1=top, y2=bottom)
    body += element("g", mark, **_placed(np.array([now, 0.0, 0.0, 0.0]), mover), class_="mover")
    for one, drive in zip(acted, drives, strict=True):
        line = [(x(t), y(speed)) for t, speed in enumerate(drive.speeds.tolist())]
        body += element("polyline", class_=f"speed {one.kind}", points=points(line))
        if drive.collided:
            at, up = line[-1]
            body += edged("path", "failure", d=f"M{number(at - 5)} {number(up - 5)}l10 10m0-10l-10 10")
    return body


def _legend(y: float, kinds: Sequence[str], road: Road, drives: Sequence[Drive]) -> tuple[str, float]:
    """Return the markup of the legend, and the y coordinate of its lower end."""
    size, here = np.array([5.0, 2.0]), np.zeros(4)
    own = {"chosen": "own car, chosen risk", "neutral": "own car, risk-neutral"}
    marks = [(_car(kind, size, here, None), own[kind]) for kind in kinds]
    marks.append((_car("other", size, here, None), "other car"))
    if any((drive.cars[..., 3] > 0).any() for drive in drives):
        marks.append((_car("other", size, np.array([0.0, 0.0, 0.0, 1.0]), None), "collided"))
    if len(road.obstacles):
        marks.append((element("rect", class_="obstacle", x=-1, y=-1, width=2, height=2), "obstacle"))
    large = [(element("g", mark, transform="scale(3.6)"), words) for mark, words in marks]
    markup, last = legend_lines(large, _EDGE, y, WIDTH - 2 * _EDGE)
    return element("g", markup, class_="legend"), last + 16
