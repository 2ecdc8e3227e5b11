"""Weights from data against normal equations, another solver, and repeated sampling."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rasf


def data(seed, n, d, noise=0.1, scales=None):
    rng = np.random.default_rng(seed)
    phis = rng.normal(size=(n, d)) * (np.ones(d) if scales is None else scales)
    w = rng.normal(size=d)
    return phis, phis @ w + noise * rng.normal(size=n), w


def test_equals_the_normal_equations():
    phis, rewards, _ = data(0, 50, 4)
    found = rasf.infer_weights(phis, rewards)
    gram = np.linalg.inv(phis.T @ phis)
    w = gram @ phis.T @ rewards
    noise = np.sum((rewards - phis @ w) ** 2) / (50 - 4)
    np.testing.assert_allclose(found.w, w, rtol=1e-10)
    assert found.noise_variance == pytest.approx(noise, rel=1e-10)
    np.testing.assert_allclose(found.covariance, noise * gram, rtol=1e-9)
    np.testing.assert_allclose(found.standard_error, np.sqrt(np.diag(noise * gram)), rtol=1e-9)
    assert found.determined


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 5), st.integers(1, 5))
def test_equals_the_smallest_least_squares_solution(seed, n, d, rank):
    """Features of any rank: numpy's solver gives the solution of least norm too."""
    rng = np.random.default_rng(seed)
    phis = rng.normal(size=(n, min(rank, d))) @ rng.normal(size=(min(rank, d), d))
    rewards = rng.normal(size=n)
    found = rasf.infer_weights(phis, rewards)
    w, _, rank_found, _ = np.linalg.lstsq(phis, rewards, rcond=1e-9)
    np.testing.assert_allclose(found.w, w, rtol=1e-5, atol=1e-7)
    assert len(found.unseen) == d - rank_found
    assert found.determined == (rank_found == d)
    np.testing.assert_allclose(phis @ found.unseen.T, 0.0, atol=1e-7)


def test_rows_one_by_one_give_the_same_as_all_at_once():
    phis, rewards, _ = data(1, 300, 5)
    learner = rasf.WeightLearner(5)
    for phi, reward in zip(phis, rewards, strict=True):
        learner.update(phi, reward)
    online, batch = learner.estimate(), rasf.infer_weights(phis, rewards)
    np.testing.assert_allclose(online.w, batch.w, rtol=1e-10)
    np.testing.assert_allclose(online.covariance, batch.covariance, rtol=1e-9)
    assert online.samples == batch.samples == 300


def test_badly_scaled_features_keep_their_digits():
    """Columns from 1e-6 to 1e6: the normal equations would lose all digits, the factor does not."""
    scales = np.array([1e-6, 1.0, 1e6])
    phis, rewards, w = data(2, 200, 3, noise=0.0, scales=scales)
    found = rasf.infer_weights(phis, rewards)
    assert found.determined
    np.testing.assert_allclose(found.w * scales, w * scales, rtol=1e-7, atol=1e-7)


def test_says_what_the_data_does_not_determine():
    """The second feature never moves, the third and fourth only together."""
    rng = np.random.default_rng(3)
    together = rng.normal(size=40)
    phis = np.column_stack([rng.normal(size=40), np.zeros(40), together, together])
    found = rasf.infer_weights(phis, phis @ np.array([1.0, 5.0, 2.0, 4.0]))
    assert not found.determined
    assert len(found.unseen) == 2
    np.testing.assert_allclose(found.w, [1.0, 0.0, 3.0, 3.0], atol=1e-10)
    np.testing.assert_array_equal(np.isinf(found.standard_error), [False, True, True, True])
    assert found.error_of([0.0, 0.0, 1.0, 1.0]) < 1e-6  # the sum of the last two is known
    assert np.isinf(found.error_of([0.0, 0.0, 1.0, -1.0]))
    assert "2 of 4 directions were not observed" in str(found)


def test_intervals_cover_as_often_as_they_say():
    """95 % intervals of 400 data sets of 40 rows: the coverage of 1,200 weights is within four standard errors."""
    covered = []
    for seed in range(400):
        phis, rewards, w = data(seed, 40, 3, noise=0.5)
        found = rasf.infer_weights(phis, rewards)
        covered.append(np.abs(found.w - w) < 2.0262 * found.standard_error)  # Student's 0.975 quantile, 37 degrees
    assert abs(np.mean(covered) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 1200)


def test_no_row_to_spare_leaves_the_noise_unknown():
    phis, rewards, _ = data(4, 3, 3)
    found = rasf.infer_weights(phis, rewards)
    assert np.isnan(found.noise_variance)
    np.testing.assert_allclose(phis @ found.w, rewards, rtol=1e-8)


def test_serves_as_an_array():
    phis, rewards, _ = data(5, 20, 2)
    found = rasf.infer_weights(phis, rewards)
    np.testing.assert_array_equal(np.asarray(found), found.w)
    assert np.asarray(found, np.float32).dtype == np.float32


@pytest.mark.parametrize(
    ("phis", "rewards", "sentence"),
    [
        (np.zeros(3), np.zeros(3), r"phis must have shape \(n, d\)"),
        (np.zeros((0, 3)), np.zeros(0), r"phis must have shape \(n, d\)"),
        (np.zeros((2, 3)), np.zeros(3), "rewards must have one entry for each of 2 rows"),
        (np.full((2, 3), np.nan), np.zeros(2), "must be finite"),
        (np.zeros((2, 3)), np.array([0.0, np.inf]), "must be finite"),
    ],
)
def test_bad_input(phis, rewards, sentence):
    with pytest.raises(ValueError, match=sentence):
        rasf.infer_weights(phis, rewards)


def test_bad_sizes_for_the_learner():
    with pytest.raises(ValueError, match="d must"):
        rasf.WeightLearner(0)
    with pytest.raises(ValueError, match="phis must"):
        rasf.WeightLearner(2).update([1.0, 2.0, 3.0], 1.0)


def test_a_learner_is_one_line():
    learner = rasf.WeightLearner(2).update([1.0, 2.0], 5.0)
    assert repr(learner) == "<WeightLearner: w = [1. 2.] from 1 samples, 1 of 2 directions not observed>"
    assert repr(learner.update([1.0, 0.0], 1.0)) == "<WeightLearner: w = [1. 2.] from 2 samples>"
    assert "\n" not in repr(rasf.WeightLearner(100))


def test_before_any_data_nothing_is_known():
    found = rasf.WeightLearner(2).estimate()
    assert not found.determined
    np.testing.assert_array_equal(found.w, [0.0, 0.0])
    assert np.isinf(found.standard_error).all()
