"""Prioritised replay: rows are drawn in proportion to how wrong the networks were about them.

What matters may be rare: minecart-v0 finds ore in one of two hundred random steps, and a small network that sees these
steps no more often smooths them away. A new row gets the largest priority of the last batch.

Priorities are kept in blocks with their sums, so that drawing reads the sums and one block, not all rows. `Priorities`
is the version of compiled loops, `HostPriorities` that of learners that are stepped from Python; tests hold the two to
each other.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf.arrays import Array, Floats, Ints
from rasf.compiled import compiled

_BLOCK = 64
_LEAST = 1e-6  # of a priority, so that the sum is never zero


class Priorities(NamedTuple):
    """Of each row, in blocks (n, 64), with sums (n,), and the largest of the last batch ()."""

    each: Array
    sums: Array
    most: Array

    @classmethod
    def empty(cls, capacity: int) -> Priorities:
        blocks = -(-capacity // _BLOCK)
        return cls(jnp.zeros((blocks, _BLOCK)), jnp.zeros(blocks), jnp.ones(()))

    def begin(self, at: Array) -> Priorities:
        """With new rows at these indices (n,)."""
        return self._set(at, jnp.full(at.shape, self.most))

    def rate(self, at: Array, errors: Array) -> Priorities:
        """With the errors (n,) of the rows at these indices; a row that is listed twice has the same error twice."""
        return self._set(at, errors)._replace(most=jnp.max(errors))

    def _set(self, at: Array, new: Array) -> Priorities:
        block = at // _BLOCK
        each = self.each.at[block, at % _BLOCK].set(jnp.maximum(new, _LEAST))
        return Priorities(each, self.sums.at[block].set(jnp.sum(each[block], axis=1)), self.most)

    def draw(self, shares: Array, size: Array) -> Array:
        """Indices (n,) among the first `size` where these shares in [0, 1) of all priorities are reached."""
        up_to = jnp.cumsum(self.sums)
        spot = shares * up_to[-1]
        block = jnp.minimum(jnp.searchsorted(up_to, spot, side="right"), len(up_to) - 1)
        inside = jnp.cumsum(self.each[block], axis=1) + (up_to - self.sums)[block][:, None]
        offset = jnp.minimum(jnp.sum(inside <= spot[:, None], axis=1), _BLOCK - 1)
        return jnp.minimum(block * _BLOCK + offset, size - 1)

    def frequency(self, at: Array, size: Array) -> Array:
        """How many times more often than uniformly these rows (n,) are drawn, of the first `size`."""
        return self.each[at // _BLOCK, at % _BLOCK] * (size / jnp.sum(self.sums))


class HostPriorities:
    """`Priorities` in numpy, changed in place."""

    STATE = ("_each", "_sums", "_most")  # for checkpoints

    def __init__(self, capacity: int) -> None:
        self._each, self._most = np.zeros((-(-capacity // _BLOCK), _BLOCK), np.float32), 1.0
        self._sums = np.zeros(len(self._each))

    def begin(self, at: Ints) -> None:
        """New rows are at these indices (n,)."""
        _set(self._each, self._sums, at, np.full(len(at), self._most, np.float32))

    def rate(self, at: Ints, errors: npt.NDArray[np.float32]) -> None:
        """The rows at these indices (n,) have these errors (n,)."""
        self._most = float(errors.max())
        _set(self._each, self._sums, at, errors)

    def draw(self, shares: npt.NDArray[np.float32], size: int) -> Ints:
        """Indices (n,) among the first `size` where these shares in [0, 1) of all priorities are reached."""
        return np.asarray(_drawn(self._each, self._sums, shares, size))

    def frequency(self, at: Ints, size: int) -> Floats:
        """How many times more often than uniformly these rows are drawn, of the first `size`."""
        return self._each.reshape(-1).take(at) * (size / self._sums.sum())


@compiled()
def _set(each: Array, sums: Array, at: Ints, new: Array) -> None:
    """Set priorities of rows, the last one where a row is listed twice, and the sums of their blocks."""
    for i in range(len(at)):
        each[at[i] // _BLOCK, at[i] % _BLOCK] = max(new[i], np.float32(_LEAST))
    for i in range(len(at)):
        block = at[i] // _BLOCK
        total = 0.0
        for priority in each[block]:
            total += priority
        sums[block] = total


@compiled()
def _drawn(each: Array, sums: Array, shares: Array, size: int) -> Ints:
    """The rows of the first `size` where shares (n,) of all priorities are reached, added up in order."""
    up_to = np.cumsum(sums[: -(-size // _BLOCK)])
    found = np.empty(len(shares), np.int64)
    for i in range(len(shares)):
        spot = shares[i] * up_to[-1]
        block = min(np.searchsorted(up_to, spot, side="right"), len(up_to) - 1)
        offset, reached = 0, up_to[block] - sums[block] + each[block, 0]
        while reached <= spot and offset < _BLOCK - 1:
            offset += 1
            reached += each[block, offset]
        found[i] = min(block * _BLOCK + offset, size - 1)  # rounding may lead past the last one
    return found
