"""Scoring: reading only the features that a task weighs changes no score, whatever the law and the risk."""

import itertools
from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
from deep_twin import create_agent, outputs, plain_networks, random_learner, settings_of, softmax, symmetric

from rasf.deep.agent import Tasks
from rasf.risk import CVaR, Entropic, MeanVariance

OBS, ACTIONS, K, D, ATOMS, BATCH = 2, 3, 2, 4, 6, 3
BOUNDS = np.array([(-1.0, 1.0), (0.0, 1.0), (-2.0, 0.5), (-1.0, 0.0)])
TRAINING = Tasks(np.array([[1.0, 0.0, 0.0, -3.0], [0.0, 1.0, 0.0, -3.0]]), np.array([[0.5], [-0.5]]))
WEIGHTS = {
    "two": [0.0, 1.5, 0.0, -3.0],
    "one": [0.0, 0.0, -2.0, 0.0],
    "none": [0.0, 0.0, 0.0, 0.0],
    "dense": [0.3, -1.0, 2.0, 0.1],
}
RISKS = {"mean-variance": MeanVariance, "entropic": Entropic, "CVaR": lambda beta: CVaR(0.3)}
OBSERVATIONS = np.random.default_rng(5).normal(size=(BATCH, OBS))


def make(name, **changes):
    agent = create_agent(settings_of(name, widths=(3,), atoms=ATOMS, **changes), OBS, ACTIONS, BOUNDS, TRAINING)
    learner = random_learner(agent)
    # sharper than random: probabilities from 1e-4 on
    return agent, jax.tree.map(lambda leaf: leaf * 2, learner.online)


def histograms(agent, networks, x):
    """Probabilities (K, B, A, d, N) of all heads."""
    plain = plain_networks(networks[0], agent.law.shapes()[0])
    found = np.array([[outputs(network, one) for one in x] for network in plain])
    return np.apply_along_axis(softmax, -1, np.swapaxes(found, 2, 3))


@pytest.mark.parametrize("name", RISKS)
def test_histograms_score_as_the_risk_of_all_features(name):
    with jax.enable_x64(True):
        trained, networks = make("rasfc51")
        probs, atoms = histograms(trained, networks, OBSERVATIONS), np.array(trained.law.atoms)

        @partial(jax.jit, static_argnums=0)
        def scores(agent, w, beta):
            return agent.scores(agent.task_heads(networks, w), OBSERVATIONS, None, RISKS[name](beta))

        for w, beta in itertools.product(map(np.array, WEIGHTS.values()), (-3.0, 0.0)):
            expected = RISKS[name](beta).independent(probs, atoms, w)  # (K, B, A)
            active = max(1, np.count_nonzero(w))
            assert trained.for_weights(w[None]).active_features == active
            for prepared in {active, max(active, 2), D}:  # the features that count, more than that, and all
                agent = replace(trained, active_features=prepared)
                # CVaR's grid has one cell of slack a feature, so its rounding differs
                np.testing.assert_allclose(scores(agent, w, beta), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("law", ["rasfc51", "sfdqn", "sfdqn-residual"])
def test_moments(law):
    with jax.enable_x64(True):
        trained, networks = make(law)
        parts = [plain_networks(one, shape) for one, shape in zip(networks, trained.law.shapes(), strict=True)]
        moments = jax.jit(
            lambda agent, w: agent.moments(agent.task_heads(networks, w), OBSERVATIONS, None), static_argnums=0
        )
        for w in map(np.array, WEIGHTS.values()):
            mean, variance = moments(trained.for_weights(w[None]), w)
            assert mean.shape == variance.shape == (K, BATCH, ACTIONS)
            for k, b, a in np.ndindex(K, BATCH, ACTIONS):
                found = outputs(parts[0][k], OBSERVATIONS[b])
                if law == "rasfc51":
                    probs, atoms = np.array([softmax(head) for head in found[:, a]]), np.array(trained.law.atoms)
                    psi = (probs * atoms).sum(1)
                    Sigma = np.diag((probs * atoms**2).sum(1) - psi**2)
                else:
                    psi, Sigma = found[0, a], np.zeros((D, D))
                if law == "sfdqn-residual":
                    Sigma = symmetric(outputs(parts[1][k], OBSERVATIONS[b])[0, a], D)
                assert mean[k, b, a] == pytest.approx(psi @ w, abs=1e-10)
                assert variance[k, b, a] == pytest.approx(w @ Sigma @ w, abs=1e-9)


def test_negative_learned_variances_count_as_zero():
    with jax.enable_x64(True):
        agent, networks = make("sfdqn-residual")
        w, risk = np.array(WEIGHTS["dense"]), MeanVariance(-4.0)
        task_heads = agent.task_heads(networks, w)
        mean, variance = jax.jit(agent.moments)(task_heads, OBSERVATIONS, None)
        scores = jax.jit(partial(agent.scores, risk=risk))(task_heads, OBSERVATIONS, None)
    assert (np.asarray(variance) < 0).any()
    np.testing.assert_allclose(scores, np.asarray(mean) - 2 * np.maximum(variance, 0), atol=1e-12)


def test_own_scores_give_every_policy_its_own_weights():
    with jax.enable_x64(True):
        agent, networks = make("rasfc51")
        w, risk = TRAINING.weights, MeanVariance(-2.0)
        probs, atoms = histograms(agent, networks, OBSERVATIONS), np.array(agent.law.atoms)
        own = jax.jit(partial(agent.own_scores, risk=risk))
        scores = own(networks, OBSERVATIONS, w)
        each = np.stack([OBSERVATIONS, OBSERVATIONS + 1.0])
        by_each = own(networks, each, w)
    for k in range(K):
        np.testing.assert_allclose(scores[k], risk.independent(probs[k], atoms, w[k]), rtol=0, atol=1e-10)
    np.testing.assert_allclose(by_each[0], scores[0], rtol=0, atol=1e-12)
    moved = histograms(agent, networks, OBSERVATIONS + 1.0)
    np.testing.assert_allclose(by_each[1], risk.independent(moved[1], atoms, w[1]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("law", ["rasfc51", "sfdqn", "sfdqn-residual", "rasfdqn"])
def test_policies_that_are_all_neutral_choose_by_means_alone(law):
    agent, networks = make(law, **({"events": (1,)} if law == "rasfdqn" else {}))
    w = TRAINING.weights.astype(np.float32)
    found = replace(agent, neutral=True).own_scores(networks, OBSERVATIONS.astype(np.float32), w, np.zeros(K))
    by_all = agent.own_scores(networks, OBSERVATIONS.astype(np.float32), w, MeanVariance(0.0))
    np.testing.assert_allclose(found, by_all, rtol=1e-4, atol=1e-4)


def test_a_point_is_scored_as_a_certain_return():
    with jax.enable_x64(True):
        agent, networks = make("sfdqn")
        task_heads = agent.task_heads(networks, np.array(WEIGHTS["dense"]))
        averse, neutral = (
            jax.jit(partial(agent.scores, risk=MeanVariance(beta)))(task_heads, OBSERVATIONS, None)
            for beta in (-5.0, 0.0)
        )
    np.testing.assert_array_equal(averse, neutral)


def test_a_risk_that_cannot_score_moments_says_so():
    agent, networks = make("sfdqn")
    task_heads = agent.task_heads(networks, np.array(WEIGHTS["dense"]))
    with pytest.raises(ValueError, match="Entropic cannot score moments"):
        agent.scores(task_heads, OBSERVATIONS, None, Entropic(-1.0))
