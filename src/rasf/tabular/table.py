"""Successor-feature tables of many policies, stored so that the number of policies hardly matters.

For every visited state (a row) and every policy j the table holds, per action, psi (d) and the entries of Sigma that
are learned: none, the diagonal (d), or the upper triangle (d (d + 1) / 2) of the symmetric matrix. A policy starts as a
copy of the one before it, and most rows of most policies are never updated again, so a row keeps one *entry* per
stretch of consecutive policies that hold the same numbers:

    entry k of a row belongs to the policies first_policy[k], first_policy[k] + 1, .. up to the next entry's first

Updating one policy splits its stretch; the others keep the old numbers, as separate tables would. New policies join the
last stretch for free. With independent initial noise, the policies that exist when a state is first seen each hold
noise of their own there; such noise vectors are kept apart (float32, no Sigma) until their policy is updated.

A score is linear in an entry: psi . w + (beta / 2) w' Sigma w = coef . entry, with coefficients computed once per w.
Each row caches the scores and the best of them for every action; an update repairs the cache. When w has moved a little
since the scores were computed, none of them can have moved by more than `drift`,

    |change of a score| <= |change of w|_1 (max |psi| + 2 |beta / 2| max |Sigma| max |w|_1),

so only entries within twice that of the best are scored anew. That is exact: ties and near ties are always recomputed.

All functions here are compiled and work in place; `used` counts what is taken of each pool, and `reserve` enlarges.
They are compiled without reference counting (`_nrt=False`): a call would otherwise count every array of the table up
and down, which took most of the time. So they must not allocate, and copy by loops. Numbers are stored as float32, one
action's together, since waiting for memory is what a step mostly does; arithmetic is float64.
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

# Entries of `now`: where w stands
NOW_VERSION = 0  # counts changes of w
TASK_VERSION = 1  # the version with which the task began; older scores are of another w altogether
PATH = 2  # length of the path of w within the task, in the 1-norm
STEEPNESS = 3  # 2 |beta / 2| times the largest |w|_1 so far
SIZE = 4  # the largest |w|_1 so far

_LIGHT = 0.02  # a drift beyond this is not worth the search for what it leaves unchanged
_ROUNDING = 1e-12


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


@compiled(_nrt=False)
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


@compiled(_nrt=False)
def drift(table: Table, row: int, now: Floats) -> float:
    """How far a cached score of the row may be from the present one; 0 if w has not moved."""
    if table.bound[row, SCORED_VERSION] == now[NOW_VERSION]:
        return 0.0
    moved = now[PATH] - table.bound[row, SCORED_AT]
    slope = table.bound[row, LARGEST_PSI] + now[STEEPNESS] * table.bound[row, LARGEST_SIGMA]
    return (moved + _ROUNDING * now[SIZE]) * slope


@compiled(_nrt=False)
def refresh(table: Table, row: int, coef: Floats, now: Floats) -> None:
    """Bring the row's best scores up to date with w."""
    if table.row[row, VERSION] == now[NOW_VERSION]:
        return
    if table.row[row, VERSION] < now[TASK_VERSION] or drift(table, row, now) > _LIGHT:
        score_all(table, row, coef)
        table.bound[row, SCORED_AT], table.bound[row, SCORED_VERSION] = now[PATH], now[NOW_VERSION]
        score_noise(table, row, coef, now)
    table.row[row, VERSION] = np.int64(now[NOW_VERSION])
    for a in range(table.best.shape[1]):
        find_best(table, row, a, coef, now)


@compiled(_nrt=False)
def score_all(table: Table, row: int, coef: Floats) -> None:
    """Score every entry of the row anew."""
    base = table.row[row, BASE]
    for entry in range(base, base + table.row[row, COUNT]):
        for a in range(table.score.shape[1]):
            table.score[entry, a] = entry_score(table, entry, coef, a)


@compiled(_nrt=False)
def score_noise(table: Table, row: int, coef: Floats, now: Floats) -> None:
    """Score every noise vector of the row anew and keep the best for each action."""
    A, d, base = table.score.shape[1], table.noise.shape[2], table.row[row, NOISE_BASE]
    table.bound[row, NOISE_SCORED_AT], table.bound[row, NOISE_SCORED_VERSION] = now[PATH], now[NOW_VERSION]
    for a in range(A):
        table.noise_best[row, a], table.noise_slot[row, a] = -np.inf, -1
    for k in range(table.row[row, NOISE_COUNT]):
        for a in range(A):
            total = 0.0
            for i in range(d):
                total += coef[i] * table.noise[base + k, a, i]
            slot = table.noise_slot[row, a]
            tie = total == table.noise_best[row, a] and slot >= 0
            if total > table.noise_best[row, a] or (
                tie and table.noise_policy[base + k] < table.noise_policy[base + slot]
            ):
                table.noise_best[row, a], table.noise_slot[row, a] = total, k


@compiled(_nrt=False)
def entry_score(table: Table, entry: int, coef: Floats, a: int) -> float:
    """coef . entry for one action; psi and three strands of Sigma are summed apart, not waiting for each other."""
    d, m = table.noise.shape[2], len(coef)
    mean = first = second = third = 0.0
    for k in range(d):
        mean += coef[k] * table.value[entry, a, k]
    whole = m - (m - d) % 3
    for k in range(d, whole, 3):
        first += coef[k] * table.value[entry, a, k]
        second += coef[k + 1] * table.value[entry, a, k + 1]
        third += coef[k + 2] * table.value[entry, a, k + 2]
    for k in range(whole, m):
        first += coef[k] * table.value[entry, a, k]
    return mean + ((first + second) + third)


@compiled(_nrt=False)
def find_best(table: Table, row: int, a: int, coef: Floats, now: Floats) -> None:
    """Best score of the row for action a, ties to the lowest policy; scores that may matter are computed anew."""
    base, count = table.row[row, BASE], table.row[row, COUNT]
    best, slot, policy = table.score[base, a], 0, table.first_policy[base]
    for k in range(1, count):
        score = table.score[base + k, a]
        if score > best or (score == best and table.first_policy[base + k] < policy):
            best, slot, policy = score, k, table.first_policy[base + k]
    margin = drift(table, row, now)
    if margin > 0.0:
        best = entry_score(table, base + slot, coef, a)
        floor = best - margin
        policy = table.first_policy[base + slot]
        for k in range(count):
            if table.score[base + k, a] < floor:
                continue
            score = entry_score(table, base + k, coef, a)
            table.score[base + k, a] = score
            if score > best or (score == best and table.first_policy[base + k] < policy):
                best, slot, policy = score, k, table.first_policy[base + k]
    if table.row[row, NOISE_COUNT] > 0:
        moved = now[PATH] - table.bound[row, NOISE_SCORED_AT]
        if table.bound[row, NOISE_SCORED_VERSION] != now[NOW_VERSION]:
            reach = (moved + _ROUNDING * now[SIZE]) * table.bound[row, LARGEST_PSI]
            if table.noise_best[row, a] + reach >= best:
                score_noise(table, row, coef, now)
        if table.noise_best[row, a] >= best:
            k = table.noise_slot[row, a]
            noisy = table.noise_policy[table.row[row, NOISE_BASE] + k]
            if table.noise_best[row, a] > best or noisy < policy:
                best, slot, policy = table.noise_best[row, a], -1 - k, noisy
    table.best[row, a], table.best_slot[row, a], table.best_policy[row, a] = best, slot, policy


@compiled(_nrt=False)
def greedy(table: Table, row: int) -> tuple[int, int, int]:
    """Action, driving policy and its slot by GPI on an up-to-date row; ties to the lowest policy, then action."""
    action = 0
    for a in range(1, table.best.shape[1]):
        better = table.best[row, a] > table.best[row, action]
        tie = table.best[row, a] == table.best[row, action]
        if better or (tie and table.best_policy[row, a] < table.best_policy[row, action]):
            action = a
    return action, table.best_policy[row, action], table.best_slot[row, action]


@compiled(_nrt=False)
def best_action(table: Table, row: int) -> int:
    """argmax_b max_j of the scores on an up-to-date row, ties to the lowest action."""
    action = 0
    for a in range(1, table.best.shape[1]):
        if table.best[row, a] > table.best[row, action]:
            action = a
    return action


@compiled(_nrt=False)
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


@compiled(_nrt=False)
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


@compiled(_nrt=False)
def greedy_of_slot(table: Table, row: int, slot: int, coef: Floats) -> int:
    """argmax_b of one policy's scores under coefficients of its own; ties to the lowest action."""
    action, best = 0, -np.inf
    for a in range(table.best.shape[1]):
        if slot >= 0:
            score = entry_score(table, table.row[row, BASE] + slot, coef, a)
        else:
            score = 0.0
            for i in range(table.noise.shape[2]):
                score += coef[i] * table.noise[table.row[row, NOISE_BASE] - 1 - slot, a, i]
        if score > best:
            action, best = a, score
    return action


@compiled(_nrt=False)
def newest_slot(table: Table, row: int, policy: int) -> int:
    """An entry that belongs to the newest policy alone, split off if it shares one."""
    newest = table.row[row, NEWEST]
    if table.first_policy[table.row[row, BASE] + newest] == policy:
        return newest
    slot = append(table, row, newest)
    table.first_policy[table.row[row, BASE] + slot] = policy
    table.row[row, NEWEST] = slot
    return slot


@compiled(_nrt=False)
def from_noise(table: Table, row: int, policy: int, k: int, coef: Floats, now: Floats) -> int:
    """Turn noise vector k of the row into an entry, since its policy is about to learn."""
    where, last = table.row[row, NOISE_BASE] + k, table.row[row, NOISE_BASE] + table.row[row, NOISE_COUNT] - 1
    fresh = append(table, row, 0)
    entry = table.row[row, BASE] + fresh
    table.first_policy[entry] = policy
    clear(table, entry)
    for i in range(table.noise.shape[2]):
        for a in range(table.noise.shape[1]):
            table.value[entry, a, i] = table.noise[where, a, i]
            table.noise[where, a, i] = table.noise[last, a, i]
    table.noise_policy[where] = table.noise_policy[last]
    table.row[row, NOISE_COUNT] -= 1
    if table.row[row, VERSION] == now[NOW_VERSION]:
        score_noise(table, row, coef, now)
        for a in range(table.best.shape[1]):
            table.score[entry, a] = entry_score(table, entry, coef, a)
        for a in range(table.best.shape[1]):
            find_best(table, row, a, coef, now)
    else:
        table.row[row, VERSION] = -1
    return fresh


@compiled(_nrt=False)
def own_slot(table: Table, row: int, policy: int, slot: int, newest_policy: int, coef: Floats, now: Floats) -> int:
    """An entry that belongs to `policy` alone, given the slot that begins with it."""
    if slot < 0:
        return from_noise(table, row, policy, -1 - slot, coef, now)
    if policy < table.row[row, OWN_NOISE] or policy == newest_policy:
        return slot
    base = table.row[row, BASE]
    for k in range(table.row[row, COUNT]):
        if table.first_policy[base + k] == policy + 1:
            return slot
    fresh = append(table, row, slot)
    base = table.row[row, BASE]
    table.first_policy[base + slot] = policy + 1
    table.first_policy[base + fresh] = policy
    for a in range(table.best.shape[1]):
        if table.best_slot[row, a] == slot:
            table.best_slot[row, a] = fresh
    return fresh


@compiled(_nrt=False)
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


@compiled(_nrt=False)
def repair(table: Table, row: int, slot: int, a: int, coef: Floats, now: Floats) -> None:
    """After an update of one entry's action: its score, and the row's best."""
    if table.row[row, VERSION] != now[NOW_VERSION]:
        # the scores are older than w, but must not be older than the entry
        table.score[table.row[row, BASE] + slot, a] = entry_score(table, table.row[row, BASE] + slot, coef, a)
        return
    entry = table.row[row, BASE] + slot
    score = entry_score(table, entry, coef, a)
    table.score[entry, a] = score
    policy = table.first_policy[entry]
    if table.best_slot[row, a] == slot:
        if score >= table.best[row, a]:
            table.best[row, a] = score
        else:
            find_best(table, row, a, coef, now)
    elif score > table.best[row, a] or (score == table.best[row, a] and policy < table.best_policy[row, a]):
        table.best[row, a], table.best_slot[row, a], table.best_policy[row, a] = score, slot, policy
