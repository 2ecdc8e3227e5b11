"""Replay of unlimited capacity: one row of numbers a transition, so that a minibatch is one gather.

A row holds obs (n), next obs (n), phi (d), action, whether the episode goes on, and the task.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rasf.arrays import Array
from rasf.deep.agent import Batch


def empty(capacity: int, observation_size: int, features: int) -> Array:
    """Rows (capacity, ..) without transitions."""
    return jnp.zeros((capacity, 2 * observation_size + features + 3))


def store(rows: Array, at: Array, transition: Batch) -> Array:
    """The rows with one transition, unbatched, at an index."""
    ends = jnp.stack([transition.action, transition.not_terminated, transition.task]).astype(rows.dtype)
    row = jnp.concatenate([transition.obs, transition.next_obs, transition.phi, ends])
    return jax.lax.dynamic_update_index_in_dim(rows, row, at, 0)


def sample(rows: Array, size: Array, bits: Array, observation_size: int) -> Batch:
    """Transitions of the first `size` rows, uniform with replacement, one for each of the random bits (B,)."""
    picked = rows[bits % size.astype(bits.dtype)]
    n = observation_size
    return Batch(
        obs=picked[:, :n],
        next_obs=picked[:, n : 2 * n],
        phi=picked[:, 2 * n : -3],
        action=picked[:, -3].astype(int),
        not_terminated=picked[:, -2],
        task=picked[:, -1].astype(int),
    )
