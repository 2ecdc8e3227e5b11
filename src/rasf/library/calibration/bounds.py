"""Calibrated bounds on the results of acting with a library.

A calibration runs a few episodes of each query (a task at a risk), and records the errors of the library's predictions.
Bounds are order statistics of these errors, as in conformal prediction: 95 % of new queries from the same distribution
keep their bound, for any distribution of the errors. Errors vary between queries, and also by chance, because each
query has few episodes. The standard error of the part due to chance is known. Errors are shrunk accordingly, so that a
bound holds for the expectation of a query and not for the mean of a few episodes. Shrinking restores the variance
between queries, but not the shape of the distribution. So coverage falls below 95 % if only few queries have large
errors and the part due to chance is large. In a simulation in the tests, in which a tenth of the queries have large
errors, coverage is 92 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rasf.arrays import Floats
from rasf.files import Header

LEVEL = 0.95
AT_THE_LEVEL = 1.6448536270  # the 95 % quantile of a standard normal distribution
AT_LEAST = ("mean", "cvar")  # quantities that are bounded from below
_ALIKE = 0.25  # the variance between queries is estimated as at least this share of the variance of the errors


class Bound(NamedTuple):
    """A prediction corrected by the calibration, and two bounds: low <= expected <= high.

    Each bound is meant to hold for 95 % of further tasks like those of the calibration. It is an estimate, not a
    guarantee.
    """

    expected: float
    low: float
    high: float


@dataclass(frozen=True)
class Bounds:
    """Calibrated bounds for one query, by quantity: mean, spread and cvar of the discounted return, and each cost."""

    by_quantity: Mapping[str, Bound]
    remarks: tuple[str, ...] = ()

    def sides(self) -> dict[str, str]:
        """Return one bound of each quantity in words: the lower bound of mean and CVaR, else the upper bound.

        A cost whose feature is 0 or negative, such as -1 for each step, is given with its lower bound.
        """
        below = {name for name, bound in self.by_quantity.items() if bound.low < 0 >= bound.high}
        return {
            name: f"at least {bound.low:.4g}" if name in {*AT_LEAST, *below} else f"at most {bound.high:.4g}"
            for name, bound in self.by_quantity.items()
        }

    def lines(self) -> list[str]:
        """Return a line for each bound."""
        return [
            f"{name:20s} {side} ({LEVEL:.0%}), expected {self.by_quantity[name].expected:.4g}"
            for name, side in self.sides().items()
        ]

    def __str__(self) -> str:
        return "\n".join([*self.lines(), *self.remarks])

    def sentence(self) -> str:
        """Return the bounds in one line."""
        return ", ".join(f"{name} {side}" for name, side in self.sides().items()) + f" ({LEVEL:.0%} each)"

    def describe(self) -> Header:
        """Return the bounds as JSON."""
        return {name: bound._asdict() for name, bound in self.by_quantity.items()} | {"remarks": list(self.remarks)}


def bounds_of_errors(errors: Floats, by_chance: Floats, level: float) -> tuple[Floats, Floats]:
    """Return bounds on the errors of new queries.

    Args:
        errors: errors of n queries in q quantities, (n, q).
        by_chance: the standard errors (n, q) of these errors, which are due to the small number of episodes.
        level: the share of new queries that keep each bound.

    Returns:
        The lower and the upper bounds (q,).
    """
    n, ordered = len(errors), np.sort(shrunk(errors, by_chance), axis=0)
    rank = min(n, int(np.ceil((n + 1) * level)))
    unsure = AT_THE_LEVEL * np.sqrt(errors.var(axis=0, ddof=1) / n)  # the mean of n errors has a sampling error
    return ordered[n - rank] - unsure, ordered[rank - 1] + unsure


def shrunk(errors: Floats, by_chance: Floats) -> Floats:
    """Return the errors (n, q) of n queries, shrunk towards the mean over queries.

    The larger the share of the variance due to chance, the more errors are shrunk. `by_chance` (n, q) are the standard
    errors due to chance. The variance between queries is the variance of the errors minus the variance due to chance,
    but at least a quarter of the variance of the errors, because the difference is imprecise if most variance is due to
    chance.
    """
    noise, centre, variance = by_chance**2, errors.mean(axis=0), errors.var(axis=0, ddof=1)
    between = np.maximum(variance - noise.mean(axis=0), _ALIKE * variance)
    share = between / np.maximum(between + noise, 1e-300)
    return np.asarray(centre + (errors - centre) * np.sqrt(share))


def enough(level: float) -> int:
    """Return the least number of queries for a bound of this level. For fewer, the largest error is the bound."""
    return int(np.ceil(level / (1 - level) - 1e-9))
