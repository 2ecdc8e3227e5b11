"""Intervals in closed form, where a bootstrap takes too long: estimate +- t standard errors, t Student's
quantile (1.96 for many values).

    mean       se^2 = s^2 / n
    variance   se^2 = (m4 - s^4 (n - 3) / (n - 1)) / n,  m4 the fourth central moment
    CVaR       the mean of the worst share a, by its influence function: se^2 = var(max(q - x, 0)) / (a^2 n), q the
               a-quantile
    share      of ones among zeros and ones, Wilson's score interval, which does not shrink to a point at 0 and 1

With a few hundred values they agree with the bootstrap's to some percent; with few values of a skewed law they are too
narrow, as that one is. The share's uses 1.96 always.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import stdtrit

from rasf.arrays import Floats
from rasf.statistics.intervals import Interval, mean_of_the_worst

_Z = 1.959963984540054  # of 95 %


def normal_mean(values: Floats) -> Interval:
    """The mean of values (n,); that of one value is a point."""
    n = len(values)
    return _around(float(values.mean()), float(values.var(ddof=1)) / n if n > 1 else 0.0, n)


def normal_variance(values: Floats) -> Interval:
    """The variance of values (n,), never below 0."""
    n = len(values)
    if n < 2:
        return Interval(0.0, 0.0, 0.0)
    centred = values - values[0]  # equal values have no variance at all
    variance, fourth = float(centred.var(ddof=1)), float(((centred - centred.mean()) ** 4).mean())
    found = _around(variance, max(fourth - variance**2 * (n - 3) / (n - 1), 0.0) / n, n)
    return Interval(found.estimate, max(found.low, 0.0), found.high)


def normal_tail(values: Floats, share: float) -> Interval:
    """CVaR: the mean of the worst `share` of values (n,), a value on the boundary counting in part.

    Fewer than two values in the tail say nothing of its spread: the interval's ends are nan then.
    """
    n, estimate = len(values), float(mean_of_the_worst(values, share))
    if share * n < 2:
        return Interval(estimate, math.nan, math.nan)
    quantile = np.sort(values)[min(int(share * n), n - 1)]
    return _around(estimate, float(np.maximum(quantile - values, 0.0).var()) / (share**2 * n), n)


def wilson_share(values: Floats) -> Interval:
    """The share of ones among values (n,) that are all 0 or 1."""
    n, share = len(values), float(values.mean())
    centre = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return Interval(share, centre - half if share > 0 else 0.0, centre + half if share < 1 else 1.0)


def _around(estimate: float, squared_error: float, n: int) -> Interval:
    half = float(stdtrit(max(n - 1, 1), 0.975)) * math.sqrt(squared_error)
    return Interval(estimate, estimate - half, estimate + half)
