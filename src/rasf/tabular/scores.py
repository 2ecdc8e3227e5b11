"""Scores of a table's rows under a task, and the caches that make them cheap.

A score is linear in an entry: psi . w + (beta / 2) w' Sigma w = coef . entry, with coefficients computed once per w.
Each row caches the scores and the best of them for every action; an update repairs the cache. When w has moved a little
since the scores were computed, none of them can have moved by more than `drift`,

    |change of a score| <= |change of w|_1 (max |psi| + 2 |beta / 2| max |Sigma| max |w|_1),

so only entries within twice that of the best are scored anew. That is exact: ties and near ties are always recomputed.
"""

from __future__ import annotations

import numpy as np

from rasf.compiled import compiled
from rasf.mdp import Floats
from rasf.tabular.table import (
    BASE,
    COUNT,
    LARGEST_PSI,
    LARGEST_SIGMA,
    NOISE_BASE,
    NOISE_COUNT,
    NOISE_SCORED_AT,
    NOISE_SCORED_VERSION,
    OWN_NOISE,
    SCORED_AT,
    SCORED_VERSION,
    VERSION,
    Table,
    append,
    clear,
)

# Entries of `now`: where w stands
NOW_VERSION = 0  # counts changes of w
TASK_VERSION = 1  # the version with which the task began; older scores are of another w altogether
PATH = 2  # length of the path of w within the task, in the 1-norm
STEEPNESS = 3  # 2 |beta / 2| times the largest |w|_1 so far
SIZE = 4  # the largest |w|_1 so far

_LIGHT = 0.02  # a drift beyond this is not worth the search for what it leaves unchanged
_ROUNDING = 1e-12


@compiled(_nrt=False, forceinline=True)
def drift(table: Table, row: int, now: Floats) -> float:
    """How far a cached score of the row may be from the present one; 0 if w has not moved."""
    if table.bound[row, SCORED_VERSION] == now[NOW_VERSION]:
        return 0.0
    moved = now[PATH] - table.bound[row, SCORED_AT]
    slope = table.bound[row, LARGEST_PSI] + now[STEEPNESS] * table.bound[row, LARGEST_SIGMA]
    return (moved + _ROUNDING * now[SIZE]) * slope


@compiled(_nrt=False, forceinline=True)
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


@compiled(_nrt=False, forceinline=True)
def score_all(table: Table, row: int, coef: Floats) -> None:
    """Score every entry of the row anew."""
    base = table.row[row, BASE]
    for entry in range(base, base + table.row[row, COUNT]):
        for a in range(table.score.shape[1]):
            table.score[entry, a] = entry_score(table, entry, coef, a)


@compiled(_nrt=False, forceinline=True)
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


@compiled(_nrt=False, forceinline=True)
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


@compiled(_nrt=False, forceinline=True)
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


@compiled(_nrt=False, forceinline=True)
def greedy(table: Table, row: int) -> tuple[int, int, int]:
    """Action, driving policy and its slot by GPI on an up-to-date row; ties to the lowest policy, then action."""
    action = 0
    for a in range(1, table.best.shape[1]):
        better = table.best[row, a] > table.best[row, action]
        tie = table.best[row, a] == table.best[row, action]
        if better or (tie and table.best_policy[row, a] < table.best_policy[row, action]):
            action = a
    return action, table.best_policy[row, action], table.best_slot[row, action]


@compiled(_nrt=False, forceinline=True)
def best_action(table: Table, row: int) -> int:
    """argmax_b max_j of the scores on an up-to-date row, ties to the lowest action."""
    action = 0
    for a in range(1, table.best.shape[1]):
        if table.best[row, a] > table.best[row, action]:
            action = a
    return action


@compiled(_nrt=False, forceinline=True)
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


@compiled(_nrt=False, forceinline=True)
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


@compiled(_nrt=False, forceinline=True)
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
