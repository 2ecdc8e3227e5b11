"""What n environments stepped together look like to a learner; `vector.py` makes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.envs.gymnasium.encoder import Encoder

Inputs = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


class VectorStep(NamedTuple):
    """What one step of n environments led to; next_obs and obs are (n, m), phi is (n, d), the masks are (n,)."""

    next_obs: Inputs
    phi: Inputs
    terminated: Mask
    truncated: Mask
    failure: Mask
    valid: Mask
    obs: Inputs


class FeatureVector(ABC):
    """n environments with features; made by `open_vector`."""

    id: str | None
    num_envs: int
    n_actions: int
    n_features: int
    encoder: Encoder
    bounds: Floats | None
    max_episode_steps: int | None

    @property
    @abstractmethod
    def names_failures(self) -> bool:
        """Whether the environments have named failures in their info so far."""

    @abstractmethod
    def reset(self, seed: int | None = None) -> Inputs:
        """Begin n episodes; the first observations (n, m)."""

    @abstractmethod
    def step(self, actions: npt.ArrayLike) -> VectorStep:
        """Take the actions (n,), each 0 to n_actions - 1."""

    @abstractmethod
    def close(self) -> None:
        """Close the environments."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What a file's header says of the environments, as JSON."""

    def _checked(self, actions: npt.ArrayLike) -> npt.NDArray[np.int64]:
        chosen = np.asarray(actions)
        if chosen.shape != (self.num_envs,) or chosen.dtype.kind not in "iu":
            raise ValueError(f"actions must be {self.num_envs} whole numbers, got {chosen.dtype} of {chosen.shape}")
        if chosen.min() < 0 or chosen.max() >= self.n_actions:
            raise ValueError(f"actions must be 0 to {self.n_actions - 1}, got {chosen.tolist()}")
        return chosen.astype(np.int64)
