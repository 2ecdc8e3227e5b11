"""The chart of GPI's scores in one state: for every action, mean, std and value of the best source policies.

A bar reaches from mean minus std to mean plus std. A circle is the mean, and a diamond is the value, which is the score
under the chosen risk. Mean and std are of the return of one source policy, with the discount of its training. GPI takes
the action of the largest value. The row of this value has a star.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rasf_explorer.drawing.axes import SIZE, Scale, empty_chart, finite_range, round_ticks, x_axis
from rasf_explorer.drawing.svg import element, picture, points, shorten, shown, star, text, text_width, tooltip
from rasf_explorer.scenes.scene import SceneScores

_WIDTH, _LEFT, _RIGHT, _TOP = 440.0, 226.0, 422.0, 66.0
_ROW, _HEAD, _GAP = 19.0, 21.0, 6.0
_FEW_ACTIONS = 5


class ScoreRow(NamedTuple):
    """Scores of one source policy and action in one state."""

    source: int
    policy: str  # its task and risk in words
    action: str
    mean: float
    std: float
    value: float
    wins: bool

    @property
    def name(self) -> str:
        return f"policy {self.source}: {self.policy}"


def scores_rows(scores: SceneScores, policies: Sequence[str], actions: Sequence[str]) -> list[ScoreRow]:
    """Return a row for each source policy and action.

    Args:
        scores: The scores in one state.
        policies: Task and risk of each source policy, in words.
        actions: Names of the actions.

    Returns:
        Rows by descending value, with unknown values last.
    """
    order = np.argsort(-np.nan_to_num(scores.values.ravel(), nan=-np.inf), kind="stable").tolist()
    rows = []
    for k, a in (divmod(place, len(actions)) for place in order):
        mean, std, value = (float(table[k, a]) for table in (scores.mean, scores.std, scores.values))
        wins = scores.seen and (k, a) == (scores.driver, scores.action)
        rows.append(ScoreRow(k, policies[k], actions[a], mean, std, value, wins))
    return rows


def draw_scores(
    scores: SceneScores,
    policies: Sequence[str],
    actions: Sequence[str],
    *,
    families_label: str,
    id_prefix: str = "scores",
) -> str:
    """Draw the scores of the best few source policies for every action.

    Args:
        scores: The scores in one state.
        policies: Task and risk of each source policy, in words.
        actions: Names of the actions.
        families_label: The chosen risk in words.
        id_prefix: Start of all ids in the picture. Default: "scores".

    Returns:
        The picture, as SVG text.
    """
    title = f"Scores of source policies here, under {families_label}"
    rows = [row for row in scores_rows(scores, policies, actions) if row.value > -math.inf]
    of_action = {action: [row for row in rows if row.action == action] for action in actions}
    most = 4 if len(actions) <= _FEW_ACTIONS else 2
    best = {action: found[:most] for action, found in of_action.items()}
    bounds = finite_range([end for few in best.values() for row in few for end in (row.value, row.mean, *_ends(row))])
    if bounds is None:
        return empty_chart(_WIDTH, "Nothing was learned here.", title, id_prefix)

    x = Scale(round_ticks(*bounds, 4), _LEFT, _RIGHT)
    bottom = _TOP + sum(_HEAD + _ROW * len(few) + _GAP for few in best.values())
    # the scores are of following one source policy; the returns shown for rollouts are of GPI, and not discounted
    scored = "return of one policy, "
    scored += "not discounted" if scores.gamma == 1 else f"discounted (gamma {shown(scores.gamma)})"
    winner, said = "", ["Nothing was learned here."]
    for row in (row for row in rows if row.wins):
        winner = f"{row.action}, by policy {row.source}"
        said = [f"Scores are of the {scored}.", f"GPI takes {row.action}, by {_in_words(row)}."]
    body = _heading(winner, families_label) + x_axis(x, bottom, _TOP, scored, _WIDTH / 2)
    y = _TOP
    for a, (action, few) in enumerate(best.items()):
        rest, without = len(of_action[action]) - len(few), len(policies) - len(of_action[action])
        left_out = [f"not shown: {rest}"] * (rest > 0) + [f"without a value: {without}"] * (without > 0)
        body += text(action, 8, y + 15, class_="strong action")
        if left_out:
            body += text("policies " + ", ".join(left_out), 18 + 1.15 * text_width(action, SIZE), y + 15, class_="soft")
        y += _HEAD
        for row in few:
            body += element("g", *_row(row, x, y), class_="score-row", data_policy=row.source, data_action=a)
            y += _ROW
        y += _GAP
        said += [f"Best value of {action}: {shown(row.value)}, by policy {row.source}." for row in few[:1]]
    words = " ".join(said)
    return picture(_WIDTH, bottom + 46, body, kind="chart", title=title, description=words, id_prefix=id_prefix)


def _in_words(row: ScoreRow) -> str:
    return f"{row.name}: mean {shown(row.mean)}, std {shown(row.std)}, value {shown(row.value)}"


def _ends(row: ScoreRow) -> tuple[float, float]:
    known = math.isfinite(row.mean) and math.isfinite(row.std)
    return (row.mean - row.std, row.mean + row.std) if known else (math.nan, math.nan)


def _row(row: ScoreRow, x: Scale, y: float) -> list[str]:
    middle = y + _ROW / 2
    parts = [tooltip(_in_words(row))]
    if row.wins:
        parts.append(element("rect", class_="row-wins", x=4, y=y, width=_WIDTH - 8, height=_ROW, rx=3))
        parts.append(star(14, middle))
    parts.append(text(str(row.source), 46, middle + 4, class_="strong", text_anchor="end"))
    parts.append(text(shorten(row.policy, SIZE, _LEFT - 54 - 10), 54, middle + 4, class_=None if row.wins else "soft"))
    low, high = _ends(row)
    if math.isfinite(low):
        kind, wide = "std wins" if row.wins else "std", max(x(high) - x(low), 1)
        parts.append(element("rect", class_=kind, x=x(low), y=middle - 5, width=wide, height=10, rx=2))
    if math.isfinite(row.mean):
        parts.append(element("circle", class_="mean", cx=x(row.mean), cy=middle, r=3.6))
    at = x(row.value) if math.isfinite(row.value) else (_RIGHT if row.value > 0 else _LEFT)
    return [*parts, _diamond(at, middle)]


def _diamond(x: float, y: float) -> str:
    return element("polygon", class_="value", points=points([(x, y - 5.5), (x + 4, y), (x, y + 5.5), (x - 4, y)]))


def _heading(winner: str, families_label: str) -> str:
    """Draw GPI's choice, or that nothing was learned if `winner` is empty, and the legend of the marks."""
    if winner:
        parts = [star(14, 14), text(f"GPI takes {winner}", 26, 18, class_="strong")]
    else:
        parts = [text("Nothing was learned here.", 8, 18, class_="strong")]
    x = 10.0
    for mark, words in (
        (element("circle", class_="mean", cx=0, cy=0, r=3.6), "mean"),
        (element("rect", class_="std", x=-9, y=-5, width=18, height=10, rx=2), "± std"),
        (_diamond(0, 0), shorten(f"value under {families_label}", SIZE, 270)),
    ):
        parts.append(element("g", mark, text(words, 14, 4.2), transform=f"translate({x + 6:.1f} 40)"))
        x += 14 + text_width(words, SIZE) + 22
    return element("g", *parts, class_="legend")
