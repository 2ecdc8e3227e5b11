"""`rasf/Grid-v0`: the trap grid for Gymnasium, in MO-Gymnasium's convention (the reward is the vector phi).

Registered with a limit of 35 steps, the paper's; `layout` and `slip` are those of `Grid`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from rasf.envs.grid import EMPTY, FIGURE_1_MAP, GOAL, MOVES, START, WALL, Grid

_PIXELS = 24
_COLOURS = {EMPTY: (255, 255, 255), START: (225, 225, 225), GOAL: (102, 194, 120), WALL: (60, 60, 60)}
_TRAP_COLOUR, _AGENT_COLOUR = (214, 96, 77), (49, 104, 172)


class GridEnv(gym.Env[np.int64, np.int64]):
    """One cell a state; actions left, up, right, down; goal and traps end the episode."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}

    def __init__(self, layout: str = FIGURE_1_MAP, slip: float = 0.2, render_mode: str | None = None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode must be ansi or rgb_array, got {render_mode!r}")
        self.grid = Grid(layout, slip)
        self.render_mode = render_mode
        self.observation_space = gym.spaces.Discrete(len(self.grid.cells))
        self.action_space = gym.spaces.Discrete(len(MOVES))
        self.reward_dim = 2 + len(self.grid.traps)
        self.reward_space = gym.spaces.Box(0.0, 1.0, (self.reward_dim,), np.float32)
        self._state = self.grid.start

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Back to the start."""
        super().reset(seed=seed)
        self._state = self.grid.start
        return np.int64(self._state), {}

    def step(self, action: np.int64) -> tuple[np.int64, npt.NDArray[np.float32], bool, bool, dict[str, Any]]:
        """One move; the reward is phi (d,)."""
        if not self.action_space.contains(action):
            raise ValueError(f"action must be 0 to {len(MOVES) - 1}, got {action}")
        slipped = self.np_random.random() < self.grid.slip
        actual = int(self.np_random.integers(len(MOVES))) if slipped else int(action)
        self._state = self.grid.move(self._state, actual)
        symbol = self.grid.cells[self._state]
        phi = self.grid.features(self._state).astype(np.float32)
        failed = symbol in self.grid.traps
        return np.int64(self._state), phi, failed or symbol == GOAL, False, {"failure": failed}

    def render(self) -> Any:
        """The map as text with the agent as A, or as an image."""
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
