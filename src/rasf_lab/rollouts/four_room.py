"""Fast rollouts of a tabular library in the four-room world, for the explorer: any (w, risk), and work can be stopped.

All random numbers are drawn beforehand, from the seed alone: episode e has draws[e, t] at step t for every risk. Whole
episodes are a numba kernel with a loop of its own (`walk`), since a call from Python for each step would take longer
than the step; it runs without the interpreter's lock. Greedy actions are those of `TablePolicies.act`, and are cached
alike. Where only the risk itself can score a state, an episode that reaches a state whose action is not known waits
there until the next call. `walk_by_rule` is for rules with a memory, such as the accrued return or a budget: all
episodes take a step, then the rule acts again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rasf.arrays import Bools, Floats, Ints, Whole
from rasf.compiled import compiled
from rasf.envs.four_room import ACTIONS, FourRoom, RoomArrays, step
from rasf.library.acting.rule import ActingRule, Memory
from rasf.library.tables.policies import TablePolicies
from rasf.risk import Risk
from rasf.tabular.frozen import PreparedTask, act_one, as_bits
from rasf_lab.rollouts.by_rule import follow

_AT_ONCE = 100  # episodes between two questions whether to stop: a few milliseconds


class RuledWalks(NamedTuple):
    """Episodes of a rule, the accrued return (n, T + 1) at each step, and the rule's memory at the end."""

    walks: Walks
    earned: Floats
    memory: Memory


class Walks(NamedTuple):
    """n episodes of up to T steps; entries beyond an episode's length say nothing."""

    cells: Ints  # (n, T + 1) int32, the start first
    flags: Ints  # (n, T + 1) int64, what was collected by then
    phi: Floats  # (n, d) features summed
    lengths: Ints  # (n,) steps so far
    over: Bools  # (n,)
    waiting: Ints  # (n,) the state whose action is not known, or -1


def chances(rooms: FourRoom, episodes: int, seed: int) -> Floats:
    """Draws (episodes, steps) in [0, 1) that decide about traps."""
    return np.random.default_rng(seed).random((episodes, rooms.step_limit))


def walk_four_room(
    sources: TablePolicies, rooms: FourRoom, w: Floats, risk: Risk, draws: Floats, stop: Callable[[], bool]
) -> Walks | None:
    """An episode from the start for each row of draws (n, steps); None if `stop` said so on the way."""
    check_rooms(sources, rooms)
    task, world, walks = sources.prepared(w, risk), rooms.world(), _at_start(rooms, draws)
    whole_bits = as_bits(np.arange(max(*rooms.shape, 2), dtype=np.float64))
    row = np.zeros(sources.n_inputs, np.uint64)
    for begin in range(0, len(draws), _AT_ONCE):
        end = begin + _AT_ONCE
        while True:
            if stop():
                return None
            walk(world, rooms.shape[1], whole_bits, row, task, draws[begin:end], begin, walks)
            states = walks.waiting[begin:end]
            if (states < 0).all():
                break
            sources.find_actions(task, risk, np.unique(states[states >= 0]))
    return walks


def walk_by_rule(rule: ActingRule, rooms: FourRoom, draws: Floats, stop: Callable[[], bool]) -> RuledWalks | None:
    """The same for an acting rule; None if `stop` said so on the way."""
    (n, steps), world = draws.shape, _Rooms(rooms, draws)
    earned, found = np.zeros((n, steps + 1)), None
    for t, memory in enumerate(follow(rule, world, n, steps)):
        if stop():
            return None
        earned[:, t + 1 :], found = memory.accrued[:, None], memory
    assert found is not None  # there is a step at least
    world.walks.over[:] = True
    return RuledWalks(world.walks, earned, found)


class _Rooms:
    """The world as arrays; a compiled loop over the episodes takes each step."""

    def __init__(self, rooms: FourRoom, draws: Floats) -> None:
        self._world, self._columns, self._draws = rooms.world(), rooms.shape[1], draws
        self.walks = _at_start(rooms, draws)

    def observe(self, t: int, running: Ints) -> Floats:
        seen = self.walks.flags[running, t, None] >> np.arange(len(self._world.class_of)) & 1
        return np.column_stack([*np.divmod(self.walks.cells[running, t], self._columns), seen]).astype(np.float64)

    def step(self, t: int, running: Ints, actions: Ints) -> tuple[Floats, Bools]:
        before = self.walks.phi[running]
        take_all(self._world, running, actions, self._draws[:, t], t, self.walks)
        return self.walks.phi[running] - before, self.walks.over[running]


def _at_start(rooms: FourRoom, draws: Floats) -> Walks:
    n, steps = draws.shape
    cells, flags = np.zeros((n, steps + 1), np.int32), np.zeros((n, steps + 1), np.int64)
    cells[:, 0] = rooms.world().start
    over, waiting = np.zeros(n, np.bool_), np.full(n, -1)
    return Walks(cells, flags, np.zeros((n, rooms.n_features)), np.zeros(n, np.int64), over, waiting)


@compiled(_nrt=False, nogil=True)
def take_all(world: RoomArrays, running: Ints, actions: Ints, draws: Floats, t: int, walks: Walks) -> None:
    """Step t of the episodes that run."""
    for i in range(len(running)):
        e = running[i]
        cell: Whole = np.int64(walks.cells[e, t])
        cell, flags, feature, ended = step(world, cell, walks.flags[e, t], actions[i], draws[e])
        walks.cells[e, t + 1], walks.flags[e, t + 1] = cell, flags
        if feature >= 0:
            walks.phi[e, feature] += 1.0
        walks.lengths[e], walks.over[e] = t + 1, ended


@compiled(_nrt=False, nogil=True)
def walk(
    world: RoomArrays, columns: int, bits: Ints, row: Ints, task: PreparedTask, draws: Floats, begin: int, walks: Walks
) -> None:
    """Take the episodes begin, begin + 1, .. as far as they get, one for each row of draws.

    An observation is written as `rasf/FourRoom-v0` shows it, row, column, one flag per object, into `row` (uint64, room
    for one) by the bits of the numbers 0.0, 1.0, ..
    """
    for n in range(len(draws)):
        e = begin + n
        if walks.over[e]:
            continue
        walks.waiting[e] = -1
        t = walks.lengths[e]
        ended = False
        while t < draws.shape[1] and not ended:
            cell: Whole = np.int64(walks.cells[e, t])
            flags = walks.flags[e, t]
            row[0], row[1] = bits[cell // columns], bits[cell % columns]
            for i in range(len(row) - 2):
                row[2 + i] = bits[(flags >> i) & 1]
            action = act_one(task, row)
            if action < 0:
                walks.waiting[e] = -1 - action
                break
            cell, flags, feature, ended = step(world, cell, flags, action, draws[n, t])
            t += 1
            walks.cells[e, t], walks.flags[e, t] = cell, flags
            if feature >= 0:
                walks.phi[e, feature] += 1.0
        walks.lengths[e] = t
        walks.over[e] = walks.waiting[e] < 0


def check_rooms(sources: TablePolicies, rooms: FourRoom) -> None:
    """Compiled code does not check bounds, so the map must be of the sizes that the policies were trained with."""
    sizes = {
        "numbers of an observation": (sources.n_inputs, 2 + len(rooms.world().class_of)),
        "actions": (sources.n_actions, len(ACTIONS)),
        "features": (sources.n_features, rooms.n_features),
    }
    for name, (held, wanted) in sizes.items():
        if held != wanted:
            raise ValueError(
                f"rooms must be the map that the policies were trained on: it has {wanted} {name}, not {held}"
            )
