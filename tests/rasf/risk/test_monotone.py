"""Monotone mean-variance: against its definitions by brute force, and never in favour of a dominated choice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar

from random_mdps import examples
from rasf import MeanVariance, MonotoneMeanVariance
from rasf.risk.cvar import convolution

BETAS = [-0.05, -0.5, -2.0, -30.0]


def random_histogram(rng, n=5):
    return rng.dirichlet(np.ones(n)), 3 * rng.normal(size=n)


def fine_normal(mean, std):
    """Probabilities and atoms of a normal distribution, on a fine grid."""
    z = np.linspace(-10, 10, 100_001)
    p = np.exp(-(z**2) / 2)
    return p / p.sum(), mean + std * z


@pytest.mark.parametrize("beta", BETAS)
def test_it_is_the_best_mean_variance_of_what_is_nowhere_larger(beta):
    """max over g <= X of E g + (beta / 2) Var g, by a search over all g."""
    rng, risk = np.random.default_rng(0), MonotoneMeanVariance(beta)
    for _ in range(10):
        p, x = random_histogram(rng)

        def lost(g, p=p):
            centred = g - p @ g
            return -(p @ g + beta / 2 * p @ centred**2), -p * (1 + beta * centred)

        tight = {"ftol": 1e-14, "gtol": 1e-10, "maxiter": 5_000}
        searched = minimize(
            lost, x.copy(), jac=True, bounds=[(None, one) for one in x], method="L-BFGS-B", options=tight
        )
        assert risk.histogram(p, x) == pytest.approx(-searched.fun, abs=1e-5)
        for _ in range(50):  # nothing below X is better
            assert -lost(x - rng.exponential(size=5) * rng.integers(2, size=5))[0] <= risk.histogram(p, x) + 1e-9


@pytest.mark.parametrize("beta", BETAS)
def test_only_outcomes_below_the_top_count(beta):
    """max_k k - 1 / (2 theta) - (theta / 2) E[((k - X)^+)^2], by a search for k."""
    rng, risk, theta = np.random.default_rng(1), MonotoneMeanVariance(beta), -beta
    for _ in range(10):
        p, x = random_histogram(rng)

        def lost(k, p=p, x=x):
            return -(k - 1 / (2 * theta) - theta / 2 * p @ np.maximum(k - x, 0) ** 2)

        ends = x.min(), x.max() + 2 / theta + 100
        searched = minimize_scalar(lost, bounds=ends, method="bounded", options={"xatol": 1e-12})
        value, b = risk.with_threshold(p, x)
        assert value == pytest.approx(-searched.fun, abs=1e-6)
        assert lost(b + 1 / theta) == pytest.approx(-value)
        assert value == risk.histogram(p, x)


def test_it_is_mean_variance_while_no_outcome_is_far_above_the_mean():
    p, x = np.array([0.2, 0.5, 0.3]), np.array([0.0, 1.0, 2.0])  # mean 1.1; 2 is 0.9 above
    for beta in (-0.3, -1.0, -1 / 0.9):
        assert MonotoneMeanVariance(beta).histogram(p, x) == pytest.approx(MeanVariance(beta).histogram(p, x))
    assert MonotoneMeanVariance(-1.2).histogram(p, x) > MeanVariance(-1.2).histogram(p, x) + 1e-4
    assert MonotoneMeanVariance(0.0).histogram(p, x) == pytest.approx(p @ x)


# Dominance


@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3))
@examples(300)
def test_a_dominated_histogram_is_never_preferred(seed, theta):
    """Y is X with some outcomes raised, in all orders; atoms may coincide, and some have no mass."""
    rng, risk = np.random.default_rng(seed), MonotoneMeanVariance(-theta)
    n = int(rng.integers(1, 8))
    p = rng.dirichlet(np.full(n, 0.5)) * (rng.random(n) < 0.8)
    p = np.full(n, 1 / n) if p.sum() == 0 else p / p.sum()
    x = rng.choice([0.1, 1.0, 20.0]) * rng.normal(size=n).round(1)
    raised = x + rng.exponential(size=n) * rng.choice([0.0, 0.1, 5.0, 100.0], size=n)
    order = rng.permutation(n)
    worse, better = risk.histogram(p, x), risk.histogram(p[order], raised[order])
    assert better >= worse - 1e-9 * (1 + abs(worse))
    assert risk.samples(raised, p) >= risk.samples(x, p) - 1e-9 * (1 + abs(worse))


@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e2))
@examples(60)
def test_a_dominated_sum_of_features_is_never_preferred(seed, theta):
    """Mass of a feature moves to atoms that its weight makes better: the sum over features dominates."""
    rng, risk = np.random.default_rng(seed), MonotoneMeanVariance(-theta)
    atoms, w = np.sort(rng.normal(size=(2, 4)), axis=1), rng.normal(size=2)
    probs = rng.dirichlet(np.ones(4), size=2)
    better = probs.copy()
    for i, weight in enumerate(w):
        low, high = sorted(rng.choice(4, size=2, replace=False))
        source, to = (low, high) if weight > 0 else (high, low)
        moved = better[i, source] * rng.random()
        better[i, source] -= moved
        better[i, to] += moved
    worse = risk.independent(probs, atoms, w)
    # on a grid, on which mass is shared between neighbours, order is kept up to its spacing
    _, grid = convolution(probs, atoms, w)
    assert risk.independent(better, atoms, w) >= worse - (grid[1] - grid[0])


@given(
    st.floats(-1e3, 1e3), st.floats(0.0, 1e3), st.floats(0.0, 1e3), st.floats(0.0, 1e2), st.floats(0.0, 1e3),
)  # fmt: skip
@examples(300)
def test_normals_are_ordered_by_mean_and_by_spread(mean, more, std, further, theta):
    """Of one spread, the larger mean dominates in the first order; of one mean, the smaller spread in the second."""
    risk = MonotoneMeanVariance(-theta)
    value = risk.moments(mean, std**2)
    slack = 1e-9 * (1 + abs(value) + more)
    assert risk.moments(mean + more, std**2) >= value - slack
    assert risk.moments(mean + more, std**2) == pytest.approx(value + more, abs=1e-6 * (1 + abs(value)))
    assert risk.moments(mean, (std + further) ** 2) <= value + slack
    assert MeanVariance(-theta).moments(mean, std**2) - slack <= value <= mean + slack


def test_mean_variance_may_prefer_the_dominated_choice():
    """Nothing for sure, or 100 with one chance in ten thousand: the second is never worse."""
    sure, lottery = (np.array([1.0]), np.array([0.0])), (np.array([0.9999, 1e-4]), np.array([0.0, 100.0]))
    for beta in BETAS[1:]:
        assert MeanVariance(beta).histogram(*lottery) < MeanVariance(beta).histogram(*sure)
        assert MonotoneMeanVariance(beta).histogram(*lottery) > MonotoneMeanVariance(beta).histogram(*sure)


# Normal distributions


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize(("mean", "std"), [(0.5, 0.1), (-1.0, 1.0), (0.0, 3.0), (2.0, 20.0)])
def test_normal_moments_against_a_fine_histogram(beta, mean, std):
    risk, (p, x) = MonotoneMeanVariance(beta), fine_normal(mean, std)
    value, b = risk.with_threshold(p, x)
    assert risk.moments(mean, std**2) == pytest.approx(value, abs=1e-6 * std)
    assert risk.normal(mean, std) == pytest.approx(p @ risk.utility(x), rel=1e-6, abs=1e-6)
    # where the top is far in the tail, the mean slope hardly depends on b
    ours = risk.normal_threshold(mean, std)
    assert ours == pytest.approx(b, abs=1e-4 * std)
    assert ours + p @ risk.utility(x - ours) == pytest.approx(value, abs=1e-6 * std)


def test_normal_moments_at_the_ends():
    """Small spreads are mean-variance; large ones cost about s sqrt(2 log(theta s)); none costs nothing."""
    for theta in (1e-3, 1.0, 50.0):
        risk, small = MonotoneMeanVariance(-theta), 1e-3 / theta
        assert risk.moments(3.0, 0.0) == 3.0
        assert 3.0 - risk.moments(3.0, small**2) == pytest.approx(theta / 2 * small**2, rel=1e-6)
        costs = [-risk.moments(0.0, (s / theta) ** 2) * theta / s for s in (1e6, 1e9, 1e12)]
        np.testing.assert_allclose(costs, np.sqrt(2 * np.log([1e6, 1e9, 1e12])), rtol=0.15)
        assert (np.diff(costs) > 0).all()
    assert MonotoneMeanVariance(0.0).moments(3.0, 4.0) == 3.0


def test_single_precision_is_finite_and_close_at_any_size():
    steep = np.float32(10.0) ** np.arange(-12, 13, dtype=np.float32)
    risk = MonotoneMeanVariance(-1.0)
    found = np.asarray(jax.jit(risk.moments)(jnp.zeros(len(steep)), jnp.asarray(steep) ** 2))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, risk.moments(np.zeros(len(steep)), steep.astype(float) ** 2), rtol=1e-4)


# Compiled for any beta


@pytest.mark.parametrize("beta", [0.0, *BETAS])
def test_a_traced_beta_scores_as_a_known_one(beta):
    rng, risk = np.random.default_rng(3), MonotoneMeanVariance(beta)
    p, x, w = rng.dirichlet(np.ones(4), size=(3, 2)), rng.normal(size=(2, 4)), np.array([1.0, -2.0])
    mean, variance = rng.normal(size=3), np.array([0.0, 0.4, 9.0])
    forms = {
        "histogram": (p[:, 0], x[0]),
        "independent": (p, x, w),
        "moments": (mean, variance),
    }
    for form, given_ in forms.items():
        traced = jax.jit(lambda one, *given_, form=form: getattr(MonotoneMeanVariance(one), form)(*given_))
        expected = getattr(risk, form)(*given_)
        np.testing.assert_allclose(traced(beta, *given_), expected, rtol=1e-4, atol=1e-4)
    several = jax.vmap(lambda one: MonotoneMeanVariance(one).moments(mean, variance))
    np.testing.assert_allclose(several(jnp.array([beta, -1.0]))[0], risk.moments(mean, variance), rtol=1e-4, atol=1e-4)


def test_the_rest_of_a_discounted_return_has_the_risk_of_its_size():
    p, x = random_histogram(np.random.default_rng(5))
    risk = MonotoneMeanVariance(-2.0)
    for z in (1.0, 0.3):
        assert risk.histogram(p, z * x) == pytest.approx(z * risk.at_discount(z).histogram(p, x))
        assert risk.moments(z * 0.5, z**2 * 2.0) == pytest.approx(z * risk.at_discount(z).moments(0.5, 2.0))
