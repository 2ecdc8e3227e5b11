"""Frozen tabular policies: the tables of trained learners, packed for storing, scoring and acting.

A *group* consists of the policies that one learner has trained. A *cell* is a pair of a group and a state that this
learner has visited. An *entry* belongs to one action of a cell and to a range of consecutive policies. The entry holds
the m numbers that these policies share: psi (d numbers) and the learned entries of Sigma. With A actions:

    state s    has the cells states[s] .. states[s + 1] - 1, ordered by group
    cell c     belongs to group[c]; its action a has entries entries[c A + a] .. entries[c A + a + 1] - 1, by policy
    entry e    holds the numbers value[e] (m,) of the group's policies first[e] .. last[e]

A policy that has learned nothing for an action has no entry. Its psi is still the *initial noise*, the random numbers
with which learning begins, and its Sigma is 0. In a group whose noise is NO_NOISE, a policy without an entry is
skipped. The noise is a function of the learner's seed, the learner's row for the state, and the policy. It is
recomputed when needed, and scored as in the learner's own GPI, so frozen policies act exactly as the learner does. At a
state, most policies have only noise, and few policies have tried every action. So the frozen policies of 128 four-room
tasks take half the learner's memory.

A score needs the mean w . psi and the variance w' Sigma w, which is linear in the entries of Sigma. If the risk has the
form mean + c * variance, `greedy` finds the best action in one pass. For other risks, `slot_moments` lists means and
variances, the caller computes their scores by the risk, and `best_of` selects the actions. All policies with only noise
have variance 0, so the largest of their means is enough.

A hash map finds states by their observations (open addressing with linear probing, at most half full). The keys of the
map are rows of float64, which are compared bit by bit. The encoder of observations gives equal observations equal bits
(-0.0 becomes 0.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Bools, Floats, Floats32, Ints, Whole
from rasf.compiled import compiled
from rasf.tabular.learner import SuccessorLearner
from rasf.tabular.table import BASE, COUNT, Rule, Table, drawn_psi, largest_noise
from rasf.transfer import preferred

NO_NOISE = -1.0  # noise scale of a group whose policies are skipped where they have learned nothing


class Frozen(NamedTuple):
    """Packed policies with S states, C cells, E entries, G groups and A actions, as the module docstring explains."""

    states: Ints  # (S + 1,) int64, the first cell of each state, then C
    group: Ints  # (C,) int32, the group of each cell
    row: Ints  # (C,) int32, the row that the group's learner has for the cell's state
    entries: Ints  # (C A + 1,) int64, the first entry of each cell and action, then E
    first: Ints  # (E,) int16, the first policy of the range, numbered within the group
    last: Ints  # (E,) int16, the last policy of the range, numbered within the group
    value: Floats32  # (E, m) psi and the learned entries of Sigma
    policies: Ints  # (G + 1,) int64, group g has the policies policies[g] .. policies[g + 1] - 1
    seed: Ints  # (G,) uint64, the seed of each group's learner
    noise: Floats  # (G,) float64, the scale of each group's noise, or NO_NOISE


class StateIndex(NamedTuple):
    """A hash map with H slots from S observations, rows of n numbers, to the states 0 .. S - 1."""

    bits: Ints  # (S, n) uint64, the bits of the observations
    slots: Ints  # (H,) int32, the state in each slot, -1 in a free slot; H is a power of 2


class PreparedTask(NamedTuple):
    """A task and a risk in the form that compiled code needs, and the greedy actions found so far."""

    state_index: StateIndex
    frozen: Frozen
    n_actions: int
    w: Floats  # (d,) the weights of the task
    square: Floats  # (m - d,) factors of the learned entries of Sigma in the variance w' Sigma w
    size: float  # the sum of |w_i|, which bounds the means of initial noise
    linear: bool  # whether the risk is mean + variance_weight * variance; otherwise the caller must score states
    variance_weight: float
    known: Ints  # (S,) uint16, 1 + the greedy action of a state, 0 if not yet found


def as_bits(numbers: Floats) -> Ints:
    """Return the bits of float64 numbers as a contiguous read-only uint64 array, the type that code is compiled for."""
    bits = np.ascontiguousarray(numbers, np.float64).view(np.uint64)
    bits.setflags(write=False)
    return bits


def make_index(keys: Floats) -> tuple[StateIndex, Ints]:
    """Return a map from the distinct rows of `keys` (N, n) to states, and the state of every row (N,).

    States are numbered in the order in which the rows first occur.
    """
    bits, state = as_bits(keys), np.empty(len(keys), np.int64)
    slots = np.full(1 << max(2 * len(keys) - 1, 1).bit_length(), -1, np.int32)
    distinct = enter_all(bits, slots, state)
    if distinct < len(keys):  # `slots` has row numbers, which are states only if all rows are distinct; so start again
        return make_index(keys[np.unique(state, return_index=True)[1]])[0], state
    return StateIndex(bits, slots), state


def states_of(index: StateIndex, numbers: Floats) -> npt.NDArray[np.int64]:
    """Return the state (B,) of each of B observations (B, n), -1 for an unknown observation."""
    state = np.empty(len(numbers), np.int64)
    find_all(index, as_bits(numbers), state)
    return state


@compiled(_nrt=False, forceinline=True)
def slot_of_row(bits: Ints, slots: Ints, row: Ints) -> int:
    """Return the slot of a row in the map, or the free slot for this row if the map does not contain it."""
    h = np.uint64(0x9E3779B97F4A7C15)
    # small whole numbers in float64 differ only in the high bits; mix these into the low bits
    for i in range(len(row)):
        h = (h ^ row[i]) * np.uint64(0xD6E8FEB86659FD93)
        h ^= h >> np.uint64(32)
    h *= np.uint64(0xD6E8FEB86659FD93)
    mask = len(slots) - 1
    slot = int(np.int64((h ^ (h >> np.uint64(32))) & np.uint64(0x7FFFFFFF))) & mask
    while slots[slot] >= 0 and not same_row(bits[slots[slot]], row):
        slot = (slot + 1) & mask
    return slot


@compiled(_nrt=False, forceinline=True)
def same_row(one: Ints, other: Ints) -> bool:
    """Return whether two rows have the same bits."""
    same = True
    for i in range(len(one)):
        same = same and one[i] == other[i]
    return same


@compiled(_nrt=False)
def enter_all(bits: Ints, slots: Ints, state: Ints) -> int:
    """Enter all rows in the map, write their states to `state` (N,), and return the number of distinct rows."""
    distinct = 0
    for n in range(len(bits)):
        slot = slot_of_row(bits, slots, bits[n])
        if slots[slot] >= 0:
            state[n] = state[slots[slot]]
        else:
            slots[slot] = n
            state[n] = distinct
            distinct += 1
    return distinct


@compiled(_nrt=False, forceinline=True)
def find(index: StateIndex, row: Ints) -> int:
    """Return the state of an observation (n,), or -1 if the observation is unknown."""
    return int(index.slots[slot_of_row(index.bits, index.slots, row)])


@compiled(_nrt=False)
def find_all(index: StateIndex, rows: Ints, state: Ints) -> None:
    """Write the state of every observation (B, n), or -1 if it is unknown, to `state` (B,)."""
    for n in range(len(rows)):
        state[n] = find(index, rows[n])


@compiled(_nrt=False, forceinline=True)
def noise_number(frozen: Frozen, cell: int, policy: Whole, A: int, a: int, i: int) -> float:
    """Return number i of the initial psi that a policy of the cell's group has for action a."""
    g = frozen.group[cell]
    return drawn_psi(frozen.seed[g], frozen.noise[g], frozen.row[cell], policy, A, a, i)


@compiled(_nrt=False, forceinline=True)
def noise_mean(task: PreparedTask, cell: int, policy: Whole, a: int) -> float:
    """Return the mean psi . w of a policy with only initial noise. `policy` is its number within the cell's group."""
    mean = 0.0
    for i in range(len(task.w)):
        mean += task.w[i] * noise_number(task.frozen, cell, policy, task.n_actions, a, i)
    return mean


@compiled(_nrt=False, forceinline=True)
def entry_mean(task: PreparedTask, e: int) -> float:
    """Return the mean psi . w of an entry."""
    mean = 0.0
    for i in range(len(task.w)):
        mean += task.w[i] * task.frozen.value[e, i]
    return mean


@compiled(_nrt=False, forceinline=True)
def entry_variance(task: PreparedTask, e: int) -> float:
    """Return the variance w' Sigma w of an entry. As an estimate it may be negative."""
    # two independent sums are faster than one
    even = odd = 0.0
    d, n, square, value = len(task.w), len(task.square), task.square, task.frozen.value
    for k in range(0, n - 1, 2):
        even += square[k] * value[e, d + k]
        odd += square[k + 1] * value[e, d + k + 1]
    if n % 2 == 1:
        even += square[n - 1] * value[e, d + n - 1]
    return even + odd


@compiled(_nrt=False)
def best_noise(task: PreparedTask, cell: int, a: int) -> float:
    """Return the largest mean of the policies with only noise for the action, -inf if there is no such policy."""
    frozen, A = task.frozen, task.n_actions
    g, best, policy = frozen.group[cell], -np.inf, np.int64(0)
    if frozen.noise[g] < 0.0:
        return best
    stop = frozen.entries[cell * A + a + 1]
    for e in range(frozen.entries[cell * A + a], stop + 1):
        below = np.int64(frozen.first[e]) if e < stop else frozen.policies[g + 1] - frozen.policies[g]
        while policy < below:
            best = max(best, noise_mean(task, cell, policy, a))
            policy += 1
        if e < stop:
            policy = np.int64(frozen.last[e]) + 1
    return best


@compiled(_nrt=False)
def greedy(task: PreparedTask, state: int) -> int:
    """Return argmax_a max_k (mean + variance_weight * variance), for policies k; ties go to the lowest action."""
    frozen, A, best, action = task.frozen, task.n_actions, -np.inf, 0
    for cell in range(frozen.states[state], frozen.states[state + 1]):
        for a in range(A):
            for e in range(frozen.entries[cell * A + a], frozen.entries[cell * A + a + 1]):
                score = entry_mean(task, e) + task.variance_weight * max(entry_variance(task, e), 0.0)
                if preferred(score, a, best, action):
                    best, action = score, a
    for cell in range(frozen.states[state], frozen.states[state + 1]):
        noise = frozen.noise[frozen.group[cell]]
        if noise < 0.0 or largest_noise(noise) * task.size < best:
            continue  # no policy with only noise can reach the best score
        for a in range(A):
            score = best_noise(task, cell, a)
            if preferred(score, a, best, action):
                best, action = score, a
    return action


@compiled(_nrt=False, forceinline=True)
def act_one(task: PreparedTask, row: Ints) -> int:
    """Return the greedy action at an observation (n,), 0 if it is unknown, -1 - state if the caller must score it."""
    state = find(task.state_index, row)
    if state < 0:
        return 0
    if task.known[state] == 0:
        if not task.linear:
            return -1 - state
        task.known[state] = 1 + greedy(task, state)
    return int(task.known[state]) - 1


@compiled(_nrt=False)
def act_all(task: PreparedTask, rows: Ints, actions: Ints) -> None:
    """Write the result of `act_one` for observations (B, n) to `actions` (B,)."""
    for n in range(len(rows)):
        actions[n] = act_one(task, rows[n])


@compiled(_nrt=False)
def slot_moments(task: PreparedTask, states: Ints, mean: Floats, variance: Floats, ends: Ints) -> int:
    """List the mean and variance of all candidates at `states` (n,), and return the number of candidates.

    The candidates of a state and action are the entries of its cells, and for each cell the largest mean of policies
    with only noise.

    Args:
        task: the task and risk.
        states: states (n,) to score.
        mean: the means are written here, ordered by state and action.
        variance: the variances are written here, in the same order.
        ends: the end of the list of each state and action is written here, (n A,).
    """
    frozen, A, used = task.frozen, task.n_actions, 0
    for n in range(len(states)):
        for a in range(A):
            for cell in range(frozen.states[states[n]], frozen.states[states[n] + 1]):
                for e in range(frozen.entries[cell * A + a], frozen.entries[cell * A + a + 1]):
                    mean[used], variance[used] = entry_mean(task, e), max(entry_variance(task, e), 0.0)
                    used += 1
                noise = best_noise(task, cell, a)
                if noise > -np.inf:
                    mean[used], variance[used] = noise, 0.0
                    used += 1
            ends[n * A + a] = used
    return used


@compiled(_nrt=False)
def best_of(values: Floats, ends: Ints, A: int, states: Ints, known: Ints) -> None:
    """Store greedy actions in `known`, given the scores of the candidates of `slot_moments`; ties as in `greedy`."""
    k = 0
    for n in range(len(states)):
        best, action = -np.inf, 0
        for a in range(A):
            while k < ends[n * A + a]:
                if preferred(values[k], a, best, action):
                    best, action = values[k], a
                k += 1
        known[states[n]] = 1 + action


@compiled(_nrt=False)
def policy_moments(task: PreparedTask, states: Ints, mean: Floats, variance: Floats, has_cell: Ints) -> None:
    """Write the means and the variances (not clipped at 0) of K policies at B states.

    Args:
        task: the task; its risk is not used.
        states: states (B,); -1 for an unknown state.
        mean: zeros (K, B, A) to write the means to. They stay zero where a policy has no cell, and become nan where a
            policy is skipped.
        variance: zeros (K, B, A) to write the variances to. They stay zero where a policy has no entry.
        has_cell: an array (K, B) of False; True is written where the policy's group has a cell for the state.
    """
    frozen, A = task.frozen, task.n_actions
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
                        mean[j, b, a], variance[j, b, a] = entry_mean(task, e), entry_variance(task, e)
                    elif frozen.noise[frozen.group[cell]] < 0.0:
                        mean[j, b, a] = np.nan
                    else:
                        mean[j, b, a] = noise_mean(task, cell, j - base, a)


@compiled(_nrt=False)
def mark_learned(frozen: Frozen, A: int, d: int, learned: Bools) -> None:
    """Set learned (S,) to True in states where any policy has learned.

    A policy has learned if it differs from its initial noise, or in a group with NO_NOISE if it has an entry. If the
    scale of a group's noise is 0, initial and learned zeros look the same, so all states of the group count as learned.
    """
    for state in range(len(learned)):
        for cell in range(frozen.states[state], frozen.states[state + 1]):
            noise = frozen.noise[frozen.group[cell]]
            some = frozen.entries[(cell + 1) * A] > frozen.entries[cell * A]
            learned[state] = learned[state] or noise == 0.0 or (noise < 0.0 and some)
            for a in range(A):
                for e in range(frozen.entries[cell * A + a], frozen.entries[cell * A + a + 1]):
                    if learned[state]:
                        break
                    for k in range(frozen.value.shape[1]):
                        initial = noise_number(frozen, cell, np.int64(frozen.first[e]), A, a, k) if k < d else 0.0
                        learned[state] = learned[state] or frozen.value[e, k] != initial


def freeze(learner: SuccessorLearner) -> Frozen:
    """Return the policies of a learner in packed form; state s is row s of its table.

    An entry of the learner's table has the numbers of all actions, although a policy may have learned only one. A
    packed entry has those of one action.
    """
    if learner.task < 0:
        raise ValueError("learner must have begun a task, got one without policies")
    table, rule, A, S = learner.memory.table, learner.memory.rule, learner.n_actions, learner.states
    count = table.row[:S, COUNT]
    ends = np.cumsum(count)
    source = np.arange(count.sum()) + np.repeat(table.row[:S, BASE] - ends + count, count)
    source = source[np.lexsort((table.first_policy[source], np.repeat(np.arange(S), count)))]
    room, m = len(source) * A, table.value.shape[2]
    first, last, value = np.empty(room, np.int16), np.empty(room, np.int16), np.empty((room, m), np.float32)
    found = _one_group(np.zeros(S * A + 1, np.int64), first, last, value, A, learner.task + 1)
    used = pack(table, rule, source, ends, learner.task, found)
    return found._replace(
        first=first[:used].copy(),
        last=last[:used].copy(),
        value=value[:used].copy(),
        seed=np.array([learner.seed], np.uint64),
        noise=np.array([rule.noise_scale]),
    )


def _one_group(entries: Ints, first: Ints, last: Ints, value: Floats32, A: int, policies: int) -> Frozen:
    """Return the arrays of a single group that has a cell for every state, and NO_NOISE as its noise."""
    S = (len(entries) - 1) // A
    return Frozen(
        states=np.arange(S + 1),
        group=np.zeros(S, np.int32),
        row=np.arange(S, dtype=np.int32),
        entries=entries,
        first=first,
        last=last,
        value=value,
        policies=np.array([0, policies]),
        seed=np.zeros(1, np.uint64),
        noise=np.full(1, NO_NOISE),
    )


def freeze_tables(values: Floats32, known: Bools) -> Frozen:
    """Pack policies that are given as arrays.

    Args:
        values: psi and entries of Sigma (K, S, A, m) of K policies.
        known: whether the values are valid, for each state and action (S, A). Elsewhere the policies are skipped.

    Returns:
        The packed policies, in one group.
    """
    K, S, A, _ = values.shape
    begins = np.ones((K, S, A), np.bool_)
    begins[1:] = (values[1:] != values[:-1]).any(axis=3)  # consecutive policies with the same numbers share an entry
    begins &= known
    order = np.moveaxis(begins, 0, 2)  # axes: state, action, policy
    s, a, first = np.nonzero(order)
    # a range ends before the next range of the same state and action begins
    same = np.zeros(len(first), np.bool_)
    same[:-1] = (s[1:] == s[:-1]) & (a[1:] == a[:-1])
    last = np.where(same, np.append(first[1:], 0) - 1, K - 1)
    entries = np.concatenate([[0], np.cumsum(order.sum(axis=2).ravel())]).astype(np.int64)
    value = np.ascontiguousarray(values[first, s, a])
    return _one_group(entries, first.astype(np.int16), last.astype(np.int16), value, A, K)


@compiled(_nrt=False)
def pack(table: Table, rule: Rule, source: Ints, ends: Ints, newest: int, found: Frozen) -> int:
    """Pack the entries of a learner's table, and return the number of packed entries.

    Entries with a policy's initial noise are left out. Neighbouring policies with the same numbers share an entry.

    Args:
        table: the learner's table.
        rule: the learner's constants, which determine the noise.
        source: the entries of the table to pack, ordered by row and policy.
        ends: the index (S,) in `source` at which the entries of each row end.
        newest: the newest policy.
        found: arrays with enough room, to which the packed entries are written.
    """
    entries, first, last, value = found.entries, found.first, found.last, found.value
    A, m = len(table.actions), len(table.numbers)
    used = 0
    for row in range(len(ends)):
        begin = ends[row - 1] if row > 0 else 0
        for a in range(A):
            since = used
            for entry in source[begin : ends[row]]:
                low, high = int(table.first_policy[entry]), min(int(table.last_policy[entry]), newest)
                if low == high and is_noise(table, rule, entry, row, low, a):
                    continue
                same = used > since and last[used - 1] == low - 1
                for k in range(m):
                    same = same and value[used - 1, k] == table.value[entry, a, k]
                if same:
                    last[used - 1] = high
                    continue
                first[used], last[used] = low, high
                for k in range(m):
                    value[used, k] = table.value[entry, a, k]
                used += 1
            entries[row * A + a + 1] = used
    return used


@compiled(_nrt=False, forceinline=True)
def is_noise(table: Table, rule: Rule, entry: int, row: int, policy: int, a: int) -> bool:
    """Return whether an entry's numbers for action a equal the initial numbers of the policy."""
    d, A, same = len(table.features), len(table.actions), True
    for k in range(len(table.numbers)):
        initial = drawn_psi(rule.seed, rule.noise_scale, row, policy, A, a, k) if k < d else 0.0
        same = same and table.value[entry, a, k] == initial
    return same


def merge(keys: Sequence[Floats], tables: Sequence[Frozen], A: int) -> tuple[Floats, Frozen]:
    """Merge tables into one table with the states and groups of all tables.

    Args:
        keys: the observations (S, n) of each table's states.
        tables: the tables; their groups and policies are numbered in this order.
        A: the number of actions.

    Returns:
        The observations of the states of the merged table, and the table.
    """
    groups = np.cumsum([0, *(len(table.seed) for table in tables)])
    policies = np.cumsum([0, *(table.policies[-1] for table in tables)])
    index, state = make_index(np.concatenate(keys))
    cells = np.concatenate([np.diff(table.states) for table in tables])
    # cells are ordered by table, state and group, so a stable sort by state keeps the groups in order
    owner = np.repeat(state, cells)
    order = np.argsort(owner, kind="stable")
    counts = np.concatenate([np.diff(table.entries) for table in tables]).reshape(-1, A)
    total = counts.sum(axis=1)
    begins, taken = (np.cumsum(total) - total)[order], total[order]
    chosen = np.arange(taken.sum()) + np.repeat(begins - np.cumsum(taken) + taken, taken)
    group = np.concatenate([table.group + groups[k] for k, table in enumerate(tables)])
    firsts = np.concatenate([table.policies[:-1] + policies[k] for k, table in enumerate(tables)])
    return index.bits.view(np.float64), Frozen(
        states=np.searchsorted(owner[order], np.arange(len(index.bits) + 1)),
        group=group[order].astype(np.int32),
        row=np.concatenate([table.row for table in tables])[order],
        entries=np.concatenate([[0], np.cumsum(counts[order])]),
        first=np.concatenate([table.first for table in tables])[chosen],
        last=np.concatenate([table.last for table in tables])[chosen],
        value=np.concatenate([table.value for table in tables])[chosen],
        policies=np.append(firsts, policies[-1]),
        seed=np.concatenate([table.seed for table in tables]),
        noise=np.concatenate([table.noise for table in tables]),
    )
