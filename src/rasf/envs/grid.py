"""Grid worlds with traps, as finite MDPs: the paper's motivating example.

Moves succeed with probability 1 - slip, else a uniformly random move is made; a move off the grid or into a wall stays.
Goal and traps end the episode. Features: one for every step, one for the goal, one per class of trap:

    phi = (1, [s' is the goal], [s' is a trap of class 1], [s' is a trap of class 2], ...)

so a task is w = (-step cost, goal reward, -cost of class 1, -cost of class 2, ...); rewards add up, and reaching the
goal nets the goal reward minus the cost of the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.mdp import FiniteMDP

MOVES = {"left": (0, -1), "up": (-1, 0), "right": (0, 1), "down": (1, 0)}
START, GOAL, WALL, EMPTY = "S", "G", "#", "."

FIGURE_1_MAP = """
. . . . .
. . . . .
X . . Y G
. . . . .
S . . . X
"""


@dataclass(frozen=True)
class Grid:
    """A map of one symbol a cell: S start, G goal, # wall, . empty, any other letter a class of trap."""

    layout: str = FIGURE_1_MAP
    slip: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.slip <= 1:
            raise ValueError(f"slip must be in [0, 1], got {self.slip}")
        rows = self.rows
        if not rows or len({len(row) for row in rows}) != 1:
            raise ValueError("layout must have rows of equal length")
        cells = "".join(rows)
        for symbol in sorted(set(cells)):
            if not (symbol.isalpha() or symbol in (WALL, EMPTY)):
                raise ValueError(f"layout must hold S, G, #, . and letters for traps, got {symbol!r}")
        if cells.count(START) != 1:
            raise ValueError(f"layout must have exactly one start S, got {cells.count(START)}")
        if GOAL not in cells:
            raise ValueError("layout must have a goal G")

    @property
    def rows(self) -> list[str]:
        """The map's rows without spaces."""
        return ["".join(line.split()) for line in self.layout.strip().splitlines()]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns; cell (i, j) is state i columns + j."""
        return len(self.rows), len(self.rows[0])

    @property
    def cells(self) -> str:
        """The symbols in order of the states."""
        return "".join(self.rows)

    @property
    def start(self) -> int:
        """The starting state."""
        return self.cells.index(START)

    @property
    def traps(self) -> list[str]:
        """The classes of traps, in alphabetical order."""
        return sorted(set(self.cells) - {START, GOAL, WALL, EMPTY})

    def task(self, costs: npt.ArrayLike, goal: float = 20.0, step: float = 1.0) -> Floats:
        """Weights w of the task with these trap costs, goal reward and step cost."""
        given = np.asarray(costs, np.float64)
        if given.shape != (len(self.traps),):
            raise ValueError(
                f"costs must have one entry per class of trap ({', '.join(self.traps)}), got {given.shape}"
            )
        return np.concatenate([[-step, goal], -given])

    def move(self, state: int, action: int) -> int:
        """Where a move that succeeds leads."""
        columns = self.shape[1]
        down, right = tuple(MOVES.values())[action]
        i, j = state // columns + down, state % columns + right
        inside = 0 <= i < self.shape[0] and 0 <= j < columns
        return i * columns + j if inside and self.rows[i][j] != WALL else state

    def features(self, successor: int) -> Floats:
        """phi of a step that arrives at `successor`."""
        phi = np.zeros(2 + len(self.traps))
        phi[0] = 1.0
        symbol = self.cells[successor]
        if symbol == GOAL:
            phi[1] = 1.0
        elif symbol in self.traps:
            phi[2 + self.traps.index(symbol)] = 1.0
        return phi

    def mdp(self, gamma: float = 1.0) -> FiniteMDP:
        """The grid as a FiniteMDP; walls count as terminal, since nobody is ever there."""
        ends = [s for s, symbol in enumerate(self.cells) if symbol not in (START, EMPTY)]
        return FiniteMDP.from_transitions(self._transitions(), len(self.cells), len(MOVES), ends, gamma)

    def _transitions(self) -> Iterator[tuple[int, int, int, float, Floats]]:
        n = len(MOVES)
        for s, symbol in enumerate(self.cells):
            if symbol not in (START, EMPTY):
                continue
            for a in range(n):
                chance: dict[int, float] = {}
                for actual in range(n):
                    to = self.move(s, actual)
                    chance[to] = chance.get(to, 0.0) + self.slip / n + (1 - self.slip) * (actual == a)
                for to, p in chance.items():
                    yield s, a, to, p, self.features(to)

    def route(self, policy: npt.NDArray[np.integer], steps: int = 100) -> list[int]:
        """The states that `policy` (S,) means to visit from the start: every move succeeds."""
        path = [self.start]
        while self.cells[path[-1]] in (START, EMPTY) and len(path) <= steps:
            path.append(self.move(path[-1], int(policy[path[-1]])))
            if path[-1] in path[:-1]:
                break
        return path
