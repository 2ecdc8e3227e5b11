"""Monotone mean-variance: mean-variance that never prefers a worse outcome.

Mean-variance can prefer a certain loss to a lottery of gains, if the lottery varies enough. Monotone mean-variance is
the certainty equivalent (`rasf.risk.certainty`) of the utility

    u(x) = x - theta x^2 / 2 for x <= 1 / theta, and constant above,      theta = -beta

so the risk is rho[X] = max_b b + E u(X - b). It equals mean + (beta / 2) variance if no outcome lies more than
1 / theta above the mean. rho never falls if an outcome rises. With k = b + 1 / theta,

    rho[X] = max_k  k - 1 / (2 theta) - (theta / 2) E[((k - X)^+)^2]

So at the best k, only outcomes below k lower the score. For histograms the maximum is found exactly. For a normal
distribution of mean m and standard deviation s, let Phi and phi be the standard normal distribution function and
density, and g(z) = z Phi(z) + phi(z). Then

    rho = m - (s / 2) (g(-z) + theta s Phi(z)),        where z solves g(z) = 1 / (theta s)

This rho is above the mean-variance m - theta s^2 / 2, and close to it for small theta s. For large theta s, rho is
about m - s sqrt(2 log(theta s)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rasf.arrays import Array, array_namespace
from rasf.risk.base import BetaRisk, concrete, special_function
from rasf.risk.certainty import CertaintyEquivalent, ascending, normal_density
from rasf.risk.cvar import convolution

_STEPS = 4  # number of steps of Newton's method, which give a relative error of at most 2e-10
_LEAST_GOAL = 1e-20  # smaller values of 1 / (theta s) are raised to 1e-20, because z cannot be computed in float32
_LEAST_STEEP = 1e-3  # if theta s is smaller, g(-z) + theta s Phi(z) is replaced by theta s, its value up to rounding


@dataclass(frozen=True)
class MonotoneMeanVariance(BetaRisk, CertaintyEquivalent):
    """Mean-variance at `beta` <= 0 that never prefers a return that is lower in every case.

    `beta` has the same scale as in `MeanVariance`. With strong aversion, this risk is safer than `MeanVariance`, which
    can prefer a certain loss.
    """

    supports: ClassVar[frozenset[str]] = frozenset({"samples", "histogram", "moments", "independent"})

    def __post_init__(self) -> None:
        super().__post_init__()
        beta = concrete(self.beta)
        if beta is not None and beta > 0:
            raise ValueError(f"beta of MonotoneMeanVariance must be at most 0, got {self.beta}")

    def utility(self, x: Array) -> Array:
        """Return x - theta x^2 / 2 for x <= 1 / theta, and a constant above."""
        if concrete(self.beta) == 0:
            return x
        xp = array_namespace(x, self.beta)
        bounded = xp.minimum(x, self._top)
        return bounded + self.beta / 2 * bounded**2

    @property
    def _top(self) -> Array:
        """The number 1 / theta above which u is constant; infinity at beta 0."""
        if concrete(self.beta) is not None:
            return np.inf if self.beta == 0 else -1 / self.beta
        xp, averse = array_namespace(self.beta), self.beta < 0
        return xp.where(averse, -1 / xp.where(averse, self.beta, -1.0), xp.inf)

    def steepest(self, least: float) -> float:
        return max(0.0, 1 + float(self.beta) * least)

    def spread_cost(self, x: Array, variance: Array) -> Array:
        """Return theta / 2 times the variance. This is an upper bound on u(x) - E u(Y), because u'' is -theta or 0."""
        return -self.beta / 2 * variance

    def threshold(self, probs: Array, atoms: Array) -> Array:
        """Return the number b with E u'(X - b) = 1. At beta 0, return the mean."""
        xp, theta = array_namespace(probs, atoms, self.beta), -self.beta
        probs, atoms = ascending(probs, atoms)
        mass, moment = xp.cumsum(probs, axis=-1), xp.cumsum(probs * xp.where(probs > 0, atoms, 0.0), axis=-1)
        if concrete(self.beta) == 0:
            return moment[..., -1]
        some, averse = mass > 0, theta > 0
        theta = xp.where(averse, theta, 1.0)
        root = xp.where(some, (1 - mass + theta * moment) / (theta * xp.where(some, mass, 1.0)), -xp.inf)
        # root[k] solves the equation if only atoms 0 .. k lie below root[k] + 1 / theta; the first root that fits is b
        following = xp.concatenate([atoms[..., 1:], xp.full_like(atoms[..., :1], xp.inf)], axis=-1)
        fits = some & (root + 1 / theta <= following + 1e-12 * (1 + xp.abs(following)))
        first = xp.argmax(fits, axis=-1)
        return xp.where(averse, xp.take_along_axis(root, first[..., None], axis=-1)[..., 0], moment[..., -1])

    def histogram(self, probs: Array, atoms: Array) -> Array:
        """Return the score (...) of probabilities (..., N) over atoms."""
        return self.with_threshold(probs, atoms)[0]

    def independent(self, probs: Array, atoms: Array, w: Array) -> Array:
        """Return the score (...) of sum_i w_i Z_i, by convolution of the distributions of the weighted features."""
        return self.histogram(*convolution(probs, atoms, w))

    def moments(self, mean: Array, variance: Array) -> Array:
        """Return the score (...) of the normal distribution with this mean and variance."""
        xp = array_namespace(mean, variance, self.beta)
        positive = xp.asarray(variance) > 0
        spread = xp.sqrt(xp.where(positive, variance, 1.0))
        steep = xp.where(positive, -self.beta * spread, 0.0)  # theta s
        bounded = steep > _LEAST_STEEP
        cost = xp.where(bounded, _cost(xp.where(bounded, steep, 1.0)), steep)
        return mean - spread / 2 * cost

    def normal(self, mean: Array, std: Array) -> Array:
        """Return E u(X) of normal distributions."""
        if self.beta == 0:
            return mean
        c = -self.beta
        short, spread = 1 / c - mean, np.maximum(std, 1e-12)
        t = short / spread
        above, density = special_function(np, "ndtr")(t), normal_density(t)
        return 1 / (2 * c) - c / 2 * ((short**2 + spread**2) * above + short * spread * density)

    def normal_threshold(self, mean: Array, std: Array) -> Array:
        """Return the number b with E u'(X - b) = 1 for normal distributions."""
        if self.beta == 0:
            return mean
        spread = np.maximum(std, 1e-9)
        return mean + spread * _root(-1 / (self.beta * spread)) + 1 / self.beta


def _cost(steep: Array) -> Array:
    """Return g(-z) + theta s Phi(z) for theta s (...) above 0."""
    xp = array_namespace(steep)
    z = _root(1 / steep)
    return _shortfall(-z) + steep * special_function(xp, "ndtr")(z)


def _root(goal: Array) -> Array:
    """Return z (...) with g(z) = goal, for goals (...) above 0.

    log g is concave. So Newton's method on log g approaches the root from below after its first step.
    """
    xp = array_namespace(goal)
    goal = xp.maximum(goal, _LEAST_GOAL)
    z = xp.where(goal > 0.3, goal, -xp.sqrt(2 * xp.log(1 / xp.minimum(goal, 0.3))))
    for _ in range(_STEPS):
        value = _shortfall(z)
        z = z - value / special_function(xp, "ndtr")(z) * xp.log(value / goal)
    return z


def _shortfall(z: Array) -> Array:
    """Return g(z) = E[(z - N)^+] (...) of a standard normal N."""
    return z * special_function(array_namespace(z), "ndtr")(z) + normal_density(z)
