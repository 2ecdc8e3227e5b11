"""The pictures of what beta does, for docs/choosing_a_risk.md, from real runs: `python docs/site_pictures.py`.

    beta_gamble.png    scores of a gamble and of a sure thing against beta: where they cross, the choice changes
    beta_routes.png    optimal routes of one grid at three beta, and what they return
    beta_library.png   one library, trained once, acting on 27 new tasks at beta chosen at run time

Each is measured first and drawn afterwards; the same seeds give the same numbers. The last takes minutes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import rasf
from rasf.arrays import Floats
from rasf.envs.grid import EMPTY, GOAL, START, WALL, Grid
from rasf.experiments.common import drawing
from rasf.experiments.demo import NEW_TASKS

FIGURES = Path(__file__).parent / "figures"

# Three ways from S to G: the shorter, the more traps a slip can lead into.
ROUTES_MAP = """
. . . . . . . . .
. # # # # # # # .
. . . . . . . . .
. # # # T # # # .
S . . . . . . . G
# # T # T # T # #
"""
ROUTES_BETAS = (0.0, -1.0, -4.0)
ROLLOUTS, ROUTE_STEPS = 5_000, 200

LIBRARY_BETAS = (0.0, -0.5, -1.0, -2.0, -4.0, -8.0)
TRAINED_AT = (0.0, -4.0)
COLOURS = (drawing.RED, drawing.ORANGE, drawing.BLUE)


class Route(NamedTuple):
    """What is optimal at one beta: the states meant to be visited, and returns and failures of rollouts."""

    beta: float
    states: list[int]
    returns: Floats
    failures: float


def grid() -> Grid:
    """The map of the routes."""
    return Grid(ROUTES_MAP, slip=0.2)


def routes() -> list[Route]:
    """Plan at every beta, and roll out."""
    world = grid()
    mdp, w = world.mdp(), world.task([0.5], goal=1.5, step=0.06)
    found = []
    for beta in ROUTES_BETAS:
        best = rasf.plan(mdp, w, rasf.Entropic(beta))
        rolled = rasf.simulate(mdp, best.policy, world.start, ROUTE_STEPS, ROLLOUTS, seed=0)
        states = world.route(best.policy)
        found.append(Route(beta, states, rolled.features @ w, float(rolled.features[:, 2].mean())))
    return found


class Acting(NamedTuple):
    """Means over the new tasks, of return and failures an episode: (seeds, betas)."""

    returns: Floats
    failures: Floats


def library(seeds: int = 8, tasks: int = 32, episodes: int = 10) -> Acting:
    """Train a library for every seed, at two risks; act on the new tasks at many."""
    risks = [rasf.MeanVariance(beta) for beta in LIBRARY_BETAS]
    measured = np.zeros((2, seeds, len(risks)))
    for seed in range(seeds):
        trained = rasf.learn(
            "rasf/FourRoom-v0",
            agent="rasf-model",
            tasks=tasks,
            risk=[rasf.MeanVariance(beta) for beta in TRAINED_AT],
            seed=seed,
        )
        for w in NEW_TASKS:
            compared = trained.compare("rasf/FourRoom-v0", w, risks, episodes, seed=seed)
            for i, report in enumerate(compared.reports.values()):
                assert report.failures is not None
                measured[:, seed, i] += report.returns.mean(), report.failures.mean()
    return Acting(*measured / len(NEW_TASKS))


def draw_gamble() -> Figure:
    """Lines of a gamble's scores, and the sure thing."""
    outcomes, sure, betas = np.array([10.0] * 19 + [-20.0]), 7.0, np.linspace(-0.3, 0.1, 401)
    drawn = drawing.figure(6.2, 3.4)
    axes = drawn.subplots()
    kinds: tuple[tuple[Any, str, str, tuple[int, int]], ...] = (
        (rasf.Entropic, drawing.BLUE, "Entropic(beta)", (4, -14)),
        (rasf.MeanVariance, drawing.ORANGE, "MeanVariance(beta)", (-30, 7)),
    )
    for kind, colour, label, beside in kinds:
        scores = np.array([kind(beta).samples(outcomes) for beta in betas])
        crossing = betas[np.abs(scores - sure).argmin()]
        axes.plot(betas, scores, color=colour, label=f"gamble, {label}")
        axes.plot(crossing, sure, "o", color=colour)
        axes.annotate(f"{crossing:.3f}", (crossing, sure), beside, textcoords="offset points", color=colour, fontsize=8)
    axes.axhline(sure, color=drawing.GREY, linestyle="--", label="7 for sure")
    axes.set(xlabel="beta: averse on the left, seeking on the right", ylabel="score", ylim=(-12, 12))
    axes.set_title("10 with probability 0.95 or -20 with 0.05: worth it or not?", fontsize=10)
    axes.legend(fontsize=8, frameon=False)
    drawing.plain(axes)
    return drawn


def draw_routes(found: list[Route]) -> Figure:
    """The map with a route for every beta, above the returns of each."""
    world = grid()
    columns = world.shape[1]
    drawn = drawing.figure(9.5, 4.8)
    panels: Any = drawn.subplots(2, len(found), height_ratios=(1.2, 1.0), sharey="row")
    bins = np.linspace(-1.6, 1.4, 31)
    for (above, below), route, colour in zip(panels.T, found, COLOURS, strict=True):
        for state, symbol in enumerate(world.cells):
            i, j = divmod(state, columns)
            fill = {WALL: "#5b616b", EMPTY: "white", START: drawing.PALE, GOAL: "#d7efdd"}.get(symbol, "#f6cfc7")
            cell = Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=fill, edgecolor="#d5d9de", linewidth=0.6)
            above.add_patch(cell)
            if symbol not in (WALL, EMPTY):
                above.text(j, i, symbol, ha="center", va="center", fontsize=9, color=drawing.INK)
        rows, places = np.divmod(route.states, columns)
        above.plot(places, rows, color=colour, linewidth=3, alpha=0.75, solid_capstyle="round")
        above.set(xlim=(-0.5, columns - 0.5), ylim=(world.shape[0] - 0.5, -0.5), aspect="equal", xticks=[], yticks=[])
        above.set_title(f"beta = {route.beta:g}: {len(route.states) - 1} moves", fontsize=10)
        below.hist(route.returns, bins, color=colour, weights=np.full(ROLLOUTS, 1 / ROLLOUTS))
        below.axvline(route.returns.mean(), color=drawing.INK, linewidth=1, linestyle="--")
        below.set_xlabel(
            f"return: mean {route.returns.mean():.2f}, spread {route.returns.std():.2f}; trapped {route.failures:.1%}",
            fontsize=8,
        )
        drawing.plain(below)
    panels[1, 0].set_ylabel(f"share of {ROLLOUTS:,} rollouts", fontsize=8)
    return drawn


def draw_library(measured: Acting) -> Figure:
    """Return and failures against beta, with standard errors over seeds."""
    drawn = drawing.figure(8.0, 3.2)
    panels: Any = drawn.subplots(1, 2)
    seeds = len(measured.returns)
    shown = ((measured.returns, "mean return an episode", drawing.BLUE), (measured.failures, "failures", drawing.RED))
    for axes, (values, label, colour) in zip(panels, shown, strict=True):
        error = values.std(axis=0, ddof=1) / np.sqrt(seeds)
        places = np.arange(len(LIBRARY_BETAS))
        axes.errorbar(places, values.mean(axis=0), error, color=colour, marker="o", capsize=3)
        axes.set_xticks(places, [f"{beta:g}" for beta in LIBRARY_BETAS])
        axes.set(xlabel="beta, chosen at run time", ylabel=label, ylim=(0, None))
        drawing.plain(axes)
    return drawn


def main() -> None:
    """Draw all three."""
    drawing.save(draw_gamble(), FIGURES / "beta_gamble.png")
    drawing.save(draw_routes(routes()), FIGURES / "beta_routes.png")
    drawing.save(draw_library(library()), FIGURES / "beta_library.png")


if __name__ == "__main__":
    main()
