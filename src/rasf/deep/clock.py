"""Inputs that tell networks the time left in an episode of known length."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rasf.arrays import Array, array_namespace

TIME_INPUTS = 2  # number of inputs that tell the time left
_UNIFORM_STD = 12**-0.5  # standard deviation of the uniform distribution on [0, 1]


class Clock(NamedTuple):
    """The time inputs for episodes of at most `limit` steps, discounted by gamma.

    With n steps left, the first input is the logarithm of the sum of gamma^t over these steps, and the second is
    n / limit. Both are scaled to mean 0 and standard deviation 1 (about) over the steps of an episode.
    """

    limit: int
    gamma: float

    def _summed(self, left: Array) -> Array:
        """The sum of gamma^t over `left` steps, as a share of the sum over a whole episode."""
        if self.gamma == 1:
            return left / self.limit
        return (1 - self.gamma**left) / (1 - self.gamma**self.limit)

    def beside(self, obs: Array, age: Array) -> Array:
        """Return observations with the time inputs appended, (.., m + 2), in numpy or jax.

        Args:
            obs: Observations (.., m).
            age: Steps (..) taken so far in the episode.
        """
        xp = array_namespace(obs, age)
        left = xp.maximum(1.0 - xp.asarray(age) / self.limit, 0.0)
        every = np.log(self._summed(np.arange(1, self.limit + 1)))
        now = xp.log(self._summed(xp.maximum(left * self.limit, 1.0)))
        parts = [(now - every.mean()) / max(every.std(), 1e-3), (left - 0.5) / _UNIFORM_STD]
        column = xp.stack([xp.broadcast_to(part, obs.shape[:-1]) for part in parts], axis=-1)
        return xp.concatenate([obs, column.astype(obs.dtype)], axis=-1)

    def share(self, x: Array) -> Array:
        """Return the sum of gamma^t over the steps left (..), as a share of the sum over a whole episode.

        Args:
            x: Inputs of networks (.., n); the last two are the time inputs.
        """
        return self._summed((x[..., -1] * _UNIFORM_STD + 0.5) * self.limit)
