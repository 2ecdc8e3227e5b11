"""Resampling: 10,000 resamples, some at a time, and where to cut them.

A resample of n runs is n draws with replacement. The draws come from a generator made of the seed, resample after
resample, so that neither the results nor their bits depend on how many are held in memory at once.

Cut at 2.5 and 97.5 %, intervals would be too short for few runs: the mean of a resample spreads less than that of new
data, by sqrt((n - 1) / n), and this spread is itself an estimate. For normal data such intervals of the mean cover
P(|t_{n-1}| < 1.96 sqrt((n - 1) / n)): 85 % with 5 runs, 90 % with 10 and 94 % with 30. So they are cut farther out, at
Phi(-+ t_{n-1, 0.975} sqrt(n / (n - 1))), which for the mean of normal data gives Student's interval, and which other
statistics inherit (Hesterberg, "What teachers should know about the bootstrap", 2015, calls it expanded percentiles).
Measured on normal data, intervals of the mean then cover 95 % with 10 values and 92 % with 5, whose resamples end at
their smallest and largest value. Two samples are cut as the smaller, strata as one of them: a bit too far out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import ndtr, stdtrit

RESAMPLES = 10_000
AT_ONCE = 2**20  # numbers held at once: 8 MB an array
COVERED = 0.95


def tails(n: int) -> tuple[float, float]:
    """Where to cut the resamples of n values."""
    if n < 2:
        return (1 - COVERED) / 2, (1 + COVERED) / 2  # all resamples are the same
    low = float(ndtr(-stdtrit(n - 1, (1 + COVERED) / 2) * np.sqrt(n / (n - 1))))
    return low, 1 - low


def blocks(numbers: int) -> Iterator[int]:
    """Sizes of consecutive blocks of resamples, where one resample takes so many numbers."""
    at_once = max(1, AT_ONCE // numbers)
    for start in range(0, RESAMPLES, at_once):
        yield min(at_once, RESAMPLES - start)
