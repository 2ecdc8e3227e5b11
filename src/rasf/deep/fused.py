"""The fused driver: act, step the world, store, sample and update in one compiled scan, for many lanes in parallel.

A lane is one run. Lanes differ only in their `RunConfig`, so `jax.vmap` puts several seeds and risk levels into one
program. The tasks of a lane are trained one after another in one environment, or are interleaved, with one environment
for each task. All tasks of a lane share the networks, the optimiser and the replay. The algorithm is that of
`rasf.deep.algorithm`, where a round is one step of every environment. A period consists of the rounds between two
copies of the online networks to the target networks.

    chunk = scan over periods of (scan over rounds; copy to the target networks)

The copy is outside the inner scan, so that a round does not test whether a copy is due. The random numbers of a period
are drawn before the period. A run can be split into chunks anywhere and resumed. A resumed run has the same bits as an
uninterrupted run, if the device and the number of lanes are the same.

Shapes: L lanes, E environments of a lane, T tasks, K policies, d features, B windows of a batch. Functions for one lane
leave out L.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf.agents import LawKind
from rasf.arrays import Array, Floats
from rasf.checks import whole
from rasf.deep import algorithm, replay
from rasf.deep.agent import Agent, Learner, Policies, Tasks
from rasf.deep.algorithm import Goal, Held, SampleChance, Scaling, StepChance, WorldChance
from rasf.deep.laws import Within
from rasf.deep.priorities import Priorities
from rasf.deep.replay import Ring, Steps
from rasf.deep.settings import MomentSettings
from rasf.world import World, action_size

_UNROLLED = 4  # updates that the compiler unrolls; with more, compilation is slow, and with fewer, a CPU is 10 % slower
_PLAIN_PERIOD = 1_000  # number of updates in a period if there are no target networks


class RunConfig(NamedTuple):
    """The inputs in which runs differ.

    Attributes:
        key: A random key of jax.
        beta: The beta of acting, () for all tasks or (T,) for each.
        bootstrap_beta: The beta () of bootstrapping. It has no effect if `policies` is given.
        tasks: The tasks in which experience is collected.
        policies: The task and the beta for which each policy learns. Default: policy k learns for task k, at
            `bootstrap_beta`.
    """

    key: Array
    beta: Array
    bootstrap_beta: Array
    tasks: Tasks
    policies: Policies | None = None


class Rated(NamedTuple):
    """Priorities, and the rows (B,) and errors (B,) of the last update.

    The next update stores these errors as priorities before it draws rows.
    """

    priorities: Priorities
    rows: Array
    errors: Array


class Lane(NamedTuple):
    """The state of one run. `state` (E, ..): states of the environments. `age` (E,): steps of the episodes so far."""

    learner: Learner
    state: Any
    age: Array
    held: Held
    ring: Ring
    rated: Rated | tuple[()]
    scaling: Scaling
    within: Within


class PeriodStats(NamedTuple):
    """Statistics over the rounds of a period.

    Attributes:
        loss: The mean loss ().
        clipped: The mean probability (2,) that was clipped below and above the support of histograms.
        phi_mean: Mean features (E, d) of each environment.
        phi_min: The smallest value (d,) of each feature.
        phi_max: The largest value (d,) of each feature.
    """

    loss: Array
    clipped: Array
    phi_mean: Array
    phi_min: Array
    phi_max: Array


@dataclass(frozen=True)
class Schedule:
    """The number of tasks, and the numbers of steps after which the task changes or a chunk ends.

    Attributes:
        steps_per_task: Number of steps on each task.
        tasks: Number of tasks.
        evaluate_every: Number of steps of a chunk, rounded down to whole periods.
    """

    steps_per_task: int
    tasks: int
    evaluate_every: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            whole(name, value)

    @property
    def steps(self) -> int:
        """The number of steps on all tasks."""
        return self.steps_per_task * self.tasks


class Chunk(NamedTuple):
    """The state of training with L lanes after a chunk, and means over the steps of the chunk.

    Attributes:
        step: Number of steps so far.
        length: Number of steps of the chunk.
        task: Index of the task; 0 if tasks are interleaved.
        lanes: The lanes.
        phi: Mean features (L, E, d) of each environment.
        loss: Mean losses (L,).
        clipped: Mean probabilities (L, 2) that were clipped below and above the support of histograms.
    """

    step: int
    length: int
    task: int
    lanes: Lane
    phi: Array
    loss: Array
    clipped: Array


def environments(agent: Agent, tasks: int) -> int:
    """Return the number of environments of a lane: one for each task if tasks are interleaved, else one."""
    return tasks if agent.settings.interleaved else 1


def period_of(agent: Agent, tasks: int = 1) -> int:
    """Return the number of steps of a period, summed over all environments.

    A period is a whole number of rounds, in which about `target_period` updates are done.

    Args:
        agent: The agent.
        tasks: Number of tasks. Default: 1.
    """
    n = environments(agent, tasks)
    return max(1, (agent.settings.target_period or _PLAIN_PERIOD) // agent.updates_for(n)) * n


def chunks(
    agent: Agent, world: World, configs: RunConfig, schedule: Schedule, lanes: Lane | None = None, step: int = 0
) -> Iterator[Chunk]:
    """Train lanes, chunk by chunk.

    A chunk has `evaluate_every` steps, rounded down to whole periods. The end of the warm-up and the end of a task also
    end a chunk. If a period is then unfinished, the next chunk is the remaining part of this period. The lanes of a
    chunk are valid until the next chunk is computed, because the next chunk reuses their memory.

    Args:
        agent: The agent.
        world: The world.
        configs: The configs of all lanes, with lanes on axis 0 of every field.
        schedule: The lengths of training.
        lanes: Lanes from which training is resumed. Default: new lanes.
        step: The number of steps that these lanes have already taken. Default: 0.
    """
    n, stretch = environments(agent, schedule.tasks), schedule.steps_per_task
    period, every = period_of(agent, schedule.tasks) // n, schedule.evaluate_every // n  # in rounds, not steps
    warm = -(-agent.settings.warmup // n)
    lanes = start_lanes(agent, world, configs, schedule) if lanes is None else lanes
    while step < schedule.steps:
        begin = step // n
        task, done = divmod(begin, stretch)
        left, periods, copy = stretch - done, 1, False
        if begin < warm:
            length = min(warm - begin, left)
        else:
            length = period - (begin - warm) % period
            copy = length <= left
            if length == period <= left:
                periods = max(1, min(every, left) // period)
            length = min(length, left)
        if step and not done:
            lanes = _with_new_episodes(lanes, begin)
        stage = Stage(periods, length, begin < warm, begin + length == warm, copy)
        lanes, seen = _compiled_advance(agent, world, stage)(configs, lanes, begin, task)
        taken = periods * length * n
        _check(agent, seen, np.asarray(world.feature_bounds), step, taken)
        step += taken
        means = (jnp.mean(part, axis=1) for part in (seen.phi_mean, seen.loss, seen.clipped))
        yield Chunk(step, taken, task, lanes, *means)


@partial(jax.jit, donate_argnums=0)
def _with_new_episodes(lanes: Lane, begin: Array) -> Lane:
    """Return the lanes with new episodes, for the start of the next task. Tasks are not interleaved.

    It is called only if every lane has one environment. The last stored step is marked as the end of its episode, so
    that no n-step sum includes steps of the new task.
    """
    rows = lanes.ring.rows
    ring = Ring(rows.at[:, (begin - 1) % rows.shape[1], -1].set(1.0))
    return lanes._replace(age=jnp.zeros_like(lanes.age), held=jax.tree.map(jnp.zeros_like, lanes.held), ring=ring)


class Stage(NamedTuple):
    """A part of training, done by one call of a compiled program.

    Attributes:
        periods: Number of periods.
        length: Number of rounds of each period.
        warming: Whether actions are random and nothing is learned.
        scales: Whether the warm-up ends with the stage. The scales of inputs and features are then computed.
        copies: Whether target networks are copied after each period.
    """

    periods: int
    length: int
    warming: bool
    scales: bool
    copies: bool


def start_lanes(agent: Agent, world: World, configs: RunConfig, schedule: Schedule) -> Lane:
    """Return the lanes before their first step.

    Args:
        agent: The agent.
        world: The world.
        configs: The configs of all lanes, with lanes on axis 0 of every field.
        schedule: The lengths of training.

    Raises:
        ValueError: Sizes do not fit together, or numbers are not finite.
    """
    _check_sizes(agent, world, configs, schedule)
    capacity = min(schedule.steps, agent.settings.replay or schedule.steps)
    return _compiled_start(agent, world, capacity)(configs)


@lru_cache(maxsize=8)
def _compiled_start(agent: Agent, world: World, capacity: int) -> Callable[[RunConfig], Lane]:
    return jax.jit(jax.vmap(partial(start, agent, world, capacity)))


@lru_cache(maxsize=8)
def _compiled_advance(agent: Agent, world: World, stage: Stage) -> Callable[..., tuple[Lane, PeriodStats]]:
    one_lane = partial(advance, agent, world, stage)
    return jax.jit(jax.vmap(one_lane, in_axes=(0, 0, None, None)), donate_argnums=(1,))


def start(agent: Agent, world: World, capacity: int, config: RunConfig) -> Lane:
    """Return a lane before its first step.

    Args:
        agent: The agent.
        world: The world.
        capacity: Number of steps that the replay keeps.
        config: The config of the lane.
    """
    (tasks, features), chosen = config.tasks.weights.shape, agent.settings
    n, inputs = environments(agent, tasks), _stored_size(agent, world)
    init_key, state_key = algorithm.init_keys(config.key)
    ring = Ring.empty(capacity, n, replay.row_size(inputs, features, agent.action_size))
    rated: Rated | tuple[()] = ()
    if chosen.prioritised:
        batch = (chosen.batch,)
        # placeholders: with these errors, the first update sets row 0 to the priority 1, which all new rows have
        rated = Rated(Priorities.empty(len(ring.rows)), jnp.zeros(batch, jnp.int32), jnp.ones(batch))
    nothing = jnp.zeros(features)
    return Lane(
        agent.init(init_key),
        jax.vmap(world.reset)(jax.random.split(state_key, n)),
        jnp.zeros(n, jnp.int32),
        jax.tree.map(jnp.asarray, Held.none(agent, n)),
        ring,
        rated,
        jax.tree.map(jnp.asarray, Scaling.none(inputs, features)),
        Within(nothing, nothing, nothing),
    )


def advance(
    agent: Agent, world: World, stage: Stage, config: RunConfig, lane: Lane, begin: Array, task: Array
) -> tuple[Lane, PeriodStats]:
    """Train a lane for one stage.

    Args:
        agent: The agent.
        world: The world.
        stage: The stage.
        config: The config of the lane.
        lane: The lane before the stage.
        begin: Number of the first round.
        task: Index of the active task; not used if tasks are interleaved.

    Returns:
        The lane after the stage, and the statistics of each period.
    """
    n = environments(agent, len(config.tasks.weights))
    active = jnp.arange(n) if agent.settings.interleaved else jnp.asarray(task)[None]
    updates = 0 if stage.warming else agent.updates_for(n)

    def period(lane: Lane, first: Array) -> tuple[Lane, PeriodStats]:
        rounds = first + jnp.arange(stage.length)
        chance = jax.vmap(partial(algorithm.step_chance, agent, config.key, n=n))(rounds)
        worlds = jax.vmap(partial(algorithm.world_chance, world, config.key, n=n))(rounds)
        done = lane.learner.updates + jnp.arange(stage.length * updates)
        samples = jax.vmap(partial(algorithm.sample_chance, agent, config.key))(done)
        by_round = jax.tree.map(lambda part: part.reshape(stage.length, updates, *part.shape[1:]), samples)
        inner = partial(_round, agent, world, config, active, stage.warming)
        lane, (loss, clipped, phi) = jax.lax.scan(inner, lane, (rounds, chance, worlds, by_round))
        if stage.copies:
            lane = lane._replace(learner=agent.copy_target(lane.learner))
        low, high = jnp.min(phi, axis=(0, 1)), jnp.max(phi, axis=(0, 1))
        return lane, PeriodStats(jnp.mean(loss), jnp.mean(clipped, axis=0), jnp.mean(phi, axis=0), low, high)

    lane, seen = jax.lax.scan(period, lane, begin + stage.length * jnp.arange(stage.periods))
    if stage.scales:
        stored = min(-(-agent.settings.warmup // n) * n, len(lane.ring.rows))
        steps = replay.unpack(lane.ring.rows[:stored], _stored_size(agent, world), action_size=agent.action_size)
        lane = lane._replace(scaling=Scaling.of(agent, steps))
    return lane, seen


def _stored_size(agent: Agent, world: World) -> int:
    """Return the number of columns of an observation in the replay, including the time inputs of the agent."""
    return world.observation_size + agent.time_inputs


def _round(
    agent: Agent,
    world: World,
    config: RunConfig,
    active: Array,
    warming: bool,
    lane: Lane,
    now: tuple[Array, StepChance, WorldChance, SampleChance],
) -> tuple[Lane, tuple[Array, Array, Array]]:
    """Do one round: every environment takes a step on its task in `active` (E,), then the networks are updated."""
    index, chance, worlds, samples = now
    n, networks, tasks = len(active), agent.acting(lane.learner), config.tasks
    fresh = lane.age == 0
    state = jax.tree.map(
        lambda new, old: jnp.where(fresh.reshape(n, *(1,) * (new.ndim - 1)), new, old), worlds.reset, lane.state
    )
    epsilon = 1.0 if warming else agent.epsilon_at(n * index)
    explores, action, held = algorithm.explore(agent, chance, lane.held.begun(chance, fresh), epsilon)
    obs = agent.with_time(jax.vmap(world.observe)(state), lane.age)
    if not warming:
        betas = jnp.broadcast_to(config.beta, tasks.weights.shape[:1])
        way = algorithm.Acting(active, betas[active], held.aversion)
        greedy = jax.vmap(
            lambda own, seen, noise: algorithm.behave(agent, networks, tasks, own, lane.scaling, seen, noise)
        )(way, obs, chance.noise)
        action = jnp.where(explores.reshape(n, *(1,) * (action.ndim - 1)), action, greedy)
    state, phi = jax.vmap(world.advance)(state, action, worlds.noise)
    terminated = jnp.broadcast_to(jax.vmap(world.terminated)(state), (n,))
    age = lane.age + 1
    over = terminated | (age >= world.episode_length)
    next_obs = agent.with_time(jax.vmap(world.observe)(state), age)
    # a step truncated at the agent's own limit counts as terminated, because no return is left after it
    ended = terminated | (over & (age >= agent.limit)) if agent.limit else terminated
    steps = Steps(obs, action, phi, next_obs, 1.0 - ended, active, over * 1.0)
    ring, stored_at = lane.ring.store(index, replay.pack(steps))
    rated = lane.rated
    if isinstance(rated, Rated):
        rated = rated._replace(priorities=rated.priorities.begin(stored_at))
    within = algorithm.widened(lane.within, phi, ended)
    goal = Goal(tasks, config.bootstrap_beta if config.policies is None else config.policies)
    lane = Lane(lane.learner, state, age * (1 - over), held.ended(over), ring, rated, lane.scaling, within)
    stored = (index + 1) * n
    one = partial(_learn, agent, goal, lane, stored, _stored_size(agent, world))
    n_updates = len(samples.bits)
    if not n_updates:
        return lane, (jnp.zeros(()), jnp.zeros(2), phi)
    unrolled = min(_UNROLLED, n_updates)
    (learner, rated), (loss, clipped) = jax.lax.scan(one, (lane.learner, rated), samples, unroll=unrolled)
    return lane._replace(learner=learner, rated=rated), (jnp.mean(loss), jnp.mean(clipped, axis=0), phi)


def _learn(
    agent: Agent,
    goal: Goal,
    lane: Lane,
    stored: Array,
    observation_size: int,
    state: tuple[Learner, Rated | tuple[()]],
    chance: SampleChance,
) -> tuple[tuple[Learner, Rated | tuple[()]], tuple[Array, Array]]:
    """Do one update on windows from the lane's replay.

    `stored` is the number of rows stored so far, including overwritten rows.
    """
    (learner, rated), share = state, agent.settings.prioritised
    size = jnp.minimum(stored, len(lane.ring.rows))
    chosen = (chance.bits % size.astype(chance.bits.dtype)).astype(jnp.int32)
    weight = jnp.ones(len(chosen))
    if isinstance(rated, Rated):
        priorities = rated.priorities.rate(rated.rows, rated.errors)
        chosen = jnp.where(chance.by_priority < share, priorities.draw(chance.share, size), chosen)
        frequency = 1 - share + share * priorities.frequency(chosen, size)
        weight = algorithm.correction(agent, frequency, learner.updates)
    drawn = lane.ring.draw(chosen, stored, len(lane.age), agent.settings.n_step, observation_size)
    batch = drawn.windows(agent.action_size)
    learner, found = algorithm.update(agent, learner, goal, lane.scaling, lane.within, batch, weight)
    if isinstance(rated, Rated):
        rated = Rated(priorities, chosen, found.error)
    return (learner, rated), (jnp.mean(found.each), found.clipped)


def unscaled_networks(agent: Agent, lanes: Lane, lane: int = 0) -> Any:
    """Return the acting networks of a lane, in numpy, for unscaled inputs and unscaled features.

    Args:
        agent: The agent.
        lanes: All lanes.
        lane: Index of the lane. Default: 0.
    """
    networks, scaling = jax.tree.map(lambda part: np.array(part[lane]), (agent.acting(lanes.learner), lanes.scaling))
    return scaling.unscaled(agent, networks) if agent.settings.warmup else networks


def stored_rows(lanes: Lane, step: int, lane: int = 0) -> npt.NDArray[np.float32]:
    """Return the rows (n, R) in the replay of a lane, in numpy.

    Args:
        lanes: All lanes.
        step: Number of steps so far.
        lane: Index of the lane. Default: 0.
    """
    rows = lanes.ring.rows[lane]
    return np.asarray(rows[: min(step, len(rows))])


def _check_sizes(agent: Agent, world: World, configs: RunConfig, schedule: Schedule) -> None:
    """Raise an error if configs have no lane axis or are not finite, or if sizes do not fit together."""
    numbers = {"beta": configs.beta, "bootstrap_beta": configs.bootstrap_beta, **configs.tasks._asdict()}
    beta, bootstrap_beta, weights, inputs = map(np.shape, numbers.values())
    lanes = jax.random.key_data(configs.key).shape[:-1]
    stacked = len(weights) == 3 and 0 not in weights and inputs[:-1] == weights[:-1]
    if not stacked or beta not in (lanes, weights[:2]) or not lanes == bootstrap_beta == weights[:1]:
        raise ValueError(
            "configs must have lanes on axis 0 of every field: keys (L,), betas (L,), weights (L, T, d), inputs "
            f"(L, T, c), got key {lanes}, " + ", ".join(f"{name} {np.shape(part)}" for name, part in numbers.items())
        )
    (_, tasks, d), own = weights, configs.policies is None
    if configs.policies is not None:
        learned, betas = map(np.shape, configs.policies)
        if learned != (*lanes, agent.policies, d) or betas != learned[:-1]:
            raise ValueError(
                f"policies of configs must have weights of shape {(*lanes, agent.policies, d)} and betas of shape "
                f"{(*lanes, agent.policies)}, got {learned} and {betas}"
            )
        numbers |= {f"{name} of policies": part for name, part in configs.policies._asdict().items()}
    for name, part in numbers.items():
        wrong = np.asarray(part)[~np.isfinite(part)]
        if wrong.size:
            raise ValueError(f"{name} of configs must be finite, got {wrong[0]}")
    of_agent = agent.sizes(world.observation_size, tasks if own else agent.policies, d, inputs[-1])
    for whose, what, has, fits in (
        ("agent", "actions", 0 if agent.action_size else agent.actions, world.n_actions),
        ("agent", "numbers of an action", agent.action_size, action_size(world)),
        ("configs", "features", d, len(world.feature_bounds)),
        ("schedule", "tasks", schedule.tasks, tasks),
        *(("agent", *row) for row in of_agent),
    ):
        if has != fits:
            raise ValueError(f"{whose} must have {fits} {what} to fit the world and the configs, got {has}")
    active = agent.for_weights(configs.tasks.weights).active_features
    if agent.law.kind is LawKind.HISTOGRAM and active > agent.active_features:
        raise ValueError(
            f"agent must have {active} active_features, because a task of the configs has {active} nonzero weights, "
            f"got {agent.active_features}"
        )


def _check(agent: Agent, seen: PeriodStats, bounds: Floats, step: int, length: int) -> None:
    """Raise an error if a feature is not finite or outside its bounds, an event is negative, or a loss is not finite.

    Events are the features listed in the setting `events`.
    """
    where = f"between steps {step} and {step + length}"
    low, high = np.asarray(seen.phi_min).min(axis=(0, 1)), np.asarray(seen.phi_max).max(axis=(0, 1))
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError(f"the world gave a feature that is not finite {where}")
    slack = 1e-5 * (bounds[:, 1] - bounds[:, 0])
    outside = (low < bounds[:, 0] - slack) | (high > bounds[:, 1] + slack)
    if outside.any():
        i = int(np.argmax(outside))
        raise ValueError(
            f"feature {i} left its declared bounds [{bounds[i, 0]:g}, {bounds[i, 1]:g}] {where}: it was in "
            f"[{low[i]:g}, {high[i]:g}]"
        )
    events = agent.settings.events if isinstance(agent.settings, MomentSettings) else ()
    if any(low[event] < 0 for event in events):
        raise ValueError(f"events must never be negative, got {low[list(events)].min():g} {where}")
    if not np.isfinite(np.asarray(seen.loss)).all():
        raise ValueError(f"the loss was not finite {where}; a smaller learning rate may help")
