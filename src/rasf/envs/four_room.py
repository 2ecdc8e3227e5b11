"""The four-room world: rooms with objects of three classes, a goal, and traps that fire now and then.

`S` start, `G` goal, `X` wall, `T` trap, `1` to `9` objects of that class, `.` empty. A move off the grid or into a wall
stays. Whenever the agent's cell after the step is a trap (staying included) the trap fires with probability
`trap_probability`: a failure, and the end. Entering the goal ends the episode. An object is collected once per episode.

    phi = (collected class 1, .., collected class C, reached the goal, failed),   at most one of them 1

so a task is w = (reward of class 1, .., class C, 1, -2) in the paper. A state is the cell and the collected flags, as
one number: cell + cells * flags.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.compiled import compiled

PAPER_MAP = """
1....2X2T...G
......XT.....
......1......
.............
......XT....T
2....3X1T..T3
XX3.XXXXX.1XX
1T..T3X2....3
T....TX......
.............
......2......
.....TX......
S...T2X3....1
"""

ACTIONS = ("left", "up", "right", "down")
_MOVES = ((0, -1), (-1, 0), (0, 1), (1, 0))
START, GOAL, WALL, TRAP, EMPTY = "S", "G", "X", "T", "."
CLASSES = "123456789"
_PLAIN, _TRAP, _GOAL = 0, 1, 2


class World(NamedTuple):
    """The map as arrays, for compiled code."""

    destination: Ints  # (cells, 4) cell after each move
    object_at: Ints  # (cells,) object in the cell, or -1
    class_of: Ints  # (objects,)
    kind: Ints  # (cells,) plain, trap or goal
    trap_probability: float
    start: int
    n_classes: int


@compiled(_nrt=False, forceinline=True)
def step(world: World, cell: int, flags: int, action: int, draw: float) -> tuple[int, int, int, bool]:
    """One move: the new cell and flags, the feature that is 1 (-1: none), and whether the episode has terminated.

    `draw` in [0, 1) decides whether a trap fires.
    """
    cell = world.destination[cell, action]
    if world.kind[cell] == _TRAP:
        if draw < world.trap_probability:
            return cell, flags, world.n_classes + 1, True
        return cell, flags, -1, False
    if world.kind[cell] == _GOAL:
        return cell, flags, world.n_classes, True
    found = world.object_at[cell]
    if found >= 0 and (flags >> found) & 1 == 0:
        return cell, flags | (1 << found), world.class_of[found], False
    return cell, flags, -1, False


@dataclass(frozen=True)
class FourRoom:
    """The map, the traps' probability and the step limit."""

    layout: str = PAPER_MAP
    trap_probability: float = 0.05
    step_limit: int = 200

    def __post_init__(self) -> None:
        rows = self.rows
        if not rows or len({len(row) for row in rows}) != 1:
            raise ValueError("layout must have rows of equal length")
        cells = self.cells
        for symbol in sorted(set(cells)):
            if symbol not in (START, GOAL, WALL, TRAP, EMPTY) and symbol not in CLASSES:
                raise ValueError(f"layout must hold S, G, X, T, . and 1 to 9, got {symbol!r}")
        if cells.count(START) != 1:
            raise ValueError(f"layout must have exactly one start S, got {cells.count(START)}")
        if GOAL not in cells:
            raise ValueError("layout must have a goal G")
        if sum(symbol in CLASSES for symbol in cells) > 48:
            raise ValueError("layout must have at most 48 objects")
        if not 0 <= self.trap_probability <= 1:
            raise ValueError(f"trap_probability must be in [0, 1], got {self.trap_probability}")
        if type(self.step_limit) is not int or self.step_limit < 1:
            raise ValueError(f"step_limit must be a positive whole number, got {self.step_limit}")

    @property
    def rows(self) -> list[str]:
        """The map's rows."""
        return ["".join(line.split()) for line in self.layout.strip().splitlines()]

    @property
    def cells(self) -> str:
        """The symbols in order of the cells."""
        return "".join(self.rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns; cell (i, j) is number i columns + j."""
        return len(self.rows), len(self.rows[0])

    @property
    def n_classes(self) -> int:
        """Classes of objects, the largest digit on the map."""
        return max((int(symbol) for symbol in self.cells if symbol in CLASSES), default=0)

    @property
    def n_features(self) -> int:
        """One per class, the goal, the failure."""
        return self.n_classes + 2

    def task(self, class_rewards: npt.ArrayLike, goal: float = 1.0, failure: float = -2.0) -> Floats:
        """Weights w of the task with these rewards."""
        rewards = np.asarray(class_rewards, np.float64)
        if rewards.shape != (self.n_classes,):
            raise ValueError(f"class_rewards must have shape ({self.n_classes},), got {rewards.shape}")
        return np.concatenate([rewards, [goal, failure]])

    def random_tasks(self, count: int, rng: np.random.Generator) -> Floats:
        """Tasks (count, d) with class rewards uniform in [-1, 1], as in the paper."""
        rewards = rng.uniform(-1, 1, (count, self.n_classes))
        return np.concatenate([rewards, np.tile(self.task(np.zeros(self.n_classes))[-2:], (count, 1))], axis=1)

    def world(self) -> World:
        """The map as arrays."""
        rows, columns = self.shape
        cells = self.cells
        destination = np.empty((len(cells), len(_MOVES)), np.int32)
        for cell in range(len(cells)):
            for action, (down, right) in enumerate(_MOVES):
                i, j = cell // columns + down, cell % columns + right
                free = 0 <= i < rows and 0 <= j < columns and cells[i * columns + j] != WALL
                destination[cell, action] = i * columns + j if free else cell
        objects = [cell for cell, symbol in enumerate(cells) if symbol in CLASSES]
        object_at = np.full(len(cells), -1, np.int64)  # wide, since flags are shifted by it
        object_at[objects] = np.arange(len(objects))
        kinds = {TRAP: _TRAP, GOAL: _GOAL}
        return World(
            destination,
            object_at,
            np.array([int(cells[cell]) - 1 for cell in objects], np.int32),
            np.array([kinds.get(symbol, _PLAIN) for symbol in cells], np.int8),
            float(self.trap_probability),
            cells.index(START),
            self.n_classes,
        )
