"""Predicted and realised returns of single source policies on the 27 novel tasks, and results of GPI on these tasks.

Policies act without learning and exploration. GPI acts at several levels of aversion, each a value of the paper's beta.
All levels of a task, and all libraries of a seed, use the same random numbers. In shapes, d is the number of features.
"""

from __future__ import annotations

import numpy as np

from rasf.arrays import Bools, Floats, Ints
from rasf.compiled import compiled
from rasf.envs.four_room import FourRoom, RoomArrays
from rasf.library.tables.model import evaluated
from rasf.library.tables.policies import TablePolicies
from rasf.planning.moments import successor_moments
from rasf.risk import MeanVariance
from rasf.tabular.model import ModelLearner
from rasf.tabular.stretch import Rows, slot_of
from rasf_lab.paper.four_room.measures import NOVEL_TASKS, Arrays
from rasf_lab.rollouts.four_room import chances, walk_four_room

LEVELS = tuple(-0.5 * n for n in range(9))
_SOURCES = 32  # largest number of source tasks of a library; they are spread evenly over the training tasks
_ALONE = 40  # a source acts in 40 times as many rollouts as GPI, because variances are hard to estimate
_CHANCES = 98  # random numbers are drawn with the seed 1,000 x seed + 98


def library_of(learner: ModelLearner, tasks: Floats, beta: float) -> TablePolicies:
    """Return a library with a policy for each of `some_of(tasks)`, planned in the learner's model at the risk `beta`.

    Args:
        learner: the trained learner.
        tasks: the training tasks (n, d).
        beta: the paper's beta.
    """
    return evaluated(learner, learner.keys(), some_of(tasks), MeanVariance.from_paper(beta))


def some_of(tasks: Floats) -> Floats:
    """Return the tasks for which a library has policies: at most 32 of the training tasks (n, d), spread evenly."""
    return tasks[:: max(1, len(tasks) // _SOURCES)][:_SOURCES]


def dial(sources: TablePolicies, seed: int, rollouts: int, levels: tuple[float, ...] = LEVELS) -> Arrays:
    """Act by GPI on the novel tasks at several levels of aversion.

    Args:
        sources: the library.
        seed: seed of the random numbers.
        rollouts: the number of rollouts for each task and level.
        levels: the paper's betas. Default: 0, -0.5, .., -4.

    Returns:
        `dial_return` (27, levels), the mean return, and `dial_failed` (27, levels, rollouts), 1 in failed rollouts.
    """
    rooms = FourRoom()
    draws = chances(rooms, rollouts, seed * 1_000 + _CHANCES)
    returns, failed = np.zeros((len(NOVEL_TASKS), len(levels))), np.zeros((len(NOVEL_TASKS), len(levels), rollouts))
    for task, rewards in enumerate(NOVEL_TASKS):
        w = rooms.task(rewards)
        for n, level in enumerate(levels):
            walks = walk_four_room(sources, rooms, w, MeanVariance.from_paper(level), draws, lambda: False)
            assert walks is not None  # None would mean that the last argument returned True
            returns[task, n], failed[task, n] = (walks.phi @ w).mean(), walks.phi[:, -1]
    return {"dial_return": returns, "dial_failed": failed}


def alone(learner: ModelLearner, tasks: Floats, beta: float, seed: int, rollouts: int) -> Arrays:
    """Return predicted and realised returns of every source policy, acting alone, on the novel tasks.

    Args:
        learner: the trained learner.
        tasks: the training tasks (n, d).
        beta: the paper's beta, at which the sources are planned.
        seed: seed of the random numbers.
        rollouts: the number of rollouts of GPI for each task. Each source has 40 times as many rollouts.

    Returns:
        `predicted` and `realised` (sources, 27, 2), mean and variance of the discounted return.
    """
    rooms = FourRoom()
    draws = chances(rooms, _ALONE * rollouts, seed * 1_000 + _CHANCES)
    weights = np.stack([rooms.task(rewards) for rewards in NOVEL_TASKS])
    start = int(np.flatnonzero((learner.keys() == start_key(rooms)).all(axis=1))[0])
    predicted, realised = [], []
    for w in some_of(tasks):
        actions = learner.policy(w, MeanVariance.from_paper(beta))
        psi, Sigma = (part[start, actions[start]] for part in successor_moments(learner.finite_mdp(), actions))
        returns = discounted_features(learner, actions, draws) @ weights.T
        predicted.append([weights @ psi, np.einsum("ti,ij,tj->t", weights, Sigma, weights)])
        realised.append([returns.mean(axis=0), returns.var(axis=0)])
    return {"predicted": np.array(predicted).swapaxes(1, 2), "realised": np.array(realised).swapaxes(1, 2)}


def discounted_features(learner: ModelLearner, actions: Ints, draws: Floats) -> Floats:
    """Return the discounted sums of features (n, d) of n episodes of a policy.

    Args:
        learner: the trained learner.
        actions: the policy's actions (S + 1,) in the S states of the learner's model and in the model's terminal state.
        draws: random numbers (n, steps), one row for each episode.
    """
    found = np.zeros((len(draws), learner.n_features))
    follow(FourRoom().world(), learner.rows, actions, float(learner.settings.gamma), draws, found)
    return found


@compiled(_nrt=False)
def follow(world: RoomArrays, rows: Rows, actions: Ints, gamma: float, draws: Floats, features: Floats) -> None:
    """Add the discounted features of n episodes to `features` (n, d). In states that have no row, take action 0."""
    for e in range(len(draws)):
        state, discount = world.first_state(), 1.0
        for t in range(draws.shape[1]):
            slot = slot_of(rows.keys, state)
            action = actions[rows.values[slot]] if rows.keys[slot] == state else 0
            state, kind, ended = world.next_state(state, action, draws[e, t])
            if kind > 0:
                features[e, kind - 1] += discount
            discount *= gamma
            if ended:
                break


def start_key(rooms: FourRoom) -> Floats:
    """Return the first observation of an episode."""
    world = rooms.world()
    row, column = divmod(world.start, rooms.shape[1])
    return np.array([row, column, *np.zeros(len(world.class_of))], np.float64)


def relative_errors(predicted: Floats, realised: Floats, least: float = 1e-9) -> Floats:
    """Return |predicted - realised| / |realised|, and 0 where the difference is at most `least`."""
    error, size = np.abs(predicted - realised), np.abs(realised)
    return np.where(error <= least, 0.0, error / np.maximum(size, least))


def rises(failed: Floats) -> Bools:
    """Return for each task (27,) whether failures are significantly more frequent at a level than at the level before.

    Args:
        failed: failures (27, levels, rollouts), paired by rollout.
    """
    more = np.diff(failed, axis=1)
    error = more.std(axis=-1, ddof=1) / np.sqrt(failed.shape[-1])
    return np.asarray((more.mean(axis=-1) > 1.96 * error).any(axis=1))
