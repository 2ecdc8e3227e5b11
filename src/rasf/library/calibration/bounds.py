"""Calibrated bounds: what they say, and how they follow from the errors of queries that were tried.

Bounds are order statistics of the errors, as conformal ones are: of further queries that are drawn as those of the
calibration were, 95 % keep them, whatever the distribution of the errors. But errors vary between queries and by chance
within one. The spread of the second part is known, and errors are shrunk by it, so that the bound is on the expectation
of a query and not on the few episodes that were run. That is a model, and it costs some certainty where a few queries
are far off and chance is large (92 % in a simulation where a tenth are; tests have it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rasf.arrays import Floats
from rasf.files import Header

LEVEL = 0.95
AT_THE_LEVEL = 1.6448536270  # spreads above the mean that hold 95 % of a normal distribution
AT_LEAST = ("mean", "cvar")  # quantities that are bounded from below
_ALIKE = 0.25


class Bound(NamedTuple):
    """The expected value, corrected by the calibration, and what holds with 95 % each: at least `low`, at most `high`.

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
        """The side of each bound that matters: at least so much return, at most so much of a cost.

        Costs that are counted below zero are at least so much.
        """
        below = {name for name, bound in self.by_quantity.items() if bound.low < 0 >= bound.high}
        return {
            name: f"at least {bound.low:.4g}" if name in {*AT_LEAST, *below} else f"at most {bound.high:.4g}"
            for name, bound in self.by_quantity.items()
        }

    def lines(self) -> list[str]:
        """A line for each bound."""
        return [
            f"{name:20s} {side} ({LEVEL:.0%}), expected {self.by_quantity[name].expected:.4g}"
            for name, side in self.sides().items()
        ]

    def __str__(self) -> str:
        return "\n".join([*self.lines(), *self.remarks])

    def sentence(self) -> str:
        """The bounds in one line."""
        return ", ".join(f"{name} {side}" for name, side in self.sides().items()) + f" ({LEVEL:.0%} each)"

    def describe(self) -> Header:
        """As JSON."""
        return {name: bound._asdict() for name, bound in self.by_quantity.items()} | {"remarks": list(self.remarks)}


def bounds_of_errors(errors: Floats, by_chance: Floats, level: float) -> tuple[Floats, Floats]:
    """Return bounds that errors of further queries keep.

    Args:
        errors: of n queries in q quantities, (n, q).
        by_chance: the spread (n, q) of each error that a few episodes cause.
        level: the share of further queries that is to keep each bound.

    Returns:
        The lower and the upper bounds (q,).
    """
    n, ordered = len(errors), np.sort(shrunk(errors, by_chance), axis=0)
    rank = min(n, int(np.ceil((n + 1) * level)))
    unsure = AT_THE_LEVEL * np.sqrt(errors.var(axis=0, ddof=1) / n)  # of the centre
    return ordered[n - rank] - unsure, ordered[rank - 1] + unsure


def shrunk(errors: Floats, by_chance: Floats) -> Floats:
    """Errors (n, q) shrunk to their mean by the share of chance in them; by_chance (n, q) are spreads.

    The variance between queries is that of the errors without chance, but a quarter of it at least: where few episodes
    leave all to chance, nothing says that queries are alike.
    """
    noise, centre, variance = by_chance**2, errors.mean(axis=0), errors.var(axis=0, ddof=1)
    between = np.maximum(variance - noise.mean(axis=0), _ALIKE * variance)
    share = between / np.maximum(between + noise, 1e-300)
    return np.asarray(centre + (errors - centre) * np.sqrt(share))


def enough(level: float) -> int:
    """The fewest queries whose worst but a share 1 - level is an order statistic."""
    return int(np.ceil(level / (1 - level) - 1e-9))
