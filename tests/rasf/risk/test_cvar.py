"""CVaR against hand numbers, the variational formula of Rockafellar and Uryasev, and quadrature."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from rasf.risk import CVaR

modest = settings(max_examples=80, deadline=None)
alphas = st.floats(0.01, 1)


def plain_cvar(probs, x, alpha):
    """max_c c - E (c - X)^+ / alpha; concave and piecewise linear in c, so an atom attains it."""
    present = [v for p, v in zip(probs, x, strict=True) if p > 0]
    return max(c - sum(p * max(c - v, 0) for p, v in zip(probs, x, strict=True)) / alpha for c in present)


@st.composite
def laws(draw):
    n = draw(st.integers(1, 6))
    mass = draw(st.lists(st.integers(0, 20), min_size=n, max_size=n).filter(any))
    return np.array(mass) / sum(mass), np.array(draw(st.lists(st.floats(-100, 100), min_size=n, max_size=n)))


@modest
@given(laws(), alphas)
def test_equals_the_variational_formula(law, alpha):
    assert CVaR(alpha).histogram(*law) == pytest.approx(plain_cvar(*law, alpha), abs=1e-10)


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [
        (0.1, 1.0),
        (0.25, 1.0),
        (0.5, 1.5),
        (0.75, 2.0),
        (1.0, 2.5),
        (0.3, (0.25 * 1 + 0.05 * 2) / 0.3),  # the second atom counts in part
        (0.6, (0.25 * 1 + 0.25 * 2 + 0.1 * 3) / 0.6),
    ],
)
def test_hand_numbers_on_four_equal_samples(alpha, expected):
    assert CVaR(alpha).samples(np.array([3.0, 1.0, 4.0, 2.0])) == pytest.approx(expected)


def test_weighted_samples():
    # worst half of {-10 w.p. 0.1, 0 w.p. 0.3, 5 w.p. 0.6}: all of the first two and 0.1 of the third
    expected = (0.1 * -10 + 0.3 * 0 + 0.1 * 5) / 0.5
    assert CVaR(0.5).samples(np.array([5.0, -10.0, 0.0]), np.array([6, 1, 3])) == pytest.approx(expected)
    assert CVaR(0.5).histogram(np.array([0.6, 0.1, 0.3]), np.array([5.0, -10.0, 0.0])) == pytest.approx(expected)


@modest
@given(laws())
def test_alpha_one_is_the_mean(law):
    probs, x = law
    assert CVaR(1.0).histogram(probs, x) == pytest.approx(probs @ x, abs=1e-10)


@modest
@given(laws(), alphas)
def test_small_alpha_is_the_worst_atom_with_mass(law, alpha):
    probs, x = law
    worst = np.min(x[probs > 0])
    least = np.min(probs[probs > 0])
    assert CVaR(alpha * least / 2).histogram(probs, x) == pytest.approx(worst, abs=1e-10)


@modest
@given(laws(), alphas, st.floats(0, 10), st.floats(-100, 100))
def test_positively_homogeneous_and_cash_invariant(law, alpha, scale, cash):
    probs, x = law
    risk = CVaR(alpha)
    assert risk.histogram(probs, scale * x + cash) == pytest.approx(scale * risk.histogram(probs, x) + cash, abs=1e-8)


@modest
@given(laws(), alphas, alphas)
def test_monotone_in_alpha(law, one, other):
    low, high = sorted([one, other])
    assert CVaR(low).histogram(*law) <= CVaR(high).histogram(*law) + 1e-10
    assert CVaR(low).moments(0.0, 4.0) <= CVaR(high).moments(0.0, 4.0) + 1e-12


def test_batched_over_leading_axes():
    rng = np.random.default_rng(0)
    probs, atoms = rng.dirichlet(np.ones(5), size=(3, 2)), rng.normal(size=(3, 2, 5))
    own, shared = CVaR(0.3).histogram(probs, atoms), CVaR(0.3).histogram(probs, atoms[0, 0])
    for i, j in np.ndindex(3, 2):
        assert own[i, j] == pytest.approx(plain_cvar(probs[i, j], atoms[i, j], 0.3))
        assert shared[i, j] == pytest.approx(plain_cvar(probs[i, j], atoms[0, 0], 0.3))


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 0.9, 1.0])
def test_normal_law_against_quadrature(alpha):
    tail = quad(lambda x: x * norm.pdf(x), -np.inf, norm.ppf(alpha))[0] / alpha
    assert CVaR(alpha).moments(0.0, 1.0) == pytest.approx(tail, abs=1e-9)
    np.testing.assert_allclose(CVaR(alpha).moments(np.array([3.0, -1.0]), np.array([4.0, 0.0])), [3 + 2 * tail, -1.0])


def test_normal_law_by_quantiles():
    grid = norm.ppf((np.arange(100_000) + 0.5) / 100_000)
    assert CVaR(0.2).samples(grid) == pytest.approx(CVaR(0.2).moments(0.0, 1.0), abs=1e-4)


def test_negative_variance_estimates_count_as_zero():
    assert CVaR(0.1).moments(2.0, -1.0) == 2.0


@pytest.mark.parametrize("alpha", [0.05, 0.3, 1.0])
def test_jax_agrees_with_numpy(alpha):
    rng = np.random.default_rng(1)
    probs, atoms = rng.dirichlet(np.ones(6), size=4), rng.normal(size=(4, 6))
    mean, variance = rng.normal(size=4), rng.uniform(size=4)
    risk = CVaR(alpha)
    np.testing.assert_allclose(
        jax.jit(jax.vmap(risk.histogram))(probs, atoms), risk.histogram(probs, atoms), rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(jax.jit(risk.samples)(atoms, probs), risk.samples(atoms, probs), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(jax.jit(risk.moments)(mean, variance), risk.moments(mean, variance), rtol=1e-5)
    with jax.enable_x64(True):
        double = jax.jit(risk.histogram)(probs, atoms)
    np.testing.assert_allclose(double, risk.histogram(probs, atoms), rtol=1e-12)


def test_gradient_is_the_tail_weight():
    # alpha 0.4 of five equal samples: the two worst carry one half each
    gradient = jax.jit(jax.grad(CVaR(0.4).samples))(np.array([3.0, 1.0, 4.0, 2.0, 5.0]))
    np.testing.assert_allclose(gradient, [0, 0.5, 0, 0.5, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("alpha", "variance"),
    [
        (0.1, 1.0),
        (0.1, -0.5),
        (1.0, 0.0),
    ],
)
def test_no_gradient_is_nan(alpha, variance):
    assert not np.isnan(jax.grad(lambda v: CVaR(alpha).moments(0.0, v))(variance))


@pytest.mark.parametrize("far", [1e300, -1e300, np.inf])
def test_atoms_without_mass_are_ignored(far):
    assert CVaR(0.5).histogram(np.array([0.5, 0.5, 0.0]), np.array([0.0, 1.0, far])) == pytest.approx(0.0)


def test_scaling_changes_no_choice():
    assert CVaR(0.3).at_discount(0.5) == CVaR(0.3)
