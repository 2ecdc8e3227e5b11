"""Certainty equivalents: each against max_b b + E u(X - b) by search, in numpy and jax."""

import jax
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from rasf.risk import CVaR, Entropic, MonotoneMeanVariance, PiecewiseLinear

RISKS = [CVaR(0.1), CVaR(0.5), CVaR(1.0), PiecewiseLinear(0.3, 3.0), PiecewiseLinear(0.0, 4.0),
         MonotoneMeanVariance(-0.3), MonotoneMeanVariance(-2.0), MonotoneMeanVariance(0.0), Entropic(-0.7),
         Entropic(0.0)]  # fmt: skip


@pytest.mark.parametrize("risk", RISKS)
def test_the_best_split_by_search(risk):
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, p = rng.normal(size=6) * 3, rng.dirichlet(np.ones(6))
        value, b = risk.with_threshold(p, x)

        def lost(b, x=x, p=p):
            return -(b + p @ risk.utility(x - b))

        least, most = x.min(), x.max()
        searched = min(
            [minimize_scalar(lost, bounds=(least - 1, most + 1), method="bounded").fun, *(lost(one) for one in x)]
        )
        assert float(value) == pytest.approx(-searched, abs=1e-5)
        assert float(value) == pytest.approx(-lost(b))
        assert float(risk.histogram(p, x)) == pytest.approx(float(value))
        assert least - 1e-9 <= b <= most + 1e-9


@pytest.mark.parametrize("risk", RISKS)
def test_u_is_concave_never_falls_and_has_slope_one_at_zero(risk):
    x = np.linspace(-4, 4, 801)
    u, step = risk.utility(x), x[1] - x[0]
    slopes = np.diff(u) / step
    assert u[400] == pytest.approx(0.0, abs=1e-12)
    assert (slopes >= -1e-9).all()
    assert (np.diff(slopes) <= 1e-9).all()
    assert slopes[399] >= 1 - 2 * step
    assert slopes[400] <= 1 + 1e-9
    assert slopes.max() <= risk.steepest(-4.0) + 1e-9


@pytest.mark.parametrize("risk", RISKS)
def test_normal_laws_against_a_fine_histogram(risk):
    z = np.linspace(-9, 9, 200_001)
    p = np.exp(-(z**2) / 2)
    p /= p.sum()
    mean, std = np.array([0.5, -1.0, 0.3, 2.0]), np.array([0.2, 1.0, 0.7, 0.0])
    value, b = (
        np.array([found[k] for found in (risk.with_threshold(p, m + s * z) for m, s in zip(mean, std, strict=True))])
        for k in range(2)
    )
    ordered = np.argsort([p @ risk.utility(m + s * z) for m, s in zip(mean, std, strict=True)])
    assert np.argsort(risk.normal(mean, std)).tolist() == ordered.tolist()
    if not isinstance(risk, Entropic):
        expected = [p @ risk.utility(m + s * z) for m, s in zip(mean, std, strict=True)]
        np.testing.assert_allclose(risk.normal(mean, std), expected, atol=1e-6)
    ours = risk.normal_threshold(mean, std)
    if risk not in (CVaR(1.0), MonotoneMeanVariance(0.0)):  # whose threshold does not matter
        np.testing.assert_allclose(ours, b, atol=1e-3)
    for at, m, s, most in zip(ours, mean, std, value, strict=True):
        assert at + p @ risk.utility(m + s * z - at) == pytest.approx(most, abs=1e-5)


@pytest.mark.parametrize("risk", [PiecewiseLinear(0.3, 3.0), MonotoneMeanVariance(-0.3), CVaR(0.25)])
def test_batches_and_jax(risk):
    rng = np.random.default_rng(1)
    p, x = rng.dirichlet(np.ones(5), (3, 2)), rng.normal(size=5)
    expected = [[float(risk.histogram(p[i, j], x)) for j in range(2)] for i in range(3)]
    np.testing.assert_allclose(risk.histogram(p, x), expected)
    np.testing.assert_allclose(jax.jit(risk.histogram)(p, x), expected, rtol=1e-4, atol=1e-5)


def test_piecewise_linear_is_the_mean_and_the_worst_cases():
    x, p = np.array([-1.0, 0.0, 5.0]), np.array([0.25, 0.25, 0.5])
    risk = PiecewiseLinear(0.5, 2.5)  # the worst quarter
    assert risk.histogram(p, x) == pytest.approx(0.5 * (p @ x) + 0.5 * -1.0)
    assert risk.moments(1.0, 4.0) == pytest.approx(0.5 + 0.5 * CVaR(0.25).moments(1.0, 4.0))
    probs, atoms = np.array([[0.5, 0.5], [0.1, 0.9]]), np.array([[0.0, 1.0], [-2.0, 0.0]])
    mean = np.array([1.0, 3.0]) @ (probs * atoms).sum(axis=1)
    tail = CVaR(0.25).independent(probs, atoms, np.array([1.0, 3.0]))
    assert risk.independent(probs, atoms, np.array([1.0, 3.0])) == pytest.approx(0.5 * mean + 0.5 * tail)
    assert risk.at_discount(0.5) == risk


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: MonotoneMeanVariance(0.5), "beta of MonotoneMeanVariance must be at most 0, got 0.5"),
        (lambda: MonotoneMeanVariance("x"), "beta must be a number"),
        (lambda: PiecewiseLinear(1.0, 2.0), "gain must be in"),
        (lambda: PiecewiseLinear(0.5, 1.0), "loss above 1"),
    ],
)
def test_bad_numbers(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
