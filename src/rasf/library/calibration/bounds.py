"""Calibrated bounds, from the errors of the queries of a calibration.

Bounds are order statistics of the errors, as in conformal prediction: of further queries from the same distribution,
95 % keep their bound, whatever the distribution of the errors. Errors vary between queries, and also by chance, because
each query has few episodes. The standard error of the second part is known, and errors are shrunk by it, so that a
bound is on the expectation of a query instead of the mean of few episodes. The shrinkage is a model. It costs some
coverage if few queries have large errors and chance is large (92 % in a simulation in the tests, with a tenth of such
queries).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rasf.arrays import Floats
from rasf.files import Header

LEVEL = 0.95
AT_THE_LEVEL = 1.6448536270  # standard deviations above the mean, below which 95 % of a normal distribution lie
AT_LEAST = ("mean", "cvar")  # quantities that are bounded from below
_ALIKE = 0.25  # least share of the variance of errors that is between queries


class Bound(NamedTuple):
    """An expected value, corrected by the calibration, and bounds below and above, which hold with 95 % each.

    low <= expected <= high.
    """

    expected: float
    low: float
    high: float


@dataclass(frozen=True)
class Bounds:
    """Calibrated bounds for one query, by quantity: mean, spread, cvar (of the discounted return), costs by feature."""

    by_quantity: Mapping[str, Bound]
    remarks: tuple[str, ...] = ()

    def sides(self) -> dict[str, str]:
        """Return the relevant side of each bound in words: a lower bound of mean and CVaR, else an upper bound.

        Costs that are negative features have a lower bound.
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
    """Return bounds on the errors of further queries.

    Args:
        errors: errors of n queries in q quantities, (n, q).
        by_chance: the standard error (n, q) of each of them, due to few episodes.
        level: the share of further queries that keep each bound.

    Returns:
        The lower and the upper bounds (q,).
    """
    n, ordered = len(errors), np.sort(shrunk(errors, by_chance), axis=0)
    rank = min(n, int(np.ceil((n + 1) * level)))
    unsure = AT_THE_LEVEL * np.sqrt(errors.var(axis=0, ddof=1) / n)  # the error of the mean
    return ordered[n - rank] - unsure, ordered[rank - 1] + unsure


def shrunk(errors: Floats, by_chance: Floats) -> Floats:
    """Return errors (n, q) shrunk to their mean by the share of chance; by_chance (n, q) are standard errors.

    The variance between queries is the variance of the errors less that by chance, but at least a quarter of the
    first: if most of it is by chance, it is unknown how much queries differ.
    """
    noise, centre, variance = by_chance**2, errors.mean(axis=0), errors.var(axis=0, ddof=1)
    between = np.maximum(variance - noise.mean(axis=0), _ALIKE * variance)
    share = between / np.maximum(between + noise, 1e-300)
    return np.asarray(centre + (errors - centre) * np.sqrt(share))


def enough(level: float) -> int:
    """Return the fewest queries for a bound of this level; with fewer, the bound is the largest error."""
    return int(np.ceil(level / (1 - level) - 1e-9))
