"""Aggregates of runs x tasks and the resampling behind all intervals: scipy, enumeration, closed forms, coverage."""

import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import bootstrap, norm, sem, t, trim_mean

import rasf.statistics.resampling
from rasf.statistics import (
    interquartile_mean,
    interval_of,
    mean_interval,
    mean_score,
    ratio_interval,
    standard_error,
    stratified_interval,
)
from rasf.statistics.resampling import tails

modest = settings(max_examples=80, deadline=None)
# whole numbers, so that sums of scores are exact
scores_of_tasks = arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.integers(-50, 50))


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1), (3, 3), (5, 2), (11, 1), (6, 8)])
def test_interquartile_mean_is_scipys_trimmed_mean(shape):
    scores = np.random.default_rng(1).normal(size=shape)
    assert interquartile_mean(scores) == pytest.approx(trim_mean(scores, 0.25, axis=None), rel=1e-14)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0, 10, 100], 110 / 3),  # fewer than four: nothing is left out
        ([-1000, 1, 3, 1000], 2.0),
        ([-1000, 1, 2, 6, 1000], 3.0),  # 5 / 4 is one from each end, not one and a quarter
        ([-9, -9, -9, 1, 2, 3, 4, 9, 9, 9, 9], (-9 + 1 + 2 + 3 + 4 + 9 + 9) / 7),
    ],
)
def test_interquartile_mean_by_hand(scores, expected):
    assert interquartile_mean(np.array(scores)[:, None]) == pytest.approx(expected)


def test_statistics_of_many_arrays_at_once():
    scores = np.random.default_rng(2).normal(size=(3, 2, 5, 4))
    for statistic in (interquartile_mean, mean_score):
        alone = [[statistic(scores[i, j]) for j in range(2)] for i in range(3)]
        assert statistic(scores) == pytest.approx(np.array(alone), abs=1e-15)


@modest
@given(scores_of_tasks, st.randoms(use_true_random=False), st.integers(-5, 5))
def test_interquartile_mean_knows_no_order_and_follows_shifts_and_signs(scores, random, shift):
    middle = interquartile_mean(scores)
    mixed = scores.ravel().tolist()
    random.shuffle(mixed)
    assert interquartile_mean(np.reshape(mixed, scores.shape[::-1])) == middle
    assert interquartile_mean(-2 * scores + shift) == pytest.approx(-2 * middle + shift)
    assert scores.min() <= middle <= scores.max()


@modest
@given(scores_of_tasks)
def test_interquartile_mean_ignores_how_far_the_outer_quarters_are(scores):
    order, quarter = np.argsort(scores, axis=None), scores.size // 4
    moved = scores.ravel().copy()
    moved[order[:quarter]] -= 1e6
    moved[order[scores.size - quarter :]] += 1e6
    assert interquartile_mean(moved.reshape(scores.shape)) == interquartile_mean(scores)


@pytest.mark.parametrize("whole_runs", [False, True])
def test_single_task_interval_is_scipys(whole_runs):
    values = np.random.default_rng(3).gamma(2.0, size=25)
    theirs = bootstrap(
        (values,),
        np.mean,
        n_resamples=20_000,
        confidence_level=1 - 2 * tails(25)[0],
        method="percentile",
        rng=np.random.default_rng(4),
    )
    found = stratified_interval(values[:, None], mean_score, whole_runs=whole_runs)
    tolerance = 0.1 * sem(values)  # a quantile of 10,000 resamples is known to 0.03 standard errors
    assert found.estimate == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx(theirs.confidence_interval, abs=tolerance)


@pytest.mark.parametrize("statistic", [mean_score, interquartile_mean])
@pytest.mark.parametrize("whole_runs", [False, True])
def test_interval_against_all_resamples(statistic, whole_runs):
    """Levels of the tasks lie far apart, so a draw from the wrong task would be seen."""
    runs, tasks = (5, 3) if whole_runs else (3, 3)
    scores = np.random.default_rng(5).normal([0.0, 1.0, 30.0], [0.1, 0.5, 2.0], (runs, tasks))
    rows = np.array(list(product(range(runs), repeat=runs)))
    if whole_runs:
        everything = scores[rows]
    else:
        chosen = np.array(list(product(range(len(rows)), repeat=tasks)))
        everything = np.stack([scores[rows[chosen[:, t]], t] for t in range(tasks)], axis=-1)
    exact = statistic(everything)
    found = stratified_interval(scores, statistic, seed=1, whole_runs=whole_runs)
    assert found.estimate == statistic(scores)
    for end, tail in zip(found[1:], tails(runs), strict=True):
        assert np.mean(exact < end - 1e-9) <= tail + 0.007
        assert np.mean(exact <= end + 1e-9) >= tail - 0.007


def test_width_against_the_closed_form():
    """The mean over tasks has variance sum_t s_t^2 / n / T^2, with tasks of very different spread and level."""
    scores = np.random.default_rng(6).normal([0.0, 50.0, -9.0], [1.0, 3.0, 0.2], (400, 3))
    found = stratified_interval(scores, mean_score)
    closed = np.sqrt((scores.var(axis=0) / 400).sum()) / 3
    assert found.high - found.low == pytest.approx(2 * 1.96 * closed, rel=0.03)


def test_tasks_are_strata():
    scores = np.tile([0.0, 10.0, 1000.0], (4, 1))  # tasks differ, runs do not: nothing is uncertain
    assert stratified_interval(scores, mean_score)[1:] == pytest.approx((1010 / 3, 1010 / 3))


def test_whole_runs_of_the_mean_are_the_interval_of_the_runs_means():
    scores = np.random.default_rng(7).normal(size=(12, 5))
    assert stratified_interval(scores, mean_score, seed=3, whole_runs=True) == pytest.approx(
        mean_interval(scores.mean(axis=1), seed=3), abs=1e-13
    )


def test_seeds_decide_everything():
    scores = np.random.default_rng(8).normal(size=(6, 3))
    assert stratified_interval(scores, seed=1) == stratified_interval(scores, seed=1)
    assert stratified_interval(scores, seed=1) != stratified_interval(scores, seed=2)


def test_no_bits_depend_on_the_blocks(monkeypatch):
    scores = np.random.default_rng(9).normal(size=(7, 3))

    def found():
        return (
            stratified_interval(scores),
            stratified_interval(scores, mean_score, whole_runs=True),
            mean_interval(scores[:, 0]),
            interval_of(scores[:, 0], lambda drawn: drawn.var(axis=-1)),
            ratio_interval(scores[:, 0], scores[:, 1] + 9),
        )

    at_once = found()
    for numbers in (1000, 37 * 21):
        monkeypatch.setattr(rasf.statistics.resampling, "AT_ONCE", numbers)
        assert found() == at_once


def test_values_are_drawn_as_they_always_were():
    """Shipped verdicts rest on these draws."""
    values = np.random.default_rng(10).normal(3.0, size=(2, 31))
    drawn = np.random.default_rng(5).integers(31, size=(10_000, 31))
    first, second = values[0][drawn].mean(axis=1), values[1][drawn].mean(axis=1)
    for found, plain in ((mean_interval(values[0], 5), first), (ratio_interval(*values, 5), first / second)):
        assert found[1:] == tuple(np.quantile(plain, tails(31)))


def test_few_values_are_cut_farther_out():
    """Twice sqrt((n - 1) / n) normal quantiles of a resample's spread are as far apart as Student's interval."""
    for n in (2, 5, 10, 30, 1000):
        reached = norm.ppf(tails(n)[1]) * np.sqrt((n - 1) / n)
        assert n == 2 or reached == pytest.approx(t.ppf(0.975, n - 1))  # of two, all resamples are inside
        assert sum(tails(n)) == 1
    assert tails(10**6) == pytest.approx((0.025, 0.975), abs=1e-5)
    assert mean_interval(np.array([3.0])) == (3.0, 3.0, 3.0)


def test_intervals_of_normal_values_are_students():
    generator = np.random.default_rng(15)
    ratios = []
    for seed in range(60):
        values = generator.normal(size=10)
        found = mean_interval(values, seed)
        ratios.append((found.high - found.low) / (2 * t.ppf(0.975, 9) * sem(values)))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "least", "most"), [(5, 0.89, 0.95), (10, 0.93, 0.97)])
def test_coverage_of_few_normal_values(runs, least, most):
    """No resample of five values goes beyond the largest; 85 and 90 % is what plain percentiles cover."""
    generator, covered = np.random.default_rng(16), 0
    for seed in range(1000):
        found = mean_interval(generator.normal(size=runs), seed)
        covered += found.low <= 0 <= found.high
    assert least <= covered / 1000 <= most


def test_resampling_needs_little_memory():
    values = np.random.default_rng(11).normal(size=3000)
    tracemalloc.start()
    try:
        mean_interval(values)  # 240 MB of indices if drawn at once
        assert tracemalloc.get_traced_memory()[1] < 40e6
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_coverage_of_independent_normal_scores():
    generator, covered = np.random.default_rng(12), 0
    truth = np.array([1.0, 5.0])
    for seed in range(300):
        found = stratified_interval(generator.normal(truth, [1.0, 2.0], (20, 2)), mean_score, seed=seed)
        covered += found.low <= truth.mean() <= found.high
    assert 0.90 <= covered / 300 <= 0.99


@pytest.mark.slow
def test_runs_that_share_their_luck_over_tasks_need_whole_runs():
    generator, covered = np.random.default_rng(13), np.zeros(2)
    for seed in range(120):
        scores = generator.normal(size=(20, 1)) + 0.5 * generator.normal(size=(20, 3))
        for i, whole_runs in enumerate((False, True)):
            found = stratified_interval(scores, mean_score, seed=seed, whole_runs=whole_runs)
            covered[i] += found.low <= 0 <= found.high
    assert covered[0] / 120 < 0.85
    assert 0.90 <= covered[1] / 120 <= 0.99


def test_standard_error_is_scipys():
    values = np.random.default_rng(14).normal(size=(9, 4))
    assert standard_error(values) == pytest.approx(sem(values, axis=0))
    assert standard_error(values, axis=1) == pytest.approx(sem(values, axis=1))
    assert standard_error(values[:1]).tolist() == [0.0] * 4


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        ([1.0, 2.0], r"at least one run and one task .* \(2,\)"),
        (np.zeros((0, 3)), r"\(0, 3\)"),
        (np.zeros((2, 3, 4)), r"\(2, 3, 4\)"),
        ([[1.0, 2.0]], "at least 2 runs"),
        ([[1.0, 2.0], [np.nan, 0.0]], r"nan at index \(1, 0\)"),
        ([[1.0, -np.inf], [3.0, 0.0]], r"-inf at index \(0, 1\)"),
        ([[1.0, 2.0], [3.0]], "numbers .* list"),
        ([["a"], ["b"]], "numbers"),
        (np.ones((2, 2), complex), "numbers"),
    ],
)
def test_what_is_refused(scores, reason):
    with pytest.raises(ValueError, match=f"scores must .*{reason}"):
        stratified_interval(scores)


def test_refuses_a_statistic_that_is_not_one_number():
    with pytest.raises(ValueError, match="statistic must"):
        stratified_interval(np.ones((2, 3)), lambda scores: scores.mean(axis=0))
    with pytest.raises(ValueError, match="scores must"):
        interquartile_mean([[np.nan]])
