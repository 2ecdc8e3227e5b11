"""Optimised certainty equivalents: rho[X] = max_b b + E u(X - b).

rho is the risk of the return X. The utility u is concave and not decreasing, with u(0) = 0 and slope 1 at 0. (If u has
a kink at 0, the slopes on its two sides enclose 1.) The b that attains the maximum is the *threshold*. If the threshold
is fixed at the start of an episode, maximising the risk of the whole return is maximising an expectation,
E u(accrued return + remaining return - threshold) (`rasf.planning.static`).

    risk                           u(x)                                      threshold
    CVaR(alpha)                    min(x, 0) / alpha                         the alpha-quantile
    PiecewiseLinear(gain, loss)    gain x above 0, loss x below              the alpha-quantile, with alpha =
                                                                             (1 - gain) / (loss - gain)
    MonotoneMeanVariance(beta)     x + beta x^2 / 2 up to its maximum, then  b with E u'(X - b) = 1
                                   constant
    Entropic(beta), beta <= 0      (exp(beta x) - 1) / beta                  rho[X] itself

Mean-variance has no such form, because mean-variance can prefer a return that is surely smaller. The variant in
`rasf.risk.monotone` never does.
"""

from __future__ import annotations

import numpy as np

from rasf.arrays import Array, array_namespace
from rasf.risk.base import Risk, special_function

_SQRT_OF_TAU = 2.5066282746310002


class CertaintyEquivalent(Risk):
    """An optimised certainty equivalent. A subclass defines the utility u. `averse` is True if u is concave."""

    @property
    def averse(self) -> bool:
        return True

    def utility(self, x: Array) -> Array:
        """Return the utilities u(x) (...) of numbers.

        Args:
            x: Numbers (...).
        """
        raise NotImplementedError

    def threshold(self, probs: Array, atoms: Array) -> Array:
        """Return the thresholds (...) of histograms; a threshold is the b that attains the maximum.

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
        """Return an upper bound (...) on u(x) - E u(Y), for all Y with mean x and the given variance.

        The bound is infinite unless a subclass overrides this method. This method and the next two are for numpy only.

        Args:
            x: Means (...).
            variance: Variances (...).
        """
        return np.where(np.asarray(variance) > 0, np.inf, 0.0 * x)

    def normal(self, mean: Array, std: Array) -> Array:
        """Return scores (...) of normal distributions of X, which rank the distributions as E u(X) does.

        Args:
            mean: Means (...).
            std: Standard deviations (...).
        """
        raise NotImplementedError

    def normal_threshold(self, mean: Array, std: Array) -> Array:
        """Return the threshold (...) of normal distributions.

        Args:
            mean: Means (...).
            std: Standard deviations (...).
        """
        raise NotImplementedError

    def with_threshold(self, probs: Array, atoms: Array) -> tuple[Array, Array]:
        """Return rho (...) and the threshold (...) of histograms.

        Args:
            probs: Probabilities (..., N).
            atoms: Atoms (N,) or (..., N).
        """
        b = self.threshold(probs, atoms)
        xp = array_namespace(probs, atoms, b)
        kept = xp.where(xp.asarray(probs) > 0, self.utility(atoms - b[..., None]), 0.0)
        return b + xp.sum(probs * kept, axis=-1), b


def static_risk(risk: Risk) -> CertaintyEquivalent:
    """Return the risk unchanged if its threshold can be fixed at the start of an episode, else raise a ValueError."""
    if not isinstance(risk, CertaintyEquivalent) or not risk.averse:
        raise ValueError(
            "risk must be a certainty equivalent to be static: CVaR, Entropic with beta <= 0, "
            f"MonotoneMeanVariance or rasf.risk.PiecewiseLinear, got {risk!r}"
        )
    return risk


def quantile(probs: Array, atoms: Array, level: float) -> Array:
    """Return the smallest atom (...) at which the cumulative mass is at least `level`."""
    xp = array_namespace(probs, atoms)
    probs, atoms = ascending(probs, atoms)
    reached = xp.cumsum(probs, axis=-1) >= level - 1e-12
    some = xp.where(reached & (probs > 0), atoms, xp.inf)
    # the largest atom is needed if rounding keeps the total mass below `level`
    largest = xp.max(xp.where(probs > 0, atoms, -xp.inf), axis=-1)
    return xp.minimum(xp.min(some, axis=-1), largest)


def ascending(probs: Array, atoms: Array) -> tuple[Array, Array]:
    """Return probabilities and atoms (..., N) in increasing order of the atoms."""
    xp = array_namespace(probs, atoms)
    probs, atoms = xp.broadcast_arrays(xp.asarray(probs) * 1.0, xp.asarray(atoms) * 1.0)
    order = xp.argsort(atoms, axis=-1)
    return xp.take_along_axis(probs, order, -1), xp.take_along_axis(atoms, order, -1)


def kink_cost(x: Array, variance: Array) -> Array:
    """Return Scarf's upper bound (...) on min(x, 0) - E min(Y, 0), for all Y with mean x and the given variance."""
    return (np.sqrt(variance + x**2) - np.abs(x)) / 2


def below_zero(mean: Array, std: Array) -> Array:
    """Return E min(X, 0) of normal distributions."""
    spread = np.maximum(std, 1e-12)
    return mean * special_function(np, "ndtr")(-mean / spread) - spread * normal_density(mean / spread)


def normal_density(t: Array) -> Array:
    """Return the density of the standard normal distribution."""
    return array_namespace(t).exp(-(t**2) / 2) / _SQRT_OF_TAU
