"""A model learned in a compiled world, in one loop: act, step, count, plan."""

from __future__ import annotations

from typing import NamedTuple

from rasf.arrays import Bools, Ints
from rasf.compiled import compiled
from rasf.envs.tabular_world import WorldArrays
from rasf.tabular.counts import Model, Rule, add_row, count, explore, has_room, put, work
from rasf.tabular.stretch import STATE, STEP, Rows, Stretch, advance, enter, slot_of


class Watch(NamedTuple):
    """What the loop needs beside the model."""

    numbers: Ints  # of an observation, that make a group of states
    sizes: Ints  # (n,) how many values each number of an observation can have
    unsure: Bools  # (K,) the kinds of step whose reward is yet to be learned
    margin: float  # by which an action that is explored may be worse than the best
    deviation: float  # by which a reward differs from the model's
    most: int  # backups that follow a step


@compiled(_nrt=False)
def run(world: WorldArrays, model: Model, rule: Rule, rows: Rows, watch: Watch, stretch: Stretch, until: int) -> int:
    """Learn until step `until` of the stretch, or until the model's arrays are used up.

    Where a kind of step is paid otherwise than the model believes, or its reward is yet to be learned, the loop stops,
    and the kind is returned, else -1. Kinds are those of the model, too.
    """
    row = -1
    for n in range(stretch.progress[STEP], until):
        if not has_room(model):
            break
        if row < 0:
            row = row_of(world, model, rule, rows, watch, stretch.progress[STATE])
        action = explore(
            model, row, model.best[row], stretch.epsilon, watch.margin, stretch.draws[n, 0], stretch.draws[n, 1]
        )
        kind, state, over = advance(world, stretch, action)
        next_row = row_of(world, model, rule, rows, watch, state) if state >= 0 else -1
        count(model, row, action, kind, next_row)
        put(model, row)
        work(model, rule, watch.most)
        row = -1 if over else next_row
        if watch.unsure[kind] or abs(stretch.rewards[kind] - model.reward[kind]) > watch.deviation:
            return kind
    return -1


@compiled(_nrt=False)
def row_of(world: WorldArrays, model: Model, rule: Rule, rows: Rows, watch: Watch, state: int) -> int:
    """The row of a state; a new one is added, with its group."""
    slot = slot_of(rows.keys, state)
    if rows.keys[slot] == -1:
        group = 0
        for number in watch.numbers:
            group = group * watch.sizes[number] + world.number(state, number)
        enter(rows, slot, state, add_row(model, rule, group))
    return int(rows.values[slot])
