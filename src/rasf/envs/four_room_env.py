"""`rasf/FourRoom-v0`: the four-room world for Gymnasium, in MO-Gymnasium's convention (the reward is the vector phi).

`layout`, `trap_probability` and `step_limit` are those of `FourRoom`, and so is the rule of a step. The environment
truncates by itself, and is registered without `max_episode_steps`, so that there is one limit to set.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from rasf.envs.four_room import ACTIONS, EMPTY, GOAL, PAPER_MAP, START, TRAP, WALL, FourRoom, step

# numba returns the bare function when NUMBA_DISABLE_JIT is set
_plain_step = getattr(step, "py_func", step)

_PIXELS, _SAMPLES = 32, 4  # pixels a cell, samples a pixel in each direction
_FLOOR, _LINE, _AGENT, _HALO = (252, 252, 250), (228, 228, 226), (25, 25, 25), (255, 255, 255)
_BACKGROUNDS = {START: (222, 228, 236), WALL: (84, 88, 96), TRAP: (252, 219, 211), GOAL: (222, 242, 226)}
_CLASS_COLOURS = (
    (0, 114, 178),
    (230, 140, 0),
    (170, 80, 150),
    (0, 158, 115),
    (86, 160, 220),
    (120, 94, 40),
    (70, 70, 160),
    (150, 150, 0),
    (110, 110, 110),
)


class FourRoomEnv(gym.Env[npt.NDArray[np.int64], np.int64]):
    """Observation (row, column, one collected flag an object); actions left, up, right, down."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 8}

    def __init__(
        self,
        layout: str = PAPER_MAP,
        trap_probability: float = 0.05,
        step_limit: int = 200,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode must be ansi or rgb_array, got {render_mode!r}")
        self.rooms = FourRoom(layout, trap_probability, step_limit)
        self.render_mode = render_mode
        self._world = self.rooms.world()
        self._n_objects = len(self._world.class_of)
        self.observation_space = gym.spaces.MultiDiscrete([*self.rooms.shape, *[2] * self._n_objects])
        self.action_space = gym.spaces.Discrete(len(ACTIONS))
        self.reward_dim = self.rooms.n_features
        self.reward_space = gym.spaces.Box(0.0, 1.0, (self.reward_dim,), np.float32)
        self._cell, self._flags, self._steps, self._running = self._world.start, 0, 0, False

    def random_tasks(self, count: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Tasks (count, d) of the paper's distribution."""
        return self.rooms.random_tasks(count, rng)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.int64], dict[str, Any]]:
        """Back to the start, with every object back in its place; `options` are not used."""
        super().reset(seed=seed)
        self._cell, self._flags, self._steps, self._running = self._world.start, 0, 0, True
        return self._observation(), self._info(failure=False)

    def step(
        self, action: np.int64
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32], bool, bool, dict[str, Any]]:
        """One move; the reward is phi (d,)."""
        if not self.action_space.contains(action):
            raise ValueError(f"action must be 0 to {len(ACTIONS) - 1}, got {action!r}")
        if not self._running:
            raise gym.error.ResetNeeded("no episode is running: call reset() before step()")
        draw = self.np_random.random()
        cell, flags, feature, terminated = _plain_step(self._world, self._cell, self._flags, int(action), draw)
        self._cell, self._flags, self._steps = int(cell), int(flags), self._steps + 1
        phi = np.zeros(self.reward_dim, np.float32)
        if feature >= 0:
            phi[feature] = 1
        truncated = not terminated and self._steps >= self.rooms.step_limit
        self._running = not (terminated or truncated)
        return self._observation(), phi, terminated, truncated, self._info(failure=bool(phi[-1]))

    def render(self) -> Any:
        """The map without the collected objects, as text with the agent as A, or as an image."""
        rows, columns = self.rooms.shape
        symbols = [EMPTY if self._collected(cell) else symbol for cell, symbol in enumerate(self.rooms.cells)]
        if self.render_mode == "ansi":
            symbols[self._cell] = "A"
            return "\n".join("".join(symbols[i * columns : (i + 1) * columns]) for i in range(rows))
        if self.render_mode == "rgb_array":
            tiles = np.stack([_tile(symbol, cell == self._cell) for cell, symbol in enumerate(symbols)])
            grid = tiles.reshape(rows, columns, _PIXELS, _PIXELS, 3)
            return grid.swapaxes(1, 2).reshape(rows * _PIXELS, columns * _PIXELS, 3)
        return None

    def _collected(self, cell: int) -> bool:
        found = int(self._world.object_at[cell])
        return found >= 0 and bool(self._flags >> found & 1)

    def _observation(self) -> npt.NDArray[np.int64]:
        collected = [self._flags >> found & 1 for found in range(self._n_objects)]
        return np.array([*divmod(self._cell, self.rooms.shape[1]), *collected], np.int64)

    def _info(self, failure: bool) -> dict[str, Any]:
        return {"failure": failure, "state": self._cell + len(self.rooms.cells) * self._flags}


@functools.cache
def _tile(symbol: str, agent: bool) -> npt.NDArray[np.uint8]:
    """One cell's picture (pixels, pixels, 3). Each class has a shape of its own, so colour is not needed to tell."""
    # x and y in (-1, 1), finer than the pixels, which then take the mean: smooth edges
    line = (np.arange(_PIXELS * _SAMPLES) + 0.5) / (_PIXELS * _SAMPLES) * 2 - 1
    y, x = line[:, None], line[None, :]
    from_axes, from_sides, radius = np.abs(x) + np.abs(y), np.maximum(np.abs(x), np.abs(y)), np.hypot(x, y)
    arms = np.minimum(np.abs(x), np.abs(y))
    shapes = (
        from_sides < 0.46,  # square
        from_axes < 0.68,  # diamond
        np.abs(radius - 0.44) < 0.14,  # ring
        (np.abs(x) < (y + 0.55) / 2) & (y < 0.5),  # triangle
        (from_sides < 0.56) & (arms < 0.18),  # plus
        np.abs(from_sides - 0.4) < 0.12,  # frame
        (np.abs(y) < 0.18) & (np.abs(x) < 0.6),  # bar across
        (np.abs(x) < 0.18) & (np.abs(y) < 0.6),  # bar upright
        (from_sides < 0.5) & (np.abs(x) < np.abs(y)),  # hourglass
    )
    layers = [(from_sides > 1 - 2 / _PIXELS, _LINE)] if symbol != WALL else []
    if symbol == TRAP:
        layers.append(((from_sides < 0.55) & (np.abs(np.abs(x) - np.abs(y)) < 0.16), (204, 62, 48)))
    elif symbol == GOAL:  # the chequers of a finish flag
        layers.append(((from_sides < 0.8) & ((np.floor(x / 0.4) + np.floor(y / 0.4)) % 2 == 0), (40, 140, 74)))
    elif symbol.isdigit():
        layers.append((shapes[int(symbol) - 1], _CLASS_COLOURS[int(symbol) - 1]))
    if agent:
        layers += [(radius < 0.76, _HALO), (radius < 0.62, _AGENT)]
    picture = np.empty((*radius.shape, 3))
    picture[:] = _BACKGROUNDS.get(symbol, _FLOOR)
    for mask, colour in layers:
        picture[mask] = colour
    return picture.reshape(_PIXELS, _SAMPLES, _PIXELS, _SAMPLES, 3).mean((1, 3)).round().astype(np.uint8)
