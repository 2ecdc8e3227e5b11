"""Figures 2, 3, 8 and 9 of the paper, and a figure of RaSF-model, drawn from the saved four-room result."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rasf import drawing
from rasf.agents import AGENTS
from rasf.arrays import Floats
from rasf.envs.four_room import CLASSES, GOAL, START, TRAP, WALL, FourRoom
from rasf_lab.common.provenance import provenance
from rasf_lab.common.results import Numbers, Result
from rasf_lab.paper.four_room.measures import NOVEL_TASKS, RISKS

_OBJECTS = (("s", drawing.BLUE), ("D", drawing.ORANGE), ("o", drawing.GREEN))
_FIGURE_3 = (
    ("sfql independent -2", AGENTS["rasfql"], drawing.GREEN, "-"),
    ("sfql independent 0", AGENTS["sfql"], drawing.ORANGE, "--"),
    ("prql -2", AGENTS["raprql"], drawing.BLUE, "-."),
    ("prql 0", AGENTS["prql"], drawing.RED, ":"),
)
_MODEL = (
    ("rasf-model -2", "RaSF-model (-2)", drawing.GREEN, "-"),
    ("rasf-model 0", "RaSF-model (0)", drawing.ORANGE, "-"),
    ("sfql w-given -2", "RaSFQL (-2), w given", drawing.GREEN, "--"),
    ("sfql w-given 0", "SFQL, w given", drawing.ORANGE, "--"),
    ("sfql independent -2", "RaSFQL (-2)", drawing.GREEN, ":"),
    ("sfql independent 0", "SFQL", drawing.ORANGE, ":"),
)
_SHADES = (drawing.INK, drawing.BLUE, drawing.GREEN, drawing.ORANGE, drawing.RED)
_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)))


def figure_2(result: Result) -> Figure:
    """Draw the map of the four rooms."""
    drawn = drawing.figure(4.6, 4.9)
    axes = drawn.subplots()
    rooms = FourRoom()
    _walls(axes, rooms)
    for cell, symbol in enumerate(rooms.cells):
        i, j = divmod(cell, rooms.shape[1])
        if symbol in CLASSES:
            marker, colour = _OBJECTS[int(symbol) - 1]
            axes.plot(j, i, marker, color=colour, markersize=9)
        elif symbol == TRAP:
            axes.text(j, i, "X", color=drawing.RED, ha="center", va="center", fontweight="bold")
        elif symbol in (START, GOAL):
            axes.text(j, i, symbol, ha="center", va="center", fontweight="bold")
    axes.set_title("Four-room: objects of three classes, traps (X), start, goal", fontsize=9)
    return provenance(drawn, result)


def figure_3(result: Result) -> Figure:
    """Draw return per task, cumulative return and failures per task, with bands of one standard error."""
    curves = result.numbers["curves"]
    drawn = drawing.figure(12, 3.6)
    panels = (
        ("return", "mean", "return per task"),
        ("return", "cumulative_mean", "cumulative return"),
        ("failures", "mean", "failures per task"),
    )
    for axes, (what, which, title) in zip(drawn.subplots(1, 3), panels, strict=True):
        for name, agent, colour, style in _FIGURE_3:
            _band(axes, curves[name][what], which, agent.title, colour, style)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("task")
        drawing.plain(axes)
    drawn.axes[0].legend(frameon=False, fontsize=8)
    seeds = result.numbers["settings"]["seeds"]
    drawn.suptitle(f"beta = omega = -2; bands: one standard error over {seeds} runs", fontsize=9)
    return provenance(drawn, result)


def figure_8(result: Result) -> Figure:
    """Draw cumulative return and failures of RaSFQL for every beta, and of RaPRQL for every omega."""
    curves = result.numbers["curves"]
    drawn = drawing.figure(11, 6.4)
    grid = drawn.subplots(2, 2, sharex=True)
    sides = (("sfql independent", f"{AGENTS['rasfql'].title}, beta"), ("prql", f"{AGENTS['raprql'].title}, omega"))
    for column, (family, title) in enumerate(sides):
        for row, (what, label) in enumerate((("return", "cumulative return"), ("failures", "cumulative failures"))):
            axes = grid[row, column]
            for risk, colour, style in zip(RISKS, _SHADES, _STYLES, strict=True):
                _band(axes, curves[f"{family} {risk:g}"][what], "cumulative_mean", f"{risk:g}", colour, style)
            axes.set_ylabel(label, fontsize=8)
            drawing.plain(axes)
        grid[0, column].set_title(title, fontsize=10)
        grid[1, column].set_xlabel("task")
    for row in grid:
        lows, highs = zip(*(axes.get_ylim() for axes in row), strict=True)
        for axes in row:
            axes.set_ylim(min(lows), max(highs))
    grid[0, 0].legend(frameon=False, fontsize=8)
    return provenance(drawn, result)


def figure_9(result: Result) -> Figure:
    """Draw visits on the 27 novel tasks: RaSFQL at beta = -2 above, SFQL below."""
    novel = result.numbers["novel"]
    drawn = drawing.figure(13.5, 10.4)
    halves: Any = drawn.subfigures(2, 1)
    ways = {"averse": f"{AGENTS['rasfql'].title}, beta = -2", "neutral": AGENTS["sfql"].title}
    for half, (way, title) in zip(halves, ways.items(), strict=True):
        cell = novel[way][way]  # the results of acting with the same risk as in training
        earned = f"return {cell['return']['mean']:.2f}, failures {cell['failures']['mean']:.3f} per rollout"
        half.suptitle(f"{title}: {earned}", fontsize=11, fontweight="bold")
        visits = np.asarray(cell["visits"])
        # the maps have a row for each reward of class 1, and a column for each pair of rewards of classes 2 and 3
        for axes, task in zip(half.subplots(3, 9).ravel(), range(len(NOVEL_TASKS)), strict=True):
            visit_map(axes, visits[task])
            axes.set_title("({:g}, {:g}, {:g})".format(*NOVEL_TASKS[task]), fontsize=7)
    words = "above each map: rewards of the three classes; darker: more steps per rollout; red x: traps"
    drawn.supylabel(words, fontsize=8)
    return provenance(drawn, result)


def visit_map(axes: Axes, visits: Floats) -> None:
    """Draw a map of the visits, with darker cells for more visits and marks on the traps.

    Args:
        axes: the axes to draw on.
        visits: steps per rollout in each cell (cells,).
    """
    rooms = FourRoom()
    _walls(axes, rooms)
    heat = np.log10(1 + np.asarray(visits).reshape(rooms.shape))
    axes.imshow(np.ma.masked_less(heat, 1e-3), cmap="YlGnBu", vmin=0, vmax=1, interpolation="nearest", zorder=1)
    traps = [divmod(cell, rooms.shape[1]) for cell, symbol in enumerate(rooms.cells) if symbol == TRAP]
    axes.plot([j for _, j in traps], [i for i, _ in traps], "x", color=drawing.RED, markersize=3, zorder=3)


def _walls(axes: Axes, rooms: FourRoom) -> None:
    rows, columns = rooms.shape
    for cell, symbol in enumerate(rooms.cells):
        i, j = divmod(cell, columns)
        face, edge = (drawing.INK, drawing.INK) if symbol == WALL else ("white", drawing.PALE)
        axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=face, edgecolor=edge, linewidth=0.5, zorder=0))
    axes.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), aspect="equal")
    axes.axis("off")


def _band(axes: Axes, curve: Numbers, which: str, label: str, colour: str, style: Any) -> None:
    mean, error = np.asarray(curve[which]), np.asarray(curve[which.replace("mean", "se")])
    tasks = np.arange(1, len(mean) + 1)
    axes.plot(tasks, mean, linestyle=style, color=colour, label=label, linewidth=1.6)
    axes.fill_between(tasks, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)


def figure_model(result: Result) -> Figure:
    """Draw cumulative return and failures of RaSF-model, SFQL, RaSFQL and the exact optimum."""
    curves = result.numbers["curves"]
    drawn = drawing.figure(11, 3.8)
    for axes, what in zip(drawn.subplots(1, 2), ("return", "failures"), strict=True):
        for name, label, colour, style in _MODEL:
            _band(axes, curves[name][what], "cumulative_mean", label, colour, style)
        tasks = len(curves["sfql independent 0"][what]["mean"])
        for risk, colour in (("0", drawing.ORANGE), ("-2", drawing.GREEN)):
            if f"optimum {risk}" in curves:
                a_task = float(np.mean(curves[f"optimum {risk}"][what]["mean"]))
                line = {"color": colour, "linestyle": (0, (1, 2)), "linewidth": 1.2}
                axes.plot([0, tasks], [0, tasks * a_task], label=f"exact optimum ({risk})", **line)
        drawing.plain(axes)
        axes.set_title(f"cumulative {what}", fontsize=9)
        axes.set_xlabel("task", fontsize=8)
    drawn.axes[0].legend(fontsize=7)
    return provenance(drawn, result)


FIGURES = {
    "figure_2_four_room": figure_2,
    "figure_3": figure_3,
    "figure_8": figure_8,
    "figure_9": figure_9,
    "figure_model": figure_model,
}
