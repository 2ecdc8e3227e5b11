"""Figures 11 to 14: rollouts and maps over tip positions, drawn from the saved result of `experiments.reacher`."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from rasf.envs.reacher import Reacher
from rasf.experiments import drawing, reacher_maps
from rasf.experiments.reacher_batches import TRAINING
from rasf.experiments.reacher_figures import rollouts
from rasf.experiments.results import Result

_AGENTS = (("rasfc51 -3", "RaSFC51 (3)"), ("rasfc51 0", "SFC51"), ("rac51 -3", "RaC51 (3)"))
_VARIANCES = (
    ("rasfc51 -3", "variance", "RaSFC51 (3)"),
    ("rasfc51 -3", "truth", "its truth"),
    ("sfdqn-residual -3", "variance", "SFDQN, residual (3)"),
    ("sfdqn-residual -3", "truth", "its truth"),
)


def figures_11_12(result: Result) -> Figure | None:
    """Three rollouts on each of the 12 tasks."""
    tips = result.numbers["tips"]
    rows = [(name, label) for name, label in _AGENTS if name in tips]
    if not rows:
        return None
    n = len(Reacher().targets)
    drawn = drawing.figure(1.35 * n, 1.5 * len(rows) + 0.3)
    for line, (name, label) in zip(drawn.subplots(len(rows), n, squeeze=False), rows, strict=True):
        for task, axes in enumerate(line):
            rollouts(axes, np.array(tips[name])[task], task)
            if name == rows[0][0]:
                axes.set_title(f"{'training' if task in TRAINING else 'test'} {task + 1}", fontsize=7)
        line[0].set_ylabel(label, fontsize=8)
    drawing.provenance(drawn, result)
    return drawn


def _map(axes: Axes, points: int, values: Any, task: int, low: float, high: float, peak: bool) -> Any:
    where = reacher_maps.grid(points)
    shown = reacher_maps.spread(where, np.array(values, np.float32))
    half = where.tips[0, -1, 0]
    image = axes.imshow(shown, origin="lower", extent=(-half, half, -half, half), vmin=low, vmax=high, cmap="viridis")
    axes.plot(*Reacher().targets[task], "x", color=drawing.RED, markersize=4)
    if peak:
        axes.plot(
            *where.tips[where.reached][np.argmax(values)], "o", color="white", markersize=3, markeredgecolor="black"
        )
    axes.set(xticks=[], yticks=[], xlim=(-0.24, 0.24), ylim=(-0.24, 0.24))
    return image


def figure_13(result: Result) -> Figure | None:
    """The objective of every policy (columns) on every task (rows), risk-aware and neutral; dots mark the peaks."""
    maps = result.numbers["maps"]
    sides = [(name, label) for name, label in _AGENTS[:2] if name in maps]
    if not sides:
        return None
    drawn = drawing.figure(4.2 * len(sides), 12)
    parts = drawn.subfigures(1, len(sides), squeeze=False)[0]
    for part, (name, label) in zip(parts, sides, strict=True):
        objective = np.array(maps[name]["objective"])
        part.suptitle(f"{label}: objective of policy i on task j", fontsize=9)
        _objectives(part, maps["points"], objective)
    drawing.provenance(drawn, result)
    return drawn


def _objectives(part: SubFigure, points: int, objective: Any) -> None:
    policies, tasks = objective.shape[:2]
    for task, line in enumerate(part.subplots(tasks, policies, squeeze=False)):
        low, high = objective[:, task].min(), objective[:, task].max()
        for policy, axes in enumerate(line):
            _map(axes, points, objective[policy, task], task, low, high, peak=True)
        line[0].set_ylabel(f"j = {task + 1}", fontsize=7)


def figure_14(result: Result) -> Figure | None:
    """The variance of each policy's return on its own task after 1 to 4 tasks: learned, and by Monte Carlo."""
    maps = result.numbers["maps"]
    rows = [row for row in _VARIANCES if row[0] in maps]
    if not rows:
        return None
    n = len(TRAINING)
    drawn = drawing.figure(3.4 * n, 1.1 * len(rows) + 0.5)
    high = float(np.quantile([maps[name]["truth"] for name, _, _ in rows], 0.99))
    for stage, part in enumerate(drawn.subfigures(1, n, squeeze=False)[0]):
        part.suptitle(f"after {stage + 1} task{'s' if stage else ''}", fontsize=8)
        panels = part.subplots(len(rows), n, squeeze=False)
        for line, (name, key, label) in zip(panels, rows, strict=True):
            for policy, axes in enumerate(line):
                image = _map(axes, maps["points"], maps[name][key][stage][policy], policy, 0.0, high, peak=False)
            if stage == 0:
                line[0].set_ylabel(label, fontsize=6, rotation=0, ha="right")
        if stage == n - 1:
            part.colorbar(image, ax=panels, shrink=0.8, label="variance")
    drawing.provenance(drawn, result)
    return drawn
