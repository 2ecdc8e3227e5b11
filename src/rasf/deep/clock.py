"""How networks see the time that is left of an episode of known length."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rasf.arrays import Array, array_namespace

TIME_INPUTS = 2  # of networks that see the time that is left
_SPREAD = 12**-0.5  # of what is uniform on [0, 1]


class Clock(NamedTuple):
    """Episodes of at most `limit` steps, discounted by gamma.

    The last input of networks is the share of steps that is left, less its mean and over its spread in an episode.
    """

    limit: int
    gamma: float

    def _summed(self, left: Array) -> Array:
        if self.gamma == 1:
            return left / self.limit
        return (1 - self.gamma**left) / (1 - self.gamma**self.limit)

    def beside(self, obs: Array, age: Array) -> Array:
        """Inputs (.., n) of observations (.., m) after `age` (..) steps; in numpy or jax."""
        xp = array_namespace(obs, age)
        left = xp.maximum(1.0 - xp.asarray(age) / self.limit, 0.0)
        every = np.log(self._summed(np.arange(1, self.limit + 1)))
        now = xp.log(self._summed(xp.maximum(left * self.limit, 1.0)))
        parts = [(now - every.mean()) / max(every.std(), 1e-3), (left - 0.5) / _SPREAD]
        column = xp.stack([xp.broadcast_to(part, obs.shape[:-1]) for part in parts], axis=-1)
        return xp.concatenate([obs, column.astype(obs.dtype)], axis=-1)

    def share(self, x: Array) -> Array:
        """The sum of gamma^t over the steps that are left at inputs (.., n), as a share of a whole episode's."""
        return self._summed((x[..., -1] * _SPREAD + 0.5) * self.limit)
