"""The training algorithm, in the parts that its two drivers share: `fused` (one compiled scan) and `stepped` (Python).

A round is one step of each of n environments. It consists of

    act       GPI over all policies, epsilon-greedy, each environment on its active task
    store     the steps go into the replay; the bounds of the feature return widen
    learn     `updates` for each step, on sampled windows; target networks are copied every `target_period` updates

The first `warmup` steps are random, and nothing is learned from them. Then inputs are scaled by their mean and spread
so far, and features by the size of their returns, once and for all: networks learn best what is about 1 in size.

Everything random follows from the run's key and an index: of the round for exploration and the world, of the update for
sampling. So both drivers draw the same numbers, in blocks of any length, and a run can be cut and resumed anywhere.

No discounted feature return leaves [low, high] h, where h is the sum of gamma^t over the steps that are left. low is
the least value of the feature in any step so far, or 0 if that is smaller, high the largest or 0: an episode may end at
once. h is 1 for features that so far came at the end of episodes only. Targets are clipped to that (`Within`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rasf.agents import LawKind
from rasf.arrays import Array, array_namespace
from rasf.deep import replay
from rasf.deep.agent import Agent, Learner, Policies, Tasks
from rasf.deep.clock import TIME_INPUTS
from rasf.deep.laws import Losses, Networks, Within
from rasf.deep.networks import Network, Pairs
from rasf.risk import Risk
from rasf.world import World

_MOST_AVERSE = 2.0  # standard deviations
_AVERSION = 7  # what the key of a round is folded with
_MOST_REPEATED = 1_000  # steps; the number of repeats has no mean, and one action could take all of training
_INIT, _STEPS, _SAMPLES, _WORLD = range(4)  # what a run's key is folded with


class StepChance(NamedTuple):
    """The random numbers of one round, (n,) each.

    explore: uniform; decides on exploration. action: a random one. repeat: how often it is repeated. aversion: of an
    episode that begins.
    """

    explore: Array
    action: Array
    repeat: Array
    aversion: Array


class SampleChance(NamedTuple):
    """The random numbers of one update, (B,) each.

    bits: choose a row uniformly. by_priority: uniform; decides whether the row is drawn by priority. share: uniform;
    the share of all priorities at which that row lies.
    """

    bits: Array
    by_priority: Array
    share: Array


class WorldChance(NamedTuple):
    """The random numbers of a world in one round, (n, ..): first states and the random parts of a step."""

    reset: Any
    noise: Any


def init_keys(key: Array) -> tuple[Array, Array]:
    """The keys of the first networks and of the first states."""
    first, second = jax.random.split(jax.random.fold_in(key, _INIT))
    return first, second


def step_chance(agent: Agent, key: Array, round_: Array, n: int) -> StepChance:
    """The chance of n environments in a round, from the run's key."""
    round_key = jax.random.fold_in(jax.random.fold_in(key, _STEPS), round_)
    explore, action, repeat = jax.random.split(round_key, 3)
    repeats = jnp.ones(n, jnp.int32)
    if agent.settings.epsilon_z:
        up_to = np.cumsum(1.0 / np.arange(1, _MOST_REPEATED + 1) ** 2)
        shares = jax.random.uniform(repeat, (n,))
        # the rest of the series counts as the largest number
        ends = jnp.asarray(up_to[:-1] * 6 / np.pi**2, jnp.float32)
        repeats = 1 + jnp.searchsorted(ends, shares, side="right")
    aversion, share = jnp.zeros(n), agent.averse_episodes
    if share:
        drawn = jax.random.uniform(jax.random.fold_in(round_key, _AVERSION), (n,))
        aversion = _MOST_AVERSE * jnp.maximum(0.0, 1 - drawn / share)
    explores, actions = jax.random.uniform(explore, (n,)), jax.random.randint(action, (n,), 0, agent.actions)
    return StepChance(explores, actions, repeats, aversion)


def sample_chance(agent: Agent, key: Array, update: Array) -> SampleChance:
    """The chance of one update, from the run's key."""
    bits, by_priority, share = jax.random.split(jax.random.fold_in(jax.random.fold_in(key, _SAMPLES), update), 3)
    n = agent.settings.batch
    uniform = (
        jax.random.uniform(one, (n,)) if agent.settings.prioritised else jnp.zeros(n) for one in (by_priority, share)
    )
    return SampleChance(jax.random.bits(bits, (n,)), *uniform)


def world_chance(world: World, key: Array, round_: Array, n: int) -> WorldChance:
    """The chance of n environments of a world in a round, from the run's key."""
    keys = jax.random.split(jax.random.fold_in(jax.random.fold_in(key, _WORLD), round_), 2 * n)
    return WorldChance(jax.vmap(world.reset)(keys[:n]), jax.vmap(world.noise)(keys[n:]))


class Held(NamedTuple):
    """What exploration keeps from step to step, (n,) each.

    action: a random one that is being repeated. left: for how many more steps. aversion: of the running episode.
    """

    action: Array
    left: Array
    aversion: Array

    @classmethod
    def none(cls, n: int) -> Held:
        return cls(np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(n, np.float32))

    def begun(self, chance: StepChance, fresh: Array) -> Held:
        """The same where episodes go on; `fresh` (n,) ones begin with an aversion of their own."""
        aversion = array_namespace(fresh, self.left).where(fresh, chance.aversion, self.aversion)
        return self._replace(aversion=aversion.astype(self.aversion.dtype))

    def ended(self, over: Array) -> Held:
        """Nothing is repeated beyond the end of an episode (n,)."""
        return self._replace(left=array_namespace(self.left, over).where(over, 0, self.left))


def explore(agent: Agent, chance: StepChance, held: Held, epsilon: Array) -> tuple[Array, Array, Held]:
    """Which environments explore (n,), by which action (n,), and what they repeat then; in numpy or jax."""
    begins = chance.explore < epsilon
    if not agent.settings.epsilon_z:
        return begins, chance.action, held
    xp, goes_on = array_namespace(begins, held.left), held.left > 0
    action = xp.where(goes_on, held.action, chance.action)
    left = xp.where(goes_on, held.left - 1, xp.where(begins, chance.repeat - 1, 0))
    return begins | goes_on, action, held._replace(action=action, left=left)


class Scaling(NamedTuple):
    """How networks see their world: inputs (m,) less a shift, times a factor; features (d,) in units."""

    shift: Array
    factor: Array
    units: Array
    spread: Array

    @classmethod
    def none(cls, inputs: int, features: int) -> Scaling:
        return cls(np.zeros(inputs, np.float32), np.ones(inputs, np.float32), *np.ones((2, features), np.float32))

    @classmethod
    def of(cls, agent: Agent, steps: replay.Steps) -> Scaling:
        """Scale inputs to mean 0 and spread 1, and features to returns of about 1; in numpy or jax.

        Inputs that never changed, and features that never occurred, stay as they are, and so do the features of
        histograms, whose atoms have units of their own. Inputs that list objects are only divided by the root mean
        square of each column over all objects, so that empty rows stay zero.
        """
        xp, objects = array_namespace(steps.obs), agent.settings.objects
        if objects:
            spread = _size_of_columns(steps.obs[:, : agent.inputs - agent.time_inputs], objects)
            spread = xp.pad(spread, (0, agent.time_inputs))
            mean, varies = xp.zeros(steps.obs.shape[1]), spread > 0
        else:
            spread = steps.obs.std(axis=0)
            varies = spread > 1e-6 * xp.maximum(1e-6, xp.abs(steps.obs).max(axis=0))
            mean = xp.where(varies, steps.obs.mean(axis=0), 0.0)
        units = spread_of_returns = xp.ones(steps.phi.shape[1])
        if agent.settings.kind is not LawKind.HISTOGRAM:
            # as if all steps were alike: means add up, deviations by their squares
            deviation = steps.phi.std(axis=0) * agent.summed(2) ** 0.5
            size = xp.abs(steps.phi.mean(axis=0)) * agent.summed() + deviation
            units = xp.where(size > 0, size, 1.0)
            spread_of_returns = xp.where(deviation > 0, deviation / units, 1.0)
        if agent.limit:  # inputs of time have been scaled already
            time = xp.arange(steps.obs.shape[1]) >= steps.obs.shape[1] - TIME_INPUTS
            mean, spread, varies = xp.where(time, 0.0, mean), xp.where(time, 1.0, spread), varies | time
        return cls(
            *(part.astype(np.float32) for part in (mean, 1 / xp.where(varies, spread, 1.0), units, spread_of_returns))
        )

    def inputs(self, obs: Array) -> Array:
        return (obs - self.shift) * self.factor

    def unscaled(self, agent: Agent, networks: Networks) -> Networks:
        """The networks that take inputs and give features as they are, in numpy."""
        return agent.law.in_units(tuple(self._folded(one) for one in networks), self.units, self.spread)

    def _folded(self, network: Network) -> Network:
        """The network that takes inputs as they are."""
        first = network.hidden[0]
        if isinstance(first, Pairs):
            factor = np.tile(self.factor[: first.numbers], 2)
            if first.timed:
                factor = np.append(factor, np.ones(1, factor.dtype))
            weight = first.weight * factor[:, None]
            return network._replace(hidden=(first._replace(weight=weight), *network.hidden[1:]))
        weight = first.weight * self.factor[:, None]
        bias = first.bias - np.einsum("n,knm->km", self.shift, weight)
        return network._replace(hidden=(first._replace(weight=weight, bias=bias), *network.hidden[1:]))


def _size_of_columns(obs: Array, objects: int) -> Array:
    """Root mean squares (n,) of each column over all objects that are not empty, the same for every object."""
    xp = array_namespace(obs)
    each = obs.reshape(-1, objects)
    present = (each != 0).any(axis=1)
    size = xp.sqrt((each**2).sum(axis=0) / xp.maximum(present.sum(), 1))
    return xp.tile(xp.where(present.any(), size, 1.0), obs.shape[1] // objects)


def widened(within: Within, phi: Array, ended: Array) -> Within:
    """Bounds that allow for these features (n, d) of single steps, in numpy or jax; ended (n,): nothing follows."""
    xp = array_namespace(phi, within.low)
    recurring = xp.max((phi != 0) * (1.0 - ended)[:, None], axis=0)
    low, high = xp.minimum(within.low, phi.min(axis=0)), xp.maximum(within.high, phi.max(axis=0))
    return Within(low, high, xp.maximum(within.recurring, recurring).astype(within.recurring.dtype))


class Acting(NamedTuple):
    """How an environment acts: on which task, at which beta, and how many standard deviations count against it."""

    task: Array
    beta: Array
    aversion: Array


def scores(
    agent: Agent,
    networks: Networks,
    tasks: Tasks,
    now: Acting,
    seen: Scaling,
    obs: Array,
) -> Array:
    """GPE: scores (K, A) of one observation (m,), by which it is acted."""
    networks = agent.with_spread(networks, jnp.asarray(seen.spread))
    task_heads = agent.task_heads(networks, tasks.weights[now.task] * seen.units)
    inputs, given = seen.inputs(obs)[None], tasks.inputs[now.task]
    found = agent.scores(task_heads, inputs, given, agent.risk(now.beta))[:, 0]
    if agent.averse_episodes:
        found = found - now.aversion * jnp.sqrt(agent.moments(task_heads, inputs, given)[1][:, 0])
    return found


class Goal(NamedTuple):
    """What updates learn for: the tasks of the stream, and one beta () for all of them, or policies."""

    tasks: Tasks
    by: Array | Policies


def update(
    agent: Agent, learner: Learner, goal: Goal, seen: Scaling, within: Within, batch: replay.Windows, weight: Array
) -> tuple[Learner, Losses]:
    """One update on windows as they are in the replay; weight (B,) of each."""
    tasks = goal.tasks._replace(weights=goal.tasks.weights * seen.units)
    by: Risk | Policies
    if isinstance(goal.by, Policies):
        by = goal.by._replace(weights=goal.by.weights * seen.units)
    else:
        by = agent.risk(goal.by)
    scaled = batch._replace(
        obs=seen.inputs(batch.obs), next_obs=seen.inputs(batch.next_obs), phi=batch.phi / seen.units
    )
    bounds = Within(within.low / seen.units, within.high / seen.units, within.recurring)
    return agent.update(learner, scaled, tasks, by, bounds, weight, seen.spread)


def correction(agent: Agent, frequency: Array, updates: Array) -> Array:
    """Weights of rows that are drawn `frequency` times more often than uniformly, after a number of updates.

    At first every weight is 1, so that policies find what is rare. From the middle of training on the weights correct
    in full for the frequency: otherwise distributions would be those of the surprising outcomes.
    """
    xp = array_namespace(frequency, updates)
    share = xp.minimum(1.0, 2 * updates / agent.planned) if agent.planned else 1.0
    return frequency**-share
