"""Predictions of trained networks, compared with true values.

The paper's Figures 13 and 14 are maps over positions of the tip. At a point of a map, the arm is at rest with its tip
at this point. Values are means over both elbow solutions, the two poses with this tip:

    objective (i, j)   max over actions of mean + beta variance of policy i on task j
    variance (i, j)    predicted variance of the return of policy i on task j, at the greedy action of policy i
    truth (i, j)       variance of the return of policy i on task j, by Monte Carlo rollouts

Claim R15 is about the difference of mean-variance and entropic utility on learned histograms. The exact entropic
utility, computed by log-sum-exp, is always finite. Computed directly, exp(beta w z) overflows for large atoms z. The
utility is also sensitive to the tails: softmax leaves a little mass on every atom, and at the paper's beta = -3 the
mass on the last atom of the failure feature is multiplied by exp(180).
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

Totals = tuple[Array, Array]  # discounted features (K, n, d), and the exact variance of failures along the path (K, n)
_HALF_WIDTH = 0.22  # of a map, in metres
_TRACE = 1e-9  # probability that is added to every atom


class Grid(NamedTuple):
    """Tip positions (G, G, 2), whether the arm reaches them (G, G), and states (2 P, 4) of both elbow solutions.

    P is the number of positions that the arm reaches.
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
    """Return both elbow solutions (2, .., 2) = (q1, q2) for tips at `position` (.., 2); nan if out of reach."""
    xp = array_namespace(position)
    x, y = position[..., 0], position[..., 1]
    cos = (x**2 + y**2 - LINK**2 - TIP**2) / (2 * LINK * TIP)
    elbow = xp.arccos(xp.where(xp.abs(cos) <= 1.0, cos, xp.nan))
    bends = xp.stack([elbow, -elbow])
    shoulder = xp.arctan2(y, x) - xp.arctan2(TIP * xp.sin(bends), LINK + TIP * xp.cos(bends))
    return xp.stack([shoulder, bends], axis=-1)


def on_grid(where: Grid, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return values (.., P) of the points that the arm reaches as maps (.., G, G), with nan elsewhere."""
    maps = np.full((*values.shape[:-1], *where.reached.shape), np.nan, np.float32)
    maps[..., where.reached] = values
    return maps


class Beliefs(NamedTuple):
    """Maps of K policies on T tasks: objective and variance (K, T, P), and the share of negative variances."""

    objective: Array
    variance: Array
    negative: Array


class Mapped(NamedTuple):
    """The subject of a map: an agent in a world, at the points of a grid.

    `own_tasks` (K,) has the number of the task that each of the agent's K policies was trained on.
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
        beta: the risk, as the factor that `agent.risk` takes.
        tasks: the tasks (T).
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
        beta: the risk, as the factor that `agent.risk` takes.
        tasks: the tasks (T).
        key: the random key.
        rollouts: the number of rollouts from each state.
        steps: the length of a rollout.
        exact_failures: instead of drawn failures, use the exact variance of the failures along each path, which has
            much less noise. It is exact, as failures do not change the path. Default: False, as for the published
            numbers.
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
    """Return the mean over the two elbow solutions of values (T, K, 2 P), as (K, T, P)."""
    return jnp.moveaxis(jnp.mean(values.reshape(*values.shape[:2], 2, -1), axis=2), 0, 1)


@dataclass(frozen=True)
class _Formula(Risk):
    """A utility of independent features: a formula of their probabilities (.., d, N), atoms (d, N) and weights (d,)."""

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
        beta: the factor of both risks.
        tasks: the tasks (T).
        states: n states for each task (T, n, 4).

    Returns:
        agree: the share of states in which GPI by both utilities takes the same action.
        apart: quantiles 0.1, 0.5 and 0.9 of |entropic - mean-variance| of the scores.
        level: the median |mean-variance|.
        trace: quantiles 0.1, 0.5 and 0.9 of the change of entropic scores if every atom gets 1e-9 more probability.
        lost: the share of scores that overflow without log-sum-exp.
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
