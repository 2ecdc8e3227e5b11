"""The fused training loop: act, step the world, store, sample, update, all in one compiled scan, many lanes at once.

A lane is one run: a key, a beta, its tasks. Lanes differ in nothing else, so `jax.vmap` packs seeds and risk levels
into one program. Tasks follow one another; the networks, the optimiser and the replay go on.

    chunk = scan over target periods of (scan over steps; copy to the target networks)

The copy stands between the inner scans, so that no step pays for a condition. All chance of a period is drawn before
it. Every number of a lane follows from its key and the step's index: a run can be cut into chunks anywhere between
target periods, and resumed, without changing a bit on the same device at the same number of lanes.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from rasf.arrays import Array
from rasf.deep import replay
from rasf.deep.agent import Agent, Learner, Policies, Tasks
from rasf.deep.replay import Batch
from rasf.transfer import gpi_actions


class World(Protocol):
    """What a world must offer to be trained on here; `rasf.envs.reacher.world.Reacher` is one.

    Hashable, with pure functions of explicit states and keys. A step's chance is drawn apart (`noise`), so that it can
    be drawn for many steps at once. Episodes end only by their length, which truncates them.
    """

    def __hash__(self) -> int: ...

    @property
    def n_actions(self) -> int: ...

    @property
    def observation_size(self) -> int: ...

    @property
    def feature_bounds(self) -> Array: ...  # (d, 2)

    @property
    def episode_length(self) -> int: ...

    def reset(self, key: Array) -> Any:
        """A random first state."""

    def noise(self, key: Array) -> Any:
        """The chance part of one step."""

    def advance(self, state: Any, action: Array, noise: Any) -> tuple[Any, Array]:
        """The next state and phi (d,)."""

    def observe(self, state: Any) -> Array:
        """The observation (n,) of a state."""


class Lane(NamedTuple):
    """Where one run stands."""

    learner: Learner
    state: Any
    rows: Array


class RunConfig(NamedTuple):
    """What distinguishes one run from another: its key, its tasks, its risk when acting and when bootstrapping.

    beta: (), or (T,), by which to act on each of the tasks. policies: what the policies learn for, where that is not
    the tasks at the one `bootstrap_beta`.
    """

    key: Array
    beta: Array
    bootstrap_beta: Array
    tasks: Tasks
    policies: Policies | None = None


class PeriodStats(NamedTuple):
    """What a target period of training showed: mean loss, mean clipped mass (2,), and phi's mean, least and most."""

    loss: Array
    clipped: Array
    phi_mean: Array
    phi_min: Array
    phi_max: Array


class _Draws(NamedTuple):
    """Chance of one step."""

    reset: Any
    noise: Any
    explore: Array
    action: Array
    sample: Array


def start(agent: Agent, world: World, capacity: int, config: RunConfig) -> Lane:
    """A lane before its first step; `capacity` is the number of steps it will take."""
    key = jax.random.fold_in(config.key, 0)
    init_key, state_key = jax.random.split(key)
    rows = replay.empty(capacity, world.observation_size, config.tasks.weights.shape[-1])
    return Lane(agent.init(init_key), world.reset(state_key), rows)


def advance(
    agent: Agent,
    world: World,
    periods: int,
    length: int,
    config: RunConfig,
    lane: Lane,
    begin: Array,
    task_begin: Array,
    task: Array,
) -> tuple[Lane, PeriodStats]:
    """The lane after `periods` of `length` steps from step `begin`, on the `task` that began at step `task_begin`."""

    def period(lane: Lane, first: Array) -> tuple[Lane, PeriodStats]:
        draws = _draw(agent, world, config.key, first, length)
        inner = partial(_step, agent, world, config, task_begin, task)
        lane, (loss, clipped, phi) = jax.lax.scan(inner, lane, (first + jnp.arange(length), draws))
        lane = lane._replace(learner=agent.copy_target(lane.learner))
        return lane, PeriodStats(
            jnp.mean(loss), jnp.mean(clipped, axis=0), jnp.mean(phi, axis=0), jnp.min(phi, axis=0), jnp.max(phi, axis=0)
        )

    return jax.lax.scan(period, lane, begin + length * jnp.arange(periods))


def _draw(agent: Agent, world: World, key: Array, first: Array, length: int) -> _Draws:
    """Chance of `length` steps, from the key and the index of the first."""
    keys = jax.random.split(jax.random.fold_in(key, first + 1), 5)
    return _Draws(
        reset=jax.vmap(world.reset)(jax.random.split(keys[0], length)),
        noise=jax.vmap(world.noise)(jax.random.split(keys[1], length)),
        explore=jax.random.uniform(keys[2], (length,)) < agent.settings.epsilon,
        action=jax.random.randint(keys[3], (length,), 0, agent.actions),
        sample=jax.random.bits(keys[4], (length, agent.settings.updates * agent.settings.batch)),
    )


def _step(
    agent: Agent, world: World, config: RunConfig, task_begin: Array, task: Array, lane: Lane, now: tuple[Array, _Draws]
) -> tuple[Lane, tuple[Array, Array, Array]]:
    step, draws = now
    fresh = (step - task_begin) % world.episode_length == 0
    state = jax.tree.map(lambda new, old: jnp.where(fresh, new, old), draws.reset, lane.state)
    obs = world.observe(state)
    task_heads = agent.task_heads(agent.acting(lane.learner), config.tasks.weights[task])
    beta = config.beta if jnp.ndim(config.beta) == 0 else config.beta[task]
    scores = agent.scores(task_heads, obs[None], config.tasks.inputs[task], agent.settings.risk(beta))
    action = jnp.where(draws.explore, draws.action, gpi_actions(scores[:, 0]))
    next_state, phi = world.advance(state, action, draws.noise)
    transition = Batch(obs, action, phi, world.observe(next_state), jnp.ones(()), task)
    rows = replay.store(lane.rows, step, transition)
    learned = agent.settings.risk(config.bootstrap_beta) if config.policies is None else config.policies
    learner, losses, masses = lane.learner, [], []
    for bits in jnp.split(draws.sample, agent.settings.updates):
        batch = replay.sample(rows, step + 1, bits, world.observation_size)
        learner, loss, clipped = agent.update(learner, batch, config.tasks, learned)
        losses.append(loss)
        masses.append(clipped)
    return Lane(learner, next_state, rows), (sum(losses) / len(losses), sum(masses) / len(masses), phi)
