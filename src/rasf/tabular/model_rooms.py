"""The four-room world learned by a model, in one compiled loop: step, count, plan, act."""

from __future__ import annotations

from typing import Any

import numpy as np

from rasf.arrays import Bools, Floats, Ints
from rasf.compiled import compiled
from rasf.envs import four_room
from rasf.tabular.counts import OUTCOMES, ROWS, Model, Rule, add_row, count, explore, put, work

STEP, CELL, FLAGS, TAKEN, FAILURES, EPISODES, SURPRISE = range(7)  # entries of `progress`


@compiled()
def run(
    world: four_room.RoomArrays,
    step_limit: int,
    columns: int,
    numbers: Ints,
    model: Model,
    rule: Rule,
    row_of: Any,
    paid: Floats,
    unsure: Bools,
    epsilon: float,
    margin: float,
    surprise: float,
    most: int,
    draws: Floats,
    progress: Ints,
    total: Floats,
) -> None:
    """Learn until the draws (steps, 3) or the model's arrays are used up; `progress` says how far it got.

    draws are uniform: explore or not, which action, whether a trap fires. `numbers` of an observation make a group.
    What is `paid` (K,) for a kind of features may differ from what the model believes: by more than `surprise`, or
    where that is `unsure` (K,), the loop stops, and its entry of `progress` is that kind, else -1. `most` backups
    follow a step.
    """
    n_cells, largest = world.destination.shape[0], max(columns, world.destination.shape[0] // columns)
    cell, flags, taken = progress[CELL], progress[FLAGS], progress[TAKEN]
    row = -1
    progress[SURPRISE] = -1
    for n in range(progress[STEP], len(draws)):
        if model.used[ROWS] + 2 > len(model.value) or model.used[OUTCOMES] + 2 > len(model.kind):
            break
        if row < 0:
            row = row_of_state(model, rule, row_of, cell, flags, n_cells, columns, largest, numbers)
        action = explore(model, row, model.best[row], epsilon, margin, draws[n, 0], draws[n, 1])
        cell, flags, feature, terminated = four_room.step(world, cell, flags, action, draws[n, 2])
        taken += 1
        if feature >= 0:
            total[0] += paid[1 + feature]
            progress[FAILURES] += feature == world.n_classes + 1
        next_row = -1
        if not terminated:
            next_row = row_of_state(model, rule, row_of, cell, flags, n_cells, columns, largest, numbers)
        count(model, row, action, 1 + feature, next_row)
        put(model, row)
        work(model, rule, most)
        row = next_row
        if terminated or taken == step_limit:
            progress[EPISODES] += 1
            cell, flags, taken, row = world.start, 0, 0, -1
        progress[STEP] = n + 1
        if unsure[1 + feature] or abs(paid[1 + feature] - model.reward[1 + feature]) > surprise:
            progress[SURPRISE] = 1 + feature
            break
    progress[CELL], progress[FLAGS], progress[TAKEN] = cell, flags, taken


@compiled()
def row_of_state(
    model: Model,
    rule: Rule,
    row_of: Any,
    cell: int,
    flags: int,
    n_cells: int,
    columns: int,
    largest: int,
    numbers: Ints,
) -> int:
    """The row of a state; a new one is added, with its group."""
    state = np.int64(cell + n_cells * flags)
    if state in row_of:
        return row_of[state]
    group = 0
    for number in numbers:
        if number < 2:
            group = group * largest + (cell // columns if number == 0 else cell % columns)
        else:
            group = group * 2 + ((flags >> (number - 2)) & 1)
    row = add_row(model, rule, group)
    row_of[state] = row
    return row


@compiled()
def list_rows(row_of: Any, states: Ints) -> None:
    """The state of every row."""
    for state, row in row_of.items():
        states[row] = state


@compiled()
def follow(
    world: four_room.RoomArrays, row_of: Any, actions: Ints, gamma: float, draws: Floats, features: Floats
) -> None:
    """Episodes of a policy, an action for every row, one for each row of draws; adds up discounted features (n, d).

    Draws decide about traps. A state that is not known gets action 0.
    """
    n_cells = world.destination.shape[0]
    for e in range(len(draws)):
        cell, flags, discount = world.start, 0, 1.0
        for t in range(draws.shape[1]):
            state = np.int64(cell + n_cells * flags)
            action = actions[row_of[state]] if state in row_of else 0
            cell, flags, feature, ended = four_room.step(world, cell, flags, action, draws[e, t])
            if feature >= 0:
                features[e, feature] += discount
            discount *= gamma
            if ended:
                break
