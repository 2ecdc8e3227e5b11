"""Compiled loops over the transitions of a FiniteMDP; the other modules of `planning` are not compiled.

The loops of backups are compiled twice: a parallel version for large problems, and a serial version for small problems,
where starting threads takes longer than the computation itself.

`excess_step` and `excess_moments` are for `rasf.planning.static`, which defines the threshold of a static risk. The
excess is the accrued return minus this threshold.

Shapes: S states, A actions, n stored transitions. A row is a pair of a state s and an action a; its index is s A + a.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np

from rasf.arrays import Floats, Ints
from rasf.compiled import compiled, compiled_twice
from rasf.mdp import FiniteMDP
from rasf.transfer import preferred

# If |beta| x (largest - smallest value) is below this, mean + (beta / 2) variance equals the utility up to rounding.
_TINY_SPREAD = 1e-8
_PARALLEL_TRANSITIONS = 100_000
# Numba's fallback thread pool aborts when two Python threads enter a parallel kernel at once.
_PARALLEL_LOCK = threading.Lock()


class _Moves(NamedTuple):
    """Stored transitions; those of a row have the indices indptr[row] to indptr[row + 1] - 1."""

    indptr: Ints
    successor: Ints
    weight: Floats  # the factor of the transition in a sum, such as its probability


def _moves(mdp: FiniteMDP, weight: Floats | None = None) -> _Moves:
    return _Moves(mdp.indptr, mdp.successor, mdp.probability if weight is None else weight)


def backup(mdp: FiniteMDP, reward: Floats, value: Floats, beta: float, gamma: float) -> Floats:
    """Return U_beta[r + gamma value(s')] (S, A) for rewards (n,) and values (S,); 0 in terminal states."""
    q = np.empty((mdp.n_states, mdp.n_actions))
    _run(_backup, mdp, _moves(mdp), reward, value, float(beta), float(gamma), q.reshape(-1))
    return q


def best_linear(mdp: FiniteMDP, weight: Floats, offset: Floats, x: Floats, scale: float, smallest: bool) -> Floats:
    """Return for each state (S,) the max (or min) over actions of offset[row] + scale sum_k weight[k] x[successor[k]].

    The sum is over the transitions k of the row. The result is a neutral backup, or the part of an entropic backup
    between exp and log, in one pass over the transitions.
    """
    best = np.empty(mdp.n_states)
    _run(_best, mdp, _moves(mdp, weight), offset, x, float(scale), smallest, best)
    return best


def _run(kernel: tuple[Callable[..., None], Callable[..., None]], mdp: FiniteMDP, *given: object) -> None:
    serial, parallel = kernel
    if len(mdp.successor) < _PARALLEL_TRANSITIONS:
        serial(*given)
        return
    with _PARALLEL_LOCK:
        parallel(*given)


@compiled()
def _utility(
    begin: int,
    end: int,
    successor: Ints,
    probability: Floats,
    reward: Floats,
    value: Floats,
    beta: float,
    gamma: float,
) -> float:
    """Return U_beta of a row by the three formulas of `rasf.risk.entropic`; values may be infinite."""
    if begin == end:
        return 0.0
    mean, low, high = 0.0, np.inf, -np.inf
    for k in range(begin, end):
        x = reward[k] + gamma * value[successor[k]]
        mean += probability[k] * x
        low, high = min(low, x), max(high, x)
    if beta == 0.0:
        return mean
    spread = abs(beta) * (high - low)
    total = 0.0
    if spread < _TINY_SPREAD:
        for k in range(begin, end):
            x = reward[k] + gamma * value[successor[k]]
            total += probability[k] * (x - mean) ** 2
        return mean + beta / 2 * total
    if spread < 1.0:
        for k in range(begin, end):
            x = reward[k] + gamma * value[successor[k]]
            total += probability[k] * math.expm1(beta * (x - mean))
        return mean + math.log1p(total) / beta
    top = max(beta * low, beta * high)
    if math.isinf(top):
        return top / beta
    for k in range(begin, end):
        x = reward[k] + gamma * value[successor[k]]
        total += probability[k] * math.exp(beta * x - top)
    return (top + math.log(total)) / beta


@compiled_twice
def _backup(moves: _Moves, reward: Floats, value: Floats, beta: float, gamma: float, q: Floats) -> None:
    indptr, successor, probability = moves
    for row in numba.prange(len(q)):
        q[row] = _utility(indptr[row], indptr[row + 1], successor, probability, reward, value, beta, gamma)


@compiled_twice
def _best(moves: _Moves, offset: Floats, x: Floats, scale: float, smallest: bool, best: Floats) -> None:
    indptr, successor, weight = moves
    n_actions = (len(indptr) - 1) // len(best)
    for s in numba.prange(len(best)):
        chosen = np.inf if smallest else -np.inf
        for row in range(s * n_actions, (s + 1) * n_actions):
            total = 0.0
            for k in range(indptr[row], indptr[row + 1]):
                total += weight[k] * x[successor[k]]
            total = offset[row] + scale * total
            chosen = min(chosen, total) if smallest else max(chosen, total)
        best[s] = chosen


class Grids(NamedTuple):
    """The grids of the excess before and after a step: the lowest level and the spacing (S,) of each state's grid."""

    low: Floats
    spacing: Floats
    next_low: Floats
    next_spacing: Floats


def excess_step(mdp: FiniteMDP, gain: Floats, grids: Grids, value: Floats, followed: Ints, policy: Ints) -> Floats:
    """Compute the values before a step from the values after it, for `rasf.planning.static`.

    Args:
        mdp: The dynamics.
        gain: The amount (n,) that each stored transition adds to the excess.
        grids: The grids of the excess.
        value: Values (S, L, I + 1) after the step, for S states, L levels and I sources. The last column is the value
            of the GPI policy, which takes the action with the best value of any source.
        followed: Actions (I, S) of the sources, or -1 for the action of the GPI policy.
        policy: An array (S, L) that receives the actions of the GPI policy.

    Returns:
        Values (S, L, I + 1) before the step.
    """
    before = np.empty_like(value)
    with _PARALLEL_LOCK:
        _excess_step(_moves(mdp), gain, grids, value, np.ascontiguousarray(followed), policy, before)
    return before


def excess_moments(mdp: FiniteMDP, gain: Floats, grids: Grids, moments: Floats, policy: Ints) -> Floats:
    """Return the moments (S, L, 3) after a step under a policy (S, L), given the `moments` before the step.

    Let p be the probability of a pair of a state and a level, and N the excess on the grid minus the true excess. The
    moments of the pair are p, p E[N] and p E[N^2], where the expectations are conditional on the pair.
    """
    after = np.zeros_like(moments)
    actions = policy.astype(np.int64)  # a fixed type, so that numba compiles the kernel once
    _excess_moments(_moves(mdp), gain, grids, moments, actions, after)
    return after


@compiled()
def _add_between(value: Floats, p: float, offset: float, ratio: float, total: Floats) -> None:
    """Interpolate the values (L, I) at offset + ratio * level, and add p times the result to `total` (L, I).

    The outer loop runs over levels, so that memory is read in order.
    """
    levels, several = value.shape
    for level in range(levels):
        at = min(max(offset + level * ratio, 0.0), levels - 1.0)
        below = min(int(at), levels - 2)
        share = at - below
        for i in range(several):
            total[level, i] += p * (value[below, i] + share * (value[below + 1, i] - value[below, i]))


@compiled(parallel=True)
def _excess_step(
    moves: _Moves, gain: Floats, grids: Grids, value: Floats, followed: Ints, policy: Ints, before: Floats
) -> None:
    indptr, successor, probability = moves
    low, spacing, next_low, next_spacing = grids
    states, levels, several = value.shape
    n_actions = (len(indptr) - 1) // states
    for s in numba.prange(states):
        q = np.zeros((n_actions, levels, several))
        for a in range(n_actions):
            row = s * n_actions + a
            if indptr[row] == indptr[row + 1]:  # in a terminal state the excess stays equal, but its grid changes
                _add_between(
                    value[s], 1.0, (low[s] - next_low[s]) / next_spacing[s], spacing[s] / next_spacing[s], q[a]
                )
            for k in range(indptr[row], indptr[row + 1]):
                to = successor[k]
                offset = (low[s] + gain[k] - next_low[to]) / next_spacing[to]
                _add_between(value[to], probability[k], offset, spacing[s] / next_spacing[to], q[a])
        for level in range(levels):
            chosen, best = 0, -np.inf
            for a in range(n_actions):
                for i in range(several - 1):
                    if preferred(q[a, level, i], a, best, chosen):
                        chosen, best = a, q[a, level, i]
            for i in range(several - 1):
                own = followed[i, s]
                before[s, level, i] = q[chosen if own < 0 else own, level, i]
            before[s, level, several - 1] = q[chosen, level, several - 1]
            policy[s, level] = chosen


@compiled(forceinline=True)
def _place(
    mass: float, first: float, second: float, x: float, low: float, spacing: float, to: int, after: Floats
) -> None:
    """Split the moments at excess x between the two levels next to x in the grid of state `to`; the mean is kept."""
    levels = after.shape[1]
    at = min(max((x - low) / spacing, 0.0), levels - 1.0)
    below = min(int(at), levels - 2)
    share = at - below
    for level, part, shift in ((below, 1 - share, -share * spacing), (below + 1, share, (1 - share) * spacing)):
        after[to, level, 0] += part * mass
        after[to, level, 1] += part * (first + shift * mass)
        after[to, level, 2] += part * (second + shift * (2 * first + shift * mass))


@compiled(nogil=True)
def _excess_moments(moves: _Moves, gain: Floats, grids: Grids, moments: Floats, policy: Ints, after: Floats) -> None:
    indptr, successor, probability = moves
    low, spacing, next_low, next_spacing = grids
    states, levels, _ = moments.shape
    n_actions = (len(indptr) - 1) // states
    for s in range(states):
        for level in range(levels):
            mass, first, second = moments[s, level, 0], moments[s, level, 1], moments[s, level, 2]
            if mass == 0.0:
                continue
            row = s * n_actions + policy[s, level]
            x = low[s] + level * spacing[s]
            if indptr[row] == indptr[row + 1]:
                _place(mass, first, second, x, next_low[s], next_spacing[s], s, after)
            for k in range(indptr[row], indptr[row + 1]):
                p, to = probability[k], successor[k]
                _place(p * mass, p * first, p * second, x + gain[k], next_low[to], next_spacing[to], to, after)
