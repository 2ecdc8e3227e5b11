"""Mean-variance: mean + (beta / 2) variance, the second-order expansion of the entropic utility.

Only this file defines the sign and the factor of the variance term. The paper's experiments have the factor beta
instead of beta / 2; `from_paper` converts a beta of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rasf.arrays import Array, array_namespace
from rasf.risk.base import BetaRisk, check_beta, histogram_moments


def variance_term(beta: Array, variance: Array) -> Array:
    """Return (beta / 2) variance. A negative estimate of the variance is replaced by zero."""
    xp = array_namespace(beta, variance)
    with np.errstate(over="ignore"):  # for an extreme beta the product may be infinite
        return beta / 2 * xp.maximum(variance, 0.0)


@dataclass(frozen=True)
class MeanVariance(BetaRisk):
    """The risk mean + (beta / 2) variance."""

    supports: ClassVar[frozenset[str]] = frozenset({"samples", "histogram", "moments", "independent"})

    @property
    def variance_weight(self) -> Array:
        """The factor of the variance, beta / 2, for compiled code."""
        return self.beta / 2

    @classmethod
    def from_paper(cls, beta: float) -> MeanVariance:
        """Return the risk of the paper's experiments, mean + beta * variance.

        Args:
            beta: The factor of the variance, below 0 for risk aversion.

        Returns:
            `MeanVariance(2 * beta)`.
        """
        check_beta(beta)
        return cls(2 * beta)

    def histogram(self, probs: Array, atoms: Array) -> Array:
        """Return the score (...) of probabilities (..., N) over atoms."""
        return self.moments(*histogram_moments(probs, atoms))

    def moments(self, mean: Array, variance: Array) -> Array:
        """Return mean + (beta / 2) variance."""
        return mean + variance_term(self.beta, variance)

    def independent(self, probs: Array, atoms: Array, w: Array) -> Array:
        """Return the score (...) of sum_i w_i Z_i for independent features Z_i, whose means and variances add up."""
        xp = array_namespace(probs, atoms, w)
        mean, variance = histogram_moments(probs, atoms)
        return self.moments(xp.sum(mean * w, axis=-1), xp.sum(variance * xp.asarray(w) ** 2, axis=-1))
