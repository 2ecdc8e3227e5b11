"""What the examples have in common: two flags, one table, and acting at random for comparison.

The table has a row for each way to act on each weighting:

    return, variance, CVaR    of the undiscounted return; CVaR is the mean of the worst tenth of the episodes
    discounted                the mean of the return that the policies were trained to maximise
    failures                  in an episode, on average; "-" where nothing counts as a failure

Brackets hold 95 % bootstrap intervals.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import rasf
from rasf.envs.gymnasium.single import open_environment
from rasf.library.evaluation import FailureRule, episode_seeds, run_episodes

_COLUMNS = {
    "return": "return",
    "discounted": "discounted",
    "variance": "return variance",
    "failures": "failures",
    "CVaR": "return CVaR",
}


def show(example: Callable[[bool, int], str]) -> None:
    """Run an example, a function of (quick, seed) that returns its text, from the command line."""
    parser = argparse.ArgumentParser(description=(example.__doc__ or "").strip())
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes; too little to learn anything")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    # MO-Gymnasium's spaces round their bounds to float32, and Gymnasium says so for every environment made
    warnings.filterwarnings("ignore", message=".*precision lowered by casting.*")
    begin = time.perf_counter()
    print(example(given.quick, given.seed))
    print(f"({time.perf_counter() - begin:.0f} s, seed {given.seed}{', quick' * given.quick})")


def table(reports: Mapping[str, Mapping[str, rasf.Report]]) -> str:
    """The table of reports, by weighting and by way to act."""
    rows = [["weighting", "acting", *_COLUMNS]]
    for weighting, by_acting in reports.items():
        for acting, report in by_acting.items():
            cells = [str(report.measures.get(measure, "-")) for measure in _COLUMNS.values()]
            rows.append([weighting, acting, *cells])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def agreement(reports: Mapping[str, Mapping[str, rasf.Report]]) -> str:
    """A sentence for a world without chance: whether averse and neutral acting are the same there."""
    pairs = [(by_acting["neutral"].returns, by_acting["averse"].returns) for by_acting in reports.values()]
    if all(np.ptp(np.concatenate(pair)) == 0 for pair in pairs):
        return "Averse and neutral acting earn the same in every episode, because nothing is random."
    gains = ", ".join(f"{averse.mean() - neutral.mean():+.3g}" for neutral, averse in pairs)
    return f"Averse acting earns {gains} more, though nothing is random: it is training that was too short."


class _Dice:
    """A library's place in an evaluation, taken by chance."""

    def __init__(self, n_actions: int, gamma: float, seed: int) -> None:
        self.gamma, self._n_actions, self._rng = gamma, n_actions, np.random.default_rng([seed, 1])

    def act(self, obs: Any, w: Any, risk: Any) -> Any:
        return self._rng.integers(self._n_actions, size=len(obs))

    def seen(self, obs: Any) -> Any:
        return np.ones(len(obs), bool)


def act_at_random(
    env: str,
    w: Sequence[float],
    library: rasf.PolicyLibrary,
    episodes: int,
    seed: int,
    failure: FailureRule | None = None,
    max_steps: int = 10_000,
) -> rasf.Report:
    """What random actions earn on the episodes that `library.compare` begins with the same seed."""
    environment = open_environment(env)
    try:
        return run_episodes(
            _Dice(environment.n_actions, library.gamma, seed),  # type: ignore[arg-type]
            environment.encoder.flat,
            [environment],
            np.asarray(w, float),
            rasf.MeanVariance(0.0),
            episode_seeds(seed, episodes),
            max_steps=max_steps,
            failure=failure,
        )
    finally:
        environment.close()
