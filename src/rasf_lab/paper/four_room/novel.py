"""Act on novel tasks with a trained learner, without learning.

The score of an action is a sum over the learned entries of psi and Sigma, each entry times a coefficient. The
coefficients follow from the task and the risk. Every step can have its own coefficients, because the "aware" way to act
(`measures.WAYS`) changes the risk from step to step. Shapes: A actions, d features, m coefficients.

In a state that was not visited in training, the learner's psi is initial random noise and its Sigma is 0, as for new
states in training. In such a state, the policies of a saved library have no noise and take action 0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.arrays import Array, Floats, Ints
from rasf.compiled import compiled
from rasf.envs.four_room import FourRoom, RoomArrays
from rasf.risk import MeanVariance
from rasf.tabular import scores, sfql
from rasf.tabular.learner import SuccessorLearner
from rasf.tabular.table import SigmaForm, find_policy, read, set_coefficients
from rasf.transfer import Moments, packed_indices


def moments_of(learner: SuccessorLearner, policy: int, row: int) -> Moments:
    """Return the learned psi (A, d) and Sigma (A, d, d) of a policy in a state; Sigma is 0 if it is not learned.

    Args:
        learner: the trained learner.
        policy: the index of the policy.
        row: the state's row in the learner's memory.
    """
    d, memory, numbers = learner.n_features, learner.memory, np.zeros((learner.n_actions, len(learner.memory.after)))
    slot = find_policy(memory.table, row, policy)
    for a in range(learner.n_actions):
        read(memory.table, memory.rule, row, slot, a, numbers[a])
    if learner.sigma is SigmaForm.NONE:
        return Moments(numbers, np.zeros((learner.n_actions, d, d)))
    return Moments(numbers[:, :d], unpack_sigma(numbers[:, d:], d, diagonal=learner.sigma is SigmaForm.DIAGONAL))


def unpack_sigma(packed: Array, d: int, *, diagonal: bool = False) -> Array:
    """Return Sigma (.., d, d) from its packed entries.

    Args:
        packed: the entries (.., n), where n is d (d + 1) / 2, or d for a diagonal.
        d: the number of features.
        diagonal: whether only the diagonal is packed. Default: False.
    """
    rows, columns = packed_indices(d, diagonal=diagonal)
    Sigma = np.zeros((*packed.shape[:-1], d, d), packed.dtype)
    Sigma[..., rows, columns] = Sigma[..., columns, rows] = packed
    return Sigma


def coefficients(learner: SuccessorLearner, w: npt.ArrayLike, risk: MeanVariance) -> Floats:
    """Return the coefficients (m,) of the scores for the task w (d,) at a risk."""
    coef = np.zeros(learner.memory.coef.shape[1])
    rule = learner.memory.rule._replace(variance_weight=float(risk.variance_weight))
    set_coefficients(checks.weights("w", w, learner.n_features), rule, coef)
    return coef


def roll_out(
    learner: SuccessorLearner, rooms: FourRoom, coefs: Floats, epsilon: float, draws: Floats
) -> tuple[Floats, Ints, Ints]:
    """Run episodes by GPI without learning.

    Args:
        learner: the trained learner.
        rooms: the map that the learner was trained on.
        coefs: coefficients of the scores: one row (1, m) for all steps, or (steps, m) with a row for each step.
        epsilon: the probability of a random action.
        draws: random numbers (episodes, steps, 3) in [0, 1), for exploration, the random action and traps.

    Returns:
        Sums of the features (episodes, d), lengths (episodes,), and the number of steps in each cell (cells,).
    """
    if not isinstance(learner.world, FourRoom) or learner.world.cells != rooms.cells:
        raise ValueError("rooms must have the map that the learner was trained on, got another world")
    m = learner.memory.coef.shape[1]
    if coefs.shape not in ((1, m), (draws.shape[1], m)):
        raise ValueError(f"coefs must have shape (1, {m}) or ({draws.shape[1]}, {m}), got {coefs.shape}")
    if draws.ndim != 3 or draws.shape[2] != 3:
        raise ValueError(f"draws must have shape (episodes, steps, 3), got {draws.shape}")
    world, memory = rooms.world(), learner.memory
    # a copy, in which the coefficients of the novel task replace those of the learner
    scratch = memory._replace(coef=memory.coef.copy(), now=memory.now.copy())
    features = np.zeros((len(draws), learner.n_features))
    lengths, visits = np.zeros(len(draws), np.int64), np.zeros(len(rooms.cells), np.int64)
    for episode in range(len(draws)):
        while True:
            seen, earned = np.zeros_like(visits), np.zeros(learner.n_features)
            length = walk(world, scratch, learner.task, coefs, epsilon, draws[episode], seen, earned)
            if length >= 0:
                break
            scratch = sfql.with_room(scratch, learner.task)
        visits += seen
        features[episode], lengths[episode] = earned, length
    learner.memory = memory._replace(table=scratch.table, rows=scratch.rows)
    learner.memory.now[:2] = scratch.now[0] + 1  # the cached scores are those of the novel task: invalidate them
    return features, lengths, visits


@compiled(_nrt=False)
def walk(
    world: RoomArrays,
    memory: sfql.Memory,
    t: int,
    coefs: Floats,
    epsilon: float,
    draws: Floats,
    visits: Ints,
    features: Floats,
) -> int:
    """Run one episode of at most len(draws) steps.

    The coefficients of the scores at step n are coefs[n]. If coefs has a single row, all steps use this row. Add the
    steps in each cell to `visits` (cells,), and the features of each step to `features` (d,). Return the length of the
    episode, or -1 if the memory has no room for a new state.
    """
    n_cells, n_actions = world.destination.shape
    state = world.first_state()
    for n in range(len(draws)):
        if not sfql.has_room(memory, t):
            return -1
        row = sfql.row_of(memory, t, state)
        if n == 0 or len(coefs) > 1:
            for k in range(coefs.shape[1]):
                memory.coef[t, k] = coefs[min(n, len(coefs) - 1), k]
            memory.now[scores.NOW_VERSION] += 1
            memory.now[scores.TASK_VERSION] = memory.now[scores.NOW_VERSION]
        action, _, _ = sfql.choose(memory, t, row)
        if draws[n, 0] < epsilon:
            action = int(draws[n, 1] * n_actions)
        state, kind, terminated = world.next_state(state, action, draws[n, 2])
        visits[state % n_cells] += 1
        if kind > 0:
            features[kind - 1] += 1.0
        if terminated:
            return n + 1
    return len(draws)
