"""The training algorithm, as functions that two drivers use: `fused` (one compiled scan) and `stepped` (Python).

A round is one step of each of n environments. A round consists of three parts (`updates`, `target_period` and `warmup`
are settings):

    act       choose actions by epsilon-greedy GPI over all policies, for the active task of each environment
    store     add the steps to the replay, and extend the range of the features observed so far
    learn     do `updates` updates per step on sampled windows of consecutive steps (`replay.Windows`); copy the online
              networks to the target networks every `target_period` updates

In the first `warmup` steps, actions are random and there are no updates. Then the scales of inputs and features are
fixed, because networks learn best from numbers of size about 1. Inputs are standardised by their mean and standard
deviation in the warm-up. Features are divided by the typical size of their returns.

All random numbers are functions of the run's key and an index. For exploration and the world, the index is the number
of the round. For sampling, the index is the number of the update. So both drivers draw the same numbers, whatever the
length of the blocks in which numbers are drawn. A run can be stopped and resumed anywhere.

The discounted sum of a feature over the remaining episode is in [low h, high h], where h is the sum of gamma^t over the
steps left. low is the smallest value of the feature in any step so far, and high is the largest value. The interval is
extended to contain 0, because an episode may end at once. h is 1 for features that were nonzero only in the last steps
of episodes. Losses of `MeanLowRank` clip predicted means to these bounds (`Within`).

Shapes: d features, m numbers per observation, K policies, A actions, n environments, T tasks, B windows of a batch.
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
from rasf.transfer import gpi_actions
from rasf.world import World

_MOST_AVERSE = 2.0  # the scores of an episode are reduced by at most this many standard deviations of the return
_AVERSION = 7  # constant that is folded into the key of a round to draw aversions
# The largest number n of steps for which a random action is repeated. The probability of n is proportional to 1 / n^2,
# so the mean of n would be infinite without a maximum.
_MOST_REPEATED = 1_000
_INIT, _STEPS, _SAMPLES, _WORLD = range(4)  # constants folded into a run's key, for independent random numbers


class StepChance(NamedTuple):
    """The random numbers of one round, each of shape (n,) for n environments.

    Attributes:
        explore: A uniform number. The environment explores if this number is below epsilon.
        action: A random action.
        repeat: The number of steps for which the random action is taken.
        aversion: If an episode begins in this round, its scores are reduced by this number of standard deviations.
        noise: Noise (n, action_size) that is added to actions that are vectors.
    """

    explore: Array
    action: Array
    repeat: Array
    aversion: Array
    noise: Array


class SampleChance(NamedTuple):
    """The random numbers of one update, each of shape (B,) for B windows.

    Attributes:
        bits: Random bits that select a row of the replay uniformly.
        by_priority: A uniform number. If this number is below the setting `prioritised`, the row is drawn by priority.
        share: A uniform number that selects the row drawn by priority; see `Priorities.draw`.
    """

    bits: Array
    by_priority: Array
    share: Array


class WorldChance(NamedTuple):
    """The random draws (n, ..) of a world in one round: start states, and the random numbers of the steps."""

    reset: Any
    noise: Any


def init_keys(key: Array) -> tuple[Array, Array]:
    """Return the keys of the initial networks and of the first start states."""
    first, second = jax.random.split(jax.random.fold_in(key, _INIT))
    return first, second


def step_chance(agent: Agent, key: Array, round_: Array, n: int) -> StepChance:
    """Return the random numbers of a round.

    Args:
        agent: The agent.
        key: The run's key.
        round_: Number of the round.
        n: Number of environments.
    """
    round_key = jax.random.fold_in(jax.random.fold_in(key, _STEPS), round_)
    explore, action, repeat = jax.random.split(round_key, 3)
    repeats = jnp.ones(n, jnp.int32)
    if agent.settings.epsilon_z:
        up_to = np.cumsum(1.0 / np.arange(1, _MOST_REPEATED + 1) ** 2)
        shares = jax.random.uniform(repeat, (n,))
        # a drawn number above `_MOST_REPEATED` is replaced by `_MOST_REPEATED`
        ends = jnp.asarray(up_to[:-1] * 6 / np.pi**2, jnp.float32)
        repeats = 1 + jnp.searchsorted(ends, shares, side="right")
    aversion, share = jnp.zeros(n), agent.averse_episodes
    if share:
        drawn = jax.random.uniform(jax.random.fold_in(round_key, _AVERSION), (n,))
        aversion = _MOST_AVERSE * jnp.maximum(0.0, 1 - drawn / share)
    actions, noise = agent.random_actions(action, n)
    return StepChance(jax.random.uniform(explore, (n,)), actions, repeats, aversion, noise)


def sample_chance(agent: Agent, key: Array, update: Array) -> SampleChance:
    """Return the random numbers of an update.

    Args:
        agent: The agent.
        key: The run's key.
        update: Number of the update.
    """
    bits, by_priority, share = jax.random.split(jax.random.fold_in(jax.random.fold_in(key, _SAMPLES), update), 3)
    n = agent.settings.batch
    uniform = (
        jax.random.uniform(one, (n,)) if agent.settings.prioritised else jnp.zeros(n) for one in (by_priority, share)
    )
    return SampleChance(jax.random.bits(bits, (n,)), *uniform)


def world_chance(world: World, key: Array, round_: Array, n: int) -> WorldChance:
    """Return the random numbers of a world in a round.

    Args:
        world: The world.
        key: The run's key.
        round_: Number of the round.
        n: Number of environments.
    """
    keys = jax.random.split(jax.random.fold_in(jax.random.fold_in(key, _WORLD), round_), 2 * n)
    return WorldChance(jax.vmap(world.reset)(keys[:n]), jax.vmap(world.noise)(keys[n:]))


class Held(NamedTuple):
    """The state of exploration between steps; all fields have shape (n,) for n environments.

    Attributes:
        action: A random action that is being repeated.
        left: The number of further steps for which the action is repeated.
        aversion: The number of standard deviations of the return by which scores are reduced in the running episode.
    """

    action: Array
    left: Array
    aversion: Array

    @classmethod
    def none(cls, agent: Agent, n: int) -> Held:
        """Return the state of n environments before their first step."""
        action = np.zeros((n, agent.action_size), np.float32) if agent.action_size else np.zeros(n, np.int32)
        return cls(action, np.zeros(n, np.int32), np.zeros(n, np.float32))

    def begun(self, chance: StepChance, fresh: Array) -> Held:
        """Return the state with newly drawn aversions in the environments where an episode begins.

        Args:
            chance: The random numbers of the round.
            fresh: Whether an episode begins in each environment (n,).
        """
        aversion = array_namespace(fresh, self.left).where(fresh, chance.aversion, self.aversion)
        return self._replace(aversion=aversion.astype(self.aversion.dtype))

    def ended(self, over: Array) -> Held:
        """Return the state without repeated actions in environments where the episode is `over` (n,)."""
        return self._replace(left=array_namespace(self.left, over).where(over, 0, self.left))


def explore(agent: Agent, chance: StepChance, held: Held, epsilon: Array) -> tuple[Array, Array, Held]:
    """Decide which environments explore, in numpy or jax.

    Args:
        agent: The agent.
        chance: The random numbers of the round.
        held: The state of exploration.
        epsilon: The probability to explore.

    Returns:
        Whether each environment explores (n,), the random actions (n,), and the next state of exploration.
    """
    begins = chance.explore < epsilon
    if not agent.settings.epsilon_z:
        return begins, chance.action, held
    xp, repeats = array_namespace(begins, held.left), held.left > 0
    action = xp.where(repeats.reshape(-1, *(1,) * (chance.action.ndim - 1)), held.action, chance.action)
    left = xp.where(repeats, held.left - 1, xp.where(begins, chance.repeat - 1, 0))
    return begins | repeats, action, held._replace(action=action, left=left)


class Scaling(NamedTuple):
    """The scales of inputs and features. Networks see inputs (x - shift) * factor, and learn features phi / units.

    Attributes:
        shift: The shift (m,) of each input.
        factor: The factor (m,) of each input.
        units: The unit (d,) of each feature.
        spread: A typical standard deviation (d,) of each feature's return, in these units.
    """

    shift: Array
    factor: Array
    units: Array
    spread: Array

    @classmethod
    def none(cls, inputs: int, features: int) -> Scaling:
        """Return scales that leave inputs and features unchanged."""
        return cls(np.zeros(inputs, np.float32), np.ones(inputs, np.float32), *np.ones((2, features), np.float32))

    @classmethod
    def of(cls, agent: Agent, steps: replay.Steps) -> Scaling:
        """Return scales that give inputs mean 0 and standard deviation 1, and discounted feature sums a size near 1.

        Inputs that never changed and features that were always 0 are not scaled. Histograms learn unscaled features,
        because the atoms are in the features' own units. If an observation is a list of objects (setting `objects`),
        each column of this list is divided by its root mean square over all objects. Columns are not shifted, so that
        rows of zeros (absent objects) stay zero.

        Args:
            agent: The agent.
            steps: The steps of the warm-up, in numpy or jax.
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
            # this assumes independent, identically distributed steps, so that means and variances add up
            deviation = steps.phi.std(axis=0) * agent.summed(2) ** 0.5
            size = xp.abs(steps.phi.mean(axis=0)) * agent.summed() + deviation
            units = xp.where(size > 0, size, 1.0)
            spread_of_returns = xp.where(deviation > 0, deviation / units, 1.0)
        if agent.limit:  # time inputs are already scaled
            time = xp.arange(steps.obs.shape[1]) >= steps.obs.shape[1] - TIME_INPUTS
            mean, spread, varies = xp.where(time, 0.0, mean), xp.where(time, 1.0, spread), varies | time
        return cls(
            *(part.astype(np.float32) for part in (mean, 1 / xp.where(varies, spread, 1.0), units, spread_of_returns))
        )

    def inputs(self, obs: Array) -> Array:
        """Return the scaled inputs (.., m) of observations."""
        return (obs - self.shift) * self.factor

    def unscaled(self, agent: Agent, networks: Any) -> Any:
        """Return networks, in numpy, that take unscaled inputs and predict unscaled features.

        Args:
            agent: The agent.
            networks: Networks for scaled inputs and features.
        """
        of_actions = agent.action_size
        if of_actions:
            return networks._replace(
                critic=self._unscaled_law(agent, networks.critic, of_actions), actor=self._folded(networks.actor)
            )
        return self._unscaled_law(agent, networks)

    def _unscaled_law(self, agent: Agent, networks: Networks, leading: int = 0) -> Networks:
        folded = tuple(self._folded(one, leading) for one in networks)
        return agent.law.in_units(folded, self.units, self.spread)

    def _folded(self, network: Network, leading: int = 0) -> Network:
        """Return a network that scales its inputs in the first layer; the first `leading` inputs are not scaled."""
        first = network.hidden[0]
        if isinstance(first, Pairs):
            factor = np.tile(self.factor[: first.numbers], 2)
            if first.timed:
                factor = np.append(factor, np.ones(1, factor.dtype))
            weight = first.weight * factor[:, None]
            return network._replace(hidden=(first._replace(weight=weight), *network.hidden[1:]))
        factor, shift = np.append(np.ones(leading, np.float32), self.factor), np.pad(self.shift, (leading, 0))
        weight = first.weight * factor[:, None]
        bias = first.bias - np.einsum("n,knm->km", shift, weight)
        return network._replace(hidden=(first._replace(weight=weight, bias=bias), *network.hidden[1:]))


def _size_of_columns(obs: Array, objects: int) -> Array:
    """Return the root mean square of each number of an object, repeated to the size of an observation.

    An object has `objects` numbers, and is absent if all of them are zero. The mean is over the present objects.
    """
    xp = array_namespace(obs)
    each = obs.reshape(-1, objects)
    present = (each != 0).any(axis=1)
    size = xp.sqrt((each**2).sum(axis=0) / xp.maximum(present.sum(), 1))
    return xp.tile(xp.where(present.any(), size, 1.0), obs.shape[1] // objects)


def widened(within: Within, phi: Array, ended: Array) -> Within:
    """Return the range of features, extended to contain the features of n steps, in numpy or jax.

    Args:
        within: The range so far.
        phi: Features (n, d) of the steps.
        ended: Whether the return ends with the step (n,), because the episode terminated or reached the agent's limit.
    """
    xp = array_namespace(phi, within.low)
    recurring = xp.max((phi != 0) * (1.0 - ended)[:, None], axis=0)
    low, high = xp.minimum(within.low, phi.min(axis=0)), xp.maximum(within.high, phi.max(axis=0))
    return Within(low, high, xp.maximum(within.recurring, recurring).astype(within.recurring.dtype))


class Acting(NamedTuple):
    """The behaviour policy of an environment.

    Attributes:
        task: Index of the task.
        beta: The beta of the risk.
        aversion: The number of standard deviations of the return by which scores are reduced.
    """

    task: Array
    beta: Array
    aversion: Array


def behave(
    agent: Agent,
    networks: Any,
    tasks: Tasks,
    now: Acting,
    seen: Scaling,
    obs: Array,
    noise: Array,
) -> Array:
    """Return the action that the behaviour policy takes if it does not explore, by GPI over all policies.

    Args:
        agent: The agent.
        networks: The acting networks.
        tasks: The tasks in which experience is collected.
        now: The behaviour policy.
        seen: The scales of inputs and features.
        obs: An observation (m,), not scaled.
        noise: Noise (action_size,) that is added to an action that is a vector.
    """
    networks = agent.with_spread(networks, jnp.asarray(seen.spread))
    task_heads = agent.task_heads(networks, tasks.weights[now.task] * seen.units)
    inputs, given = seen.inputs(obs)[None], tasks.inputs[now.task]
    found = agent.scores(task_heads, inputs, given, agent.risk(now.beta))[:, 0]
    if agent.averse_episodes:
        found = found - now.aversion * jnp.sqrt(agent.moments(task_heads, inputs, given)[1][:, 0])
    return agent.take(task_heads, inputs[0], gpi_actions(found), noise)


class Goal(NamedTuple):
    """The tasks and risks for which policies are trained.

    Attributes:
        tasks: The tasks in which experience is collected.
        by: Either one beta (), for which policy k learns task k, or the task and the beta of each policy.
    """

    tasks: Tasks
    by: Array | Policies


def update(
    agent: Agent, learner: Learner, goal: Goal, seen: Scaling, within: Within, batch: replay.Windows, weight: Array
) -> tuple[Learner, Losses]:
    """Do one update of the networks on a batch.

    Args:
        agent: The agent.
        learner: The state before the update.
        goal: The tasks and risks for which policies are trained.
        seen: The scales of inputs and features.
        within: The range of features, not scaled.
        batch: B windows from the replay, not scaled.
        weight: The weight (B,) of each window's loss.

    Returns:
        The state after the update, and the weighted losses.
    """
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
    """Return importance weights for prioritised replay.

    The weights are frequency^-c, where c rises from 0 to 1 in the first half of training. With c = 0 there is no
    correction, and policies learn quickly from rare outcomes. With c = 1 the correction is complete, so that outcomes
    with large errors do not get too much probability in the learned distributions. If the length of training is not
    known, c is 1.

    Args:
        frequency: The probability of drawing each row, divided by this probability in uniform sampling (..).
        updates: The number of updates so far.
    """
    xp = array_namespace(frequency, updates)
    share = xp.minimum(1.0, 2 * updates / agent.planned) if agent.planned else 1.0
    return frequency**-share
