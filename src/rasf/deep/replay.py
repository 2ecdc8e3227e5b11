"""Replay memory: each step is one row of numbers, so that a minibatch is read by one gather operation.

The columns of a row are defined in this module only. With m numbers per observation and d features, the columns are

    row    obs (m columns), next_obs (m), phi (d), action, not_terminated, task (an index), last

An action is an index (one column), or a vector (a column for each of its numbers). `last` is 1 if the episode
terminated or was truncated after the step. A sample is a window: a step and up to n_step - 1 steps that follow this
step in the same episode. A window is shorter if later steps are not in the replay.

Steps are stored in rounds of one step per environment. The fused driver uses `Ring`, which requires that every
environment takes a step in every round. The stepped driver uses `HostReplay`, where an environment may skip a round.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf.arrays import Array, Ints, array_namespace
from rasf.compiled import compiled

_FIRST_ROWS = 1_024
_COLUMNS = 3  # columns of a row other than observations, features and the action


class Windows(NamedTuple):
    """B windows of at most n steps, with m numbers per observation and d features.

    Attributes:
        obs: The first observation (B, m).
        action: Actions (B, n), or (B, n, action_size) if actions are vectors.
        phi: Features (B, n, d) of the steps.
        next_obs: Observations (B, n, m) after the steps.
        not_terminated: (B, n), 0 for steps after which there is no remaining return, because the episode terminated or
            reached the agent's `limit`; 1 for other steps.
        task: Index (B,) of the task that was active in the first step.
        follows: (B, n), 1 for steps of the window, 0 for padding after the last step of the window.
    """

    obs: Array
    action: Array
    phi: Array
    next_obs: Array
    not_terminated: Array
    task: Array
    follows: Array


class Steps(NamedTuple):
    """Steps (..) as named arrays; the module's header explains the names."""

    obs: Array
    action: Array
    phi: Array
    next_obs: Array
    not_terminated: Array
    task: Array
    last: Array


def row_size(observation_size: int, features: int, action_size: int = 0) -> int:
    """Return the number of columns of a row."""
    return 2 * observation_size + features + max(1, action_size) + _COLUMNS


def pack(steps: Steps, dtype: npt.DTypeLike | None = None) -> Array:
    """Return the rows (.., R) of steps, in numpy or jax.

    Args:
        steps: Steps (..).
        dtype: The type of the numbers in the rows. Default: the common type of the columns.
    """
    xp = array_namespace(steps.obs)
    action = xp.asarray(steps.action)
    if action.ndim < xp.asarray(steps.obs).ndim:
        action = action[..., None]
    numbers = (xp.asarray(part)[..., None] for part in (steps.not_terminated, steps.task, steps.last))
    return xp.concatenate([steps.obs, steps.next_obs, steps.phi, action, *numbers], axis=-1, dtype=dtype)


def unpack(rows: Array, observation_size: int, next_size: int | None = None, action_size: int = 0) -> Steps:
    """Return the steps (..) of rows.

    Args:
        rows: Rows (.., R).
        observation_size: Size n of an observation.
        next_size: Size of the next observation. Default: n.
        action_size: Number of entries of an action that is a vector; 0 if actions are indices. Default: 0.
    """
    n = observation_size
    end = 2 * n if next_size is None else n + next_size
    action = -_COLUMNS - max(1, action_size)
    return Steps(
        obs=rows[..., :n],
        next_obs=rows[..., n:end],
        phi=rows[..., end:action],
        action=rows[..., action:-_COLUMNS] if action_size else rows[..., action].astype(int),
        not_terminated=rows[..., -3],
        task=rows[..., -2].astype(int),
        last=rows[..., -1],
    )


class Drawn(NamedTuple):
    """Windows (..) of at most n rows of R columns, as read from the replay.

    Attributes:
        obs: The first observation (.., m) of each window.
        rest: All columns after `obs`, for every row of a window, (.., n, R - m).
        follows: (.., n), 1 for rows that belong to the window, 0 for padding.
    """

    obs: Array
    rest: Array
    follows: Array

    def windows(self, action_size: int = 0) -> Windows:
        """Return the windows with named columns.

        Args:
            action_size: Number of entries of an action that is a vector; 0 if actions are indices. Default: 0.
        """
        rest = unpack(self.rest, 0, self.obs.shape[-1], action_size)
        return Windows(
            self.obs, rest.action, rest.phi, rest.next_obs, rest.not_terminated, rest.task[..., 0], self.follows
        )


class Ring(NamedTuple):
    """A replay in jax: rows (capacity, R) of E environments that all take one step in every round.

    R is the number of columns. The capacity is a multiple of E, so that a round is E consecutive rows. If the replay is
    full, new rows overwrite the oldest rows.
    """

    rows: Array

    @classmethod
    def empty(cls, capacity: int, environments: int, columns: int) -> Ring:
        """Return an empty replay for at least `capacity` rows."""
        whole = -(-capacity // environments) * environments
        return cls(jnp.zeros((whole, columns)))

    def store(self, round_: Array, new: Array) -> tuple[Ring, Array]:
        """Store the rows of a round.

        Args:
            round_: Number of the round.
            new: Rows (E, R).

        Returns:
            The replay with the new rows, and the indices (E,) of these rows.
        """
        at = (round_ * len(new)) % len(self.rows) + jnp.arange(len(new))
        return Ring(self.rows.at[at].set(new.astype(self.rows.dtype), unique_indices=True)), at

    def draw(self, chosen: Array, stored: Array, environments: int, n_step: int, observation_size: int) -> Drawn:
        """Return windows of at most `n_step` rows.

        Args:
            chosen: Indices (B,) of the first rows of the windows.
            stored: Number of all rows stored so far, including overwritten rows.
            environments: Number E of environments.
            n_step: Maximum number of rows of a window.
            observation_size: Size of an observation.
        """
        ahead = environments * jnp.arange(n_step)
        rest = self.rows[(chosen[:, None] + ahead) % len(self.rows), observation_size:]
        younger = (stored - 1 - chosen) % len(self.rows)  # number of rows stored after the chosen row
        continues = jnp.cumprod(1 - rest[:, :-1, -1], axis=1)
        follows = jnp.concatenate([jnp.ones((len(chosen), 1)), continues], axis=1)
        return Drawn(self.rows[chosen, :observation_size], rest, follows * (ahead <= younger[:, None]))


class HostReplay:
    """A replay in numpy: the last `capacity` rows, in memory that grows as rows are stored.

    For each row, the replay stores the index of the next row of the same episode, or -1 if there is no such row. The
    oldest rows are overwritten first. So a row is always overwritten before its next row, and its index stays valid.

    Args:
        capacity: Maximum number of rows.
        environments: Number of environments.
        observation_size: Size of an observation.
        columns: Number R of columns, see `row_size`.
        dtype: The type of the stored observations. Default: float32.
    """

    def __init__(
        self,
        capacity: int,
        environments: int,
        observation_size: int,
        columns: int,
        dtype: npt.DTypeLike = np.float32,
    ) -> None:
        n, size = observation_size, columns
        # obs is in an array of its own, because a window needs obs only of its first row, and other columns of all rows
        ends = (0, n, size) if dtype == np.float32 else (0, n, 2 * n, size)
        kinds = (dtype, np.float32) if dtype == np.float32 else (dtype, dtype, np.float32)
        self._columns = [slice(*pair) for pair in pairwise(ends)]
        self._parts: list[npt.NDArray[Any]] = [
            np.empty((0, end - begin), kind) for (begin, end), kind in zip(pairwise(ends), kinds, strict=True)
        ]
        self._following: Ints = np.zeros(0, np.int64)
        self._latest: Ints = np.full(environments, -1, np.int64)  # newest row of each running episode, or -1
        self._capacity, self._stored = capacity, 0
        self._grow(_FIRST_ROWS)

    def __len__(self) -> int:
        return min(self._stored, self._capacity)

    def state(self) -> dict[str, Any]:
        """Return the stored rows and the indices that connect rows of an episode, for checkpoints."""
        parts = tuple(part[: len(self)] for part in self._parts)
        links = {"following": self._following[: len(self)], "latest": self._latest}
        return {"parts": parts, "stored": self._stored, **links}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the rows of a checkpoint.

        Args:
            state: The value that `state` returned.

        Raises:
            TypeError: The rows of the checkpoint have other sizes or types than those of this replay.
        """
        for part, held in zip(self._parts, state["parts"], strict=True):
            if (held.shape[1], held.dtype) != (part.shape[1], part.dtype):
                got = f"got {held.dtype} rows of {held.shape[1]}"
                raise TypeError(f"state must have {part.dtype} rows of {part.shape[1]} numbers, {got}")
        self._parts, self._following = list(state["parts"]), state["following"]
        self._latest, self._stored = state["latest"], state["stored"]
        self._grow(max(len(self._following), _FIRST_ROWS))

    def _grow(self, rows: int) -> None:
        """Enlarge the memory to `rows` rows, or to the capacity if the capacity is smaller."""
        more = min(rows, self._capacity) - len(self._following)
        self._parts = [np.concatenate([old, np.empty((more, old.shape[1]), old.dtype)]) for old in self._parts]
        self._following = np.concatenate([self._following, np.full(more, -1, np.int64)])

    def store(self, rows: npt.NDArray[np.float32], environments: Ints) -> Ints:
        """Store rows, and return their indices (n,).

        Args:
            rows: Rows (n, R).
            environments: The index (n,) of each row's environment. Every environment has at most one row.
        """
        end = self._stored + len(rows)
        while len(self._following) < min(end, self._capacity):
            self._grow(2 * len(self._following))
        at: Ints = np.arange(self._stored, end) % self._capacity
        for part, columns in zip(self._parts, self._columns, strict=True):
            part[at] = rows[:, columns]
        self._latest[np.isin(self._latest, at)] = -1  # a small replay may overwrite the newest row of an environment
        before = self._latest[environments]
        self._following[before[before >= 0]] = at[before >= 0]
        self._following[at] = -1
        self._latest[environments] = np.where(rows[:, -1] > 0, -1, at)
        self._stored = end
        return at

    def cut(self) -> None:
        """End the running episodes, so that rows stored later are not linked to earlier rows."""
        self._latest[:] = -1

    def draw(self, chosen: Ints, n_step: int) -> Drawn:
        """Return windows of at most `n_step` rows.

        Args:
            chosen: Indices (..) of the first rows of the windows.
            n_step: Maximum number of rows of a window.
        """
        shape, follows = (*chosen.shape, n_step), np.ones((*chosen.shape, 1), np.float32)
        at = chosen[..., None]
        if n_step > 1:
            at, follows = (part.reshape(shape) for part in _linked(self._following, chosen.ravel(), n_step))
        first, *later = self._parts
        parts = [part.take(at, axis=0) for part in later]
        rest = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1, dtype=np.float32)
        return Drawn(first.take(chosen, axis=0).astype(np.float32, copy=False), rest, follows)

    def rows(self) -> npt.NDArray[np.float32]:
        """Return all stored rows (n, R)."""
        return np.concatenate([part[: len(self)] for part in self._parts], axis=-1, dtype=np.float32)


@compiled()
def _linked(following: Ints, chosen: Ints, n_step: int) -> tuple[Ints, Array]:
    """Return the indices (B, n_step) of the rows of windows, and flags (B, n_step), 1 for rows and 0 for padding.

    A window of fewer than n_step rows is padded with copies of its last row.
    """
    at = np.empty((len(chosen), n_step), np.int64)
    follows = np.zeros((len(chosen), n_step), np.float32)
    for i in range(len(chosen)):
        here, continues = chosen[i], True
        for k in range(n_step):
            if k:
                continues = continues and following[here] >= 0
                if continues:
                    here = following[here]
            at[i, k] = here
            follows[i, k] = continues
    return at, follows
