"""The pictures of what beta does, for docs/choosing_a_risk.md, from real runs: `python docs/site_pictures.py`.

    beta_gamble.png    scores of a gamble and of a sure thing against beta: where they cross, the choice changes
    beta_routes.png    optimal routes of one grid at three beta, and what they return
    beta_library.png   one library, trained once, acting on 27 new tasks at beta chosen at run time
    limits_frontier.png   the same tasks: return against failures by the dial, by a price on failures, and by limits
    reliability.png    what a calibration of such a library finds

Each is measured first and drawn afterwards; the same seeds give the same numbers. The last three take minutes;
`python docs/site_pictures.py limits_frontier` draws one alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import rasf
from rasf import drawing
from rasf.arrays import Floats
from rasf.envs.grid import EMPTY, GOAL, START, WALL, Grid
from rasf_lab.demo import NEW_TASKS

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

ENV = "rasf/FourRoom-v0"
LIBRARY_BETAS = (0.0, -0.5, -1.0, -2.0, -4.0, -8.0)
FAILURE_PRICES = (1.0, 1.5, 2.0, 4.0, 8.0, 16.0)
LIMITS = (0.2, 0.08, 0.05, 0.03, 0.02, 0.01, 0.0)
Fronts = dict[str, Floats]
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


def trained(seed: int) -> rasf.PolicyLibrary:
    """A library for limits and promises."""
    risks = [rasf.MeanVariance(beta) for beta in TRAINED_AT]
    return rasf.learn(ENV, agent="rasf-model", tasks=32, risk=risks, steps_per_task=10_000, seed=seed)


def fronts(seeds: int = 3, episodes: int = 100) -> Fronts:
    """Failures and returns (seeds, settings, 2) on the new tasks, in three ways of being careful."""
    ways: dict[str, list[tuple[float, rasf.MeanVariance, dict[str | int, float | rasf.Limit] | None]]] = {
        "dial": [(1.0, rasf.MeanVariance(beta), None) for beta in LIBRARY_BETAS],
        "price": [(times, rasf.MeanVariance(0.0), None) for times in FAILURE_PRICES],
        "limit": [(1.0, rasf.MeanVariance(0.0), {"failure": limit}) for limit in LIMITS],
    }
    found = {name: np.zeros((seeds, len(settings), 2)) for name, settings in ways.items()}
    for seed in range(seeds):
        policies = trained(seed)
        for name, settings in ways.items():
            for i, (times, risk, limits) in enumerate(settings):
                for k, task in enumerate(NEW_TASKS):
                    priced = np.array([*task[:-1], times * task[-1]])
                    report = policies.evaluate(ENV, priced, risk, episodes=episodes, seed=1_000 + k, limits=limits)
                    assert report.failures is not None
                    earned = report.phi @ np.array(task)  # whatever was paid for failures while acting
                    found[name][seed, i] += np.array([report.failures.mean(), earned.mean()]) / len(NEW_TASKS)
    return found


def draw_fronts(found: Fronts) -> Figure:
    """Return against failures; means over seeds, bars are standard errors."""
    drawn = drawing.figure(6.4, 4.0)
    axes = drawn.subplots()
    labels = {
        "dial": (drawing.BLUE, "o", "the dial: beta", [f"{beta:g}" for beta in LIBRARY_BETAS]),
        "price": (
            drawing.ORANGE,
            "s",
            "a price: failures cost so many times as much",
            [f"{p:g}x" for p in FAILURE_PRICES],
        ),
        "limit": (drawing.GREEN, "D", "a limit on expected failures, discounted", [f"{limit:g}" for limit in LIMITS]),
    }
    for name, (colour, marker, label, words) in labels.items():
        mean, error = found[name].mean(axis=0), found[name].std(axis=0, ddof=1) / np.sqrt(len(found[name]))
        axes.errorbar(*mean.T, error[:, 1], error[:, 0], color=colour, marker=marker, label=label, capsize=2)
        for place, word in zip(mean, words, strict=True):
            axes.annotate(word, place, (4, -9), textcoords="offset points", fontsize=6.5, color=colour)
    axes.set(xlabel="failures an episode", ylabel="mean return", xlim=(-0.003, None))
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    drawing.plain(axes)
    return drawn


def draw_reliability() -> Figure:
    """Of one library, 9,000 episodes."""
    policies = trained(0)
    risks = [rasf.MeanVariance(beta) for beta in (0.0, -1.0, -4.0)]
    found = policies.calibrate(ENV, 9_000, tasks=40, risks=risks)
    return drawing.reliability(found, "32 tasks, neutral and averse, rasf-model on rasf/FourRoom-v0, seed 0")


PICTURES: dict[str, Callable[[], Figure]] = {
    "beta_gamble": draw_gamble,
    "beta_routes": lambda: draw_routes(routes()),
    "beta_library": lambda: draw_library(library()),
    "limits_frontier": lambda: draw_fronts(fronts()),
    "reliability": draw_reliability,
}


def main() -> None:
    """Draw those that are named, or all."""
    for name in sys.argv[1:] or PICTURES:
        drawing.save(PICTURES[name](), FIGURES / f"{name}.png")


if __name__ == "__main__":
    main()
