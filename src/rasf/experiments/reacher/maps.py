"""What a trained agent believes, drawn over positions of the tip (the paper's Figures 13 and 14), and the truth.

At rest with the tip at a grid point, both elbow solutions averaged:

    objective (i, j)   max over actions of mean + beta variance of policy i on task j
    variance (i, j)    of the return of policy i on task j, when it takes its own greedy action
    truth (i, j)       the same variance by Monte Carlo rollouts of policy i
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf.arrays import Array
from rasf.deep.agent import Agent, Tasks
from rasf.deep.laws import Networks
from rasf.envs.reacher.arm import ELBOW_LIMIT, angles_reaching
from rasf.envs.reacher.world import Reacher

_HALF_WIDTH = 0.22


class Grid(NamedTuple):
    """Tips (G, G, 2), which of them the arm reaches (G, G), and the states (2 P, 4) of both elbows there."""

    tips: npt.NDArray[np.float64]
    reached: npt.NDArray[np.bool_]
    states: npt.NDArray[np.float32]


def grid(points: int) -> Grid:
    """A square grid of tip positions."""
    axis = np.linspace(-_HALF_WIDTH, _HALF_WIDTH, points)
    tips = np.stack(np.meshgrid(axis, axis), axis=-1)
    angles = angles_reaching(tips)
    reached = (np.abs(np.nan_to_num(angles[..., 1], nan=np.inf)) <= ELBOW_LIMIT).all(axis=0)
    q1 = (angles[..., 0] + np.pi) % (2 * np.pi) - np.pi
    states = np.stack([q1, angles[..., 1], np.zeros_like(q1), np.zeros_like(q1)], axis=-1)[:, reached]
    return Grid(tips, reached, states.reshape(-1, 4).astype(np.float32))


def spread(where: Grid, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Values (.., P) of the reached points as maps (.., G, G), nan elsewhere."""
    maps = np.full((*values.shape[:-1], *where.reached.shape), np.nan, np.float32)
    maps[..., where.reached] = values
    return maps


class Beliefs(NamedTuple):
    """Objective and variance (K, T, P) at the reached points, and the share of states where the variance is < 0."""

    objective: Array
    variance: Array
    negative: Array


def beliefs(agent: Agent, world: Reacher, networks: Networks, beta: Array, tasks: Tasks, where: Grid) -> Beliefs:
    """What the networks say about all tasks; the first K tasks are those of the K policies."""
    risk = agent.settings.risk(beta)
    obs = world.observe(jnp.asarray(where.states))
    own = jnp.argmax(agent.own_scores(networks, obs, tasks.weights[: agent.policies], risk), axis=-1)

    def of_task(task: Tasks) -> tuple[Array, Array]:
        mean, variance = agent.moments(agent.task_heads(networks, task.weights), obs, task.inputs)
        objective = jnp.max(risk.moments(mean, jnp.maximum(variance, 0.0)), axis=-1)
        return objective, jnp.take_along_axis(variance, own[:, :, None], axis=-1)[..., 0]

    objective, variance = jax.lax.map(of_task, tasks)
    return Beliefs(_both_elbows(objective), _both_elbows(variance), jnp.mean(variance < 0))


def true_variance(
    agent: Agent,
    world: Reacher,
    networks: Networks,
    key: Array,
    beta: Array,
    tasks: Tasks,
    where: Grid,
    *,
    rollouts: int,
    steps: int,
) -> Array:
    """Variance (K, T, P) of the discounted return over `steps` greedy steps of each policy, on every task."""
    risk, gamma, K = agent.settings.risk(beta), agent.settings.gamma, agent.policies
    own = tasks.weights[:K]
    state = jnp.broadcast_to(jnp.asarray(where.states), (K, rollouts, *where.states.shape)).reshape(K, -1, 4)

    def step(carry: tuple[Array, Array], t: Array) -> tuple[tuple[Array, Array], None]:
        state, total = carry
        action = jnp.argmax(agent.own_scores(networks, world.observe(state), own, risk), axis=-1)
        keys = jax.random.split(jax.random.fold_in(key, t), state.shape[:2])
        state, phi = jax.vmap(jax.vmap(world.step))(keys, state, action)
        return (state, total + gamma**t * phi), None

    (_, total), _ = jax.lax.scan(step, (state, jnp.zeros((*state.shape[:2], world.n_features))), jnp.arange(steps))
    returns = jnp.einsum("kbd,td->ktb", total, tasks.weights).reshape(K, len(tasks.weights), rollouts, -1)
    return _both_elbows(jnp.moveaxis(jnp.var(returns, axis=2, ddof=1), 1, 0))


def _both_elbows(values: Array) -> Array:
    """Mean over the two elbows of values (T, K, 2 P), as (K, T, P)."""
    return jnp.moveaxis(jnp.mean(values.reshape(*values.shape[:2], 2, -1), axis=2), 0, 1)
