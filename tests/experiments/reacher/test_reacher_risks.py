"""Mean-variance against the entropic utility on small networks, and the same by loops in double precision."""

import jax.numpy as jnp
import numpy as np
import pytest

from deep.deep_twin import outputs, plain_networks, random_learner, softmax
from quick_compilation import quick_compilation  # noqa: F401
from rasf.deep.agent import Agent, Tasks, preset
from rasf.envs.reacher.world import Reacher
from rasf.experiments.reacher import risks as reacher_risks

WORLD = Reacher(targets=((0.14, 0.0), (0.0, 0.14)), risky=(0,))
# the second task weighs failure so little that nothing overflows
WEIGHTS = np.array([[1.0, 0.0, -3.0], [0.0, 1.0, -0.1], [0.5, 0.0, -3.0], [0.0, 0.3, -0.2]], np.float32)
BETA, K, STATES = -6.0, 2, 15


@pytest.fixture(scope="module")
def small():
    """An agent, networks whose histograms have thin tails, tasks, and other states for every task."""
    inputs = np.zeros((len(WEIGHTS), 0), np.float32)
    settings = preset("rasfc51", widths=(4,), atoms=5)
    sizes = (WORLD.observation_size, WORLD.n_actions, WORLD.feature_bounds)
    agent = Agent.create(settings, *sizes, Tasks(WEIGHTS[:K], inputs[:K]))
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
        logits = outputs(plain[k], WORLD.observe(states[t, s].astype(float)))
        for i, w in enumerate(WEIGHTS[t].astype(float)):
            p, z = softmax(logits[i, a]), atoms[i]
            traced = (1 - 1e-9 * len(p)) * p + 1e-9
            mean = p @ z
            approximate = w * mean + BETA / 2 * w**2 * (p @ (z - mean) ** 2)
            exact, moved = (np.log(law @ np.exp(BETA * w * z)) / BETA for law in (p, traced))
            lost = np.exp(BETA * w * z).max() > np.finfo(np.float32).max
            found[:, t, k, s, a] += approximate, exact, moved, lost
    return found


def test_the_comparison_is_that_of_loops_in_double_precision(small):
    agent, networks, tasks, states = small
    approximate, exact, traced, lost = scores(agent, networks, states)
    found = reacher_risks.compare(agent, WORLD, networks, jnp.float32(BETA), tasks, jnp.asarray(states))
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


def test_without_risk_the_two_are_one(small):
    agent, networks, tasks, states = small
    found = reacher_risks.compare(agent, WORLD, networks, jnp.float32(1e-6), tasks, jnp.asarray(states))
    assert found["agree"] == 1
    np.testing.assert_allclose(found["apart"], 0, atol=1e-3)
    assert found["level"] > 1
