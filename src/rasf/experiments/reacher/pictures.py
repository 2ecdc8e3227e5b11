"""Figures 11 to 14: rollouts and maps over tip positions, drawn from the saved result of `experiments.reacher`."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Circle

from rasf.envs.reacher.world import Reacher
from rasf.experiments.common import drawing
from rasf.experiments.common.results import Result
from rasf.experiments.reacher import maps as reacher_maps
from rasf.experiments.reacher.batches import TRAINING
from rasf.experiments.reacher.figures import rollouts, task_name

_AGENTS = (("rasfc51 -3", "RaSFC51 (3)"), ("rasfc51 0", "SFC51"), ("rac51 -3", "RaC51 (3)"))
_VARIANCES = (("rasfc51 -3", "RaSFC51 (3)"), ("sfdqn-residual -3", "SFDQN with the residual covariance (3)"))
_SIDES = (("variance", "learned"), ("truth", "Monte Carlo"))


def figures_11_12(result: Result) -> Figure | None:
    """Three rollouts on each of the 12 tasks, six tasks a band."""
    tips = result.numbers["tips"]
    agents = [(name, label) for name, label in _AGENTS if name in tips]
    if not agents:
        return None
    columns = len(Reacher().targets) // 2
    drawn = drawing.figure(1.5 * columns, 3.2 * len(agents) + 0.5)
    lines = drawn.subplots(2 * len(agents), columns)
    for band, tasks in enumerate((range(columns), range(columns, 2 * columns))):
        for place, (name, label) in enumerate(agents):
            line = lines[band * len(agents) + place]
            for task, axes in zip(tasks, line, strict=True):
                rollouts(axes, np.array(tips[name])[task], task)
                if place == 0:
                    axes.set_title(task_name(task), fontsize=8)
            line[0].set_ylabel(label, fontsize=8)
    drawing.provenance(drawn, result)
    return drawn


def _map(axes: Axes, points: int, values: Any, task: int, low: float, high: float, peak: bool) -> Any:
    where = reacher_maps.grid(points)
    shown = reacher_maps.spread(where, np.array(values, np.float32))
    half = where.tips[0, -1, 0]
    image = axes.imshow(shown, origin="lower", extent=(-half, half, -half, half), vmin=low, vmax=high, cmap="viridis")
    world = Reacher()
    for risky in world.risky:
        circle = Circle(world.targets[risky], world.radius, fill=False, color="white", linewidth=0.6, alpha=0.7)
        axes.add_patch(circle)
    axes.plot(*world.targets[task], "x", color=drawing.RED, markersize=4)
    if peak:
        axes.plot(
            *where.tips[where.reached][np.argmax(values)], "o", color="white", markersize=3, markeredgecolor="black"
        )
    axes.set(xticks=[], yticks=[], xlim=(-0.24, 0.24), ylim=(-0.24, 0.24))
    return image


def figure_13(result: Result) -> Figure | None:
    """The objective of every policy (columns) on every task (rows), risk-aware and neutral; colours scale by row."""
    maps = result.numbers["maps"]
    sides = [(name, label) for name, label in _AGENTS[:2] if name in maps]
    if not sides:
        return None
    drawn = drawing.figure(4.2 * len(sides), 12)
    parts = drawn.subfigures(1, len(sides), squeeze=False)[0]
    for part, (name, label) in zip(parts, sides, strict=True):
        objective = np.array(maps[name]["objective"])
        part.suptitle(f"{label}: objective of policy i on task j (x target, o peak)", fontsize=9)
        _objectives(part, maps["points"], objective)
    drawing.provenance(drawn, result)
    return drawn


def _objectives(part: SubFigure, points: int, objective: Any) -> None:
    policies, tasks = objective.shape[:2]
    for task, line in enumerate(part.subplots(tasks, policies, squeeze=False)):
        low, high = objective[:, task].min(), objective[:, task].max()
        for policy, axes in enumerate(line):
            _map(axes, points, objective[policy, task], task, low, high, peak=True)
            if task == 0:
                axes.set_title(f"i = {policy + 1}", fontsize=7)
        line[0].set_ylabel(f"j = {task + 1}", fontsize=7)


def figure_14(result: Result) -> Figure | None:
    """The variance of each policy's return on its own task, after 1 to 4 tasks (rows): learned, and by Monte Carlo."""
    maps = result.numbers["maps"]
    agents = [(name, label) for name, label in _VARIANCES if name in maps]
    if not agents:
        return None
    high = float(np.quantile([maps[name]["truth"] for name, _ in agents], 0.99))
    drawn = drawing.figure(10.5, 5.2 * len(agents) + 0.3)
    parts = drawn.subfigures(len(agents), 1, squeeze=False)[:, 0]
    for part, (name, label) in zip(parts, agents, strict=True):
        part.suptitle(f"{label}: variance of the return of policy i on task i", fontsize=9)
        _variances(part, maps["points"], maps[name], high)
    drawing.provenance(drawn, result)
    return drawn


def _variances(part: SubFigure, points: int, maps: Any, high: float) -> None:
    n = len(TRAINING)
    columns = [(key, label, policy) for key, label in _SIDES for policy in range(n)]
    panels = part.subplots(n, len(columns))
    for stage, line in enumerate(panels):
        for (key, label, policy), axes in zip(columns, line, strict=True):
            image = _map(axes, points, maps[key][stage][policy], policy, 0.0, high, peak=False)
            if stage == 0:
                axes.set_title(f"{label}, i = {policy + 1}", fontsize=7)
        line[0].set_ylabel(f"after {stage + 1} task{'s' if stage else ''}", fontsize=7)
    part.colorbar(image, ax=panels, shrink=0.8, extend="max")
