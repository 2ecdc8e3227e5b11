"""Intervals against numbers by hand and closed forms, and closed forms against the bootstrap they stand in for."""

import numpy as np
import pytest
from scipy.stats import binomtest

from rasf.statistics.intervals import (
    event_difference,
    event_interval,
    mean_interval,
    normal_mean,
    ratio_interval,
    share_interval,
    slopes,
    standard_error,
)

RNG = np.random.default_rng(0)
T3 = 3.182446305284263  # Student's, 3 degrees of freedom


def test_mean_by_hand():
    found = normal_mean(np.array([1.0, 2.0, 3.0, 6.0]))  # s^2 = 14 / 3, n = 4
    half = T3 * np.sqrt(14 / 3 / 4)
    assert found == pytest.approx((3.0, 3 - half, 3 + half))
    assert normal_mean(np.array([2.5])) == (2.5, 2.5, 2.5)


def test_shares_are_exact():
    """Against scipy, and by hand: 0 of n leave all p with (1 - p)^n >= 0.025."""
    for events, trials in ((0, 100), (1, 4), (7, 20), (20, 20), (499, 500)):
        exact = binomtest(events, trials).proportion_ci(method="exact")
        assert share_interval(events, trials) == pytest.approx((events / trials, exact.low, exact.high))
    assert share_interval(0, 100) == pytest.approx((0.0, 0.0, 1 - 0.025**0.01))
    assert str(share_interval(0, 100)) == "0 [0, 0.0362]"
    assert share_interval(100, 100) == pytest.approx((1.0, 0.025**0.01, 1.0))
    for events, trials in ((-1, 4), (5, 4), (0, 0)):
        with pytest.raises(ValueError, match="events must lie between 0 and the"):
            share_interval(events, trials)


def test_events_are_a_share_where_an_episode_has_one_at_most():
    counts = np.array([1.0, 0.0, 0.0, 0.0])
    assert event_interval(counts) == share_interval(1, 4)
    assert event_interval(-2 * counts) == pytest.approx([-2 * share_interval(1, 4)[i] for i in (0, 2, 1)])
    assert event_interval(np.zeros(100)) == share_interval(0, 100)
    assert event_interval(np.zeros(100), size=-5.0) == pytest.approx((0.0, -5 * share_interval(0, 100).high, 0.0))
    assert str(event_interval(np.zeros(100), size=np.nan)) == "0 [-, -]"


def test_several_events_in_an_episode():
    one_bad = np.array([5.0, *[0.0] * 99])
    assert event_interval(one_bad) == pytest.approx([5 * number for number in share_interval(1, 100)])
    counts = np.array([2.0, 4.0, 0.0, 0.0])  # the normal interval holds 3 times the share's, but for what is below 0
    assert event_interval(counts) == pytest.approx((1.5, 0.0, normal_mean(counts).high))
    both = np.array([2.0, -4.0, 0.0, 0.0])
    assert event_interval(both) == normal_mean(both)


def test_events_episode_by_episode():
    none, some = np.zeros(100), np.array([*[1.0] * 10, *[0.0] * 90])
    rare = share_interval(0, 100).high
    assert event_difference(none, none) == pytest.approx((0.0, -rare, rare))
    ten = share_interval(10, 100)
    low, high = 0.1 - np.hypot(0.1 - ten.low, rare), 0.1 + (ten.high - 0.1)
    assert event_difference(some, none) == pytest.approx((0.1, low, high))
    assert event_difference(none, some) == pytest.approx((-0.1, -high, -low))
    many = RNG.poisson(9.0, (2, 200)).astype(float)
    assert event_difference(*many) == pytest.approx(normal_mean(many[0] - many[1]), abs=0.05)


def test_events_are_covered():
    """By at least 95 % of samples at every p, which the bootstrap does not reach for rare events."""
    for p in (0.003, 0.03, 0.3):
        counts = (RNG.random((400, 100)) < p).astype(float)
        found = np.array([event_interval(sample) for sample in counts])
        assert ((found[:, 1] <= p) & (p <= found[:, 2])).mean() > 0.94
        pairs = zip(counts[:200], counts[200:], strict=True)
        apart = np.array([event_difference(one, other) for one, other in pairs])
        assert ((apart[:, 1] <= 0) & (apart[:, 2] >= 0)).mean() > 0.93


def test_the_bootstrap_agrees_for_some_hundred_values():
    values = np.random.default_rng(3).gamma(2.0, size=500)
    closed, drawn = normal_mean(values), mean_interval(values)
    assert closed.estimate == pytest.approx(drawn.estimate)
    assert closed.high - closed.low == pytest.approx(drawn.high - drawn.low, rel=0.12)
    assert closed.low == pytest.approx(drawn.low, abs=0.12 * (drawn.high - drawn.low))


def test_the_bootstrap_against_closed_forms():
    values = np.random.default_rng(1).normal(3.0, 2.0, 400)
    interval = mean_interval(values)
    assert interval.estimate == pytest.approx(values.mean())
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * values.std(ddof=1) / 20, rel=0.05)
    assert standard_error(values) == pytest.approx(values.std(ddof=1) / 20)
    assert slopes(np.array([[1.0, 3.0, 5.0], [4.0, 4.0, 4.0]])) == pytest.approx([2.0, 0.0])
    assert ratio_interval(2 * values, values) == pytest.approx((2.0, 2.0, 2.0))
