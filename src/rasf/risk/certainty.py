"""Optimised certainty equivalents: rho[X] = max_b b + E u(X - b).

u is concave and not decreasing, with u(0) = 0 and slope 1 at 0. An amount b is counted as certain, and u scores the
difference X - b; the best b is the *threshold*. If the threshold is fixed at the start of an episode, the risk of
the whole return becomes an ordinary expectation, E u(accrued + remaining return - threshold) (`rasf.planning.static`).

    risk                           u(x)                                      threshold
    CVaR(alpha)                    min(x, 0) / alpha                         the alpha-quantile
    PiecewiseLinear(gain, loss)    gain x above 0, loss x below              the quantile (1 - gain) / (loss - gain)
    MonotoneMeanVariance(beta)     x + beta x^2 / 2, constant from its top   b with E u'(X - b) = 1
    Entropic(beta), beta <= 0      (exp(beta x) - 1) / beta                  rho[X] itself

Mean-variance has no such form, because it can prefer a return that is surely smaller. `rasf.risk.monotone` is the
variant that cannot.
"""

from __future__ import annotations

import numpy as np

from rasf.arrays import Array, array_namespace
from rasf.risk.base import Risk, special_function

_SQRT_OF_TAU = 2.5066282746310002


class CertaintyEquivalent(Risk):
    """An optimised certainty equivalent. A subclass defines its utility u; `averse` is whether u is concave."""

    @property
    def averse(self) -> bool:
        return True

    def utility(self, x: Array) -> Array:
        """Return u (...) of numbers.

        Args:
            x: Numbers (...).
        """
        raise NotImplementedError

    def threshold(self, probs: Array, atoms: Array) -> Array:
        """Return the threshold (...) of histograms, the b that attains the maximum.

        Args:
            probs: Probabilities (..., N).
            atoms: Atoms (N,) or (..., N).
        """
        raise NotImplementedError

    def steepest(self, least: float) -> float:
        """Return the largest slope of u on [least, inf).

        Args:
            least: The lower end of the interval.
        """
        raise NotImplementedError

    def spread_cost(self, x: Array, variance: Array) -> Array:
        """Return an upper bound (...) on u(x) - E u(Y) for all Y with mean x and this variance, in numpy.

        The bound is infinite unless a subclass overrides this method.

        Args:
            x: Means (...).
            variance: Variances (...).
        """
        return np.where(np.asarray(variance) > 0, np.inf, 0.0 * x)

    def normal(self, mean: Array, std: Array) -> Array:
        """Return numbers (...) that order normal distributions as E u(X) does, in numpy.

        Args:
            mean: Means (...).
            std: Standard deviations (...).
        """
        raise NotImplementedError

    def normal_threshold(self, mean: Array, std: Array) -> Array:
        """Return the threshold (...) of normal distributions, in numpy.

        Args:
            mean: Means (...).
            std: Standard deviations (...).
        """
        raise NotImplementedError

    def with_threshold(self, probs: Array, atoms: Array) -> tuple[Array, Array]:
        """Return rho (...) of histograms, and the threshold (...) at which it is attained.

        Args:
            probs: Probabilities (..., N).
            atoms: Atoms (N,) or (..., N).
        """
        b = self.threshold(probs, atoms)
        xp = array_namespace(probs, atoms, b)
        kept = xp.where(xp.asarray(probs) > 0, self.utility(atoms - b[..., None]), 0.0)
        return b + xp.sum(probs * kept, axis=-1), b


def static_risk(risk: Risk) -> CertaintyEquivalent:
    """Return a risk whose threshold can be fixed at the start of an episode; refuse other risks."""
    if not isinstance(risk, CertaintyEquivalent) or not risk.averse:
        raise ValueError(
            "risk must be a certainty equivalent to be static: CVaR, Entropic with beta <= 0, "
            f"MonotoneMeanVariance or rasf.risk.PiecewiseLinear, got {risk!r}"
        )
    return risk


def quantile(probs: Array, atoms: Array, level: float) -> Array:
    """Return the least atom (...) with a mass of at least `level` at or below it."""
    xp = array_namespace(probs, atoms)
    probs, atoms = ascending(probs, atoms)
    reached = xp.cumsum(probs, axis=-1) >= level - 1e-12
    some = xp.where(reached & (probs > 0), atoms, xp.inf)
    largest = xp.max(xp.where(probs > 0, atoms, -xp.inf), axis=-1)  # used if rounding leaves all mass below the level
    return xp.minimum(xp.min(some, axis=-1), largest)


def ascending(probs: Array, atoms: Array) -> tuple[Array, Array]:
    """Return probabilities and atoms (..., N) in increasing order of the atoms."""
    xp = array_namespace(probs, atoms)
    probs, atoms = xp.broadcast_arrays(xp.asarray(probs) * 1.0, xp.asarray(atoms) * 1.0)
    order = xp.argsort(atoms, axis=-1)
    return xp.take_along_axis(probs, order, -1), xp.take_along_axis(atoms, order, -1)


def kink_cost(x: Array, variance: Array) -> Array:
    """Return Scarf's upper bound (...) on min(x, 0) - E min(Y, 0), for all Y with mean x and this variance."""
    return (np.sqrt(variance + x**2) - np.abs(x)) / 2


def below_zero(mean: Array, std: Array) -> Array:
    """Return E min(X, 0) of normal distributions."""
    spread = np.maximum(std, 1e-12)
    return mean * special_function(np, "ndtr")(-mean / spread) - spread * normal_density(mean / spread)


def normal_density(t: Array) -> Array:
    """Return the density of the standard normal distribution."""
    return array_namespace(t).exp(-(t**2) / 2) / _SQRT_OF_TAU
