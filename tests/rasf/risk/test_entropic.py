"""Entropic utility against the definition in exact decimals, Lemma 1, and enumeration of the product law."""

import decimal
import itertools
import math
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rasf.risk import Entropic

modest = settings(max_examples=80, deadline=None)
# one compilation for all parameters of a test
UTILITY = jax.jit(lambda beta, probs, x: Entropic(beta).histogram(probs, x))
GRADIENT = jax.jit(jax.grad(UTILITY, (0, 1, 2)))
betas = st.one_of(st.floats(-10, 10), st.sampled_from([0.0, 1e-300, -1e-12, 1e-5, 1e4, -1e4]))


def exact_utility(probs, x, beta):
    """log E exp(beta X) / beta with enough digits that neither cancellation nor overflow exists."""
    with decimal.localcontext(prec=420, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN):
        probs, x, beta = [Decimal(float(p)) for p in probs], [Decimal(float(v)) for v in x], Decimal(float(beta))
        if beta == 0:
            return float(sum(p * v for p, v in zip(probs, x, strict=True)) / sum(probs))
        mgf = sum(p * (beta * v).exp() for p, v in zip(probs, x, strict=True)) / sum(probs)
        return float(mgf.ln() / beta)


def tolerance(*values):
    return 1e-13 * (1 + max(float(np.max(np.abs(v))) for v in values))


@st.composite
def spaces(draw, variables):
    """Probabilities of a finite space, some of them zero, and random variables on it."""
    n = draw(st.integers(1, 6))
    mass = draw(st.lists(st.integers(0, 20), min_size=n, max_size=n).filter(any))
    values = st.lists(st.floats(-100, 100), min_size=n, max_size=n).map(np.array)
    return np.array(mass) / sum(mass), *(draw(values) for _ in range(variables))


@modest
@given(spaces(1), betas)
def test_equals_the_definition(space, beta):
    probs, x = space
    assert Entropic(beta).histogram(probs, x) == pytest.approx(exact_utility(probs, x, beta), abs=tolerance(x), rel=0)


def test_hand_numbers():
    probs, x = np.array([0.5, 0.5]), np.array([0.0, math.log(3)])
    # E exp(X) = 2 and E exp(-X) = 2/3
    assert Entropic(1.0).histogram(probs, x) == pytest.approx(math.log(2))
    assert Entropic(-1.0).histogram(probs, x) == pytest.approx(math.log(3 / 2))
    assert Entropic(0.0).histogram(probs, x) == pytest.approx(math.log(3) / 2)


# Lemma 1


@modest
@given(spaces(2), betas)
def test_monotone(space, beta):
    probs, x, y = space
    low, high = Entropic(beta).histogram(probs, np.minimum(x, y)), Entropic(beta).histogram(probs, np.maximum(x, y))
    assert low <= high + tolerance(x, y)


@modest
@given(spaces(1), betas, st.floats(-1e4, 1e4))
def test_cash_invariant(space, beta, cash):
    probs, x = space
    risk = Entropic(beta)
    # x + cash rounds before the risk sees it
    assert risk.histogram(probs, x + cash) == pytest.approx(risk.histogram(probs, x) + cash, abs=tolerance(x, cash))


@modest
@given(spaces(2), betas, st.floats(0, 1))
def test_concave_in_the_variable_when_averse_and_convex_when_seeking(space, beta, share):
    probs, x, y = space
    risk = Entropic(beta)
    joint = risk.histogram(probs, share * x + (1 - share) * y)
    apart = share * risk.histogram(probs, x) + (1 - share) * risk.histogram(probs, y)
    gain = joint - apart
    if beta <= 0:
        assert gain >= -tolerance(x, y)
    if beta >= 0:
        assert gain <= tolerance(x, y)


@modest
@given(spaces(1), st.floats(-10, -0.01), st.floats(0, 1), st.data())
def test_convex_in_the_law_when_averse(space, beta, share, data):
    """Mixing laws is not mixing variables: the curvature turns around."""
    p, x = space
    q = np.array(data.draw(st.lists(st.integers(1, 20), min_size=len(p), max_size=len(p))), float)
    q /= q.sum()
    risk = Entropic(beta)
    apart = share * risk.histogram(p, x) + (1 - share) * risk.histogram(q, x)
    assert risk.histogram(share * p + (1 - share) * q, x) <= apart + 10 * tolerance(x)


@modest
@given(spaces(2), betas)
def test_non_expansive_over_atoms_with_mass(space, beta):
    probs, f, g = space
    gap = abs(Entropic(beta).histogram(probs, f) - Entropic(beta).histogram(probs, g))
    assert gap <= np.max(np.abs(f - g)[probs > 0]) + tolerance(f, g)


@modest
@given(spaces(1), st.lists(betas, min_size=2, max_size=5))
def test_increasing_in_beta_between_the_extremes(space, several):
    probs, x = space
    scores = [Entropic(beta).histogram(probs, x) for beta in sorted(several)]
    assert all(a <= b + tolerance(x) for a, b in itertools.pairwise(scores))
    assert np.min(x[probs > 0]) - tolerance(x) <= scores[0]
    assert scores[-1] <= np.max(x[probs > 0]) + tolerance(x)


# Near beta = 0


@pytest.mark.parametrize("beta", [s * 10.0**-k for s in (1, -1) for k in (3, 6, 7, 8, 9, 12, 100, 300, 310)])
def test_taylor_series_of_a_centred_law(beta):
    """Mean 0 exactly, so the small terms are not hidden: cumulants 0, 3, 6, -6."""
    probs, x = np.array([0.75, 0.25]), np.array([-1.0, 3.0])
    # E X^2 = 3/4 + 9/4, E X^3 = -3/4 + 27/4, E X^4 = 3/4 + 81/4 = 21 = k4 + 3 * 9
    series = 3 / 2 * beta + 6 / 6 * beta**2 - 6 / 24 * beta**3
    error = 1e-15 + abs(beta) ** 4
    assert Entropic(beta).histogram(probs, x) == pytest.approx(series, rel=0 if abs(beta) > 1e-8 else 1e-8, abs=error)
    assert Entropic(beta).histogram(probs, x) == pytest.approx(exact_utility(probs, x, beta), rel=0, abs=1e-15)


@pytest.mark.parametrize("beta", [1e-12, -1e-100, 1e-300, -1e-308])
def test_tiny_beta_keeps_its_relative_accuracy(beta):
    assert Entropic(beta).histogram(np.array([0.75, 0.25]), np.array([-1.0, 3.0])) == pytest.approx(
        1.5 * beta, rel=1e-8, abs=0
    )


@pytest.mark.parametrize("beta", [5e-324, -5e-324, 1e-320, -1e-310])
def test_subnormal_beta(beta):
    probs, x = np.array([0.5, 0.2, 0.3]), np.array([1.0, -7.0, 1e6])
    assert Entropic(beta).histogram(probs, x) == pytest.approx(0.5 - 1.4 + 3e5, rel=1e-15)


@pytest.mark.parametrize("beta", [0, 0.0, -0.0, np.float32(0)])
def test_the_mean_at_zero(beta):
    assert Entropic(beta).histogram(np.array([0.25, 0.75]), np.array([4.0, 8.0])) == 7.0


@pytest.mark.parametrize("switch", [1.0, 2.0**-26, 3.45e-4])
def test_no_jump_where_the_formula_changes(switch):
    """The formulas meet at |t| = 1 and at the square root of machine epsilon (float64, float32)."""
    probs, x = np.array([0.5, 0.25, 0.25]), np.array([1.0, -1.0, 1.0])  # mean 1/2, largest distance 3/2
    for nudge in (1 - 1e-9, 1, 1 + 1e-9):
        beta = switch / 1.5 * nudge
        assert Entropic(beta).histogram(probs, x) == pytest.approx(exact_utility(probs, x, beta), rel=0, abs=1e-15)
        assert UTILITY(beta, probs, x) == pytest.approx(exact_utility(probs, x, beta), rel=0, abs=3e-7)


# Large arguments


@pytest.mark.parametrize("beta", [-1e6, 1e6, -1e9, 1e9, -1e100, 1e100])
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_large_beta_is_finite_and_exact(beta, scale):
    probs, x = np.array([0.1, 0.2, 0.7]), np.array([-1.0, 0.5, 1.0]) * scale
    # the extreme atom alone decides, up to its log probability
    expected = x[0] + math.log(0.1) / beta if beta < 0 else x[2] + math.log(0.7) / beta
    assert Entropic(beta).histogram(probs, x) == pytest.approx(expected, rel=1e-14)


def test_large_returns_are_finite_and_exact():
    probs, x = np.array([0.5, 0.5]), np.array([-1e6, 1e6])
    assert Entropic(-1.0).histogram(probs, x) == pytest.approx(exact_utility(probs, x, -1.0), rel=1e-14)
    assert Entropic(-1.0).histogram(probs, x) == pytest.approx(-1e6 + math.log(2), rel=1e-14)


def test_rare_disaster_is_seen():
    assert Entropic(-3.0).histogram(np.array([1 - 1e-9, 1e-9]), np.array([0.0, -60.0])) == pytest.approx(
        -60 - math.log(1e-9) / 3, rel=1e-12
    )


def test_returns_whose_square_overflows():
    assert Entropic(-1.0).histogram(np.array([0.5, 0.5]), np.array([0.0, 1e160])) == pytest.approx(math.log(2))


# Atoms without mass, forms, batches


@pytest.mark.parametrize("far", [1e10, -1e10, 1e300, -1e300, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("beta", [-2.0, 0.0, 1e-12, 3.0])
def test_atoms_without_mass_are_ignored(far, beta):
    probs, x = np.array([0.3, 0.7]), np.array([-1.0, 2.0])
    expected = exact_utility(probs, x, beta)
    assert Entropic(beta).histogram(np.append(probs, 0.0), np.append(x, far)) == pytest.approx(expected, rel=1e-14)
    single = UTILITY(beta, np.append(probs, 0.0), np.append(x, np.clip(far, -1e30, 1e30)))
    assert single == pytest.approx(expected, rel=1e-6)


@modest
@given(spaces(1), betas)
def test_weighted_samples_equal_the_histogram(space, beta):
    probs, x = space
    risk = Entropic(beta)
    assert risk.samples(x, 7.5 * probs) == pytest.approx(risk.histogram(probs, x), abs=tolerance(x))


def test_repeated_samples_equal_weights():
    assert Entropic(-0.7).samples(np.array([1.0, 1.0, 1.0, 4.0])) == pytest.approx(
        exact_utility([0.75, 0.25], [1.0, 4.0], -0.7), rel=1e-14
    )


def test_batched_over_leading_axes():
    rng = np.random.default_rng(0)
    probs, atoms = rng.dirichlet(np.ones(5), size=(3, 2)), rng.normal(size=(3, 2, 5))
    risk = Entropic(-1.3)
    shared, own = risk.histogram(probs, atoms[0, 0]), risk.histogram(probs, atoms)
    assert shared.shape == own.shape == (3, 2)
    for i, j in np.ndindex(3, 2):
        assert shared[i, j] == pytest.approx(exact_utility(probs[i, j], atoms[0, 0], -1.3), rel=1e-12)
        assert own[i, j] == pytest.approx(exact_utility(probs[i, j], atoms[i, j], -1.3), rel=1e-12)
    np.testing.assert_allclose(risk.samples(atoms, probs), own)


def test_each_row_of_a_batch_uses_its_own_formula():
    x = np.array([[1e-9, -1e-9], [0.1, -0.2], [1e6, -1e6]])
    expected = [exact_utility([0.5, 0.5], row, -1.0) for row in x]
    np.testing.assert_allclose(Entropic(-1.0).samples(x), expected, rtol=1e-9, atol=1e-24)


# Sum rule and discount


def product_law(probs, atoms, w):
    """Every joint outcome of independent features, with its probability."""
    outcomes = list(itertools.product(range(atoms.shape[-1]), repeat=len(w)))
    joint = [math.prod(probs[i, k] for i, k in enumerate(o)) for o in outcomes]
    return np.array(joint), np.array([sum(w[i] * atoms[i, k] for i, k in enumerate(o)) for o in outcomes])


@pytest.mark.parametrize("beta", [-2.0, -1e-3, 1e-10, 0.0, 1.5])
def test_sum_rule_equals_the_product_law(beta):
    rng = np.random.default_rng(1)
    probs, atoms, w = rng.dirichlet(np.ones(4), size=3), rng.normal(size=(3, 4)), np.array([1.5, -0.5, 0.25])
    score = Entropic(beta).independent(probs, atoms, w)
    assert score == pytest.approx(exact_utility(*product_law(probs, atoms, w), beta), abs=1e-13)
    paper = sum(w[i] * exact_utility(probs[i], atoms[i], beta * w[i]) for i in range(3))
    assert score == pytest.approx(paper, abs=1e-13)


def test_sum_rule_batched_and_with_a_feature_that_does_not_count():
    rng = np.random.default_rng(2)
    probs, atoms, w = rng.dirichlet(np.ones(3), size=(4, 2)), rng.normal(size=(2, 3)), np.array([0.0, -2.0])
    score = Entropic(-1.0).independent(probs, atoms, w)
    assert score.shape == (4,)
    np.testing.assert_allclose(score, [exact_utility(p[1], -2 * atoms[1], -1.0) for p in probs])


@modest
@given(spaces(1), betas, st.floats(1e-6, 1))
def test_at_discount(space, beta, z):
    probs, x = space
    later = z * Entropic(beta).at_discount(z).histogram(probs, x)
    assert later == pytest.approx(exact_utility(probs, z * x, beta), abs=tolerance(x))


# jax


@pytest.mark.parametrize("beta", [-1e6, -2.0, -1e-4, -1e-9, 0.0, 1e-30, 0.3, 50.0])
def test_jax_agrees_with_numpy_in_both_precisions(beta):
    rng = np.random.default_rng(3)
    probs, x = rng.dirichlet(np.ones(6), size=4), rng.normal(size=(4, 6)) * 5
    expected = Entropic(beta).histogram(probs, x)
    single = UTILITY(beta, probs, x)
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, expected, rtol=2e-6, atol=2e-6)
    with jax.enable_x64(True):
        double = UTILITY(beta, probs, x)
        assert double.dtype == jnp.float64
        np.testing.assert_allclose(double, expected, rtol=1e-13, atol=1e-13)


def test_jit_and_vmap_over_beta():
    rng = np.random.default_rng(4)
    probs, x = rng.dirichlet(np.ones(5)), rng.normal(size=5)
    several = np.array([-1e6, -3.0, -1e-3, -1e-5, 0.0, 1e-20, 2.0])
    lanes = jax.jit(jax.vmap(lambda b, p, x: Entropic(b).histogram(p, x), (0, None, None)))
    expected = [exact_utility(probs, x, b) for b in several]
    np.testing.assert_allclose(lanes(several, probs, x), expected, rtol=2e-6, atol=1e-6)


def test_jit_vmap_of_samples_and_independent():
    rng = np.random.default_rng(5)
    x, weights = rng.normal(size=(3, 5)), rng.uniform(size=(3, 5))
    lanes = jax.jit(jax.vmap(lambda x, w: Entropic(-1.0).samples(x, w)))(x, weights)
    np.testing.assert_allclose(lanes, Entropic(-1.0).samples(x, weights), rtol=1e-5, atol=1e-6)
    probs, atoms, w = rng.dirichlet(np.ones(4), size=(3, 2)), rng.normal(size=(2, 4)), np.array([1.0, -2.0])
    lanes = jax.jit(jax.vmap(lambda p: Entropic(-1.0).independent(p, jnp.asarray(atoms), w)))(probs)
    np.testing.assert_allclose(lanes, Entropic(-1.0).independent(probs, atoms, w), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("beta", [-2.0, -0.5, 0.01, 1.0])
def test_gradients_in_closed_form(beta):
    probs, x = np.array([0.2, 0.3, 0.5]), np.array([-1.0, 0.0, 2.0])
    tilted = probs * np.exp(beta * x) / np.sum(probs * np.exp(beta * x))
    # d/dbeta of log E exp(beta X) / beta is (E_tilted X - U) / beta
    by_beta = (tilted @ x - exact_utility(probs, x, beta)) / beta
    with jax.enable_x64(True):
        got = GRADIENT(beta, jnp.asarray(probs), jnp.asarray(x))
    np.testing.assert_allclose(got[0], by_beta, rtol=1e-9)
    np.testing.assert_allclose(got[2], tilted, rtol=1e-12)


@pytest.mark.parametrize("beta", [0.0, 1e-30, -1e-12, 1e-6])
def test_gradients_at_the_limit(beta):
    probs, x = jnp.array([0.75, 0.25]), jnp.array([-1.0, 3.0])
    by_beta, by_probs, by_x = GRADIENT(beta, probs, x)
    assert by_beta == pytest.approx(1.5, rel=1e-5)  # half the variance
    np.testing.assert_allclose(by_x, probs, rtol=1e-5)
    assert by_probs[1] - by_probs[0] == pytest.approx(4.0, rel=1e-4)


@pytest.mark.parametrize("beta", [-1e6, -30.0, -1.0, -3e-4, -1e-4, 0.0, 1e-38, 1e6])
@pytest.mark.parametrize("x", [[0.0, 1.0, 2.0, 1e30], [5.0, 5.0, 5.0, 0.0], [-1e3, 0.0, 1e3, -np.inf]])
def test_gradients_are_finite(beta, x):
    """The last atom has no mass."""
    gradients = GRADIENT(beta, jnp.array([0.2, 0.3, 0.5, 0.0]), jnp.array(x))
    assert all(np.all(np.isfinite(g)) for g in gradients)
    assert gradients[2].sum() == pytest.approx(1.0, rel=1e-4)
    assert gradients[2][3] == 0


def test_gradient_of_returns_whose_square_overflows():
    by_beta, _, by_x = GRADIENT(-1.0, np.array([0.5, 0.5]), np.array([0.0, 1e20]))
    np.testing.assert_allclose(by_x, [1.0, 0.0])
    # U = log(2) / -beta once the far atom no longer counts
    assert by_beta == pytest.approx(math.log(2), rel=1e-5)
