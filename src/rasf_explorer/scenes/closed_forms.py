"""Intervals of a variance and of the worst values in closed form: bootstrap intervals take longer than rollouts.

Estimate +- t standard errors, t Student's quantile, as `rasf.statistics.intervals.normal_mean`:

    variance   se^2 = (m4 - s^4 (n - 3) / (n - 1)) / n,  m4 the fourth central moment
    CVaR       the mean of the worst share a, by its influence function: se^2 = var(max(q - x, 0)) / (a^2 n), q the
               a-quantile
"""

from __future__ import annotations

import math

import numpy as np

from rasf.arrays import Floats
from rasf.statistics.intervals import Interval, around, mean_of_the_worst


def normal_variance(values: Floats) -> Interval:
    """The variance of values (n,) in closed form, never below 0."""
    n = len(values)
    if n < 2:
        return Interval(0.0, 0.0, 0.0)
    centred = values - values[0]  # equal values have no variance at all
    variance, fourth = float(centred.var(ddof=1)), float(((centred - centred.mean()) ** 4).mean())
    found = around(variance, max(fourth - variance**2 * (n - 3) / (n - 1), 0.0) / n, n)
    return Interval(found.estimate, max(found.low, 0.0), found.high)


def normal_tail(values: Floats, share: float) -> Interval:
    """CVaR in closed form: the mean of the worst `share` of values (n,), a value on the boundary counting in part.

    Fewer than two values in the tail say nothing of its spread: the interval's ends are nan then.
    """
    n, estimate = len(values), float(mean_of_the_worst(values, share))
    if share * n < 2:
        return Interval(estimate, math.nan, math.nan)
    quantile = np.sort(values)[min(int(share * n), n - 1)]
    return around(estimate, float(np.maximum(quantile - values, 0.0).var()) / (share**2 * n), n)
