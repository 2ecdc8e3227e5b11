"""Figures of the suite: return against failures for every way to act, with the control and rivals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rasf.drawing import BLUE, INK, ORANGE, RED, figure, plain
from rasf_lab.common.provenance import provenance
from rasf_lab.suite.cases import is_dial, is_price
from rasf_lab.suite.rivals import RIVALS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from rasf_lab.common.results import Numbers, Result

# markers of rivals; hollow for rivals trained in batches
_MARKERS = {"dqn": "s", "qr-dqn": "D", "dqn-documented": "h", "envelope": "X", "gpi-ls": "p"}
_NAMES = {
    "dqn": "DQN", "qr-dqn": "QR-DQN", "dqn-documented": "DQN as documented", "envelope": "Envelope", "gpi-ls": "GPI-LS",
}  # fmt: skip


def fronts(result: Result, name: str) -> Figure:
    """Return a case's figure: lines for per-state risks and the control, points for rivals and other ways to act.

    Args:
        result: the result of the suite.
        name: the name of the case.
    """
    case = result.numbers[name]
    drawn = figure(7.0, 4.2)
    front(drawn.subplots(), case)
    drawn.suptitle(f"{case['env']}: {case['about']}", fontsize=9)
    return provenance(drawn, result)


def front(axes: Axes, told: Numbers, measure: str = "return") -> None:
    """Draw a measure of a case (y) against failures (x), with 95 % intervals over seeds.

    Args:
        axes: the axes to draw on.
        told: the numbers of a case, from `measures.summary`.
        measure: "return", or "gauge" for the number that the case also measures (`Case.gauge`). Default: "return".
    """
    ways = told["ways"]
    risks = [text for text in ways if is_dial(text) and not text.startswith("cvar")]
    prices = ["neutral", *(text for text in ways if is_price(text))]
    lines = (risks, BLUE, "mean-variance, by beta"), (prices, ORANGE, "control: neutral, by cost added to a failure")
    for texts, colour, label in lines:
        if len(texts) > 1:
            points = np.array([[ways[text]["failures"], ways[text][measure]] for text in texts], float)  # (n, 2, 3)
            axes.plot(points[:, 0, 0], points[:, 1, 0], "o-", color=colour, markersize=4, linewidth=1.3, label=label)
            _bars(axes, points, colour)
            for text, ((x, *_), (y, *_)) in zip(texts[1:], points[1:], strict=True):
                axes.annotate(text.rpartition(":")[2].removeprefix("price "), (x, y), fontsize=6, color=colour,
                              xytext=(3, 3), textcoords="offset points")  # fmt: skip
    others = [text for text in ways if text not in (*risks, *prices)]
    for text, marker in zip(others, "^v<>P*", strict=False):
        point = np.array([[ways[text]["failures"], ways[text][measure]]], float)
        axes.plot(*point[0, :, 0], marker, color=RED, markersize=6, linestyle="",
                  label=text.replace("cvar:", "CVaR ").replace(":", " "))  # fmt: skip
        _bars(axes, point, RED)
    for rival, theirs in told.get("rivals", {}).items():
        point, seeds = np.array([[theirs["failures"], theirs[measure]]], float), theirs["seeds"]
        kind, batched = rival.removesuffix("-batched"), " (batched)" if RIVALS[rival].batched else ""
        steps = f"{theirs['steps']:,} steps {'for all weightings' if RIVALS[rival].every else 'per weighting'}"
        label = f"{_NAMES[kind]}{batched}, {steps}"
        if len(seeds) == 1:  # the start states of one seed may be harder or easier than those of all seeds
            label += f" (seed {seeds[0]} only)"
        axes.plot(*point[0, :, 0], _MARKERS[kind], color=INK, markersize=6, linestyle="",
                  fillstyle="none" if RIVALS[rival].batched else "full", label=label)  # fmt: skip
        _bars(axes, point, INK)
    axes.set_xlabel(f"{told['failures']} (mean per episode)", fontsize=8)
    axes.set_ylabel({"return": "mean return", "gauge": told.get("gauge") or ""}[measure], fontsize=8)
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=7, frameon=False)
    plain(axes)


def _bars(axes: Axes, points: np.ndarray, colour: str) -> None:
    """Draw the intervals in x and y of points (n, 2, 3). Results of a single seed have no intervals."""
    (x, x_low, x_high), (y, y_low, y_high) = points.transpose(1, 2, 0)
    if np.isfinite(points).all():
        across, along = np.abs([x - x_low, x_high - x]), np.abs([y - y_low, y_high - y])
        axes.errorbar(x, y, along, across, fmt="none", ecolor=colour, elinewidth=0.6, alpha=0.6)
