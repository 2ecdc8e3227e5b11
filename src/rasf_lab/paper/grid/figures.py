"""Figure 1, drawn from the saved result of the grid."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rasf import drawing
from rasf.envs.grid import EMPTY, GOAL, MOVES, START, Grid
from rasf_lab.common.provenance import provenance
from rasf_lab.common.results import Numbers, Result

SOURCE_COLOURS = (drawing.BLUE, drawing.RED)
WAYS = {"averse": ("risk-averse evaluation", drawing.GREEN), "neutral": ("risk-neutral evaluation", drawing.ORANGE)}
_BOLD: dict[str, Any] = {"fontsize": 10, "fontweight": "bold"}


def draw(result: Result) -> Figure:
    """Draw three maps with optimal routes, two maps with GPI policies, and two histograms of returns."""
    numbers = result.numbers
    grid = Grid(numbers["layout"])
    drawn = drawing.figure(9.5, 8.2)
    panels: Any = drawn.subfigures(3, 1, height_ratios=(1.0, 1.15, 0.95))
    top, middle, bottom = panels
    routes = (
        ("source 1: costs X 20, Y 20", drawing.BLUE),
        ("source 2: costs X 0, Y 0", drawing.RED),
        ("target: costs X 20, Y 0", drawing.GREEN),
    )
    top.suptitle(f"Optimal routes at beta = {numbers['beta']:g}", **_BOLD)
    for axes, route, (title, colour) in zip(top.subplots(1, 3), numbers["routes"], routes, strict=True):
        _map(axes, grid)
        _route(axes, grid, route, colour)
        axes.set_title(title, fontsize=9)
    marks = "colour and mark: the selected source policy (blue o: source 1, red x: source 2)"
    middle.suptitle(f"GPI on the target. Arrows: action; {marks}", **_BOLD)
    for axes, (name, (title, _)) in zip(middle.subplots(1, 2), WAYS.items(), strict=True):
        _map(axes, grid)
        _arrows(axes, grid, numbers["policies"][name], numbers["driving_source"][name])
        utility, best = numbers["utility"][name][grid.start], numbers["optimal_utility"][grid.start]
        axes.set_title(f"{title}: U(S) = {utility:.2f}, optimum {best:.2f}", fontsize=9)
    bottom.suptitle(f"Returns of {numbers['rollouts']:,} rollouts of {numbers['steps']} steps", **_BOLD)
    _histograms(bottom.subplots(1, 2, sharex=True, sharey=True), numbers)
    return provenance(drawn, result)


def _map(axes: Axes, grid: Grid) -> None:
    rows, columns = grid.shape
    for state, symbol in enumerate(grid.cells):
        i, j = divmod(state, columns)
        trap = symbol in grid.traps
        face = "#f6d5cf" if trap else "#d5ecd9" if symbol == GOAL else "white"
        axes.add_patch(Rectangle((j, i), 1, 1, facecolor=face, edgecolor=drawing.GREY, linewidth=0.8))
        if symbol != EMPTY:
            colour = drawing.RED if trap else drawing.INK
            axes.text(j + 0.06, i + 0.08, symbol, ha="left", va="top", color=colour, fontsize=9, fontweight="bold")
    axes.set(xlim=(-0.03, columns + 0.03), ylim=(rows + 0.03, -0.03), aspect="equal")
    axes.axis("off")


def _route(axes: Axes, grid: Grid, route: list[int], colour: str) -> None:
    i, j = np.divmod(np.asarray(route), grid.shape[1])
    axes.plot(j + 0.5, i + 0.5, color=colour, linewidth=3, solid_capstyle="round", alpha=0.85)
    _arrow(axes, (j[-2] + 0.5, i[-2] + 0.5), (j[-1] + 0.5, i[-1] + 0.5), colour, linewidth=3, mutation_scale=16)


def _arrows(axes: Axes, grid: Grid, policy: list[int], source: list[int]) -> None:
    moves = list(MOVES.values())
    for state, symbol in enumerate(grid.cells):
        if symbol not in (START, EMPTY):
            continue
        i, j = divmod(state, grid.shape[1])
        down, right = moves[policy[state]]
        colour = SOURCE_COLOURS[source[state]]
        tail, head = ((j + 0.5 + by * right, i + 0.5 + by * down) for by in (-0.32, 0.32))
        _arrow(axes, tail, head, colour, linewidth=1.8, mutation_scale=11)
        axes.plot(j + 0.88, i + 0.13, "ox"[source[state]], color=colour, markersize=4, fillstyle="none")


def _arrow(axes: Axes, tail: tuple[float, float], head: tuple[float, float], colour: str, **size: float) -> None:
    axes.annotate("", head, tail, arrowprops={"arrowstyle": "-|>", "color": colour, **size})


def _histograms(panels: Any, numbers: Numbers) -> None:
    for axes, (name, (title, colour)) in zip(panels, WAYS.items(), strict=True):
        returns = numbers["returns"][name]
        share = np.asarray(returns["counts"]) / numbers["rollouts"]
        axes.bar(returns["values"], share, width=0.9, color=colour)
        axes.axvline(returns["mean"], color=drawing.INK, linewidth=1, linestyle="--")
        hits = ", ".join(f"{trap} {count}" for trap, count in numbers["trap_hits"][name].items())
        moments = f"mean {returns['mean']:.1f} (dashed), variance {returns['variance']:.0f}"
        axes.set_title(f"{title}: {moments}, trap hits {hits}", fontsize=8)
        axes.set_xlabel("return", fontsize=8)
        axes.tick_params(labelsize=7)
        drawing.plain(axes)
    panels[0].set_ylabel("share of rollouts", fontsize=8)


FIGURES = {"figure_1": draw}
