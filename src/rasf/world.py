"""The interface `World` of environments in jax, which are compiled into one program with the training loop."""

from __future__ import annotations

from typing import Protocol, TypeGuard, TypeVar

from rasf.arrays import Array

_NEEDED = (
    "n_actions", "observation_size", "feature_bounds", "episode_length",
    "reset", "noise", "advance", "observe", "terminated",
)  # fmt: skip


State = TypeVar("State")  # the state of a world: an array, or a tuple of arrays
Noise = TypeVar("Noise")  # the random part of a step: an array, or a tuple of arrays


class World(Protocol[State, Noise]):
    """An environment in pure jax functions, such as `rasf.envs.reacher.Reacher`.

    A world is hashable, and its functions take states and random keys as arguments. The random part of a step is drawn
    by a separate function (`noise`), so that this part can be drawn for many steps in one call. An episode ends in a
    state for which `terminated` is true, or is truncated after `episode_length` steps.

    If actions are vectors, `n_actions` is 0, and the attribute `action_size` is the number m of their entries, which
    are in [-1, 1]. A world may also have these attributes, which `rasf.learn` uses:

        feature_names       a name for each feature
        signs               1 (more is better), -1 (a cost) or 0 (either) for each feature, used when tasks are drawn
        events              indices of rare features that are never negative, such as failures
        failure_feature     index of the feature that counts failures
        observation_bounds  lowest and highest value (n, 2) of every number in an observation
        preferred_agent     the agent that `agent="auto"` chooses
        registered          the id and keyword arguments of the same environment in Gymnasium's registry

    A world in which features are random even if the states before and after a step are given, such as rare failures,
    may have the method `step_moments(state, action, next_state)`. It returns the mean (d,) and the covariance (d, d) of
    the features, given both states. A library that looks ahead then needs no sampled failures.
    """

    def __hash__(self) -> int: ...

    @property
    def n_actions(self) -> int: ...

    @property
    def observation_size(self) -> int: ...

    @property
    def feature_bounds(self) -> Array: ...  # (d, 2), the lowest and highest value of each feature in a step

    @property
    def episode_length(self) -> int: ...

    def reset(self, key: Array) -> State:
        """Return a random start state.

        Args:
            key: A random key of jax.
        """

    def noise(self, key: Array) -> Noise:
        """Return the random part of one step.

        Args:
            key: A random key of jax.
        """

    def advance(self, state: State, action: Array, noise: Noise) -> tuple[State, Array]:
        """Return the next state and the features phi (d,).

        Args:
            state: The state.
            action: The index of the action, or a vector (m,).
            noise: The random part of the step, from `noise`.
        """

    def observe(self, state: State) -> Array:
        """Return the observation (n,) of a state.

        Args:
            state: The state.
        """

    def terminated(self, state: State) -> Array:
        """Return whether the episode ends in a state, apart from the time limit.

        Args:
            state: The state.
        """


def action_size(world: World) -> int:
    """Return the number of entries of an action, or 0 if an action is an index instead of a vector."""
    return int(getattr(world, "action_size", 0))


def is_world(value: object) -> TypeGuard[World]:
    """Return whether a value is an object (not a class) that has all attributes of a world."""
    return not isinstance(value, type) and all(hasattr(value, name) for name in _NEEDED)
