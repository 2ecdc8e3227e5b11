"""Predictions of trained networks, compared with true values.

The paper's Figures 13 and 14 are maps over positions of the arm's tip. The value at a point of a map is for an arm at
rest with its tip at this point. It is a mean over both elbow solutions, the two poses with this position of the tip.
The maps are:

    objective (i, j)   the largest mean + beta x variance (with the paper's beta) of an action, for policy i on task j
    variance (i, j)    predicted variance of the return of policy i on task j, at the greedy action of policy i
    truth (i, j)       variance of the return of policy i on task j, by Monte Carlo rollouts

Claim R15 is about the difference between mean-variance and entropic utility on learned histograms. The entropic utility
is always finite if computed by log-sum-exp. A direct computation overflows, because exp(beta w z) is too large for
large atoms z. The utility is also sensitive to the tails: softmax leaves a little mass on every atom, and at the
paper's beta = -3 the mass on the last atom of the failure feature is multiplied by exp(180).

Shapes: K policies, T tasks, P positions that the arm reaches, A actions, d features, N atoms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf.arrays import Array, Bools, Floats, Ints, array_namespace
from rasf.deep.agent import Agent, Tasks
from rasf.deep.laws import Networks
from rasf.envs.reacher.arm import ELBOW_LIMIT, LINK, TIP
from rasf.envs.reacher.world import Reacher
from rasf.risk import Entropic, MeanVariance
from rasf.risk.base import Risk
from rasf.transfer import gpi_actions
from rasf_lab.rollouts.compiled import Steps

Totals = tuple[Array, Array]  # discounted sums of features (K, n, d) of n paths; exact variance of failures (K, n)
_HALF_WIDTH = 0.22  # half the width of a map, in metres
_TRACE = 1e-9  # `compare_risks` adds this probability to every atom, to measure how entropic scores change


class Grid(NamedTuple):
    """A grid of G x G tip positions.

    Args:
        tips: the positions (G, G, 2) in metres.
        reached: whether the arm reaches a position (G, G).
        states: the arm's states (2 P, 4) at the positions that it reaches, for both elbow solutions.
    """

    tips: Floats
    reached: Bools
    states: npt.NDArray[np.float32]


def grid(points: int) -> Grid:
    """Return a square grid of tip positions with `points` points on a side."""
    axis = np.linspace(-_HALF_WIDTH, _HALF_WIDTH, points)
    tips = np.stack(np.meshgrid(axis, axis), axis=-1)
    angles = angles_reaching(tips)
    reached = (np.abs(np.nan_to_num(angles[..., 1], nan=np.inf)) <= ELBOW_LIMIT).all(axis=0)
    q1 = (angles[..., 0] + np.pi) % (2 * np.pi) - np.pi
    states = np.stack([q1, angles[..., 1], np.zeros_like(q1), np.zeros_like(q1)], axis=-1)[:, reached]
    return Grid(tips, reached, states.reshape(-1, 4).astype(np.float32))


def angles_reaching(position: Array) -> Array:
    """Return the joint angles (q1, q2) of both elbow solutions (2, .., 2) for tips at `position` (.., 2).

    Angles are nan for positions out of reach.
    """
    xp = array_namespace(position)
    x, y = position[..., 0], position[..., 1]
    cos = (x**2 + y**2 - LINK**2 - TIP**2) / (2 * LINK * TIP)
    elbow = xp.arccos(xp.where(xp.abs(cos) <= 1.0, cos, xp.nan))
    bends = xp.stack([elbow, -elbow])
    shoulder = xp.arctan2(y, x) - xp.arctan2(TIP * xp.sin(bends), LINK + TIP * xp.cos(bends))
    return xp.stack([shoulder, bends], axis=-1)


def on_grid(where: Grid, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return maps (.., G, G) with the values (.., P) at the points that the arm reaches, and nan elsewhere."""
    maps = np.full((*values.shape[:-1], *where.reached.shape), np.nan, np.float32)
    maps[..., where.reached] = values
    return maps


class Beliefs(NamedTuple):
    """Maps of K policies on T tasks: objective and variance (K, T, P), and the share of predicted variances below 0."""

    objective: Array
    variance: Array
    negative: Array


class Mapped(NamedTuple):
    """The subject of a map: an agent in a world, at the points of a grid.

    `own_tasks` (K,) has the index of the training task of each policy.
    """

    agent: Agent
    world: Reacher
    where: Grid
    own_tasks: Ints


def beliefs(mapped: Mapped, networks: Networks, beta: Array, tasks: Tasks) -> Beliefs:
    """Return the maps that the networks predict for all tasks.

    Args:
        mapped: agent, world and grid.
        networks: the agent's networks.
        beta: the strength of the risk `agent.risk(beta)`.
        tasks: T tasks.
    """
    agent, world, where, own_tasks = mapped
    risk = agent.risk(beta)
    obs = world.observe(jnp.asarray(where.states))
    own = jnp.argmax(agent.own_scores(networks, obs, tasks.weights[own_tasks], risk), axis=-1)

    def of_task(task: Tasks) -> tuple[Array, Array]:
        mean, variance = agent.moments(agent.task_heads(networks, task.weights), obs, task.inputs)
        objective = jnp.max(risk.moments(mean, jnp.maximum(variance, 0.0)), axis=-1)
        return objective, jnp.take_along_axis(variance, own[:, :, None], axis=-1)[..., 0]

    objective, variance = jax.lax.map(of_task, tasks)
    return Beliefs(_both_elbows(objective), _both_elbows(variance), jnp.mean(variance < 0))


def true_variance(
    mapped: Mapped,
    networks: Networks,
    beta: Array,
    tasks: Tasks,
    key: Array,
    *,
    rollouts: int,
    steps: int,
    exact_failures: bool = False,
) -> Array:
    """Return the variance (K, T, P) of the discounted return of each policy on every task, from greedy rollouts.

    Args:
        mapped: agent, world and grid.
        networks: the agent's networks.
        beta: the strength of the risk `agent.risk(beta)`.
        tasks: T tasks.
        key: the random key.
        rollouts: the number of rollouts from each state.
        steps: the number of steps of a rollout.
        exact_failures: whether to compute the variance of the failures on each path from their probabilities, and not
            from drawn failures. Failures do not change the path, so this part of the variance is exact, and the
            estimate has much less noise. Default: False, as for the published numbers.
    """
    agent, world, where, own_tasks = mapped
    risk, gamma, K = agent.risk(beta), agent.settings.gamma, agent.policies
    own = tasks.weights[own_tasks]
    state = jnp.broadcast_to(jnp.asarray(where.states), (K, rollouts, *where.states.shape)).reshape(K, -1, 4)

    def act(state: Array, t: Array) -> Array:
        return jnp.argmax(agent.own_scores(networks, world.observe(state), own, risk), axis=-1)

    def advance(state: Array, action: Array, t: Array) -> tuple[Array, Array]:
        keys = jax.random.split(jax.random.fold_in(key, t), state.shape[:2])
        return jax.vmap(jax.vmap(world.step))(keys, state, action)

    def add(totals: Totals, before: Array, after: Array, phi: Array, t: Array) -> tuple[Totals, None]:
        total, known = totals
        if exact_failures:
            p = world.failure_probability * world.in_circle(world.tip(before, after))
            phi, known = phi.at[..., -1].set(p), known + gamma ** (2 * t) * p * (1 - p)
        return (total + gamma**t * phi, known), None

    begin = (jnp.zeros((*state.shape[:2], world.n_features)), jnp.zeros(state.shape[:2]))
    _, (total, known), _ = Steps(act, advance, add).scan(state, begin, jnp.arange(steps))
    returns = jnp.einsum("kbd,td->ktb", total, tasks.weights).reshape(K, len(tasks.weights), rollouts, -1)
    of_failures = jnp.einsum("kb,t->ktb", known, tasks.weights[:, -1] ** 2).reshape(returns.shape)
    variance = jnp.var(returns, axis=2, ddof=1) + jnp.mean(of_failures, axis=2)
    return _both_elbows(jnp.moveaxis(variance, 1, 0))


def _both_elbows(values: Array) -> Array:
    """Return the mean (K, T, P) over the two elbow solutions of values (T, K, 2 P)."""
    return jnp.moveaxis(jnp.mean(values.reshape(*values.shape[:2], 2, -1), axis=2), 0, 1)


@dataclass(frozen=True)
class _Formula(Risk):
    """A utility that `formula` computes from histograms of independent features.

    The arguments of `formula` are probabilities (.., d, N), atoms (d, N) and weights (d,).
    """

    formula: Callable[[Array, Array, Array], Array]
    supports: ClassVar[frozenset[str]] = frozenset({"independent"})

    def independent(self, probs: Array, atoms: Array, w: Array) -> Array:
        return self.formula(probs, atoms, w)


def compare_risks(
    agent: Agent, world: Reacher, networks: Networks, beta: Array, tasks: Tasks, states: Array
) -> dict[str, Array]:
    """Compare the scores and actions of GPI by mean-variance and by the entropic utility.

    Args:
        agent: the agent.
        world: the world.
        networks: the agent's networks.
        beta: the beta of both risks.
        tasks: T tasks.
        states: n states for each task (T, n, 4).

    Returns:
        agree: the share of states in which GPI takes the same action by both utilities.
        apart: quantiles 0.1, 0.5 and 0.9 of |entropic score - mean-variance score|.
        level: the median |mean-variance score|.
        trace: quantiles 0.1, 0.5 and 0.9 of |change of an entropic score| if every atom gets 1e-9 more probability.
        lost: the share of entropic scores that overflow without log-sum-exp.
    """

    def as_written(probs: Array, atoms: Array, w: Array) -> Array:
        return jnp.sum(jnp.log(jnp.sum(probs * jnp.exp(beta * w[:, None] * atoms), axis=-1)) / beta, axis=-1)

    def with_trace(probs: Array, atoms: Array, w: Array) -> Array:
        return Entropic(beta).independent((1 - _TRACE * probs.shape[-1]) * probs + _TRACE, atoms, w)

    rules = (MeanVariance(beta), Entropic(beta), _Formula(as_written), _Formula(with_trace))

    def of_task(task: tuple[Array, Array, Array]) -> tuple[Array, ...]:
        w, task_input, here = task
        task_heads, obs = agent.task_heads(networks, w), world.observe(here)
        approximate, exact, plain, traced = (agent.scores(task_heads, obs, task_input, rule) for rule in rules)
        return approximate, exact, plain, traced, gpi_actions(approximate) == gpi_actions(exact)

    # scores (T, K, n, A)
    approximate, exact, plain, traced, same = jax.lax.map(of_task, (tasks.weights, tasks.inputs, states))
    at = jnp.array([0.1, 0.5, 0.9])
    return {
        "agree": jnp.mean(same),
        "apart": jnp.quantile(jnp.abs(exact - approximate), at),
        "level": jnp.median(jnp.abs(approximate)),
        "trace": jnp.quantile(jnp.abs(traced - exact), at),
        "lost": jnp.mean(~jnp.isfinite(plain)),
    }
