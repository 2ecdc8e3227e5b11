"""Data structures of learning in a compiled world: the rows of states, and the steps of a stretch.

A compiled world is a `TabularWorld`, whose steps run inside compiled loops. A stretch is a sequence of steps in one
task, in one or several episodes. A row is the number of a state in the learner's arrays. A kind of step is a distinct
feature vector. Shapes: R rows, A actions, H slots of a hash map, K kinds, d features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rasf import checks
from rasf.arrays import Floats, Ints
from rasf.compiled import compiled
from rasf.envs.tabular_world import TabularWorld, WorldArrays

OTHER_WORLD = "the learner has learned in another world; make a new learner for this world"


class Rows(NamedTuple):
    """A hash map from states of a compiled world to rows: open addressing, at most a quarter full."""

    keys: Ints  # (H,) the state in each slot; -1 in a free slot
    values: Ints  # (H,) int32, the row of the state in each slot
    state: Ints  # (R,) the state of each row
    successor: Ints  # (R, A) int32, the next row after the action was last taken in the row; -1 if unknown


def new_rows(n_rows: int, n_actions: int) -> Rows:
    """Return an empty map with room for n_rows states."""
    size = 1 << int(4 * n_rows - 1).bit_length()
    successor = np.full((n_rows, n_actions), -1, np.int32)
    return Rows(np.full(size, -1), np.zeros(size, np.int32), np.zeros(n_rows, np.int64), successor)


def enlarged(rows: Rows, n_rows: int, used: int) -> Rows:
    """Return the map with room for n_rows states; the first `used` rows are copied."""
    larger = new_rows(n_rows, rows.successor.shape[1])
    enter_all(larger, rows.state[:used])
    larger.successor[:used] = rows.successor[:used]
    return larger


@compiled(_nrt=False)
def enter_all(rows: Rows, states: Ints) -> None:
    """Add states to the map as rows 0, 1, 2 and so on."""
    for row in range(len(states)):
        enter(rows, slot_of(rows.keys, states[row]), states[row], row)


@compiled(_nrt=False, forceinline=True)
def enter(rows: Rows, slot: int, state: int, row: int) -> None:
    """Add a state and its row at the slot that `slot_of` returned for the state."""
    rows.keys[slot], rows.values[slot], rows.state[row] = state, row, state
    for a in range(rows.successor.shape[1]):
        rows.successor[row, a] = -1


@compiled(_nrt=False, forceinline=True)
def slot_of(keys: Ints, state: int) -> int:
    """Return the slot of a state in the map, or the free slot for this state if the map does not contain it."""
    mask = len(keys) - 1
    slot = np.int64((np.uint64(state) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask
    while keys[slot] != state and keys[slot] != -1:
        slot = (slot + 1) & mask
    return int(slot)


STEP, STATE, TAKEN, EPISODES = range(4)  # entries of `Stretch.progress`


class Stretch(NamedTuple):
    """Steps of a task in a compiled world. A learner's loop runs until all steps are done or its arrays are full."""

    kinds: Floats  # (K, d) features of each kind of step
    rewards: Floats  # (K,) reward of each kind of step in the task
    step_limit: int  # number of steps after which an episode is truncated
    epsilon: float  # probability of exploring
    draws: Floats  # (steps, 3) uniform numbers that decide on exploring, the exploring action, and the transition
    path: Ints  # (steps, 4) output of each step: state, action, kind, next state or -1 at termination
    progress: Ints  # (4,) steps so far, current state, steps in the current episode, finished episodes
    total: Floats  # (1,) sum of the rewards
    counts: Ints  # (K,) number of steps of each kind


class TaskOutcome(NamedTuple):
    """Total reward, number of failures and number of finished episodes of a stretch."""

    total: float
    failures: int
    episodes: int


def new_stretch(world: TabularWorld, w: Floats, epsilon: float, draws: Floats) -> Stretch:
    """Return a stretch from the start of an episode, in a task with weights w (d,)."""
    kinds, progress = world.kinds, np.zeros(4, np.int64)
    progress[STATE] = world.world().first_state()
    rewards, path = kinds @ w, np.zeros((len(draws), 4), np.int64)
    counts = np.zeros(len(kinds), np.int64)
    return Stretch(kinds, rewards, world.step_limit, float(epsilon), draws, path, progress, np.zeros(1), counts)


def outcome(world: TabularWorld, stretch: Stretch) -> TaskOutcome:
    """Return the total reward, failures and episodes of a stretch."""
    failures = 0 if world.failure is None else int(stretch.counts[world.failure])
    return TaskOutcome(float(stretch.total[0]), failures, int(stretch.progress[EPISODES]))


@compiled(_nrt=False, forceinline=True)
def advance(world: WorldArrays, stretch: Stretch, action: int) -> tuple[int, int, bool]:
    """Take a step; return its kind, the next state or -1 at termination, and whether the episode is over."""
    progress, n = stretch.progress, stretch.progress[STEP]
    stretch.path[n, 0], stretch.path[n, 1] = progress[STATE], action
    state, kind, terminated = world.next_state(progress[STATE], action, stretch.draws[n, 2])
    after = -1 if terminated else state
    stretch.path[n, 2], stretch.path[n, 3] = kind, after
    stretch.total[0] += stretch.rewards[kind]
    stretch.counts[kind] += 1
    progress[STEP], progress[STATE] = n + 1, state
    progress[TAKEN] += 1
    over = terminated or progress[TAKEN] == stretch.step_limit
    if over:
        progress[STATE], progress[TAKEN] = world.first_state(), 0
        progress[EPISODES] += 1
    return kind, after, over


def check_world(world: TabularWorld, n_features: int, n_actions: int, known: TabularWorld | None) -> None:
    """Raise ValueError if the sizes of world and learner differ, or the learner already has a world other than `world`.

    Compiled code does not check the bounds of arrays, so wrong sizes would corrupt memory.

    Args:
        world: the world to check.
        n_features: number of features of the learner.
        n_actions: number of actions of the learner.
        known: the world of the learner, or None.
    """
    if (world.n_features, world.n_actions) != (n_features, n_actions):
        raise ValueError(
            f"the world must have the learner's {n_features} features and {n_actions} actions, "
            f"got {world.n_features} and {world.n_actions}"
        )
    checks.whole("step_limit", world.step_limit)
    if known is not None and known != world:
        raise ValueError(OTHER_WORLD)
