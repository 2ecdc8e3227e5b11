"""The reacher's arm, its targets, the circles in which it may fail, and GPI's objective at tip positions.

The page's script moves the arm, so the names of its parts are fixed: `line.link1` from shoulder to elbow, `line.link2`
from elbow to tip, `circle.tip`, `circle.elbow`, and `polyline.trail`. Coordinates are in units of the viewBox, the
outputs of `to_view`. y points up in the world and down in the picture. Targets are numbered from 0, as in the
environment. The objective is the largest score of all source policies and actions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf_explorer.drawing import palette
from rasf_explorer.drawing.axes import finite_range
from rasf_explorer.drawing.map import warning
from rasf_explorer.drawing.svg import (
    edged,
    element,
    hatch,
    heat_legend,
    legend_lines,
    number,
    picture,
    points,
    shown,
    text,
    tooltip,
)
from rasf_explorer.scenes.scene import Arm, Field, Posture

WIDTH = 440.0
_MARGIN, _LEFT, _INNER = 8.0, 12.0, 416.0
_ARC = 17.0  # radius of a torque's arc
_FULL_TORQUE = 1.5 * np.pi  # angle of the arc of a torque of 1
_LEAST_TORQUE = 0.02  # a smaller torque has no arc


def to_view(arm: Arm, xy: npt.ArrayLike) -> Floats:
    """Convert positions (.., 2) from metres to units of the viewBox."""
    scale, height = _fit(arm)
    return np.asarray(xy, np.float64) * (scale, -scale) + (WIDTH / 2, height / 2)


def from_view(arm: Arm, xy: npt.ArrayLike) -> Floats:
    """Convert positions (.., 2) from units of the viewBox to metres."""
    scale, height = _fit(arm)
    return (np.asarray(xy, np.float64) - (WIDTH / 2, height / 2)) / (scale, -scale)


def _fit(arm: Arm) -> tuple[float, float]:
    """Return scale (units of the viewBox per metre) and height of a picture with room for circles and stretched arm."""
    risky = np.isin(np.arange(len(arm.targets)), arm.risky)[:, None]
    far = np.abs(arm.targets) + np.where(risky, arm.radius, 0.02)
    wide, high = np.maximum(far.max(axis=0, initial=0.0), sum(arm.links) + 0.01)
    scale = float((WIDTH / 2 - _MARGIN) / wide)
    return scale, float(2 * (high * scale + _MARGIN))


def draw_arm(
    arm: Arm,
    field: Field | None,
    *,
    rollout: tuple[Floats, Floats, Ints] | None = None,
    step: int = 0,
    target: int | None = None,
    selected: Posture | None = None,
    id_prefix: str = "arm",
) -> str:
    """Draw the arm.

    Args:
        arm: Geometry and targets.
        field: The objective, drawn as heat (`palette`); None for no objective.
        rollout: Elbows (T, 2) and tips (T, 2) in metres, and failures (T,), at T steps. Default: a stretched arm.
        step: The step of the rollout. Default: 0.
        target: The target with the largest weight, which is marked. Default: none.
        selected: A posture, drawn as a dashed line, with GPI's torques as arcs at its joints. Default: none.
        id_prefix: Start of all ids in the picture. Default: "arm".

    Returns:
        The picture, as SVG text.
    """
    elbow, tip, tips, failed = np.array([arm.links[0], 0.0]), np.array([sum(arm.links), 0.0]), np.zeros((0, 2)), None
    if rollout is not None:
        elbows, tips, failed = rollout
        elbow, tip = elbows[step], tips[step]
    heat = None if field is None else _Heat.of(field)
    scale, above = _fit(arm)
    body = hatch(f"{id_prefix}-risk", 8, element("path", d="M-2 2l4-4M0 8l8-8M6 10l4-4", class_="risk-hatch"))
    body += element("circle", class_="reach", cx=WIDTH / 2, cy=above / 2, r=sum(arm.links) * scale)
    body += "" if heat is None else heat.squares(arm)
    body += _circles(arm, id_prefix)
    body += heat.peak(arm) if heat is not None and heat.varies else ""
    body += _trail(arm, tips, failed) + _links(arm, elbow, tip)
    body += ("" if selected is None else _posture(arm, selected)) + _targets(arm, target)
    hand = to_view(arm, tip)
    body += element("circle", class_="tip over", cx=float(hand[0]), cy=float(hand[1]), r=7)
    if selected is not None:
        left, top = (to_view(arm, selected.tip) - 8).tolist()
        body += element("g", edged("rect", "spot", x=left, y=top, width=16, height=16), class_="over")
    fails = failed is not None and bool(failed.any())
    turns = selected is not None and bool((np.abs(selected.torques) >= _LEAST_TORQUE).any())
    legend, height = _legend(arm, heat, target is not None, fails, turns, id_prefix)
    said = [f"An arm with its tip at ({shown(tip[0])}, {shown(tip[1])}) metres, among {len(arm.targets)} targets."]
    if arm.risky:
        said.append(f"It may fail within {shown(arm.radius)} m of targets {', '.join(map(str, arm.risky))}.")
    said += [] if target is None else [f"Target {target} has the largest weight."]
    said += [] if heat is None else [heat.in_words()]
    said += [] if selected is None else [_torques_in_words(selected)]
    said += [] if failed is None else [f"Failures in the rollout: {int(failed.sum())}."]
    return picture(
        WIDTH,
        above + height,
        body + element("g", legend, class_="legend", transform=f"translate(0 {number(above)})"),
        kind="arm",
        title="The arm, its targets and the circles where it may fail",
        description=" ".join(said),
        id_prefix=id_prefix,
    )


class _Heat:
    """An objective with at least one finite value, drawn as heat."""

    def __init__(self, field: Field, low: float, high: float) -> None:
        self.field, self.low, self.high = field, low, high
        self.varies = high > low
        self.best = int(np.argmax(np.where(np.isfinite(field.value), field.value, -np.inf)))

    @classmethod
    def of(cls, field: Field) -> _Heat | None:
        ends = finite_range(field.value)
        return None if ends is None else cls(field, *ends)

    def squares(self, arm: Arm) -> str:
        """Draw a square for each tip position. All squares of one colour are one path."""
        side = self.field.cell * _fit(arm)[0] * 1.02  # squares overlap, so that no gaps are visible
        squares = [""] * palette.HEAT
        for (x, y), value in zip(to_view(arm, self.field.tips), self.field.value, strict=True):
            if np.isfinite(value):
                share = (value - self.low) / (self.high - self.low) if self.varies else 0.0
                corner = f"M{x - side / 2:.1f} {y - side / 2:.1f}h{side:.1f}v{side:.1f}h-{side:.1f}z"
                squares[palette.heat_step(float(share))] += corner
        paths = (
            element("path", d=corners, fill=palette.heat_colour(step), data_step=step)
            for step, corners in enumerate(squares)
            if corners
        )
        return element("g", *paths, class_="heat")

    def peak(self, arm: Arm) -> str:
        x, y = to_view(arm, self.field.tips[self.best])
        cross = f"M{number(x - 8)} {number(y)}h16M{number(x)} {number(y - 8)}v16"
        return element("g", edged("path", "peak", d=cross))

    def in_words(self) -> str:
        if not self.varies:
            return f"The objective is {shown(self.low)} everywhere."
        place = ", ".join(map(shown, self.field.tips[self.best]))
        driver = int(self.field.driver[self.best])
        return f"The largest objective is {shown(self.high)}, with the tip at ({place}), by policy {driver}."


def _circles(arm: Arm, id_prefix: str) -> str:
    parts, radius = [], arm.radius * _fit(arm)[0]
    for index in arm.risky:
        x, y = to_view(arm, arm.targets[index])
        circle, fill = {"cx": x, "cy": y, "r": radius}, f"url(#{id_prefix}-risk)"
        parts.append(element("circle", class_="risky-edge", **circle))
        parts.append(element("circle", class_="risky", **circle, fill=fill, data_target=index))
        parts.append(element("g", warning(0.8), transform=f"translate({number(x)} {number(y - radius + 12)})"))
    return "".join(parts)


def _targets(arm: Arm, chosen: int | None) -> str:
    parts = []
    for index, (x, y) in enumerate(to_view(arm, arm.targets).tolist()):
        if index == chosen:
            parts.append(edged("circle", "goal-ring", cx=x, cy=y, r=15))
        kind = "trained" if index < arm.training else "new"
        said = tooltip(f"target {index}, {kind}{', may fail here' * (index in arm.risky)}")
        parts.append(element("circle", said, class_=f"target {kind}", cx=x, cy=y, r=10, data_target=index))
        parts.append(text(str(index), x, y + 4.4, class_=f"letter {kind}-letter"))
    return "".join(parts)


def _trail(arm: Arm, tips: Floats, failed: Ints | None) -> str:
    places = [(float(x), float(y)) for x, y in to_view(arm, tips)]
    parts = [edged("polyline", "trail", points=points(places))]
    for x, y in (place for place, fails in zip(places, () if failed is None else failed, strict=False) if fails):
        cross = f"M{number(x - 5)} {number(y - 5)}l10 10m0-10l-10 10"
        parts.append(edged("path", "failure", d=cross))
    return element("g", *parts, class_="over")


def _links(arm: Arm, elbow: Floats, tip: Floats) -> str:
    (x0, y0), (x1, y1), (x2, y2) = (to_view(arm, place).tolist() for place in ((0.0, 0.0), elbow, tip))
    return element(
        "g",
        element("line", class_="link link1", x1=x0, y1=y0, x2=x1, y2=y1),
        element("line", class_="link link2", x1=x1, y1=y1, x2=x2, y2=y2),
        element("circle", class_="joint shoulder", cx=x0, cy=y0, r=6),
        element("circle", class_="joint elbow", cx=x1, cy=y1, r=5),
        class_="over",
    )


def _posture(arm: Arm, posture: Posture) -> str:
    """Draw a posture, and the torque at each joint as an arc in the direction in which it turns."""
    shoulder, elbow, tip = (to_view(arm, place) for place in ((0.0, 0.0), posture.elbow, posture.tip))
    links = points([(float(x), float(y)) for x, y in (shoulder, elbow, tip)])
    return element(
        "g",
        edged("polyline", "posture", points=links),
        *(
            _torque(joint, end - joint, float(torque))
            for joint, end, torque in zip((shoulder, elbow), (elbow, tip), posture.torques, strict=True)
        ),
        class_="over",
    )


def _torque(joint: Floats, along: Floats, torque: float) -> str:
    """Draw a torque as an arc around its joint, from the moved link on. The arc's angle is in proportion to the torque.

    A positive torque turns anticlockwise, which is a falling angle in the picture, because y points down there.
    """
    if abs(torque) < _LEAST_TORQUE:
        return ""
    start, sign = float(np.arctan2(along[1], along[0])), float(np.sign(torque))
    end = start - torque * _FULL_TORQUE

    def place(angle: float, radius: float = _ARC) -> tuple[float, float]:
        return float(joint[0] + radius * np.cos(angle)), float(joint[1] + radius * np.sin(angle))

    (x0, y0), (x1, y1) = (map(number, place(angle)) for angle in (start, end))
    more_than_half, clockwise = int(abs(torque) * _FULL_TORQUE > np.pi), int(torque < 0)
    arc = f"M{x0} {y0}A{number(_ARC)} {number(_ARC)} 0 {more_than_half} {clockwise} {x1} {y1}"
    head = points([place(end, _ARC + 6), place(end, _ARC - 6), place(end - sign * 0.5)])
    said = tooltip(f"torque {shown(torque)}")
    return element("g", said, edged("path", "torque", d=arc), element("polygon", class_="torque-head", points=head))


def _torques_in_words(posture: Posture) -> str:
    shoulder, elbow = map(shown, posture.torques)
    return f"At the chosen position GPI's torques are {shoulder} on the shoulder and {elbow} on the elbow."


def _legend(arm: Arm, heat: _Heat | None, chosen: bool, fails: bool, turns: bool, id_prefix: str) -> tuple[str, float]:
    """Return markup and height of the legend below the arm."""
    risky = element("circle", class_="risky", r=9, fill=f"url(#{id_prefix}-risk)")
    items = [
        (arm.training > 0, element("circle", class_="target trained", r=8), "trained target"),
        (arm.training < len(arm.targets), element("circle", class_="target new", r=8), "new target"),
        (bool(arm.risky), risky, "may fail here"),
        (chosen, element("circle", class_="goal-ring", r=9), "largest weight"),
        (heat is not None and heat.varies, element("path", class_="peak", d="M-7 0h14M0-7v14"), "largest objective"),
        (fails, element("path", class_="failure", d="M-5-5l10 10m0-10l-10 10"), "failure"),
        (turns, element("path", class_="torque", d="M7 5A9 9 0 1 0-7 5"), "torque of GPI's choice"),
    ]
    markup, y = legend_lines([(mark, words) for there, mark, words in items if there], _LEFT, 20.0, _INNER)
    y += 22
    if heat is None:
        return markup, y
    if not heat.varies:
        return markup + text(f"Objective {shown(heat.low)} everywhere", _LEFT, y + 9, class_="strong"), y + 24
    ticks = [(share, shown(heat.low + share * (heat.high - heat.low))) for share in (0.0, 1 / 3, 2 / 3, 1.0)]
    return markup + heat_legend("Objective with the tip at rest at a position", ticks, _LEFT, y + 9, _INNER), y + 58
