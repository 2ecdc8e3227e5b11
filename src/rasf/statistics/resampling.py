"""Resampling: 10,000 resamples in blocks, and the quantiles of the resamples that are the ends of intervals.

A resample of n runs is n draws with replacement. One generator, made from the seed, draws one resample after the other,
so the results do not depend on the size of the blocks.

If intervals were cut at 2.5 and 97.5 %, they would be too short for few runs: the standard deviation of the mean of a
resample is smaller than that of the mean of new data, by the factor sqrt((n - 1) / n), and it is itself an estimate.
For normal data such intervals of the mean cover P(|t_{n-1}| < 1.96 sqrt((n - 1) / n)): 85 % with 5 runs, 90 % with 10
and 94 % with 30. So intervals are cut farther out, at Phi(-+ t_{n-1, 0.975} sqrt(n / (n - 1))). For the mean of normal
data this gives Student's interval, and the same cut is used for all statistics (Hesterberg, "What teachers should know
about the bootstrap", 2015, calls it expanded percentiles). Measured on normal data, intervals of the mean then cover
95 % with 10 values and 92 % with 5. (With 5 values the interval is short because it cannot extend beyond the smallest
and the largest value.) For two samples, n is the size of the smaller sample. For strata, n is the size of one stratum,
so intervals are slightly too wide.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import ndtr, stdtrit

RESAMPLES = 10_000
AT_ONCE = 2**20  # numbers in memory at once: 8 MB per array
COVERED = 0.95


def tails(n: int) -> tuple[float, float]:
    """Return the levels of the two quantiles of the resamples at which intervals are cut, for n values."""
    if n < 2:
        return (1 - COVERED) / 2, (1 + COVERED) / 2  # any quantiles do: all resamples of one value are the same
    low = float(ndtr(-stdtrit(n - 1, (1 + COVERED) / 2) * np.sqrt(n / (n - 1))))
    return low, 1 - low


def blocks(numbers: int) -> Iterator[int]:
    """Yield the numbers of resamples in consecutive blocks, given how many `numbers` one resample takes."""
    at_once = max(1, AT_ONCE // numbers)
    for start in range(0, RESAMPLES, at_once):
        yield min(at_once, RESAMPLES - start)
