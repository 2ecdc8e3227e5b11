"""Closed forms against numbers by hand, and against the bootstrap they stand in for."""

import numpy as np
import pytest

from rasf.statistics import interval_of
from rasf_explorer.scenes.closed_forms import normal_tail, normal_variance

T3, T9 = 3.182446305284263, 2.2621571628540993  # Student's, 3 and 9 degrees of freedom


def test_variance_by_hand():
    found = normal_variance(np.array([0.0, 0.0, 0.0, 4.0]))  # s^2 = 4, m4 = (3 + 81) / 4 = 21
    half = T3 * np.sqrt((21 - 16 / 3) / 4)
    assert found == pytest.approx((4.0, max(4 - half, 0.0), 4 + half))
    assert normal_variance(np.array([0.0, 0.0, 0.0, 0.0, 0.0, 4.0])).low == 0.0
    assert normal_variance(np.full(5, 0.1)) == (0.0, 0.0, 0.0)
    assert normal_variance(np.array([3.0])) == (0.0, 0.0, 0.0)


def test_tail_by_hand():
    """The worst 3 of 10 are -4, -1 and 0; the quantile is the next, 2, and max(2 - x, 0) is 6, 3, 2 and zeros."""
    values = np.array([5.0, -4.0, 2.0, 3.0, -1.0, 4.0, 6.0, 0.0, 7.0, 8.0])
    short = np.array([6.0, 3.0, 2.0, *[0.0] * 7])
    half = T9 * np.sqrt(short.var() / (0.3**2 * 10))
    assert normal_tail(values, 0.3) == pytest.approx((-5 / 3, -5 / 3 - half, -5 / 3 + half))
    assert normal_tail(np.array([1.0, 3.0]), 0.75).estimate == pytest.approx((1 + 0.5 * 3) / 1.5)
    few = normal_tail(np.arange(19.0), 0.1)  # 1.9 of them
    assert few.estimate == pytest.approx(0.9 / 1.9)
    assert np.isnan(few[1:]).all()
    assert np.isfinite(normal_tail(np.arange(20.0), 0.1)[1:]).all()


def test_the_bootstrap_agrees_for_some_hundred_values():
    values = np.random.default_rng(3).gamma(2.0, size=500)
    pairs = [
        (normal_variance(values), interval_of(values, lambda x: x.var(axis=-1, ddof=1))),
        (normal_tail(values, 0.1), interval_of(values, lambda x: np.sort(x, axis=-1)[..., :50].mean(axis=-1))),
    ]
    for closed, drawn in pairs:
        assert closed.estimate == pytest.approx(drawn.estimate)
        assert closed.high - closed.low == pytest.approx(drawn.high - drawn.low, rel=0.12)
        assert closed.low == pytest.approx(drawn.low, abs=0.12 * (drawn.high - drawn.low))
