"""`rasf reproduce grid`, Figure 1: GPI with risk-averse and with risk-neutral evaluation, on a 5 x 5 grid with traps.

The map has two classes of traps. The two source policies are optimal at beta = -0.1, for the costs (20, 20) and (0, 0)
of these classes. The target task has the costs (20, 0). Both GPI policies use the same sources, and differ only in the
risk at which they score the sources on the target. Returns are not discounted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.envs.grid import Grid
from rasf.mdp import FiniteMDP
from rasf.planning.bellman import follow
from rasf.planning.plan import Plan, evaluate_policy, plan
from rasf.planning.simulate import simulate
from rasf.risk import Entropic
from rasf.transfer import gpi
from rasf_lab.common.results import Result
from rasf_lab.paper.grid import claims

BETA = -0.1
SOURCE_COSTS = ((20.0, 20.0), (0.0, 0.0))
TARGET_COSTS = (20.0, 0.0)
TRANSFER_COSTS = tuple(product((0.0, 5.0, 10.0, 15.0, 20.0), repeat=2))
STEPS = 35
ROLLOUTS = {"quick": 1_000, "paper": 5_000}


class Transfer(NamedTuple):
    """A GPI policy on the target: its action, selected source policy and true utility at BETA in each of S states."""

    policy: Ints
    source: Ints
    utility: Floats


def total_ticks(preset: str) -> int:
    """Return how often `run` calls `tick`."""
    return 1


def run(preset: str, seed: int, tick: Callable[[], None], folder: Path) -> Result:
    """Return the numbers of Figure 1 and the verdicts on claims G1 to G5 and T7."""
    begin = time.perf_counter()
    grid = Grid()
    mdp, start, target = grid.mdp(), grid.start, grid.task(TARGET_COSTS)
    sources = [plan(mdp, grid.task(costs), Entropic(BETA)) for costs in SOURCE_COSTS]
    best = plan(mdp, target, Entropic(BETA))
    ways = {"averse": transfer(mdp, sources, target, BETA), "neutral": transfer(mdp, sources, target, 0.0)}
    on_target = [follow(evaluate_policy(mdp, s.policy, target, Entropic(BETA)), s.policy) for s in sources]
    rolled = {name: simulate(mdp, way.policy, start, STEPS, ROLLOUTS[preset], seed) for name, way in ways.items()}
    returns = {name: one.features @ target for name, one in rolled.items()}
    hits = {
        name: dict(zip(grid.traps, one.features[:, 2:].sum(axis=0).astype(int).tolist(), strict=True))
        for name, one in rolled.items()
    }
    routes = [grid.route(each.policy) for each in (*sources, best)]
    cross = cross_table(grid, mdp)
    averse, states = ways["averse"], reachable(mdp, ways["averse"].policy, start)
    differs = [int((averse.policy[states] != source.policy[states]).sum()) for source in sources]
    findings = {
        "G1": claims.three_routes(routes),
        "G2": claims.optimal(averse.utility[states], best.value[states], averse.utility[start]),
        "G3": claims.suboptimal(ways["neutral"].utility[start], best.value[start]),
        "G4": claims.stitches(differs, len(states), averse.utility[start], [u[start] for u in on_target]),
        "G5": claims.varies_less(returns, hits, seed),
        "T7": claims.evaluation_matters(cross, len(TRANSFER_COSTS)),
    }
    numbers = {
        "beta": BETA,
        "steps": STEPS,
        "rollouts": ROLLOUTS[preset],
        "layout": grid.layout.strip(),
        "routes": routes,
        "optimal_utility": best.value,
        "source_utility_on_target": on_target,
        "policies": {name: way.policy for name, way in ways.items()},
        "driving_source": {name: way.source for name, way in ways.items()},
        "utility": {name: way.utility for name, way in ways.items()},
        "returns": {name: _counts(values) for name, values in returns.items()},
        "trap_hits": hits,
        "train_by_act": cross,
    }
    tick()
    return Result("grid", preset, seed, time.perf_counter() - begin, numbers, findings)


def transfer(mdp: FiniteMDP, sources: list[Plan], w: Floats, beta: float) -> Transfer:
    """Return the GPI policy over the sources, and its true utility at BETA.

    Args:
        mdp: the model of the grid.
        sources: the source policies.
        w: weights of the target (d,).
        beta: the beta of the utility by which the sources are scored on w.
    """
    scores = np.stack([evaluate_policy(mdp, source.policy, w, Entropic(beta)) for source in sources])
    choice = gpi(scores)
    q = evaluate_policy(mdp, choice.policy, w, Entropic(BETA))
    return Transfer(choice.policy, choice.source, follow(q, choice.policy))


def cross_table(grid: Grid, mdp: FiniteMDP) -> dict[str, dict[str, float]]:
    """Return the utility of GPI from the start state, for each pair of a training risk and an evaluation risk.

    Sources are trained at the first risk and scored on the target at the second. Each risk is neutral or averse. A pair
    has two utilities at BETA: the mean over the targets with TRANSFER_COSTS, and the utility on Figure 1's target.
    """
    betas = {"neutral": 0.0, "averse": BETA}
    table = {}
    for train, train_beta in betas.items():
        sources = [plan(mdp, grid.task(costs), Entropic(train_beta)) for costs in SOURCE_COSTS]
        for act, act_beta in betas.items():
            utilities = [
                transfer(mdp, sources, grid.task(costs), act_beta).utility[grid.start] for costs in TRANSFER_COSTS
            ]
            table[f"train {train}, act {act}"] = {
                "mean": float(np.mean(utilities)),
                "figure_target": float(utilities[TRANSFER_COSTS.index(TARGET_COSTS)]),
            }
    return table


def reachable(mdp: FiniteMDP, policy: Ints, start: int) -> list[int]:
    """Return the states, other than terminal ones, that `policy` can reach from `start`."""
    indptr, entries = mdp.under_policy(policy)
    found, frontier = {start}, [start]
    while frontier:
        s = frontier.pop()
        after = mdp.successor[entries[indptr[s] : indptr[s + 1]]].tolist()
        frontier += [t for t in after if t not in found]
        found |= set(after)
    return sorted(s for s in found if not mdp.terminal[s])


def _counts(returns: Floats) -> dict[str, object]:
    """Return the mean and the variance of returns, and how often each value occurs. The returns are whole numbers."""
    values, counts = np.unique(np.round(returns).astype(int), return_counts=True)
    return {"mean": float(returns.mean()), "variance": float(returns.var(ddof=1)), "values": values, "counts": counts}
