"""Simulation in a `rasf.World` or a learned model, compiled together with the source policies' networks.

A state's numbers are the entries of its arrays, one after the other, as float64. All policies and first actions have
the same random numbers, so that their difference is not due to chance. In shapes, K is the number of policies, B of
observations, A of first actions, N of particles, n of inputs and d of features.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf.arrays import Array, Bools, Floats
from rasf.deep.clock import TIME_INPUTS
from rasf.deep.networks import Network
from rasf.library.ahead.learned import LearnedModel, Parameters
from rasf.library.ahead.networks import Arrays, FollowedNetworks, Form
from rasf.library.ahead.returns import Paths
from rasf.world import World


class WorldModel:
    """A world in which networks look ahead.

    Args:
        world: The world.
        followed: The source policies.
        gamma: The discount of the policies.
    """

    sampled = True  # whether features can be sampled, for risks that need more than mean and variance
    _world: World | LearnedModel
    _parameters: Parameters | None = None

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

    def _begin(self, x: Array, rows: Floats) -> Any:
        """Return the states whose numbers are `rows` (B, m), a tree of arrays (B, ..), at observations x (B, n)."""
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
            self._begin(x, rows[filled]), jnp.asarray(first[filled]), jax.random.key(turn), self._parameters,
        )  # fmt: skip
        return _first_rows(found, many, len(filled))


class ObservedModel(WorldModel):
    """A learned model in which networks look ahead. Its states begin with observations, so that no state is needed.

    Args:
        model: The model.
        followed: The source policies.
        gamma: The discount of the policies.
    """

    numbers = 0

    def __init__(self, model: LearnedModel, followed: FollowedNetworks, gamma: float) -> None:
        self._world, self._followed, self._gamma = model.having(None), followed, gamma
        self._model, self._parameters = model, jax.tree.map(jnp.asarray, model.parameters)

    def _begin(self, x: Array, rows: Floats) -> Any:
        return self._model.begin(x[:, : self._model.observation_size])


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
    world: World | LearnedModel, form: Form, ahead: int, particles: int, gamma: float, sampled: bool, arrays: Arrays,
    obs: Array, states: Any, first: Array, key: Array, parameters: Parameters | None = None,
) -> Paths:  # fmt: skip
    """Simulate paths, for compiled code.

    Args:
        world: The world, or a learned model without its parameters.
        form, arrays: The policies, from `FollowedNetworks`.
        ahead, particles, first, sampled: As for `WorldModel.paths`.
        gamma: The discount.
        obs: Encoded observations (B, n).
        states: States of the world, a tree of arrays (B, ..).
        key: A random key of jax.
        parameters: The parameters of a learned model. Default: none, for a world.
    """
    if isinstance(world, LearnedModel):
        world = world.having(parameters)
    keys, (B, A), K = jax.random.split(key, len(obs)), first.shape[:2], _policies(form, arrays)
    limit = 0 if form.clock is None else form.clock.limit
    age = jnp.zeros(B) if form.clock is None else form.clock.age(obs)
    known, shape = hasattr(world, "step_moments") and not sampled, (K, B, A, particles)
    advance = jax.vmap(world.advance)  # over particles, then first actions, states and policies
    advance = jax.vmap(jax.vmap(jax.vmap(advance, (0, 0, None))), (0, 0, None))
    observe, terminated = _of_paths(world.observe), _of_paths(world.terminated)

    def noise(t: Array) -> Any:
        """Return random numbers (B, N, ..), which all policies and first actions have in common."""
        of_step = jax.vmap(jax.random.fold_in, (0, None))(keys, t)
        return jax.vmap(lambda one: jax.vmap(world.noise)(jax.random.split(one, particles)))(of_step)

    def seen(state: Any, t: Array) -> Array:
        """Return the policies' inputs (K, B A N, n) after t steps."""
        x = observe(state).astype(jnp.float32)
        if form.clock is not None:
            x = form.clock.beside(x, jnp.broadcast_to((age + t)[:, None, None], shape))
        return x.reshape(K, B * A * particles, -1)

    def take(carry: tuple[Any, ...], action: Array, t: Array) -> tuple[Any, ...]:
        """Take step t; the carry has states, the discount z of the next features, and sums of features."""
        state, z, features, spread = carry
        after, phi = advance(state, action.reshape(*shape, *action.shape[2:]), noise(t))
        if known:
            taken = action.reshape(*shape, *action.shape[2:])
            phi, covariance = _of_paths(world.step_moments)(state, taken, after)  # type: ignore[union-attr]
            of_step = jnp.where(z[..., None, None] > 0, z[..., None, None] ** 2 * covariance, 0.0)
            spread = spread + jnp.mean(of_step, axis=3)
        features = features + jnp.where(z[..., None] > 0, z[..., None] * phi, 0.0)
        over = terminated(after)
        if limit:
            over = over | (age + t + 1 >= limit)[:, None, None]
        return after, gamma * jnp.where(over, 0.0, z), features, spread

    def step(carry: tuple[Any, ...], t: Array) -> tuple[tuple[Any, ...], None]:
        return take(carry, form.actions(arrays, seen(carry[0], t)), t), None

    d = world.n_features if isinstance(world, LearnedModel) else len(np.asarray(world.feature_bounds))
    begin = jax.tree.map(lambda part: jnp.broadcast_to(part[:, None, None], (*shape, *part.shape[1:])), states)
    spread = jnp.zeros((K, B, A, d, d)) if known else jnp.zeros(())
    carry = begin, jnp.ones(shape), jnp.zeros((*shape, d)), spread
    every = jnp.broadcast_to(first[:, :, None], (K, B, A, particles, *first.shape[2:]))
    carry = take(carry, every.reshape(K, B * A * particles, *first.shape[2:]), jnp.asarray(0))
    (state, z, features, spread), _ = jax.lax.scan(step, carry, jnp.arange(1, ahead))
    x = seen(state, jnp.asarray(ahead))
    return Paths(features, spread if known else None, z, x, form.actions(arrays, x))


def _policies(form: Form, arrays: Arrays) -> int:
    if isinstance(arrays.actor, Network):
        return len(arrays.actor.heads.bias)
    return sum(len(rows) for rows, _ in form.groups)


def _of_paths(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of arrays (K, B, A, N, ..), given a function of a single path."""
    return jax.vmap(jax.vmap(jax.vmap(jax.vmap(function))))


def check_world(
    world: World | LearnedModel, n_actions: int, size: int, n_inputs: int, n_features: int, limit: int
) -> None:
    """Raise a ValueError if policies cannot act in a world.

    Args:
        world: The world or learned model.
        n_actions: Number of actions of the policies; ignored if actions are vectors.
        size: Number of entries of an action; 0 if actions are numbered.
        n_inputs: Number of inputs of the policies.
        n_features: Number of features of the policies.
        limit: The time limit of the policies, or 0.
    """
    inputs = n_inputs - (TIME_INPUTS if limit else 0)
    features = world.n_features if isinstance(world, LearnedModel) else len(np.asarray(world.feature_bounds))
    wanted = {
        "action_size": (size, int(getattr(world, "action_size", 0))),
        "n_actions": (0 if size else n_actions, 0 if size else world.n_actions),
        "observation_size": (inputs, world.observation_size),
        "number of features": (n_features, features),
    }
    for name, (mine, given) in wanted.items():
        if mine != given:
            raise ValueError(f"model must have the {name} that the library was trained with, {mine}, got {given}")
