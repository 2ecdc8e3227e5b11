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
from rasf.compiled import compiled

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


def pack(batch: Batch, dtype: npt.DTypeLike | None = None) -> Array:
    """Rows (.., 2 n + d + 3) of transitions (..), in numpy or jax."""
    xp = array_namespace(batch.obs)
    numbers = (xp.asarray(part)[..., None] for part in (batch.action, batch.not_terminated, batch.task))
    return xp.concatenate([batch.obs, batch.next_obs, batch.phi, *numbers], axis=-1, dtype=dtype)


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
        _set(self._ratings, self._sums, at, np.full(len(at), self._most, np.float32))

    def rate(self, at: Ints, surprise: npt.NDArray[np.float32]) -> None:
        self._most = float(surprise.max())
        _set(self._ratings, self._sums, at, surprise)

    def draw(self, rng: np.random.Generator, n: int, size: int) -> Ints:
        """Indices (n,) among the first `size`, in proportion to surprise."""
        return np.asarray(_drawn(self._ratings, self._sums, rng.random(n), size))

    def frequency(self, at: Ints, size: int) -> Floats:
        """How many times more often than uniformly these are drawn, of the first `size`."""
        return self._ratings.reshape(-1).take(at) * (size / self._sums.sum())


@compiled()
def _set(ratings: Array, sums: Array, at: Ints, new: Array) -> None:
    """Ratings of these rows, the last one where a row comes twice, and the sums of their blocks."""
    for i in range(len(at)):
        ratings[at[i] // _BLOCK, at[i] % _BLOCK] = max(new[i], np.float32(_LEAST))
    for i in range(len(at)):
        block = at[i] // _BLOCK
        total = 0.0
        for rating in ratings[block]:
            total += rating
        sums[block] = total


@compiled()
def _drawn(ratings: Array, sums: Array, shares: Floats, size: int) -> Ints:
    """The rows of the first `size` where shares (n,) of all ratings are reached, added up in order."""
    up_to = np.cumsum(sums[: -(-size // _BLOCK)])
    found = np.empty(len(shares), np.int64)
    for i in range(len(shares)):
        spot = shares[i] * up_to[-1]
        block = min(np.searchsorted(up_to, spot, side="right"), len(up_to) - 1)
        offset, reached = 0, up_to[block] - sums[block] + ratings[block, 0]
        while reached <= spot and offset < _BLOCK - 1:
            offset += 1
            reached += ratings[block, offset]
        found[i] = min(block * _BLOCK + offset, size - 1)  # rounding may lead past the last one
    return found


class HostReplay:
    """The last `capacity` rows in host memory, which grows as they come; dtype: what observations are kept as."""

    def __init__(self, capacity: int, observation_size: int, features: int, dtype: npt.DTypeLike = np.float32) -> None:
        self._seen, first = 2 * observation_size, min(capacity, _FIRST_ROWS)
        rest = row_size(observation_size, features) - self._seen
        # of rows that are all float32, one array: a minibatch is one gather
        widths = [(self._seen + rest, np.float32)] if dtype == np.float32 else [(self._seen, dtype), (rest, np.float32)]
        self._parts: list[npt.NDArray[Any]] = [np.empty((first, width), kind) for width, kind in widths]
        self._columns = [slice(None)] if len(widths) == 1 else [slice(self._seen), slice(self._seen, None)]
        self._capacity, self._stored = capacity, 0
        self._surprises = Surprises(capacity)

    def __len__(self) -> int:
        return min(self._stored, self._capacity)

    def state(self) -> dict[str, Any]:
        """The rows in use and their ratings, for checkpoints."""
        ratings = {name: getattr(self._surprises, name) for name in ("_ratings", "_sums", "_most")}
        return {"parts": tuple(part[: len(self)] for part in self._parts), "stored": self._stored, "ratings": ratings}

    def restore(self, state: dict[str, Any]) -> None:
        """Hold what `state` gave."""
        for part, held in zip(self._parts, state["parts"], strict=True):
            if (held.shape[1], held.dtype) != (part.shape[1], part.dtype):
                raise TypeError(f"a replay of {part.dtype} {part.shape[1:]} cannot hold {held.dtype} {held.shape[1:]}")
        first = max(len(state["parts"][0]), min(self._capacity, _FIRST_ROWS))
        self._parts = [np.empty((first, part.shape[1]), part.dtype) for part in self._parts]
        for part, held in zip(self._parts, state["parts"], strict=True):
            part[: len(held)] = held
        self._stored = state["stored"]
        for name, value in state["ratings"].items():
            setattr(self._surprises, name, value)

    def store(self, rows: npt.NDArray[np.float32]) -> None:
        if not len(rows):
            return
        end = self._stored + len(rows)
        while len(self._parts[0]) < min(end, self._capacity):
            more = min(len(self._parts[0]), self._capacity - len(self._parts[0]))
            self._parts = [np.concatenate([old, np.empty((more, old.shape[1]), old.dtype)]) for old in self._parts]
        at = np.arange(self._stored, end) % self._capacity
        for part, columns in zip(self._parts, self._columns, strict=True):
            part[at] = rows[:, columns]
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
            return np.asarray(self._parts[0].take(chosen, axis=0))
        return np.concatenate([part.take(chosen, axis=0) for part in self._parts], axis=-1, dtype=np.float32)

    def rows(self) -> npt.NDArray[np.float32]:
        """All that there are."""
        return np.concatenate([part[: len(self)] for part in self._parts], axis=-1, dtype=np.float32)


class Chains:
    """Rows of several steps, from those of single ones: the features summed with discount, and the last successor.

    What follows is discounted once more for every step after the first, which the row keeps in place of 1.
    """

    STATE = ("_open", "_ring")  # for checkpoints

    def __init__(self, num_envs: int, n_step: int, gamma: float, observation_size: int) -> None:
        self._gammas, self._size = np.array([gamma**age for age in range(n_step)], np.float32), observation_size
        # of each environment the rows that are open, in a ring: where the first is, and how many there are
        self._open = np.empty((num_envs, n_step, 0), np.float32)
        self._ring = np.zeros((num_envs, 2), np.int64)

    def follow(
        self, rows: npt.NDArray[np.float32], environments: Ints, over: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.float32]:
        """What is complete after the next row of each of these environments; all that is open where one is over."""
        if self._open.shape[2] != rows.shape[1]:  # the first ones
            self._open = np.empty((*self._open.shape[:2], rows.shape[1]), np.float32)
        return np.asarray(_followed(self._open, self._ring, rows, environments, over, self._gammas, self._size))

    def drop(self) -> None:
        """Forget what is open."""
        self._ring[:] = 0


@compiled()
def _followed(opened: Array, ring: Ints, rows: Array, environments: Ints, over: Array, gammas: Array, n: int) -> Array:
    """`Chains.follow`; opened (E, n_step, ..), ring (E, 2)."""
    n_step, done = len(gammas), 0
    complete = np.empty((len(rows) * n_step, rows.shape[1]), np.float32)
    for row, i in zip(rows, environments):  # noqa: B905, numba knows no strict
        first, waiting = ring[i]
        for k in range(waiting):
            earlier, gamma = opened[i, (first + k) % n_step], gammas[waiting - k]
            earlier[n : 2 * n] = row[n : 2 * n]
            earlier[2 * n : -3] += gamma * row[2 * n : -3]
            earlier[-2] = gamma * row[-2]
        opened[i, (first + waiting) % n_step] = row
        waiting += 1
        ends = waiting if over[i] else waiting // n_step
        for k in range(ends):
            complete[done + k] = opened[i, (first + k) % n_step]
        done += ends
        ring[i] = (first + ends) % n_step, waiting - ends
    return complete[:done]
