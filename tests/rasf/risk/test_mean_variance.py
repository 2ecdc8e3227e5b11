"""Mean-variance against hand numbers and as the second-order expansion of the entropic utility."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rasf.risk import Entropic, MeanVariance


def plain_mean_variance(probs, x, beta):
    mean = sum(p * v for p, v in zip(probs, x, strict=True))
    return mean + beta / 2 * sum(p * (v - mean) ** 2 for p, v in zip(probs, x, strict=True))


def test_hand_numbers():
    risk = MeanVariance(-4.0)
    assert risk.moments(10.0, 1.5) == 7.0
    # values 0 and 4 with probabilities 3/4 and 1/4: mean 1, variance 3
    assert risk.histogram(np.array([0.75, 0.25]), np.array([0.0, 4.0])) == pytest.approx(-5.0)
    assert risk.samples(np.array([0.0, 0.0, 4.0, 0.0])) == pytest.approx(-5.0)
    assert risk.samples(np.array([0.0, 4.0]), np.array([6.0, 2.0])) == pytest.approx(-5.0)


def test_the_papers_beta_is_the_bare_factor():
    paper = MeanVariance.from_paper(-2.0)
    assert paper == MeanVariance(-4.0)
    assert paper.moments(1.0, 3.0) == 1.0 - 2.0 * 3.0


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray])
def test_negative_variance_estimates_count_as_zero(kind):
    score = MeanVariance(-2.0).moments(kind([1.0, 1.0, 1.0]), kind([-5.0, 0.0, 5.0]))
    np.testing.assert_allclose(score, [1.0, 1.0, -4.0])


@pytest.mark.parametrize("beta", [-3.0, 0.0, 1.0])
def test_histograms_in_batches(beta):
    rng = np.random.default_rng(0)
    probs, atoms = rng.dirichlet(np.ones(5), size=(3, 2)), rng.normal(size=5)
    score = MeanVariance(beta).histogram(probs, atoms)
    expected = [[plain_mean_variance(p, atoms, beta) for p in row] for row in probs]
    np.testing.assert_allclose(score, expected, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(MeanVariance(beta).histogram)(probs, atoms), expected, rtol=1e-4, atol=1e-6)


def test_no_variance_is_lost_far_from_zero():
    assert MeanVariance(-2.0).samples(np.array([1e8 - 1, 1e8 + 1])) == pytest.approx(1e8 - 1, rel=0, abs=1e-7)


def test_independent_features():
    # two fair coins 0/2 (mean 1, variance 1) and 0/6 (mean 3, variance 9): 2 Z1 - Z2 has mean -1, variance 4 + 9
    probs, atoms = np.full((2, 2), 0.5), np.array([[0.0, 2.0], [0.0, 6.0]])
    assert MeanVariance(-2.0).independent(probs, atoms, np.array([2.0, -1.0])) == pytest.approx(-1 - 13)
    outcomes = np.array([2 * a - b for a in atoms[0] for b in atoms[1]])
    assert MeanVariance(-2.0).samples(outcomes) == pytest.approx(-1 - 13)
    batch = MeanVariance(-2.0).independent(np.stack([probs, probs]), atoms, np.array([2.0, -1.0]))
    np.testing.assert_allclose(batch, [-14.0, -14.0])


def test_second_order_in_beta():
    probs, x = np.array([0.75, 0.25]), np.array([-1.0, 3.0])  # third cumulant 6
    betas = 2.0 ** -np.arange(4, 10)
    gap = np.array([Entropic(b).histogram(probs, x) - MeanVariance(b).histogram(probs, x) for b in betas])
    # the ratio itself tends to 4 with an error of order beta
    np.testing.assert_array_less(np.abs(gap[:-1] / gap[1:] - 4), 3 * betas[:-1])
    assert gap[-1] == pytest.approx(6 / 6 * betas[-1] ** 2, rel=1e-2)


def test_symmetric_laws_agree_to_third_order():
    probs, x = np.array([0.5, 0.5]), np.array([-1.0, 1.0])
    gap = [Entropic(b).histogram(probs, x) - MeanVariance(b).histogram(probs, x) for b in (0.1, 0.05)]
    assert gap[0] / gap[1] == pytest.approx(8, rel=0.01)  # log cosh t = t^2 / 2 - t^4 / 12


def test_at_discount():
    z, mean, variance = 0.5, 3.0, 4.0
    # of z X: mean z m, variance z^2 v
    assert z * MeanVariance(-2.0).at_discount(z).moments(mean, variance) == z * mean - z**2 * variance


def test_gradients():
    by_beta, by_mean, by_variance = jax.grad(
        lambda beta, mean, variance: MeanVariance(beta).moments(mean, variance), (0, 1, 2)
    )(-4.0, 1.0, 3.0)
    assert (by_beta, by_mean, by_variance) == (1.5, 1.0, -2.0)


@pytest.mark.parametrize(
    "far",
    [
        1e10,
        1e200,
        np.inf,
    ],
)
def test_atoms_without_mass_are_ignored(far):
    assert MeanVariance(-4.0).histogram(np.array([0.75, 0.25, 0.0]), np.array([0.0, 4.0, far])) == pytest.approx(-5.0)
