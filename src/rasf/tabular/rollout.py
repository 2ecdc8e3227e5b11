"""Episodes of the four-room world under frozen policies, greedy by GPI, compiled, and without the interpreter's lock.

All chance is given as draws (episodes, steps), made beforehand: whoever acts, episode e meets draws[e, t] at step t.
Greedy actions are those of `frozen.act_known`, 0 at a state that no learner has met, and are remembered alike. Where
the risk is not mean + half_beta variance only the caller can score a state: an episode that comes to one whose action
is not known waits there, and goes on in the next call.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.compiled import compiled
from rasf.envs.four_room import World, step
from rasf.tabular.frozen import Frozen, Scoring, greedy
from rasf.tabular.state_index import StateIndex, as_bits, find


class Walks(NamedTuple):
    """n episodes of up to T steps; entries beyond an episode's length say nothing."""

    cells: Ints  # (n, T + 1) int32, the start first
    flags: Ints  # (n, T + 1) int64, what was collected by then
    phi: Floats  # (n, d) features summed
    lengths: Ints  # (n,) steps so far
    over: npt.NDArray[np.bool_]  # (n,)
    waiting: Ints  # (n,) the state whose action is not known, or -1


class Numbers(NamedTuple):
    """How an observation is written, as `rasf/FourRoom-v0` shows it: row, column, one flag an object."""

    bits: Ints  # (max(rows, columns, 2),) uint64: the bits of 0.0, 1.0, ..
    columns: int
    row: Ints  # (2 + objects,) uint64, room for one observation


def begin_walks(world: World, draws: Floats, n_features: int) -> Walks:
    """Episodes at their start."""
    n, steps = draws.shape
    cells, flags = np.zeros((n, steps + 1), np.int32), np.zeros((n, steps + 1), np.int64)
    cells[:, 0] = world.start
    whole = np.zeros(n, np.int64)
    return Walks(cells, flags, np.zeros((n, n_features)), whole, np.zeros(n, np.bool_), np.full(n, -1))


def numbers_of(world: World, shape: tuple[int, int]) -> Numbers:
    """For a map of this shape."""
    return Numbers(
        as_bits(np.arange(max(*shape, 2), dtype=np.float64)), shape[1], np.zeros(2 + len(world.class_of), np.uint64)
    )


@compiled(_nrt=False, nogil=True)
def walk(
    world: World,
    numbers: Numbers,
    index: StateIndex,
    frozen: Frozen,
    scoring: Scoring,
    linear: bool,
    known: Ints,
    draws: Floats,
    begin: int,
    end: int,
    walks: Walks,
) -> int:
    """Take the episodes begin .. end as far as they get; how many of them wait. `linear`: states are scored here."""
    waiting = 0
    row, bits, A = numbers.row, numbers.bits, world.destination.shape[1]
    for e in range(begin, end):
        if walks.over[e]:
            continue
        walks.waiting[e] = -1
        t = walks.lengths[e]
        ended = False
        while t < draws.shape[1] and not ended:
            cell, flags = np.int64(walks.cells[e, t]), walks.flags[e, t]
            row[0], row[1] = bits[cell // numbers.columns], bits[cell % numbers.columns]
            for i in range(len(row) - 2):
                row[2 + i] = bits[(flags >> i) & 1]
            state, action = find(index, row), np.int64(0)
            if state >= 0:
                if known[state] == 0:
                    if not linear:
                        walks.waiting[e] = state
                        waiting += 1
                        break
                    known[state] = 1 + greedy(frozen, A, scoring, state)
                action = np.int64(known[state]) - 1
            cell, flags, feature, ended = step(world, cell, flags, action, draws[e, t])
            t += 1
            walks.cells[e, t], walks.flags[e, t] = cell, flags
            if feature >= 0:
                walks.phi[e, feature] += 1.0
        walks.lengths[e] = t
        walks.over[e] = walks.waiting[e] < 0
    return waiting
