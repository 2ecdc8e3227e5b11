"""The reacher's arm over its targets and risky circles, and GPI's objective wherever the tip may rest.

The page's script moves the arm, so its parts are fixed: `line.link1` from shoulder to elbow, `line.link2` from elbow to
tip, `circle.tip`, `circle.elbow`, and `polyline.trail`; all in units of the viewBox, as `to_view` gives them. y points
up in the world and down in the picture. Targets are numbered as in the environment, from 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.explorer.drawing import palette
from rasf.explorer.drawing.map_symbols import warning
from rasf.explorer.drawing.svg import check_prefix, element, number, picture, points, shown, text, text_width, tooltip
from rasf.explorer.scenes.scene import Arm, Field

WIDTH = 440.0
_MARGIN = 8.0
_SIZE = 13.0


def to_view(arm: Arm, xy: npt.ArrayLike) -> Floats:
    """Places (.., 2) in metres as places (.., 2) in units of the viewBox."""
    scale, height = _fit(arm)
    return np.asarray(xy, np.float64) * (scale, -scale) + (WIDTH / 2, height / 2)


def from_view(arm: Arm, xy: npt.ArrayLike) -> Floats:
    """The way back: where in the world a click was."""
    scale, height = _fit(arm)
    return (np.asarray(xy, np.float64) - (WIDTH / 2, height / 2)) / (scale, -scale)


def draw_arm(
    arm: Arm,
    field: Field | None,
    *,
    elbow: npt.ArrayLike | None = None,
    tip: npt.ArrayLike | None = None,
    trail: Floats | None = None,
    failed: Ints | None = None,
    target: int | None = None,
    names: Sequence[str] = (),
    id_prefix: str = "arm",
    show_field: bool = True,
) -> str:
    """The arm with its tip here, by default stretched to the right; `trail` (T, 2) in metres, `failed` (T,) on the way.

    `target` is marked as the one that counts most; `names` are the targets' in words.
    """
    check_prefix(id_prefix)
    if (elbow is None) != (tip is None):
        raise ValueError("elbow and tip must be given together, or neither")
    elbow = (arm.links[0], 0.0) if elbow is None else elbow
    tip = (arm.links[0] + arm.links[1], 0.0) if tip is None else tip
    field = field if show_field and field is not None and np.isfinite(field.value).any() else None
    body = element("defs", _hatch(id_prefix)) + _reach(arm)
    if field is not None:
        body += _heat(arm, field)
    body += _circles(arm, id_prefix)
    if field is not None and _varies(field):
        body += _peak(arm, field)
    body += _trail(arm, trail, failed) + _links(arm, elbow, tip) + _targets(arm, target, names) + _tip(arm, tip)
    above = _fit(arm)[1]
    legend, height = _legend(arm, field, target, trail, failed, id_prefix)
    return picture(
        WIDTH,
        above + height,
        body + element("g", legend, class_="legend", transform=f"translate(0 {number(above)})"),
        kind="arm",
        title="The arm, its targets and the circles where it may fail",
        description=_in_words(arm, field, tip, target, names, failed),
        id_prefix=id_prefix,
        data={"scale": _scale(arm), "shoulder_x": WIDTH / 2, "shoulder_y": above / 2},
    )


def _fit(arm: Arm) -> tuple[float, float]:
    """Units a metre and the height: all circles and the stretched arm have room."""
    risky = np.isin(np.arange(len(arm.targets)), arm.risky)[:, None]
    far = np.abs(arm.targets) + np.where(risky, arm.radius, 0.02)
    wide, high = np.maximum(far.max(axis=0, initial=0.0), sum(arm.links) + 0.01)
    scale = float((WIDTH / 2 - _MARGIN) / wide)
    return scale, float(2 * (high * scale + _MARGIN))


def _scale(arm: Arm) -> float:
    return _fit(arm)[0]


def _hatch(id_prefix: str) -> str:
    return element(
        "pattern",
        element("path", d="M-2 2l4-4M0 8l8-8M6 10l4-4", class_="risk-hatch"),
        id=f"{id_prefix}-risk",
        width=8,
        height=8,
        patternUnits="userSpaceOnUse",
    )


def _reach(arm: Arm) -> str:
    x, y = to_view(arm, (0.0, 0.0))
    return element("circle", class_="reach", cx=x, cy=y, r=sum(arm.links) * _scale(arm))


def _heat(arm: Arm, field: Field) -> str:
    """One path for each step of the scale, a square for each tip."""
    low, high = _range(field)
    side = field.cell * _scale(arm) * 1.02  # a little over, so that no paper shines between
    squares: list[list[str]] = [[] for _ in range(palette.HEAT)]
    for (x, y), value in zip(to_view(arm, field.tips), field.value, strict=True):
        if np.isfinite(value):
            share = (value - low) / (high - low) if high > low else 0.0
            corner = f"M{x - side / 2:.1f} {y - side / 2:.1f}h{side:.1f}v{side:.1f}h-{side:.1f}z"
            squares[palette.heat_step(float(share))].append(corner)
    return element(
        "g",
        *(
            element("path", d="".join(corners), fill=palette.heat_colour(step), data_step=step)
            for step, corners in enumerate(squares)
            if corners
        ),
        class_="heat",
    )


def _range(field: Field) -> tuple[float, float]:
    finite = field.value[np.isfinite(field.value)]
    return float(finite.min()), float(finite.max())


def _varies(field: Field) -> bool:
    low, high = _range(field)
    return high > low


def _best(field: Field) -> int:
    return int(np.argmax(np.where(np.isfinite(field.value), field.value, -np.inf)))


def _peak(arm: Arm, field: Field) -> str:
    x, y = to_view(arm, field.tips[_best(field)])
    cross = f"M{number(x - 8)} {number(y)}h16M{number(x)} {number(y - 8)}v16"
    return element("g", element("path", d=cross, class_="peak-edge"), element("path", d=cross, class_="peak"))


def _circles(arm: Arm, id_prefix: str) -> str:
    parts = []
    for index in arm.risky:
        x, y = to_view(arm, arm.targets[index])
        parts.append(element("circle", class_="risky-edge", cx=x, cy=y, r=arm.radius * _scale(arm)))
        parts.append(
            element(
                "circle",
                class_="risky",
                cx=x,
                cy=y,
                r=arm.radius * _scale(arm),
                fill=f"url(#{id_prefix}-risk)",
                data_target=index,
            )
        )
        up = y - arm.radius * _scale(arm) + 12
        parts.append(element("g", warning(0.8), transform=f"translate({number(x)} {number(up)})"))
    return "".join(parts)


def _targets(arm: Arm, chosen: int | None, names: Sequence[str]) -> str:
    parts = []
    for index, place in enumerate(arm.targets):
        x, y = to_view(arm, place)
        trained = index < arm.training
        if index == chosen:
            parts.append(element("circle", class_="goal-edge", cx=x, cy=y, r=15))
            parts.append(element("circle", class_="goal-ring", cx=x, cy=y, r=15))
        kind = "trained" if trained else "new"
        said = f"{_named(names, index)}, {'trained' if trained else 'new'}{', may fail here' * (index in arm.risky)}"
        parts.append(element("circle", tooltip(said), class_=f"target {kind}", cx=x, cy=y, r=10, data_target=index))
        parts.append(text(str(index), x, y + 4.4, class_=f"letter {kind}-letter"))
    return "".join(parts)


def _named(names: Sequence[str], index: int) -> str:
    return names[index] if index < len(names) else f"target {index}"


def _trail(arm: Arm, trail: Floats | None, failed: Ints | None) -> str:
    places = [] if trail is None or not len(trail) else [(float(x), float(y)) for x, y in to_view(arm, trail)]
    parts = [
        element("polyline", class_="trail-edge", points=points(places)),
        element("polyline", class_="trail", points=points(places)),
    ]
    if failed is not None and places:
        for x, y in (place for place, fails in zip(places, failed, strict=False) if fails):
            cross = f"M{number(x - 5)} {number(y - 5)}l10 10m0-10l-10 10"
            parts.append(element("path", d=cross, class_="failure-edge") + element("path", d=cross, class_="failure"))
    return element("g", *parts, class_="over")


def _links(arm: Arm, elbow: npt.ArrayLike, tip: npt.ArrayLike) -> str:
    (x0, y0), (x1, y1), (x2, y2) = to_view(arm, (0.0, 0.0)), to_view(arm, elbow), to_view(arm, tip)
    return element(
        "g",
        element("line", class_="link link1", x1=x0, y1=y0, x2=x1, y2=y1),
        element("line", class_="link link2", x1=x1, y1=y1, x2=x2, y2=y2),
        element("circle", class_="joint shoulder", cx=x0, cy=y0, r=6),
        element("circle", class_="joint elbow", cx=x1, cy=y1, r=5),
        class_="over",
    )


def _tip(arm: Arm, tip: npt.ArrayLike) -> str:
    x, y = to_view(arm, tip)
    return element("circle", class_="tip over", cx=x, cy=y, r=7)


def _legend(
    arm: Arm, field: Field | None, target: int | None, trail: Floats | None, failed: Ints | None, id_prefix: str
) -> tuple[str, float]:
    items = [(element("circle", class_="target trained", r=8), "trained target")] if arm.training else []
    if arm.training < len(arm.targets):
        items.append((element("circle", class_="target new", r=8), "new target"))
    if arm.risky:
        hatch = element("circle", class_="risky", r=9, fill=f"url(#{id_prefix}-risk)")
        items.append((hatch, "may fail here"))
    if target is not None:
        items.append((element("circle", class_="goal-ring", r=9), "largest weight"))
    if field is not None and _varies(field):
        items.append((element("path", class_="peak", d="M-7 0h14M0-7v14"), "largest objective"))
    if trail is not None and failed is not None and np.any(failed):
        items.append((element("path", class_="failure", d="M-5-5l10 10m0-10l-10 10"), "failure"))
    parts, x, y = [], 12.0, 20.0
    for mark, words in items:
        needed = 24 + text_width(words, _SIZE) + 14
        if x > 12 and x + needed - 14 > WIDTH - 12:
            x, y = 12.0, y + 23
        parts.append(element("g", mark, text(words, 16, 4.5), transform=f"translate({number(x + 9)} {number(y)})"))
        x += needed
    y += 22
    if field is not None and not _varies(field):
        parts.append(text(f"Objective {shown(_range(field)[0])} everywhere", 12, y + 9, class_="strong"))
        y += 24
    elif field is not None:
        low, high = _range(field)
        wide = (WIDTH - 24) / palette.HEAT
        parts.append(text("Objective with the tip at rest there", 12, y + 9, class_="strong"))
        for step in range(palette.HEAT):
            fill = palette.heat_colour(step)
            parts.append(element("rect", x=12 + step * wide, y=y + 18, width=wide, height=14, fill=fill))
        parts.append(element("rect", class_="frame", x=12, y=y + 18, width=WIDTH - 24, height=14))
        for share, anchor in ((0.0, "start"), (1 / 3, "middle"), (2 / 3, "middle"), (1.0, "end")):
            said = shown(low + share * (high - low))
            place = 12 + share * (WIDTH - 24)
            parts.append(text(said, place, y + 47, class_="soft tick", text_anchor=anchor))
        y += 58
    return "".join(parts), y


def _in_words(
    arm: Arm,
    field: Field | None,
    tip: npt.ArrayLike,
    target: int | None,
    names: Sequence[str],
    failed: Ints | None,
) -> str:
    x, y = np.asarray(tip, np.float64)
    said = [f"An arm with its tip at ({shown(x)}, {shown(y)}) metres, among {len(arm.targets)} targets."]
    if arm.risky:
        said.append(f"It may fail within {shown(arm.radius)} m of targets {', '.join(map(str, arm.risky))}.")
    if target is not None:
        said.append(f"Most counts {_named(names, target)}.")
    if field is not None and not _varies(field):
        said.append(f"The objective is {shown(_range(field)[0])} everywhere.")
    elif field is not None:
        best = _best(field)
        px, py = field.tips[best]
        said.append(
            f"The objective is largest, {shown(float(field.value[best]))}, with the tip at ({shown(px)}, {shown(py)}); "
            f"policy {int(field.driver[best])} drives there."
        )
    if failed is not None:
        said.append(f"Failures on the way: {int(np.sum(failed))}.")
    return " ".join(said)
