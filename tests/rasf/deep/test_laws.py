"""Supports by hand, and the projection against Algorithm 2's loop and rlax's projection."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deep_twin import categorical_projection, mean_and_variance
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from rasf.deep.laws import project, support_atoms

modest = settings(max_examples=150, deadline=None)
PROJECT = jax.jit(project)


def test_support_by_hand():
    atoms = support_atoms([(-1.0, 1.0), (0.0, 1.0)], 0.9, 51)
    assert atoms.shape == (2, 51)
    # the paper's numbers: [-10, 10] in steps of 0.4, and [0, 10] in steps of 0.2
    np.testing.assert_allclose(atoms[0, [0, 1, 25, 50]], [-10.0, -9.6, 0.0, 10.0], atol=1e-12)
    np.testing.assert_allclose(atoms[1, [0, 1, 25, 50]], [0.0, 0.2, 5.0, 10.0], atol=1e-12)
    np.testing.assert_allclose(support_atoms([(-3.0, 5.0)], 0.0, 3), [[-3.0, 1.0, 5.0]])
    np.testing.assert_allclose(support_atoms([(0.0, 2.0)], 0.5, 2), [[0.0, 4.0]])


def test_the_paper_s_support_to_the_bit():
    """Atoms of the reacher's features: the steps of the bounds, divided by 1 - gamma."""
    atoms = support_atoms([(-1.0, 1.0), (0.0, 1.0)], 0.9, 51)
    np.testing.assert_array_equal(atoms[0], np.linspace(-1.0, 1.0, 51) / (1 - 0.9))
    np.testing.assert_array_equal(atoms[1], np.linspace(0.0, 1.0, 51) / (1 - 0.9))


def test_a_support_of_sums_that_may_end_has_zero_within():
    bounds = [(1.0, 2.0), (-3.0, -1.0), (-1.0, 1.0), (0.0, 0.0)]
    found = support_atoms(bounds, 0.5, 3, with_zero=True)
    np.testing.assert_allclose(found, [[0.0, 2.0, 4.0], [-6.0, -3.0, 0.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])


@pytest.mark.parametrize(
    ("bounds", "gamma", "atoms", "words"),
    [
        ([0.0, 1.0], 0.9, 51, "bounds of the features must"),
        ([(0.0, 1.0, 2.0)], 0.9, 51, "bounds of the features must"),
        ([(1.0, 1.0)], 0.9, 51, "bounds of the features must"),
        ([(0.0, 1.0), (1.0, -1.0)], 0.9, 51, "bounds of the features must"),
        ([(0.0, np.nan)], 0.9, 51, "bounds of the features must"),
        ([(-np.inf, 0.0)], 0.9, 51, "bounds of the features must"),
        ([(0.0, 1.0)], 1.0, 51, "gamma must"),
        ([(0.0, 1.0)], -0.1, 51, "gamma must"),
        ([(0.0, 1.0)], np.nan, 51, "gamma must"),
        ([(0.0, 1.0)], 0.9, 1, "atoms must"),
    ],
)
def test_bad_supports_are_refused(bounds, gamma, atoms, words):
    with pytest.raises(ValueError, match=words) as refusal:
        support_atoms(bounds, gamma, atoms)
    assert "\n" not in str(refusal.value)


@st.composite
def cases(draw):
    """Histograms (3, N) on a support, and a phi that may move them onto atoms, between them, and off the ends."""
    n = draw(st.sampled_from([2, 5, 12]))
    low, spacing = draw(st.sampled_from([-10.0, -1.0, 0.0, 3.0])), draw(st.sampled_from([0.05, 0.4, 1.0, 2.5]))
    atoms = low + spacing * np.arange(n)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    probs = rng.dirichlet(np.ones(n), size=3)
    probs[0] = np.eye(n)[rng.integers(n)]
    on_grid = st.integers(-2 * n, 3 * n).map(lambda j: low + spacing * j)
    phi = draw(st.one_of(on_grid, st.floats(low - 30, low + 50)))
    discount = draw(st.sampled_from([0.0, 0.5, 0.9, 1.0]) | st.floats(0, 1))
    return probs, phi, discount, atoms


def clear_of_the_ends(phi, discount, atoms):
    """Whether every moved atom is at an end, or off it by more than rounding."""
    spacing, moved = atoms[1] - atoms[0], phi + discount * atoms
    off = np.concatenate([moved - atoms[0], moved - atoms[-1]])
    return np.all((np.abs(off) < 1e-9 * spacing) | (np.abs(off) > 1e-3 * spacing))


ENDS = (np.eye(5)[[0, 2, 4]], 4.0, 0.0, np.arange(5.0))  # all mass to the last atom, nothing clipped
ON_ATOMS = (np.full((3, 5), 0.2), 1.0, 1.0, np.arange(5.0))  # l = u for every atom, the last clipped
BEYOND = (np.full((3, 5), 0.2), -9.0, 0.5, np.arange(5.0))  # everything below the first atom


@modest
@given(cases())
@example(ENDS)
@example(ON_ATOMS)
@example(BEYOND)
def test_projection_is_algorithm_2_s(case):
    probs, phi, discount, atoms = case
    expected = [categorical_projection(p, phi, discount, atoms) for p in probs]
    with jax.enable_x64(True):
        projected, _ = PROJECT(probs, phi, discount, atoms)
    np.testing.assert_allclose(projected, expected, rtol=0, atol=1e-10)
    single, _ = PROJECT(probs, phi, discount, atoms)
    # single precision places an atom with an error of 1e-7 of its size, relative to the spacing
    slack = 1e-6 * (1 + abs(phi) + np.abs(atoms).max()) / (atoms[1] - atoms[0])
    np.testing.assert_allclose(single, expected, rtol=0, atol=slack)


def test_algorithm_2_as_printed_loses_what_lands_on_an_atom():
    """With l = u both shares, u - b and b - l, are 0. The projected operator of appendix A.3 loses nothing."""
    for probs, phi, discount, atoms in (ENDS, ON_ATOMS):
        b = (np.clip(phi + discount * atoms, atoms[0], atoms[-1]) - atoms[0]) / (atoms[1] - atoms[0])
        assert not (probs @ ((np.ceil(b) - b) + (b - np.floor(b)))).any()
        np.testing.assert_allclose(PROJECT(probs, phi, discount, atoms)[0].sum(axis=1), 1.0, atol=1e-6)


@modest
@given(cases())
@example(ENDS)
@example(ON_ATOMS)
@example(BEYOND)
def test_mass_is_conserved_and_the_mean_where_nothing_is_clipped(case):
    probs, phi, discount, atoms = case
    with jax.enable_x64(True):
        projected, clipped = map(np.array, PROJECT(probs, phi, discount, atoms))
    assert (projected >= 0).all()
    np.testing.assert_allclose(projected.sum(1), 1.0, atol=1e-11)
    moved = phi + discount * atoms
    if atoms[0] <= moved.min() and moved.max() <= atoms[-1]:
        assert (clipped == 0).all()
        np.testing.assert_allclose(projected @ atoms, probs @ moved, rtol=0, atol=1e-9)
        for p, m in zip(probs, projected, strict=True):
            before, after = mean_and_variance(p, moved)[1], mean_and_variance(m, atoms)[1]
            assert before - 1e-8 <= after <= before + (atoms[1] - atoms[0]) ** 2 / 4 + 1e-8  # it only widens


@modest
@given(cases())
@example(ENDS)
@example(ON_ATOMS)
@example(BEYOND)
def test_clipped_mass(case):
    probs, phi, discount, atoms = case
    assume(clear_of_the_ends(phi, discount, atoms))
    moved, spacing = phi + discount * atoms, atoms[1] - atoms[0]
    below, above = moved < atoms[0] - 1e-6 * spacing, moved > atoms[-1] + 1e-6 * spacing
    expected = [np.mean(probs[:, below].sum(1)), np.mean(probs[:, above].sum(1))]
    with jax.enable_x64(True):
        _, clipped = PROJECT(probs, phi, discount, atoms)
    assert clipped.shape == (2,)
    np.testing.assert_allclose(clipped, expected, rtol=0, atol=1e-12)


def test_clipped_mass_by_hand():
    atoms = jnp.arange(5.0)
    probs = jnp.array([[0.1, 0.2, 0.3, 0.25, 0.15], [0.0, 0.0, 0.0, 0.5, 0.5]])
    # moved to 1.5, .., 5.5: the last two are off the upper end
    projected, clipped = PROJECT(probs, 1.5, 1.0, atoms)
    np.testing.assert_allclose(clipped, [0.0, (0.4 + 1.0) / 2], atol=1e-6)
    np.testing.assert_allclose(projected[0], [0.0, 0.05, 0.15, 0.25, 0.55], atol=1e-6)
    np.testing.assert_allclose(projected[1], [0.0, 0.0, 0.0, 0.0, 1.0], atol=1e-6)
    _, clipped = PROJECT(probs, -1.0, 1.0, atoms)
    np.testing.assert_allclose(clipped, [0.05, 0.0], atol=1e-6)


def test_rounding_at_the_ends_is_not_clipping():
    """The bounds of a feature are reached for ever: phi_max + gamma z_max = z_max, up to rounding."""
    atoms = jnp.array(support_atoms([(-1.0, 1.0)], 0.9, 51)[0])
    for phi, end in ((1.0, 50), (-1.0, 0)):
        projected, clipped = PROJECT(jnp.eye(51)[end][None], phi, 0.9, atoms)
        np.testing.assert_array_equal(clipped, [0.0, 0.0])
        assert projected[0, end] == pytest.approx(1.0, abs=1e-5)


def test_without_discount_only_phi_matters():
    probs = np.random.default_rng(0).dirichlet(np.ones(5), size=2)
    projected, _ = PROJECT(probs, 1.25, 0.0, np.arange(5.0))
    np.testing.assert_allclose(projected, [[0, 0.75, 0.25, 0, 0]] * 2, atol=1e-6)


@pytest.fixture(scope="module")
def rlax_projection():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of what it imports
        return jax.jit(pytest.importorskip("rlax").categorical_l2_project)


@settings(max_examples=50, deadline=None)
@given(case=cases())
def test_projection_is_rlax_s(rlax_projection, case):
    probs, phi, discount, atoms = case
    with jax.enable_x64(True):
        expected = [rlax_projection(phi + discount * atoms, p, atoms) for p in probs]
        projected, _ = PROJECT(probs, phi, discount, atoms)
    np.testing.assert_allclose(projected, expected, rtol=0, atol=1e-9)
