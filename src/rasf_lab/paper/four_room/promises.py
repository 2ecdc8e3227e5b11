"""What libraries promise on the 27 novel tasks, and what happens: sources alone, all by GPI, and the dial of risk.

Nothing learns here, and nothing explores: the policies are those that the library holds. A level of the dial is the
paper's beta. All levels of a task, and all libraries of a seed, meet the same chances.
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
_SOURCES = 32  # at most: their tasks are taken evenly from those trained on
_ALONE = 40  # rollouts of a source alone for each one of the dial: a variance needs many
_CHANCES = 98  # their stream of random numbers


def library_of(learner: ModelLearner, tasks: Floats, beta: float) -> TablePolicies:
    """Sources for some of the tasks (n, d), planned for the paper's beta."""
    return evaluated(learner, learner.keys(), some_of(tasks), MeanVariance.from_paper(beta))


def some_of(tasks: Floats) -> Floats:
    """The tasks whose policies are the library."""
    return tasks[:: max(1, len(tasks) // _SOURCES)][:_SOURCES]


def dial(sources: TablePolicies, seed: int, rollouts: int, levels: tuple[float, ...] = LEVELS) -> Arrays:
    """Return (27, levels) and whether a rollout failed (27, levels, rollouts), by GPI."""
    rooms = FourRoom()
    draws = chances(rooms, rollouts, seed * 1_000 + _CHANCES)
    returns, failed = np.zeros((len(NOVEL_TASKS), len(levels))), np.zeros((len(NOVEL_TASKS), len(levels), rollouts))
    for task, rewards in enumerate(NOVEL_TASKS):
        w = rooms.task(rewards)
        for n, level in enumerate(levels):
            walks = walk_four_room(sources, rooms, w, MeanVariance.from_paper(level), draws, lambda: False)
            assert walks is not None  # nobody stops it
            returns[task, n], failed[task, n] = (walks.phi @ w).mean(), walks.phi[:, -1]
    return {"dial_return": returns, "dial_failed": failed}


def alone(learner: ModelLearner, tasks: Floats, beta: float, seed: int, rollouts: int) -> Arrays:
    """Mean and variance (sources, 27, 2) of the discounted return of every source alone, predicted and realised."""
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
    """Discounted features (n, d) of n episodes of a policy (S + 1,), one for each row of draws (n, steps)."""
    found = np.zeros((len(draws), learner.n_features))
    follow(FourRoom().world(), learner.rows, actions, float(learner.settings.gamma), draws, found)
    return found


@compiled(_nrt=False)
def follow(world: RoomArrays, rows: Rows, actions: Ints, gamma: float, draws: Floats, features: Floats) -> None:
    """Add up discounted features (n, d) of episodes; a state that is not known gets action 0."""
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
    """The first observation."""
    world = rooms.world()
    row, column = divmod(world.start, rooms.shape[1])
    return np.array([row, column, *np.zeros(len(world.class_of))], np.float64)


def relative_errors(predicted: Floats, realised: Floats, least: float = 1e-9) -> Floats:
    """|predicted - realised| / |realised|, 0 where both are 0."""
    error, size = np.abs(predicted - realised), np.abs(realised)
    return np.where(error <= least, 0.0, error / np.maximum(size, least))


def rises(failed: Floats) -> Bools:
    """On which of the tasks some level fails more often than the level before it, beyond chance.

    failed (27, levels, rollouts), paired by rollout.
    """
    more = np.diff(failed, axis=1)
    error = more.std(axis=-1, ddof=1) / np.sqrt(failed.shape[-1])
    return np.asarray((more.mean(axis=-1) > 1.96 * error).any(axis=1))
