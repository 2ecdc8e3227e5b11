"""CVaR of a weighted sum of independent features, against enumeration of the product law.

The library convolves on a grid of 512 cells over the sum's range. Sharing an atom out between its neighbours on the
grid is a mean-preserving spread that moves no outcome by more than one cell, and CVaR is concave and 1-Lipschitz in the
sup norm: with d features and cells of width h,

    CVaR - d h <= CVaR on the grid <= CVaR.
"""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rasf.risk import CVaR

modest = settings(max_examples=60, deadline=None)
CELLS = 512


def enumerated(probs, atoms, w, alpha):
    """Sort every joint outcome and average the worst alpha of them."""
    outcomes = []
    for joint in itertools.product(range(atoms.shape[1]), repeat=len(w)):
        p = math.prod(probs[i, k] for i, k in enumerate(joint))
        outcomes.append((sum(w[i] * atoms[i, k] for i, k in enumerate(joint)), p))
    left, total = alpha, 0.0
    for value, p in sorted(outcomes):
        taken = min(p, left)
        total, left = total + taken * value, left - taken
    return total / (alpha - left)


def width(atoms, w):
    """Range of the weighted sum."""
    weighted = w[:, None] * atoms
    return (weighted.max(1) - weighted.min(1)).sum()


@st.composite
def laws(draw):
    d, n = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    probs = rng.dirichlet(np.ones(n), size=d)
    probs[0, 0] = 0 if draw(st.booleans()) else probs[0, 0]
    w = rng.normal(size=d) * rng.integers(0, 2, d)  # some features do not count
    return probs / probs.sum(1, keepdims=True), rng.normal(size=(d, n)) * 10, w


@modest
@given(laws(), st.floats(0.02, 1))
def test_within_a_cell_a_feature_below_the_product_law(law, alpha):
    probs, atoms, w = law
    score, expected = CVaR(alpha).independent(probs, atoms, w), enumerated(*law, alpha)
    cell, rounding = width(atoms, w) / CELLS, 1e-9
    assert expected - len(w) * cell - rounding <= score <= expected + rounding


@modest
@given(laws())
def test_alpha_one_is_the_mean(law):
    probs, atoms, w = law
    mean = (w[:, None] * atoms * probs).sum()
    assert CVaR(1.0).independent(probs, atoms, w) == pytest.approx(mean, abs=1e-9)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("w", [[1.0, 1.0], [2.0, -2.0], [-0.5, -0.5]])
def test_exact_where_all_atoms_lie_on_the_grid(alpha, w):
    """Ranges of 256 cells each."""
    rng = np.random.default_rng(0)
    probs, atoms = rng.dirichlet(np.ones(5), size=2), np.array([[0.0, 1, 64, 100, 256], [-128.0, -1, 0, 7, 128]])
    score = CVaR(alpha).independent(probs, atoms, np.array(w))
    assert score == pytest.approx(enumerated(probs, atoms, np.array(w), alpha), abs=1e-9)


def test_hand_numbers():
    """Two fair coins of 0 or 1: the sum is 0, 1, 2 with 1/4, 1/2, 1/4."""
    probs, atoms = np.full((2, 2), 0.5), np.array([[0.0, 1.0], [0.0, 1.0]])
    for alpha, expected in [(0.25, 0.0), (0.5, 0.5), (0.75, 2 / 3), (1.0, 1.0)]:
        assert CVaR(alpha).independent(probs, atoms, np.ones(2)) == pytest.approx(expected, abs=1e-12)
    # heads against: 1 - 1, so -1, 0, 1
    assert CVaR(0.5).independent(probs, atoms, np.array([1.0, -1.0])) == pytest.approx(-0.5, abs=1e-12)


def test_no_weight_at_all_is_worth_nothing():
    probs, atoms = np.full((2, 3), 1 / 3), np.arange(6.0).reshape(2, 3)
    assert CVaR(0.3).independent(probs, atoms, np.zeros(2)) == 0


def test_one_certain_feature():
    probs, atoms = np.array([[0.0, 1.0, 0.0]]), np.array([[-1.0, 0.0, 1.0]])
    assert CVaR(0.1).independent(probs, atoms, np.array([5.0])) == pytest.approx(0.0, abs=1e-12)


def test_batched_over_leading_axes():
    rng = np.random.default_rng(1)
    probs, atoms, w = rng.dirichlet(np.ones(4), size=(3, 2, 2)), rng.normal(size=(2, 4)), np.array([1.0, -0.5])
    score = CVaR(0.3).independent(probs, atoms, w)
    assert score.shape == (3, 2)
    for i, j in np.ndindex(3, 2):
        assert score[i, j] == pytest.approx(CVaR(0.3).independent(probs[i, j], atoms, w), abs=1e-12)


@pytest.mark.parametrize("alpha", [0.05, 0.3, 1.0])
def test_jax_agrees_under_jit_and_vmap(alpha):
    """Single precision leaves some 1e-5 of mass astray, which counts 1 / alpha times over the whole range."""
    rng = np.random.default_rng(2)
    probs, atoms = rng.dirichlet(np.ones(5), size=(4, 3, 2)), rng.normal(size=(4, 2, 5))  # policies, batch
    w = rng.normal(size=(4, 2))
    risk = CVaR(alpha)
    expected = np.stack([risk.independent(probs[k], atoms[k], w[k]) for k in range(4)])
    compiled = jax.jit(jax.vmap(risk.independent))
    widths = np.array([width(atoms[k], w[k]) for k in range(4)])
    error = np.abs(compiled(probs, atoms, w) - expected) / widths[:, None]
    assert error.max() < 1e-5 / alpha
    with jax.enable_x64(True):
        np.testing.assert_allclose(compiled(probs, atoms, w), expected, rtol=0, atol=1e-11)


def test_single_precision_on_the_reacher_s_sizes():
    """Two features of 51 atoms, as a task weighs them, and a rare failure."""
    atoms = np.stack([np.linspace(-10, 10, 51), np.linspace(0, 10, 51)])
    failure = np.exp(-np.arange(51.0))
    probs = np.stack([np.exp(-((atoms[0] - 5) ** 2)), failure])
    probs /= probs.sum(1, keepdims=True)
    w = np.array([1.0, -3.0])
    for alpha in (0.05, 0.5):
        expected = enumerated(probs, atoms, w, alpha)
        score = jax.jit(CVaR(alpha).independent)(probs, atoms, w)
        assert abs(score - expected) < 2 * width(atoms, w) / CELLS


def test_gradient_by_the_probabilities_is_finite():
    probs, atoms, w = jnp.full((2, 3), 1 / 3), jnp.arange(6.0).reshape(2, 3), jnp.array([1.0, -1.0])
    gradient = jax.jit(jax.grad(CVaR(0.2).independent))
    assert np.isfinite(gradient(probs, atoms, w)).all()
