"""SFQL and RaSFQL (Algorithm 1 of the paper): psi and Sigma are learned online on tables, and transferred by GPI.

A step in task t, from state s to s', is done in the order of the paper:

    c, a    selected policy and action at s: epsilon-greedy, by GPI over all policies for the old w_t
    w_t     += alpha_w (r - phi . w_t) phi          (unless w_t is given)
    a'      argmax_b max_j score_j(s', b) for the new w_t
    policy t         update psi and Sigma at (s, a), bootstrapped with a'
    policy c != t    update psi and Sigma at (s, a), bootstrapped with its own greedy action for its frozen w_c

Updates bootstrap at truncation (step limit, change of task), but not at termination. SFQL is the case beta = 0.
`run_task` and `follow_path` learn from a stretch, a sequence of steps in a compiled world (`rasf.tabular.stretch`).
Shapes: d features, A actions, m = d + the number of learned entries of Sigma.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rasf.arrays import Floats
from rasf.compiled import compiled
from rasf.envs.tabular_world import WorldArrays
from rasf.tabular import scores
from rasf.tabular.stretch import STATE, STEP, Rows, Stretch, advance, enlarged, enter, new_rows, slot_of
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


class Memory(NamedTuple):
    """The state of a learner of at most K policies."""

    rule: Rule
    table: Table
    rows: Rows
    w: Floats  # (K, d) weights of every policy; the weights of the current task t may be learned
    coef: Floats  # (K, m) coefficients of every policy's scores, which change only during the policy's task
    now: Floats  # (5,) how w_t has changed; `scores` names the entries
    after: Floats  # (m,) work space
    delta: Floats  # (d,) work space


def new_memory(rule: Rule, n_features: int, n_actions: int, max_policies: int) -> Memory:
    """Return a memory without policies and states."""
    table = new_table(n_features, n_actions, rule.sigma)
    d, m = len(table.features), len(table.numbers)
    rows, w, coef = new_rows(0, n_actions), np.zeros((max_policies, d)), np.zeros((max_policies, m))
    return Memory(rule, table, rows, w, coef, np.zeros(5), np.zeros(m), np.zeros(d))


def with_room(memory: Memory, t: int) -> Memory:
    """Return the memory with enough room for the next step of task t; full arrays grow by large factors."""
    if has_room(memory, t):
        return memory
    table, rows = reserve(memory.table, 64, 16 * (t + 2), 64 * (t + 1)), memory.rows
    if len(rows.successor) < len(table.row):
        rows = enlarged(rows, len(table.row), int(table.used[0]))
    return memory._replace(table=table, rows=rows)


@compiled(_nrt=False)
def start_task(memory: Memory, t: int, w: Floats) -> None:
    """Begin task t with the weights w (d,)."""
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
    """Return the greedy action at a row, the selected policy, and the slot of this policy (`rasf.tabular.table`)."""
    scores.ensure_fresh(memory.table, memory.rule, row, memory.coef[t], memory.now)
    return scores.greedy(memory.table, row)


@compiled(_nrt=False, forceinline=True)
def learn(
    memory: Memory,
    t: int,
    row: int,
    action: int,
    chosen: tuple[int, int, int],
    phi: Floats,
    reward: float,
    next_row: int,
) -> None:
    """Learn from one transition.

    Args:
        memory: the state of the learner.
        t: the current task.
        row: row of the state.
        action: the action taken.
        chosen: the result of `choose` at the row.
        phi: features (d,) of the step.
        reward: reward of the step, which is used only if weights are learned.
        next_row: row of the next state, -1 at termination.
    """
    if memory.rule.alpha_w > 0.0:
        learn_weights(memory, t, phi, reward)
    _, source, source_slot = chosen
    rule, table, coef, now, after = memory.rule, memory.table, memory.coef[t], memory.now, memory.after
    if next_row >= 0:
        scores.ensure_fresh(table, rule, next_row, coef, now)
        next_greedy = scores.best_action(table, next_row)
        read(table, rule, next_row, table.row[next_row, NEWEST], next_greedy, after)
    else:
        for k in range(len(after)):
            after[k] = 0.0
    slot = newest_slot(table, row, t)
    learn_entry(table, rule, row, slot, action, phi, after, memory.delta)
    scores.update_cache(table, row, slot, action, coef, now)
    if source == t:
        return
    if next_row >= 0:
        next_slot = table.best_slot[next_row, next_greedy]
        if table.best_policy[next_row, next_greedy] != source:  # in most cases the policies are equal: no search
            next_slot = find_policy(table, next_row, source)
        next_action = scores.greedy_of_slot(table, rule, next_row, next_slot, memory.coef[source])
        read(table, rule, next_row, next_slot, next_action, after)
    slot = scores.own_slot(table, rule, row, source, source_slot, t, coef)
    learn_entry(table, rule, row, slot, action, phi, after, memory.delta)
    scores.update_cache(table, row, slot, action, coef, now)


@compiled(_nrt=False, forceinline=True)
def learn_weights(memory: Memory, t: int, phi: Floats, reward: float) -> None:
    """Take one step of stochastic gradient descent on (r - phi . w)^2 / 2."""
    w, alpha_w = memory.w[t], memory.rule.alpha_w
    error = reward
    for i in range(len(phi)):
        error -= phi[i] * w[i]
    if error == 0.0:
        return
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
def row_of(memory: Memory, t: int, state: int) -> int:
    """Return the row of a state; add a row if the state is new."""
    rows = memory.rows
    slot = slot_of(rows.keys, state)
    if rows.keys[slot] == -1:
        enter(rows, slot, state, add_row(memory.table, memory.rule, t))
    return int(np.int64(rows.values[slot]))  # with several integer types, numba would compile all functions twice


@compiled(_nrt=False, forceinline=True)
def row_after(memory: Memory, t: int, row: int, action: int, state: int) -> int:
    """Return the row of the next state, -1 at termination. The row that last followed the action is checked first."""
    if state < 0:
        return -1
    rows = memory.rows
    known = rows.successor[row, action]
    if known < 0 or rows.state[known] != state:
        known = row_of(memory, t, state)
        rows.successor[row, action] = known
    return known


@compiled(_nrt=False, forceinline=True)
def has_room(memory: Memory, t: int) -> bool:
    """Return whether all arrays have room for another step."""
    table = memory.table
    return (
        table.used[0] + 2 <= len(memory.rows.successor)
        and table.used[0] + 2 <= len(table.row)
        and table.used[1] + 8 * (t + 2) <= len(table.first_policy)
        and table.used[2] + 2 * (t + 1) <= len(table.noise_policy)
    )


@compiled(_nrt=False)
def run_task(world: WorldArrays, memory: Memory, t: int, stretch: Stretch) -> None:
    """Act and learn in task t in a compiled world, until the stretch is done or an array of the memory is full."""
    draws, n_actions = stretch.draws, len(memory.table.actions)
    row = -1
    for n in range(stretch.progress[STEP], len(draws)):
        if not has_room(memory, t):
            break
        if row < 0:
            row = row_of(memory, t, stretch.progress[STATE])
        chosen = choose(memory, t, row)
        action = chosen[0]
        if draws[n, 0] < stretch.epsilon:
            action = int(draws[n, 1] * n_actions)
        kind, state, over = advance(world, stretch, action)
        next_row = row_after(memory, t, row, action, state)
        learn(memory, t, row, action, chosen, stretch.kinds[kind], stretch.rewards[kind], next_row)
        row = -1 if over else next_row


@compiled(_nrt=False)
def follow_path(memory: Memory, t: int, stretch: Stretch) -> None:
    """Learn task t from the steps of another learner's stretch, until they end or an array of the memory is full."""
    path, progress = stretch.path, stretch.progress
    for n in range(progress[STEP], len(path)):
        if not has_room(memory, t):
            break
        row = row_of(memory, t, path[n, 0])
        chosen = choose(memory, t, row)
        next_row = row_after(memory, t, row, path[n, 1], path[n, 3])
        kind = path[n, 2]
        learn(memory, t, row, path[n, 1], chosen, stretch.kinds[kind], stretch.rewards[kind], next_row)
        progress[STEP] = n + 1
