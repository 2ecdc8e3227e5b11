"""Worlds in jax: what the fused training loop needs of an environment."""

from __future__ import annotations

from typing import Protocol, TypeGuard, TypeVar

from rasf.arrays import Array

_NEEDED = (
    "n_actions", "observation_size", "feature_bounds", "episode_length",
    "reset", "noise", "advance", "observe", "terminated",
)  # fmt: skip


State = TypeVar("State")  # of a world, and the random part of a step: arrays, or tuples of them
Noise = TypeVar("Noise")


class World(Protocol[State, Noise]):
    """An environment in pure jax functions; `rasf.envs.reacher.Reacher` is one.

    A world is hashable, and its functions have explicit states and keys. The random part of a step is drawn apart
    (`noise`), so that it can be drawn for many steps at once. An episode ends where `terminated` says so, or it is
    truncated after `episode_length` steps.

    A world may also have these attributes, which `rasf.learn` uses:

        feature_names       a name for each feature
        signs               1 (more is better), -1 (a cost) or 0 for each feature, for tasks that are drawn
        events              indices of rare features that are never negative, such as failures
        failure_feature     index of the feature that counts failures
        observation_bounds  lowest and highest (n, 2) of an observation
        preferred_agent     the agent that `agent="auto"` chooses
        registered          the id and keyword arguments of the same environment in Gymnasium's registry
    """

    def __hash__(self) -> int: ...

    @property
    def n_actions(self) -> int: ...

    @property
    def observation_size(self) -> int: ...

    @property
    def feature_bounds(self) -> Array: ...  # (d, 2), of a step

    @property
    def episode_length(self) -> int: ...

    def reset(self, key: Array) -> State:
        """A random first state."""

    def noise(self, key: Array) -> Noise:
        """The random part of one step."""

    def advance(self, state: State, action: Array, noise: Noise) -> tuple[State, Array]:
        """The next state and phi (d,)."""

    def observe(self, state: State) -> Array:
        """The observation (n,) of a state."""

    def terminated(self, state: State) -> Array:
        """Whether the episode ends in this state, by itself."""


def is_world(value: object) -> TypeGuard[World]:
    """Whether a value has all attributes of a world; a class is none."""
    return not isinstance(value, type) and all(hasattr(value, name) for name in _NEEDED)
