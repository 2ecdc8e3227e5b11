"""Performance profiles: counted by hand, the binomial law, monotone, and equal to the general bootstrap."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom

import rasf.statistics.bootstrap
import rasf.statistics.profiles
from rasf.statistics import performance_profile, stratified_interval
from rasf.statistics.bootstrap import tails

modest = settings(max_examples=15, deadline=None)
scores_of_tasks = arrays(np.float64, st.tuples(st.integers(2, 5), st.integers(1, 3)), elements=st.integers(-9, 9))


def test_by_hand():
    found = performance_profile([[1, 2], [2, 4]], [0, 1, 2, 3, 4])
    assert found.share.tolist() == [1, 0.75, 0.25, 0.25, 0]
    # at 1, run 2 is above on task 1 and both are on task 2: at best 4 of 4, at worst 2 of 4
    assert (found.low[1], found.high[1]) == (0.5, 1.0)
    assert (found.low[0], found.high[0], found.low[4], found.high[4]) == (1, 1, 0, 0)


@modest
@given(scores_of_tasks, st.lists(st.integers(-10, 10), min_size=1, max_size=8), st.booleans())
def test_counts_and_never_rises(scores, thresholds, whole_runs):
    thresholds = [*thresholds, np.inf, -np.inf]
    found = performance_profile(scores, thresholds, whole_runs=whole_runs)
    assert found.share.tolist() == [float(np.mean(scores > tau)) for tau in thresholds]
    order = np.argsort(thresholds)
    for curve in (found.share, found.low, found.high):
        assert (np.diff(curve[order]) <= 0).all()
        assert (curve[order[0]], curve[order[-1]]) == (1, 0)
    assert (found.low <= found.high).all()
    if not whole_runs:  # a sum of binomials whose mean is whole has it as its median
        assert (found.low <= found.share).all()
        assert (found.share <= found.high).all()


@modest
@given(scores_of_tasks, st.lists(st.integers(-10, 10), min_size=1, max_size=8))
def test_invariances(scores, thresholds):
    taus = np.array(thresholds, float)
    found = performance_profile(scores, taus)
    for rising in (np.exp, lambda x: 3 * x - 7, lambda x: x**3):
        for before, after in zip(found[1:], performance_profile(rising(scores), rising(taus))[1:], strict=True):
            assert (before == after).all()
    better = performance_profile(scores + 1, taus)
    for worse_curve, better_curve in zip(found[1:], better[1:], strict=True):
        assert (better_curve >= worse_curve).all()


@modest
@given(scores_of_tasks)
def test_the_area_is_the_mean(scores):
    levels = np.unique(scores)
    share = performance_profile(scores, levels).share
    assert levels[0] + np.sum(np.diff(levels) * share[:-1]) == pytest.approx(scores.mean())


@pytest.mark.parametrize("runs", [10, 40])
def test_band_of_one_task_is_binomial(runs):
    scores = np.random.default_rng(1).permutation(runs).astype(float)[:, None]
    found = performance_profile(scores, np.arange(runs) - 0.5)
    for share, low, high in zip(*found[1:], strict=True):
        for end, tail in zip((low, high), tails(runs), strict=True):
            assert binom.cdf(np.ceil(end * runs - 1e-9), runs, share) >= tail - 0.007
            assert binom.cdf(np.floor(end * runs + 1e-9) - 1, runs, share) <= tail + 0.007


@pytest.mark.parametrize("whole_runs", [False, True])
def test_band_is_the_stratified_interval_of_the_share(whole_runs):
    scores = np.random.default_rng(2).normal([0.0, 1.0, 2.0], 1.0, (8, 3))
    taus = [1.5, -0.3, 0.7, 0.7]
    found = performance_profile(scores, taus, seed=5, whole_runs=whole_runs)
    for i, tau in enumerate(taus):
        plain = stratified_interval(
            scores, lambda s, tau=tau: (s > tau).mean(axis=(-2, -1)), seed=5, whole_runs=whole_runs
        )
        assert (found.share[i], found.low[i], found.high[i]) == pytest.approx(plain, abs=1e-15)


def test_no_bits_depend_on_the_blocks(monkeypatch):
    scores = np.random.default_rng(3).normal(size=(6, 4))
    taus = np.linspace(-2, 2, 11)
    at_once = performance_profile(scores, taus)
    for module in (rasf.statistics.bootstrap, rasf.statistics.profiles):
        monkeypatch.setattr(module, "AT_ONCE", 5000)
    for before, after in zip(at_once, performance_profile(scores, taus), strict=True):
        assert (before == after).all()


@pytest.mark.parametrize("thresholds", [[], 0.5, [[0.5]], [0.5, np.nan], ["high"], None])
def test_refuses_thresholds(thresholds):
    with pytest.raises(ValueError, match="thresholds must"):
        performance_profile(np.ones((3, 2)), thresholds)


def test_refuses_scores():
    with pytest.raises(ValueError, match="scores must"):
        performance_profile(np.ones((1, 2)), [0.5])
