"""Draw Figures 2, 4, 6 and 10 to 14 from the saved result. A function returns None if the figure's runs are missing.

The figures follow the paper's. Three variants show content that the paper does not show: RaC51 on the training tasks
(`figure_4_rac51`), the objective by the formula that is printed under Figure 13, and the true variance. The objective
is the largest mean + beta x variance (with the paper's beta) of an action.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Circle

from rasf import drawing
from rasf.agents import AGENTS
from rasf.arrays import Floats
from rasf.envs.reacher.arm import LINK, TIP
from rasf.envs.reacher.world import Reacher
from rasf_lab.common.provenance import provenance
from rasf_lab.common.results import Numbers, Result
from rasf_lab.paper.reacher.beliefs import grid, on_grid
from rasf_lab.paper.reacher.measures import RISKS, title
from rasf_lab.paper.reacher.training import TRAINING

_SHADES = (drawing.INK, drawing.BLUE, drawing.GREEN, drawing.ORANGE, drawing.RED)
# curves: the label of the runs, the label in the legend, colour, line style
_MAIN = (
    ("rasfc51 -3", title("rasfc51 -3"), drawing.GREEN, "-"),
    ("rasfc51 0", title("rasfc51 0"), drawing.ORANGE, "--"),
    ("rac51 -3", title("rac51 -3"), drawing.BLUE, "-."),
    ("rac51 0", title("rac51 0"), drawing.RED, ":"),
)
_BEYOND = tuple(
    (f"{agent} beyond {beta}", title(f"{agent} {beta}"), colour, line)
    for agent, beta, colour, line in (
        ("rasfdqn", "-3", drawing.GREEN, "-"),
        ("rasfdqn", "0", drawing.ORANGE, "--"),
        ("rac51", "-3", drawing.BLUE, "-."),
        ("rac51", "0", drawing.RED, ":"),
    )
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
_SIDES = (("variance", "learned"), ("truth", "Monte Carlo"))
_MAP_DPI = 110  # dots per inch: enough for maps with few points, and files stay small
_SHOWN_TASKS = (0, 4, 10)  # one training task and two test tasks, all in risky circles


def figure_2_reacher(result: Result) -> Figure:
    """Draw the arm, the targets and the risky circles."""
    drawn = drawing.figure(4.6, 4.9)
    axes = drawn.subplots()
    world(axes, labels=True)
    elbow = LINK * np.array([math.cos(0.6), math.sin(0.6)])
    tip = elbow + TIP * np.array([math.cos(1.7), math.sin(1.7)])
    axes.plot(*zip((0, 0), elbow, tip, strict=True), "-", color=drawing.INK, linewidth=5, solid_capstyle="round")
    axes.plot(*zip((0, 0), elbow, tip, strict=True), "o", color=drawing.GREY, markersize=5)
    axes.set_title("Reacher: training targets (filled), test targets (open), risky circles", fontsize=9)
    return provenance(drawn, result)


def world(axes: Axes, labels: bool = False) -> None:
    """Draw targets and risky circles, with the numbers of the targets if `labels`."""
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


def _curve(axes: Axes, result: Result, values: Numbers, label: str | None, **style: Any) -> None:
    steps = np.array(result.numbers["steps"]) / 1000
    mean, se = np.array(values["mean"]), np.array(values["se"])
    (line,) = axes.plot(steps, mean, label=label, linewidth=1.2, **style)
    alpha = 0.2 * style.get("alpha", 1)
    axes.fill_between(steps, mean - se, mean + se, color=line.get_color(), alpha=alpha, linewidth=0)


def _curves(axes: Axes, result: Result, what: str, shown: Iterable[tuple[str, str, str, Any]]) -> None:
    """Draw those of the curves `shown` whose runs exist."""
    agents = result.numbers["agents"]
    for name, label, colour, style in shown:
        if name in agents:
            _curve(axes, result, agents[name][what], label, color=colour, linestyle=style)


def _finish(axes: Axes, result: Result, title: str) -> None:
    drawing.plain(axes)
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("training steps (thousands)", fontsize=8)
    per_task = result.numbers["settings"]["steps_per_task"] / 1000
    interleaved = any("beyond" in name for name in result.numbers["agents"])
    for task in () if interleaved else TRAINING[1:]:
        axes.axvline(task * per_task, color=drawing.GREY, linewidth=0.5, linestyle=":")


def figure_4(result: Result) -> Figure | None:
    """Draw returns on training tasks (faded for C51, as in the paper), test returns and test failures."""
    return _figure_4(result, "rac51 0") or _figure_4(result, "rac51 beyond 0", "rasfdqn beyond -3", _BEYOND)


def figure_4_rac51(result: Result) -> Figure | None:
    """Draw Figure 4 with RaC51 instead of C51 as the faded curves, because the paper's text (R2) is about RaC51."""
    return _figure_4(result, "rac51 -3")


def _figure_4(
    result: Result, faded: str, ours: str = "rasfc51 -3", shown: tuple[tuple[str, str, str, Any], ...] = _MAIN
) -> Figure | None:
    agents = result.numbers["agents"]
    if not {ours, faded, shown[2][0]} <= agents.keys():
        return None
    drawn = drawing.figure(13, 3.6)
    left, middle, right = drawn.subplots(1, 3)
    for task, colour in zip(TRAINING, _SHADES, strict=False):
        for name, alpha in ((ours, 1.0), (faded, 0.35)):
            both = {key: np.array(agents[name]["train_return"][key])[:, task] for key in ("mean", "se")}
            label = f"{AGENTS[ours.split()[0]].title}, task {task + 1}" if alpha == 1 else None
            _curve(left, result, both, label, color=colour, alpha=alpha)
    _finish(left, result, f"normalised return on training tasks (faded: {title(faded)})")
    left.axhline(0.75, color=drawing.GREY, linewidth=0.8, linestyle="--")
    _curves(middle, result, "test_return", shown + _RELABELLED)
    _curves(right, result, "test_failures", shown)
    _finish(middle, result, "normalised return, mean over 8 test tasks")
    _finish(right, result, "failures per rollout, sum over 8 test tasks")
    left.legend(fontsize=7, loc="lower right")
    middle.legend(fontsize=7, loc="lower right")
    return provenance(drawn, result)


def figure_6(result: Result) -> Figure | None:
    """Draw test returns for each beta, test returns of SFC51 and SFDQN, and a few rollouts."""
    agents, tips = result.numbers["agents"], result.numbers["tips"]
    if "rasfc51 0" not in agents or not tips:
        return None
    drawn = drawing.figure(13, 4.2)
    left, middle, right = drawn.subfigures(1, 3, squeeze=False)[0]
    axes = left.subplots()
    _curves(axes, result, "test_return", _BY_BETA)
    _finish(axes, result, "normalised test return; in brackets -beta (0: SFC51, C51)")
    axes.legend(fontsize=6, ncols=2, loc="lower right")
    axes = middle.subplots()
    _curves(axes, result, "test_return", _SFDQN)
    _finish(axes, result, "normalised test return of SFC51 and SFDQN")
    axes.legend(fontsize=7, loc="lower right")
    rows = [name for name in _ROLLOUTS if name in tips]
    for line, name in zip(right.subplots(len(rows), len(_SHOWN_TASKS), squeeze=False), rows, strict=True):
        _rollouts(line, tips, name, _SHOWN_TASKS, name == rows[0], 7)
    return provenance(drawn, result)


def _rollouts(line: Sequence[Axes], tips: Numbers, name: str, tasks: Sequence[int], titled: bool, size: int) -> None:
    """Draw paths of the tip in one panel for each task. Pentagons mark starts of paths, and crosses mark targets."""
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
    """Draw, for each beta, the test failures during training, and the return per failure of the final policies."""
    agents = result.numbers["agents"]
    if not any(name in agents for name, *_ in _BY_BETA):
        return None
    drawn = drawing.figure(11, 3.8)
    left, right = drawn.subplots(1, 2)
    _curves(left, result, "test_failures", _BY_BETA)
    _finish(left, result, "failures per rollout, sum over 8 test tasks; in brackets -beta")
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
    right.set_title("normalised test return per failure, final policies", fontsize=9)
    right.set_xlabel("-beta", fontsize=8)
    right.legend(fontsize=7)
    return provenance(drawn, result)


def figures_11_12(result: Result) -> Figure | None:
    """Draw three rollouts of each agent on each of the 12 tasks: tasks 1 to 6 above, tasks 7 to 12 below."""
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
    return provenance(drawn, result)


def _label(result: Result, agent: str, beta: str) -> str | None:
    """Return the label of this agent and beta whose maps are in the result; None if the result has no such maps."""
    kept = result.numbers["map_points"]
    return next((name for name in kept if (name.split()[0], name.rsplit(" ", 1)[1]) == (agent, beta)), None)


def _mosaic(
    axes: Axes, points: int, maps: Floats, tasks: Sequence[int], limits: Floats, peaks: bool = False
) -> AxesImage:
    """Draw maps (rows, columns, P), with P points each, in a grid.

    Risky circles are drawn, and an x marks the target. With `peaks`, an o marks the point with the largest value. The
    maps in row r are for tasks[r]. `limits` (rows, 2) are the values of the darkest and the brightest colour of a row.
    """
    where, world = grid(points), Reacher()
    side, cell = 2 * where.tips[0, -1, 0], 2.08 * where.tips[0, -1, 0]
    rows, columns, _ = maps.shape
    low, high = limits[:, 0, None, None], limits[:, 1, None, None]
    scaled = on_grid(where, ((maps - low) / (high - low)).astype(np.float32))
    angle = np.linspace(0, 2 * np.pi, 40)
    ring = world.radius * np.stack([np.cos(angle), np.sin(angle)])
    for row in range(rows):
        for column in range(columns):
            at = np.array([column * cell, -row * cell])
            edge = (at[0] - side / 2, at[0] + side / 2, at[1] - side / 2, at[1] + side / 2)
            image = axes.imshow(
                scaled[row, column],
                origin="lower",
                extent=edge,
                vmin=0,
                vmax=1,
                cmap="viridis",
                interpolation="nearest",
            )
            for risky in world.risky:
                axes.plot(*(ring + (at + world.targets[risky])[:, None]), color="white", linewidth=0.4, alpha=0.7)
            axes.plot(*(at + world.targets[tasks[row]]), "x", color=drawing.RED, markersize=2.5, markeredgewidth=0.7)
            if peaks:
                best = at + where.tips[where.reached][np.argmax(maps[row, column])]
                axes.plot(*best, "o", color="white", markersize=2, markeredgecolor="black", markeredgewidth=0.4)
    axes.set(xlim=(-0.55 * cell, (columns - 0.45) * cell), ylim=(-(rows - 0.45) * cell, 0.55 * cell), aspect="equal")
    axes.set_xticks([column * cell for column in range(columns)], [str(column + 1) for column in range(columns)])
    axes.set_yticks([-row * cell for row in range(rows)], [str(task + 1) for task in tasks])
    axes.tick_params(length=0, labelsize=6)
    axes.spines[:].set_visible(False)
    return image


def figure_13(result: Result) -> Figure | None:
    """Draw the objective of each policy (columns) on each task (rows), for RaSFC51 at beta -3 and SFC51 at beta 0."""
    return _figure_13(result, "objective", "objective at its own beta")


def figure_13_as_printed(result: Result) -> Figure | None:
    """Draw Figure 13 by the formula that is printed under the paper's figure: mean - variance, for both agents."""
    return _figure_13(result, "objective_as_printed", "mean - variance")


def _figure_13(result: Result, key: str, words: str) -> Figure | None:
    names = [name for beta in ("-3", "0") if (name := _label(result, "rasfc51", beta)) is not None]
    names = [name for name in names if f"{name}/{key}" in result.arrays]
    if not names:
        return None
    drawn = drawing.figure(3.4 * len(names), 9.6, _MAP_DPI)
    for axes, name in zip(drawn.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        maps = np.moveaxis(result.arrays[f"{name}/{key}"].astype(float), 0, 1)  # axes: tasks, policies, points
        limits = np.stack([maps.min(axis=(1, 2)), maps.max(axis=(1, 2))], axis=1)
        _mosaic(axes, result.numbers["map_points"][name], maps, range(len(maps)), limits, peaks=True)
        axes.set_title(f"{title(name)}: {words} (x target, o peak)", fontsize=8)
        axes.set_xlabel("policy (one colour scale per row)", fontsize=7)
        axes.set_ylabel("task", fontsize=7)
    return provenance(drawn, result)


def figure_14(result: Result) -> Figure | None:
    """Draw the learned variance of each policy (columns) on each task (rows), after 1 to 4 training tasks.

    Maps are means over seeds.
    """
    names = [name for agent in ("rasfc51", "sfdqn-residual") if (name := _label(result, agent, "-3")) is not None]
    names = [name for name in names if f"{name}/variance_pairs" in result.arrays]
    if not names:
        return None
    n = len(TRAINING)
    drawn = drawing.figure(8.4, 5.5 * len(names), _MAP_DPI)
    high = float(np.quantile(result.arrays[f"{names[0]}/variance_pairs"][-1], 0.99))
    for line, name in zip(drawn.subplots(len(names), n, squeeze=False), names, strict=True):
        for stage, axes in enumerate(line):
            maps = np.moveaxis(result.arrays[f"{name}/variance_pairs"][stage].astype(float), 0, 1)
            image = _mosaic(axes, result.numbers["map_points"][name], maps, range(len(maps)), _up_to(high, len(maps)))
            axes.set_title(f"variance after {stage + 1} training task{'s' * (stage > 0)}", fontsize=7)
            axes.set_xlabel("policy", fontsize=7)
        line[0].set_ylabel(f"{title(name)}: task", fontsize=8)
        bar = drawn.colorbar(image, ax=line, shrink=0.5, extend="max", ticks=[0, 1])
        bar.ax.set_yticklabels(["0", f"{high:.2g}"], fontsize=7)
    return provenance(drawn, result)


def figure_14_truth(result: Result) -> Figure | None:
    """Draw the learned and the true variance of each policy (rows) on its own task, after 1 to 4 tasks (columns)."""
    names = [name for agent in ("rasfc51", "sfdqn-residual") if (name := _label(result, agent, "-3")) is not None]
    if not names:
        return None
    n = len(TRAINING)
    high = float(np.quantile(result.arrays[f"{names[0]}/truth"], 0.99))
    drawn = drawing.figure(8.4, 4.2 * len(names), _MAP_DPI)
    for line, name in zip(drawn.subplots(len(names), len(_SIDES), squeeze=False), names, strict=True):
        for axes, (key, words) in zip(line, _SIDES, strict=True):
            # a row for each policy, so that the maps of a row have the same target
            maps = np.moveaxis(result.arrays[f"{name}/{key}"].astype(float), 0, 1)  # axes: policies, stages, points
            image = _mosaic(axes, result.numbers["map_points"][name], maps, TRAINING, _up_to(high, n))
            axes.set_title(f"{title(name)}: {words} variance", fontsize=8)
            axes.set_xlabel("number of training tasks so far", fontsize=7)
        line[0].set_ylabel("policy, on its own task", fontsize=7)
        bar = drawn.colorbar(image, ax=line, shrink=0.6, extend="max", ticks=[0, 1])
        bar.ax.set_yticklabels(["0", f"{high:.2g}"], fontsize=7)
    return provenance(drawn, result)


def _up_to(high: float, rows: int) -> Floats:
    return np.tile([0.0, high], (rows, 1))


_DRAWN = (
    figure_2_reacher,
    figure_4,
    figure_4_rac51,
    figure_6,
    figure_10,
    figures_11_12,
    figure_13,
    figure_13_as_printed,
    figure_14,
    figure_14_truth,
)
FIGURES = {each.__name__: each for each in _DRAWN}
