"""Conditional value at risk: the mean of the worst fraction alpha of the outcomes.

    CVaR_alpha[X] = (1 / alpha) integral_0^alpha F^{-1}(u) du,        alpha = 1 is the mean.

For the normal law, m - sd pdf(q) / alpha at the alpha-quantile q. The paper names risk measures of this kind as an open
extension: there is no Bellman equation for it, so it scores laws but does not plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from rasf.risk.base import Array, Risk, array_namespace


@dataclass(frozen=True)
class CVaR(Risk):
    """Mean of the worst `alpha` of the outcomes, 0 < alpha <= 1."""

    alpha: float
    supports: ClassVar[frozenset[str]] = frozenset({"samples", "histogram", "moments"})

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1:
            raise ValueError(f"alpha must be in (0, 1], got {self.alpha}")

    def histogram(self, probs: Array, atoms: Array) -> Array:
        """CVaR (...) of probabilities (..., N) over atoms; an atom on the boundary counts in part."""
        xp = array_namespace(probs, atoms)
        probs, atoms = xp.broadcast_arrays(xp.asarray(probs) * 1.0, xp.asarray(atoms) * 1.0)
        order = xp.argsort(atoms, axis=-1)
        probs, atoms = xp.take_along_axis(probs, order, -1), xp.take_along_axis(atoms, order, -1)
        below = xp.cumsum(probs, axis=-1) - probs
        tail = xp.clip(self.alpha - below, 0.0, probs)
        return xp.sum(tail * xp.where(tail > 0, atoms, 0.0), axis=-1) / xp.sum(tail, axis=-1)

    def moments(self, mean: Array, variance: Array) -> Array:
        """CVaR of the normal law with this mean and variance."""
        xp = array_namespace(mean, variance)
        positive = xp.asarray(variance) > 0
        spread = xp.where(positive, xp.sqrt(xp.where(positive, variance, 1.0)), 0.0)  # no slope below zero
        return mean - normal_tail_factor(self.alpha) * spread

    def at_discount(self, z: Array) -> CVaR:
        """CVaR is positively homogeneous: scaling the return changes no choice."""
        return self


def normal_tail_factor(alpha: float) -> float:
    """pdf(q) / alpha at the alpha-quantile q of the standard normal law."""
    from scipy.special import ndtri

    return math.exp(-(float(ndtri(alpha)) ** 2) / 2) / math.sqrt(2 * math.pi) / alpha
