"""Prioritised replay: a row of the replay (a step) is drawn with a probability proportional to its priority.

The priority of a row is the prediction error of the networks in the last update that drew the row. A new row has no
error yet, and gets the largest priority of the last batch. Prioritised replay helps if important steps are rare. In
minecart-v0, for example, one of 200 random steps finds ore. With uniform sampling, a small network does not fit these
steps.

Priorities are stored in blocks of 64, together with the sum of each block. So drawing a row reads the sums and one
block instead of all priorities. The fused driver uses `Priorities` (jax), the stepped driver uses `HostPriorities`
(numpy).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf.arrays import Array, Floats, Ints
from rasf.compiled import compiled

_BLOCK = 64  # number of priorities in a block
_LEAST = 1e-6  # the smallest priority, so that the sum is never zero


class Priorities(NamedTuple):
    """Priorities of the rows of a replay.

    Attributes:
        each: Priorities in n blocks, (n, 64).
        sums: Sums (n,) of the blocks.
        most: The largest priority of the last batch, a scalar (). It is 1 before the first batch.
    """

    each: Array
    sums: Array
    most: Array

    @classmethod
    def empty(cls, capacity: int) -> Priorities:
        """Return zero priorities for `capacity` rows."""
        blocks = -(-capacity // _BLOCK)
        return cls(jnp.zeros((blocks, _BLOCK)), jnp.zeros(blocks), jnp.ones(()))

    def begin(self, at: Array) -> Priorities:
        """Return the priorities after new rows were stored at the indices `at` (n,), with the priority `most`."""
        return self._set(at, jnp.full(at.shape, self.most))

    def rate(self, at: Array, errors: Array) -> Priorities:
        """Return the priorities after an update: the rows of the update have their new errors as priorities.

        Args:
            at: Indices (n,) of the rows. A row may be listed twice, with the same error.
            errors: Errors (n,) of the networks in these rows.
        """
        return self._set(at, errors)._replace(most=jnp.max(errors))

    def _set(self, at: Array, new: Array) -> Priorities:
        block = at // _BLOCK
        each = self.each.at[block, at % _BLOCK].set(jnp.maximum(new, _LEAST))
        return Priorities(each, self.sums.at[block].set(jnp.sum(each[block], axis=1)), self.most)

    def draw(self, shares: Array, size: Array) -> Array:
        """Return the indices (n,) of rows that are drawn by priority.

        Args:
            shares: Uniform random numbers (n,) in [0, 1). The number u selects the first row at which the cumulative
                sum of priorities exceeds u times the sum of all priorities.
            size: Number of rows in use. Only these rows are drawn.
        """
        up_to = jnp.cumsum(self.sums)
        spot = shares * up_to[-1]
        block = jnp.minimum(jnp.searchsorted(up_to, spot, side="right"), len(up_to) - 1)
        inside = jnp.cumsum(self.each[block], axis=1) + (up_to - self.sums)[block][:, None]
        offset = jnp.minimum(jnp.sum(inside <= spot[:, None], axis=1), _BLOCK - 1)
        return jnp.minimum(block * _BLOCK + offset, size - 1)

    def frequency(self, at: Array, size: Array) -> Array:
        """Return the probability of drawing each row, divided by this probability in uniform sampling, (n,).

        Args:
            at: Indices (n,) of the rows.
            size: Number of rows in use.
        """
        return self.each[at // _BLOCK, at % _BLOCK] * (size / jnp.sum(self.sums))


class HostPriorities:
    """`Priorities` in numpy, updated in place."""

    STATE = ("_each", "_sums", "_most")  # attributes that a checkpoint stores

    def __init__(self, capacity: int) -> None:
        self._each, self._most = np.zeros((-(-capacity // _BLOCK), _BLOCK), np.float32), 1.0
        self._sums = np.zeros(len(self._each))

    def begin(self, at: Ints) -> None:
        """Set the priorities of new rows at the indices `at` (n,) to the largest priority of the last batch."""
        _set(self._each, self._sums, at, np.full(len(at), self._most, np.float32))

    def rate(self, at: Ints, errors: npt.NDArray[np.float32]) -> None:
        """Set the priorities of the rows at the indices `at` (n,) to errors (n,)."""
        self._most = float(errors.max())
        _set(self._each, self._sums, at, errors)

    def draw(self, shares: npt.NDArray[np.float32], size: int) -> Ints:
        """Return the indices (n,) of rows that are drawn by priority, as `Priorities.draw` does."""
        return np.asarray(_drawn(self._each, self._sums, shares, size))

    def frequency(self, at: Ints, size: int) -> Floats:
        """Return the numbers (n,) that `Priorities.frequency` returns."""
        return self._each.reshape(-1).take(at) * (size / self._sums.sum())


@compiled()
def _set(each: Array, sums: Array, at: Ints, new: Array) -> None:
    """Set the priorities of the rows `at` to `new`, and update the sums of their blocks.

    If a row is listed twice, its last priority is stored.
    """
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
    """Return the indices (n,) of rows drawn by priority. Arguments are as for `Priorities.draw`."""
    up_to = np.cumsum(sums[: -(-size // _BLOCK)])
    found = np.empty(len(shares), np.int64)
    for i in range(len(shares)):
        spot = shares[i] * up_to[-1]
        block = min(np.searchsorted(up_to, spot, side="right"), len(up_to) - 1)
        offset, reached = 0, up_to[block] - sums[block] + each[block, 0]
        while reached <= spot and offset < _BLOCK - 1:
            offset += 1
            reached += each[block, offset]
        found[i] = min(block * _BLOCK + offset, size - 1)  # rounding errors can give an index past the last row
    return found
