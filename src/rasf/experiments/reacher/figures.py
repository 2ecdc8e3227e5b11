"""Figures 2, 4, 6 and 10, drawn from the saved result of `experiments.reacher`; None where the runs are not there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from rasf.envs.reacher.arm import LINK, TIP
from rasf.envs.reacher.world import Reacher
from rasf.experiments.common import drawing
from rasf.experiments.common.results import Result
from rasf.experiments.reacher.batches import TRAINING

_MAIN = (
    ("rasfc51 -3", "RaSFC51 (3)", drawing.GREEN, "-"),
    ("rasfc51 0", "SFC51", drawing.ORANGE, "--"),
    ("rac51 -3", "RaC51 (3)", drawing.BLUE, "-."),
    ("rac51 0", "C51", drawing.RED, ":"),
)
_RISKS = ("0", "-1", "-2", "-3", "-4")
_SHADES = (drawing.INK, drawing.BLUE, drawing.GREEN, drawing.ORANGE, drawing.RED)
_ROLLOUTS = (("rasfc51 -3", "RaSFC51 (3)"), ("rasfc51 0", "SFC51"), ("rac51 -3", "RaC51 (3)"))
_SHOWN_TASKS = (0, 4, 9)  # one training task and two test tasks, all in risky circles


def figure_2(result: Result) -> Figure:
    """The arm, the targets and the risky circles."""
    drawn = drawing.figure(4.6, 4.9)
    axes = drawn.subplots()
    world(axes, labels=True)
    elbow = LINK * np.array([math.cos(0.6), math.sin(0.6)])
    tip = elbow + TIP * np.array([math.cos(1.7), math.sin(1.7)])
    axes.plot(*zip((0, 0), elbow, tip, strict=True), "-", color=drawing.INK, linewidth=5, solid_capstyle="round")
    axes.plot(*zip((0, 0), elbow, tip, strict=True), "o", color=drawing.GREY, markersize=5)
    axes.set_title("Reacher: training targets (filled), test targets (open), risky circles", fontsize=9)
    drawing.provenance(drawn, result)
    return drawn


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
    axes.fill_between(
        steps, mean - se, mean + se, color=line.get_color(), alpha=0.2 * style.get("alpha", 1), linewidth=0
    )


def _by_beta(axes: Axes, result: Result, what: str) -> None:
    """Curves of RaSFC51 and RaC51 at every beta for which there are runs."""
    agents = result.numbers["agents"]
    for risk, colour in zip(_RISKS, _SHADES, strict=True):
        for agent, word, style in (("rasfc51", "RaSFC51", "-"), ("rac51", "RaC51", ":")):
            if f"{agent} {risk}" in agents:
                values = agents[f"{agent} {risk}"][what]
                _curve(axes, result, values, f"{word} ({risk.lstrip('-')})", color=colour, linestyle=style)


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
        for name, alpha, word in (("rasfc51 -3", 1.0, "RaSFC51"), ("rac51 -3", 0.35, "RaC51")):
            both = {key: np.array(agents[name]["train_return"][key])[:, task] for key in ("mean", "se")}
            _curve(left, result, both, f"{word}, task {task + 1}" if alpha == 1 else None, color=colour, alpha=alpha)
    _finish(left, result, "normalised return on training tasks (faded: RaC51)")
    left.axhline(0.75, color=drawing.GREY, linewidth=0.8, linestyle="--")
    for name, label, colour, style in _MAIN:
        if name in agents:
            _curve(middle, result, agents[name]["test_return"], label, color=colour, linestyle=style)
            _curve(right, result, agents[name]["test_failures"], label, color=colour, linestyle=style)
    if "rac51-relabelled -3" in agents:
        extra = agents["rac51-relabelled -3"]["test_return"]
        _curve(middle, result, extra, "RaC51 (3), relabelled", color=drawing.GREY, linestyle=(0, (5, 1, 1, 1)))
    _finish(middle, result, "normalised return, mean over 8 test tasks")
    _finish(right, result, "failures a rollout, sum over 8 test tasks")
    left.legend(fontsize=7, loc="lower right")
    middle.legend(fontsize=7, loc="lower right")
    drawing.provenance(drawn, result)
    return drawn


def figure_6(result: Result) -> Figure | None:
    """The beta sweep, SFC51 against SFDQN, and a few rollouts."""
    agents, tips = result.numbers["agents"], result.numbers["tips"]
    if "rasfc51 0" not in agents or not tips:
        return None
    drawn = drawing.figure(13, 4.2)
    left, middle, right = drawn.subfigures(1, 3, squeeze=False)[0]
    axes = left.subplots()
    _by_beta(axes, result, "test_return")
    _finish(axes, result, "normalised test return by -beta (0: SFC51, C51)")
    axes.legend(fontsize=6, ncols=2, loc="lower right")
    axes = middle.subplots()
    shown = (
        ("rasfc51 0", "SFC51", drawing.INK, "-"),
        ("sfdqn 0", "SFDQN", drawing.BLUE, "--"),
        ("sfdqn gpi 0", "SFDQN, bootstrap by GPI", drawing.GREEN, "-."),
        ("sfdqn no-target 0", "SFDQN, no target networks", drawing.RED, ":"),
    )
    for name, label, colour, style in shown:
        if name in agents:
            _curve(axes, result, agents[name]["test_return"], label, color=colour, linestyle=style)
    _finish(axes, result, "normalised test return, C51 in place of DQN")
    axes.legend(fontsize=7, loc="lower right")
    rows = [(name, label) for name, label in _ROLLOUTS if name in tips]
    grid = right.subplots(len(rows), len(_SHOWN_TASKS), squeeze=False)
    for line, (name, label) in zip(grid, rows, strict=True):
        for small, task in zip(line, _SHOWN_TASKS, strict=True):
            rollouts(small, np.array(tips[name])[task], task)
            if name == rows[0][0]:
                small.set_title(task_name(task), fontsize=7)
        line[0].set_ylabel(label, fontsize=7)
    drawing.provenance(drawn, result)
    return drawn


def task_name(task: int) -> str:
    """Its number, from 1, and what it is for."""
    return f"task {task + 1} ({'training' if task in TRAINING else 'test'})"


def rollouts(axes: Axes, paths: Any, task: int) -> None:
    """Paths of the tip (n, steps, 2) on one task; pentagons mark where they begin, a cross the target."""
    world(axes)
    for path, colour in zip(paths, (drawing.INK, drawing.GREEN, drawing.ORANGE), strict=False):
        axes.plot(*path.T, color=colour, linewidth=0.6, alpha=0.8)
        axes.plot(*path[0], "p", color="#e0c000", markersize=4)
    axes.plot(*Reacher().targets[task], "x", color=drawing.RED, markersize=5)


def figure_10(result: Result) -> Figure | None:
    """Test failures over training by beta, and return per failure of the final policies."""
    agents = result.numbers["agents"]
    if not any(f"{agent} {risk}" in agents for agent in ("rasfc51", "rac51") for risk in _RISKS):
        return None
    drawn = drawing.figure(11, 3.8)
    left, right = drawn.subplots(1, 2)
    _by_beta(left, result, "test_failures")
    _finish(left, result, "failures a rollout, sum over 8 test tasks, by -beta (0: SFC51, C51)")
    left.legend(fontsize=6, ncols=2)
    n = len(TRAINING)
    for shift, (agent, word, colour) in enumerate(
        (("rasfc51", "RaSFC51", drawing.GREEN), ("rac51", "RaC51", drawing.BLUE))
    ):
        there = [(place, agents[f"{agent} {risk}"]) for place, risk in enumerate(_RISKS) if f"{agent} {risk}" in agents]
        if not there:
            continue
        height = [
            np.mean(one["final_return"]["mean"][n:]) / max(np.sum(one["final_failures"]["mean"][n:]), 1e-9)
            for _, one in there
        ]
        right.bar([place + 0.4 * shift - 0.2 for place, _ in there], height, 0.38, label=word, color=colour)
    right.set_xticks(range(len(_RISKS)), [risk.lstrip("-") for risk in _RISKS])
    drawing.plain(right)
    right.set_title("normalised return per failure", fontsize=9)
    right.set_xlabel("-beta", fontsize=8)
    right.legend(fontsize=7)
    drawing.provenance(drawn, result)
    return drawn
