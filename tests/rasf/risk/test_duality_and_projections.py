"""Sentences of the paper about entropic utility and elliptical distributions, on random distributions.

Duality (proof of Lemma 1), time consistency (section 2.2), Lemmas 2 and 3 and the penalties of appendix A.4.
`record_property` keeps the numbers of `lab/notes/theory.md`; they are in the file of `-o junit_family=xunit1 --junitxml
FILE`.
"""

import math

import numpy as np
import pytest
from scipy.special import j0

from rasf.risk import CVaR, Elliptical, Entropic, MeanVariance, MonotoneMeanVariance

INSTANCES = 500
ANGLES = np.arange(400) * 2 * math.pi / 400
CIRCLE = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)


def random_beta(rng):
    return float(rng.choice([-1, 1]) * 10 ** rng.uniform(-2, 1))


def divergence(P, true):
    """Kullback-Leibler divergence of P from the true distribution; 0 log 0 = 0."""
    return float(np.sum(P * np.log(np.where(P > 0, P, 1.0) / true)))


def test_the_utility_is_the_best_or_the_worst_mean_less_a_divergence(record_property):
    """Equation 25: sup over P of E_P[R] - D(P || P*) / beta. For beta < 0 the supremum must be an infimum."""
    worst_gap, averse, as_printed_fails = 0.0, 0, 0
    for seed in range(INSTANCES):
        rng = np.random.default_rng([seed, 0])
        beta, true, x = random_beta(rng), rng.dirichlet(np.ones(5)), rng.normal(scale=3, size=5)
        utility = Entropic(beta).histogram(true, x)

        def dual(P, x=x, true=true, beta=beta):
            return P @ x - divergence(P, true) / beta

        tilted = np.exp(np.log(true) + beta * x - np.max(np.log(true) + beta * x))
        worst_gap = max(worst_gap, abs(dual(tilted / tilted.sum()) - utility) / (1 + abs(utility)))
        others = np.array([dual(P) for P in [*np.eye(5), *rng.dirichlet(np.ones(5), size=40)]])
        assert (np.sign(beta) * (others - utility) <= 1e-9).all()
        averse += beta < 0
        as_printed_fails += bool(beta < 0 and others.max() > utility + 1e-6)
    record_property("attained to", float(worst_gap))
    record_property("averse instances, of these above the utility", f"{averse}, {as_printed_fails}")
    assert worst_gap < 1e-12
    assert as_printed_fails == averse > 0


@pytest.mark.parametrize("risk", [MeanVariance(-1.0), CVaR(0.3), MonotoneMeanVariance(-1.0)])
def test_only_entropic_utility_is_the_utility_of_its_conditional_utilities(risk, record_property):
    """Time consistency: U[X] = U[U[X | Y]], for lotteries over lotteries. The other risks do not have it."""
    worst, others = 0.0, []
    for seed in range(INSTANCES):
        rng = np.random.default_rng([seed, 1])
        first, second = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), size=3)
        x = rng.normal(scale=2, size=(3, 3))

        def off(one, first=first, second=second, x=x):
            at_once = one.histogram((first[:, None] * second).ravel(), x.ravel())
            return abs(at_once - one.histogram(first, one.histogram(second, x)))

        worst = max(worst, off(Entropic(random_beta(rng))))
        others.append(off(risk))
    record_property("entropic", float(worst))
    record_property("other, median and largest", (float(np.median(others)), float(np.max(others))))
    assert worst < 1e-12
    assert np.median(others) > 0.01


def elliptical(rng):
    """mu + R A u with u uniform on the circle and R one of three radii: mu, A, radii, their probabilities."""
    return rng.normal(size=2), rng.normal(size=(2, 2)), rng.uniform(0.2, 2, size=3), rng.dirichlet(np.ones(3))


def points(mu, A, radii):
    """Atoms (3, 400, 2): the mean over the angles is exact to rounding for the smooth functions of these tests."""
    return mu + radii[:, None, None] * (CIRCLE @ A.T)


def test_a_projection_of_an_elliptical_vector_is_elliptical_of_the_same_family(record_property):
    """Lemma 2, by the characteristic function; xi(u) = E J_0(R sqrt(u)). The covariance is c Sigma, c = E R^2 / 2."""
    worst = worst_covariance = 0.0
    for seed in range(INSTANCES):
        rng = np.random.default_rng([seed, 2])
        mu, A, radii, probs = elliptical(rng)
        w, t = rng.normal(size=2), rng.normal(scale=2)
        x, Sigma = points(mu, A, radii), A @ A.T
        characteristic = probs @ np.exp(1j * t * (x @ w)).mean(axis=1)
        closed = np.exp(1j * t * (mu @ w)) * (probs @ j0(radii * math.sqrt(t**2 * (w @ Sigma @ w))))
        worst = max(worst, abs(characteristic - closed))
        variance = probs @ ((x @ w - mu @ w) ** 2).mean(axis=1)
        worst_covariance = max(worst_covariance, abs(variance - probs @ radii**2 / 2 * (w @ Sigma @ w)))
    record_property("characteristic function", float(worst))
    record_property("variance", float(worst_covariance))
    assert max(worst, worst_covariance) < 1e-11


def test_a_projection_of_a_skew_elliptical_vector_is_skew_elliptical(record_property):
    """Lemma 3. Skewing weighs x by 2 G(x), G(-x) = 1 - G(x) about mu.

    Even functions keep their means, so k(t) = 1 + i (an odd function). The appendix calls k positive: it is complex.
    At t = -i beta, where the utility needs it, k is real, and positive.
    """
    worst = largest_imaginary = 0.0
    for seed in range(INSTANCES):
        rng = np.random.default_rng([seed, 3])
        mu, A, radii, probs = elliptical(rng)
        w, a, t = rng.normal(size=2), rng.normal(scale=3, size=2), rng.normal()
        off = points(0 * mu, A, radii)
        mass = probs[:, None] / len(ANGLES) * 2 / (1 + np.exp(-(off @ a)))
        assert mass.sum() == pytest.approx(1.0)
        xi = probs @ j0(radii * abs(t) * math.sqrt(w @ A @ A.T @ w))
        centred = np.sum(mass * np.exp(1j * t * (off @ w)))
        worst = max(worst, abs(centred.real - xi))
        largest_imaginary = max(largest_imaginary, abs(centred.imag))
        moments = [np.sum(m * np.exp(off @ w)) for m in (mass, probs[:, None] / len(ANGLES))]
        assert moments[0] / moments[1] > 0
    record_property("real part of xi k less xi", float(worst))
    assert worst < 1e-11
    assert largest_imaginary > 0.1


@pytest.mark.parametrize("law", ["laplace", "logistic"])
@pytest.mark.parametrize("beta", [-1.0, -0.3, 1.0])
def test_heavy_tailed_laws_are_more_sensitive_to_variance_than_the_normal(law, beta):
    """Figure 7: their penalty is above the normal one, which is linear, and grows faster and faster."""
    edge = {"laplace": 2.0, "logistic": math.pi**2 / 3}[law] if abs(beta) == 1 else 10.0
    variance = np.linspace(0, 0.95 * edge, 200)
    heavy, normal = (np.sign(beta) * Elliptical(beta, name).moments(0.0, variance) for name in (law, "normal"))
    assert (heavy[1:] > normal[1:]).all()
    assert (np.diff(heavy, 2) > 0).all()
    np.testing.assert_allclose(normal, abs(beta) / 2 * variance)
