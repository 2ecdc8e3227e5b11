"""Rollouts in worlds that jax compiles: the loop (`Steps`), and rollouts of a trained agent on any tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from rasf.arrays import Array
from rasf.deep.agent import Agent, Tasks
from rasf.deep.laws import Networks
from rasf.transfer import gpi_actions
from rasf.world import World

S = TypeVar("S")  # states
T = TypeVar("T")  # totals, such as sums of features
X = TypeVar("X")  # input of a step
Measure = Callable[[Array, Any], Array]  # (index of the step, next state) -> m numbers to average over an episode


@dataclass(frozen=True)
class Steps(Generic[S, T, X]):
    """The loop of rollouts in a compiled world. The loop accumulates totals and stacks a record of every step.

    Args:
        act: (state, x) -> action; x is the input of the step, such as its number or its noise.
        advance: (state, action, x) -> (next state, phi).
        add: (totals, state, next state, phi, x) -> (totals, record of the step).
    """

    act: Callable[[S, X], Array]
    advance: Callable[[S, Array, X], tuple[S, Array]]
    add: Callable[[T, S, S, Array, X], tuple[T, Any]]

    def scan(self, state: S, totals: T, given: X) -> tuple[S, T, Any]:
        """Run the loop for all steps.

        Args:
            state: the initial state.
            totals: the initial totals.
            given: the inputs x of the steps, stacked on axis 0.

        Returns:
            The last state, the totals, and the records of the steps, stacked on axis 0.
        """

        def step(carry: tuple[S, T], x: X) -> tuple[tuple[S, T], Any]:
            before, so_far = carry
            after, phi = self.advance(before, self.act(before, x), x)
            totals, record = self.add(so_far, before, after, phi, x)
            return (after, totals), record

        (state, totals), records = jax.lax.scan(step, (state, totals), given)
        return state, totals, records


class Rollouts(NamedTuple):
    """R rollouts on each of T tasks.

    `phi` and `discounted` (T, R, d) are the sums and discounted sums of the d features. `measured` (T, R, m) are means
    over the steps of the m numbers of `Way.measure`. `states` (T, R, steps, ..) are the states before each step; None
    without `Way.record`.
    """

    phi: Array
    discounted: Array
    measured: Array
    states: Any = None


@dataclass(frozen=True)
class Way:
    """Settings of rollouts.

    Args:
        epsilon: the probability of a random action. Default: 0.03.
        risk_discount: at step t, the risk measure is applied to risk_discount^t times the remaining return. The value
            1 gives the scores of the paper's experiments, and gamma those of the paper's theorems. Default: 1.
        measure: a function that returns numbers to average over the steps of an episode. Default: no numbers.
        record: whether to keep the states. Default: False.
    """

    epsilon: float = 0.03
    risk_discount: Array | float = 1.0
    measure: Measure = lambda step, state: jnp.zeros(0)
    record: bool = False


_DEFAULT = Way()


def rollouts(
    agent: Agent,
    world: World,
    networks: Networks,
    key: Array,
    beta: Array,
    tasks: Tasks,
    n: int,
    way: Way = _DEFAULT,
) -> Rollouts:
    """Run n episodes on each task.

    Sums and means leave out the steps after termination. States are recorded up to the time limit, also after
    termination.

    Args:
        agent: the agent, as `Agent.for_weights` returns it for the weights of the tasks.
        world: the world.
        networks: the agent's networks.
        key: the random key.
        beta: the strength of the risk `agent.risk(beta)`.
        tasks: the tasks.
        n: the number of episodes on each task.
        way: settings of the rollouts. Default: those of `Way`.
    """
    risk, gamma, measure = agent.risk(beta), agent.settings.gamma, way.measure

    def of_task(key: Array, w: Array, task_input: Array) -> Rollouts:
        task_heads = agent.task_heads(networks, w)
        reset_key, walk_key = jax.random.split(key)
        state = jax.vmap(world.reset)(jax.random.split(reset_key, n))
        first = jax.vmap(measure, in_axes=(None, 0))(jnp.zeros((), int), state)
        none = jnp.zeros((n, tasks.weights.shape[-1]))

        def keys(t: Array) -> Array:
            return jax.random.split(jax.random.fold_in(walk_key, t), 3)

        def act(state: Any, t: Array) -> Array:
            explore_key, action_key, _ = keys(t)
            at_step = risk.at_discount(jnp.asarray(way.risk_discount) ** t)
            obs = agent.with_time(jax.vmap(world.observe)(state), jnp.broadcast_to(t, (n,)))
            chosen = gpi_actions(agent.scores(task_heads, obs, task_input, at_step))
            exact = jnp.zeros(agent.action_size)  # the greedy action has no noise
            greedy = jax.vmap(lambda x, one: agent.take(task_heads, x, one, exact))(obs, chosen)
            random, _ = agent.random_actions(action_key, n)
            explore = jax.random.uniform(explore_key, (n, *(1,) * (random.ndim - 1))) < way.epsilon
            return jnp.where(explore, random, greedy)

        def advance(state: Any, action: Array, t: Array) -> tuple[Any, Array]:
            noise = jax.vmap(world.noise)(jax.random.split(keys(t)[2], n))
            return jax.vmap(world.advance)(state, action, noise)

        def add(
            totals: tuple[Array, Array, Rollouts], before: Any, after: Any, phi: Array, t: Array
        ) -> tuple[tuple[Array, Array, Rollouts], Any]:
            running, lived, sums = totals
            phi, seen = running * phi, running * jax.vmap(measure, in_axes=(None, 0))(t, after)
            sums = Rollouts(sums.phi + phi, sums.discounted + gamma**t * phi, sums.measured + seen)
            terminated = jnp.broadcast_to(jax.vmap(world.terminated)(after), (n,))[:, None]
            return (running * (1.0 - terminated), lived + running, sums), before if way.record else None

        all_run = jnp.ones((n, 1))
        begin = (all_run, jnp.zeros_like(all_run), Rollouts(none, none, jnp.zeros_like(first)))
        steps = jnp.arange(world.episode_length)
        _, (_, lived, sums), states = Steps(act, advance, add).scan(state, begin, steps)
        states = jax.tree.map(lambda part: jnp.moveaxis(part, 0, 1), states)
        return Rollouts(sums.phi, sums.discounted, sums.measured / lived, states)

    return jax.vmap(of_task)(jax.random.split(key, len(tasks.weights)), tasks.weights, tasks.inputs)
