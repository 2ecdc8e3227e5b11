"""Encoding of the number of steps left in an episode as two inputs of the networks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rasf.arrays import Array, array_namespace

TIME_INPUTS = 2  # number of inputs that encode the time left
_UNIFORM_STD = 12**-0.5  # standard deviation of the uniform distribution on [0, 1]


class Clock(NamedTuple):
    """The encoding of the time left, for episodes of at most `limit` steps and the discount gamma.

    With n steps left, the first input is the logarithm of the sum of gamma^t over t = 0 .. n - 1. The second input is
    n / limit. Over the steps of an episode, each input is scaled to a mean of about 0 and a standard deviation of 1.
    """

    limit: int
    gamma: float

    def _summed(self, left: Array) -> Array:
        """Return the sum of gamma^t over `left` steps, divided by this sum over a whole episode."""
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
        """Return the sum of gamma^t over the steps left (..), divided by this sum over a whole episode.

        Args:
            x: Inputs of networks (.., n); the last two are the time inputs.
        """
        return self._summed((x[..., -1] * _UNIFORM_STD + 0.5) * self.limit)

    def age(self, x: Array) -> Array:
        """Return the number of steps (..) taken so far in the episode, the inverse of `beside`.

        Args:
            x: Inputs of networks (.., n); the last two are the time inputs.
        """
        xp = array_namespace(x)
        return xp.round(self.limit * (0.5 - x[..., -1] * _UNIFORM_STD))
