"""Rollouts of networks and worlds so simple that every number is known by hand."""

from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deep_twin import constant_networks, settings_of

from rasf.deep.agent import Agent, Tasks
from rasf_lab.rollouts.compiled import Way, rollouts

STEPS, GAMMA = 4, 0.6


class Count(NamedTuple):
    start: jax.Array
    steps: jax.Array
    ones: jax.Array  # how often action 1 was taken


@dataclass(frozen=True)
class Counter:
    """phi = (1, whether action 1 was taken); no chance but for the start, which is not observed."""

    n_actions: int = 2
    observation_size: int = 2
    episode_length: int = STEPS
    ends_after: int = STEPS + 1  # steps

    @property
    def feature_bounds(self):
        return np.array([(0.0, 1.0), (0.0, 1.0)])

    def reset(self, key):
        return Count(jax.random.uniform(key), jnp.zeros(()), jnp.zeros(()))

    def noise(self, key):
        return jnp.zeros(())

    def advance(self, state, action, noise):
        taken = (action == 1) * 1.0
        return state._replace(steps=state.steps + 1, ones=state.ones + taken), jnp.stack([jnp.ones(()), taken])

    def observe(self, state):
        return jnp.stack([state.steps, state.ones])

    def terminated(self, state):
        return state.steps >= self.ends_after


WORLD = Counter()
TASKS = Tasks(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], np.float32), np.zeros((3, 1), np.float32))
STEPWISE = GAMMA ** np.arange(STEPS)


def make(name, tasks=TASKS, **changes):
    return Agent.for_world(settings_of(name, gamma=GAMMA, widths=(2,), **changes), WORLD, tasks)


@cache
def compiled_rollouts(agent, n, **options):
    return jax.jit(partial(rollouts, agent, WORLD, n=n, way=Way(**options)))


def roll(agent, networks, beta=0.0, tasks=TASKS, n=3, seed=0, epsilon=0.0, **options):
    act = compiled_rollouts(agent, n, epsilon=epsilon, **options)
    return jax.tree.map(np.asarray, act(networks, jax.random.key(seed), beta, tasks))


def psi_networks(agent, psi):
    """psi[k][a] = (first, second) of SFDQN."""
    return constant_networks(agent, [np.array(psi)[:, None]])


@pytest.fixture(scope="module")
def gpi_rollouts():
    """Three policies: on the task (1, 0) the first two prefer action 0, on (0, 1) the third wins with action 1."""
    agent = make("sfdqn")
    networks = psi_networks(agent, [[(2.0, 0.0), (1.0, 0.0)], [(3.0, 0.5), (1.0, 0.0)], [(0.0, 0.0), (2.5, 2.0)]])

    def measure(step, state):
        return jnp.stack([step * 1.0, state.steps, state.ones])

    return roll(agent, networks, measure=measure)


def test_sums_and_discounted_sums(gpi_rollouts):
    assert gpi_rollouts.phi.shape == (3, 3, 2)
    # task (1, 0): action 0 is worth 3; task (0, 1): action 1 is worth 2; task (1, 1): 4.5 against 3.5
    np.testing.assert_allclose(gpi_rollouts.phi, np.broadcast_to([[[4, 0]], [[4, 4]], [[4, 4]]], (3, 3, 2)))
    once = STEPWISE.sum()
    expected = np.broadcast_to([[[once, 0]], [[once, once]], [[once, once]]], (3, 3, 2))
    np.testing.assert_allclose(gpi_rollouts.discounted, expected, rtol=1e-6)


def test_measured_means_are_of_the_states_after_each_step(gpi_rollouts):
    steps = [np.mean([0, 1, 2, 3]), np.mean([1, 2, 3, 4])]
    expected = [[[*steps, 0.0]], [[*steps, 2.5]], [[*steps, 2.5]]]
    np.testing.assert_allclose(gpi_rollouts.measured, np.broadcast_to(expected, (3, 3, 3)), rtol=1e-6)


def test_nothing_counts_after_an_episode_terminated():
    agent = make("sfdqn")
    networks = psi_networks(agent, [[(0.0, 0.0), (1.0, 1.0)]] * 3)
    act = jax.jit(
        partial(rollouts, agent, Counter(ends_after=2), n=2, way=Way(0.0, measure=lambda t, state: t[None] + 1.0))
    )
    found = jax.tree.map(np.asarray, act(networks, jax.random.key(0), 0.0, TASKS))
    np.testing.assert_array_equal(found.phi, np.full((3, 2, 2), 2.0))
    np.testing.assert_allclose(found.discounted, np.full((3, 2, 2), 1.6), rtol=1e-6)
    np.testing.assert_allclose(found.measured, np.full((3, 2, 1), 1.5))


def test_nothing_is_measured_by_default():
    agent = make("sfdqn")
    found = roll(agent, psi_networks(agent, np.zeros((3, 2, 2))), n=2)
    assert found.measured.shape == (3, 2, 0)
    np.testing.assert_array_equal(found.phi[..., 1], 0)  # ties go to the lowest action


def test_exploration():
    """epsilon 1 takes either action half the time: 3 tasks, 400 rollouts and 4 steps."""
    agent = make("sfdqn")
    networks = psi_networks(agent, [[(0.0, 0.0), (1.0, 1.0)]] * 3)
    phi = roll(agent, networks, n=400, epsilon=1.0).phi
    assert abs(phi[..., 1].mean() / STEPS - 0.5) < 4 * 0.5 / np.sqrt(phi[..., 1].size * STEPS)
    assert len(np.unique(phi[..., 1])) == STEPS + 1


def sometimes(mean, variance):
    """psi and Sigma of SFDQN-residual for one policy and one feature that counts: (A,) each."""
    psi, Sigma = np.zeros((1, 1, 2, 2)), np.zeros((1, 1, 2, 3))
    psi[0, 0, :, 0], Sigma[0, 0, :, 0] = mean, variance
    return [psi, Sigma]


def test_discount_aware_scores_with_beta_gamma_to_the_t():
    """Action 0 has mean 1 and variance 1, action 1 a certain 1/2; beta / 2 = -1.

    Action 0 scores 1 - 1 = 0 as the paper does it, for ever. Aware of the discount it scores 1 - 0.6^t: 0, 0.4, 0.64,
    0.784, and wins from the third step on.
    """
    tasks = Tasks(TASKS.weights[:1], TASKS.inputs[:1])
    agent = make("sfdqn-residual", tasks)
    networks = constant_networks(agent, sometimes([1.0, 0.5], [1.0, 0.0]))
    plain, aware = (
        roll(agent, networks, -2.0, tasks, risk_discount=risk_discount) for risk_discount in (1.0, agent.settings.gamma)
    )
    np.testing.assert_array_equal(plain.phi[..., 1], 4)
    np.testing.assert_array_equal(aware.phi[..., 1], 2)
    np.testing.assert_allclose(aware.discounted[..., 1], 1 + 0.6, rtol=1e-6)
    np.testing.assert_allclose(plain.discounted[..., 1], STEPWISE.sum(), rtol=1e-6)
    neutral = roll(agent, networks, 0.0, tasks, risk_discount=agent.settings.gamma)
    np.testing.assert_array_equal(neutral.phi[..., 1], 0)


def test_trajectories_are_the_states_that_were_acted_in():
    tasks = Tasks(TASKS.weights[:1], TASKS.inputs[:1])
    agent = make("sfdqn", tasks)
    networks = psi_networks(agent, [[(0.0, 0.0), (1.0, 0.0)]])
    act = jax.jit(partial(rollouts, agent, WORLD, n=5, way=Way(epsilon=0.0, record=True)))
    states = jax.tree.map(np.asarray, act(networks, jax.random.key(0), 0.0, tasks).states)
    assert states.steps.shape == (1, 5, STEPS)
    np.testing.assert_array_equal(states.steps, np.broadcast_to(np.arange(4), (1, 5, 4)))
    np.testing.assert_array_equal(states.ones, states.steps)
    assert (states.start == states.start[..., :1]).all()
    assert len(np.unique(states.start[..., 0])) == 5  # every rollout starts anew


def test_rollouts_tell_the_networks_the_time_that_is_left():
    """A network whose only unit is the share of time left, below one half: action 1 in the last of four steps."""
    tasks = Tasks(TASKS.weights[:1], TASKS.inputs[:1])
    settings = settings_of("sfdqn", gamma=GAMMA, widths=(2,), horizon="episode")
    agent = Agent.for_world(settings, WORLD, tasks, limit=STEPS)
    (network,) = psi_networks(agent, np.zeros((1, 2, 2)))
    network.hidden[0].weight[0, -1, 0] = -5.0
    network.heads.weight[0, 0, 1, 0] = 1.0
    act = jax.jit(partial(rollouts, agent, WORLD, n=2, way=Way(epsilon=0.0, record=True)))
    found = jax.tree.map(np.asarray, act((network,), jax.random.key(0), 0.0, tasks))
    np.testing.assert_array_equal(found.states.ones, np.zeros((1, 2, STEPS)))
    np.testing.assert_array_equal(found.phi, [[[4.0, 1.0], [4.0, 1.0]]])


def test_same_key_same_bits_and_other_keys_differ():
    agent = make("sfdqn")
    networks = psi_networks(agent, np.zeros((3, 2, 2)))
    first, again, other = (roll(agent, networks, n=400, epsilon=1.0, seed=seed).phi for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first[0], first[1])  # nor are tasks alike
