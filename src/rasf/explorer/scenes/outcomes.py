"""The measures of rollouts, alike in all scenes: return, variance, CVaR of the worst tenth, failures and length.

Intervals are in closed form (`rasf.statistics.normal_intervals`): bootstrap intervals of 500 rollouts would take longer
than the rollouts.
"""

from __future__ import annotations

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.library.evaluation import WORST
from rasf.statistics import Interval
from rasf.statistics.normal_intervals import normal_mean, normal_tail, normal_variance, wilson_share


def measures(returns: Floats, failures: Floats, lengths: Ints) -> dict[str, Interval]:
    """Of rollouts (n,) each."""
    at_most_one = bool(np.isin(failures, (0.0, 1.0)).all())
    return {
        "return": normal_mean(returns),
        "variance": normal_variance(returns),
        "cvar": normal_tail(returns, WORST),
        "failures": wilson_share(failures) if at_most_one else within(normal_mean(failures), 0.0),
        "length": normal_mean(lengths.astype(np.float64)),
    }


def within(interval: Interval, low: float, high: float = np.inf) -> Interval:
    """The part of an interval that is possible."""
    return Interval(interval.estimate, max(interval.low, low), min(interval.high, high))


def check_request(episodes: int, seed: int) -> None:
    """Refuse numbers that no rollouts can be made of."""
    for name, number, least in (("episodes", episodes, 1), ("seed", seed, 0)):
        if not isinstance(number, int | np.integer) or number < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {number!r}")
