"""Successor-feature tables of many policies, stored so that the number of policies hardly matters.

For every visited state (a row) and every policy j the table holds, per action, psi (d) and the entries of Sigma that
are learned: none, the diagonal (d), or the upper triangle (d (d + 1) / 2) of the symmetric matrix. A policy starts as a
copy of the one before it, and most rows of most policies are never updated again, so a row keeps one *entry* per
stretch of consecutive policies that hold the same numbers:

    entry k of a row belongs to the policies first_policy[k], first_policy[k] + 1, .. up to the next entry's first

Updating one policy splits its stretch; the others keep the old numbers, as separate tables would. New policies join the
last stretch for free. With independent initial noise, the policies that exist when a state is first seen each hold
noise of their own there; such noise vectors are kept apart (float32, no Sigma) until their policy is updated.

Scores, and the caches that keep them cheap, are in `scores`.

All functions here are compiled and work in place; `used` counts what is taken of each pool, and `reserve` enlarges.
They are compiled without reference counting (`_nrt=False`): a call would otherwise count every array of the table up
and down. So they must not allocate, and copy by loops. What every step calls is inlined (`forceinline`): a call would
otherwise pass some hundred numbers, the shapes and strides of the table's arrays. Each of the two took most of the
time. Numbers are stored as float32, one action's together, so that a step waits for little memory; arithmetic is
float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rasf.compiled import compiled
from rasf.mdp import Floats, Ints

NO_SIGMA, DIAGONAL_SIGMA, FULL_SIGMA = 0, 1, 2
_FIRST_CAPACITY = 2


# Columns of `Table.row`; eight numbers are one cache line.
BASE = 0  # where the row's block of entries begins
COUNT = 1  # entries in use
CAPACITY = 2  # entries the block can hold
NEWEST = 3  # offset of the entry of the newest policies
OWN_NOISE = 4  # policies below this drew noise of their own
NOISE_BASE = 5
NOISE_COUNT = 6
VERSION = 7  # of w, for which the row's best holds

# Columns of `Table.bound`
SCORED_AT = 0  # length of w's path when all scores of the row were computed
NOISE_SCORED_AT = 1
LARGEST_PSI = 2
LARGEST_SIGMA = 3
SCORED_VERSION = 4  # of w, at those moments: w may move by less than the path can tell
NOISE_SCORED_VERSION = 5


class Table(NamedTuple):
    """R rows, E entries, N noise vectors; m = d + learned entries of Sigma."""

    row: Ints  # (R, 8) the columns above
    bound: Floats  # (R, 6) the columns above
    best: Floats  # (R, A) largest score over the policies
    best_slot: Ints  # (R, A) offset of its entry; -1 - k for noise vector k of the row
    best_policy: Ints  # (R, A) lowest policy that attains it
    noise_best: Floats  # (R, A) the same among noise vectors
    noise_slot: Ints  # (R, A)
    first_policy: Ints  # (E,)
    value: Floats  # (E, A, m) float32
    score: Floats  # (E, A)
    noise_policy: Ints  # (N,)
    noise: Floats  # (N, A, d) float32
    used: Ints  # (3,) rows, entries, noise vectors in use


class Rule(NamedTuple):
    """Constants of the learning rule."""

    gamma: float
    alpha: float
    alpha_sigma: float
    half_beta: float
    sigma: int  # NO_SIGMA, DIAGONAL_SIGMA or FULL_SIGMA
    noise_scale: float
    shared_noise: bool
    seed: int


def new_table(n_features: int, n_actions: int, sigma: int) -> Table:
    """An empty table; memory is taken as it is used."""
    m = n_features + learned_sigma(n_features, sigma)
    return Table(
        np.empty((0, 8), np.int64),
        np.empty((0, 6)),
        np.empty((0, n_actions)),
        np.empty((0, n_actions), np.int32),
        np.empty((0, n_actions), np.int32),
        np.empty((0, n_actions)),
        np.empty((0, n_actions), np.int32),
        np.empty(0, np.int16),
        np.empty((0, n_actions, m), np.float32),
        np.empty((0, n_actions)),
        np.empty(0, np.int16),
        np.empty((0, n_actions, n_features), np.float32),
        np.zeros(3, np.int64),
    )


def learned_sigma(n_features: int, sigma: int) -> int:
    """How many entries of Sigma are learned."""
    return (0, n_features, n_features * (n_features + 1) // 2)[sigma]


def reserve(table: Table, rows: int, entries: int, noise: int) -> Table:
    """The table with room for this many more of each; the same object if there is room already."""
    wanted = table.used + np.array([rows, entries, noise])
    have = (len(table.row), len(table.first_policy), len(table.noise_policy))
    pools = [0] * 7 + [1] * 3 + [2] * 2
    if all(need <= held for need, held in zip(wanted, have, strict=True)):
        return table
    sizes = [max(2 * held, int(need)) if need > held else held for need, held in zip(wanted, have, strict=True)]
    arrays = []
    for array, pool in zip(table[:-1], pools, strict=True):
        larger = np.empty((sizes[pool], *array.shape[1:]), array.dtype)
        larger[: table.used[pool]] = array[: table.used[pool]]
        arrays.append(larger)
    return Table._make([*arrays, table.used])


@compiled(_nrt=False, forceinline=True)
def initial_noise(seed: int, row: int, policy: int, k: int) -> float:
    """A number in [-1, 1), a function of its arguments alone (splitmix64 finaliser), exact in float32."""
    z = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(row) * np.uint64(0xBF58476D1CE4E5B9)
    z += np.uint64(policy) * np.uint64(0x94D049BB133111EB) + np.uint64(k + 1) * np.uint64(0xD6E8FEB86659FD93)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(40)) * 2.0**-23 - 1.0


@compiled(_nrt=False)
def set_coefficients(w: Floats, rule: Rule, coef: Floats) -> None:
    """coef (m,) such that coef . entry is the score under w (d,)."""
    d = len(w)
    for i in range(d):
        coef[i] = w[i]
    k = d
    if rule.sigma == DIAGONAL_SIGMA:
        for i in range(d):
            coef[k] = rule.half_beta * w[i] * w[i]
            k += 1
    elif rule.sigma == FULL_SIGMA:
        for i in range(d):
            for j in range(i, d):
                coef[k] = rule.half_beta * w[i] * w[j] * (1.0 if i == j else 2.0)
                k += 1


@compiled(_nrt=False)
def add_row(table: Table, rule: Rule, newest_policy: int) -> int:
    """A row for a state seen for the first time, while policies 0 .. newest_policy exist."""
    d, A = table.noise.shape[2], table.best.shape[1]
    row = table.used[0]
    table.used[0] += 1
    entry = table.used[1]
    table.used[1] += _FIRST_CAPACITY
    table.row[row, BASE], table.row[row, COUNT], table.row[row, CAPACITY] = entry, 1, _FIRST_CAPACITY
    table.row[row, NEWEST], table.row[row, VERSION] = 0, -1
    table.bound[row, LARGEST_PSI], table.bound[row, LARGEST_SIGMA] = rule.noise_scale, 0.0
    others = 0 if rule.shared_noise else newest_policy
    table.row[row, OWN_NOISE], table.row[row, NOISE_COUNT] = others, others
    table.row[row, NOISE_BASE] = table.used[2]
    table.used[2] += others
    for j in range(others):
        where = table.row[row, NOISE_BASE] + j
        table.noise_policy[where] = j
        for i in range(d):
            for a in range(A):
                table.noise[where, a, i] = rule.noise_scale * initial_noise(rule.seed, row, j, i * A + a)
    table.first_policy[entry] = others
    clear(table, entry)
    for i in range(d):
        for a in range(A):
            drawn = np.float32(rule.noise_scale * initial_noise(rule.seed, row, others, i * A + a))
            table.value[entry, a, i] = drawn
    return row


@compiled(_nrt=False)
def clear(table: Table, entry: int) -> None:
    """Zero all numbers of an entry."""
    for a in range(table.value.shape[1]):
        for k in range(table.value.shape[2]):
            table.value[entry, a, k] = 0.0


@compiled(_nrt=False)
def copy(table: Table, source: int, target: int) -> None:
    """Copy an entry's numbers and scores."""
    for a in range(table.value.shape[1]):
        for k in range(table.value.shape[2]):
            table.value[target, a, k] = table.value[source, a, k]
        table.score[target, a] = table.score[source, a]


@compiled(_nrt=False)
def append(table: Table, row: int, source: int) -> int:
    """One more entry in the row, a copy of the entry at offset `source`; its offset."""
    count = table.row[row, COUNT]
    if count == table.row[row, CAPACITY]:
        old, new = table.row[row, BASE], table.used[1]
        table.used[1] += 2 * count
        for k in range(count):
            copy(table, old + k, new + k)
            table.first_policy[new + k] = table.first_policy[old + k]
        table.row[row, BASE], table.row[row, CAPACITY] = new, 2 * count
    copy(table, table.row[row, BASE] + source, table.row[row, BASE] + count)
    table.row[row, COUNT] = count + 1
    return count


@compiled(_nrt=False, forceinline=True)
def find_policy(table: Table, row: int, policy: int) -> int:
    """The slot of one policy in the row: offset of its entry, or -1 - k for noise vector k."""
    if policy < table.row[row, OWN_NOISE]:
        for k in range(table.row[row, NOISE_COUNT]):
            if table.noise_policy[table.row[row, NOISE_BASE] + k] == policy:
                return -1 - k
    base, slot, first = table.row[row, BASE], 0, -1
    for k in range(table.row[row, COUNT]):
        start = table.first_policy[base + k]
        if first < start <= policy:
            slot, first = k, start
    return slot


@compiled(_nrt=False, forceinline=True)
def read(table: Table, row: int, slot: int, a: int, out: Floats) -> None:
    """Copy one action's numbers (m,) of a slot."""
    if slot >= 0:
        for k in range(len(out)):
            out[k] = table.value[table.row[row, BASE] + slot, a, k]
    else:
        for k in range(len(out)):
            out[k] = 0.0
        for i in range(table.noise.shape[2]):
            out[i] = table.noise[table.row[row, NOISE_BASE] - 1 - slot, a, i]


@compiled(_nrt=False, forceinline=True)
def newest_slot(table: Table, row: int, policy: int) -> int:
    """An entry that belongs to the newest policy alone, split off if it shares one."""
    newest = table.row[row, NEWEST]
    if table.first_policy[table.row[row, BASE] + newest] == policy:
        return newest
    slot = append(table, row, newest)
    table.first_policy[table.row[row, BASE] + slot] = policy
    table.row[row, NEWEST] = slot
    return slot


@compiled(_nrt=False, forceinline=True)
def learn_entry(
    table: Table, rule: Rule, row: int, slot: int, a: int, phi: Floats, after: Floats, delta: Floats
) -> None:
    """psi += alpha delta, Sigma += alpha_sigma (delta delta' + gamma^2 Sigma' - Sigma), delta from the old psi.

    `after` (m,) holds psi' and Sigma' at the successor, zeros after the end; `delta` (d,) is scratch.
    """
    entry, d = table.row[row, BASE] + slot, len(phi)
    value = table.value
    for i in range(d):
        delta[i] = phi[i] + rule.gamma * after[i] - value[entry, a, i]
    largest = 0.0
    for i in range(d):
        value[entry, a, i] += rule.alpha * delta[i]
        largest = max(largest, abs(value[entry, a, i]))
    table.bound[row, LARGEST_PSI] = max(table.bound[row, LARGEST_PSI], largest)
    square, k = rule.gamma * rule.gamma, d
    largest = 0.0
    if rule.sigma == DIAGONAL_SIGMA:
        for i in range(d):
            value[entry, a, k] += rule.alpha_sigma * (delta[i] * delta[i] + square * after[k] - value[entry, a, k])
            largest = max(largest, abs(value[entry, a, k]))
            k += 1
    elif rule.sigma == FULL_SIGMA:
        for i in range(d):
            for j in range(i, d):
                value[entry, a, k] += rule.alpha_sigma * (delta[i] * delta[j] + square * after[k] - value[entry, a, k])
                largest = max(largest, abs(value[entry, a, k]))
                k += 1
    table.bound[row, LARGEST_SIGMA] = max(table.bound[row, LARGEST_SIGMA], largest)
