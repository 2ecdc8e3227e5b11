"""Rollouts of a learned agent on any tasks, all at once: GPI over its policies, epsilon-greedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rasf.arrays import Array
from rasf.deep.agent import Agent, Tasks
from rasf.deep.laws import Networks
from rasf.transfer import gpi_actions
from rasf.world import World

Measure = Callable[[Array, Any], Array]  # (step, state after it) -> numbers to average over an episode


class Rollouts(NamedTuple):
    """Of every task and rollout: phi summed (T, R, d), phi summed with discount, and means of what was measured.

    And the states (T, R, steps, ..), if they were recorded.
    """

    phi: Array
    discounted: Array
    measured: Array
    states: Any = None


def _nothing(step: Array, state: Any) -> Array:
    return jnp.zeros(0)


def rollouts(
    agent: Agent,
    world: World,
    networks: Networks,
    key: Array,
    beta: Array,
    tasks: Tasks,
    n: int,
    *,
    epsilon: float = 0.03,
    risk_discount: Array | float = 1.0,
    measure: Measure = _nothing,
    record: bool = False,
) -> Rollouts:
    """n rollouts per task, each of one episode; `agent` must be prepared for the weights of these tasks.

    After an episode terminates nothing more is summed or measured; its last states are still recorded.
    The risk at step t is that of a return which counts risk_discount^t times: 1 scores as the paper does; gamma gives
    discount-aware GPI, which is what the guarantee is about.
    """
    risk, gamma = agent.risk(beta), agent.settings.gamma

    def of_task(key: Array, w: Array, task_input: Array) -> Rollouts:
        task_heads = agent.task_heads(networks, w)
        reset_key, walk_key = jax.random.split(key)
        state = jax.vmap(world.reset)(jax.random.split(reset_key, n))
        first = jax.vmap(measure, in_axes=(None, 0))(jnp.zeros((), int), state)
        none = jnp.zeros((n, tasks.weights.shape[-1]))

        def step(carry: tuple[Any, Array, Array, Rollouts], t: Array) -> tuple[tuple[Any, Array, Array, Rollouts], Any]:
            state, alive, lived, sums = carry
            explore_key, action_key, noise_key = jax.random.split(jax.random.fold_in(walk_key, t), 3)
            at_step = risk.at_discount(jnp.asarray(risk_discount) ** t)
            greedy = gpi_actions(agent.scores(task_heads, jax.vmap(world.observe)(state), task_input, at_step))
            explore = jax.random.uniform(explore_key, (n,)) < epsilon
            action = jnp.where(explore, jax.random.randint(action_key, (n,), 0, agent.actions), greedy)
            noise = jax.vmap(world.noise)(jax.random.split(noise_key, n))
            next_state, phi = jax.vmap(world.advance)(state, action, noise)
            seen = jax.vmap(measure, in_axes=(None, 0))(t, next_state)
            phi, seen = alive * phi, alive * seen
            sums = Rollouts(sums.phi + phi, sums.discounted + gamma**t * phi, sums.measured + seen)
            terminated = jnp.broadcast_to(jax.vmap(world.terminated)(next_state), (n,))[:, None]
            return (next_state, alive * (1.0 - terminated), lived + alive, sums), state if record else None

        alive = jnp.ones((n, 1))
        begin = (state, alive, jnp.zeros_like(alive), Rollouts(none, none, jnp.zeros_like(first)))
        (_, _, lived, sums), states = jax.lax.scan(step, begin, jnp.arange(world.episode_length))
        states = jax.tree.map(lambda part: jnp.moveaxis(part, 0, 1), states)
        return Rollouts(sums.phi, sums.discounted, sums.measured / lived, states)

    return jax.vmap(of_task)(jax.random.split(key, len(tasks.weights)), tasks.weights, tasks.inputs)
