"""Environments stepped together, as a deep learner wants them: flat observations (n, m) and features (n, d), float32.

`open_vector` takes an id or a factory, and steps n copies in this process, or a `gymnasium.vector.VectorEnv` as it is.
What differs between them is how an episode's end and the next beginning share the steps:

    copies       reset right when they end; every step counts
    SAME_STEP    likewise; the true successor is in info["final_obs"], and what the last step said in info["final_info"]
    NEXT_STEP    the step after an end only resets: its action is ignored, and it is marked as not valid
    DISABLED     reset here, right when they end, by the mask options={"reset_mask": ...}

In all of them `next_obs` is the true successor of the step, also at an episode's end, and `obs` what to act on next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rasf.envs.gymnasium.autoreset import Native
from rasf.envs.gymnasium.feature_vector import FeatureVector, Inputs, VectorStep
from rasf.envs.gymnasium.single import FeatureEnvironment, Phi, open_environment

__all__ = ["Copies", "FeatureVector", "VectorStep", "copy_seeds", "open_vector"]


class Copies(FeatureVector):
    """Single environments, one after the other, reset right when they end."""

    def __init__(self, environments: list[FeatureEnvironment]) -> None:
        self.environments = environments
        first = environments[0]
        self.id, self.num_envs, self.encoder = first.id, len(environments), first.encoder
        self.n_actions, self.n_features, self.bounds = first.n_actions, first.n_features, first.bounds
        self.max_episode_steps = first.max_episode_steps
        for other in environments[1:]:
            if other.describe() != first.describe():
                raise ValueError("env must make the same environment every time, got two that differ")

    @property
    def names_failures(self) -> bool:
        """Whether any copy has named a failure so far."""
        return any(environment.names_failures for environment in self.environments)

    def reset(self, seed: int | None = None) -> Inputs:
        """Begin n episodes, with the seeds `copy_seeds` gives."""
        seeds = [None] * self.num_envs if seed is None else copy_seeds(seed, self.num_envs)
        pairs = zip(self.environments, seeds, strict=True)
        return np.stack([self.encoder.vector(environment.reset(seed)) for environment, seed in pairs])

    def step(self, actions: npt.ArrayLike) -> VectorStep:
        """Every step counts: `valid` is True everywhere."""
        pairs = zip(self.environments, self._checked(actions).tolist(), strict=True)
        steps = [environment.step(action) for environment, action in pairs]
        next_obs = np.stack([self.encoder.vector(step.obs) for step in steps])
        obs = next_obs.copy()
        for i, step in enumerate(steps):
            if step.terminated or step.truncated:
                obs[i] = self.encoder.vector(self.environments[i].reset())
        phi = np.stack([step.phi for step in steps]).astype(np.float32)
        terminated = np.array([step.terminated for step in steps])
        truncated = np.array([step.truncated for step in steps])
        failure = np.array([step.failure for step in steps])
        return VectorStep(next_obs, phi, terminated, truncated, failure, np.ones(self.num_envs, np.bool_), obs)

    def close(self) -> None:
        """Close every copy."""
        for environment in self.environments:
            environment.close()

    def describe(self) -> dict[str, Any]:
        """The description of one copy."""
        return self.environments[0].describe()


def copy_seeds(seed: int, n: int) -> list[int]:
    """The seeds of n copies; those of fewer copies are the first of them."""
    return [int(word) for word in np.random.SeedSequence(seed).generate_state(n)]


def open_vector(env: Any, num_envs: int | None = None, phi: Phi | None = None, **kwargs: Any) -> FeatureVector:
    """n environments from an id (`kwargs` go to `gymnasium.make`), a factory, an environment, or a `VectorEnv`.

    `num_envs` is 1 unless given; a VectorEnv has its own number, and one environment cannot be copied.
    """
    import gymnasium

    if kwargs and not isinstance(env, str):
        raise ValueError(f"{', '.join(kwargs)} can only be given with an environment's id")
    if isinstance(env, gymnasium.vector.VectorEnv):
        if num_envs not in (None, env.num_envs):
            raise ValueError(f"num_envs must be that of the vector environment, {env.num_envs}, got {num_envs}")
        return Native(env, phi)
    n = 1 if num_envs is None else num_envs
    if n < 1:
        raise ValueError(f"num_envs must be at least 1, got {num_envs}")
    if isinstance(env, str):
        return Copies([open_environment(env, phi, **kwargs) for _ in range(n)])
    if isinstance(env, gymnasium.Env):
        if n > 1:
            raise ValueError(f"num_envs={n} needs an environment's id or a function that makes it, got an environment")
        return Copies([open_environment(env, phi)])
    if not callable(env):
        raise ValueError(f"env must be an id, a gymnasium.Env, a function that makes one, got {type(env).__name__}")
    return Copies([open_environment(env(), phi) for _ in range(n)])
