"""The skew-normal utility against quadrature of scipy's density and of the stochastic representation."""

import math

import jax
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erfcx
from scipy.stats import norm, skewnorm

from rasf.risk import MeanVariance, SkewNormal

HALF_NORMAL_MEAN = math.sqrt(2 / math.pi)
LARGEST = 1 / math.sqrt(1 - 2 / math.pi)  # the skew of a half-normal law of variance 1


def score(beta, mean, variance, skew):
    return SkewNormal(beta).moments(mean, variance, skew)


# one compilation for all parameters of a test
LANES = jax.jit(jax.vmap(score, (None, 0, 0, 0)))
GRADIENT = jax.jit(jax.grad(score, (0, 3)))


def scipy_law(mean, variance, skew):
    """scipy's law is loc + scale (d |Z0| + sqrt(1 - d^2) Z1) with shape d / sqrt(1 - d^2): match delta = scale d."""
    scale = math.sqrt(variance + 2 / math.pi * skew**2)
    d = skew / scale
    return skewnorm(d / math.sqrt(1 - d**2), mean - HALF_NORMAL_MEAN * skew, scale)


def utility_by_quadrature(beta, law):
    centre = law.mean()

    def tilted(x):
        return np.exp(beta * (x - centre) + law.logpdf(x))

    halves = (
        quad(tilted, -np.inf, centre, epsabs=0, epsrel=1e-10)[0]
        + quad(tilted, centre, np.inf, epsabs=0, epsrel=1e-10)[0]
    )
    return centre + math.log(halves) / beta


@pytest.mark.parametrize("beta", [-2.0, -0.5, 0.01, 1.0])
@pytest.mark.parametrize(("mean", "variance", "skew"), [(0.0, 1.0, 0.9), (1.0, 2.0, -1.5), (-3.0, 0.5, 0.1)])
def test_against_quadrature(beta, mean, variance, skew):
    law = scipy_law(mean, variance, skew)
    assert law.mean() == pytest.approx(mean)
    assert law.var() == pytest.approx(variance)
    assert SkewNormal(beta).moments(mean, variance, skew) == pytest.approx(utility_by_quadrature(beta, law), abs=1e-8)


def test_the_representation_in_two_dimensions():
    """Psi = xi + |Z0| delta + Z: its moments, and the utility of Psi . w, without the header's formula."""
    psi, delta, w, beta = np.array([1.0, -1.0]), np.array([0.8, -0.3]), np.array([0.7, 1.2]), -1.4
    normal_part = np.array([[0.5, 0.2], [0.2, 0.9]])  # covariance of Z
    sigma = normal_part + (1 - 2 / math.pi) * np.outer(delta, delta)  # Var |Z0| = 1 - 2/pi
    half_normal_mgf = quad(lambda t: 2 * norm.pdf(t) * math.exp(beta * t * (delta @ w)), 0, np.inf, epsrel=1e-11)[0]
    start = psi - HALF_NORMAL_MEAN * delta
    expected = start @ w + beta / 2 * (w @ normal_part @ w) + math.log(half_normal_mgf) / beta
    assert SkewNormal(beta).moments(psi @ w, w @ sigma @ w, delta @ w) == pytest.approx(expected, rel=1e-10)
    omega = sigma + 2 / math.pi * np.outer(delta, delta)
    np.testing.assert_allclose(omega, normal_part + np.outer(delta, delta))


def test_the_largest_skew_is_the_half_normal_law():
    # |Z| + c: U = c + log(2 exp(beta^2 / 2) Phi(beta)) / beta
    beta = -0.8
    expected = math.log(2 * math.exp(beta**2 / 2) * norm.cdf(beta)) / beta
    assert SkewNormal(beta).moments(HALF_NORMAL_MEAN, 1 - 2 / math.pi, 1.0) == pytest.approx(expected)


@pytest.mark.parametrize("beta", [-3.0, 0.0, 1e-9, 2.0])
def test_without_skew_it_is_mean_variance(beta):
    mean, variance = np.array([1.0, -2.0, 0.0]), np.array([0.0, 3.0, 0.5])
    expected = MeanVariance(beta).moments(mean, variance)
    np.testing.assert_allclose(SkewNormal(beta).moments(mean, variance), expected, rtol=1e-15)
    np.testing.assert_allclose(SkewNormal(beta).moments(mean, variance, np.zeros(3)), expected, rtol=1e-15)
    np.testing.assert_allclose(LANES(beta, mean, variance, np.zeros(3)), expected, rtol=1e-6)


def test_negative_variance_estimate_without_skew_counts_as_zero():
    assert SkewNormal(-1.0).moments(1.0, -1e-9) == 1.0


@pytest.mark.parametrize("skew", [1.001 * LARGEST, -1.001 * LARGEST, 10.0])
def test_impossible_skew_is_refused(skew):
    with pytest.raises(ValueError, match="skew is too large"):
        SkewNormal(-1.0).moments(0.0, 1.0, skew)
    with pytest.raises(ValueError, match="skew is too large"):
        SkewNormal(-1.0).moments(np.zeros(2), np.ones(2), np.array([0.0, skew]))


@pytest.mark.parametrize("skew", [LARGEST, -LARGEST])
def test_the_largest_skew_is_allowed(skew):
    assert np.isfinite(SkewNormal(-1.0).moments(0.0, 1.0, skew))


def far_tail(beta, mean, variance, skew):
    """The same utility with log Phi(x) = log(erfcx(-x / sqrt 2) / 2) - x^2 / 2, its squares cancelled by hand."""
    square = variance - (1 - 2 / math.pi) * skew**2
    return mean - HALF_NORMAL_MEAN * skew + beta / 2 * square + math.log(erfcx(-beta * skew / math.sqrt(2))) / beta


@pytest.mark.parametrize("beta", [-1.0, -10.0, -40.0, -1e3, -1e6, -1e9])
def test_large_negative_argument(beta):
    assert SkewNormal(beta).moments(0.5, 1.0, 1.0) == pytest.approx(far_tail(beta, 0.5, 1.0, 1.0), rel=1e-12)
    assert SkewNormal(-beta).moments(0.5, 1.0, -1.0) == pytest.approx(far_tail(-beta, 0.5, 1.0, -1.0), rel=1e-12)


@pytest.mark.parametrize("beta", [40.0, 1e6])
def test_large_positive_argument(beta):
    # 2 Phi(beta) = 2 to rounding
    expected = -HALF_NORMAL_MEAN + beta / 2 * (1 + 2 / math.pi) + math.log(2) / beta
    assert SkewNormal(beta).moments(0.0, 1.0, 1.0) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("argument", [-1.0, 0.0])
def test_no_jump_where_the_formula_changes(argument):
    around = [SkewNormal(argument + nudge).moments(0.0, 1.0, 1.0) for nudge in (-1e-9, 0.0, 1e-9)]
    np.testing.assert_allclose(around, around[1], rtol=0, atol=2e-9)


@pytest.mark.parametrize("beta", [0.0, 1e-300, -1e-12, 1e-4, -1e-3, 5e-324, -1e-320])
def test_smooth_through_zero(beta):
    """Third central moment of delta |Z0| + Z: sqrt(2 / pi) (4 / pi - 1) delta^3."""
    skew, variance = 0.9, 1.0
    third = HALF_NORMAL_MEAN * (4 / math.pi - 1) * skew**3
    series = beta / 2 * variance + beta**2 / 6 * third
    assert SkewNormal(beta).moments(0.0, variance, skew) == pytest.approx(series, rel=0, abs=1e-14 + abs(beta) ** 3)


@pytest.mark.parametrize("z", [0.1, 0.9])
def test_at_discount(z):
    later = z * SkewNormal(-1.5).at_discount(z).moments(2.0, 1.0, 0.9)
    assert later == pytest.approx(SkewNormal(-1.5).moments(2.0 * z, z**2, 0.9 * z), rel=1e-12)


@pytest.mark.parametrize("beta", [-100.0, -1.0, -1e-3, 0.0, 2.0])
def test_jax_agrees_with_numpy(beta):
    mean, variance, skew = np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0]), np.array([0.9, -1.0, 0.0])
    expected = SkewNormal(beta).moments(mean, variance, skew)
    np.testing.assert_allclose(LANES(beta, mean, variance, skew), expected, rtol=1e-5, atol=1e-6)
    with jax.enable_x64(True):
        np.testing.assert_allclose(LANES(beta, mean, variance, skew), expected, rtol=1e-11)


@pytest.mark.parametrize("beta", [-30.0, -1.0, 0.5])
def test_gradients_by_differences(beta):
    def at(b, s):
        return score(b, 0.0, 2.0, s)

    step = 1e-5
    with jax.enable_x64(True):
        by_beta, by_skew = GRADIENT(beta, 0.0, 2.0, 0.7)
    assert by_beta == pytest.approx((at(beta + step, 0.7) - at(beta - step, 0.7)) / (2 * step), rel=1e-6)
    assert by_skew == pytest.approx((at(beta, 0.7 + step) - at(beta, 0.7 - step)) / (2 * step), rel=1e-6)


@pytest.mark.parametrize("beta", [0.0, 1e-30, 1e-20])
def test_gradient_in_beta_at_the_limit(beta):
    assert GRADIENT(beta, 0.0, 2.0, 1.0)[0] == pytest.approx(1.0, rel=1e-3)  # half the variance


@pytest.mark.parametrize("skew", [0.0, 1e-20])
def test_gradient_in_a_tiny_skew(skew):
    assert GRADIENT(-1.0, 0.0, 2.0, skew)[1] == pytest.approx(0.0, abs=1e-6)
