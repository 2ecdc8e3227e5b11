"""Grid worlds with traps, as finite MDPs: the paper's motivating example.

A move is carried out with probability 1 - slip; otherwise the agent makes a uniformly random move. A move off the grid
or into a wall has no effect. Goal and traps end the episode. The features of a step to the state s' are

    phi = (1, [s' is the goal], [s' is a trap of class 1], [s' is a trap of class 2], ...),

where [x] is 1 if x is true, else 0. A task is w = (-step cost, goal reward, -cost of class 1, -cost of class 2, ...).
Rewards add up: reaching the goal gives the goal reward minus the cost of the step.

`GridEnv` is the same grid for Gymnasium, `rasf/Grid-v0`, in MO-Gymnasium's convention (the reward is the vector phi).
`rasf/Grid-v0` has the paper's time limit of 35 steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Floats32
from rasf.checks import number, one_of, shown
from rasf.envs.cell_map import EMPTY, GOAL, MOVES, START, CellMap
from rasf.files import Header
from rasf.mdp import FiniteMDP

WALL = "#"
FIGURE_1_MAP = """
. . . . .
. . . . .
X . . Y G
. . . . .
S . . . X
"""

_PIXELS = 24
_COLOURS = {EMPTY: (255, 255, 255), START: (225, 225, 225), GOAL: (102, 194, 120), WALL: (60, 60, 60)}
_TRAP_COLOUR, _AGENT_COLOUR = (214, 96, 77), (49, 104, 172)


@dataclass(frozen=True)
class Grid(CellMap):
    """A map with the symbols S start, G goal, # wall, . empty; every other letter is a class of traps.

    Attributes:
        layout: The map. Default: the map of the paper's figure 1.
        slip: Probability that a move is replaced by a random move. Default: 0.2.
    """

    layout: str = FIGURE_1_MAP
    slip: float = 0.2
    wall: ClassVar = WALL

    def __post_init__(self) -> None:
        number("slip", self.slip, 0.0, 1.0)
        self.check_map(lambda symbol: symbol.isalpha() or symbol in (WALL, EMPTY), "S, G, #, . and letters for traps")

    @property
    def traps(self) -> list[str]:
        """The classes of traps, in alphabetical order."""
        return sorted(set(self.cells) - {START, GOAL, WALL, EMPTY})

    def task(self, costs: npt.ArrayLike, goal: float = 20.0, step: float = 1.0) -> Floats:
        """Return the weights w (d,) of a task.

        Args:
            costs: cost of each class of traps, in alphabetical order of the classes.
            goal: reward for the goal. Default: 20.
            step: cost of a step. Default: 1.
        """
        given = np.asarray(costs, np.float64)
        if given.shape != (len(self.traps),):
            raise ValueError(
                f"costs must be one number per class of trap ({', '.join(self.traps)}), got {shown(costs)}"
            )
        return np.concatenate([[-step, goal], -given])

    def features(self, successor: int) -> Floats:
        """Return the features (d,) of a step.

        Args:
            successor: the state after the step.
        """
        phi = np.zeros(2 + len(self.traps))
        phi[0] = 1.0
        symbol = self.cells[successor]
        if symbol == GOAL:
            phi[1] = 1.0
        elif symbol in self.traps:
            phi[2 + self.traps.index(symbol)] = 1.0
        return phi

    def mdp(self, gamma: float = 1.0) -> FiniteMDP:
        """Return the grid as a FiniteMDP; walls are terminal states, which are never entered.

        Args:
            gamma: discount. Default: 1.
        """
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
        """Return the states that a policy visits from the start if every move succeeds.

        Args:
            policy: the action (S,) of each state.
            steps: largest number of steps; the route ends earlier at a goal, a trap or a state visited before.
                Default: 100.
        """
        path = [self.start]
        while self.cells[path[-1]] in (START, EMPTY) and len(path) <= steps:
            path.append(self.move(path[-1], int(policy[path[-1]])))
            if path[-1] in path[:-1]:
                break
        return path


class GridEnv(gym.Env[np.int64, np.int64]):
    """A `Grid` for Gymnasium. An observation is the number of the agent's cell; actions are left, up, right, down.

    Args:
        layout: the map, as in `Grid`. Default: the map of the paper's figure 1.
        slip: probability that a move is replaced by a random move. Default: 0.2.
        render_mode: None, "ansi" or "rgb_array". Default: None.
    """

    metadata: ClassVar[Header] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}

    def __init__(self, layout: str = FIGURE_1_MAP, slip: float = 0.2, render_mode: str | None = None) -> None:
        one_of("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        self.grid = Grid(layout, slip)
        self.render_mode = render_mode
        self.observation_space = gym.spaces.Discrete(len(self.grid.cells))
        self.action_space = gym.spaces.Discrete(len(MOVES))
        self.reward_dim = 2 + len(self.grid.traps)
        self.reward_space = gym.spaces.Box(0.0, 1.0, (self.reward_dim,), np.float32)
        self.signs = (-1, 1, *(-1 for _ in self.grid.traps))  # steps and traps are costs, the goal is a reward
        traps = len(self.grid.traps)
        self.feature_names = ("step", "goal", *(f"trap {i + 1}" if traps > 1 else "trap" for i in range(traps)))
        self._state = self.grid.start

    def reset(self, *, seed: int | None = None, options: Header | None = None) -> tuple[np.int64, Header]:
        """Begin an episode at the start cell; `options` are not used."""
        super().reset(seed=seed)
        self._state = self.grid.start
        return np.int64(self._state), {}

    def step(self, action: np.int64) -> tuple[np.int64, Floats32, bool, bool, Header]:
        """Take a step; the reward is phi (d,)."""
        if not self.action_space.contains(action):
            raise ValueError(f"action must be 0 to {len(MOVES) - 1}, got {action}")
        slipped = self.np_random.random() < self.grid.slip
        actual = int(self.np_random.integers(len(MOVES))) if slipped else int(action)
        self._state = self.grid.move(self._state, actual)
        symbol = self.grid.cells[self._state]
        phi = self.grid.features(self._state).astype(np.float32)
        failed = symbol in self.grid.traps
        return np.int64(self._state), phi, failed or symbol == GOAL, False, {"failure": failed}

    def render(self) -> str | npt.NDArray[np.uint8] | None:
        """Return the map as text (A is the agent) or as an image, by the render mode; None without a render mode."""
        rows, columns = self.grid.shape
        if self.render_mode == "ansi":
            cells = list(self.grid.cells)
            cells[self._state] = "A"
            return "\n".join(" ".join(cells[i * columns : (i + 1) * columns]) for i in range(rows))
        if self.render_mode == "rgb_array":
            colours = np.array([_COLOURS.get(symbol, _TRAP_COLOUR) for symbol in self.grid.cells], np.uint8)
            image = colours.reshape(rows, columns, 3).repeat(_PIXELS, 0).repeat(_PIXELS, 1)
            i, j = divmod(self._state, columns)
            quarter = _PIXELS // 4
            inner = slice(i * _PIXELS + quarter, (i + 1) * _PIXELS - quarter)
            image[inner, j * _PIXELS + quarter : (j + 1) * _PIXELS - quarter] = _AGENT_COLOUR
            return image
        return None
