"""Entropic utility of logarithms of probabilities: tails that exp would round to zero still count."""

import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

from rasf.risk import Entropic

modest = settings(max_examples=80, deadline=None)
betas = st.one_of(st.floats(-10, 10), st.sampled_from([0.0, 1e-300, -1e-12, 1e-5, 1e4, -1e4]))
# one compilation for all parameters of a test
UTILITY = jax.jit(lambda beta, log_probs, x, w: Entropic(beta).independent_log(log_probs, x, w))
GRADIENT = jax.jit(jax.grad(UTILITY, (0, 1, 2, 3)))


def exact(log_probs, x, beta):
    """log sum exp(log p + beta x) / beta, the mean at 0, with enough digits that nothing cancels or underflows."""
    with mpmath.workdps(400):
        p = [mpmath.exp(mpmath.mpf(float(one))) for one in log_probs]
        x = [mpmath.mpf(float(one)) for one in x]
        if beta == 0:
            return float(sum(a * b for a, b in zip(p, x, strict=True)) / sum(p))
        beta = mpmath.mpf(float(beta))
        moment = sum(a * mpmath.exp(beta * b) for a, b in zip(p, x, strict=True)) / sum(p)
        return float(mpmath.log(moment) / beta)


@st.composite
def laws(draw, lowest):
    """Log-probabilities (1, N) and atoms (1, N)."""
    n = draw(st.integers(1, 6))
    logits = draw(st.lists(st.floats(lowest, 0), min_size=n, max_size=n))
    return log_softmax(logits)[None], np.array([draw(st.lists(st.floats(-100, 100), min_size=n, max_size=n))])


@modest
@given(laws(lowest=-20), betas, st.floats(-3, 3))
def test_equals_independent_where_nothing_underflows(law, beta, weight):
    log_probs, x = law
    w = np.array([weight])
    score = Entropic(beta).independent_log(log_probs, x, w)
    assert score == pytest.approx(Entropic(beta).independent(np.exp(log_probs), x, w), rel=0, abs=1e-11)


@modest
@given(laws(lowest=-3_000), betas)
def test_equals_the_definition_where_probabilities_underflow(law, beta):
    log_probs, x = law
    score = Entropic(beta).independent_log(log_probs, x, np.ones(1))
    # log-probabilities of 1e3 carry a rounding of 1e-13, and the definition divides it by beta
    slack = 1e-13 * (1 + np.abs(x).max()) + (3e-13 * min(1 / abs(beta), 1e3) if beta else 0)
    assert score == pytest.approx(exact(log_probs[0], x[0], beta), rel=0, abs=slack)


def test_a_far_disaster_that_exp_would_lose():
    """A log-probability of -1000 at -500: exp(-1000) is 0, but exp(-1000 + 3 * 500) decides."""
    log_probs, atoms, w = np.array([[-1000.0, 0.0]]), np.array([[-500.0, 0.0]]), np.ones(1)
    assert np.exp(-1000.0) == 0
    assert Entropic(-3.0).independent_log(log_probs, atoms, w) == pytest.approx(-500 / 3)
    assert Entropic(-3.0).independent(np.exp(log_probs), atoms, w) == 0
    assert UTILITY(-3.0, log_probs, atoms, w) == pytest.approx(-500 / 3, rel=1e-6)


def test_the_paper_s_numbers_in_single_precision():
    """The far end of the failure feature at the paper's beta: a tail of exp(-120) is 0 in single precision."""
    log_probs, atoms, w = np.array([[0.0, -120.0]]), np.array([[0.0, 10.0]]), np.array([-3.0])
    beta = -6.0
    # exp(-120) exp(6 * 30) = exp(60): the utility is -60 / 6
    assert jnp.exp(jnp.float32(-120.0)) == 0
    assert UTILITY(beta, log_probs, atoms, w) == pytest.approx(-10.0, rel=1e-6)
    assert UTILITY(beta, log_probs, atoms, w) == pytest.approx(exact(log_probs[0], -3 * atoms[0], beta), rel=1e-6)


def test_features_add_up_and_batches_keep_their_rows():
    rng = np.random.default_rng(0)
    log_probs = log_softmax(50 * rng.normal(size=(2, 3, 4, 5)), axis=-1)
    atoms, w = rng.normal(size=(4, 5)) * 10, np.array([1.0, -2.0, 0.0, 0.5])
    score = Entropic(-2.0).independent_log(log_probs, atoms, w)
    assert score.shape == (2, 3)
    for i, j in np.ndindex(2, 3):
        by_sum = sum(exact(log_probs[i, j, f], w[f] * atoms[f], -2.0) for f in range(4))
        assert score[i, j] == pytest.approx(by_sum, rel=1e-12)


@pytest.mark.parametrize("beta", [-1e4, -3.0, -1.0, -1e-3, 0.0, 1e-12, 2.0])
def test_jax_agrees_in_both_precisions(beta):
    rng = np.random.default_rng(1)
    log_probs = log_softmax(30 * rng.normal(size=(2, 5)), axis=-1)
    atoms, w = rng.normal(size=(2, 5)) * 5, np.array([1.0, -0.7])
    expected = sum(exact(log_probs[f], w[f] * atoms[f], beta) for f in range(2))
    np.testing.assert_allclose(UTILITY(beta, log_probs, atoms, w), expected, rtol=1e-5, atol=1e-5)
    with jax.enable_x64(True):
        np.testing.assert_allclose(UTILITY(beta, log_probs, atoms, w), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("beta", [0.0, 1e-12, -1e-6])
def test_gradients_at_beta_zero(beta):
    """U = mean + (beta / 2) variance: half the variance by beta, the probabilities by the atoms."""
    log_probs, atoms, w = jnp.log(jnp.array([[0.75, 0.25]])), jnp.array([[-1.0, 3.0]]), jnp.ones(1)
    by_beta, by_log, by_atoms, by_w = GRADIENT(beta, log_probs, atoms, w)
    assert by_beta == pytest.approx(1.5, rel=1e-4)
    np.testing.assert_allclose(by_atoms, [[0.75, 0.25]], rtol=1e-4)
    np.testing.assert_allclose(by_w, [0.0], atol=1e-5)  # the mean is 0
    assert by_log[0, 1] / 0.25 - by_log[0, 0] / 0.75 == pytest.approx(4.0, rel=1e-3)


@pytest.mark.parametrize("beta", [-1e4, -3.0, -1e-4, 0.0, 1e-38, 50.0])
@pytest.mark.parametrize("lost", [-5.0, -200.0, -1e4, -math.inf])
@pytest.mark.parametrize("atoms", [[0.0, 1.0, 2.0], [5.0, 5.0, 5.0], [-30.0, 0.0, 10.0]])
def test_gradients_are_finite(beta, lost, atoms):
    log_probs = jnp.array([[math.log(0.4), math.log(0.6), lost]])
    gradients = GRADIENT(beta, log_probs, jnp.array([atoms]), jnp.ones(1))
    assert all(np.isfinite(np.asarray(g)).all() for g in gradients)
    # moving all atoms moves the utility; the law with exp(-5) more sums to 1.007
    assert gradients[2].sum() == pytest.approx(1.0, rel=1e-2)


def test_jit_and_vmap_over_policies_as_the_deep_agents_do():
    """K policies, each with its own atoms and weights, a batch of B and A actions."""
    rng = np.random.default_rng(2)
    log_probs = log_softmax(10 * rng.normal(size=(2, 3, 4, 2, 5)), axis=-1)  # (K, B, A, d, N)
    atoms, w = rng.normal(size=(2, 2, 5)), rng.normal(size=(2, 2))
    several = jnp.array([-4.0, 0.0])

    def of_all(beta):
        return jax.vmap(Entropic(beta).independent_log)(jnp.array(log_probs), jnp.array(atoms), jnp.array(w))

    scores = jax.jit(jax.vmap(of_all))(several)
    assert scores.shape == (2, 2, 3, 4)
    for i, k in np.ndindex(2, 2):
        expected = Entropic(float(several[i])).independent_log(log_probs[k], atoms[k], w[k])
        np.testing.assert_allclose(scores[i, k], expected, rtol=1e-4, atol=1e-5)
