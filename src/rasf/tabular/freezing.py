"""From learners to frozen policies: which states were met, what the policies hold there, and several made one.

The learner keeps an entry for all actions of a stretch of policies, and copies it when one policy learns one action. So
what is frozen is taken apart by action: numbers that are still a policy's own noise are left out, neighbours that hold
the same numbers become one stretch. A four-room run of 128 tasks takes half the learner's memory then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.compiled import compiled
from rasf.envs.four_room import FourRoom
from rasf.tabular.frozen import Frozen
from rasf.tabular.learner import SuccessorLearner
from rasf.tabular.state_index import make_index
from rasf.tabular.table import BASE, COUNT, Rule, Table, drawn_psi


class Visited(NamedTuple):
    """States a learner has met: what identifies them, and their rows."""

    keys: Floats  # (S, n)
    rows: Ints  # (S,)


def visited_from_python(learner: SuccessorLearner, size: int) -> Visited:
    """The states of a learner whose keys are the bytes of `size` float64 numbers."""
    keys = list(learner.row_of_key)
    if len(keys) != learner.table.used[0]:
        raise ValueError("learner must have been stepped from Python, got one that learned in a compiled world")
    for key in keys:
        if not isinstance(key, bytes) or len(key) != 8 * size:
            raise ValueError(f"learner must have keys that are the bytes of {size} float64 numbers, got {key!r}")
    numbers = np.frombuffer(b"".join(key for key in keys if isinstance(key, bytes)), np.float64)
    return Visited(numbers.reshape(len(keys), size), np.array(list(learner.row_of_key.values()), np.int64))


def visited_in_four_room(learner: SuccessorLearner, rooms: FourRoom) -> Visited:
    """The states of a learner of `learn_four_room`, as `rasf/FourRoom-v0` shows them: row, column, collected flags."""
    taken = learner.rows.keys >= 0
    state, rows = learner.rows.keys[taken], learner.rows.values[taken].astype(np.int64)
    if len(state) == 0 or len(state) != learner.table.used[0]:
        raise ValueError("learner must have learned in the four-room world, got one without states of it")
    flags, cell = np.divmod(state, len(rooms.cells))
    objects = len(rooms.world().class_of)
    if flags.max() >> objects:
        raise ValueError(f"rooms must be the map that was learned, got one with {objects} objects only")
    collected = flags[:, None] >> np.arange(objects) & 1
    keys = np.column_stack([cell // rooms.shape[1], cell % rooms.shape[1], collected]).astype(np.float64)
    by_row = np.argsort(rows)  # the map's own order depends on how it grew
    return Visited(keys[by_row], rows[by_row])


def freeze(learner: SuccessorLearner, rows: Ints) -> Frozen:
    """What a learner has learned at these rows (S,)."""
    if learner.task < 0:
        raise ValueError("learner must have begun a task, got one without policies")
    table, A = learner.table, learner.n_actions
    count = table.row[rows, COUNT]
    ends = np.cumsum(count)
    source = np.arange(count.sum()) + np.repeat(table.row[rows, BASE] - ends + count, count)
    source = source[np.lexsort((table.first_policy[source], np.repeat(np.arange(len(rows)), count)))]
    entries = np.zeros(len(rows) * A + 1, np.int64)
    first, last = np.empty(len(source) * A, np.int16), np.empty(len(source) * A, np.int16)
    value = np.empty((len(source) * A, table.value.shape[2]), np.float32)
    used = pack(table, learner.rule, rows, source, ends, learner.task, entries, first, last, value)
    return Frozen(
        states=np.arange(len(rows) + 1),
        group=np.zeros(len(rows), np.int32),
        row=rows.astype(np.int32),
        entries=entries,
        first=first[:used].copy(),
        last=last[:used].copy(),
        value=value[:used].copy(),
        policies=np.array([0, learner.task + 1]),
        seed=np.array([learner.seed], np.uint64),
        noise=np.array([learner.rule.noise_scale]),
    )


@compiled(_nrt=False)
def pack(
    table: Table,
    rule: Rule,
    rows: Ints,
    source: Ints,
    ends: Ints,
    newest: int,
    entries: Ints,
    first: Ints,
    last: Ints,
    value: Floats,
) -> int:
    """Fill the last four, from the table's entries `source` in the order of rows and policies; how many were taken.

    What is a policy's own noise is left out; neighbours with the same numbers become one stretch.
    """
    A, m = len(table.actions), len(table.numbers)
    used = 0
    for n in range(len(rows)):
        begin = ends[n - 1] if n > 0 else 0
        for a in range(A):
            since = used
            for entry in source[begin : ends[n]]:
                low, high = int(table.first_policy[entry]), min(int(table.last_policy[entry]), newest)
                if low == high and is_noise(table.value[entry, a], rule, rows[n], low, A, a, len(table.features)):
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
            entries[n * A + a + 1] = used
    return used


@compiled(_nrt=False, forceinline=True)
def is_noise(numbers: Floats, rule: Rule, row: int, policy: int, A: int, a: int, d: int) -> bool:
    """Whether the numbers (m,) are those that the policy began with."""
    same = True
    for i in range(d):
        same = same and numbers[i] == drawn_psi(rule, row, policy, A, a, i)
    for k in range(d, len(numbers)):
        same = same and numbers[k] == 0.0
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
