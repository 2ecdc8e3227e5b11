"""The chart of mean return against failures, with a point for each level of the dial (`rasf_explorer.scenes.scene`).

Lines join the points in the order of the levels. The end points have the labels "averse" and "seeking". The neutral
level is a square. The current level has a ring and the label "here". Thin bars are 95 % intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from rasf.statistics import Interval
from rasf_explorer.drawing.axes import SIZE, Scale, empty_chart, finite_range, round_ticks, x_axis, y_axis
from rasf_explorer.drawing.svg import edged, element, picture, points, shown, text, text_width, tooltip
from rasf_explorer.scenes.frontier import Frontier, Point

_INSET = 12.0  # room left of 0 failures, for the ring around a point at 0
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 400.0, 50.0, 380.0, 40.0, 250.0
_NARROW, _PAD = 1e-3, 0.05  # a range of failures per rollout narrower than _NARROW is widened by _PAD on each side
_ASCENT, _HIGH = 0.8 * SIZE, 1.05 * SIZE  # height of a line of text above its baseline, and its full height


def draw_frontier(
    frontier: Frontier,
    here: Point | None,
    *,
    parameter: str,
    neutral: float = 0.0,
    share: bool = False,
    failure: str = "failure",
    id_prefix: str = "frontier",
) -> str:
    """Draw failures and return at every level.

    Args:
        frontier: The points.
        here: The point of the current level; None if it is not known.
        parameter: Name of the dial's parameter.
        neutral: The neutral level. Default: 0.
        share: Whether to show failures as a rate, in per cent of rollouts. Default: False.
        failure: The word for a failure. Default: "failure".
        id_prefix: Start of all ids in the picture. Default: "frontier".

    Returns:
        The picture, as SVG text.
    """
    fails = f"{failure}s"
    given = [*frontier.points, *([] if here is None else [here])]
    if share:
        given = [replace(point, failures=Interval(*(100 * end for end in point.failures))) for point in given]
    here = None if here is None else given.pop()
    here = here if here is not None and _finite(here) else None
    line = sorted(filter(_finite, given), key=lambda point: point.level)
    every = line if here is None else [*line, here]
    title = f"Return against {fails} as {parameter} runs over its range ({frontier.family})"
    failures, returns = (finite_range([getattr(point, name) for point in every]) for name in ("failures", "returns"))
    if failures is None or returns is None:
        return empty_chart(_WIDTH, "no points yet", title, id_prefix)

    unit = 100.0 if share else 1.0
    least, most = max(failures[0], 0.0), failures[1]  # an interval may reach below 0, a number of failures may not
    if most - least < _NARROW * unit:
        least, most = max(least - _PAD * unit, 0.0), most + _PAD * unit
    x = Scale(round_ticks(least, most), _LEFT + _INSET, _RIGHT)
    y = Scale(round_ticks(*returns), _BOTTOM, _TOP)
    drawn = [_Drawn(point, x, y, math.isclose(point.level, neutral, abs_tol=1e-9)) for point in line]
    body = x_axis(
        x, _BOTTOM, _TOP, f"{fails}{', % of rollouts' if share else ' per rollout'} (left is safer)", _WIDTH / 2
    )
    body += y_axis(y, _LEFT, _RIGHT, "mean return (up is better)")
    for (x1, y1), (x2, y2) in (bar for one in drawn for bar in one.bars()):
        body += element("line", class_="whisker", x1=x1, x2=x2, y1=y1, y2=y2)
    if len(drawn) > 1:
        body += element("polyline", class_="curve", points=points(one.place for one in drawn))
    body += "".join(one.dot(f"{parameter} {shown(one.point.level)}: {_said(one.point, share, fails)}") for one in drawn)
    body += _labels(drawn, None if here is None else _Drawn(here, x, y, False), parameter, neutral)
    said = []
    if line:
        ends = [f"{parameter} {shown(point.level)}, with {_said(point, share, fails)}" for point in (line[0], line[-1])]
        said.append(f"From {ends[0]}, to {ends[1]}.")
    if here is not None:
        said.append(f"Here, at {parameter} {shown(here.level)}, {_said(here, share, fails)}.")
    words = " ".join(said)
    return picture(_WIDTH, _BOTTOM + 46, body, kind="chart", title=title, description=words, id_prefix=id_prefix)


def _said(point: Point, share: bool, fails: str) -> str:
    return f"{fails} {shown(point.failures.estimate)}{' %' * share}, return {shown(point.returns.estimate)}"


def _finite(point: Point) -> bool:
    return math.isfinite(point.returns.estimate) and math.isfinite(point.failures.estimate)


@dataclass(frozen=True)
class _Drawn:
    """A point of the frontier, the scales of the chart, and whether the point is neutral."""

    point: Point
    x: Scale
    y: Scale
    neutral: bool

    @property
    def place(self) -> tuple[float, float]:
        return self.x(self.point.failures.estimate), self.y(self.point.returns.estimate)

    def bars(self) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
        """Yield the two ends of the bar of each finite interval."""
        at, up = self.place
        _, low, high = self.point.failures
        if math.isfinite(low) and math.isfinite(high):
            yield (self.x(low), up), (self.x(high), up)
        _, low, high = self.point.returns
        if math.isfinite(low) and math.isfinite(high):
            yield (at, self.y(low)), (at, self.y(high))

    def dot(self, words: str) -> str:
        at, up = self.place
        if self.neutral:
            return element("rect", tooltip(words), class_="neutral-point", x=at - 5, y=up - 5, width=10, height=10)
        return element("circle", tooltip(words), class_="point", cx=at, cy=up, r=4)


def _labels(line: list[_Drawn], here: _Drawn | None, parameter: str, neutral: float) -> str:
    labels = Labels((_LEFT + 2, _TOP - 8, _WIDTH - 4, _BOTTOM - 2))
    for one in line:
        labels.keep_free(*one.place, 5)
        for low, high in one.bars():
            if low[1] == high[1]:  # labels may overlap vertical bars
                labels.keep_line_free(low, high)
    for one, after in pairwise(line):
        labels.keep_line_free(one.place, after.place)
    body = ""
    if here is not None:
        at, up = here.place
        labels.keep_free(at, up, 9)
        body += edged("circle", "here", cx=at, cy=up, r=8.5)
        body += labels.put(
            f"here, {parameter} {shown(here.point.level)}", at, up, 13.0, class_="strong halo here-label"
        )
    named = [(one, "neutral") for one in line if one.neutral]
    for end, said, beyond in ((0, "averse", -1), (-1, "seeking", 1)):
        if line and (line[end].point.level - neutral) * beyond > 1e-9:
            named.append((line[end], said))
    for one, said in named:
        # the current level already has the label "here"
        if here is None or not math.isclose(one.point.level, here.point.level, abs_tol=1e-9):
            body += labels.put(said, *one.place, class_="halo")
    return body


Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass
class Labels:
    """Labels of points. A label is put at one of eight places around its point or, if none is free, near the point."""

    within: Box
    taken: list[Box] = field(default_factory=list)

    def keep_free(self, x: float, y: float, radius: float) -> None:
        self.taken.append((x - radius, y - radius, x + radius, y + radius))

    def keep_line_free(self, here: tuple[float, float], there: tuple[float, float]) -> None:
        for x, y in np.linspace(here, there, int(math.dist(here, there) // 6) + 2).tolist():
            self.keep_free(x, y, 2)

    def put(self, words: str, x: float, y: float, away: float = 10.0, **attributes: str) -> str:
        """Return a label near a point, with a thin line to the point if the label is not beside it."""
        wide = (1.12 if "strong" in attributes.get("class_", "") else 1.0) * text_width(words, SIZE) + 4
        beside = next(filter(self._free, self._around(x, y, wide, away)), None)
        box = beside or self._nearest(x, y, wide)
        if box is None:  # without a free place, the label is beside the point, over other elements
            left, top, right, bottom = self.within
            at, up = max(min(x + away, right - wide), left), max(min(y - _HIGH / 2, bottom - _HIGH), top)
            beside = box = (at, up, at + wide, up + _HIGH)
        self.taken.append(box)
        near = {"x2": min(max(x, box[0]), box[2]), "y2": min(max(y, box[1]), box[3])}
        leader = element("line", class_="leader", x1=x, y1=y, **near) if beside is None else ""
        return leader + text(words, box[0], box[1] + _ASCENT, **attributes)

    def _around(self, x: float, y: float, wide: float, away: float) -> Iterator[Box]:
        """Yield eight places around a point."""
        for dx, dy in ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (-1, -1), (1, 1), (-1, 1)):
            left = x + away if dx > 0 else x - away - wide if dx < 0 else x - wide / 2
            top = y - _HIGH / 2 + dy * (away + _HIGH / 2)
            yield left, top, left + wide, top + _HIGH

    def _nearest(self, x: float, y: float, wide: float) -> Box | None:
        """Return the free place nearest to a point, or None without a free place."""
        left, top, right, bottom = self.within
        ups, ats = np.arange(top, bottom - _HIGH, 4.0).tolist(), np.arange(left, right - wide, 8.0).tolist()
        free = filter(self._free, ((at, up, at + wide, up + _HIGH) for up in ups for at in ats))
        near = {math.hypot(max(b[0] - x, 0.0, x - b[2]), max(b[1] - y, 0.0, y - b[3])): b for b in free}
        return near[min(near)] if near else None

    def _free(self, box: Box) -> bool:
        left, top, right, bottom = self.within
        inside = box[0] >= left and box[1] >= top and box[2] <= right and box[3] <= bottom
        return inside and all(
            box[2] <= other[0] or box[0] >= other[2] or box[3] <= other[1] or box[1] >= other[3] for other in self.taken
        )
