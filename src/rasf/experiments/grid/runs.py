"""Figure 1: risk-aware against risk-neutral evaluation in GPI, on a 5 x 5 grid with two classes of traps.

Sources are optimal at beta = -0.1 for trap costs (20, 20) and (0, 0); the target has costs (20, 0). Both GPI policies
choose among the same two sources; they differ only in how they evaluate them on the target. gamma = 1.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.envs.grid import Grid
from rasf.experiments.common.results import Finding, Result
from rasf.mdp import FiniteMDP
from rasf.planning.bellman import follow
from rasf.planning.plan import Plan, evaluate_policy, plan
from rasf.planning.simulate import simulate
from rasf.risk import Entropic
from rasf.transfer import gpi

BETA = -0.1
SOURCE_COSTS = ((20.0, 20.0), (0.0, 0.0))
TARGET_COSTS = (20.0, 0.0)
STEPS = 35
ROLLOUTS = {"quick": 1_000, "paper": 5_000}
TRANSFER_COSTS = tuple((x, y) for x in (0.0, 5.0, 10.0, 15.0, 20.0) for y in (0.0, 5.0, 10.0, 15.0, 20.0))


@dataclass(frozen=True)
class Transfer:
    """A GPI policy on the target, the source that drives each state, and its true utilities (S,) at BETA."""

    policy: Ints
    source: Ints
    utility: Floats


def transfer(mdp: FiniteMDP, sources: list[Plan], w: Floats, beta: float) -> Transfer:
    """GPI over the sources evaluated on w at `beta`, judged at BETA."""
    scores = np.stack([evaluate_policy(mdp, source.policy, w, Entropic(beta)) for source in sources])
    choice = gpi(scores)
    q = evaluate_policy(mdp, choice.policy, w, Entropic(BETA))
    return Transfer(choice.policy, choice.source, follow(q, choice.policy))


def run(preset: str = "paper", seed: int = 0) -> Result:
    """Everything Figure 1 shows, and the verdicts on G1 to G5 and T7."""
    begin = time.perf_counter()
    grid = Grid()
    mdp = grid.mdp()
    target = grid.task(TARGET_COSTS)
    sources = [plan(mdp, grid.task(costs), Entropic(BETA)) for costs in SOURCE_COSTS]
    best = plan(mdp, target, Entropic(BETA))
    ways = {"averse": transfer(mdp, sources, target, BETA), "neutral": transfer(mdp, sources, target, 0.0)}
    on_target = [follow(evaluate_policy(mdp, s.policy, target, Entropic(BETA)), s.policy) for s in sources]
    rollouts = {
        name: simulate(mdp, way.policy, grid.start, STEPS, ROLLOUTS[preset], seed) for name, way in ways.items()
    }
    returns = {name: rolled.features @ target for name, rolled in rollouts.items()}
    hits = {name: rolled.features[:, 2:].sum(axis=0).astype(int) for name, rolled in rollouts.items()}
    routes = [grid.route(p.policy) for p in (*sources, best)]
    cross = cross_table(grid, mdp)
    findings = {
        "G1": _three_routes(routes),
        "G2": _optimal(mdp, grid, ways["averse"], best),
        "G3": _suboptimal(grid, ways["neutral"], best),
        "G4": _stitches(mdp, grid, ways["averse"], sources, on_target),
        "G5": _varies_less(returns, hits, grid.traps, seed),
        "T7": _evaluation_matters(cross),
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
        "trap_hits": {name: dict(zip(grid.traps, count.tolist(), strict=True)) for name, count in hits.items()},
        "train_by_act": cross,
    }
    return Result("grid", preset, seed, time.perf_counter() - begin, numbers, findings)


def cross_table(grid: Grid, mdp: FiniteMDP) -> dict[str, Any]:
    """U at the start under BETA, mean over target costs, for sources trained and evaluated with and without risk."""
    betas = {"neutral": 0.0, "averse": BETA}
    table: dict[str, Any] = {}
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
    """States, not terminal, that `policy` may visit from `start`."""
    indptr, entries = mdp.under_policy(policy)
    found, frontier = {start}, [start]
    while frontier:
        s = frontier.pop()
        after = mdp.successor[entries[indptr[s] : indptr[s + 1]]].tolist()
        frontier += [t for t in after if t not in found]
        found |= set(after)
    return sorted(s for s in found if not mdp.terminal[s])


def _counts(returns: Floats) -> dict[str, Any]:
    """Returns are whole numbers here, so counts lose nothing."""
    values, counts = np.unique(np.round(returns).astype(int), return_counts=True)
    return {
        "mean": float(returns.mean()),
        "variance": float(returns.var(ddof=1)),
        "values": values,
        "counts": counts,
    }


def _three_routes(routes: list[list[int]]) -> Finding:
    different = len({tuple(route) for route in routes}) == 3
    lengths = ", ".join(str(len(route) - 1) for route in routes)
    return Finding(
        "holds" if different else "does not hold",
        f"routes of source (20, 20), source (0, 0) and target take {lengths} moves and "
        f"{'all differ' if different else 'do not all differ'}",
        1,
    )


def _optimal(mdp: FiniteMDP, grid: Grid, way: Transfer, best: Plan) -> Finding:
    states = reachable(mdp, way.policy, grid.start)
    gap = float(np.abs(way.utility[states] - best.value[states]).max())
    return Finding(
        "holds" if gap <= 1e-9 else "does not hold",
        f"largest |U - U*| over {len(states)} reachable states is {gap:.1e}; U(S) = {way.utility[grid.start]:.4f}",
        1,
    )


def _suboptimal(grid: Grid, way: Transfer, best: Plan) -> Finding:
    got, ideal = way.utility[grid.start], best.value[grid.start]
    return Finding("holds" if got < ideal - 1e-9 else "does not hold", f"U(S) = {got:.4f} against U* = {ideal:.4f}", 1)


def _stitches(mdp: FiniteMDP, grid: Grid, way: Transfer, sources: list[Plan], on_target: list[Floats]) -> Finding:
    states = reachable(mdp, way.policy, grid.start)
    differs = [int((way.policy[states] != source.policy[states]).sum()) for source in sources]
    got, theirs = way.utility[grid.start], [u[grid.start] for u in on_target]
    return Finding(
        "holds" if min(differs) > 0 and got > max(theirs) + 1e-9 else "does not hold",
        f"differs from the sources in {differs[0]} and {differs[1]} of {len(states)} states; "
        f"U(S) = {got:.4f} against {theirs[0]:.4f} and {theirs[1]:.4f}",
        1,
    )


def _varies_less(returns: dict[str, Floats], hits: dict[str, Ints], traps: list[str], seed: int) -> Finding:
    """Bootstrap interval of the ratio of variances."""
    rng = np.random.default_rng(seed + 1)
    n = len(returns["averse"])
    drawn = {name: values[rng.integers(n, size=(2_000, n))].var(axis=1, ddof=1) for name, values in returns.items()}
    low, high = np.quantile(drawn["averse"] / drawn["neutral"], [0.025, 0.975])
    averse, neutral = (returns[name].var(ddof=1) for name in ("averse", "neutral"))
    counts = ", ".join(f"{t}: {hits['averse'][k]} against {hits['neutral'][k]}" for k, t in enumerate(traps))
    return Finding(
        "holds" if high < 1 else "does not hold" if low > 1 else "not decided",
        f"variance {averse:.1f} against {neutral:.1f}, ratio {averse / neutral:.2f} [{low:.2f}, {high:.2f}]; "
        f"trap hits {counts}",
        n,
    )


def _evaluation_matters(cross: dict[str, Any]) -> Finding:
    u = {key: cell["mean"] for key, cell in cross.items()}
    by_act = (
        u["train neutral, act averse"] - u["train neutral, act neutral"],
        u["train averse, act averse"] - u["train averse, act neutral"],
    )
    by_train = (
        u["train averse, act neutral"] - u["train neutral, act neutral"],
        u["train averse, act averse"] - u["train neutral, act averse"],
    )
    act, train = float(np.mean(by_act)), float(np.mean(by_train))
    return Finding(
        "holds" if act > train else "does not hold",
        f"grid, mean U(S) over {len(TRANSFER_COSTS)} targets: evaluating with risk adds {act:.2f}, training with risk "
        f"adds {train:.2f} (" + ", ".join(f"{key}: {value:.2f}" for key, value in u.items()) + ")",
        len(TRANSFER_COSTS),
    )
