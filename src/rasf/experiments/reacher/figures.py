"""Figures 2, 4, 6 and 10 to 14, each a function of the saved result; None where the runs it shows are not there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Circle

from rasf.agents import AGENTS
from rasf.arrays import Floats
from rasf.envs.reacher.arm import LINK, TIP
from rasf.envs.reacher.world import Reacher
from rasf.experiments.common import drawing
from rasf.experiments.common.results import Result
from rasf.experiments.reacher.beliefs import grid, on_grid
from rasf.experiments.reacher.measures import RISKS, title
from rasf.experiments.reacher.training import TRAINING

_SHADES = (drawing.INK, drawing.BLUE, drawing.GREEN, drawing.ORANGE, drawing.RED)
# curves: the runs' label, what the legend says, colour, line
_MAIN = (
    ("rasfc51 -3", title("rasfc51 -3"), drawing.GREEN, "-"),
    ("rasfc51 0", title("rasfc51 0"), drawing.ORANGE, "--"),
    ("rac51 -3", title("rac51 -3"), drawing.BLUE, "-."),
    ("rac51 0", title("rac51 0"), drawing.RED, ":"),
)
_BY_BETA = tuple(
    (f"{agent} {risk}", f"{AGENTS[agent].title} ({risk.lstrip('-')})", colour, style)
    for risk, colour in zip(RISKS, _SHADES, strict=True)
    for agent, style in (("rasfc51", "-"), ("rac51", ":"))
)
_SFDQN = (
    ("rasfc51 0", title("rasfc51 0"), drawing.INK, "-"),
    ("sfdqn 0", title("sfdqn 0"), drawing.BLUE, "--"),
    ("sfdqn gpi 0", "SFDQN, bootstrap by GPI", drawing.GREEN, "-."),
    ("sfdqn no-target 0", "SFDQN, no target networks", drawing.RED, ":"),
)
_RELABELLED = (("rac51-relabelled -3", "RaC51 (3), relabelled", drawing.GREY, (0, (5, 1, 1, 1))),)
_ROLLOUTS = ("rasfc51 -3", "rasfc51 0", "rac51 -3")
_VARIANCES = (("rasfc51 -3", title("rasfc51 -3")), ("sfdqn-residual -3", "SFDQN with the residual covariance (3)"))
_SIDES = (("variance", "learned"), ("truth", "Monte Carlo"))
_SHOWN_TASKS = (0, 4, 9)  # one training task and two test tasks, all in risky circles


def figure_2_reacher(result: Result) -> Figure:
    """The arm, the targets and the risky circles."""
    drawn = drawing.figure(4.6, 4.9)
    axes = drawn.subplots()
    world(axes, labels=True)
    elbow = LINK * np.array([math.cos(0.6), math.sin(0.6)])
    tip = elbow + TIP * np.array([math.cos(1.7), math.sin(1.7)])
    axes.plot(*zip((0, 0), elbow, tip, strict=True), "-", color=drawing.INK, linewidth=5, solid_capstyle="round")
    axes.plot(*zip((0, 0), elbow, tip, strict=True), "o", color=drawing.GREY, markersize=5)
    axes.set_title("Reacher: training targets (filled), test targets (open), risky circles", fontsize=9)
    return drawing.provenance(drawn, result)


def world(axes: Axes, labels: bool = False) -> None:
    """Targets and risky circles, without a frame."""
    reacher = Reacher()
    for index, target in enumerate(reacher.targets):
        if index in reacher.risky:
            axes.add_patch(Circle(target, reacher.radius, color=drawing.RED, alpha=0.15, linewidth=0))
        face = drawing.BLUE if index in TRAINING else "white"
        axes.plot(*target, "o", color=drawing.BLUE, markerfacecolor=face, markersize=5 if labels else 3)
        if labels:
            axes.annotate(str(index + 1), target, textcoords="offset points", xytext=(5, 4), fontsize=7)
    axes.set(xlim=(-0.29, 0.29), ylim=(-0.29, 0.29), aspect="equal", xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_color(drawing.PALE)


def _curve(axes: Axes, result: Result, values: dict[str, Any], label: str | None, **style: Any) -> None:
    steps = np.array(result.numbers["steps"]) / 1000
    mean, se = np.array(values["mean"]), np.array(values["se"])
    (line,) = axes.plot(steps, mean, label=label, linewidth=1.2, **style)
    alpha = 0.2 * style.get("alpha", 1)
    axes.fill_between(steps, mean - se, mean + se, color=line.get_color(), alpha=alpha, linewidth=0)


def _curves(axes: Axes, result: Result, what: str, shown: Iterable[tuple[str, str, str, Any]]) -> None:
    """Those for which there are runs."""
    agents = result.numbers["agents"]
    for name, label, colour, style in shown:
        if name in agents:
            _curve(axes, result, agents[name][what], label, color=colour, linestyle=style)


def _finish(axes: Axes, result: Result, title: str) -> None:
    drawing.plain(axes)
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("thousand steps", fontsize=8)
    per_task = result.numbers["settings"]["steps_per_task"] / 1000
    for task in TRAINING[1:]:
        axes.axvline(task * per_task, color=drawing.GREY, linewidth=0.5, linestyle=":")


def figure_4(result: Result) -> Figure | None:
    """Training tasks, test return, test failures."""
    agents = result.numbers["agents"]
    if "rasfc51 -3" not in agents or "rac51 -3" not in agents:
        return None
    drawn = drawing.figure(13, 3.6)
    left, middle, right = drawn.subplots(1, 3)
    for task, colour in zip(TRAINING, _SHADES, strict=False):
        for name, alpha in (("rasfc51 -3", 1.0), ("rac51 -3", 0.35)):
            both = {key: np.array(agents[name]["train_return"][key])[:, task] for key in ("mean", "se")}
            _curve(left, result, both, f"RaSFC51, task {task + 1}" if alpha == 1 else None, color=colour, alpha=alpha)
    _finish(left, result, "normalised return on training tasks (faded: RaC51)")
    left.axhline(0.75, color=drawing.GREY, linewidth=0.8, linestyle="--")
    _curves(middle, result, "test_return", _MAIN + _RELABELLED)
    _curves(right, result, "test_failures", _MAIN)
    _finish(middle, result, "normalised return, mean over 8 test tasks")
    _finish(right, result, "failures a rollout, sum over 8 test tasks")
    left.legend(fontsize=7, loc="lower right")
    middle.legend(fontsize=7, loc="lower right")
    return drawing.provenance(drawn, result)


def figure_6(result: Result) -> Figure | None:
    """The beta sweep, SFC51 against SFDQN, and a few rollouts."""
    agents, tips = result.numbers["agents"], result.numbers["tips"]
    if "rasfc51 0" not in agents or not tips:
        return None
    drawn = drawing.figure(13, 4.2)
    left, middle, right = drawn.subfigures(1, 3, squeeze=False)[0]
    axes = left.subplots()
    _curves(axes, result, "test_return", _BY_BETA)
    _finish(axes, result, "normalised test return by -beta (0: SFC51, C51)")
    axes.legend(fontsize=6, ncols=2, loc="lower right")
    axes = middle.subplots()
    _curves(axes, result, "test_return", _SFDQN)
    _finish(axes, result, "normalised test return, C51 in place of DQN")
    axes.legend(fontsize=7, loc="lower right")
    rows = [name for name in _ROLLOUTS if name in tips]
    for line, name in zip(right.subplots(len(rows), len(_SHOWN_TASKS), squeeze=False), rows, strict=True):
        _rollouts(line, tips, name, _SHOWN_TASKS, name == rows[0], 7)
    return drawing.provenance(drawn, result)


def _rollouts(
    line: Sequence[Axes], tips: dict[str, Any], name: str, tasks: Sequence[int], titled: bool, size: int
) -> None:
    """Paths of the tip on each task; pentagons mark where they begin, a cross the target."""
    for axes, task in zip(line, tasks, strict=True):
        world(axes)
        for path, colour in zip(np.array(tips[name])[task], (drawing.INK, drawing.GREEN, drawing.ORANGE), strict=False):
            axes.plot(*path.T, color=colour, linewidth=0.6, alpha=0.8)
            axes.plot(*path[0], "p", color="#e0c000", markersize=4)
        axes.plot(*Reacher().targets[task], "x", color=drawing.RED, markersize=5)
        if titled:
            axes.set_title(f"task {task + 1} ({'training' if task in TRAINING else 'test'})", fontsize=size)
    line[0].set_ylabel(title(name), fontsize=size)


def figure_10(result: Result) -> Figure | None:
    """Test failures over training by beta, and return per failure of the final policies."""
    agents = result.numbers["agents"]
    if not any(name in agents for name, *_ in _BY_BETA):
        return None
    drawn = drawing.figure(11, 3.8)
    left, right = drawn.subplots(1, 2)
    _curves(left, result, "test_failures", _BY_BETA)
    _finish(left, result, "failures a rollout, sum over 8 test tasks, by -beta (0: SFC51, C51)")
    left.legend(fontsize=6, ncols=2)
    n = len(TRAINING)
    for shift, (agent, colour) in enumerate((("rasfc51", drawing.GREEN), ("rac51", drawing.BLUE))):
        there = [(place, agents[f"{agent} {risk}"]) for place, risk in enumerate(RISKS) if f"{agent} {risk}" in agents]
        if not there:
            continue
        height = [
            np.mean(one["final_return"]["mean"][n:]) / max(np.sum(one["final_failures"]["mean"][n:]), 1e-9)
            for _, one in there
        ]
        places = [place + 0.4 * shift - 0.2 for place, _ in there]
        right.bar(places, height, 0.38, label=AGENTS[agent].title, color=colour)
    right.set_xticks(range(len(RISKS)), [risk.lstrip("-") for risk in RISKS])
    drawing.plain(right)
    right.set_title("normalised return per failure", fontsize=9)
    right.set_xlabel("-beta", fontsize=8)
    right.legend(fontsize=7)
    return drawing.provenance(drawn, result)


def figures_11_12(result: Result) -> Figure | None:
    """Three rollouts on each of the 12 tasks, six tasks a band."""
    tips = result.numbers["tips"]
    agents = [name for name in _ROLLOUTS if name in tips]
    if not agents:
        return None
    columns = len(Reacher().targets) // 2
    drawn = drawing.figure(1.5 * columns, 3.2 * len(agents) + 0.5)
    lines = drawn.subplots(2 * len(agents), columns)
    for band, tasks in enumerate((range(columns), range(columns, 2 * columns))):
        for place, name in enumerate(agents):
            _rollouts(lines[band * len(agents) + place], tips, name, tasks, place == 0, 8)
    return drawing.provenance(drawn, result)


def _map(axes: Axes, points: int, values: Floats, task: int, low: float, high: float, peak: bool) -> AxesImage:
    where = grid(points)
    shown = on_grid(where, np.array(values, np.float32))
    half = where.tips[0, -1, 0]
    image = axes.imshow(shown, origin="lower", extent=(-half, half, -half, half), vmin=low, vmax=high, cmap="viridis")
    world = Reacher()
    outline = {"fill": False, "color": "white", "linewidth": 0.6, "alpha": 0.7}
    for risky in world.risky:
        axes.add_patch(Circle(world.targets[risky], world.radius, **outline))
    axes.plot(*world.targets[task], "x", color=drawing.RED, markersize=4)
    if peak:
        best = where.tips[where.reached][np.argmax(values)]
        axes.plot(*best, "o", color="white", markersize=3, markeredgecolor="black")
    axes.set(xticks=[], yticks=[], xlim=(-0.24, 0.24), ylim=(-0.24, 0.24))
    return image


def figure_13(result: Result) -> Figure | None:
    """The objective of every policy (columns) on every task (rows), risk-aware and neutral; colours scale by row."""
    maps = result.numbers["maps"]
    sides = [name for name in ("rasfc51 -3", "rasfc51 0") if name in maps]
    if not sides:
        return None
    drawn = drawing.figure(4.2 * len(sides), 12)
    for part, name in zip(drawn.subfigures(1, len(sides), squeeze=False)[0], sides, strict=True):
        part.suptitle(f"{title(name)}: objective of policy i on task j (x target, o peak)", fontsize=9)
        objective = np.array(maps[name]["objective"])
        policies, tasks = objective.shape[:2]
        for task, line in enumerate(part.subplots(tasks, policies, squeeze=False)):
            low, high = objective[:, task].min(), objective[:, task].max()
            for policy, axes in enumerate(line):
                _map(axes, maps["points"], objective[policy, task], task, low, high, peak=True)
                if task == 0:
                    axes.set_title(f"i = {policy + 1}", fontsize=7)
            line[0].set_ylabel(f"j = {task + 1}", fontsize=7)
    return drawing.provenance(drawn, result)


def figure_14(result: Result) -> Figure | None:
    """The variance of each policy's return on its own task, after 1 to 4 tasks (rows): learned, and by Monte Carlo."""
    maps = result.numbers["maps"]
    agents = [(name, label) for name, label in _VARIANCES if name in maps]
    if not agents:
        return None
    high = float(np.quantile([maps[name]["truth"] for name, _ in agents], 0.99))
    drawn = drawing.figure(10.5, 5.2 * len(agents) + 0.3)
    n = len(TRAINING)
    columns = [(key, label, policy) for key, label in _SIDES for policy in range(n)]
    for part, (name, label) in zip(drawn.subfigures(len(agents), 1, squeeze=False)[:, 0], agents, strict=True):
        part.suptitle(f"{label}: variance of the return of policy i on task i", fontsize=9)
        panels = part.subplots(n, len(columns))
        for stage, line in enumerate(panels):
            for (key, side, policy), axes in zip(columns, line, strict=True):
                values = maps[name][key][stage][policy]
                image = _map(axes, maps["points"], values, policy, 0.0, high, peak=False)
                if stage == 0:
                    axes.set_title(f"{side}, i = {policy + 1}", fontsize=7)
            line[0].set_ylabel(f"after {stage + 1} task{'s' if stage else ''}", fontsize=7)
        part.colorbar(image, ax=panels, shrink=0.8, extend="max")
    return drawing.provenance(drawn, result)


_DRAWN = (figure_2_reacher, figure_4, figure_6, figure_10, figures_11_12, figure_13, figure_14)
FIGURES = {each.__name__: each for each in _DRAWN}
