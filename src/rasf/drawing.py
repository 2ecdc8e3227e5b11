"""Figures of comparisons and calibrations. This is the only module of rasf that imports matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rasf.arrays import Floats
from rasf.files import write_atomically

if TYPE_CHECKING:
    from rasf.library.calibration.calibration import Calibration
    from rasf.library.evaluation import Comparison

BLUE, RED, GREEN, ORANGE, GREY = "#2b6cb0", "#c0392b", "#2e8b57", "#d98200", "#8a8f98"
INK, PALE = "#22262b", "#eef0f3"
MOST_PANELS = 12  # largest number of panels in the figure of a comparison
_COLOURS = (BLUE, RED, GREEN, ORANGE, GREY)
_BINS, _TALL = 40, 0.62  # number of bins in a histogram; height of the highest bin as a share of the row's height


def figure(width: float, height: float, dpi: int = 160) -> Figure:
    """Return an empty figure of `width` by `height` inches; no display is needed to draw it."""
    return Figure(figsize=(width, height), dpi=dpi, layout="constrained", facecolor="white")


def plain(axes: Axes) -> None:
    """Remove the top and right lines around axes, and add a light grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=PALE)
    axes.set_axisbelow(True)


def save(drawn: Figure, path: Path) -> Path:
    """Write a figure as PNG, atomically, and return its path."""
    write_atomically(path, lambda partial: drawn.savefig(partial, dpi="figure", format="png"))
    return path


def comparison(compared: Sequence[Comparison], discounted: bool, source: str) -> Figure:
    """Draw the return distributions of several risks, for `rasf evaluate --plot`.

    There is one panel for each weighting, with one row for each risk: histogram, mean (dot) and CVaR (triangle). Lines
    through dots and triangles are 95 % intervals.

    Args:
        compared: One comparison for each panel.
        discounted: Whether discounted returns are drawn instead of undiscounted returns.
        source: The origin of the data, which is printed below the figure.
    """
    from rasf.library.evaluation import WORST

    if not 1 <= len(compared) <= MOST_PANELS:
        raise ValueError(f"compared must hold 1 to {MOST_PANELS} comparisons, got {len(compared)}")
    rows = [len(each.reports) for each in compared]
    drawn = figure(8.0, 1.0 + sum(0.75 + 0.62 * n for n in rows))
    panels = drawn.subplots(len(compared), 1, squeeze=False, height_ratios=[0.4 + n for n in rows])[:, 0]
    for axes, each in zip(panels, compared, strict=True):
        _panel(axes, each, "discounted" if discounted else "return")
    panels[-1].set_xlabel("discounted return of an episode" if discounted else "return of an episode", fontsize=9)
    labels = {"o": "mean", "<": f"CVaR: mean of the worst {WORST:.0%}"}
    marks = [Line2D([], [], marker=mark, color=INK, linewidth=1.5, label=label) for mark, label in labels.items()]
    drawn.legend(handles=marks, loc="outside upper right", ncols=2, frameon=False, fontsize=8)
    drawn.supxlabel(f"{source}; lines: 95 % intervals", fontsize=6, color=GREY)
    return drawn


def reliability(found: Calibration, source: str) -> Figure:
    """Draw predicted and realised values of every query, for `rasf calibrate --plot`.

    There is one panel for each quantity. On the grey line, the predicted and the realised value are equal. The dash
    above or below the marker of a query is the bound for this query.

    Args:
        found: The calibration.
        source: The origin of the data, which is printed below the figure.
    """
    names, groups = found.quantities, found.groups()
    columns = min(3, len(names))
    drawn = figure(3.4 * columns, 3.1 * -(-len(names) // columns) + 0.5)
    panels = drawn.subplots(-(-len(names) // columns), columns, squeeze=False).ravel()
    for axes, (k, name) in zip(panels, enumerate(names), strict=False):
        predicted, realised = found.predicted[:, k], found.realised[:, k]
        ends = [min(predicted.min(), realised.min()), max(predicted.max(), realised.max())]
        axes.plot(ends, ends, color=GREY, linewidth=1)
        for i, (group, mask) in enumerate(groups.items()):
            colour = _COLOURS[i % len(_COLOURS)]
            axes.plot(
                predicted[mask], realised[mask], "os^vD"[i % 5], color=colour, markersize=3.5, alpha=0.7, label=group
            )
            axes.plot(predicted[mask], found.bounds(group)[mask, k], "_", color=colour, markersize=7)
        plain(axes)
        axes.tick_params(labelsize=7)
        axes.set_title(name, fontsize=9, loc="left")
        axes.set_xlabel("predicted", fontsize=8)
        axes.set_ylabel("realised", fontsize=8)
    for axes in panels[len(names) :]:
        axes.axis("off")
    handles, labels = panels[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside upper center", ncols=min(4, len(labels)), frameon=False, fontsize=8)
    drawn.supxlabel(f"{source}, {found.episodes} episodes; dashes: 95 % bounds", fontsize=6, color=GREY)
    return drawn


def _panel(axes: Axes, compared: Comparison, measure: str) -> None:
    reports = list(compared.reports.items())
    values = [report.discounted if measure == "discounted" else report.returns for _, report in reports]
    span = min(map(np.min, values)), max(map(np.max, values))
    for row, ((_, report), returns) in enumerate(zip(reports, values, strict=True)):
        base, colour = len(reports) - 1 - row, _COLOURS[row % len(_COLOURS)]
        _histogram(axes, returns, span, base, colour)
        for name, marker, height in ((measure, "o", base - 0.08), (f"{measure}_cvar", "<", base - 0.2)):
            estimate, *ends = report.measures[name]
            axes.plot(ends, [height, height], color=colour, linewidth=1.5)
            axes.plot(estimate, height, marker, color=colour, markersize=5)
        beside = f"variance {report.measures[f'{measure}_variance'].estimate:.3g}"
        if report.failures is not None:
            beside += f"\nfailures {report.measures['failures'].estimate:.3g}"
        axes.text(1.01, base + 0.15, beside, transform=axes.get_yaxis_transform(), fontsize=7, va="center")
    heights = [len(reports) - 1 - row + 0.15 for row in range(len(reports))]
    axes.set_yticks(heights, [name.removesuffix(".0") for name, _ in reports], fontsize=8)
    axes.set_ylim(-0.35, len(reports) - 0.3)
    axes.set_title("w = " + ", ".join(f"{x:.4g}" for x in reports[0][1].w), fontsize=9, loc="left")
    plain(axes)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8)
    axes.spines["left"].set_visible(False)


def _histogram(axes: Axes, returns: Floats, span: tuple[float, float], base: float, colour: str) -> None:
    """Draw one bar for each distinct return if there are at most 20, else a histogram over the range of all risks."""
    low, high = span
    values, counts = np.unique(returns, return_counts=True)
    if len(values) > _BINS // 2:
        counts, edges = np.histogram(returns, _BINS, span)
        axes.stairs(base + _TALL * counts / counts.max(), edges, baseline=base, fill=True, color=colour, alpha=0.45)
    else:
        width = (high - low or max(abs(low), 1.0)) / _BINS
        axes.bar(values, _TALL * counts / counts.max(), width, base, color=colour, alpha=0.45)
