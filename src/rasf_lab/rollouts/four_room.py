"""Fast rollouts of a tabular library in the four-room world, for any w and risk. A caller can stop the rollouts.

All random numbers are drawn beforehand, and depend only on the seed: at step t, episode e uses draws[e, t] at every
risk. Whole episodes run in a numba kernel (`walk`), because a call from Python for each step would take longer than the
step. The kernel releases Python's global interpreter lock. Actions are those of `TablePolicies.act`, and are stored in
the same cache.

The kernel cannot evaluate some risks. With such a risk, an episode that reaches a state without a cached action waits
there. Python then scores the state, and the next call of the kernel continues the episode.

`walk_by_rule` is for acting rules (`rasf.library.acting.rule`) that keep a memory of each episode, for example its
accrued return. At each step, `walk_by_rule` calls the rule once for all episodes.
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

_AT_ONCE = 100  # `stop` is called after this many episodes, every few milliseconds


class RuledWalks(NamedTuple):
    """n episodes of an acting rule, the accrued return (n, T + 1) after 0 to T steps, and the rule's final memory."""

    walks: Walks
    earned: Floats
    memory: Memory


class Walks(NamedTuple):
    """n episodes of up to T steps, with d features. Cells and flags after the end of an episode are undefined."""

    cells: Ints  # (n, T + 1) int32, the cell after 0 to T steps
    flags: Ints  # (n, T + 1) int64, one bit for each object: 1 if the object is collected
    phi: Floats  # (n, d) sums of the features
    lengths: Ints  # (n,) number of steps so far
    over: Bools  # (n,) whether the episode has ended
    waiting: Ints  # (n,) the state in which the episode waits, because its action is not cached, or -1


def chances(rooms: FourRoom, episodes: int, seed: int) -> Floats:
    """Return the random numbers (episodes, steps) in [0, 1) that decide whether stepping on a trap is a failure."""
    return np.random.default_rng(seed).random((episodes, rooms.step_limit))


def walk_four_room(
    sources: TablePolicies, rooms: FourRoom, w: Floats, risk: Risk, draws: Floats, stop: Callable[[], bool]
) -> Walks | None:
    """Run episodes from the start by GPI.

    Args:
        sources: the policies.
        rooms: the map that the policies were trained on.
        w: weights of the task (d,).
        risk: the risk of the scores.
        draws: random numbers (n, steps) from `chances`, one row for each episode.
        stop: called after every 100 episodes or fewer; if it returns True, the work stops.

    Returns:
        The episodes, or None if `stop` returned True.
    """
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
    """Run episodes from the start by an acting rule. Return the episodes, or None if `stop` returned True.

    The other arguments are those of `walk_four_room`.
    """
    (n, steps), world = draws.shape, _Rooms(rooms, draws)
    earned, found = np.zeros((n, steps + 1)), None
    for t, memory in enumerate(follow(rule, world, n, steps)):
        if stop():
            return None
        earned[:, t + 1 :], found = memory.accrued[:, None], memory
    assert found is not None  # there is at least one step
    world.walks.over[:] = True
    return RuledWalks(world.walks, earned, found)


class _Rooms:
    """The world as an `ArrayWorld` (module `by_rule`). Each step is a compiled loop over the episodes."""

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
    """Take step t of the running episodes."""
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
    """Continue the episodes begin, begin + 1, .., one for each row of draws, until each ends or waits for an action.

    `row` (uint64) is scratch space for one observation of `rasf/FourRoom-v0`: the cell's row and column, and one flag
    for each object. States are looked up by the float64 bit patterns of these numbers. `bits` has those of 0.0, 1.0, ..
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
    """Raise an error if a map has other sizes than in training, because compiled code does not check bounds."""
    sizes = {
        "numbers in an observation": (sources.n_inputs, 2 + len(rooms.world().class_of)),
        "actions": (sources.n_actions, len(ACTIONS)),
        "features": (sources.n_features, rooms.n_features),
    }
    for name, (held, wanted) in sizes.items():
        if held != wanted:
            raise ValueError(
                f"rooms must be the map that the policies were trained on, with {held} {name}, got {wanted}"
            )
