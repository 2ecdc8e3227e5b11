"""Rollouts of a FiniteMDP, many in parallel, as operations on arrays of states.

A successor is drawn by inverting the running sum of all stored probabilities. The transitions of a state and action
occupy an interval of this sum, so in each step a single binary search over arrays draws the successors of all rollouts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.checks import decisions, table, whole
from rasf.mdp import FiniteMDP, as_actions, require_mdp


class Rollouts(NamedTuple):
    """Sums of features (episodes, d), discounted by the MDP's gamma, and visited states (episodes, steps + 1)."""

    features: Floats
    states: Ints


def simulate(
    mdp: FiniteMDP, policy: npt.ArrayLike, start: int, steps: int, episodes: int, seed: int | np.random.Generator
) -> Rollouts:
    """Simulate episodes of a policy from one state.

    Args:
        mdp: The dynamics and features.
        policy: Actions (S,), or a row for each decision (.., S). If there are fewer rows than steps, the last row
            applies to all later decisions, as in plans for discounted `Entropic`.
        start: The start state.
        steps: The largest number of decisions in an episode.
        episodes: The number of episodes.
        seed: A seed or a NumPy generator.

    Returns:
        The discounted sums of features, and the visited states.
    """
    require_mdp(mdp)
    mdp.state("start", start)
    table("episodes", whole("episodes", episodes), decisions("steps", steps, mdp.n_states) + 1)
    rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(whole("seed", seed, 0))
    given = as_actions(policy)
    if given.ndim == 2 and len(given) > 0:
        given = given[np.minimum(np.arange(steps), len(given) - 1)]
    actions = mdp.policy(given, steps)
    running = np.concatenate([[0.0], np.cumsum(mdp.probability)])
    states = np.full((episodes, steps + 1), start)
    features = np.zeros((episodes, mdp.n_features))
    for t in range(steps):
        now = states[:, t]
        states[:, t + 1] = now
        live = ~mdp.terminal[now]
        # ended rollouts also draw, so that the random numbers of a rollout do not depend on other rollouts
        draw = rng.random(episodes)[live]
        rows = now[live] * mdp.n_actions + actions[t, now[live]]
        first, last = mdp.indptr[rows], mdp.indptr[rows + 1] - 1
        mark = running[first] + draw * (running[last + 1] - running[first])
        entry = np.clip(np.searchsorted(running, mark, side="right") - 1, first, last)
        features[live] += mdp.gamma**t * mdp.phi[entry]
        states[live, t + 1] = mdp.successor[entry]
    return Rollouts(features, states)
