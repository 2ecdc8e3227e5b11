"""The four-room world: rooms with objects of several classes, a goal, and traps that fire at random.

The symbols of the map are `S` start, `G` goal, `X` wall, `T` trap, `.` empty, and `1` to `9` an object of class 1
to 9. A move off the map or into a wall has no effect. If the agent is in a trap after a step, even if the step had no
effect, the trap fires with probability `trap_probability`. A trap that fires is a failure and ends the episode.
Entering the goal ends the episode. An object is collected when the agent first enters its cell in an episode.

    phi = (collected class 1, .., collected class C, reached the goal, failed),   at most one of them is 1

A task of the paper is w = (reward of class 1, .., reward of class C, 1, -2). The number of a state is cell + (number of
cells) * flags, where bit k of `flags` is 1 if object k is collected.

`FourRoomEnv` is the same world for Gymnasium, `rasf/FourRoom-v0`, in MO-Gymnasium's convention (the reward is phi).
`FourRoomEnv` truncates episodes and is registered without `max_episode_steps`, so that there is only one time limit.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Floats32, Ints, Whole
from rasf.checks import number, one_of, whole
from rasf.compiled import compiled
from rasf.envs.cell_map import EMPTY, GOAL, MOVES, START, CellMap
from rasf.files import Header

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

ACTIONS = tuple(MOVES)
WALL, TRAP, CLASSES = "X", "T", "123456789"
_SYMBOLS = START + GOAL + WALL + TRAP + EMPTY + CLASSES
_PLAIN, _TRAP, _GOAL = 0, 1, 2

_PIXELS, _SAMPLES = 32, 4  # pixels per cell and samples per pixel, in each direction
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


class RoomArrays(NamedTuple):
    """The map as arrays for compiled code; see `WorldArrays` in `rasf.envs.tabular_world`."""

    destination: Ints  # (cells, 4) the cell after each move
    object_at: Ints  # (cells,) the object in the cell, or -1
    class_of: Ints  # (objects,) the class of each object, from 0
    kind: Ints  # (cells,) whether the cell is plain, a trap or the goal
    trap_probability: float
    start: int
    n_classes: int
    columns: int

    def first_state(self) -> int:
        """Return the start state, in which no object is collected."""
        return self.start

    def next_state(self, state: int, action: int, draw: float) -> tuple[int, int, bool]:
        """Take a step. The kind of the step is 1 + i if feature i is 1, and 0 if all features are 0."""
        cells = len(self.kind)
        cell, flags, feature, terminated = step(self, state % cells, state // cells, action, draw)
        return cell + cells * flags, 1 + feature, terminated

    def number(self, state: int, i: int) -> int:
        """Return number i of the observation in a state; `FourRoomEnv` lists the numbers."""
        cell = state % len(self.kind)
        if i == 0:
            return cell // self.columns
        return cell % self.columns if i == 1 else state // len(self.kind) >> (i - 2) & 1


@compiled(_nrt=False, forceinline=True)
def step(world: RoomArrays, origin: Whole, flags: int, action: int, draw: float) -> tuple[int, int, int, bool]:
    """Take a step.

    Args:
        world: the map.
        origin: the cell of the agent.
        flags: the objects collected so far, one bit for each object.
        action: index of a move in `ACTIONS`.
        draw: uniform number in [0, 1) that decides whether a trap fires.

    Returns:
        The new cell, the new flags, the index of the feature that is 1 (-1 if all features are 0), and whether the
        episode terminated.
    """
    cell: int = world.destination[origin, action]
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


# with NUMBA_DISABLE_JIT, `step` is a plain function without `py_func`
_plain_step = getattr(step, "py_func", step)


@dataclass(frozen=True)
class FourRoom(CellMap):
    """The parameters of the four-room world, and this world as a `rasf.envs.tabular_world.TabularWorld`.

    Attributes:
        layout: The map, with the symbols of the module docstring. Default: the paper's map.
        trap_probability: Probability that a trap fires. Default: 0.05.
        step_limit: Number of steps after which an episode is truncated. Default: 200.
    """

    layout: str = PAPER_MAP
    trap_probability: float = 0.05
    step_limit: int = 200
    wall: ClassVar = WALL

    def __post_init__(self) -> None:
        self.check_map(lambda symbol: symbol in _SYMBOLS, "S, G, X, T, . and 1 to 9")
        if sum(symbol in CLASSES for symbol in self.cells) > 48:
            raise ValueError("layout must have at most 48 objects")
        number("trap_probability", self.trap_probability, 0.0, 1.0)
        whole("step_limit", self.step_limit)

    @property
    def n_classes(self) -> int:
        """The number C of object classes, the largest digit on the map."""
        return max((int(symbol) for symbol in self.cells if symbol in CLASSES), default=0)

    @property
    def n_features(self) -> int:
        return self.n_classes + 2

    @property
    def n_actions(self) -> int:
        return len(ACTIONS)

    @property
    def kinds(self) -> Floats:
        """Features (1 + d, d) of every kind of step: zeros, then the d unit vectors."""
        return np.concatenate([np.zeros((1, self.n_features)), np.eye(self.n_features)])

    @property
    def failure(self) -> int:
        """The kind of step in which a trap fires."""
        return self.n_features

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each number of an observation can have."""
        return (*self.shape, *(2 for symbol in self.cells if symbol in CLASSES))

    def task(self, class_rewards: npt.ArrayLike, goal: float = 1.0, failure: float = -2.0) -> Floats:
        """Return the weights w (d,) of a task.

        Args:
            class_rewards: reward (C,) for an object of each class.
            goal: reward for the goal. Default: 1.
            failure: reward for a failure. Default: -2.
        """
        rewards = np.asarray(class_rewards, np.float64)
        if rewards.shape != (self.n_classes,):
            raise ValueError(f"class_rewards must have shape ({self.n_classes},), got {rewards.shape}")
        return np.concatenate([rewards, [goal, failure]])

    def random_tasks(self, count: int, rng: np.random.Generator) -> Floats:
        """Return weights (count, d) with class rewards drawn uniformly from [-1, 1], as in the paper.

        Args:
            count: number of tasks.
            rng: generator of the random numbers.
        """
        rewards = rng.uniform(-1, 1, (count, self.n_classes))
        return np.concatenate([rewards, np.tile(self.task(np.zeros(self.n_classes))[-2:], (count, 1))], axis=1)

    def world(self) -> RoomArrays:
        """Return the map as arrays."""
        return self._arrays

    @functools.cached_property
    def _arrays(self) -> RoomArrays:
        cells = self.cells
        destination = [[self.move(cell, action) for action in range(len(MOVES))] for cell in range(len(cells))]
        objects = [cell for cell, symbol in enumerate(cells) if symbol in CLASSES]
        object_at = np.full(len(cells), -1, np.int64)  # int64, because the flags (int64) are shifted by these numbers
        object_at[objects] = np.arange(len(objects))
        kinds = {TRAP: _TRAP, GOAL: _GOAL}
        return RoomArrays(
            np.array(destination, np.int32),
            object_at,
            np.array([int(cells[cell]) - 1 for cell in objects], np.int32),
            np.array([kinds.get(symbol, _PLAIN) for symbol in cells], np.int8),
            float(self.trap_probability),
            self.start,
            self.n_classes,
            self.shape[1],
        )


class FourRoomEnv(gym.Env[Ints, np.int64]):
    """The four-room world for Gymnasium. The actions are left, up, right, down.

    An observation has the row and the column of the agent, and for each object 1 if it is collected, else 0.

    Args:
        layout: the map, with the symbols of the module docstring. Default: the paper's map.
        trap_probability: probability that a trap fires. Default: 0.05.
        step_limit: number of steps after which an episode is truncated. Default: 200.
        render_mode: None, "ansi" or "rgb_array". Default: None.
    """

    metadata: ClassVar[Header] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 8}

    def __init__(
        self,
        layout: str = PAPER_MAP,
        trap_probability: float = 0.05,
        step_limit: int = 200,
        render_mode: str | None = None,
    ) -> None:
        one_of("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        self.rooms = FourRoom(layout, trap_probability, step_limit)
        self.render_mode, self.max_episode_steps = render_mode, step_limit
        self._world = self.rooms.world()
        self.observation_space = gym.spaces.MultiDiscrete(self.rooms.sizes)
        self.action_space = gym.spaces.Discrete(len(ACTIONS))
        self.reward_dim = self.rooms.n_features
        self.reward_space = gym.spaces.Box(0.0, 1.0, (self.reward_dim,), np.float32)
        self.feature_names = (*(f"object {i + 1}" for i in range(self.rooms.n_classes)), "goal", "failure")
        self._cell, self._flags, self._steps, self._running = self._world.start, 0, 0, False

    def random_tasks(self, count: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Return weights (count, d) drawn from the paper's distribution of tasks.

        Args:
            count: number of tasks.
            rng: generator of the random numbers.
        """
        return self.rooms.random_tasks(count, rng)

    @property
    def tabular_world(self) -> FourRoom:
        """The same world as arrays, for compiled loops."""
        return self.rooms

    def reset(self, *, seed: int | None = None, options: Header | None = None) -> tuple[Ints, Header]:
        """Begin an episode at the start with all objects in place; `options` are not used."""
        super().reset(seed=seed)
        self._cell, self._flags, self._steps, self._running = self._world.start, 0, 0, True
        return self._observation(), self._info(failure=False)

    def step(self, action: np.int64) -> tuple[Ints, Floats32, bool, bool, Header]:
        """Take a step; the reward is phi (d,)."""
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

    def render(self) -> str | npt.NDArray[np.uint8] | None:
        """Return the map without collected objects, as text (A is the agent) or as an image, by the render mode."""
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

    def _observation(self) -> Ints:
        collected = [self._flags >> found & 1 for found in range(len(self._world.class_of))]
        return np.array([*divmod(self._cell, self.rooms.shape[1]), *collected], np.int64)

    def _info(self, failure: bool) -> Header:
        return {"failure": failure, "state": self._cell + len(self.rooms.cells) * self._flags}


@functools.cache
def _tile(symbol: str, agent: bool) -> npt.NDArray[np.uint8]:
    """Return the image (pixels, pixels, 3) of a cell; classes have different shapes and colours."""
    # each pixel has several samples, at coordinates x and y in (-1, 1); their mean colour gives smooth edges
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
    elif symbol == GOAL:  # the squares of a finish flag
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
