"""The exact optimum of the four-room world.

A bit mask holds the set of collected objects. The set only grows, so the masks are solved one after the other, from all
objects collected to none. Each mask is solved by sweeps over the cells. The recursion is that of `rasf.tabular.model`,
with V(s) = max_a Q(s, a):

    Q(s, a) = (1 / beta) log E exp(beta (r + gamma V(s'))),    and E[r + gamma V(s')] at beta = 0.

The 2^18 masks of the paper's map take about four seconds per task on one core.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.compiled import compiled
from rasf.envs import four_room
from rasf.envs.four_room import FourRoom

Values = npt.NDArray[np.float32]

_TOLERANCE = 1e-6
_MOST_SWEEPS = 1_000


def solve(rooms: FourRoom, w: Floats, beta: float, gamma: float) -> tuple[Values, Ints]:
    """Return the values (masks, cells) and best actions (masks, cells) of a task.

    Args:
        rooms: the map.
        w: weights of the task (d,).
        beta: the beta of the entropic utility; at 0 the utility is the mean.
        gamma: the discount factor.
    """
    world = rooms.world()
    masks, cells = 1 << len(world.class_of), len(rooms.cells)
    value, action = np.zeros((masks, cells), np.float32), np.zeros((masks, cells), np.int8)
    sweep_masks(world, np.asarray(w, np.float64), float(beta), float(gamma), value, action)
    return value, action


@compiled(_nrt=False)
def sweep_masks(world: four_room.RoomArrays, w: Floats, beta: float, gamma: float, value: Values, action: Ints) -> None:
    """Fill `value` and `action` (masks, cells), from the mask with all objects collected to the mask with none."""
    masks, cells = value.shape
    goal, failure = w[world.n_classes], w[world.n_classes + 1]
    p = world.trap_probability
    for mask in range(masks - 1, -1, -1):
        for cell in range(cells):
            # the first guess is the value with object 0 also collected, as this mask is already solved
            value[mask, cell] = value[mask | 1, cell] if mask & 1 == 0 else 0.0
        for sweep in range(_MOST_SWEEPS):
            moved = 0.0
            for k in range(cells):
                cell = k if sweep % 2 == 0 else cells - 1 - k
                if world.kind[cell] == four_room._GOAL:
                    value[mask, cell] = 0.0
                    continue
                best, chosen = -np.inf, 0
                for a in range(world.destination.shape[1]):
                    to = world.destination[cell, a]
                    found = world.object_at[to]
                    if world.kind[to] == four_room._GOAL:
                        q = goal
                    elif world.kind[to] == four_room._TRAP:
                        on = gamma * value[mask, to]
                        if beta == 0.0:
                            q = p * failure + (1.0 - p) * on
                        else:
                            top = max(beta * failure, beta * on)
                            q = (
                                top + np.log(p * np.exp(beta * failure - top) + (1.0 - p) * np.exp(beta * on - top))
                            ) / beta
                    elif found >= 0 and (mask >> found) & 1 == 0:
                        q = w[world.class_of[found]] + gamma * value[mask | (1 << found), to]
                    else:
                        q = gamma * value[mask, to]
                    if q > best + 1e-9:
                        best, chosen = q, a
                moved = max(moved, abs(best - value[mask, cell]))
                value[mask, cell], action[mask, cell] = best, chosen
            if moved < _TOLERANCE:
                break


@compiled(_nrt=False)
def follow(
    world: four_room.RoomArrays, step_limit: int, w: Floats, action: Ints, epsilon: float, draws: Floats, counts: Ints
) -> float:
    """Act by the table `action` (masks, cells) for len(draws) steps, episode after episode.

    The columns of `draws` (steps, 3) decide on exploration, the random action and traps. The loop is compiled, as a
    call from Python for each step would take longer than the step.

    Returns:
        The total return. The number of failures is added to `counts` (1,).
    """
    cell, flags, taken, total = world.start, 0, 0, 0.0
    for n in range(len(draws)):
        chosen = int(action[flags, cell])
        if draws[n, 0] < epsilon:
            chosen = int(draws[n, 1] * world.destination.shape[1])
        cell, flags, feature, ended = four_room.step(world, cell, flags, chosen, draws[n, 2])
        taken += 1
        if feature >= 0:
            total += w[feature]
            counts[0] += feature == world.n_classes + 1
        if ended or taken == step_limit:
            cell, flags, taken = world.start, 0, 0
    return total
