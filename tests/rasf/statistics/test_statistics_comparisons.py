"""One algorithm against another: scipy, plain twins, symmetries and coverage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import bootstrap, mannwhitneyu, norm, trim_mean

import rasf.statistics.resampling
from rasf.statistics import (
    interquartile_mean,
    mean_interval,
    mean_score,
    paired_difference,
    probability_of_improvement,
    stratified_interval,
)
from rasf.statistics.resampling import tails

modest = settings(max_examples=15, deadline=None)


@st.composite
def rivals(draw, paired=False):
    """Few different scores, so that there are ties."""
    runs, tasks = draw(st.integers(2, 5)), draw(st.integers(1, 3))
    others = runs if paired else draw(st.integers(2, 5))
    few = st.integers(-3, 3)
    return draw(arrays(np.float64, (runs, tasks), elements=few)), draw(
        arrays(np.float64, (others, tasks), elements=few)
    )


def plain_probability(ours, theirs):
    outcomes = [1.0 if a > b else 0.5 if a == b else 0.0 for a in ours for b in theirs]
    return sum(outcomes) / len(outcomes)


def test_improvement_is_mann_whitneys():
    generator = np.random.default_rng(1)
    for ours, theirs in (
        (generator.normal(0.5, size=(9, 4)), generator.normal(size=(6, 4))),
        (generator.integers(5, size=(8, 3)), generator.integers(4, size=(11, 3))),
    ):
        u = mannwhitneyu(ours, theirs, axis=0).statistic
        assert probability_of_improvement(ours, theirs).estimate == pytest.approx(np.mean(u / len(ours) / len(theirs)))


def test_improvement_by_hand():
    # task 1: 2 beats 1, ties 2; 3 beats both: 3.5 of 4. Task 2: nothing wins.
    assert probability_of_improvement([[2, 0], [3, 0]], [[1, 5], [2, 5]]).estimate == 3.5 / 8
    assert probability_of_improvement([[2, 0], [3, 0]], [[1, 5], [3, 0]], paired=True).estimate == (1 + 0.5 + 0.5) / 4


def test_improvement_of_normal_scores():
    generator = np.random.default_rng(2)
    found = probability_of_improvement(generator.normal(1.0, size=(90, 2)), generator.normal(size=(120, 2)))
    assert found.low < norm.cdf(1 / np.sqrt(2)) < found.high
    assert found.high - found.low < 0.15


@modest
@given(rivals())
def test_improvement_against_loops_and_symmetries(pair):
    ours, theirs = pair
    found = probability_of_improvement(ours, theirs)
    plain = np.mean([plain_probability(a, b) for a, b in zip(ours.T, theirs.T, strict=True)])
    assert found.estimate == pytest.approx(plain, abs=1e-15)
    assert probability_of_improvement(theirs, ours).estimate == pytest.approx(1 - plain, abs=1e-15)
    assert probability_of_improvement(ours, ours).estimate == 0.5
    assert 0 <= found.low <= found.high <= 1
    rising = np.arange(1, ours.shape[1] + 1)  # another scale for every task
    assert probability_of_improvement(np.exp(ours) * rising, np.exp(theirs) * rising) == found
    assert probability_of_improvement(ours + 1, theirs).low >= found.low


@modest
@given(rivals(paired=True))
def test_paired_improvement_against_loops_and_symmetries(pair):
    ours, theirs = pair
    found = probability_of_improvement(ours, theirs, paired=True)
    plain = np.mean([plain_probability([a], [b]) for a, b in zip(ours.ravel(), theirs.ravel(), strict=True)])
    assert found.estimate == pytest.approx(plain, abs=1e-15)
    turned = probability_of_improvement(theirs, ours, paired=True)
    assert turned == pytest.approx((1 - found.estimate, 1 - found.high, 1 - found.low), abs=1e-12)


@pytest.mark.parametrize("whole_runs", [False, True])
def test_improvement_interval_against_comparing_every_resample(whole_runs):
    generator = np.random.default_rng(3)
    ours, theirs = generator.integers(6, size=(5, 3)), generator.integers(6, size=(4, 3))
    first, second = np.random.default_rng(7).spawn(2)
    columns = 1 if whole_runs else 3
    mine = ours[first.integers(5, size=(10_000, 5, columns)), np.arange(3)][:, :, None]
    other = theirs[second.integers(4, size=(10_000, 4, columns)), np.arange(3)][:, None]
    plain = (np.sign(mine - other) / 2 + 0.5).mean(axis=(1, 2, 3))
    found = probability_of_improvement(ours, theirs, seed=7, whole_runs=whole_runs)
    assert found[1:] == pytest.approx(np.quantile(plain, tails(len(theirs))), abs=1e-15)


def test_paired_difference_of_means_is_the_interval_of_the_differences():
    ours, theirs = np.random.default_rng(4).normal(size=(2, 11, 4))
    assert paired_difference(ours, theirs, seed=2) == pytest.approx(
        stratified_interval(ours - theirs, mean_score, seed=2), abs=1e-13
    )
    # what verdicts do with seeds that go through all tasks
    assert paired_difference(ours, theirs, seed=2, whole_runs=True) == pytest.approx(
        mean_interval(ours.mean(axis=1) - theirs.mean(axis=1), seed=2), abs=1e-13
    )


@pytest.mark.parametrize(
    ("statistic", "plain"), [(mean_score, np.mean), (interquartile_mean, lambda x, axis: trim_mean(x, 0.25, axis=axis))]
)
def test_differences_are_scipys(statistic, plain):
    generator = np.random.default_rng(5)
    shared = generator.normal(0.0, 2.0, 20)
    ours, theirs = shared + generator.normal(1.0, 1.0, 20), shared + generator.normal(0.0, 1.0, 20)
    reference = bootstrap(
        (ours, theirs),
        lambda x, y, axis: plain(x, axis=axis) - plain(y, axis=axis),
        n_resamples=20_000,
        confidence_level=1 - 2 * tails(20)[0],
        paired=True,
        method="percentile",
        rng=np.random.default_rng(6),
    )
    found = paired_difference(ours[:, None], theirs[:, None], statistic)
    assert found.estimate == pytest.approx(plain(ours, axis=0) - plain(theirs, axis=0))
    tolerance = 0.1 * reference.standard_error
    assert (found.low, found.high) == pytest.approx(reference.confidence_interval, abs=tolerance)


def test_what_pairs_share_cancels():
    generator = np.random.default_rng(7)
    shared = 100 * generator.normal(size=(10, 3))
    assert paired_difference(shared + 1.0, shared) == pytest.approx((1.0, 1.0, 1.0))


@modest
@given(rivals(paired=True), st.sampled_from([mean_score, interquartile_mean]))
def test_paired_differences_turn_with_the_pair(pair, statistic):
    found, turned = paired_difference(*pair, statistic), paired_difference(*pair[::-1], statistic)
    assert turned == pytest.approx((-found.estimate, -found.high, -found.low), abs=1e-12)
    assert paired_difference(pair[0] + 3, pair[1], statistic) == pytest.approx([end + 3 for end in found], abs=1e-12)


@pytest.mark.slow
def test_coverage_of_the_difference():
    generator, covered = np.random.default_rng(8), 0
    for seed in range(200):
        luck = 3.0 * generator.normal(size=(25, 1))
        ours, theirs = luck + generator.normal(2.0, size=(25, 1)), luck + generator.normal(size=(25, 1))
        found = paired_difference(ours, theirs, seed=seed)
        covered += found.low <= 2.0 <= found.high
    assert 0.90 <= covered / 200 <= 0.99


def test_no_bits_depend_on_the_blocks(monkeypatch):
    ours, theirs = np.random.default_rng(9).normal(size=(2, 6, 3))

    def found():
        return (
            paired_difference(ours, theirs, interquartile_mean),
            probability_of_improvement(ours, theirs[:4]),
            probability_of_improvement(ours, theirs, paired=True, whole_runs=True),
        )

    at_once = found()
    monkeypatch.setattr(rasf.statistics.resampling, "AT_ONCE", 777)
    assert found() == at_once


@pytest.mark.parametrize("function", [paired_difference, probability_of_improvement])
def test_what_is_refused(function):
    with pytest.raises(ValueError, match="theirs must"):
        function(np.ones((4, 3)), np.ones((4, 2)))
    with pytest.raises(ValueError, match="ours must"):
        function(np.ones((1, 3)), np.ones((4, 3)))
    with pytest.raises(ValueError, match="theirs must"):
        function(np.ones((4, 3)), np.full((4, 3), np.nan))


def test_pairs_need_as_many_runs():
    with pytest.raises(ValueError, match="theirs must"):
        paired_difference(np.ones((5, 3)), np.ones((4, 3)))
    with pytest.raises(ValueError, match="theirs must"):
        probability_of_improvement(np.ones((5, 3)), np.ones((4, 3)), paired=True)
