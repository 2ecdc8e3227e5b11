import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from random_mdps import SEEDS, examples
from rasf import CVaR, Entropic, MeanVariance, gpe, gpi, gpi_policy


def random_moments(seed, *shape, d=3):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(*shape, d, d))
    return rng.normal(size=(*shape, d)), root @ np.swapaxes(root, -1, -2), rng.normal(size=d)


def test_gpe_by_hand():
    psi = np.array([[1.0, 2.0], [0.0, 1.0]])
    Sigma = np.array([[[2.0, 1.0], [1.0, 3.0]], [[0.0, 0.0], [0.0, 4.0]]])
    w = np.array([1.0, -1.0])
    # means -1 and -1; variances 2 - 2 + 3 = 3 and 4
    assert gpe(psi, Sigma, w, MeanVariance(0.0)).tolist() == [-1.0, -1.0]
    assert gpe(psi, Sigma, w, MeanVariance(-2.0)).tolist() == [-4.0, -5.0]
    assert gpe(psi, Sigma, w, MeanVariance(1.0)).tolist() == [0.5, 1.0]


def test_a_variance_below_zero_counts_as_zero():
    assert gpe(np.zeros(1), np.array([[-1.0]]), np.ones(1), MeanVariance(-2.0)) == 0.0


def test_gpi_by_hand():
    scores = np.array([[[1.0, 5.0], [0.0, -1.0]], [[4.0, 2.0], [-3.0, 7.0]]])  # (K, S, A)
    choice = gpi(scores)
    assert choice.policy.tolist() == [1, 1]
    assert choice.source.tolist() == [0, 1]


def test_ties_go_to_the_lowest_action_and_the_lowest_source():
    assert gpi(np.zeros((3, 2, 4))).policy.tolist() == [0, 0]
    assert gpi(np.zeros((3, 2, 4))).source.tolist() == [0, 0]
    # action 0 ties with action 2, and for action 0 sources 1 and 2 tie
    scores = np.array([[0.0, 1.0, 5.0], [5.0, 1.0, 0.0], [5.0, 1.0, 0.0]])
    assert (int(gpi(scores).policy), int(gpi(scores).source)) == (0, 1)


def test_the_source_is_the_one_that_drives_the_action():
    # source 0 has the better mean over actions, source 1 the single best score
    scores = np.array([[[4.0, 4.0, 4.0]], [[-9.0, -9.0, 5.0]]])
    assert (gpi(scores).policy.item(), gpi(scores).source.item()) == (2, 1)


def test_infinite_scores():
    scores = np.array([[[-np.inf, -np.inf]], [[-np.inf, 3.0]]])
    assert (gpi(scores).policy.item(), gpi(scores).source.item()) == (1, 1)
    assert gpi(np.full((2, 1, 2), -np.inf)).policy.item() == 0


@examples(20)
@given(SEEDS, st.integers(1, 4), st.integers(1, 3))
def test_gpi_by_loops_on_time_indexed_scores(seed, K, n):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 3, size=(K, n, 4, 3)).astype(float)  # few values, many ties
    choice = gpi(scores)
    for h in range(n):
        for s in range(4):
            best = max(scores[i, h, s, a] for i in range(K) for a in range(3))
            action = min(a for a in range(3) if any(scores[i, h, s, a] == best for i in range(K)))
            source = min(i for i in range(K) if scores[i, h, s, action] == best)
            assert (choice.policy[h, s], choice.source[h, s]) == (action, source)


@examples(10)
@given(SEEDS, st.floats(-3.0, 3.0), st.booleans())
def test_jax_agrees_with_numpy(seed, beta, discount_aware):
    arrays = [np.asarray(a, np.float32) for a in random_moments(seed, 2, 5, 3)]
    keywords = {"gamma": 0.5, "discount_aware": discount_aware, "steps": 3}
    scores = gpe(*arrays, MeanVariance(beta))
    on_jax = gpe(*map(jnp.asarray, arrays), MeanVariance(beta))
    assert isinstance(on_jax, jax.Array)
    np.testing.assert_allclose(on_jax, scores, rtol=1e-4, atol=1e-4)
    one, other = (gpi_policy(*given, MeanVariance(beta), **keywords) for given in (arrays, map(jnp.asarray, arrays)))
    np.testing.assert_array_equal(one.policy, other.policy)
    np.testing.assert_array_equal(one.source, other.source)


def test_under_jit_with_a_traced_parameter():
    psi, Sigma, w = map(jnp.asarray, random_moments(0, 2, 5, 3))
    choose = jax.jit(lambda beta: gpi_policy(psi, Sigma, w, MeanVariance(beta)))
    np.testing.assert_array_equal(choose(-2.0).policy, gpi_policy(psi, Sigma, w, MeanVariance(-2.0)).policy)


@examples(15)
@given(SEEDS, st.floats(-3.0, 3.0), st.sampled_from([1.0, 0.9, 0.3]))
def test_discount_awareness_is_scoring_with_a_fading_parameter(seed, beta, gamma):
    psi, Sigma, w = random_moments(seed, 3, 6, 2)
    choice = gpi_policy(psi, Sigma, w, MeanVariance(beta), gamma=gamma, discount_aware=True, steps=5)
    assert choice.policy.shape == choice.source.shape == (5, 6)
    for t in range(5):
        at_t = gpi_policy(psi, Sigma, w, MeanVariance(beta * gamma**t))
        np.testing.assert_array_equal(choice.policy[t], at_t.policy)
        np.testing.assert_array_equal(choice.source[t], at_t.source)


def test_without_discount_awareness_the_policy_is_stationary():
    psi, Sigma, w = random_moments(1, 3, 6, 2)
    choice = gpi_policy(psi, Sigma, w, MeanVariance(-1.0), gamma=0.5, steps=5)
    np.testing.assert_array_equal(choice.policy, gpi(gpe(psi, Sigma, w, MeanVariance(-1.0))).policy)
    assert choice.policy.shape == (6,)


def test_scores_with_other_risks():
    psi, Sigma, w = random_moments(2, 3, 6, 2)
    mean, spread = psi @ w, np.sqrt(np.einsum("...ij,i,j->...", Sigma, w, w))
    np.testing.assert_allclose(gpe(psi, Sigma, w, CVaR(0.5)), mean - np.sqrt(2 / np.pi) * spread, rtol=1e-12)
    with pytest.raises(ValueError, match="Entropic cannot score moments"):
        gpe(psi, Sigma, w, Entropic(-1.0))


def test_bad_shapes():
    psi, Sigma, w = random_moments(3, 2, 4, 2)
    for xp in (np.asarray, jnp.asarray):
        with pytest.raises(ValueError, match="w must"):
            gpe(xp(psi), xp(Sigma), xp(w[:2]), MeanVariance(-1.0))
        with pytest.raises(ValueError, match="scores must"):
            gpi(xp(np.zeros(3)))


@pytest.mark.parametrize("shape", [(2, 4, 2, 3), (2, 4, 2, 2, 2)])
def test_covariances_of_another_shape_than_the_means(shape):
    psi, _, w = random_moments(3, 2, 4, 2)
    with pytest.raises(ValueError, match="Sigma must"):
        gpe(psi, np.ones(shape), w, MeanVariance(-1.0))
