"""Mean, standard error and bootstrap intervals of one list of values (n,).

Standard error of the mean, as the paper draws: s / sqrt(n) with s^2 = sum_i (x_i - mean)^2 / (n - 1). For scores
(runs, tasks), that of a task is over axis 0 and that of the mean over tasks is of `scores.mean(axis=1)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rasf.arrays import Floats
from rasf.statistics.bootstrap import drawn_values, tails


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
    n = len(values[0])
    drawn = [statistic(*(part[chosen] for part in values)) for chosen in drawn_values(n, seed)]
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
