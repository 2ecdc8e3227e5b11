"""Return against failures as the dial runs over its range: what caution costs.

Points are joined in the order of the dial. Its ends say "averse" and "seeking", the neutral level is a square, the
present one has a ring, and only its own words. Thin bars are 95 % intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from rasf.explorer.drawing.axes import Labels, Scale, finite_range, round_ticks, x_axis, y_axis
from rasf.explorer.drawing.svg import check_prefix, element, picture, points, shown, text, tooltip
from rasf.explorer.scenes.scene import Frontier, Point
from rasf.statistics import Interval

_INSET = 12.0  # room for the ring of a point without failures
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 400.0, 50.0, 380.0, 40.0, 250.0
_NEUTRAL = {"alpha": 1.0}
_NARROW, _PAD = 1e-3, 0.05  # failures: where all are nearer than the one, the other is shown around them


def draw_frontier(
    frontier: Frontier,
    here: Point | None,
    *,
    parameter: str,
    neutral: float | None = None,
    share: bool = False,
    id_prefix: str = "frontier",
) -> str:
    """Failures and return at every level; `neutral` is the dial's neutral level (by default 1 for alpha, else 0).

    `share`: failures are a rate, shown in per cent.
    """
    check_prefix(id_prefix)
    if share:
        frontier = Frontier(frontier.family, tuple(map(_in_per_cent, frontier.points)))
        here = None if here is None else _in_per_cent(here)
    unit = 100.0 if share else 1.0
    neutral = _NEUTRAL.get(parameter, 0.0) if neutral is None else neutral
    line = sorted((point for point in frontier.points if _finite(point)), key=lambda point: point.level)
    here = here if here is not None and _finite(here) else None
    every = [*line, *([here] if here is not None else [])]
    title = f"Return against failures as {parameter} runs over its range ({frontier.family})"
    bounds = [_range([getattr(point, name) for point in every]) for name in ("failures", "returns")]
    if not every or bounds[0] is None or bounds[1] is None:
        note = text("no points yet", _WIDTH / 2, 60, class_="soft", text_anchor="middle")
        return picture(_WIDTH, 110, note, kind="chart", title=title, description="No points yet.", id_prefix=id_prefix)

    (least, most), returns = bounds[0], bounds[1]
    least = max(least, 0.0)  # an interval may reach below, failures do not
    if most - least < _NARROW * unit:
        least, most = max(least - _PAD * unit, 0.0), most + _PAD * unit
    x = Scale(round_ticks(least, most), _LEFT + _INSET, _RIGHT)
    y = Scale(round_ticks(*returns), _BOTTOM, _TOP)
    places = [(x(point.failures.estimate), y(point.returns.estimate)) for point in line]
    failures = "failures, % of rollouts" if share else "failures a rollout"
    body = x_axis(x, _BOTTOM, _TOP, f"{failures} (left is safer)", _WIDTH / 2)
    body += y_axis(y, _LEFT, _RIGHT, "mean return (up is better)")
    body += "".join(_whiskers(point, x, y) for point in line)
    if len(places) > 1:
        body += element("polyline", class_="curve", points=points(places))
    body += "".join(_dot(point, place, parameter, neutral, share) for point, place in zip(line, places, strict=True))
    body += _labels(line, here, x, y, parameter, neutral)
    return picture(
        _WIDTH,
        _BOTTOM + 46,
        body,
        kind="chart",
        title=title,
        description=_in_words(line, here, parameter, share),
        id_prefix=id_prefix,
    )


def _in_per_cent(point: Point) -> Point:
    return replace(point, failures=Interval(*(100 * end for end in point.failures)))


def _said(point: Point, share: bool) -> str:
    return f"failures {shown(point.failures.estimate)}{' %' * share}, return {shown(point.returns.estimate)}"


def _finite(point: Point) -> bool:
    return math.isfinite(point.returns.estimate) and math.isfinite(point.failures.estimate)


def _range(intervals: Sequence[tuple[float, float, float]]) -> tuple[float, float] | None:
    return finite_range(np.asarray(intervals, np.float64))


def _whiskers(point: Point, x: Scale, y: Scale) -> str:
    at, up = x(point.failures.estimate), y(point.returns.estimate)
    parts = []
    if np.isfinite(point.failures[1:]).all():
        parts.append(
            element("line", class_="whisker", x1=x(point.failures.low), x2=x(point.failures.high), y1=up, y2=up)
        )
    if np.isfinite(point.returns[1:]).all():
        parts.append(element("line", class_="whisker", x1=at, x2=at, y1=y(point.returns.low), y2=y(point.returns.high)))
    return "".join(parts)


def _dot(point: Point, place: tuple[float, float], parameter: str, neutral: float, share: bool) -> str:
    at, up = place
    said = tooltip(f"{parameter} {shown(point.level)}: {_said(point, share)}")
    if math.isclose(point.level, neutral, abs_tol=1e-9):
        return element("rect", said, class_="neutral-point", x=at - 5, y=up - 5, width=10, height=10)
    return element("circle", said, class_="point", cx=at, cy=up, r=4)


def _labels(line: list[Point], here: Point | None, x: Scale, y: Scale, parameter: str, neutral: float) -> str:
    def place(point: Point) -> tuple[float, float]:
        return x(point.failures.estimate), y(point.returns.estimate)

    labels = Labels((_LEFT + 2, _TOP - 8, _WIDTH - 4, _BOTTOM - 2))
    for point in line:
        at, up = place(point)
        labels.keep_free(at, up, 5)
        if np.isfinite(point.failures[1:]).all():
            labels.keep_line_free((x(point.failures.low), up), (x(point.failures.high), up))
    for point, after in pairwise(line):
        labels.keep_line_free(place(point), place(after))
    body = ""
    if here is not None:
        at, up = place(here)
        labels.keep_free(at, up, 9)
        body += element("circle", class_="here-edge", cx=at, cy=up, r=8.5)
        body += element("circle", class_="here", cx=at, cy=up, r=8.5)
        said = f"here, {parameter} {shown(here.level)}"
        body += labels.put(said, at, up, 13.0, class_="strong halo here-label")
    named = [(point, "neutral") for point in line if math.isclose(point.level, neutral, abs_tol=1e-9)]
    for end, said, beyond in ((0, "averse", -1), (-1, "seeking", 1)):
        if line and (line[end].level - neutral) * beyond > 1e-9:
            named.append((line[end], said))
    for point, said in named:
        if here is None or not math.isclose(point.level, here.level, abs_tol=1e-9):  # else it has its words
            body += labels.put(said, *place(point), class_="halo")
    return body


def _in_words(line: list[Point], here: Point | None, parameter: str, share: bool) -> str:
    words = []
    if line:
        words.append(f"From {parameter} {shown(line[0].level)}, with {_said(line[0], share)},")
        words.append(f"to {parameter} {shown(line[-1].level)}, with {_said(line[-1], share)}.")
    if here is not None:
        words.append(f"Here, at {parameter} {shown(here.level)}, {_said(here, share)}.")
    return " ".join(words)
