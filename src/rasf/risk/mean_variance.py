"""Mean-variance: mean + (beta / 2) variance, the second-order expansion of the entropic utility.

This file owns the sign and the factor of the variance term. The paper's experiments write the bare factor beta instead
of beta / 2; `from_paper` converts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rasf.arrays import Array, array_namespace
from rasf.risk.base import BetaRisk, check_beta, histogram_moments


def variance_term(beta: Array, variance: Array) -> Array:
    """(beta / 2) variance; an estimate below zero counts as zero."""
    xp = array_namespace(beta, variance)
    with np.errstate(over="ignore"):  # a risk beyond all measure: whatever varies at all is out of the question
        return beta / 2 * xp.maximum(variance, 0.0)


@dataclass(frozen=True)
class MeanVariance(BetaRisk):
    """mean + (beta / 2) variance."""

    supports: ClassVar[frozenset[str]] = frozenset({"samples", "histogram", "moments", "independent"})

    @property
    def variance_weight(self) -> Array:
        """beta / 2, the factor of the variance; compiled code is given this number."""
        return self.beta / 2

    @classmethod
    def from_paper(cls, beta: float) -> MeanVariance:
        """The risk of the paper's experiments, which write mean + beta variance."""
        check_beta(beta)
        return cls(2 * beta)

    def histogram(self, probs: Array, atoms: Array) -> Array:
        """Score (...) of probabilities (..., N) over atoms."""
        return self.moments(*histogram_moments(probs, atoms))

    def moments(self, mean: Array, variance: Array) -> Array:
        """Score of a mean and a variance."""
        return mean + variance_term(self.beta, variance)

    def independent(self, probs: Array, atoms: Array, w: Array) -> Array:
        """Score of sum_i w_i Z_i: means add up, and so do the variances of independent features."""
        xp = array_namespace(probs, atoms, w)
        mean, variance = histogram_moments(probs, atoms)
        return self.moments(xp.sum(mean * w, axis=-1), xp.sum(variance * xp.asarray(w) ** 2, axis=-1))
