"""Intervals of a variance and of CVaR in closed form. Computing bootstrap intervals would take longer than rollouts.

An interval is the estimate +- t se, with Student's quantile t, as in `rasf.statistics.intervals.normal_mean`. The
standard error se from n values x is:

    variance   se^2 = (m4 - s^4 (n - 3) / (n - 1)) / n, with the variance s^2 and the fourth central moment m4
    CVaR       se^2 = var(max(q - x, 0)) / (a^2 n), with the share a of worst values and the a-quantile q; this formula
               follows from the influence function of CVaR
"""

from __future__ import annotations

import math

import numpy as np

from rasf.arrays import Floats
from rasf.statistics.intervals import Interval, around, mean_of_the_worst


def normal_variance(values: Floats) -> Interval:
    """Return the variance of values (n,), with an interval whose lower end is at least 0."""
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
        values: Values (n,).
        share: The share, between 0 and 1. If share x n is not a whole number, one value has a smaller weight.

    Returns:
        The interval. Its ends are nan if share x n is below 2.
    """
    n, estimate = len(values), float(mean_of_the_worst(values, share))
    if share * n < 2:
        return Interval(estimate, math.nan, math.nan)
    quantile = np.sort(values)[min(int(share * n), n - 1)]
    return around(estimate, float(np.maximum(quantile - values, 0.0).var()) / (share**2 * n), n)
