"""Why GPI does what it does at one place: every action with its best sources, their means, spreads and values.

A bar reaches from mean minus spread to mean plus spread, a circle is the mean, a diamond the value, which is the mean
seen through the risk. Means are of the return of one source policy, discounted as it was trained. GPI takes the largest
value; its row has a star.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rasf.arrays import Ints
from rasf.explorer.drawing.axes import SIZE, Scale, finite_range, round_ticks, x_axis
from rasf.explorer.drawing.svg import check_prefix, element, picture, points, shorten, shown, text, text_width, tooltip
from rasf.explorer.scenes.scene import Scores

_WIDTH, _LEFT, _RIGHT = 440.0, 226.0, 422.0
_ROW, _HEAD, _GAP = 19.0, 21.0, 6.0
_FEW_ACTIONS = 5

Row = tuple[str, str, float, float, float, bool]


def scores_rows(scores: Scores, policies: Sequence[str], actions: Sequence[str]) -> list[Row]:
    """Policy, action, mean, spread, value, whether it wins; the largest value first, unknown ones last."""
    A = scores.values.shape[1]
    order = np.argsort(-np.nan_to_num(scores.values.ravel(), nan=-np.inf), kind="stable")
    return [
        (
            _named(policies, k),
            actions[a],
            float(scores.mean[k, a]),
            float(scores.spread[k, a]),
            float(scores.values[k, a]),
            _wins(scores, k, a),
        )
        for k, a in (divmod(int(place), A) for place in order)
    ]


def draw_scores(
    scores: Scores,
    policies: Sequence[str],
    actions: Sequence[str],
    *,
    families_label: str,
    id_prefix: str = "scores",
) -> str:
    """The best few sources of every action; `families_label` says the chosen risk in words."""
    check_prefix(id_prefix)
    title = f"Scores of source policies here, under {families_label}"
    best = _best(scores)
    shown_pairs = [(int(k), a) for a, column in enumerate(best) for k in column]
    bounds = finite_range(
        [
            end
            for k, a in shown_pairs
            for end in (scores.values[k, a], scores.mean[k, a], *_ends(scores.mean[k, a], scores.spread[k, a]))
        ]
    )
    if bounds is None:
        note = text("Nothing was learned here.", _WIDTH / 2, 60, class_="soft", text_anchor="middle")
        return picture(
            _WIDTH, 110, note, kind="chart", title=title, description="Nothing was learned here.", id_prefix=id_prefix
        )

    top = 66.0
    tall = sum(_HEAD + _ROW * len(column) + _GAP for column in best)
    x = Scale(round_ticks(*bounds, 4), _LEFT, _RIGHT)
    winner = f"{actions[scores.action]}, by policy {scores.driver}" if scores.seen else "nothing was learned here"
    body = _heading(winner, families_label) + x_axis(x, top + tall, top, _axis_words(scores.gamma), _WIDTH / 2)
    y = top
    for a, column in enumerate(best):
        takes = a == scores.action and scores.seen
        body += text(actions[a], 8, y + 15, class_="strong action")
        if rest := _rest(scores, a, len(column)):
            body += text(rest, 18 + 1.15 * text_width(actions[a], SIZE), y + 15, class_="soft")
        y += _HEAD
        for k in column:
            body += _row(scores, int(k), a, policies, x, y, star=takes and _wins(scores, int(k), a))
            y += _ROW
        y += _GAP
    return picture(
        _WIDTH,
        top + tall + 46,
        body,
        kind="chart",
        title=title,
        description=_in_words(scores, policies, actions, best),
        id_prefix=id_prefix,
    )


def _named(policies: Sequence[str], k: int) -> str:
    return f"policy {k}: {policies[k]}" if k < len(policies) else f"policy {k}"


def _axis_words(gamma: float) -> str:
    """What is scored; rollouts show another return, GPI's, not discounted."""
    return "return of one policy, " + ("not discounted" if gamma == 1 else f"discounted (gamma {shown(gamma)})")


def _wins(scores: Scores, k: int, a: int) -> bool:
    return scores.seen and k == scores.driver and a == scores.action


def _best(scores: Scores) -> list[Ints]:
    """For every action the sources with the largest values that are not -inf or unknown; the winner always."""
    A = scores.values.shape[1]
    most = 4 if A <= _FEW_ACTIONS else 2
    found: list[Ints] = []
    for a in range(A):
        values = np.where(np.isnan(scores.values[:, a]), -np.inf, scores.values[:, a])
        order = np.argsort(-values, kind="stable")
        order = order[values[order] > -np.inf]
        if _wins(scores, scores.driver, a) and scores.driver in order:
            order = np.concatenate([[scores.driver], order[order != scores.driver]])
        found.append(order[:most])
    return found


def _rest(scores: Scores, a: int, count: int) -> str:
    """What an action's rows leave out."""
    taking_part = int((scores.values[:, a] > -np.inf).sum())
    said = []
    if taking_part > count:
        said.append(f"and {taking_part - count} more")
    if without := len(scores.values) - taking_part:
        said.append(f"{without} without a value")
    return ", ".join(said)


def _ends(mean: float, spread: float) -> tuple[float, float]:
    return (mean - spread, mean + spread) if math.isfinite(mean) and math.isfinite(spread) else (math.nan, math.nan)


def _row(scores: Scores, k: int, a: int, policies: Sequence[str], x: Scale, y: float, *, star: bool) -> str:
    mean, spread, value = (float(table[k, a]) for table in (scores.mean, scores.spread, scores.values))
    middle = y + _ROW / 2
    said = tooltip(f"{_named(policies, k)}: mean {shown(mean)}, spread {shown(spread)}, value {shown(value)}")
    parts = [said]
    if star:
        parts.append(element("rect", class_="row-wins", x=4, y=y, width=_WIDTH - 8, height=_ROW, rx=3))
        parts.append(_star(14, middle))
    name = policies[k] if k < len(policies) else ""
    parts.append(text(str(k), 46, middle + 4, class_="strong", text_anchor="end"))
    parts.append(text(shorten(name, SIZE, _LEFT - 54 - 10), 54, middle + 4, class_=None if star else "soft"))
    low, high = _ends(mean, spread)
    if math.isfinite(low):
        wide = max(x(high) - x(low), 1)
        kind = "spread wins" if star else "spread"
        parts.append(element("rect", class_=kind, x=x(low), y=middle - 5, width=wide, height=10, rx=2))
    if math.isfinite(mean):
        parts.append(element("circle", class_="mean", cx=x(mean), cy=middle, r=3.6))
    at = x(value) if math.isfinite(value) else (_RIGHT if value > 0 else _LEFT)
    parts.append(_diamond(at, middle))
    return element("g", *parts, class_="score-row", data_policy=k, data_action=a)


def _diamond(x: float, y: float) -> str:
    return element("polygon", class_="value", points=points([(x, y - 5.5), (x + 4, y), (x, y + 5.5), (x - 4, y)]))


def _star(x: float, y: float) -> str:
    corners = [
        (
            x + (6.5 if tip % 2 == 0 else 2.7) * math.sin(math.pi * tip / 5),
            y - (6.5 if tip % 2 == 0 else 2.7) * math.cos(math.pi * tip / 5),
        )
        for tip in range(10)
    ]
    return element("polygon", class_="star", points=points(corners))


def _heading(winner: str, families_label: str) -> str:
    """Who wins, and what the marks are."""
    parts = [_star(14, 14), text(f"GPI takes {winner}", 26, 18, class_="strong")]
    x = 10.0
    for mark, words in (
        (element("circle", class_="mean", cx=0, cy=0, r=3.6), "mean"),
        (element("rect", class_="spread", x=-9, y=-5, width=18, height=10, rx=2), "± spread"),
        (_diamond(0, 0), shorten(f"value under {families_label}", SIZE, 270)),
    ):
        parts.append(element("g", mark, text(words, 14, 4.2), transform=f"translate({x + 6:.1f} 40)"))
        x += 14 + text_width(words, SIZE) + 22
    return element("g", *parts, class_="legend")


def _in_words(scores: Scores, policies: Sequence[str], actions: Sequence[str], best: list[Ints]) -> str:
    said = []
    if scores.seen:
        k, a = scores.driver, scores.action
        said.append(f"Scores are of the {_axis_words(scores.gamma)}.")
        said.append(
            f"GPI takes {actions[a]}, driven by {_named(policies, k)}: mean {shown(float(scores.mean[k, a]))}, "
            f"spread {shown(float(scores.spread[k, a]))}, value {shown(float(scores.values[k, a]))}."
        )
    else:
        said.append("Nothing was learned here.")
    for a, column in enumerate(best):
        if len(column):
            k = int(column[0])
            said.append(f"Best value of {actions[a]}: {shown(float(scores.values[k, a]))}, by policy {k}.")
    return " ".join(said)
