"""Episodes of a tabular library in the four-room world: many, quickly, for any (w, risk), and they can be given up.

The chances of an episode are drawn before, from the seed alone, so that two risks meet the same ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rasf.arrays import Floats
from rasf.envs.four_room import ACTIONS, FourRoom
from rasf.library.tables.policies import TablePolicies
from rasf.risk import Risk
from rasf.tabular.rollout import Walks, begin_walks, numbers_of, walk

_AT_ONCE = 100  # episodes between two questions whether to stop: a few milliseconds


def chances(rooms: FourRoom, episodes: int, seed: int) -> Floats:
    """Draws (episodes, steps) in [0, 1) that decide about traps."""
    return np.random.default_rng(seed).random((episodes, rooms.step_limit))


def walk_four_room(
    sources: TablePolicies, rooms: FourRoom, w: Floats, risk: Risk, draws: Floats, stop: Callable[[], bool]
) -> Walks | None:
    """An episode from the start for each row of draws (n, steps); None if `stop` said so on the way."""
    check_rooms(sources, rooms)
    task, world = sources.prepared(w, risk), rooms.world()
    walks, numbers = begin_walks(world, draws, rooms.n_features), numbers_of(world, rooms.shape)
    for begin in range(0, len(draws), _AT_ONCE):
        end = min(begin + _AT_ONCE, len(draws))
        waiting = True
        while waiting:
            if stop():
                return None
            waiting = walk(
                world,
                numbers,
                task.state_index,
                task.frozen,
                task.scoring,
                task.linear,
                task.known,
                draws,
                begin,
                end,
                walks,
            )
            if waiting:
                states = walks.waiting[begin:end]
                task.find_actions(np.unique(states[states >= 0]))
    return walks


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
