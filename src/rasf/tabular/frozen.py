"""Frozen tabular policies: what learners have learned, packed for storing, scoring and acting.

Policies come in groups, one for each learner that trained some. A *cell* is a state as one group knows it. For every
action of a cell the policies of the group that have learned something there are listed in stretches that hold the same
numbers, psi (d) and the learned entries of Sigma:

    state s    cells states[s] .. states[s + 1], by group
    cell c     of group[c]; for action a, entries[c A + a] .. entries[c A + a + 1], by policy
    entry e    the numbers value[e] (m,) of the group's policies first[e], .., last[e]

A policy in no stretch still holds the noise it began with, Sigma = 0; or, where the group's noise is NO_NOISE, it has
nothing to say there, and takes no part. That is a function of the learner's seed, the row
it gave the state and the policy, so it is drawn again where it is needed, and scored as the learner's own GPI would:
acting with frozen policies is acting with the learner. Most of a row's policies are such, and few of the others have
tried every action, so a four-room run of 128 tasks takes half the learner's memory.

Scores need the mean w . psi and the variance, linear in the entries of Sigma too. Where the risk is mean +
variance_weight variance, `greedy` does all in one pass; for others `slot_moments` lists the moments, the risk turns
them into values, and `best_of` chooses. Noise is certain (no variance), so of all noise only the largest mean counts.

States are found by the numbers of an observation, in a hash map on rows of float64 (open addressing with linear
probing, at most half full). Rows are compared by their bits, so a row finds itself and nothing else; the encoder of
observations gives equal observations equal bits (-0.0 is 0.0).
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

NO_NOISE = -1.0  # of a group whose policies say nothing where they have learned nothing


class Frozen(NamedTuple):
    """S states, C cells, E entries, G groups, A actions; see the header."""

    states: Ints  # (S + 1,) int64
    group: Ints  # (C,) int32
    row: Ints  # (C,) int32, as the learner numbered it
    entries: Ints  # (C A + 1,) int64
    first: Ints  # (E,) int16, within the group
    last: Ints  # (E,) int16
    value: Floats32  # (E, m)
    policies: Ints  # (G + 1,) int64: the group's policies are policies[g] .. policies[g + 1]
    seed: Ints  # (G,) uint64
    noise: Floats  # (G,) float64, the scale of the noise, or NO_NOISE


class StateIndex(NamedTuple):
    """The map from S rows of n numbers to the states 0 .. S - 1."""

    bits: Ints  # (S, n) uint64
    slots: Ints  # (H,) int32, a state or -1; H is a power of 2


class PreparedTask(NamedTuple):
    """A task and a risk, ready for compiled code, and the greedy actions that were found so far."""

    state_index: StateIndex
    frozen: Frozen
    n_actions: int
    w: Floats  # (d,)
    square: Floats  # (m - d,) the variance is square . (learned entries of Sigma)
    size: float  # |w|_1
    linear: bool  # whether the risk is mean + variance_weight variance; else the caller must score states
    variance_weight: float
    known: Ints  # (S,) uint16, 1 + the greedy action of a state, 0 if not yet found


def as_bits(numbers: Floats) -> Ints:
    """float64 numbers as uint64, contiguous and not writable: compiled code then sees one type of array only."""
    bits = np.ascontiguousarray(numbers, np.float64).view(np.uint64)
    bits.setflags(write=False)
    return bits


def make_index(keys: Floats) -> tuple[StateIndex, Ints]:
    """The map of the distinct rows of keys (N, n), numbered as they first come, and the state (N,) of every row."""
    bits, state = as_bits(keys), np.empty(len(keys), np.int64)
    slots = np.full(1 << max(2 * len(keys) - 1, 1).bit_length(), -1, np.int32)
    distinct = enter_all(bits, slots, state)
    if distinct < len(keys):  # the slots hold rows of `keys`, and the index is to have each state once
        return make_index(keys[np.unique(state, return_index=True)[1]])[0], state
    return StateIndex(bits, slots), state


def states_of(index: StateIndex, numbers: Floats) -> npt.NDArray[np.int64]:
    """The states (B,) of observations' numbers (B, n), -1 where there is none."""
    state = np.empty(len(numbers), np.int64)
    find_all(index, as_bits(numbers), state)
    return state


@compiled(_nrt=False, forceinline=True)
def slot_of_row(bits: Ints, slots: Ints, row: Ints) -> int:
    """Where a row stands in the map, or would stand."""
    h = np.uint64(0x9E3779B97F4A7C15)
    for i in range(len(row)):  # small whole numbers differ in the high bits only, so these are folded down
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
    """Whether two rows have the same bits."""
    same = True
    for i in range(len(one)):
        same = same and one[i] == other[i]
    return same


@compiled(_nrt=False)
def enter_all(bits: Ints, slots: Ints, state: Ints) -> int:
    """Enter every row under its own number; `state` says of each which distinct row it is, the result how many."""
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
    """The state of a row, or -1."""
    return int(index.slots[slot_of_row(index.bits, index.slots, row)])


@compiled(_nrt=False)
def find_all(index: StateIndex, rows: Ints, state: Ints) -> None:
    """The state (B,) of every row (B, n), or -1."""
    for n in range(len(rows)):
        state[n] = find(index, rows[n])


@compiled(_nrt=False, forceinline=True)
def noise_number(frozen: Frozen, cell: int, policy: Whole, A: int, a: int, i: int) -> float:
    """What a policy of the cell's group holds before it learns there."""
    g = frozen.group[cell]
    return drawn_psi(frozen.seed[g], frozen.noise[g], frozen.row[cell], policy, A, a, i)


@compiled(_nrt=False, forceinline=True)
def noise_mean(task: PreparedTask, cell: int, policy: Whole, a: int) -> float:
    """psi . w of a policy of the cell's group that has learned nothing there."""
    mean = 0.0
    for i in range(len(task.w)):
        mean += task.w[i] * noise_number(task.frozen, cell, policy, task.n_actions, a, i)
    return mean


@compiled(_nrt=False, forceinline=True)
def entry_mean(task: PreparedTask, e: int) -> float:
    """psi . w."""
    mean = 0.0
    for i in range(len(task.w)):
        mean += task.w[i] * task.frozen.value[e, i]
    return mean


@compiled(_nrt=False, forceinline=True)
def entry_variance(task: PreparedTask, e: int) -> float:
    """w' Sigma w, not clipped; two strands that do not wait for each other."""
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
    """The largest mean among the policies of the cell that hold noise; -inf if none does."""
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
    """argmax_a max_k of mean + variance_weight variance, ties to the lowest action."""
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
            continue  # no noise can be as good
        for a in range(A):
            score = best_noise(task, cell, a)
            if preferred(score, a, best, action):
                best, action = score, a
    return action


@compiled(_nrt=False, forceinline=True)
def act_one(task: PreparedTask, row: Ints) -> int:
    """The greedy action at an observation (n,), 0 at a state never visited; -1 - state if the caller must score it."""
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
    """`act_one` for observations (B, n)."""
    for n in range(len(rows)):
        actions[n] = act_one(task, rows[n])


@compiled(_nrt=False)
def slot_moments(task: PreparedTask, states: Ints, mean: Floats, variance: Floats, ends: Ints) -> int:
    """Moments of all that counts at `states` (n,), one action after the other; `ends` (n A,) tells them apart."""
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
    """Note the greedy action of every state from the values of `slot_moments`; ties go to the lowest action."""
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
    """Mean and variance (K, B, A), not clipped, of every policy at `states` (B,); zeros at -1 and where no cell is.

    has_cell (K, B) says which policies' group knows the state. A policy that has nothing to say has the mean nan.
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
    """learned (S,): whether any policy has changed its first numbers; taken for granted where these were zero."""
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
                        begun = noise_number(frozen, cell, np.int64(frozen.first[e]), A, a, k) if k < d else 0.0
                        learned[state] = learned[state] or frozen.value[e, k] != begun


def freeze(learner: SuccessorLearner) -> Frozen:
    """All that a learner has learned; state s is row s of its table.

    The learner keeps an entry for all actions of a stretch of policies, and copies it when one policy learns one
    action. So the entries are taken apart by action here.
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
    """Entries of one group whose cells are the states; where nothing was learned, it has nothing to say."""
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
    """Policies whose numbers (K, S, A, m) are known where `known` (S, A) says so, with nothing to say elsewhere."""
    K, S, A, _ = values.shape
    begins = np.ones((K, S, A), np.bool_)
    begins[1:] = (values[1:] != values[:-1]).any(axis=3)  # a stretch of policies with the same numbers is one entry
    begins &= known
    order = np.moveaxis(begins, 0, 2)  # by state, action, policy
    s, a, first = np.nonzero(order)
    # a stretch ends before the next one of the same state and action begins
    same = np.zeros(len(first), np.bool_)
    same[:-1] = (s[1:] == s[:-1]) & (a[1:] == a[:-1])
    last = np.where(same, np.append(first[1:], 0) - 1, K - 1)
    entries = np.concatenate([[0], np.cumsum(order.sum(axis=2).ravel())]).astype(np.int64)
    value = np.ascontiguousarray(values[first, s, a])
    return _one_group(entries, first.astype(np.int16), last.astype(np.int16), value, A, K)


@compiled(_nrt=False)
def pack(table: Table, rule: Rule, source: Ints, ends: Ints, newest: int, found: Frozen) -> int:
    """Write the entries found, from the table's entries `source` in the order of rows and policies; their number.

    What is a policy's own noise is left out; neighbours with the same numbers become one stretch.
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
    """Whether an entry's numbers for action a are those that the policy began with."""
    d, A, same = len(table.features), len(table.actions), True
    for k in range(len(table.numbers)):
        begun = drawn_psi(rule.seed, rule.noise_scale, row, policy, A, a, k) if k < d else 0.0
        same = same and table.value[entry, a, k] == begun
    return same


def merge(keys: Sequence[Floats], tables: Sequence[Frozen], A: int) -> tuple[Floats, Frozen]:
    """One table of all states (keys (S, n) of each table) and of all groups, the tables' one after the other."""
    groups = np.cumsum([0, *(len(table.seed) for table in tables)])
    policies = np.cumsum([0, *(table.policies[-1] for table in tables)])
    index, state = make_index(np.concatenate(keys))
    cells = np.concatenate([np.diff(table.states) for table in tables])
    # cells come by table, state and group, so that a stable sort by state keeps the groups in order
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
