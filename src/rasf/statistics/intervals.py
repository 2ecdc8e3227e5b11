"""Intervals for one list of values (n,): by the bootstrap, and in closed form where that takes too long.

Standard error of the mean, as the paper draws: s / sqrt(n) with s^2 = sum_i (x_i - mean)^2 / (n - 1). For scores
(runs, tasks), that of a task is over axis 0 and that of the mean over tasks is of `scores.mean(axis=1)`.

Closed forms are estimate +- t standard errors, t Student's quantile (1.96 for many values):

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
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from rasf.arrays import Floats
from rasf.statistics.resampling import blocks, tails

_Z = 1.959963984540054  # of 95 %


class Interval(NamedTuple):
    """An estimate with its 95 % interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.3g} [{self.low:.3g}, {self.high:.3g}]"

    @classmethod
    def of(cls, estimate: Floats | float, drawn: list[Floats], n: int) -> Interval:
        """From the statistic of n values and, block by block, of their resamples."""
        low, high = np.quantile(np.concatenate(drawn), tails(n))
        return cls(float(estimate), float(low), float(high))


def standard_error(values: Floats, axis: int = 0) -> Floats:
    """Of the mean over `axis`; zeros for a single value."""
    n = values.shape[axis]
    return values.std(axis=axis, ddof=1) / np.sqrt(n) if n > 1 else np.zeros_like(values.mean(axis=axis))


def mean_interval(values: Floats, seed: int = 0) -> Interval:
    """Bootstrap interval of the mean of values (n,)."""
    return interval_of(values, lambda drawn: drawn.mean(axis=-1), seed)


def interval_of(values: Floats, statistic: Callable[[Floats], Floats], seed: int = 0) -> Interval:
    """Bootstrap interval of a statistic of values (n,); it takes values (.., n) and gives (..)."""
    return joint_interval(statistic, values, seed=seed)


def ratio_interval(numerator: Floats, denominator: Floats, seed: int = 0) -> Interval:
    """Bootstrap interval of the ratio of means of paired values (n,)."""
    return joint_interval(
        lambda top, bottom: top.mean(axis=-1) / bottom.mean(axis=-1), numerator, denominator, seed=seed
    )


def joint_interval(statistic: Callable[..., Floats], *values: Floats, seed: int = 0) -> Interval:
    """Bootstrap interval of a statistic of lists (n,) whose entries belong together; it takes (.., n) of each."""
    n, generator, drawn = len(values[0]), np.random.default_rng(seed), []
    for block in blocks(n):
        chosen = generator.integers(n, size=(block, n))
        drawn.append(statistic(*(part[chosen] for part in values)))
    return Interval.of(statistic(*values), drawn, n)


def mean_of_the_worst(values: Floats, share: float) -> Floats:
    """CVaR (..) of values (.., n), as `CVaR.samples` has it, but in a tenth of its time; the last may count in part."""
    n = values.shape[-1]
    part = np.clip(share * n - np.arange(n), 0.0, 1.0)
    return np.asarray(np.sort(values, axis=-1) @ (part / part.sum()))


def slopes(values: Floats) -> Floats:
    """Least-squares slope of each row (n, T) against 0 .. T - 1."""
    time: Floats = np.arange(values.shape[1]) - (values.shape[1] - 1) / 2
    return np.asarray(values @ time / (time @ time))


def normal_mean(values: Floats) -> Interval:
    """The mean of values (n,) in closed form; that of one value is a point."""
    n = len(values)
    return _around(float(values.mean()), float(values.var(ddof=1)) / n if n > 1 else 0.0, n)


def normal_variance(values: Floats) -> Interval:
    """The variance of values (n,) in closed form, never below 0."""
    n = len(values)
    if n < 2:
        return Interval(0.0, 0.0, 0.0)
    centred = values - values[0]  # equal values have no variance at all
    variance, fourth = float(centred.var(ddof=1)), float(((centred - centred.mean()) ** 4).mean())
    found = _around(variance, max(fourth - variance**2 * (n - 3) / (n - 1), 0.0) / n, n)
    return Interval(found.estimate, max(found.low, 0.0), found.high)


def normal_tail(values: Floats, share: float) -> Interval:
    """CVaR in closed form: the mean of the worst `share` of values (n,), a value on the boundary counting in part.

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
