"""Scores of a table's rows in a task, and the caches that make them cheap.

A row of the table (`rasf.tabular.table`) stands for a state, and an entry of the row holds psi and Sigma of policies.
The *slot* of a policy in a row is the position of its entry in the row. A policy that has not been updated in a row may
have no entry there: its psi is *initial noise*, random numbers that are computed when needed, and its slot is
-1 - policy.

A score is linear in the entry: psi . w + (beta / 2) w' Sigma w = coef . entry. The coefficients coef (m,) are computed
once per w. Each row caches its scores and the best score of every action. After w has changed, the error of a cached
score is at most `drift`, the right-hand side of

    |change of a score| <= |change of w|_1 (max |psi| + |beta| max |Sigma| max |w|_1),

where max |psi| and max |Sigma| are maxima over the row, and max |w|_1 is the maximum so far in the task. So only those
entries are scored again whose cached scores are within `drift` of the best score. The result is exact, because entries
that could tie are always scored again.

GPI needs only the best action, so the best score of an action is recomputed only if it could be the best of the row.
An update of an entry marks the cached scores that may have changed, and the next visit of the row recomputes them.

`best_action` breaks ties as `rasf.transfer.gpi` does. The learner acts by `greedy`, which breaks ties in the order of
the paper's Algorithm 1: first it selects the policy c in argmax_i max_a score_i(a), then the action a in
argmax_a score_c(a). Equally good paths to a goal can have exactly equal scores, so the results of SFQL depend on this
order.
"""

from __future__ import annotations

import numpy as np

from rasf.arrays import Floats, Whole
from rasf.compiled import compiled
from rasf.tabular.table import (
    BASE,
    COUNT,
    LARGEST_PSI,
    LARGEST_SIGMA,
    NOISE_BASE,
    NOISE_COUNT,
    SCORED_AT,
    SCORED_VERSION,
    VERSION,
    Rule,
    Table,
    append,
    drawn_psi,
    fill_with_noise,
    largest_noise,
)
from rasf.transfer import preferred

# Entries of `now`, which describes how w has changed
NOW_VERSION = 0  # the version of w: the number of its changes so far
TASK_VERSION = 1  # the version of w at the start of the task; scores with older versions belong to an earlier task
PATH = 2  # length of the path of w within the task: the sum of |change of w|_1
STEEPNESS = 3  # |beta| times the largest |w|_1 so far in the task
SIZE = 4  # the largest |w|_1 so far in the task

_LIGHT = 0.02  # for a larger drift, scoring all entries of a row is faster than scoring only some
_ROUNDING = 1e-12  # this share of |w|_1 is added to the change of w, to allow for the rounding of scores


@compiled(_nrt=False, forceinline=True)
def drift(table: Table, row: int, now: Floats) -> float:
    """Return an upper bound of the error of the row's cached scores; 0 if w has not changed since their computation."""
    if table.bound[row, SCORED_VERSION] == now[NOW_VERSION]:
        return 0.0
    moved = now[PATH] - table.bound[row, SCORED_AT]
    slope = table.bound[row, LARGEST_PSI] + now[STEEPNESS] * table.bound[row, LARGEST_SIGMA]
    return (moved + _ROUNDING * now[SIZE]) * slope


@compiled(_nrt=False, forceinline=True)
def ensure_fresh(table: Table, rule: Rule, row: int, coef: Floats, now: Floats) -> None:
    """Update the cached best action of a row for the current w and the current entries."""
    if table.row[row, VERSION] == now[NOW_VERSION]:
        return
    margin = drift(table, row, now)
    if table.bound[row, SCORED_VERSION] < now[TASK_VERSION] or margin > _LIGHT:
        score_all(table, rule, row, coef, now)
        margin = 0.0
    table.row[row, VERSION] = np.int64(now[NOW_VERSION])
    top = best_action(table, row)
    recompute_best(table, rule, row, top, margin, coef, now)
    best = table.best[row, top]
    for a in range(len(table.actions)):
        if a != top and table.best[row, a] + margin >= best:
            recompute_best(table, rule, row, a, margin, coef, now)
            best = max(best, table.best[row, a])


@compiled(_nrt=False)
def score_all(table: Table, rule: Rule, row: int, coef: Floats, now: Floats) -> None:
    """Score every entry of a row, and store the best score of every action.

    If the row has policies with initial noise, the best scores are only upper bounds. Otherwise they are exact.
    """
    base, version = table.row[row, BASE], np.int64(now[NOW_VERSION])
    table.bound[row, SCORED_AT], table.bound[row, SCORED_VERSION] = now[PATH], now[NOW_VERSION]
    noisy = table.row[row, NOISE_COUNT] > 0
    for a in range(len(table.actions)):
        table.best[row, a] = -np.inf
        table.exact_version[row, a] = -1 if noisy else version
    for k in range(table.row[row, COUNT]):
        policy = table.first_policy[base + k]
        for a in range(len(table.actions)):
            score = entry_score(table, base + k, coef, a)
            table.score[base + k, a] = score
            if preferred(score, policy, table.best[row, a], table.best_policy[row, a]):
                table.best[row, a], table.best_slot[row, a], table.best_policy[row, a] = score, k, policy
    if noisy:
        size = 0.0  # |w|_1; not now[SIZE], which is the largest so far
        for i in range(len(table.features)):
            size += abs(coef[i])
        for a in range(len(table.actions)):
            table.noise_best[row, a], table.noise_best_policy[row, a] = largest_noise(rule.noise_scale) * size, -1
            table.noise_scored_at[row, a] = now[PATH]
            table.best[row, a] = max(table.best[row, a], table.noise_best[row, a])


@compiled(_nrt=False, forceinline=True)
def entry_score(table: Table, entry: int, coef: Floats, a: int) -> float:
    """Return the score coef . entry for action a."""
    # four independent sums are faster than one
    d, m = len(table.features), len(table.numbers)
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
def recompute_best(table: Table, rule: Rule, row: int, a: int, margin: float, coef: Floats, now: Floats) -> None:
    """Make the best score of action a exact, by scoring all entries that could be best; the lowest policy wins ties."""
    if table.exact_version[row, a] == now[NOW_VERSION]:
        return
    base, slot = table.row[row, BASE], max(table.best_slot[row, a], 0)
    best, policy = entry_score(table, base + slot, coef, a), table.first_policy[base + slot]
    floor = best - margin
    for k in range(table.row[row, COUNT]):
        score = table.score[base + k, a]
        if score < floor:
            continue
        if margin > 0.0:
            score = entry_score(table, base + k, coef, a)
            table.score[base + k, a] = score
        if preferred(score, table.first_policy[base + k], best, policy):
            best, slot, policy = score, k, table.first_policy[base + k]
            floor = best - margin
    if table.row[row, NOISE_COUNT] > 0:
        moved = now[PATH] - table.noise_scored_at[row, a] + _ROUNDING * now[SIZE]
        known = table.noise_best_policy[row, a] >= 0 and table.noise_version[row, a] == now[NOW_VERSION]
        if not known and table.noise_best[row, a] + moved * largest_noise(rule.noise_scale) >= best:
            score_noise(table, rule, row, a, coef, now)
            known = True
        noisy = table.noise_best_policy[row, a]
        if known and preferred(table.noise_best[row, a], noisy, best, policy):
            best, slot, policy = table.noise_best[row, a], -1 - noisy, noisy
    table.best[row, a], table.best_slot[row, a], table.best_policy[row, a] = best, slot, policy
    table.exact_version[row, a] = np.int64(now[NOW_VERSION])


@compiled(_nrt=False, forceinline=True)
def noise_score(table: Table, rule: Rule, row: int, policy: Whole, a: int, coef: Floats) -> float:
    """Return the score of a policy that still has its initial noise."""
    score = 0.0
    for i in range(len(table.features)):
        score += coef[i] * drawn_psi(rule.seed, rule.noise_scale, row, policy, len(table.actions), a, i)
    return score


@compiled(_nrt=False)
def score_noise(table: Table, rule: Rule, row: int, a: int, coef: Floats, now: Floats) -> None:
    """Score the policies with initial noise for an action of a row; ties go to the lowest policy."""
    base = table.row[row, NOISE_BASE]
    best, holder = -np.inf, np.int64(-1)
    for policy in table.noise_policy[base : base + table.row[row, NOISE_COUNT]]:
        score = noise_score(table, rule, row, np.int64(policy), a, coef)
        if preferred(score, policy, best, holder):
            best, holder = score, policy
    table.noise_best[row, a], table.noise_best_policy[row, a] = best, holder
    table.noise_scored_at[row, a], table.noise_version[row, a] = now[PATH], np.int64(now[NOW_VERSION])


@compiled(_nrt=False, forceinline=True)
def greedy(table: Table, row: int) -> tuple[int, int, int]:
    """Return action, selected policy and its slot at an up-to-date row. Ties go to the lowest policy, then action."""
    action = 0
    for a in range(1, len(table.actions)):
        before = table.best[row, action], table.best_policy[row, action]
        if preferred(table.best[row, a], table.best_policy[row, a], *before):
            action = a
    policy, slot = np.int64(table.best_policy[row, action]), np.int64(table.best_slot[row, action])
    return action, int(policy), int(slot)


@compiled(_nrt=False, forceinline=True)
def best_action(table: Table, row: int) -> int:
    """Return argmax_a max_i score_i(a) of an up-to-date row; ties go to the lowest action, as in `transfer.gpi`."""
    action = 0
    for a in range(1, len(table.actions)):
        if preferred(table.best[row, a], a, table.best[row, action], action):
            action = a
    return action


@compiled(_nrt=False, forceinline=True)
def greedy_of_slot(table: Table, rule: Rule, row: int, slot: int, coef: Floats) -> int:
    """Return the greedy action of the policy at a slot, in the task with `coef`; ties go to the lowest action."""
    action, best = 0, -np.inf
    for a in range(len(table.actions)):
        if slot >= 0:
            score = entry_score(table, table.row[row, BASE] + slot, coef, a)
        else:
            score = noise_score(table, rule, row, -1 - slot, a, coef)
        if preferred(score, a, best, action):
            action, best = a, score
    return action


@compiled(_nrt=False)
def from_noise(table: Table, rule: Rule, row: int, policy: int, coef: Floats) -> int:
    """Turn a policy's noise at a row into an entry with the same scores, and return the slot of the entry."""
    base, last = table.row[row, NOISE_BASE], table.row[row, NOISE_BASE] + table.row[row, NOISE_COUNT] - 1
    where = base
    while table.noise_policy[where] != policy:
        where += 1
    table.noise_policy[where] = table.noise_policy[last]
    table.row[row, NOISE_COUNT] -= 1
    fresh = append(table, row, np.int64(0))  # a literal 0 has another type, for which numba compiles `append` again
    entry = table.row[row, BASE] + fresh
    table.first_policy[entry] = table.last_policy[entry] = policy
    fill_with_noise(table, rule, row, policy, entry)
    for a in range(len(table.actions)):
        table.score[entry, a] = entry_score(table, entry, coef, a)
        if table.best_slot[row, a] == -1 - policy:
            table.best_slot[row, a] = fresh
        if table.noise_best_policy[row, a] == policy:
            table.noise_best_policy[row, a] = -1
    return fresh


@compiled(_nrt=False, forceinline=True)
def own_slot(table: Table, rule: Rule, row: int, policy: int, slot: int, newest_policy: int, coef: Floats) -> int:
    """Return the slot of an entry that belongs only to `policy`.

    If several policies share the entry at `slot`, `policy` must be the first of them, and gets a copy of the entry.
    """
    if slot < 0:
        return from_noise(table, rule, row, policy, coef)
    if policy == newest_policy or table.last_policy[table.row[row, BASE] + slot] == policy:
        return slot
    fresh = append(table, row, slot)
    base = table.row[row, BASE]
    table.first_policy[base + slot] = policy + 1
    table.first_policy[base + fresh] = table.last_policy[base + fresh] = policy
    for a in range(len(table.actions)):
        if table.best_slot[row, a] == slot:
            table.best_slot[row, a] = fresh
    return fresh


@compiled(_nrt=False, forceinline=True)
def update_cache(table: Table, row: int, slot: int, a: int, coef: Floats, now: Floats) -> None:
    """Update the cached scores of a row after the numbers of one action in one entry have changed."""
    entry = table.row[row, BASE] + slot
    score = entry_score(table, entry, coef, a)
    table.score[entry, a] = score
    best, policy = table.best[row, a], table.first_policy[entry]
    if table.exact_version[row, a] != now[NOW_VERSION]:
        if score > best:
            table.best[row, a] = score
            table.row[row, VERSION] = -1
    elif table.best_slot[row, a] == slot:
        if score >= best:
            table.best[row, a] = score
        else:
            table.exact_version[row, a] = -1
            table.row[row, VERSION] = -1
    elif preferred(score, policy, best, table.best_policy[row, a]):
        table.best[row, a], table.best_slot[row, a], table.best_policy[row, a] = score, slot, policy
