"""Histograms of returns at the chosen and at the neutral risk, with the same bins, and with means and CVaR.

If returns have few distinct values, each value has its own bar. Bars have a minimum height, so that rare bad returns
are visible.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rasf.arrays import Floats
from rasf_explorer.drawing.axes import SIZE, Scale, empty_chart, finite_range, round_ticks, x_axis, y_axis
from rasf_explorer.drawing.svg import element, hatch, picture, points, shorten, shown, text, text_width
from rasf_explorer.scenes.scene import SceneOutcome

_WIDTH, _LEFT, _RIGHT = 400.0, 48.0, 380.0
_FEW = 16  # the largest number of distinct values for which each value has its own bar
_BINS = 24
_FIRST_ROW, _ROW = 46.0, 17.0
_MARKS = (("mean", "return"), ("worst tenth", "return_cvar"))


def draw_returns(chosen: SceneOutcome, neutral: SceneOutcome | None, *, label: str, id_prefix: str = "returns") -> str:
    """Draw the returns of rollouts.

    Args:
        chosen: Rollouts at the chosen risk.
        neutral: Risk-neutral rollouts; None for no comparison.
        label: The chosen risk in words.
        id_prefix: Start of all ids in the picture. Default: "returns".

    Returns:
        The picture, as SVG text.
    """
    kinds = [("chosen", label, chosen)]
    if neutral is not None:
        kinds.append(("neutral", "risk-neutral", neutral))
    every = [outcome.returns[np.isfinite(outcome.returns)] for _, _, outcome in kinds]
    marks = [
        (kind, words, outcome.measures[key].estimate)
        for words, key in _MARKS
        for kind, _, outcome in kinds
        if key in outcome.measures and np.isfinite(outcome.measures[key].estimate)
    ]
    ends = finite_range(np.concatenate([*every, [value for _, _, value in marks]]))
    title = f"Returns of rollouts: {' beside '.join(words for _, words, _ in kinds)}"
    if ends is None:
        return empty_chart(_WIDTH, "no rollouts yet", title, id_prefix)

    wide, bins = round_ticks(*ends), _bins(np.concatenate(every), ends)
    low, high = min(float(bins.edges[0]), wide[0]), max(float(bins.edges[-1]), wide[-1])
    shares = [np.histogram(returns, bins.edges)[0] / max(len(returns), 1) for returns in every]
    top = _FIRST_ROW + _ROW * len(marks) + 20
    bottom = top + 150
    x = Scale(round_ticks(low, high), _LEFT, _RIGHT)
    y = Scale(round_ticks(0.0, max(float(share.max(initial=0.0)) for share in shares) or 1.0, 4), bottom, top)
    tint = element("rect", width=6, height=6, class_="chosen-tint")
    tint += element("path", d="M-1 1l2-2M0 6l6-6M5 7l2-2", class_="chosen-hatch")
    body = hatch(f"{id_prefix}-hatch", 6, tint) + _legend(label, neutral is not None, f"url(#{id_prefix}-hatch)")
    body += x_axis(x, bottom, top, "return of a rollout", _WIDTH / 2)
    body += y_axis(y, _LEFT, _RIGHT, "share of rollouts", lambda share: f"{shown(100 * share)} %")
    for left, right, up in _bars(bins, shares[0], x, y):
        place = {"x": left, "y": up, "width": right - left, "height": bottom - up}
        body += element("rect", class_="chosen-bar", **place, fill=f"url(#{id_prefix}-hatch)")
    if neutral is not None:
        body += _outlined(_bars(bins, shares[1], x, y), bottom)
    body += _marked(marks, x, bottom)
    said = []
    for _, name, outcome in kinds:
        facts = [f"{words} {shown(outcome.measures[key].estimate)}" for words, key in _MARKS if key in outcome.measures]
        said.append(f"{name}, {len(outcome.returns)} rollouts: {', '.join(facts) or 'no numbers'}.")
    words = " ".join(said)
    return picture(_WIDTH, bottom + 46, body, kind="chart", title=title, description=words, id_prefix=id_prefix)


class _Bins(NamedTuple):
    edges: Floats  # (n + 1,)
    middles: Floats  # (n,)
    width: float  # width of a bar


def _bins(returns: Floats, ends: tuple[float, float]) -> _Bins:
    """Return a bin for each distinct value or, for more than _FEW values, bins of equal width with round edges."""
    values = np.unique(np.round(returns, 9))
    if 0 < len(values) <= _FEW:
        gaps, ticks = np.diff(values), round_ticks(*ends)
        room = (ticks[-1] - ticks[0]) / 14
        width = min(0.8 * float(gaps.min()), room) if len(gaps) else room
        inner = (values[1:] + values[:-1]) / 2
        return _Bins(np.concatenate([[values[0] - width / 2], inner, [values[-1] + width / 2]]), values, width)
    edges = np.asarray(round_ticks(*ends, _BINS))
    return _Bins(edges, (edges[1:] + edges[:-1]) / 2, float(edges[1] - edges[0]))


def _bars(bins: _Bins, shares: Floats, x: Scale, y: Scale) -> list[tuple[float, float, float]]:
    """Return left, right and top of every bar. A bar is at least two units high and three units wide."""
    found = []
    for middle, share in zip(bins.middles, shares, strict=True):
        if share > 0:
            half = max((x(middle + bins.width / 2) - x(middle - bins.width / 2)) / 2, 1.5)
            found.append((x(middle) - half, x(middle) + half, min(y(share), y.start - 2)))
    return found


def _outlined(bars: list[tuple[float, float, float]], bottom: float) -> str:
    """Draw one outline around bars that touch."""
    outlines: list[list[tuple[float, float]]] = []
    for left, right, top in bars:
        if outlines and abs(outlines[-1][-1][0] - left) < 0.1:
            outlines[-1][-1:] = [(left, top), (right, top), (right, bottom)]
        else:
            outlines.append([(left, bottom), (left, top), (right, top), (right, bottom)])
    return "".join(element("polyline", class_="neutral-bar", points=points(outline)) for outline in outlines)


def _legend(label: str, beside: bool, fill: str) -> str:
    """Draw the legend of the bars."""
    neutral = "risk-neutral"
    place = _WIDTH - 20 - text_width(neutral, SIZE) - 24
    bars = element("rect", class_="chosen-bar", x=8, y=8, width=20, height=13, fill=fill)
    bars += text(shorten(label, SIZE, place - 50), 34, 19, class_="strong")
    if beside:
        bars += element("rect", class_="neutral-bar", x=place, y=8, width=20, height=13) + text(neutral, place + 26, 19)
    return bars


def _marked(marks: list[tuple[str, str, float]], x: Scale, bottom: float) -> str:
    """Draw a line for each mean and CVaR. Each label has its own row, so that labels do not overlap."""
    lines, words = [], []
    for row, (kind, said, value) in enumerate(marks):
        place, y = x(value), _FIRST_ROW + _ROW * row
        lines.append(element("line", class_=f"{kind}-mark", x1=place, x2=place, y1=y - 5, y2=bottom))
        words.append(element("circle", class_=f"{kind}-dot", cx=place, cy=y - 5, r=4))
        sentence = f"{said} {shown(value)}" if kind == "chosen" else f"neutral {said} {shown(value)}"
        width = 1.05 * text_width(sentence, SIZE)
        right = place + 9 + width <= _WIDTH - 4
        at, anchor = (place + 9, None) if right else (max(place - 9, width + 4), "end")
        style = "halo strong" if kind == "chosen" else "halo"
        words.append(text(sentence, at, y, class_=style, text_anchor=anchor, data_value=shown(value, 12)))
    return element("g", *lines, *words, class_="marks")
