"""Optimised certainty equivalents: rho[X] = max_b b + E u(X - b), what a sure b now and the rest later are worth.

u is concave and not decreasing, with u(0) = 0 and slope 1 at 0. Part of a random X is taken as a sure b, the rest is
judged by u; the best split is the *threshold*. Fixed at the start, it turns a risk of the whole return into an ordinary
expectation, of u of what was earned so far and what is still to come (`rasf.planning.static`).

    risk                           u(x)                                      threshold
    CVaR(alpha)                    min(x, 0) / alpha                         the alpha-quantile
    PiecewiseLinear(gain, loss)    gain x above 0, loss x below              the quantile (1 - gain) / (loss - gain)
    MonotoneMeanVariance(beta)     x + beta x^2 / 2, flat from its top       a root
    Entropic(beta), beta <= 0      (exp(beta x) - 1) / beta                  the utility itself

Mean-variance is none of them: it may like a smaller return better. `rasf.risk.monotone` has its monotone form.
"""

from __future__ import annotations

import numpy as np

from rasf.arrays import Array, array_namespace
from rasf.risk.base import Risk, special_function

_SQRT_OF_TAU = 2.5066282746310002


class CertaintyEquivalent(Risk):
    """A risk of this family; a subclass says what u is. `averse`: u is concave."""

    @property
    def averse(self) -> bool:
        return True

    def utility(self, x: Array) -> Array:
        """u (...) of x (...)."""
        raise NotImplementedError

    def threshold(self, probs: Array, atoms: Array) -> Array:
        """The best b (...) for probabilities (..., N) over atoms."""
        raise NotImplementedError

    def steepest(self, least: float) -> float:
        """The largest slope of u from `least` on."""
        raise NotImplementedError

    def spread_cost(self, x: Array, variance: Array) -> Array:
        """A bound (...) on u(x) - E u(Y), for any Y of mean x (...) and this variance (...), in numpy.

        It is infinite unless a subclass knows one.
        """
        return np.where(np.asarray(variance) > 0, np.inf, 0.0 * x)

    def normal(self, mean: Array, std: Array) -> Array:
        """What orders normal distributions as E u(X) does, (...) of means and standard deviations (...), in numpy."""
        raise NotImplementedError

    def normal_threshold(self, mean: Array, std: Array) -> Array:
        """The best b (...) for normal distributions."""
        raise NotImplementedError

    def with_threshold(self, probs: Array, atoms: Array) -> tuple[Array, Array]:
        """rho (...), and the threshold (...) at which it is attained."""
        b = self.threshold(probs, atoms)
        xp = array_namespace(probs, atoms, b)
        kept = xp.where(xp.asarray(probs) > 0, self.utility(atoms - b[..., None]), 0.0)
        return b + xp.sum(probs * kept, axis=-1), b


def static_risk(risk: Risk) -> CertaintyEquivalent:
    """The risk, if it can be held fixed from the start."""
    if not isinstance(risk, CertaintyEquivalent) or not risk.averse:
        raise ValueError(
            "risk must be a certainty equivalent to be held fixed: CVaR, Entropic with beta <= 0, "
            f"MonotoneMeanVariance or rasf.risk.PiecewiseLinear, got {risk!r}"
        )
    return risk


def quantile(probs: Array, atoms: Array, level: float) -> Array:
    """The least atom (...) at or below which there is a mass of `level`."""
    xp = array_namespace(probs, atoms)
    probs, atoms = ascending(probs, atoms)
    reached = xp.cumsum(probs, axis=-1) >= level - 1e-12
    some = xp.where(reached & (probs > 0), atoms, xp.inf)
    largest = xp.max(xp.where(probs > 0, atoms, -xp.inf), axis=-1)  # where rounding leaves the sum below the level
    return xp.minimum(xp.min(some, axis=-1), largest)


def ascending(probs: Array, atoms: Array) -> tuple[Array, Array]:
    """Both (..., N), in the order of the atoms."""
    xp = array_namespace(probs, atoms)
    probs, atoms = xp.broadcast_arrays(xp.asarray(probs) * 1.0, xp.asarray(atoms) * 1.0)
    order = xp.argsort(atoms, axis=-1)
    return xp.take_along_axis(probs, order, -1), xp.take_along_axis(atoms, order, -1)


def kink_cost(x: Array, variance: Array) -> Array:
    """The most (...) by which E min(Y, 0) is below min(x, 0), for any Y of mean x and this variance (Scarf's bound)."""
    return (np.sqrt(variance + x**2) - np.abs(x)) / 2


def below_zero(mean: Array, std: Array) -> Array:
    """E min(X, 0) of normal distributions."""
    spread = np.maximum(std, 1e-12)
    return mean * special_function(np, "ndtr")(-mean / spread) - spread * normal_density(mean / spread)


def normal_density(t: Array) -> Array:
    """The density of the standard normal distribution."""
    return array_namespace(t).exp(-(t**2) / 2) / _SQRT_OF_TAU
