"""What a world must offer to be trained on in the fused loop; `rasf.envs.reacher.world.Reacher` is one.

Pure functions of explicit states and keys. A step's chance is drawn apart (`noise`), so that a loop can draw it for
many steps at once. Episodes end only by their length, which cuts them off: the last state is bootstrapped.
"""

from __future__ import annotations

from typing import Any, Protocol

from rasf.arrays import Array


class World(Protocol):
    """A hashable description of a world."""

    @property
    def n_actions(self) -> int:
        """Number of actions."""

    @property
    def observation_size(self) -> int:
        """Numbers in an observation."""

    @property
    def feature_bounds(self) -> Array:
        """Bounds (d, 2) of the features."""

    @property
    def episode_length(self) -> int:
        """Steps of an episode."""

    def reset(self, key: Array) -> Any:
        """A random first state."""

    def noise(self, key: Array) -> Any:
        """The chance part of one step."""

    def advance(self, state: Any, action: Array, noise: Any) -> tuple[Any, Array]:
        """The next state and phi (d,)."""

    def observe(self, state: Any) -> Array:
        """The observation (n,) of a state."""
