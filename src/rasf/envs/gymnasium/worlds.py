"""`WorldEnv`: a world in jax (`rasf.World`) as a Gymnasium environment."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import jax
import numpy as np

from rasf.arrays import Array, Floats32
from rasf.envs.gymnasium.description import observation_bounds, world_description
from rasf.files import Header
from rasf.world import Noise, State, World, action_size


def world_environment(world: World) -> gymnasium.Env:
    """Return the environment that is registered for the world, or else an environment that steps the world in jax."""
    env_id, kwargs = getattr(world, "registered", (None, {}))
    return WorldEnv(world) if env_id is None else gymnasium.make(env_id, **kwargs)


class WorldEnv(gymnasium.Env[Floats32, Any]):
    """A world that is stepped in jax, one step at a time; the reward is the vector of features."""

    metadata: ClassVar[dict[str, object]] = {"render_modes": []}

    def __init__(self, world: World) -> None:
        self._world, described = world, world_description(world)
        self.observation_space = gymnasium.spaces.Box(*observation_bounds(world), dtype=np.float32)
        size = action_size(world)
        unit = gymnasium.spaces.Box(-1.0, 1.0, (size,)) if size else gymnasium.spaces.Discrete(world.n_actions)
        self.action_space: gymnasium.Space[Any] = unit
        low, high = np.array(described.bounds, np.float32).T
        self.reward_space = gymnasium.spaces.Box(low, high, dtype=np.float32)
        self.reward_dim, self.max_episode_steps = described.n_features, world.episode_length
        for name in ("signs", "feature_names", "preferred_agent"):
            if hasattr(world, name):
                setattr(self, name, getattr(world, name))
        self._failure: int | None = getattr(world, "failure_feature", None)
        self._reset, self._observe = jax.jit(world.reset), jax.jit(world.observe)
        self._advance = jax.jit(lambda state, action, key: _advanced(world, state, action, key))
        self._state: object = None
        self._steps = 0

    @property
    def compiled_world(self) -> World:
        """The world, which the fused driver compiles together with the training loop."""
        return self._world

    @property
    def world_state(self) -> object:
        """The current state of the world; None if no episode is running."""
        return self._state

    def reset(self, *, seed: int | None = None, options: Header | None = None) -> tuple[Floats32, Header]:
        """Begin an episode in a random start state; `options` are not used."""
        super().reset(seed=seed)
        self._state, self._steps = self._reset(self._key()), 0
        return np.asarray(self._observe(self._state), np.float32), {}

    def step(self, action: Any) -> tuple[Floats32, Floats32, bool, bool, Header]:
        """Take a step; the reward is phi (d,)."""
        if self._state is None:
            raise gymnasium.error.ResetNeeded("no episode is running: call reset() before step()")
        self._state, phi, obs, terminated = self._advance(self._state, action, self._key())
        self._steps += 1
        features = np.asarray(phi, np.float32)
        info: dict[str, object] = {} if self._failure is None else {"failure": bool(features[self._failure])}
        ends, cut = bool(terminated), self._steps >= self._world.episode_length
        if ends or cut:
            self._state = None
        return np.asarray(obs, np.float32), features, ends, cut and not ends, info

    def _key(self) -> Array:
        return jax.random.key(int(self.np_random.integers(2**32)))


def _advanced(world: World[State, Noise], state: State, action: Array, key: Array) -> tuple[State, Array, Array, Array]:
    """Return the next state, phi, the observation, and whether the episode terminates."""
    state, phi = world.advance(state, action, world.noise(key))
    return state, phi, world.observe(state), world.terminated(state)
