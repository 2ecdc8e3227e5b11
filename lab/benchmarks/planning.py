"""Planning a sparse random MDP of a million states: ours against QuantEcon.py's value iteration, in one run.

    python lab/benchmarks/planning.py [--states 1000000] [--json FILE]

4 actions, 4 successors each, gamma = 0.95, both to a proven error of 1e-6. Ratios, because machines are noisy; times
and peak memory of this process beside them. QuantEcon stops by the size of the last change and is checked against ours;
where it is not installed (it comes with rasf[dev]), ours is measured alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import rasf

GAMMA, ACTIONS, SUCCESSORS, TOLERANCE = 0.95, 4, 4, 1e-6


def random_transitions(n_states: int, seed: int) -> tuple[sp.csr_array, np.ndarray]:
    """Transition matrix (S A, S) and reward of every stored entry."""
    rng = np.random.default_rng(seed)
    rows = n_states * ACTIONS
    successor = rng.integers(n_states, size=rows * SUCCESSORS, dtype=np.int32)
    weight = rng.random((rows, SUCCESSORS))
    weight /= weight.sum(axis=1, keepdims=True)
    P = sp.csr_array((weight.ravel(), successor, np.arange(rows + 1) * SUCCESSORS), shape=(rows, n_states))
    return P, rng.random(rows * SUCCESSORS)


def timed(function: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """Least wall time of a few calls, after one that compiles, and the last answer."""
    times, answer = [], function()
    for _ in range(repeats):
        begin = time.perf_counter()
        answer = function()
        times.append(time.perf_counter() - begin)
    return min(times), answer


def quantecon_problem(P: sp.csr_array, reward: np.ndarray) -> Any:
    """The same problem for QuantEcon, state-action formulation; None without QuantEcon."""
    try:
        from quantecon.markov import DiscreteDP
    except ImportError:
        return None

    n_states = P.shape[1]
    mean_reward = np.add.reduceat(P.data * reward, P.indptr[:-1])
    states = np.repeat(np.arange(n_states), ACTIONS)
    return DiscreteDP(mean_reward, sp.csr_matrix(P), GAMMA, states, np.tile(np.arange(ACTIONS), n_states))


def main() -> None:
    """Run both and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    P, reward = random_transitions(options.states, seed=0)
    mdp = rasf.FiniteMDP(P, reward[:, None], (), GAMMA)
    results: dict[str, Any] = {"states": options.states}
    plans = {}
    for name, risk in (("neutral", rasf.Entropic(0.0)), ("nested", rasf.NestedEntropic(-1.0))):
        seconds, plans[name] = timed(
            lambda risk=risk: rasf.plan(mdp, [1.0], risk, tolerance=TOLERANCE), options.repeats
        )
        results[name] = {"seconds": seconds, "sweeps": plans[name].sweeps, "error": plans[name].error}
        results[name]["ms_per_sweep"] = 1e3 * seconds / plans[name].sweeps
    results["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    results["nested_over_neutral"] = results["nested"]["seconds"] / results["neutral"]["seconds"]
    problem = quantecon_problem(P, reward)
    if problem is not None:
        seconds, theirs = timed(
            lambda: problem.solve(method="value_iteration", epsilon=2 * TOLERANCE, max_iter=10_000), 1
        )
        ms_per_sweep = 1e3 * seconds / theirs.num_iter
        results["quantecon"] = {"seconds": seconds, "sweeps": theirs.num_iter, "ms_per_sweep": ms_per_sweep}
        results["largest_difference"] = float(np.abs(theirs.v - plans["neutral"].value).max())
        results["quantecon_over_neutral"] = seconds / results["neutral"]["seconds"]
        results["quantecon_over_neutral_per_sweep"] = ms_per_sweep / results["neutral"]["ms_per_sweep"]
    print(json.dumps(results, indent=2))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
