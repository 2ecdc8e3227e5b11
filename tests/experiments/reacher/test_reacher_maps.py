"""Maps over tip positions: the geometry of the grid, and Monte Carlo variances where they are known."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rasf.deep.agent import Agent, Tasks, preset
from rasf.envs.reacher.arm import ELBOW_LIMIT, tip_position
from rasf.envs.reacher.world import Reacher
from rasf.experiments.reacher import maps as reacher_maps

WORLD = Reacher(action_noise=0.0, failure_probability=0.0)


@pytest.fixture(scope="module")
def small():
    tasks = Tasks(jnp.array(WORLD.tasks()), jnp.array(WORLD.target_positions()))
    training = Tasks(tasks.weights[:4], tasks.inputs[:4])
    settings = preset("rasfc51", widths=(8,), atoms=5)
    agent = Agent.create(settings, WORLD.observation_size, WORLD.n_actions, WORLD.feature_bounds, training)
    return agent, agent.init(jax.random.key(0)).online, tasks


def test_states_bring_the_tip_to_the_grid_points():
    where = reacher_maps.grid(9)
    tips = tip_position(where.states.astype(float)).reshape(2, -1, 2)
    for elbow in tips:
        np.testing.assert_allclose(elbow, where.tips[where.reached], atol=1e-6)
    assert (np.abs(where.states[:, 1]) <= ELBOW_LIMIT).all()
    radius = np.linalg.norm(where.tips, axis=-1)
    assert where.reached[(radius > 0.03) & (radius < 0.2)].all()
    assert not where.reached[radius > 0.21].any()


def test_spread_puts_values_where_they_belong():
    where = reacher_maps.grid(7)
    values = np.arange(2 * where.reached.sum(), dtype=np.float32).reshape(2, -1)
    maps = reacher_maps.spread(where, values)
    assert maps.shape == (2, 7, 7)
    np.testing.assert_array_equal(maps[:, where.reached], values)
    assert np.isnan(maps[:, ~where.reached]).all()


def test_beliefs_are_the_scores_of_single_states(small):
    agent, networks, tasks = small
    where = reacher_maps.grid(5)
    found = reacher_maps.beliefs(agent, WORLD, networks, jnp.array(-6.0), tasks, where)
    n = int(where.reached.sum())
    assert found.objective.shape == found.variance.shape == (4, 12, n)
    risk = agent.settings.risk(-6.0)
    policy, task, point = 2, 7, n // 2
    values, spreads = [], []
    for elbow in (0, 1):
        obs = WORLD.observe(jnp.asarray(where.states[elbow * n + point]))[None]
        mean, variance = agent.moments(agent.task_heads(networks, tasks.weights[task]), obs, tasks.inputs[task])
        values.append(float(jnp.max(mean[policy, 0] - 3.0 * variance[policy, 0])))
        own = int(jnp.argmax(agent.own_scores(networks, obs, tasks.weights[:4], risk)[policy, 0]))
        spreads.append(float(variance[policy, 0, own]))
    assert found.objective[policy, task, point] == pytest.approx(np.mean(values), rel=1e-4)
    assert found.variance[policy, task, point] == pytest.approx(np.mean(spreads), rel=1e-4)
    assert found.negative == 0


def test_without_chance_the_true_variance_is_zero(small):
    agent, networks, tasks = small
    where = reacher_maps.grid(5)
    settings = {"rollouts": 3, "steps": 4}
    certain = reacher_maps.true_variance(
        agent, WORLD, networks, jax.random.key(0), jnp.array(-6.0), tasks, where, **settings
    )
    assert certain.shape == (4, 12, int(where.reached.sum()))
    np.testing.assert_allclose(certain, 0.0, atol=1e-10)


def test_one_step_in_a_circle_has_the_variance_of_its_failure(small):
    """One step of discounted return: 9 p (1 - p) wherever the tip cannot leave a circle in one step."""
    agent, networks, tasks = small
    p = 0.3
    world = replace(WORLD, failure_probability=p, radius=1.0)
    where = reacher_maps.grid(3)
    found = reacher_maps.true_variance(
        agent, world, networks, jax.random.key(1), jnp.array(-6.0), tasks, where, rollouts=4_000, steps=1
    )
    np.testing.assert_allclose(found, 9 * p * (1 - p), rtol=0.08)
