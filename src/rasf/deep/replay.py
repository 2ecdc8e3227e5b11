"""Replay: one row of numbers per transition, so that a minibatch is one gather. The only owner of a row's layout.

    row    obs (n), next_obs (n), phi (d), action, not_terminated, task

`empty`, `store` and `sample` are for compiled loops, `HostReplay` for learners that are stepped from Python. These may
draw some rows by how surprising they were (`Surprises`), since what matters may be rare: minecart-v0 digs ore in one of
two hundred random steps, and a small network that sees them no more often than that smooths them away.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf.arrays import Array, Floats, Ints, array_namespace

_FIRST_ROWS = 1_024
_BLOCK = 64  # ratings, of which the sums are kept
_LEAST = 1e-6  # of a rating, so that they never sum to nothing


class Batch(NamedTuple):
    """B transitions; `not_terminated` is 0 where the episode terminated (not where it was truncated).

    `task` is the index of the one that was active.
    """

    obs: Array
    action: Array
    phi: Array
    next_obs: Array
    not_terminated: Array
    task: Array


def pack(batch: Batch) -> Array:
    """Rows (.., 2 n + d + 3) of transitions (..), in numpy or jax."""
    xp = array_namespace(batch.obs)
    numbers = (xp.asarray(part)[..., None] for part in (batch.action, batch.not_terminated, batch.task))
    return xp.concatenate([batch.obs, batch.next_obs, batch.phi, *numbers], axis=-1)


def unpack(rows: Array, observation_size: int) -> Batch:
    """The transitions (..) of rows (.., 2 n + d + 3)."""
    n = observation_size
    return Batch(
        obs=rows[..., :n],
        next_obs=rows[..., n : 2 * n],
        phi=rows[..., 2 * n : -3],
        action=rows[..., -3].astype(int),
        not_terminated=rows[..., -2],
        task=rows[..., -1].astype(int),
    )


def row_size(observation_size: int, features: int) -> int:
    """Numbers of a row."""
    return 2 * observation_size + features + 3


def empty(capacity: int, observation_size: int, features: int) -> Array:
    """Rows (capacity, ..) without transitions."""
    return jnp.zeros((capacity, row_size(observation_size, features)))


def store(rows: Array, at: Array, new: Array) -> Array:
    """The rows with new ones (n, ..) from an index on."""
    return jax.lax.dynamic_update_slice_in_dim(rows, new.astype(rows.dtype), at, 0)


def sample(rows: Array, size: Array, bits: Array, observation_size: int) -> Batch:
    """Transitions of the first `size` rows, uniform with replacement, one for each of the random bits (B,)."""
    return unpack(rows[bits % size.astype(bits.dtype)], observation_size)


class Drawn(NamedTuple):
    """Rows (*shape, ..), their indices, and how many times more often than uniformly such a row is drawn."""

    rows: npt.NDArray[np.float32]
    chosen: Ints
    frequency: npt.NDArray[np.float32]


class Surprises:
    """How surprising each row was when it was last learned from; a new one is as surprising as any of the last batch.

    Kept in blocks with their sums, so that drawing in proportion reads the sums and a block, not all there is.
    """

    def __init__(self, capacity: int) -> None:
        self._ratings, self._most = np.zeros((-(-capacity // _BLOCK), _BLOCK), np.float32), 1.0
        self._sums = np.zeros(len(self._ratings))

    def begin(self, at: Ints) -> None:
        """New rows at these indices."""
        self._set(at, self._most)

    def rate(self, at: Ints, surprise: npt.NDArray[np.float32]) -> None:
        self._most = float(surprise.max())
        self._set(at, surprise)

    def draw(self, rng: np.random.Generator, n: int, size: int) -> Ints:
        """Indices (n,) among the first `size`, in proportion to surprise."""
        sums = self._sums[: -(-size // _BLOCK)]
        up_to = np.cumsum(sums)
        spot = rng.random(n) * up_to[-1]
        block = np.minimum(np.searchsorted(up_to, spot, side="right"), len(sums) - 1)
        within = spot - (up_to[block] - sums[block])
        offset = np.sum(np.cumsum(self._ratings[block], axis=1) <= within[:, None], axis=1)
        # rounding may lead past the last one
        return np.minimum(block * _BLOCK + np.minimum(offset, _BLOCK - 1), size - 1)

    def frequency(self, at: Ints, size: int) -> Floats:
        """How many times more often than uniformly these are drawn, of the first `size`."""
        return self._ratings.reshape(-1)[at] * (size / self._sums.sum())

    def _set(self, at: Ints, ratings: float | npt.NDArray[np.float32]) -> None:
        self._ratings.reshape(-1)[at] = np.maximum(ratings, _LEAST)
        blocks = at // _BLOCK
        self._sums[blocks] = self._ratings[blocks].sum(axis=1)


class HostReplay:
    """The last `capacity` rows in host memory, which grows as they come; dtype: what observations are kept as."""

    def __init__(self, capacity: int, observation_size: int, features: int, dtype: npt.DTypeLike = np.float32) -> None:
        self._seen, first = 2 * observation_size, min(capacity, _FIRST_ROWS)
        rest = row_size(observation_size, features) - self._seen
        # of rows that are all float32, one array: a minibatch is one gather
        widths = [(self._seen + rest, np.float32)] if dtype == np.float32 else [(self._seen, dtype), (rest, np.float32)]
        self._parts: list[npt.NDArray[Any]] = [np.empty((first, width), kind) for width, kind in widths]
        self._capacity, self._stored = capacity, 0
        self._surprises = Surprises(capacity)

    def __len__(self) -> int:
        return min(self._stored, self._capacity)

    def store(self, rows: npt.NDArray[np.float32]) -> None:
        end, cut = self._stored + len(rows), [self._seen] * (len(self._parts) - 1)
        while len(self._parts[0]) < min(end, self._capacity):
            more = min(len(self._parts[0]), self._capacity - len(self._parts[0]))
            self._parts = [np.concatenate([old, np.empty((more, old.shape[1]), old.dtype)]) for old in self._parts]
        at = np.arange(self._stored, end) % self._capacity
        for part, new in zip(self._parts, np.split(rows, cut, axis=1), strict=True):
            part[at] = new
        self._surprises.begin(at)
        self._stored = end

    def sample(self, rng: np.random.Generator, shape: tuple[int, int]) -> npt.NDArray[np.float32]:
        """Rows (*shape, ..), uniform with replacement."""
        return self._at(rng.integers(len(self), size=shape))

    def sample_by_surprise(self, rng: np.random.Generator, shape: tuple[int, int], share: float) -> Drawn:
        """Rows of which a share comes in proportion to surprise, the others uniform; all with replacement."""
        chosen, by_surprise = rng.integers(len(self), size=shape), rng.random(shape) < share
        chosen[by_surprise] = self._surprises.draw(rng, int(by_surprise.sum()), len(self))
        frequency = 1 - share + share * self._surprises.frequency(chosen, len(self))
        return Drawn(self._at(chosen), chosen, frequency.astype(np.float32))

    def rate(self, chosen: Ints, surprise: npt.NDArray[np.float32]) -> None:
        """How surprising the rows of these indices were just now."""
        self._surprises.rate(chosen.ravel(), surprise.ravel())

    def _at(self, chosen: Ints) -> npt.NDArray[np.float32]:
        if len(self._parts) == 1:
            return np.asarray(self._parts[0][chosen])
        return np.concatenate([part[chosen] for part in self._parts], axis=-1, dtype=np.float32)

    def rows(self) -> npt.NDArray[np.float32]:
        """All that there are."""
        return np.concatenate([part[: len(self)] for part in self._parts], axis=-1, dtype=np.float32)


class Chains:
    """Rows of several steps, from those of single ones: the features summed with discount, and the last successor.

    What follows is discounted once more for every step after the first, which the row keeps in place of 1.
    """

    def __init__(self, num_envs: int, n_step: int, gamma: float, observation_size: int) -> None:
        self._open: list[list[npt.NDArray[np.float32]]] = [[] for _ in range(num_envs)]
        self._n_step, self._gamma, self._size = n_step, gamma, observation_size

    def follow(
        self, rows: npt.NDArray[np.float32], environments: npt.NDArray[Any], over: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.float32]:
        """What is complete after the next row of each of these environments; all that is open where one is over."""
        n, done = self._size, []
        for row, i in zip(rows, environments.tolist(), strict=True):
            waiting = self._open[i]
            for age, earlier in zip(range(len(waiting), 0, -1), waiting, strict=True):
                earlier[2 * n : -3] += self._gamma**age * row[2 * n : -3]
                earlier[n : 2 * n] = row[n : 2 * n]
                earlier[-2] = self._gamma**age * row[-2]
            waiting.append(row.copy())
            if over[i]:
                done += waiting
                waiting.clear()
            elif len(waiting) == self._n_step:
                done.append(waiting.pop(0))
        return np.array(done, np.float32).reshape(-1, rows.shape[1])
