"""Maps over tip positions, and Monte Carlo variances where they are known; mean-variance against the entropic utility,
held to loops in double precision."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from deep.deep_twin import constant_networks, outputs, plain_networks, random_learner, settings_of, softmax
from rasf.deep.agent import Agent, Tasks
from rasf.envs.reacher.arm import ELBOW_LIMIT, tip_position
from rasf.envs.reacher.world import Reacher
from rasf_lab.common.archive import load_archive
from rasf_lab.paper.reacher.beliefs import Mapped, angles_reaching, beliefs, compare_risks, grid, on_grid, true_variance
from rasf_lab.paper.reacher.claims import larger_inside

WORLD = Reacher(action_noise=0.0, failure_probability=0.0)
IN_ORDER, RISKY_LAST = np.arange(4), np.array([2, 3, 0, 1])  # the own tasks of four policies


@pytest.fixture(scope="module")
def small():
    tasks = Tasks(jnp.array(WORLD.tasks()), jnp.array(WORLD.target_positions()))
    training = Tasks(tasks.weights[:4], tasks.inputs[:4])
    settings = settings_of("rasfc51", widths=(8,), atoms=5)
    agent = Agent.for_world(settings, WORLD, training)
    return agent, agent.init(jax.random.key(0)).online, tasks


def test_angles_reach_the_tip_and_no_farther():
    rng = np.random.default_rng(4)
    radius, turn = rng.uniform(0.0101, 0.2099, 300), rng.uniform(-np.pi, np.pi, 300)
    positions = radius[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    angles = angles_reaching(positions)
    assert angles.shape == (2, 300, 2)
    np.testing.assert_allclose(tip_position(angles), np.stack([positions, positions]), rtol=0, atol=1e-9)
    assert (angles[0, :, 1] == -angles[1, :, 1]).all()
    assert (angles[0, :, 1] >= 0).all()
    assert np.isnan(angles_reaching(np.array([[0.22, 0.0], [0.0, 0.005]]))).all()


def test_states_bring_the_tip_to_the_grid_points():
    where = grid(9)
    tips = tip_position(where.states.astype(float)).reshape(2, -1, 2)
    for elbow in tips:
        np.testing.assert_allclose(elbow, where.tips[where.reached], atol=1e-6)
    assert (np.abs(where.states[:, 1]) <= ELBOW_LIMIT).all()
    radius = np.linalg.norm(where.tips, axis=-1)
    assert where.reached[(radius > 0.03) & (radius < 0.2)].all()
    assert not where.reached[radius > 0.21].any()


def test_values_are_put_where_they_belong():
    where = grid(7)
    values = np.arange(2 * where.reached.sum(), dtype=np.float32).reshape(2, -1)
    maps = on_grid(where, values)
    assert maps.shape == (2, 7, 7)
    np.testing.assert_array_equal(maps[:, where.reached], values)
    assert np.isnan(maps[:, ~where.reached]).all()


@pytest.mark.parametrize("own_tasks", [IN_ORDER, RISKY_LAST])
def test_beliefs_are_the_scores_of_single_states(small, own_tasks):
    agent, networks, tasks = small
    where = grid(5)
    found = beliefs(Mapped(agent, WORLD, where, own_tasks), networks, jnp.array(-6.0), tasks)
    n = int(where.reached.sum())
    assert found.objective.shape == found.variance.shape == (4, 12, n)
    risk = agent.risk(-6.0)
    policy, task, point = 2, 7, n // 2
    values, spreads = [], []
    for elbow in (0, 1):
        obs = WORLD.observe(jnp.asarray(where.states[elbow * n + point]))[None]
        mean, variance = agent.moments(agent.task_heads(networks, tasks.weights[task]), obs, tasks.inputs[task])
        values.append(float(jnp.max(mean[policy, 0] - 3.0 * variance[policy, 0])))
        own = int(jnp.argmax(agent.own_scores(networks, obs, tasks.weights[own_tasks], risk)[policy, 0]))
        spreads.append(float(variance[policy, 0, own]))
    assert found.objective[policy, task, point] == pytest.approx(np.mean(values), rel=1e-4)
    assert found.variance[policy, task, point] == pytest.approx(np.mean(spreads), rel=1e-4)
    assert found.negative == 0


def test_without_chance_the_true_variance_is_zero(small):
    agent, networks, tasks = small
    where = grid(5)
    settings = {"rollouts": 3, "steps": 4}
    certain = true_variance(
        Mapped(agent, WORLD, where, IN_ORDER), networks, jnp.array(-6.0), tasks, jax.random.key(0), **settings
    )
    assert certain.shape == (4, 12, int(where.reached.sum()))
    np.testing.assert_allclose(certain, 0.0, atol=1e-10)


def test_one_step_in_a_circle_has_the_variance_of_its_failure(small):
    """One step of discounted return: 9 p (1 - p) wherever the tip cannot leave a circle in one step."""
    agent, networks, tasks = small
    p = 0.3
    world = replace(WORLD, failure_probability=p, radius=1.0)
    where = grid(4)
    found = true_variance(
        Mapped(agent, world, where, IN_ORDER),
        networks,
        jnp.array(-6.0),
        tasks,
        jax.random.key(1),
        rollouts=4_000,
        steps=1,
    )
    assert found.shape == (4, 12, 4)
    np.testing.assert_allclose(found, 9 * p * (1 - p), rtol=0.08)
    few = {"rollouts": 2, "steps": 3, "exact_failures": True}
    sure = true_variance(
        Mapped(agent, world, where, IN_ORDER), networks, jnp.array(-6.0), tasks, jax.random.key(1), **few
    )
    in_all = sum(agent.settings.gamma ** (2 * t) for t in range(3))
    np.testing.assert_allclose(sure, 9 * p * (1 - p) * in_all, rtol=0.02)  # the rest is that of the torques


class Loud(Reacher):
    """Every feature is the same normal number, as large as the action's index and one."""

    def step(self, key, state, action):
        return state, (action + 1) * jax.random.normal(key) * jnp.ones(self.n_features)


@pytest.mark.parametrize("own_tasks", [IN_ORDER, RISKY_LAST])
def test_the_truth_is_that_of_policies_that_act_for_their_own_tasks(small, own_tasks):
    """Where action j is best for the task of target j, the returns of its policy spread as (j + 1) |sum of w|."""
    agent, _, tasks = small
    logits = np.zeros((4, 13, 9, 5))
    logits[:, :, :, 0] = 30.0  # the lowest atom
    for feature in range(9):
        logits[:, feature, feature] = [0.0, 0.0, 0.0, 0.0, 30.0]
    networks = constant_networks(agent, [logits])
    found = true_variance(
        Mapped(agent, Loud(), grid(4), own_tasks),
        networks,
        jnp.array(0.0),
        tasks,
        jax.random.key(1),
        rollouts=4_000,
        steps=1,
    )
    assert found.shape == (4, 12, 4)
    spread = (own_tasks + 1.0)[:, None] * np.asarray(tasks.weights).sum(axis=1)
    np.testing.assert_allclose(found, np.broadcast_to(spread[:, :, None] ** 2, found.shape), rtol=0.12)


# --- risks on learned histograms

TWO_TARGETS = Reacher(targets=((0.14, 0.0), (0.0, 0.14)), risky=(0,))
# the second task weighs failure so little that nothing overflows
WEIGHTS = np.array([[1.0, 0.0, -3.0], [0.0, 1.0, -0.1], [0.5, 0.0, -3.0], [0.0, 0.3, -0.2]], np.float32)
BETA, K, STATES = -6.0, 2, 15


@pytest.fixture(scope="module")
def thin_tails():
    """An agent, networks whose histograms have thin tails, tasks, and other states for every task."""
    inputs = np.zeros((len(WEIGHTS), 0), np.float32)
    settings = settings_of("rasfc51", widths=(4,), atoms=5)
    agent = Agent.for_world(settings, TWO_TARGETS, Tasks(WEIGHTS[:K], inputs[:K]))
    (network,) = random_learner(agent).online
    steep = network._replace(heads=type(network.heads)(*(30 * part for part in network.heads)))
    states = np.random.default_rng(1).uniform(-2, 2, (len(WEIGHTS), STATES, 4)).astype(np.float32)
    return agent, (steep,), Tasks(WEIGHTS, inputs), states


def scores(agent, networks, states):
    """By mean-variance, exactly, and exactly with 1e-9 of mass more on every atom: (T, K, n, A) each; what overflows.

    In double precision the plain formula is good up to exp(709); the largest here is exp(180).
    """
    atoms, plain = np.array(agent.law.atoms), plain_networks(networks[0], agent.law.shapes()[0])
    found = np.zeros((4, len(WEIGHTS), K, STATES, agent.actions))
    for t, k, s, a in np.ndindex(found.shape[1:]):
        logits = outputs(plain[k], TWO_TARGETS.observe(states[t, s].astype(float)))
        for i, w in enumerate(WEIGHTS[t].astype(float)):
            p, z = softmax(logits[i, a]), atoms[i]
            traced = (1 - 1e-9 * len(p)) * p + 1e-9
            mean = p @ z
            approximate = w * mean + BETA / 2 * w**2 * (p @ (z - mean) ** 2)
            exact, moved = (np.log(law @ np.exp(BETA * w * z)) / BETA for law in (p, traced))
            lost = np.exp(BETA * w * z).max() > np.finfo(np.float32).max
            found[:, t, k, s, a] += approximate, exact, moved, lost
    return found


def test_the_comparison_is_that_of_loops_in_double_precision(thin_tails):
    agent, networks, tasks, states = thin_tails
    approximate, exact, traced, lost = scores(agent, networks, states)
    found = compare_risks(agent, TWO_TARGETS, networks, jnp.float32(BETA), tasks, jnp.asarray(states))
    actions = [one.max(axis=1).argmax(axis=-1) for one in (approximate, exact)]
    share = np.mean(actions[0] == actions[1])
    assert 0.1 < share < 0.9
    assert found["agree"] == pytest.approx(share, abs=1e-6)
    at = [0.1, 0.5, 0.9]
    np.testing.assert_allclose(found["apart"], np.quantile(np.abs(exact - approximate), at), rtol=1e-3)
    np.testing.assert_allclose(found["level"], np.median(np.abs(approximate)), rtol=1e-3)
    moved = np.quantile(np.abs(traced - exact), at)
    assert moved[2] > 1
    np.testing.assert_allclose(found["trace"], moved, rtol=1e-3, atol=1e-4)
    assert found["lost"] == (lost > 0).mean() == 0.5


def test_without_risk_the_two_are_one(thin_tails):
    agent, networks, tasks, states = thin_tails
    found = compare_risks(agent, TWO_TARGETS, networks, jnp.float32(1e-6), tasks, jnp.asarray(states))
    assert found["agree"] == 1
    np.testing.assert_allclose(found["apart"], 0, atol=1e-3)
    assert found["level"] > 1


@pytest.mark.parametrize(("agent", "test_tasks"), [("rasfc51", 0.865), ("sfdqn-residual", 0.534)])
def test_the_variance_generalises_to_test_tasks(agent, test_tasks):
    """Appendix D.2, of the shipped maps of 61 points (means over 3 seeds): how often a circle has more variance.

    For each of 4 policies on each task, after all training. 0.5 is chance; training tasks are the first 4.
    """
    shared = load_archive(Path(__file__).parents[3] / "lab" / "results" / "reacher.npz").shared
    where, variance = grid(61), shared[f"{agent} fine-maps -3/variance_pairs"][-1].astype(float)
    inside = np.asarray(Reacher().in_circle(where.tips[where.reached]))
    share = np.array([[larger_inside(one, inside) for one in policy] for policy in variance])
    assert share[:, 4:].mean() == pytest.approx(test_tasks, abs=1e-3)
    assert share[:, :4].mean() == pytest.approx(share[:, 4:].mean(), abs=0.01)
