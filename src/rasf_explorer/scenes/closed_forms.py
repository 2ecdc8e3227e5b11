"""Intervals of a variance and of CVaR in closed form, since bootstrap intervals take longer than rollouts.

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
    """Return the variance of values (n,) with its interval, which does not reach below 0."""
    n = len(values)
    if n < 2:
        return Interval(0.0, 0.0, 0.0)
    centred = values - values[0]  # so that equal values have variance 0 exactly
    variance, fourth = float(centred.var(ddof=1)), float(((centred - centred.mean()) ** 4).mean())
    found = around(variance, max(fourth - variance**2 * (n - 3) / (n - 1), 0.0) / n, n)
    return Interval(found.estimate, max(found.low, 0.0), found.high)


def normal_tail(values: Floats, share: float) -> Interval:
    """Return CVaR, the mean of the worst share of values, with its interval.

    Args:
        values: Values (n,). A value on the boundary of the share counts in part.
        share: The share.

    Returns:
        The interval. Its ends are nan if the tail has fewer than two values.
    """
    n, estimate = len(values), float(mean_of_the_worst(values, share))
    if share * n < 2:
        return Interval(estimate, math.nan, math.nan)
    quantile = np.sort(values)[min(int(share * n), n - 1)]
    return around(estimate, float(np.maximum(quantile - values, 0.0).var()) / (share**2 * n), n)
