"""Simulation in a `rasf.World`, compiled together with the source policies' networks.

A state's numbers are the entries of its arrays, one after the other, as float64. All policies and first actions have
the same random numbers, so that their difference is not due to chance. In shapes, K is the number of policies, B of
observations, A of first actions, N of particles, n of inputs and d of features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf.arrays import Array, Bools, Floats
from rasf.deep.clock import TIME_INPUTS
from rasf.deep.networks import Network
from rasf.library.ahead.networks import Arrays, FollowedNetworks, Form
from rasf.library.ahead.returns import Paths
from rasf.world import World, action_size


class WorldModel:
    """A world in which networks look ahead.

    Args:
        world: The world.
        followed: The source policies.
        gamma: The discount of the policies.
    """

    sampled = True  # whether features can be sampled, for risks that need more than mean and variance

    def __init__(self, world: World, followed: FollowedNetworks, gamma: float) -> None:
        self._world, self._followed, self._gamma = world, followed, gamma
        like = jax.eval_shape(world.reset, jax.random.key(0))
        self._leaves, self._tree = jax.tree.flatten(like)
        if any(not np.issubdtype(leaf.dtype, np.number) and leaf.dtype != np.bool_ for leaf in self._leaves):
            raise ValueError("model must be a world whose states are arrays of numbers")
        self.numbers = sum(leaf.size for leaf in self._leaves)

    def rows(self, state: object, batch: int | None) -> Floats:
        """Return the numbers of states as rows (B, m).

        Args:
            state: A state of the world; for a batch, every array of the state has a leading axis (B,).
            batch: B, or None for a single state.
        """
        lead = () if batch is None else (batch,)
        wanted = [(*lead, *leaf.shape) for leaf in self._leaves]
        leaves = jax.tree.leaves(state)
        if [np.shape(leaf) for leaf in leaves] != wanted:
            got = [np.shape(leaf) for leaf in leaves]
            raise ValueError(f"state must be a state of the model, with arrays of shapes {wanted}, got {got}")
        flat = [np.asarray(leaf, np.float64).reshape(batch or 1, -1) for leaf in leaves]
        return np.concatenate(flat, axis=1)

    def usable(self, rows: Floats) -> Bools:
        """Return whether the numbers of each state (B, m) are known."""
        return np.asarray(np.isfinite(rows).all(axis=1))

    def _states(self, rows: Floats) -> Any:
        """Return the states whose numbers are `rows` (B, m), a tree of arrays (B, ..)."""
        ends = np.cumsum([leaf.size for leaf in self._leaves])[:-1]
        parts = zip(np.split(rows, ends, axis=1), self._leaves, strict=True)
        leaves = [jnp.asarray(part.reshape(-1, *leaf.shape), leaf.dtype) for part, leaf in parts]
        return jax.tree.unflatten(self._tree, leaves)

    def paths(
        self, obs: npt.NDArray[Any], rows: Floats, first: npt.NDArray[Any], ahead: int, particles: int, turn: int,
        sampled: bool,
    ) -> Paths:  # fmt: skip
        """Simulate paths from B states.

        Args:
            obs: Encoded observations (B, n).
            rows: The numbers (B, m) of the states.
            first: First actions (B, A), or (B, A, P) if actions are vectors.
            ahead: Number of steps.
            particles: Number N of paths for each state, policy and first action.
            turn: A number that determines the random numbers.
            sampled: Whether random features are sampled even if the world knows their moments.

        Returns:
            The paths, as arrays of jax.
        """
        followed, many = self._followed, len(obs)
        filled = np.arange(1 << (many - 1).bit_length()) % many  # programs are compiled for few sizes
        x = jnp.asarray(obs[filled], jnp.float32)
        found = simulate(
            self._world, followed.form, ahead, particles, self._gamma, sampled, followed.arrays, x,
            self._states(rows[filled]), jnp.asarray(first[filled]), jax.random.key(turn),
        )  # fmt: skip
        return _first_rows(found, many, len(filled))


def _first_rows(paths: Paths, many: int, padded: int) -> Paths:
    """Return the paths of the first `many` of the `padded` states."""
    if many == padded:
        return paths
    (K, _, A, N), cut = paths.discount.shape, slice(None, many)

    def of_ends(part: Array) -> Array:
        return part.reshape(K, padded, A * N, *part.shape[2:])[:, cut].reshape(K, many * A * N, *part.shape[2:])

    spread = None if paths.spread is None else paths.spread[:, cut]
    plain = paths.features[:, cut], spread, paths.discount[:, cut]
    return Paths(*plain, of_ends(paths.obs), of_ends(paths.actions))


@partial(jax.jit, static_argnames=("world", "form", "ahead", "particles", "gamma", "sampled"))
def simulate(
    world: World, form: Form, ahead: int, particles: int, gamma: float, sampled: bool, arrays: Arrays, obs: Array,
    states: Any, first: Array, key: Array,
) -> Paths:  # fmt: skip
    """Simulate paths; `WorldModel.paths` explains the arguments. `states` is a tree of arrays (B, ..)."""
    keys, K, (B, A) = jax.random.split(key, len(obs)), _policies(form, arrays), first.shape[:2]
    limit = 0 if form.clock is None else form.clock.limit
    known = hasattr(world, "step_moments") and not sampled
    age = jnp.zeros(B) if form.clock is None else form.clock.age(obs)

    def noise(t: Array) -> Any:
        of_step = jax.vmap(jax.random.fold_in, (0, None))(keys, t)
        return jax.vmap(lambda one: jax.vmap(world.noise)(jax.random.split(one, particles)))(of_step)

    def seen(state: Any, t: Array) -> Array:
        """Return the inputs (K, B A N, n) in states (K, B, A, N, ..) after t steps."""
        x = _nested(world.observe, 4)(state).astype(jnp.float32)
        if form.clock is not None:
            x = form.clock.beside(x, jnp.broadcast_to((age + t)[None, :, None, None], x.shape[:-1]))
        return x.reshape(K, B * A * particles, -1)

    def over(state: Any, t: Array) -> Array:
        ended = _nested(world.terminated, 4)(state)
        return ended | (age + t >= limit)[None, :, None, None] if limit else ended

    def moments(state: Any, action: Array, after: Any, phi: Array) -> tuple[Array, Array]:
        if not known:
            return phi, jnp.zeros(())
        return _nested(world.step_moments, 4)(state, action, after)  # type: ignore[attr-defined]

    def spread_of(here: Array, z: Array) -> Array:
        return jnp.mean(jnp.where(z[..., None, None] > 0, z[..., None, None] ** 2 * here, 0.0), axis=3)

    # first step: the same for all policies
    state0 = jax.tree.map(lambda part: _beside(part, 1, 3, (A, particles))[None], states)
    action0 = _beside(first, 2, 3, (particles,))[None]
    of_particles = _nested(_nested(world.advance, 1, (0, 0, 0)), 1, (0, 0, None))
    advanced, phi = jax.vmap(of_particles)(*jax.tree.map(lambda part: part[0], (state0, action0)), noise(0))
    advanced, phi = jax.tree.map(lambda part: part[None], (advanced, phi))
    mean, covariance = moments(state0, action0, advanced, phi)
    ones = jnp.ones((1, B, A, particles))
    spread = spread_of(covariance, ones) if known else jnp.zeros(())
    state = _for_policies(advanced, K)
    z = gamma * jnp.where(over(state, jnp.asarray(1)), 0.0, 1.0)
    begun = state, z, _for_policies(mean, K), _for_policies(spread, K) if known else spread

    advance = jax.vmap(jax.vmap(of_particles), (0, 0, None))

    def step(carry: tuple[Any, ...], t: Array) -> tuple[tuple[Any, ...], None]:
        state, z, features, spread = carry
        action = form.actions(arrays, seen(state, t))
        action = action.reshape(K, B, A, particles, *action.shape[2:])
        after, phi = advance(state, action, noise(t))
        mean, covariance = moments(state, action, after, phi)
        features = features + jnp.where(z[..., None] > 0, z[..., None] * mean, 0.0)
        spread = spread + spread_of(covariance, z) if known else spread
        z = gamma * jnp.where(over(after, t + 1), 0.0, z)
        return (after, z, features, spread), None

    (state, z, features, spread), _ = jax.lax.scan(step, begun, jnp.arange(1, ahead))
    x = seen(state, jnp.asarray(ahead))
    return Paths(features, spread if known else None, z, x, form.actions(arrays, x))


def _policies(form: Form, arrays: Arrays) -> int:
    if isinstance(arrays.actor, Network):
        return len(arrays.actor.heads.bias)
    return sum(len(rows) for rows, _ in form.groups)


def _nested(function: Callable[..., Any], times: int, axes: Any = 0) -> Callable[..., Any]:
    for _ in range(times):
        function = jax.vmap(function, axes)
    return function


def _beside(part: Array, lead: int, total: int, sizes: Sequence[int]) -> Array:
    """Repeat an array along new axes of the given sizes, inserted after its first `lead` axes."""
    shape = part.shape
    inserted = part.reshape(*shape[:lead], *(1 for _ in sizes), *shape[lead:])
    return jnp.broadcast_to(inserted, (*shape[:lead], *sizes, *shape[lead:]))


def _for_policies(tree: Any, policies: int) -> Any:
    """Repeat arrays (1, ..) for all policies."""
    return jax.tree.map(lambda part: jnp.broadcast_to(part, (policies, *part.shape[1:])), tree)


def check_world(world: World, n_actions: int, size: int, n_inputs: int, n_features: int, limit: int) -> None:
    """Raise a ValueError if policies cannot act in a world.

    Args:
        world: The world.
        n_actions: Number of actions of the policies; ignored if actions are vectors.
        size: Number of entries of an action; 0 if actions are numbered.
        n_inputs: Number of inputs of the policies.
        n_features: Number of features of the policies.
        limit: The time limit of the policies, or 0.
    """
    inputs = n_inputs - (TIME_INPUTS if limit else 0)
    wanted = {
        "action_size": (size, action_size(world)),
        "n_actions": (0 if size else n_actions, 0 if size else world.n_actions),
        "observation_size": (inputs, world.observation_size),
        "number of features": (n_features, len(np.asarray(world.feature_bounds))),
    }
    for name, (mine, given) in wanted.items():
        if mine != given:
            raise ValueError(f"model must have the {name} that the library was trained with, {mine}, got {given}")
