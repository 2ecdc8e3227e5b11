"""Successor-feature tables of many policies, whose memory and run time hardly depend on the number of policies.

For every visited state (a row), policy and action, the table holds m numbers: psi (d numbers) and the learned part of
Sigma, which is nothing, the diagonal (d numbers), or the upper triangle (d (d + 1) / 2 numbers). A policy starts as a
copy of the previous policy, and most rows of most policies are never updated again. So a row has one *entry* for each
range of consecutive policies with the same numbers:

    entry k of a row belongs to the policies first_policy[k], .., last_policy[k]

The entries of a row are stored one after the other in a *block*, which has room for a power of 2 entries.

An update of one policy splits its range, and the other policies keep the old numbers. A new policy joins the last
range without cost. The initial psi is small random noise. Unless `shared_noise` is set, every policy that exists when a
state is first visited has its own noise in this row, a function of the seed, row and policy. The noise is recomputed
when needed, and becomes an entry when the policy is updated. The *slot* of a policy in a row is the index of the
policy's entry among the row's entries, or -1 - policy while the policy has its noise.

Scores and their caches are in `rasf.tabular.scores`.

The arrays form three pools with spare room: rows, entries and noise. `used` counts the used part of each pool, and
`reserve` enlarges the pools.

The compiled functions work in place. They are compiled without reference counting (`_nrt=False`), because every call
would otherwise update the reference count of every array of the table. Functions without reference counting cannot
allocate arrays, so they copy by loops. Functions that every step calls are inlined (`forceinline`), because a call
would otherwise pass about a hundred numbers, the shapes and strides of the table's arrays. Without these two measures,
reference counts and calls would dominate the run time. To reduce memory traffic, the numbers are stored as float32,
with the numbers of one action next to each other. Arithmetic is float64. Allocating memory is slow because the system
clears new memory, so a block that has become too small for its row is reused for another row.
"""

from __future__ import annotations

from collections.abc import Sized
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from rasf.arrays import Floats, Ints, Whole
from rasf.compiled import compiled

ANY_LATER = 2**15 - 1  # value of last_policy if the range also contains all policies that are added later
_FIRST_CAPACITY = 2  # entries in the first block of a row
_UNROLLED = (5, 4)  # numbers of features and actions (the paper's four rooms) for which loops are unrolled: 20 % faster


class SigmaForm(IntEnum):
    """The entries of Sigma that are learned; files contain the name in lower case."""

    NONE = 0
    DIAGONAL = 1
    FULL = 2

    def entries(self, n_features: int) -> int:
        """Return the number of entries of Sigma that are learned, for `n_features` features."""
        return (0, n_features, n_features * (n_features + 1) // 2)[self]

    def __str__(self) -> str:
        return self.name.lower()


# Columns of `Table.row`; eight numbers fill one cache line. `scores` numbers the versions of the weights w.
BASE = 0  # first entry of the row's block of entries
COUNT = 1  # number of entries in use
CAPACITY = 2  # number of entries that fit in the block
NEWEST = 3  # offset, within the block, of the entry of the newest policies
OWN_NOISE = 4  # policies below this number have their own initial noise
NOISE_BASE = 5  # start of the list of policies that still have their noise, in `Table.noise_policy`
NOISE_COUNT = 6  # length of this list
VERSION = 7  # version of w for which the row's best action is known; -1 if it must be recomputed

# Columns of `Table.bound`
SCORED_AT = 0  # length of the path of w (`scores.PATH`) when all scores of the row were last computed
SCORED_VERSION = 1  # version of w at that time, needed because a tiny change of w may not change the rounded length
LARGEST_PSI = 2  # upper bound of |psi| in the row
LARGEST_SIGMA = 3  # upper bound of |Sigma| in the row


class Table(NamedTuple):
    """Arrays of R rows, of E entries with m numbers for each of A actions, and of N pairs (row, policy with noise)."""

    row: Ints  # (R, 8) the columns BASE .. VERSION
    bound: Floats  # (R, 4) the columns SCORED_AT .. LARGEST_SIGMA
    best: Floats  # (R, A) largest score over the policies; only an upper bound unless exact_version is current
    best_slot: Ints  # (R, A) offset of the entry with this score; -1 - policy for noise
    best_policy: Ints  # (R, A) lowest policy with this score
    exact_version: Ints  # (R, A) version of w for which best, best_slot, best_policy are exact, or -1
    noise_best: Floats  # (R, A) largest score of policies with noise; only an upper bound if noise_best_policy is -1
    noise_best_policy: Ints  # (R, A) lowest policy with this score, or -1
    noise_scored_at: Floats  # (R, A) length of the path of w when noise_best was computed
    noise_version: Ints  # (R, A) version of w when noise_best was computed
    first_policy: Ints  # (E,) first policy of the entry's range
    last_policy: Ints  # (E,) last policy of the entry's range, ANY_LATER for the newest range
    next_free: Ints  # (E,) the next free block of the same size, or -1; used at the first entry of a free block
    value: Floats  # (E, A, m) float32, psi and the learned entries of Sigma
    score: Floats  # (E, A) cached scores
    noise_policy: Ints  # (N,) policies with noise, listed by row
    used: Ints  # (3,) numbers of rows, of entries and of pairs (row, policy with noise) in use
    free: Ints  # (16,) for k = 0 .. 15, the first free block of 2^k entries, or -1
    features: Sized  # an object of length d; only its length is used, see `_length`
    actions: Sized  # an object of length A
    numbers: Sized  # an object of length m


class Rule(NamedTuple):
    """Constants of the learning rule."""

    gamma: float
    alpha: float
    alpha_sigma: float
    alpha_w: float  # 0 if the weights are given
    variance_weight: float  # beta / 2
    sigma: int  # a SigmaForm
    noise_scale: float
    shared_noise: bool
    seed: int


def new_table(n_features: int, n_actions: int, sigma: int) -> Table:
    """Return a table without rows, entries and noise."""
    m = n_features + SigmaForm(sigma).entries(n_features)
    known = (n_features, n_actions) == _UNROLLED
    return Table(
        row=np.empty((0, 8), np.int64),
        bound=np.empty((0, 4)),
        best=np.empty((0, n_actions)),
        best_slot=np.empty((0, n_actions), np.int32),
        best_policy=np.empty((0, n_actions), np.int32),
        exact_version=np.empty((0, n_actions), np.int64),
        noise_best=np.empty((0, n_actions)),
        noise_best_policy=np.empty((0, n_actions), np.int32),
        noise_scored_at=np.empty((0, n_actions)),
        noise_version=np.empty((0, n_actions), np.int64),
        first_policy=np.empty(0, np.int16),
        last_policy=np.empty(0, np.int16),
        next_free=np.empty(0, np.int64),
        value=np.empty((0, n_actions, m), np.float32),
        score=np.empty((0, n_actions)),
        noise_policy=np.empty(0, np.int16),
        used=np.zeros(3, np.int64),
        free=np.full(16, -1, np.int64),
        features=_length(n_features, known),
        actions=_length(n_actions, known),
        numbers=_length(m, known),
    )


def _length(n: int, known: bool) -> Sized:
    """Return an object of length n: a tuple if `known`, so that the compiler can unroll loops over its length."""
    return (0,) * n if known else np.zeros(n)


# for each field of `Table` except the last five: the index in `used` of its pool (rows, entries or noise)
_POOLS = [0] * 10 + [1] * 5 + [2]


def used_part(table: Table) -> Table:
    """Return the table without unused room; the arrays are views."""
    names = zip(table._fields[: len(_POOLS)], _POOLS, strict=True)
    return table._replace(**{name: getattr(table, name)[: table.used[pool]] for name, pool in names})


def reserve(table: Table, rows: int, entries: int, noise: int) -> Table:
    """Return the table with room for more rows, entries and policies with noise; arrays that are large enough stay."""
    wanted = table.used + np.array([rows, entries, noise])
    have = (len(table.row), len(table.first_policy), len(table.noise_policy))
    if all(need <= held for need, held in zip(wanted, have, strict=True)):
        return table
    larger = {}
    for name, pool in zip(table._fields[: len(_POOLS)], _POOLS, strict=True):
        if wanted[pool] > have[pool]:
            array = getattr(table, name)
            # grow by a large factor: growing copies the array, but untouched memory costs nothing
            larger[name] = np.empty((max(4 * have[pool], int(wanted[pool])), *array.shape[1:]), array.dtype)
            larger[name][: table.used[pool]] = array[: table.used[pool]]
    return table._replace(**larger)


@compiled(_nrt=False, forceinline=True)
def initial_noise(seed: int, row: int, policy: Whole, k: int) -> float:
    """Return a number in [-1, 1), exact in float32, that is a hash of the arguments (splitmix64 finaliser)."""
    z = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(row) * np.uint64(0xBF58476D1CE4E5B9)
    z += np.uint64(policy) * np.uint64(0x94D049BB133111EB) + np.uint64(k + 1) * np.uint64(0xD6E8FEB86659FD93)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(40)) * 2.0**-23 - 1.0


@compiled(_nrt=False, forceinline=True)
def drawn_psi(seed: int, scale: float, row: int, policy: Whole, A: int, a: int, i: int) -> float:
    """Return number i of the initial psi of a policy for action a of A actions, rounded to float32."""
    return np.float64(np.float32(scale * initial_noise(seed, row, policy, i * A + a)))


@compiled(_nrt=False)
def set_coefficients(w: Floats, rule: Rule, coef: Floats) -> None:
    """Write the coefficients coef (m,) of scores under w (d,): first w, then the coefficients of Sigma's entries."""
    d = len(w)
    for i in range(d):
        coef[i] = w[i]
    if rule.sigma == SigmaForm.NONE:
        return
    k = d
    for i in range(d):
        for j in range(i, i + 1 if rule.sigma == SigmaForm.DIAGONAL else d):
            coef[k] = rule.variance_weight * w[i] * w[j] * (1.0 if i == j else 2.0)
            k += 1


@compiled(_nrt=False)
def add_row(table: Table, rule: Rule, newest_policy: int) -> int:
    """Add a row for a new state while policies 0 .. newest_policy exist, and return the number of the row."""
    row = table.used[0]
    table.used[0] += 1
    entry = take_block(table, np.int64(_FIRST_CAPACITY))
    table.row[row, BASE], table.row[row, COUNT], table.row[row, CAPACITY] = entry, 1, _FIRST_CAPACITY
    table.row[row, NEWEST], table.row[row, VERSION] = 0, -1
    table.bound[row, SCORED_VERSION] = -1.0
    table.bound[row, LARGEST_PSI], table.bound[row, LARGEST_SIGMA] = largest_noise(rule.noise_scale), 0.0
    others = 0 if rule.shared_noise else newest_policy
    table.row[row, OWN_NOISE], table.row[row, NOISE_COUNT] = others, others
    table.row[row, NOISE_BASE] = table.used[2]
    table.used[2] += others
    for j in range(others):
        table.noise_policy[table.row[row, NOISE_BASE] + j] = j
    table.first_policy[entry], table.last_policy[entry] = others, ANY_LATER
    fill_with_noise(table, rule, row, others, entry)
    return row


@compiled(_nrt=False, forceinline=True)
def largest_noise(scale: float) -> float:
    """Return an upper bound of |initial psi| for this noise scale, which also holds after rounding to float32."""
    return scale * (1.0 + 1e-6)


@compiled(_nrt=False)
def fill_with_noise(table: Table, rule: Rule, row: int, policy: int, entry: int) -> None:
    """Set an entry to the initial psi of a policy at a row, and its Sigma to 0."""
    d, A = len(table.features), len(table.actions)
    for a in range(A):
        for i in range(d):
            table.value[entry, a, i] = drawn_psi(rule.seed, rule.noise_scale, row, policy, A, a, i)
        for k in range(d, len(table.numbers)):
            table.value[entry, a, k] = 0.0


@compiled(_nrt=False)
def take_block(table: Table, capacity: Whole) -> int:
    """Return the first entry of a block with `capacity` entries, a power of 2; free blocks are used before new ones."""
    size = size_class(capacity)
    block = table.free[size]
    if block >= 0:
        table.free[size] = table.next_free[block]
        return int(block)
    block = table.used[1]
    table.used[1] += capacity
    return int(block)


@compiled(_nrt=False)
def size_class(capacity: Whole) -> int:
    """Return k for a capacity of 2^k."""
    k = 0
    while capacity >> k > 1:
        k += 1
    return k


@compiled(_nrt=False)
def copy(table: Table, source: int, target: int) -> None:
    """Copy the numbers and scores of the entry `source` to the entry `target`."""
    for a in range(len(table.actions)):
        for k in range(len(table.numbers)):
            table.value[target, a, k] = table.value[source, a, k]
        table.score[target, a] = table.score[source, a]


@compiled(_nrt=False)
def append(table: Table, row: int, source: Whole) -> int:
    """Add a copy of the entry at offset `source` to a row, and return the offset of the copy."""
    count = table.row[row, COUNT]
    if count == table.row[row, CAPACITY]:
        old, new = table.row[row, BASE], take_block(table, 2 * count)
        for k in range(count):
            copy(table, old + k, new + k)
            table.first_policy[new + k] = table.first_policy[old + k]
            table.last_policy[new + k] = table.last_policy[old + k]
        table.row[row, BASE], table.row[row, CAPACITY] = new, 2 * count
        size = size_class(count)
        table.next_free[old], table.free[size] = table.free[size], old
    copy(table, table.row[row, BASE] + source, table.row[row, BASE] + count)
    table.row[row, COUNT] = count + 1
    return count


@compiled(_nrt=False, forceinline=True)
def find_policy(table: Table, row: int, policy: int) -> int:
    """Return a policy's slot in a row: the offset of its entry, or -1 - policy if the policy has initial noise."""
    base = table.row[row, BASE]
    for k in range(table.row[row, COUNT]):
        if table.first_policy[base + k] <= policy <= table.last_policy[base + k]:
            return k
    return -1 - policy


@compiled(_nrt=False, forceinline=True)
def read(table: Table, rule: Rule, row: int, slot: int, a: int, out: Floats) -> None:
    """Write the numbers that a slot has for one action to `out` (m,)."""
    d, m = len(table.features), len(table.numbers)
    if slot >= 0:
        entry = table.row[row, BASE] + slot
        for k in range(m):
            out[k] = table.value[entry, a, k]
    else:
        for i in range(d):
            out[i] = drawn_psi(rule.seed, rule.noise_scale, row, -1 - slot, len(table.actions), a, i)
        for k in range(d, m):
            out[k] = 0.0


@compiled(_nrt=False, forceinline=True)
def newest_slot(table: Table, row: int, policy: int) -> int:
    """Return the offset of the newest policy's own entry; if the policy shares an entry, split off a copy first."""
    newest = table.row[row, NEWEST]
    if table.first_policy[table.row[row, BASE] + newest] == policy:
        return newest
    slot = append(table, row, newest)
    base = table.row[row, BASE]
    table.last_policy[base + newest] = policy - 1
    table.first_policy[base + slot], table.last_policy[base + slot] = policy, ANY_LATER
    table.row[row, NEWEST] = slot
    return slot


@compiled(_nrt=False, forceinline=True)
def learn_entry(
    table: Table, rule: Rule, row: int, slot: int, a: int, phi: Floats, after: Floats, delta: Floats
) -> None:
    """Update psi += alpha delta and Sigma += alpha_sigma (delta delta^T + gamma^2 Sigma' - Sigma).

    Here delta = phi + gamma psi' - psi, with psi before the update; psi' and Sigma' belong to the next state.

    Args:
        table: the table.
        rule: constants of the learning rule.
        row: row of the state.
        slot: offset of the entry.
        a: the action.
        phi: features (d,) of the step.
        after: psi' and the learned entries of Sigma' (m,), zeros at termination.
        delta: work space (d,).
    """
    entry, d = table.row[row, BASE] + slot, len(table.features)
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
    if rule.sigma == SigmaForm.DIAGONAL:
        for i in range(d):
            value[entry, a, k] += rule.alpha_sigma * (delta[i] * delta[i] + square * after[k] - value[entry, a, k])
            largest = max(largest, abs(value[entry, a, k]))
            k += 1
    elif rule.sigma == SigmaForm.FULL:
        for i in range(d):
            for j in range(i, d):
                value[entry, a, k] += rule.alpha_sigma * (delta[i] * delta[j] + square * after[k] - value[entry, a, k])
                largest = max(largest, abs(value[entry, a, k]))
                k += 1
    table.bound[row, LARGEST_SIGMA] = max(table.bound[row, LARGEST_SIGMA], largest)
