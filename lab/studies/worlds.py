"""Small worlds in jax for screening: many seeds of a variant are trained as one program, on a GPU or on two cores.

    FiniteWorld        any `rasf.FiniteMDP`, observed as one-hot vectors
    DynamicObstacles   MiniGrid-Dynamic-Obstacles-6x6, as its `image` and `direction`; features goal, collision, step
    GustyPole          CartPole-v1 with random pushes, 200 steps; features upright, squared distance, fall
    Flaps              a bird between pipes, 300 steps; features pipes, crash, flaps

They follow `rasf.World`. Numbers that decide anything come from the real environments (`distributions.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rasf import FiniteMDP
from rasf.arrays import Array, Floats


@dataclass(frozen=True, eq=False)
class FiniteWorld:
    """A finite MDP, from one state on, for `episode_length` steps."""

    mdp: FiniteMDP
    start: int
    episode_length: int

    @property
    def n_actions(self) -> int:
        return self.mdp.n_actions

    @property
    def observation_size(self) -> int:
        return self.mdp.n_states

    @cached_property
    def feature_bounds(self) -> Floats:
        return np.stack([self.mdp.phi.min(axis=0), self.mdp.phi.max(axis=0)], axis=1)

    @cached_property
    def _entries(self) -> tuple[Floats, Any]:
        """Cumulated probabilities (S A, m) of each row's entries, and the entries' indices (S A, m)."""
        counts, first = np.diff(self.mdp.indptr), self.mdp.indptr[:-1]
        most = counts.max()
        index = np.minimum(first[:, None] + np.arange(most), (first + np.maximum(counts, 1) - 1)[:, None])
        chance = np.where(np.arange(most) < counts[:, None], self.mdp.probability[index], 0.0)
        return np.cumsum(chance, axis=1).astype(np.float32), index

    def reset(self, key: Array) -> Array:
        return jnp.asarray(self.start)

    def noise(self, key: Array) -> Array:
        return jax.random.uniform(key)

    def advance(self, state: Array, action: Array, noise: Array) -> tuple[Array, Array]:
        below, index = (jnp.asarray(part)[state * self.n_actions + action] for part in self._entries)
        entry = index[jnp.minimum(jnp.sum(below <= noise), len(below) - 1)]
        return jnp.asarray(self.mdp.successor)[entry].astype(jnp.int32), jnp.asarray(self.mdp.phi, jnp.float32)[entry]

    def observe(self, state: Array) -> Array:
        return jax.nn.one_hot(state, self.observation_size)

    def terminated(self, state: Array) -> Array:
        return jnp.asarray(self.mdp.terminal)[state]


_SIZE, _VIEW = 6, 7
_WALL, _BALL, _GOAL, _AGENT = 2, 6, 8, 10  # MiniGrid's numbers of objects
_COLOURS = {_WALL: 5, _BALL: 2, _GOAL: 1}
_STEPS = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])  # of the directions right, down, left, up


class Walk(NamedTuple):
    """agent (2,), its direction, obstacles (n, 2), and whether it arrived or collided."""

    agent: Array
    direction: Array
    obstacles: Array
    over: Array


@dataclass(frozen=True)
class DynamicObstacles:
    """See the module's header."""

    n_obstacles: int = 3
    episode_length: int = 4 * _SIZE**2
    n_actions: int = 3
    observation_size: int = 3 * _VIEW**2 + 4
    feature_bounds: Any = field(default=((0.0, 1.0), (0.0, 1.0), (0.0, 1.0)))

    def _place(self, key: Array, taken: Array, near: Array | None) -> tuple[Array, Array]:
        """A free cell, uniformly, within one step of `near` or anywhere; and whether there is one."""
        free = ~taken
        if near is not None:
            x = jnp.arange(_SIZE)
            free &= (jnp.abs(x[:, None] - near[0]) <= 1) & (jnp.abs(x[None] - near[1]) <= 1)
        drawn = jnp.argmax(jnp.where(free.ravel(), jax.random.uniform(key, (_SIZE**2,)), -1.0))
        return jnp.stack([drawn // _SIZE, drawn % _SIZE]), free.any()

    def _fixed(self, agent: Array) -> Array:
        x = jnp.arange(_SIZE)
        wall = (x == 0) | (x == _SIZE - 1)
        taken = wall[:, None] | wall[None]
        return taken.at[_SIZE - 2, _SIZE - 2].set(True).at[agent[0], agent[1]].set(True)

    def reset(self, key: Array) -> Walk:
        agent = jnp.array([1, 1])
        taken, placed = self._fixed(agent), []
        for one in jax.random.split(key, self.n_obstacles):
            at, _ = self._place(one, taken, None)
            taken = taken.at[at[0], at[1]].set(True)
            placed.append(at)
        return Walk(agent, jnp.asarray(0), jnp.stack(placed), jnp.zeros((), bool))

    def noise(self, key: Array) -> Array:
        return key

    def advance(self, state: Walk, action: Array, noise: Array) -> tuple[Walk, Array]:
        ahead = state.agent + jnp.asarray(_STEPS)[state.direction]
        is_wall = (ahead == 0).any() | (ahead == _SIZE - 1).any()
        blocked = is_wall | (state.obstacles == ahead).all(axis=1).any()
        taken, obstacles = self._fixed(state.agent), state.obstacles
        taken = taken.at[obstacles[:, 0], obstacles[:, 1]].set(True)
        for i, one in enumerate(jax.random.split(noise, self.n_obstacles)):
            old = obstacles[i]
            new, possible = self._place(one, taken, old)
            new = jnp.where(possible, new, old)
            taken = taken.at[old[0], old[1]].set(False).at[new[0], new[1]].set(True)
            obstacles = obstacles.at[i].set(new)
        turned = (state.direction + jnp.where(action == 0, -1, jnp.where(action == 1, 1, 0))) % 4
        forward = action == 2
        free = ~(is_wall | (obstacles == ahead).all(axis=1).any())
        agent = jnp.where(forward & free, ahead, state.agent)
        arrived = forward & (ahead == _SIZE - 2).all()
        collided = forward & blocked & ~arrived
        phi = jnp.stack([arrived * 1.0, collided * 1.0, jnp.ones(())])
        return Walk(agent, turned, obstacles, arrived | collided), phi

    def observe(self, state: Walk) -> Array:
        x = jnp.arange(_SIZE)
        wall = (x == 0) | (x == _SIZE - 1)
        grid = jnp.where(wall[:, None] | wall[None], _WALL, 1).at[_SIZE - 2, _SIZE - 2].set(_GOAL)
        grid = grid.at[state.obstacles[:, 0], state.obstacles[:, 1]].set(_BALL)
        ahead = jnp.asarray(_STEPS)[state.direction]
        right = jnp.stack([-ahead[1], ahead[0]])
        column, row = jnp.meshgrid(jnp.arange(_VIEW), jnp.arange(_VIEW), indexing="ij")  # the agent is at (3, 6)
        at = state.agent + (column - _VIEW // 2)[..., None] * right + (_VIEW - 1 - row)[..., None] * ahead
        inside = ((at >= 0) & (at < _SIZE)).all(axis=-1)
        kind = jnp.where(inside, grid[at[..., 0] % _SIZE, at[..., 1] % _SIZE], _WALL)
        kind = kind.at[_VIEW // 2, _VIEW - 1].set(1)
        colour = sum(jnp.where(kind == one, number, 0) for one, number in _COLOURS.items())
        image = jnp.stack([kind, colour, jnp.zeros_like(kind)], axis=-1)
        return jnp.concatenate([jax.nn.one_hot(state.direction, 4), image.ravel().astype(jnp.float32)])

    def terminated(self, state: Walk) -> Array:
        return state.over


@dataclass(frozen=True)
class GustyPole:
    """See the module's header; a state is x, its speed, the angle and its speed."""

    gust: float = 0.15
    episode_length: int = 200
    n_actions: int = 2
    observation_size: int = 4
    feature_bounds: Any = field(default=((1.0, 1.0), (0.0, 7.0), (0.0, 1.0)))

    def reset(self, key: Array) -> Array:
        return jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)

    def noise(self, key: Array) -> Array:
        return jax.random.normal(key)

    def advance(self, state: Array, action: Array, noise: Array) -> tuple[Array, Array]:
        x, speed, angle, turn = state
        turn = turn + self.gust * noise
        force = jnp.where(action == 1, 10.0, -10.0)
        push = (force + 0.05 * turn**2 * jnp.sin(angle)) / 1.1
        twist = (9.8 * jnp.sin(angle) - jnp.cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * jnp.cos(angle) ** 2 / 1.1))
        pull = push - 0.05 * twist * jnp.cos(angle) / 1.1
        state = jnp.stack([x + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * turn, turn + 0.02 * twist])
        return state, jnp.stack([jnp.ones(()), state[0] ** 2, self.terminated(state) * 1.0])

    def observe(self, state: Array) -> Array:
        return state

    def terminated(self, state: Array) -> Array:
        return (jnp.abs(state[0]) > 2.4) | (jnp.abs(state[2]) > 12 * 2 * jnp.pi / 360)


@dataclass(frozen=True)
class Flaps:
    """See the module's header; a state is the height, the speed, a crash, and where pipes and their gaps are."""

    episode_length: int = 300
    n_actions: int = 2
    observation_size: int = 8
    feature_bounds: Any = field(default=((0.0, 1.0), (0.0, 1.0), (0.0, 1.0)))

    def reset(self, key: Array) -> Array:
        gaps = jax.random.uniform(key, (3,), minval=90.0, maxval=310.0)
        return jnp.concatenate([jnp.array([220.0, 0.0, 0.0]), jnp.array([288.0, 460.0, 632.0]), gaps])

    def noise(self, key: Array) -> Array:
        return jax.random.uniform(key)

    def advance(self, s: Array, action: Array, noise: Array) -> tuple[Array, Array]:
        y, v = s[0], s[1]
        v = jnp.where(action == 1, -9.0, jnp.minimum(v + 1.0, 10.0))
        y = y + v
        x, gap = s[3:6] - 4.0, s[6:9]
        gone = x[0] < -52
        x = jnp.where(gone, jnp.array([x[1], x[2], x[2] + 172.0]), x)
        gap = jnp.where(gone, jnp.array([gap[1], gap[2], 90 + 220 * noise]), gap)
        mid = x + 26
        passed = ((mid <= 74) & (mid + 4 > 74)).any()
        hits = (((x < 57 + 34) & (x + 52 > 57)) & ((y < gap - 50) | (y + 24 > gap + 50))).any()
        crash = hits | (y > 404 - 24) | (y < -100)
        s = jnp.concatenate([jnp.stack([y, v, crash * 1.0]), x, gap])
        return s, jnp.stack([passed * 1.0, crash * 1.0, (action == 1) * 1.0])

    def observe(self, s: Array) -> Array:
        return jnp.concatenate([s[:2], s[3:6], s[6:9]]) / 300

    def terminated(self, s: Array) -> Array:
        return s[2] > 0
