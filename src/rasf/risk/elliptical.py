"""Entropic utility of parametric distributions (the paper's appendix A.4), given by mean and covariance.

If the random sum of features Psi is elliptical with mean psi and covariance Sigma, the return Psi . w has mean
m = psi . w and variance v = w' Sigma w. The entropic utility U of the return is

    normal      U = m + (beta / 2) v
    Laplace     U = m - (1 / beta) log(1 - beta^2 v / 2)                 for beta^2 v < 2, else sign(beta) inf
    logistic    U = m + (1 / beta) log(y / sin y),  y^2 = 3 beta^2 v     for y < pi, else sign(beta) inf
    Student     U = m at beta = 0; for other beta, U does not exist

The logistic row of the paper's table has a scale s instead of v, where s^2 = (3 / pi^2) v by the table's footnote, and
the beta function B(1 - beta s, 1 + beta s) = pi beta s / sin(pi beta s). For a mixture with weights pi_k and utilities
U_k of its components, E exp(beta X) = sum_k pi_k exp(beta U_k). So U is the entropic utility of a discrete variable
that has the value U_k with probability pi_k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, get_args

import numpy as np

from rasf.arrays import Array, array_namespace
from rasf.checks import shown
from rasf.risk.base import BetaRisk, concrete
from rasf.risk.entropic import entropic_utility
from rasf.risk.mean_variance import variance_term

Law = Literal["normal", "laplace", "logistic", "student"]
_SERIES = 1e-4  # below this beta^2 v / 2, the Laplace factor is four terms of its series, exact up to rounding
_NEAR = 0.05  # below this (y / pi)^2, the logistic factor is computed by its series
_ZETA = [math.pi**2 / 6, math.pi**4 / 90 / 2, math.pi**6 / 945 / 3]  # zeta(2 k) / k
_ZETA += [sum(n ** (-2.0 * k) for n in range(1, 200)) / k for k in range(4, 14)]


def _laplace_factor(x: Array) -> Array:
    """Return -log(1 - h) / h for h = x / 2, where x = beta^2 v. The result is 1 at h = 0, and inf for h >= 1."""
    xp = array_namespace(x)
    half = x / 2
    near = xp.where(half > _SERIES, 0.0, half)
    series = 1 + near / 2 * (1 + near * (2 / 3 + near / 2))
    middle = xp.where((half > _SERIES) & (half < 1), half, 0.5)
    return xp.where(half >= 1, xp.inf, xp.where(half > _SERIES, -xp.log1p(-middle) / middle, series))


def _logistic_factor(x: Array) -> Array:
    """Return log(y / sin y) / (y^2 / 6) for y^2 = 3 x, where x = beta^2 v. The result is 1 at 0, and inf for y >= pi.

    Near 0, the series log(y / sin y) = sum_k zeta(2 k) / k (y / pi)^{2 k} is used.
    """
    xp = array_namespace(x)
    u = 3 * x / math.pi**2
    near = xp.where(u < _NEAR, u, 0.0)
    series = xp.zeros_like(u)
    for coefficient in _ZETA[::-1]:
        series = coefficient + near * series
    y = math.pi * xp.sqrt(xp.where((u >= _NEAR) & (u < 1), u, 0.25))
    direct = xp.log(y / xp.sin(y)) * 6 / y**2
    return xp.where(u >= 1, xp.inf, xp.where(u < _NEAR, series * (6 / math.pi**2), direct))


def elliptical_utility(law: Law, beta: Array, mean: Array, variance: Array) -> Array:
    """Return U_beta (...) of elliptical distributions, which is sign(beta) inf if the variance is too large."""
    xp = array_namespace(beta, mean, variance)
    term = variance_term(beta, xp.asarray(variance) * 1.0)
    if law in ("normal", "student"):
        return mean + term
    with np.errstate(over="ignore"):  # if x overflows, the factor is infinite anyway
        x = 2 * beta * term
    factor = _laplace_factor(x) if law == "laplace" else _logistic_factor(x)
    return mean + term * factor


def _check_law(law: str, beta: Array) -> None:
    if law not in get_args(Law):
        raise ValueError(f"law must be one of {', '.join(get_args(Law))}, got {law!r}")
    if law == "student" and concrete(beta) != 0:
        raise ValueError(f"beta must be 0 for a Student distribution, which has no entropic utility, got {beta}")


@dataclass(frozen=True)
class Elliptical(BetaRisk):
    """Entropic utility at `beta` of a distribution: normal, Laplace, logistic or, for beta = 0, Student."""

    law: Law = "normal"
    supports: ClassVar[frozenset[str]] = frozenset({"moments"})

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_law(self.law, self.beta)

    def moments(self, mean: Array, variance: Array) -> Array:
        """Return U_beta (...) for means and variances (...), which is sign(beta) inf if the variance is too large."""
        return elliptical_utility(self.law, self.beta, mean, variance)

    def at_discount(self, z: Array) -> Self:
        """Return the risk at beta z. A Student distribution has beta = 0, so its risk is returned unchanged."""
        return self if self.law == "student" else super().at_discount(z)


@dataclass(frozen=True)
class EllipticalMixture(BetaRisk):
    """Entropic utility at `beta` of a mixture of elliptical distributions; `laws` has the kind of each component."""

    laws: tuple[Law, ...]
    supports: ClassVar[frozenset[str]] = frozenset({"mixture"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.laws, tuple | list) or not self.laws:
            raise ValueError(f"laws must be a tuple with at least one component, got {shown(self.laws)}")
        for law in self.laws:
            _check_law(law, self.beta)

    def mixture(self, weights: Array, mean: Array, variance: Array) -> Array:
        """Return U_beta (...) for weights, means and variances (..., M) of M components."""
        xp = array_namespace(self.beta, weights, mean, variance)
        weights, mean, variance = xp.broadcast_arrays(*(xp.asarray(a) * 1.0 for a in (weights, mean, variance)))
        if weights.ndim == 0 or weights.shape[-1] != len(self.laws):
            raise ValueError(f"weights must have {len(self.laws)} columns, one per law, got shape {weights.shape}")
        variance = xp.where(weights > 0, variance, 0.0)  # components without weight are ignored
        utilities = xp.stack(
            [elliptical_utility(law, self.beta, mean[..., k], variance[..., k]) for k, law in enumerate(self.laws)],
            axis=-1,
        )
        infinite = xp.isinf(utilities)
        finite = entropic_utility(weights, xp.where(infinite, mean, utilities), self.beta)
        return xp.where(xp.any(infinite, axis=-1), xp.where(self.beta > 0, xp.inf, -xp.inf), finite)
