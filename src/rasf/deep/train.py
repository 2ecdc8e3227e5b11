"""The fused training loop: act, step the world, store, sample, update, all in one compiled scan, many lanes at once.

A lane is one run: a key, a beta, its tasks. Lanes differ in nothing else, so `jax.vmap` packs seeds and risk levels
into one program. Tasks follow one another, or are practised side by side, an environment each; the networks, the
optimiser and the replay are one. A round is a step of every environment, and the updates that it brings.

    chunk = scan over target periods of (scan over rounds; copy to the target networks)

The copy stands between the inner scans, so that no round pays for a condition. All chance of a period is drawn before
it. Every number of a lane follows from its key and the round's index: a run can be cut into chunks anywhere between
target periods, and resumed, without changing a bit on the same device at the same number of lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeGuard, runtime_checkable

import jax
import jax.numpy as jnp

from rasf.arrays import Array
from rasf.deep import replay
from rasf.deep.agent import Agent, Learner, Policies, Tasks
from rasf.deep.replay import Batch
from rasf.transfer import gpi_actions

_UNROLLED = 4  # updates of a round: all of many would take long to compile, none costs a tenth of the speed on a CPU


@runtime_checkable
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


def is_world(env: object) -> TypeGuard[World]:
    """Whether an object follows the `World` protocol."""
    return isinstance(env, World) and not isinstance(env, type)


class Lane(NamedTuple):
    """Where one run stands; the states (E, ..) of its environments."""

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
    """What a target period of training showed: mean loss, mean clipped mass (2,), phi's mean (E, d), least and most."""

    loss: Array
    clipped: Array
    phi_mean: Array
    phi_min: Array
    phi_max: Array


class _Draws(NamedTuple):
    """Chance of one round: of each environment (E, ..), and the bits that sample."""

    reset: Any
    noise: Any
    explore: Array
    action: Array
    sample: Array


def environments(agent: Agent, tasks: int) -> int:
    """How many a lane steps in a round: one for each of the tasks, or one for all."""
    return tasks if agent.settings.side_by_side else 1


def start(agent: Agent, world: World, capacity: int, config: RunConfig) -> Lane:
    """A lane before its first step; `capacity` is the number of steps it will take."""
    tasks, features = config.tasks.weights.shape
    init_key, state_key = jax.random.split(jax.random.fold_in(config.key, 0))
    rows, n = replay.empty(capacity, world.observation_size, features), environments(agent, tasks)
    keys = state_key[None] if n == 1 else jax.random.split(state_key, n)
    return Lane(agent.init(init_key), jax.vmap(world.reset)(keys), rows)


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
    """The lane after `periods` of `length` rounds from round `begin`, on the `task` that began at round `task_begin`.

    Side by side, all tasks are active at once, and began with it.
    """
    tasks = len(config.tasks.weights)
    active = jnp.arange(tasks) if agent.settings.side_by_side else jnp.asarray(task)[None]

    def period(lane: Lane, first: Array) -> tuple[Lane, PeriodStats]:
        draws = _draw(agent, world, config.key, first, length, len(active))
        inner = partial(_round, agent, world, config, task_begin, active)
        lane, (loss, clipped, phi) = jax.lax.scan(inner, lane, (first + jnp.arange(length), draws))
        lane = lane._replace(learner=agent.copy_target(lane.learner))
        low, high = jnp.min(phi, axis=(0, 1)), jnp.max(phi, axis=(0, 1))
        return lane, PeriodStats(jnp.mean(loss), jnp.mean(clipped, axis=0), jnp.mean(phi, axis=0), low, high)

    return jax.lax.scan(period, lane, begin + length * jnp.arange(periods))


def _draw(agent: Agent, world: World, key: Array, first: Array, length: int, n: int) -> _Draws:
    """Chance of `length` rounds of n environments, from the key and the index of the first."""
    keys = jax.random.split(jax.random.fold_in(key, first + 1), 5)

    def of_each(draw: Callable[[Array], Any], key: Array) -> Any:
        drawn = jax.vmap(draw)(jax.random.split(key, length * n))
        return jax.tree.map(lambda part: part.reshape(length, n, *part.shape[1:]), drawn)

    return _Draws(
        reset=of_each(world.reset, keys[0]),
        noise=of_each(world.noise, keys[1]),
        explore=jax.random.uniform(keys[2], (length, n))
        < agent.epsilon_at(n * (first + jnp.arange(length)))[..., None],
        action=jax.random.randint(keys[3], (length, n), 0, agent.actions),
        sample=jax.random.bits(keys[4], (length, agent.updates_for(n) * agent.settings.batch)),
    )


def _round(
    agent: Agent,
    world: World,
    config: RunConfig,
    task_begin: Array,
    active: Array,
    lane: Lane,
    now: tuple[Array, _Draws],
) -> tuple[Lane, tuple[Array, Array, Array]]:
    index, draws = now
    n, networks = len(active), agent.acting(lane.learner)
    fresh = (index - task_begin) % world.episode_length == 0
    state = jax.tree.map(lambda new, old: jnp.where(fresh, new, old), draws.reset, lane.state)
    betas = jnp.broadcast_to(config.beta, config.tasks.weights.shape[:1])

    def step(state: Any, task: Array, explore: Array, otherwise: Array, noise: Any) -> tuple[Any, Array, Array]:
        obs = world.observe(state)
        task_heads = agent.task_heads(networks, config.tasks.weights[task])
        scores = agent.scores(task_heads, obs[None], config.tasks.inputs[task], agent.settings.risk(betas[task]))
        action = jnp.where(explore, otherwise, gpi_actions(scores[:, 0]))
        next_state, phi = world.advance(state, action, noise)
        transition = Batch(obs, action, phi, world.observe(next_state), jnp.ones(()), task)
        return next_state, phi, replay.pack(transition)

    next_state, phi, new = jax.vmap(step)(state, active, draws.explore, draws.action, draws.noise)
    rows = replay.store(lane.rows, index * n, new)
    learned = agent.settings.risk(config.bootstrap_beta) if config.policies is None else config.policies

    def update(learner: Learner, bits: Array) -> tuple[Learner, tuple[Array, Array]]:
        batch = replay.sample(rows, (index + 1) * n, bits, world.observation_size)
        learner, loss, clipped = agent.update(learner, batch, config.tasks, learned)
        return learner, (loss, clipped)

    by_update = draws.sample.reshape(agent.updates_for(n), -1)
    learner, (loss, clipped) = jax.lax.scan(update, lane.learner, by_update, unroll=min(_UNROLLED, len(by_update)))
    return Lane(learner, next_state, rows), (jnp.mean(loss), jnp.mean(clipped, axis=0), phi)
