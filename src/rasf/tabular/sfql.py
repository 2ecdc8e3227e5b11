"""(Ra)SFQL, Algorithm 1 of the paper: successor features and their covariance, learned online, transferred by GPI.

One step, in this order (the printed order, with the readings that make it definite):

    c, a    driving policy and action by GPI over all policies at s under the old w_t, epsilon-greedy
    w_t     += alpha_w (r - phi . w_t) phi          (or w_t is given)
    a'      argmax_b max_j score_j(s', b) under the new w_t
    psi, Sigma of the current policy at (s, a), bootstrapped with a'
    psi, Sigma of policy c != t at (s, a), bootstrapped with its own greedy action under its frozen w_c

Terminated: no bootstrap. Truncated (the step limit, the change of task): bootstrap. SFQL is beta = 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.compiled import compiled
from rasf.envs import four_room
from rasf.tabular import scores
from rasf.tabular.table import (
    NEWEST,
    Rule,
    Table,
    add_row,
    find_policy,
    learn_entry,
    new_table,
    newest_slot,
    read,
    reserve,
    set_coefficients,
)


class Rows(NamedTuple):
    """States of a compiled world and their rows: an open-addressing map, and remembered successors."""

    keys: Ints  # (H,) state, or -1
    values: Ints  # (H,) row
    successor: Ints  # (R, A) row after a move, -1 if not yet known


class Memory(NamedTuple):
    """All that a learner of at most K policies holds."""

    rule: Rule
    table: Table
    rows: Rows
    w: Floats  # (K, d) weights of every policy; row t is being learned
    coef: Floats  # (K, m) the scores' coefficients, frozen once a task is over
    now: Floats  # (5,) where w_t stands; the entries are named in `scores`
    after: Floats  # (m,) scratch
    delta: Floats  # (d,) scratch
    phi: Floats  # (d,) scratch


def new_rows(n_rows: int, n_actions: int) -> Rows:
    """An empty map with room for n_rows states, at most a quarter full."""
    size = 1 << int(4 * n_rows - 1).bit_length()
    return Rows(np.full(size, -1), np.zeros(size, np.int32), np.full((n_rows, n_actions), -1, np.int32))


def new_memory(rule: Rule, n_features: int, n_actions: int, max_policies: int) -> Memory:
    """No policies and no states yet; room for states is taken as it is needed."""
    table = new_table(n_features, n_actions, rule.sigma)
    d, m = len(table.features), len(table.numbers)
    rows, w, coef = new_rows(0, n_actions), np.zeros((max_policies, d)), np.zeros((max_policies, m))
    return Memory(rule, table, rows, w, coef, np.zeros(5), np.zeros(m), np.zeros(d), np.zeros(d))


def with_room(memory: Memory, t: int) -> Memory:
    """The memory with room for whatever the next step of task t may need; growing by much keeps this rare."""
    if has_room(memory, t):
        return memory
    table, rows = reserve(memory.table, 64, 16 * (t + 2), 64 * (t + 1)), memory.rows
    if len(rows.successor) < len(table.row):
        rows = new_rows(len(table.row), rows.successor.shape[1])
        put_all(rows, memory.rows)
    return memory._replace(table=table, rows=rows)


@compiled(_nrt=False)
def start_task(memory: Memory, t: int, w: Floats) -> None:
    """Begin task t from the weights w (d,)."""
    for i in range(len(w)):
        memory.w[t, i] = w[i]
    set_coefficients(memory.w[t], memory.rule, memory.coef[t])
    now = memory.now
    now[scores.NOW_VERSION] += 1
    now[scores.TASK_VERSION], now[scores.PATH], now[scores.SIZE] = now[scores.NOW_VERSION], 0.0, 0.0
    for i in range(len(w)):
        now[scores.SIZE] += abs(w[i])
    now[scores.STEEPNESS] = 2.0 * abs(memory.rule.variance_weight) * now[scores.SIZE]


@compiled(_nrt=False, forceinline=True)
def choose(memory: Memory, t: int, row: int) -> tuple[int, int, int]:
    """Greedy action at a row, the policy that drives it, and that policy's slot."""
    scores.ensure_fresh(memory.table, memory.rule, row, memory.coef[t], memory.now)
    return scores.greedy(memory.table, row)


@compiled(_nrt=False, forceinline=True)
def learn(
    memory: Memory, t: int, row: int, action: int, driver: int, driver_slot: int, phi: Floats, next_row: int
) -> None:
    """Update the current and the driving policy on one transition; next_row is -1 after the end."""
    rule, table, coef, now, after = memory.rule, memory.table, memory.coef[t], memory.now, memory.after
    if next_row >= 0:
        scores.ensure_fresh(table, rule, next_row, coef, now)
        lead = scores.best_action(table, next_row)
        read(table, rule, next_row, table.row[next_row, NEWEST], lead, after)
    else:
        for k in range(len(after)):
            after[k] = 0.0
    slot = newest_slot(table, row, t)
    learn_entry(table, rule, row, slot, action, phi, after, memory.delta)
    scores.update_cache(table, row, slot, action, coef, now)
    if driver == t:
        return
    if next_row >= 0:
        next_slot = table.best_slot[next_row, lead]
        if table.best_policy[next_row, lead] != driver:  # often it drives on
            next_slot = find_policy(table, next_row, driver)
        next_action = scores.greedy_of_slot(table, rule, next_row, next_slot, memory.coef[driver])
        read(table, rule, next_row, next_slot, next_action, after)
    slot = scores.own_slot(table, rule, row, driver, driver_slot, t, coef)
    learn_entry(table, rule, row, slot, action, phi, after, memory.delta)
    scores.update_cache(table, row, slot, action, coef, now)


@compiled(_nrt=False, forceinline=True)
def learn_weights(memory: Memory, t: int, phi: Floats, reward: float, alpha_w: float) -> None:
    """One step of stochastic gradient descent on (r - phi . w)^2 / 2; caches go stale only if w changes."""
    w = memory.w[t]
    error = reward
    for i in range(len(phi)):
        error -= phi[i] * w[i]
    moved, size = 0.0, 0.0
    for i in range(len(phi)):
        new = w[i] + alpha_w * error * phi[i]
        moved += abs(new - w[i])
        size += abs(new)
        w[i] = new
    if moved > 0.0:
        set_coefficients(w, memory.rule, memory.coef[t])
        now = memory.now
        now[scores.NOW_VERSION] += 1
        now[scores.PATH] += moved
        now[scores.SIZE] = max(now[scores.SIZE], size)
        now[scores.STEEPNESS] = 2.0 * abs(memory.rule.variance_weight) * now[scores.SIZE]


@compiled(_nrt=False, forceinline=True)
def slot_of(keys: Ints, state: int) -> int:
    """Where a state stands in the map, or would stand."""
    mask = len(keys) - 1
    slot = np.int64((np.uint64(state) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask
    while keys[slot] != state and keys[slot] != -1:
        slot = (slot + 1) & mask
    return int(slot)


@compiled(_nrt=False)
def put_all(rows: Rows, others: Rows) -> None:
    """Enter all states and successors of a smaller map."""
    for row in range(len(others.successor)):
        for a in range(others.successor.shape[1]):
            rows.successor[row, a] = others.successor[row, a]
    for n in range(len(others.keys)):
        if others.keys[n] >= 0:
            slot = slot_of(rows.keys, others.keys[n])
            rows.keys[slot], rows.values[slot] = others.keys[n], others.values[n]


@compiled(_nrt=False, forceinline=True)
def row_of(memory: Memory, t: int, state: int) -> int:
    """The row of a state, made if it is new."""
    rows = memory.rows
    slot = slot_of(rows.keys, state)
    if rows.keys[slot] == -1:
        row = add_row(memory.table, memory.rule, t)
        rows.keys[slot], rows.values[slot] = state, row
        for a in range(rows.successor.shape[1]):
            rows.successor[row, a] = -1
    return rows.values[slot]


@compiled(_nrt=False, forceinline=True)
def has_room(memory: Memory, t: int) -> bool:
    """Whether the pools can take whatever one more step may need."""
    table = memory.table
    return (
        table.used[0] + 2 <= len(memory.rows.successor)
        and table.used[0] + 2 <= len(table.row)
        and table.used[1] + 8 * (t + 2) <= len(table.first_policy)
        and table.used[2] + 2 * (t + 1) <= len(table.noise_policy)
    )


# Entries of `progress`
STEP, CELL, FLAGS, TAKEN, FAILURES, EPISODES = 0, 1, 2, 3, 4, 5


@compiled(_nrt=False)
def run_task(
    world: four_room.RoomArrays,
    step_limit: int,
    memory: Memory,
    t: int,
    rewards: Floats,
    epsilon: float,
    alpha_w: float,
    draws: Floats,
    path: Ints,
    progress: Ints,
    total: Floats,
) -> None:
    """Learn task t of the four-room world until its draws or the pools are used up; `progress` says how far it got.

    `rewards` (d,) are the task's true weights; alpha_w = 0 means that w is given. draws (steps, 3) are uniform: explore
    or not, which action, whether a trap fires. path (steps, 4) is written: state, action, feature or -1, next state or
    -1 after the end. `total` (1,) sums the rewards.
    """
    n_cells, n_actions = world.destination.shape
    cell, flags, taken = progress[CELL], progress[FLAGS], progress[TAKEN]
    phi, successor = memory.phi, memory.rows.successor
    row = -1
    for n in range(progress[STEP], len(draws)):
        if not has_room(memory, t):
            break
        if row < 0:
            row = row_of(memory, t, cell + n_cells * flags)
        action, driver, slot = choose(memory, t, row)
        if draws[n, 0] < epsilon:
            action = int(draws[n, 1] * n_actions)
        path[n, 0], path[n, 1] = cell + n_cells * flags, action
        cell, flags, feature, terminated = four_room.step(world, cell, flags, action, draws[n, 2])
        path[n, 2], path[n, 3] = feature, -1 if terminated else cell + n_cells * flags
        taken += 1
        for i in range(len(phi)):
            phi[i] = 0.0
        if feature >= 0:
            phi[feature] = 1.0
            total[0] += rewards[feature]
            progress[FAILURES] += feature == world.n_classes + 1
            if alpha_w > 0:
                learn_weights(memory, t, phi, rewards[feature], alpha_w)
        next_row = -1
        if not terminated:
            next_row = successor[row, action]
            if next_row < 0:
                next_row = row_of(memory, t, cell + n_cells * flags)
                successor[row, action] = next_row
        learn(memory, t, row, action, driver, slot, phi, next_row)
        row = next_row
        if terminated or taken == step_limit:
            progress[EPISODES] += 1
            cell, flags, taken = world.start, 0, 0
            row = -1
        progress[STEP] = n + 1
    progress[CELL], progress[FLAGS], progress[TAKEN] = cell, flags, taken


@compiled(_nrt=False)
def follow_path(memory: Memory, t: int, rewards: Floats, alpha_w: float, path: Ints, progress: Ints) -> None:
    """Learn task t from steps (n, 4) that another learner took, until they or the pools are used up."""
    phi = memory.phi
    for n in range(progress[STEP], len(path)):
        if not has_room(memory, t):
            break
        row = row_of(memory, t, path[n, 0])
        _, driver, slot = choose(memory, t, row)
        feature = path[n, 2]
        for i in range(len(phi)):
            phi[i] = 0.0
        if feature >= 0:
            phi[feature] = 1.0
            if alpha_w > 0:
                learn_weights(memory, t, phi, rewards[feature], alpha_w)
        next_row = row_of(memory, t, path[n, 3]) if path[n, 3] >= 0 else -1
        learn(memory, t, row, path[n, 1], driver, slot, phi, next_row)
        progress[STEP] = n + 1


@compiled(_nrt=False)
def roll_out(
    world: four_room.RoomArrays,
    memory: Memory,
    t: int,
    coefs: Floats,
    epsilon: float,
    draws: Floats,
    visits: Ints,
    features: Floats,
) -> int:
    """One episode without learning, of at most len(draws) steps, scored with coefs[n] at step n; its length.

    `visits` (cells,) counts the steps' cells, features (d,) adds up phi. -1 means that the pools are full.
    """
    n_cells, n_actions = world.destination.shape
    cell, flags = world.start, 0
    for n in range(len(draws)):
        if not has_room(memory, t):
            return -1
        row = row_of(memory, t, cell + n_cells * flags)
        if n == 0 or len(coefs) > 1:
            for k in range(coefs.shape[1]):
                memory.coef[t, k] = coefs[min(n, len(coefs) - 1), k]
            memory.now[scores.NOW_VERSION] += 1
            memory.now[scores.TASK_VERSION] = memory.now[scores.NOW_VERSION]
        action, _, _ = choose(memory, t, row)
        if draws[n, 0] < epsilon:
            action = int(draws[n, 1] * n_actions)
        cell, flags, feature, terminated = four_room.step(world, cell, flags, action, draws[n, 2])
        visits[cell] += 1
        if feature >= 0:
            features[feature] += 1.0
        if terminated:
            return n + 1
    return len(draws)
