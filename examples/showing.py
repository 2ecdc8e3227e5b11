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
from collections.abc import Callable, Mapping
from dataclasses import replace

import mo_gymnasium
import numpy as np

import rasf

_COLUMNS = {
    "return": "return",
    "discounted": "discounted",
    "variance": "return_variance",
    "failures": "failures",
    "CVaR": "return_cvar",
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


def act_at_random(
    env_id: str,
    like: rasf.Report,
    episodes: int,
    seed: int,
    failure: Callable[[rasf.Step], bool],
    max_steps: int,
) -> rasf.Report:
    """The report `like` of `library.compare`, as random actions would have made it, on the same start states."""
    env, rng = mo_gymnasium.make(env_id), np.random.default_rng([seed, 1])
    seeds = np.random.SeedSequence(seed).generate_state(episodes).tolist()
    phi, discounted = np.zeros((2, episodes, like.phi.shape[1]))
    failures, lengths, truncated = np.zeros(episodes), np.zeros(episodes, int), np.ones(episodes, bool)
    for i in range(episodes):
        env.reset(seed=seeds[i])
        for mine in getattr(env.unwrapped, "mines", ()):  # minecart draws from numpy's global generator otherwise
            for law in mine.distributions:
                law.random_state = env.unwrapped.np_random
        for t in range(max_steps):
            obs, reward, terminated, stopped, _ = env.step(rng.integers(env.action_space.n, size=1)[0])
            step = rasf.Step(obs, np.asarray(reward, float), terminated, stopped, failure=False)
            phi[i] += step.phi
            discounted[i] += like.gamma**t * step.phi
            failures[i] += failure(step)
            lengths[i], truncated[i] = t + 1, not terminated
            if terminated or stopped:
                break
    env.close()
    seen = {"phi": phi, "discounted_phi": discounted, "failures": failures, "lengths": lengths, "truncated": truncated}
    return replace(like, **seen, rest=np.zeros(episodes), unseen=0.0)
