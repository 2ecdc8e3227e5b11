"""Resampling: the blocks in which 10,000 resamples are drawn, and the quantiles at which intervals end.

A resample of n runs is n draws with replacement. One generator, made from the seed, draws one resample after the other,
so the results do not depend on the size of the blocks.

The 2.5 % and 97.5 % quantiles of resamples would give intervals that are too short for few runs, for two reasons. The
standard deviation of the mean of a resample is smaller than that of the mean of new data, by the factor
sqrt((n - 1) / n). And the runs give only an estimate of this standard deviation. For normal data such intervals would
contain the true mean with probability P(|t_{n-1}| < 1.96 sqrt((n - 1) / n)), where t_{n-1} has Student's distribution
with n - 1 degrees of freedom. This probability is 85 % with 5 runs, 90 % with 10 runs and 94 % with 30 runs.

So the quantiles at the levels Phi(-+ t_{n-1, 0.975} sqrt(n / (n - 1))) are used, where Phi is the standard normal
distribution function and t_{n-1, 0.975} a quantile of t_{n-1}. For the mean of normal data this gives Student's
interval. The same levels are used for all statistics (expanded percentiles: Hesterberg, "What teachers should know
about the bootstrap", 2015). In experiments with normal data, these intervals of the mean cover 95 % with 10 values and
92 % with 5 values. (With 5 values the interval is short because it cannot extend beyond the smallest and the largest
value.) For two samples, n is the size of the smaller sample. For strata, n is the size of one stratum, so intervals are
slightly too wide.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import ndtr, stdtrit

RESAMPLES = 10_000
AT_ONCE = 2**20  # largest number of values in the resamples of a block (8 MB per array)
COVERED = 0.95


def tails(n: int) -> tuple[float, float]:
    """Return the levels of the quantiles (of the resamples of n values) that are the two ends of an interval."""
    if n < 2:
        return (1 - COVERED) / 2, (1 + COVERED) / 2  # any levels would do: resamples of one value are equal
    low = float(ndtr(-stdtrit(n - 1, (1 + COVERED) / 2) * np.sqrt(n / (n - 1))))
    return low, 1 - low


def blocks(numbers: int) -> Iterator[int]:
    """Yield the number of resamples in each block, given that a resample has `numbers` numbers."""
    at_once = max(1, AT_ONCE // numbers)
    for start in range(0, RESAMPLES, at_once):
        yield min(at_once, RESAMPLES - start)
