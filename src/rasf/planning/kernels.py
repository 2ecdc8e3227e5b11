"""Compiled loops over the transitions of a FiniteMDP; everything else in `planning` is numpy.

Loops of plain values are compiled twice: parallel for large problems, serial for small ones, where waking the threads
costs more than the work (and, beside other processes, far more).
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

# Below this, mean + (beta / 2) variance equals the utility to rounding.
_TINY_SPREAD = 1e-8
_PARALLEL_TRANSITIONS = 100_000
# Numba's fallback thread pool aborts when two Python threads enter a parallel kernel at once.
_PARALLEL_LOCK = threading.Lock()


class _Moves(NamedTuple):
    """Stored transitions: those of row s A + a are indptr[row] .. indptr[row + 1]."""

    indptr: Ints
    successor: Ints
    weight: Floats  # the probability, or what stands in its place


def _moves(mdp: FiniteMDP, weight: Floats | None = None) -> _Moves:
    return _Moves(mdp.indptr, mdp.successor, mdp.probability if weight is None else weight)


def backup(mdp: FiniteMDP, reward: Floats, value: Floats, beta: float, gamma: float) -> Floats:
    """U_beta[r + gamma value(s')] (S, A) for rewards (n,) and values (S,); 0 in terminal states."""
    q = np.empty((mdp.n_states, mdp.n_actions))
    _run(_backup, mdp, _moves(mdp), reward, value, float(beta), float(gamma), q.reshape(-1))
    return q


def best_linear(mdp: FiniteMDP, weight: Floats, offset: Floats, x: Floats, scale: float, smallest: bool) -> Floats:
    """The largest (or smallest) over actions of offset[row] + scale sum_k weight[k] x[successor[k]], (S,).

    One pass over the transitions: a neutral backup as it stands, an entropic one between exp and log.
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
    """U_beta of one row, values perhaps infinite; the three regimes of `risk.entropic`."""
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
    """Of every state (S,): least stock and spacing, before a step and after it."""

    low: Floats
    spacing: Floats
    next_low: Floats
    next_spacing: Floats


def stock_step(mdp: FiniteMDP, gain: Floats, grids: Grids, value: Floats, followed: Ints, policy: Ints) -> Floats:
    """One step back of `planning.static`: values (S, L, I + 1) by state, stock and source, before it.

    gain (n,): what a transition adds to the stock. value: the same after the step; the last is the policy's own, which
    takes the action that is best for any of the sources. followed (I, S): their actions, or -1 for the best. The
    policy (S, L) is written.
    """
    before = np.empty_like(value)
    with _PARALLEL_LOCK:
        _stock_step(_moves(mdp), gain, grids, value, np.ascontiguousarray(followed), policy, before)
    return before


def stock_moments(mdp: FiniteMDP, gain: Floats, grids: Grids, moments: Floats, policy: Ints) -> Floats:
    """One step on: how the moments (S, L, 3) of states and stocks move under a policy (S, L).

    They are the probability of a state and level, and on it the integrals of N and N^2, N being the stock that is kept
    less the true one.
    """
    after = np.zeros_like(moments)
    _stock_moments(_moves(mdp), gain, grids, moments, policy.astype(np.int64), after)  # one type to compile for
    return after


@compiled()
def _add_between(value: Floats, p: float, offset: float, ratio: float, total: Floats) -> None:
    """Add p times the values (L, I) between levels, at offset + ratio level, to those (L, I) of every level.

    Level by level, so that memory is read one number after the other.
    """
    levels, several = value.shape
    for level in range(levels):
        at = min(max(offset + level * ratio, 0.0), levels - 1.0)
        below = min(int(at), levels - 2)
        share = at - below
        for i in range(several):
            total[level, i] += p * (value[below, i] + share * (value[below + 1, i] - value[below, i]))


@compiled(parallel=True)
def _stock_step(
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
            if indptr[row] == indptr[row + 1]:  # the end: all stays as it is
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
    """Share the moments of a stock x out between the two levels of state `to` beside it, so that its mean stays."""
    levels = after.shape[1]
    at = min(max((x - low) / spacing, 0.0), levels - 1.0)
    below = min(int(at), levels - 2)
    share = at - below
    for level, part, shift in ((below, 1 - share, -share * spacing), (below + 1, share, (1 - share) * spacing)):
        after[to, level, 0] += part * mass
        after[to, level, 1] += part * (first + shift * mass)
        after[to, level, 2] += part * (second + shift * (2 * first + shift * mass))


@compiled(nogil=True)
def _stock_moments(moves: _Moves, gain: Floats, grids: Grids, moments: Floats, policy: Ints, after: Floats) -> None:
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
