"""Fast rollouts of a tabular library in the four-room world, for the explorer: any (w, risk), and work can be stopped.

All random numbers are drawn beforehand, from the seed alone: whoever acts, episode e meets draws[e, t] at step t, so
two risks meet the same. Episodes are compiled and run without the interpreter's lock. Greedy actions are those of
`TablePolicies.act`, and are remembered alike. Where only the risk itself can score a state, an episode that comes to
one whose action is not known waits there, and goes on in the next call. `walk_by_rule` is for rules with a memory, of
what was earned or of a budget: all episodes take a step, then the rule is asked again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rasf.arrays import Bools, Floats, Ints
from rasf.compiled import compiled
from rasf.envs.four_room import ACTIONS, FourRoom, RoomArrays, step
from rasf.library.actor import ActingRule, Held
from rasf.library.tables.policies import TablePolicies
from rasf.risk import Risk
from rasf.tabular.frozen import PreparedTask, act_one, as_bits

_AT_ONCE = 100  # episodes between two questions whether to stop: a few milliseconds


class RuledWalks(NamedTuple):
    """Episodes of a rule, the discounted return (n, T + 1) that it had earned by each step, and what it held."""

    walks: Walks
    earned: Floats
    held: Held


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
    task, world, (n, steps) = sources.prepared(w, risk), rooms.world(), draws.shape
    cells, flags = np.zeros((n, steps + 1), np.int32), np.zeros((n, steps + 1), np.int64)
    cells[:, 0] = world.start
    over, waiting = np.zeros(n, np.bool_), np.full(n, -1)
    walks = Walks(cells, flags, np.zeros((n, rooms.n_features)), np.zeros(n, np.int64), over, waiting)
    whole_bits = as_bits(np.arange(max(*rooms.shape, 2), dtype=np.float64))
    row = np.zeros(sources.n_inputs, np.uint64)
    for begin in range(0, n, _AT_ONCE):
        end = begin + _AT_ONCE
        while True:
            if stop():
                return None
            walk(world, rooms.shape[1], whole_bits, row, task, draws[begin:end], begin, walks)
            states = waiting[begin:end]
            if (states < 0).all():
                break
            sources.find_actions(task, risk, np.unique(states[states >= 0]))
    return walks


def walk_by_rule(rule: ActingRule, rooms: FourRoom, draws: Floats, stop: Callable[[], bool]) -> RuledWalks | None:
    """The same for a rule of acting; None if `stop` said so on the way."""
    world, (n, steps), objects = rooms.world(), draws.shape, len(rooms.world().class_of)
    cells, flags = np.zeros((n, steps + 1), np.int32), np.zeros((n, steps + 1), np.int64)
    cells[:, 0] = world.start
    over, waiting = np.zeros(n, np.bool_), np.full(n, -1)
    walks = Walks(cells, flags, np.zeros((n, rooms.n_features)), np.zeros(n, np.int64), over, waiting)
    earned, running, discount = np.zeros((n, steps + 1)), np.arange(n), 1.0
    held = Held.nothing(n, 0 if rule.limits is None else len(rule.limits.names))
    for t in range(steps):
        if stop():
            return None
        seen = flags[running, t, None] >> np.arange(objects) & 1
        obs = np.column_stack([*np.divmod(cells[running, t], rooms.shape[1]), seen]).astype(np.float64)
        if t == 0:
            held = rule.begin(obs)
        theirs = held.of(running)
        actions = rule.act(obs, theirs, earned[running, t], np.full(len(running), discount))
        held.put(running, theirs)
        features = np.full(len(running), -1)
        take_all(world, running, actions, draws[:, t], t, walks, features)
        gained = np.where(features >= 0, rule.w[features], 0.0)
        earned[running, t + 1 :] = (earned[running, t] + discount * gained)[:, None]
        running, discount = running[~walks.over[running]], discount * rule.sources.gamma
        if not len(running):
            break
    walks.over[:] = True
    return RuledWalks(walks, earned, held)


@compiled(_nrt=False, nogil=True)
def take_all(
    world: RoomArrays, running: Ints, actions: Ints, draws: Floats, t: int, walks: Walks, features: Ints
) -> None:
    """Step t of the episodes that run; `features` gets the one that each step counted, or -1."""
    for i in range(len(running)):
        e = running[i]
        at = np.int64(walks.cells[e, t])
        cell, flags, feature, ended = step(world, at, walks.flags[e, t], actions[i], draws[e])
        walks.cells[e, t + 1], walks.flags[e, t + 1] = cell, flags
        if feature >= 0:
            walks.phi[e, feature] += 1.0
        features[i] = feature
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
            cell, flags = np.int64(walks.cells[e, t]), walks.flags[e, t]
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
