"""The loop that learns a model in a compiled world (`TabularWorld`): it acts, steps, counts and plans."""

from __future__ import annotations

from typing import NamedTuple

from rasf.arrays import Bools, Ints
from rasf.compiled import compiled
from rasf.envs.tabular_world import WorldArrays
from rasf.tabular.counts import Model, Rule, add_row, count, explore, has_room, put, work
from rasf.tabular.stretch import STATE, STEP, Rows, Stretch, advance, enter, slot_of


class Watch(NamedTuple):
    """Parameters of the loop."""

    numbers: Ints  # indices of the observation entries that define groups of similar states, see `rasf.tabular.groups`
    sizes: Ints  # (n,) number of possible values of each observation entry
    unsure: Bools  # (K,) whether the reward is uncertain, for each kind of step (distinct feature vector)
    margin: float  # an action is explored only if its score differs by at most this from the best score
    deviation: float  # the loop stops after a step if the model's reward of the step has a larger absolute error
    most: int  # largest number of backups after a step


@compiled(_nrt=False)
def run(world: WorldArrays, model: Model, rule: Rule, rows: Rows, watch: Watch, stretch: Stretch, until: int) -> int:
    """Learn until step `until` of the stretch or until the model's arrays are full.

    A stretch is a sequence of steps in one task. The loop also stops after a step whose reward is uncertain or differs
    from the model's reward, and then returns the kind of this step (its distinct feature vector). Otherwise the loop
    returns -1. A kind must have the same index in the world's arrays and in the model's arrays.
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
    """Return the row of a state; if the state is new, add it to the model, in the group of its observation."""
    slot = slot_of(rows.keys, state)
    if rows.keys[slot] == -1:
        group = 0
        for number in watch.numbers:
            group = group * watch.sizes[number] + world.number(state, number)
        enter(rows, slot, state, add_row(model, rule, group))
    return int(rows.values[slot])
