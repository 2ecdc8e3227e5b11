"""What `rasf evaluate --plot` draws: how the returns of several risks are distributed, with mean and CVaR."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rasf.arrays import Floats
from rasf.experiments.common import drawing
from rasf.library.evaluation import WORST, Comparison, Report
from rasf.statistics import Interval

MOST = 12  # panels
_COLOURS = (drawing.BLUE, drawing.RED, drawing.GREEN, drawing.ORANGE, drawing.GREY)
_BINS = 40
_TALL = 0.62  # of a row


def draw(compared: Sequence[Comparison], discounted: bool, source: str) -> Figure:
    """A panel for each weighting, a row in it for each risk: histogram, mean (dot) and CVaR (triangle), 95 % bars."""
    if not 1 <= len(compared) <= MOST:
        raise ValueError(f"compared must hold 1 to {MOST} comparisons, got {len(compared)}")
    rows = [len(each.reports) for each in compared]
    drawn = drawing.figure(8.0, 1.0 + sum(0.75 + 0.62 * n for n in rows))
    panels = drawn.subplots(len(compared), 1, squeeze=False, height_ratios=[0.4 + n for n in rows])[:, 0]
    for axes, each in zip(panels, compared, strict=True):
        _panel(axes, each, "discounted" if discounted else "return")
    panels[-1].set_xlabel("discounted return of an episode" if discounted else "return of an episode", fontsize=9)
    marks = [
        Line2D([], [], marker="o", color=drawing.INK, linewidth=1.5, label="mean"),
        Line2D([], [], marker="<", color=drawing.INK, linewidth=1.5, label=f"CVaR: mean of the worst {WORST:.0%}"),
    ]
    drawn.legend(handles=marks, loc="outside upper right", ncols=2, frameon=False, fontsize=8)
    drawn.supxlabel(f"{source}; bars: 95 % intervals", fontsize=6, color=drawing.GREY)
    return drawn


def _panel(axes: Axes, compared: Comparison, measure: str) -> None:
    reports = list(compared.reports.items())
    values = [report.discounted if measure == "discounted" else report.returns for _, report in reports]
    span = min(map(np.min, values)), max(map(np.max, values))
    for row, ((_, report), returns) in enumerate(zip(reports, values, strict=True)):
        base, colour = len(reports) - 1 - row, _COLOURS[row % len(_COLOURS)]
        _histogram(axes, returns, span, base, colour)
        for name, marker, below in ((measure, "o", 0.08), (f"{measure} CVaR", "<", 0.2)):
            _mark(axes, report.measures[name], base - below, marker, colour)
        axes.text(
            1.01, base + 0.15, _beside(report, measure), transform=axes.get_yaxis_transform(), fontsize=7, va="center"
        )
    axes.set_yticks([len(reports) - 1 - row + 0.15 for row in range(len(reports))])
    axes.set_yticklabels([name.removesuffix(".0") for name, _ in reports], fontsize=8)
    axes.set_ylim(-0.35, len(reports) - 0.3)
    axes.set_title("w = " + ", ".join(f"{x:.4g}" for x in reports[0][1].w), fontsize=9, loc="left")
    drawing.plain(axes)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8)
    axes.spines["left"].set_visible(False)


def _histogram(axes: Axes, returns: Floats, span: tuple[float, float], base: float, colour: str) -> None:
    """Bars at the values where there are few different ones, else bins over the span of all rows."""
    low, high = span
    values, counts = np.unique(returns, return_counts=True)
    if len(values) > _BINS // 2:
        counts, edges = np.histogram(returns, _BINS, span)
        axes.stairs(base + _TALL * counts / counts.max(), edges, baseline=base, fill=True, color=colour, alpha=0.45)
    else:
        width = (high - low or max(abs(low), 1.0)) / _BINS
        axes.bar(values, _TALL * counts / counts.max(), width, base, color=colour, alpha=0.45)


def _mark(axes: Axes, interval: Interval, height: float, marker: str, colour: str) -> None:
    axes.plot([interval.low, interval.high], [height, height], color=colour, linewidth=1.5)
    axes.plot(interval.estimate, height, marker, color=colour, markersize=5)


def _beside(report: Report, measure: str) -> str:
    variance = report.measures[f"{measure} variance"].estimate
    failing = "" if report.failures is None else f"\nfailures {report.measures['failures'].estimate:.3g}"
    return f"variance {variance:.3g}{failing}"
