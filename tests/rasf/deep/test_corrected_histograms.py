"""Histograms that know how much of their variance is the projection's: against the projection, and scored by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deep_twin import create_agent, mean_and_variance, random_learner

from rasf import CVaR, Entropic, MeanVariance
from rasf.deep.agent import Tasks, preset
from rasf.deep.laws import Histogram, TaskHeads, project, widening
from rasf.deep.replay import Batch

ATOMS = np.stack([np.linspace(-2.0, 2.0, 9), np.linspace(0.0, 4.0, 9)])
TASKS = Tasks(np.array([[1.0, -0.5], [0.3, 2.0]]), np.zeros((2, 0)))


def random_probs(rng, *shape):
    return rng.dirichlet(np.ones(9), shape)


def test_what_a_projection_adds_to_the_variance():
    """Nothing is clipped: variance after = discount^2 variance before + squared spacing x widening."""
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        probs, phi, discount = random_probs(rng, 3, 5, 2), rng.uniform(0.0, 0.4, (5, 2)), rng.uniform(0.3, 0.8, 5)
        added = np.asarray(widening(probs, phi, discount, ATOMS))
        for b in range(5):
            for i in range(2):
                after, clipped = project(probs[:, b, i], phi[b, i], discount[b], ATOMS[i])
                assert float(clipped.sum()) == 0.0
                for k in range(3):
                    before = mean_and_variance(probs[k, b, i], ATOMS[i])[1]
                    now = mean_and_variance(np.asarray(after)[k], ATOMS[i])[1]
                    assert now - discount[b] ** 2 * before == pytest.approx(0.25 * added[k, b, i], abs=1e-12)


def test_a_certain_return_has_no_variance_left():
    """A chain without chance, backed up exactly: the histogram is wide, and all of it is the projection's."""
    gamma, phi = 0.8, np.array([0.31, 0.17, 0.05, 0.23])
    with jax.enable_x64(True):
        probs, own = np.zeros((1, 1, 1, 9)), np.zeros((1, 1, 1))
        probs[..., 4] = 1.0  # 0, at the end
        for step in phi:
            own = np.asarray(widening(probs, np.full((1, 1), step), np.array([gamma]), ATOMS[:1])) + gamma**2 * own
            after, _ = project(probs[:, 0, 0], step, gamma, ATOMS[0])
            probs = np.asarray(after)[:, None, None]
    variance = mean_and_variance(probs[0, 0, 0], ATOMS[0])[1]
    assert variance > 0.05
    assert variance == pytest.approx(0.25 * own[0, 0, 0])


@pytest.fixture(scope="module")
def numbers():
    rng = np.random.default_rng(1)
    found = rng.normal(size=(2, 3, 4, 2, 10))  # policies, batch, actions, features, atoms and c
    found[..., -1] = rng.uniform(-0.2, 1.5, found.shape[:-1])
    return found


def by_hand(numbers, w):
    """Mean and variance less the projection's, of one state and action."""
    mean = variance = 0.0
    for i, weight in enumerate(w):
        logits, c = numbers[i, :-1], max(numbers[i, -1], 0.0)
        m, v = mean_and_variance(np.exp(logits) / np.exp(logits).sum(), ATOMS[i])
        mean, variance = mean + weight * m, variance + weight**2 * max(v - 0.25 * c, 0.0)
    return mean, variance


def scored(numbers, risk=None, betas=None):
    law = Histogram(tuple(map(tuple, ATOMS.tolist())), corrected=True)
    with jax.enable_x64(True):
        heads = TaskHeads((), jnp.broadcast_to(ATOMS, (2, *ATOMS.shape)), jnp.asarray(TASKS.weights))
        if betas is not None:
            return np.asarray(law.scores_by_each((jnp.asarray(numbers),), heads, MeanVariance, jnp.asarray(betas)))
        scores = law.scores((jnp.asarray(numbers),), heads, risk)
        return np.asarray(scores), *map(np.asarray, law.moments((jnp.asarray(numbers),), heads))


def test_scores_and_moments_are_those_of_the_variance_that_is_left(numbers):
    scores, mean, variance = scored(numbers, MeanVariance(-3.0))
    for k, b, a in np.ndindex(2, 3, 4):
        m, v = by_hand(numbers[k, b, a], TASKS.weights[k])
        assert mean[k, b, a] == pytest.approx(m)
        assert variance[k, b, a] == pytest.approx(v)
        assert scores[k, b, a] == pytest.approx(m - 1.5 * v)


def test_each_policy_may_have_its_own_risk(numbers):
    each = scored(numbers, betas=[-3.0, 0.5])
    np.testing.assert_allclose(each[0], scored(numbers, MeanVariance(-3.0))[0][0])
    np.testing.assert_allclose(each[1], scored(numbers, MeanVariance(0.5))[0][1])


@pytest.mark.parametrize("risk", [Entropic(-0.7), CVaR(0.3)])
def test_other_risks_see_a_histogram_drawn_together(numbers, risk):
    scores, _, _ = scored(numbers, risk)
    k, b, a = 1, 2, 3
    probs, atoms = np.zeros((2, 9)), np.zeros((2, 9))
    for i in range(2):
        logits = numbers[k, b, a, i, :-1]
        probs[i] = np.exp(logits) / np.exp(logits).sum()
        m, v = mean_and_variance(probs[i], ATOMS[i])
        left = max(v - 0.25 * max(numbers[k, b, a, i, -1], 0.0), 0.0)
        atoms[i] = m + np.sqrt(left / v) * (ATOMS[i] - m)
        assert mean_and_variance(probs[i], atoms[i]) == pytest.approx((m, left))
    assert scores[k, b, a] == pytest.approx(float(risk.independent(probs, atoms, TASKS.weights[k])), rel=1e-6)


def test_the_loss_has_both_parts():
    rng = np.random.default_rng(2)
    law = Histogram(tuple(map(tuple, ATOMS.tolist())), corrected=True)
    plain = Histogram(law.atoms)
    chosen, following = rng.normal(size=(2, 2, 3, 2, 10))
    phi, discount = rng.uniform(-0.2, 0.4, (3, 2)), np.array([0.8, 0.0, 0.8])
    with jax.enable_x64(True):
        loss, _ = law.loss((chosen,), (following,), phi, discount)
        entropy, _ = plain.loss((chosen[..., :-1],), (following[..., :-1],), phi, discount)
        added = np.asarray(widening(jax.nn.softmax(following[..., :-1]), phi, discount, ATOMS))
    wanted = added + discount[:, None] ** 2 * np.maximum(following[..., -1], 0.0)
    squared = ((chosen[..., -1] - wanted) ** 2).sum() / 2 / 3
    assert float(loss) == pytest.approx(float(entropy) + squared)


# --- averaged networks, several updates


def test_averaged_networks_are_the_mean_so_far_and_later_a_moving_one():
    settings = preset("rasfc51", widths=(4,), atoms=9, average=3, learning_rate=0.05)
    agent = create_agent(settings, 2, 3, [(-1.0, 1.0), (0.0, 1.0)], TASKS)
    learner = agent.init(jax.random.key(0))
    rng, seen = np.random.default_rng(0), []
    for update in range(6):
        batch = Batch(rng.normal(size=(4, 2)), rng.integers(3, size=4), rng.random((4, 2)), rng.normal(size=(4, 2)),
                      np.ones(4), np.zeros(4, int))  # fmt: skip
        before = learner.average
        learner, _, _ = agent.update(learner, batch, TASKS, MeanVariance(0.0))
        bias = np.asarray(learner.online[0].heads.bias)
        seen.append(bias)
        mean = np.asarray(learner.average[0].heads.bias)
        if update < 3:
            np.testing.assert_allclose(mean, np.mean(seen, axis=0), atol=1e-6)
        else:
            old = np.asarray(before[0].heads.bias)
            np.testing.assert_allclose(mean, old + (bias - old) / 3, atol=1e-6)
    assert agent.acting(learner) is learner.average
    plain = create_agent(preset("rasfc51", widths=(4,), atoms=9), 2, 3, [(-1.0, 1.0), (0.0, 1.0)], TASKS)
    learner = random_learner(plain)
    assert plain.acting(learner) is learner.online
