"""Numbers from few runs and their uncertainty: standard errors as the paper draws, bootstrap intervals for the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rasf.mdp import Floats, Ints

_RESAMPLES = 10_000


class Interval(NamedTuple):
    """An estimate with its 95 % interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.3g} [{self.low:.3g}, {self.high:.3g}]"


def standard_error(values: Floats, axis: int = 0) -> Floats:
    """Of the mean over `axis`; zeros for a single value."""
    n = values.shape[axis]
    return values.std(axis=axis, ddof=1) / np.sqrt(n) if n > 1 else np.zeros_like(values.mean(axis=axis))


def mean_interval(values: Floats, seed: int = 0) -> Interval:
    """Bootstrap interval of the mean of values (n,)."""
    return interval_of(values, lambda drawn: drawn.mean(axis=-1), seed)


def interval_of(values: Floats, statistic: Callable[[Floats], Floats], seed: int = 0) -> Interval:
    """Bootstrap interval of a statistic of values (n,); it takes values (.., n) and gives (..)."""
    low, high = np.quantile(statistic(values[_resampled(len(values), seed)]), [0.025, 0.975])
    return Interval(float(statistic(values)), float(low), float(high))


def ratio_interval(numerator: Floats, denominator: Floats, seed: int = 0) -> Interval:
    """Bootstrap interval of the ratio of means of paired values (n,)."""
    drawn = _resampled(len(numerator), seed)
    ratios = numerator[drawn].mean(axis=1) / denominator[drawn].mean(axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return Interval(float(numerator.mean() / denominator.mean()), float(low), float(high))


def slopes(values: Floats) -> Floats:
    """Least-squares slope of each row (n, T) against 0 .. T - 1."""
    time = np.arange(values.shape[1]) - (values.shape[1] - 1) / 2
    return values @ time / (time @ time)


def _resampled(n: int, seed: int) -> Ints:
    return np.random.default_rng(seed).integers(n, size=(_RESAMPLES, n))
