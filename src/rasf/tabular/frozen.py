"""Frozen tabular policies: what learners have learned, packed for storing, scoring and acting.

Policies come in groups, one for each learner that trained some. A *cell* is a state as one group knows it. For every
action of a cell the policies of the group that have learned something there are listed in stretches that hold the same
numbers, psi (d) and the learned entries of Sigma:

    state s    cells states[s] .. states[s + 1], by group
    cell c     of group[c]; for action a, entries[c A + a] .. entries[c A + a + 1], by policy
    entry e    the numbers value[e] (m,) of the group's policies first[e], .., last[e]

A policy in no stretch still holds the noise it began with, Sigma = 0. That is a function of the learner's seed, the row
it gave the state and the policy, so it is drawn again where it is needed, and scored as the learner's own GPI would:
acting with frozen policies is acting with the learner. Most of a row's policies are such, and few of the others have
tried every action, so this takes a fraction of the learner's memory.

Scores need the mean coef . psi and the variance, linear in the entries of Sigma too. Where the risk is
mean + (beta / 2) variance, `greedy` does all in one pass; for others `slot_moments` lists the moments, the risk turns
them into values, and `best_of` chooses. Noise is certain (no variance), so of all noise only the largest mean counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.compiled import compiled
from rasf.tabular.state_index import StateIndex, find
from rasf.tabular.table import initial_noise

_MARGIN = 1.0 + 1e-6  # no noise is larger than its scale times this, rounded to float32 or not


class Frozen(NamedTuple):
    """S states, C cells, E entries, G groups, A actions; see the header."""

    states: Ints  # (S + 1,) int64
    group: Ints  # (C,) int32
    row: Ints  # (C,) int32, as the learner numbered it
    entries: Ints  # (C A + 1,) int64
    first: Ints  # (E,) int16, within the group
    last: Ints  # (E,) int16
    value: npt.NDArray[np.float32]  # (E, m)
    policies: Ints  # (G + 1,) int64: the group's policies are policies[g] .. policies[g + 1]
    seed: Ints  # (G,) uint64
    noise: Floats  # (G,) float64, the scale of the noise


class Scoring(NamedTuple):
    """A task, and the risk if it is mean + half_beta variance."""

    w: Floats  # (d,)
    square: Floats  # (m - d,) the variance is square . (learned entries of Sigma)
    size: float  # |w|_1
    half_beta: float


@compiled(_nrt=False, forceinline=True)
def noise_number(frozen: Frozen, cell: int, policy: int, A: int, a: int, i: int) -> float:
    """`drawn_psi` of a group's policy at a cell."""
    g = frozen.group[cell]
    drawn = initial_noise(frozen.seed[g], frozen.row[cell], policy, i * A + a)
    return np.float64(np.float32(frozen.noise[g] * drawn))


@compiled(_nrt=False, forceinline=True)
def noise_mean(frozen: Frozen, cell: int, policy: int, A: int, a: int, w: Floats) -> float:
    """psi . w of a policy of the cell's group that has learned nothing there."""
    mean = 0.0
    for i in range(len(w)):
        mean += w[i] * noise_number(frozen, cell, policy, A, a, i)
    return mean


@compiled(_nrt=False, forceinline=True)
def entry_mean(frozen: Frozen, e: int, w: Floats) -> float:
    """psi . w."""
    mean = 0.0
    for i in range(len(w)):
        mean += w[i] * frozen.value[e, i]
    return mean


@compiled(_nrt=False, forceinline=True)
def entry_variance(frozen: Frozen, e: int, d: int, square: Floats) -> float:
    """w' Sigma w, not clipped; two strands that do not wait for each other."""
    even = odd = 0.0
    n = len(square)
    for k in range(0, n - 1, 2):
        even += square[k] * frozen.value[e, d + k]
        odd += square[k + 1] * frozen.value[e, d + k + 1]
    if n % 2 == 1:
        even += square[n - 1] * frozen.value[e, d + n - 1]
    return even + odd


@compiled(_nrt=False)
def best_noise(frozen: Frozen, cell: int, A: int, a: int, w: Floats) -> float:
    """The largest mean among the policies of the cell that hold noise; -inf if none does."""
    g, best, policy = frozen.group[cell], -np.inf, np.int64(0)
    stop = frozen.entries[cell * A + a + 1]
    for e in range(frozen.entries[cell * A + a], stop + 1):
        below = np.int64(frozen.first[e]) if e < stop else frozen.policies[g + 1] - frozen.policies[g]
        while policy < below:
            best = max(best, noise_mean(frozen, cell, policy, A, a, w))
            policy += 1
        if e < stop:
            policy = np.int64(frozen.last[e]) + 1
    return best


@compiled(_nrt=False)
def greedy(frozen: Frozen, A: int, scoring: Scoring, state: int) -> int:
    """argmax_a max_k of mean + half_beta variance, ties to the lowest action."""
    w, d, best, action = scoring.w, len(scoring.w), -np.inf, 0
    for cell in range(frozen.states[state], frozen.states[state + 1]):
        for a in range(A):
            for e in range(frozen.entries[cell * A + a], frozen.entries[cell * A + a + 1]):
                variance = max(entry_variance(frozen, e, d, scoring.square), 0.0)
                score = entry_mean(frozen, e, w) + scoring.half_beta * variance
                if score > best or (score == best and a < action):
                    best, action = score, a
    for cell in range(frozen.states[state], frozen.states[state + 1]):
        if frozen.noise[frozen.group[cell]] * _MARGIN * scoring.size < best:
            continue  # no noise can be as good
        for a in range(A):
            score = best_noise(frozen, cell, A, a, w)
            if score > best or (score == best and a < action):
                best, action = score, a
    return action


@compiled(_nrt=False)
def act_known(
    index: StateIndex, frozen: Frozen, A: int, scoring: Scoring, rows: Ints, known: Ints, actions: Ints
) -> None:
    """Greedy actions (B,) at observations (B, n); `known` (S,) remembers 1 + those of every state."""
    for n in range(len(rows)):
        state = find(index, rows[n])
        if state < 0:
            actions[n] = 0
            continue
        if known[state] == 0:
            known[state] = 1 + greedy(frozen, A, scoring, state)
        actions[n] = np.int64(known[state]) - 1


@compiled(_nrt=False)
def act_one(index: StateIndex, frozen: Frozen, A: int, scoring: Scoring, row: Ints, known: Ints) -> int:
    """`act_known` for one observation (n,)."""
    state = find(index, row)
    if state < 0:
        return 0
    if known[state] == 0:
        known[state] = 1 + greedy(frozen, A, scoring, state)
    return int(known[state]) - 1


@compiled(_nrt=False)
def slot_moments(
    frozen: Frozen, A: int, w: Floats, square: Floats, states: Ints, mean: Floats, variance: Floats, ends: Ints
) -> int:
    """Moments of all that counts at `states` (n,), one action after the other; `ends` (n A,) tells them apart."""
    used = 0
    for n in range(len(states)):
        for a in range(A):
            for cell in range(frozen.states[states[n]], frozen.states[states[n] + 1]):
                for e in range(frozen.entries[cell * A + a], frozen.entries[cell * A + a + 1]):
                    mean[used] = entry_mean(frozen, e, w)
                    variance[used] = max(entry_variance(frozen, e, len(w), square), 0.0)
                    used += 1
                noise = best_noise(frozen, cell, A, a, w)
                if noise > -np.inf:
                    mean[used], variance[used] = noise, 0.0
                    used += 1
            ends[n * A + a] = used
    return used


@compiled(_nrt=False)
def best_of(values: Floats, ends: Ints, A: int, states: Ints, known: Ints) -> None:
    """Note the greedy action of every state from the values of `slot_moments`; ties go to the lowest action."""
    k = 0
    for n in range(len(states)):
        best, action = -np.inf, 0
        for a in range(A):
            while k < ends[n * A + a]:
                if values[k] > best:
                    best, action = values[k], a
                k += 1
        known[states[n]] = 1 + action


@compiled(_nrt=False)
def policy_moments(
    frozen: Frozen, A: int, w: Floats, square: Floats, states: Ints, mean: Floats, variance: Floats, has_cell: Ints
) -> None:
    """Mean and variance (K, B, A), not clipped, of every policy at `states` (B,); zeros at -1 and where no cell is.

    has_cell (K, B) says which policies' group knows the state.
    """
    d = len(w)
    for b in range(len(states)):
        if states[b] < 0:
            continue
        for cell in range(frozen.states[states[b]], frozen.states[states[b] + 1]):
            base, above = frozen.policies[frozen.group[cell]], frozen.policies[frozen.group[cell] + 1]
            for j in range(base, above):
                has_cell[j, b] = True
            for a in range(A):
                e, stop = frozen.entries[cell * A + a], frozen.entries[cell * A + a + 1]
                for j in range(base, above):
                    if e < stop and base + frozen.last[e] < j:
                        e += 1
                    if e < stop and base + frozen.first[e] <= j:
                        mean[j, b, a] = entry_mean(frozen, e, w)
                        variance[j, b, a] = entry_variance(frozen, e, d, square)
                    else:
                        mean[j, b, a] = noise_mean(frozen, cell, j - base, A, a, w)


@compiled(_nrt=False)
def mark_learned(frozen: Frozen, A: int, d: int, learned: Ints) -> None:
    """learned (S,): whether any policy has changed its first numbers; taken for granted where these were zero."""
    for state in range(len(learned)):
        for cell in range(frozen.states[state], frozen.states[state + 1]):
            learned[state] = learned[state] or frozen.noise[frozen.group[cell]] == 0.0
            for a in range(A):
                for e in range(frozen.entries[cell * A + a], frozen.entries[cell * A + a + 1]):
                    if learned[state]:
                        break
                    for k in range(frozen.value.shape[1]):
                        begun = noise_number(frozen, cell, np.int64(frozen.first[e]), A, a, k) if k < d else 0.0
                        learned[state] = learned[state] or frozen.value[e, k] != begun
