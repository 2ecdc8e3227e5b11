"""Entropic utility of parametric return laws (the paper's appendix A.4), as functions of mean m and *covariance*.

If Psi is elliptical, Psi . w is one-dimensional with mean m = psi . w and variance v = w' Sigma w, and

    normal      U = m + (beta / 2) v
    Laplace     U = m - (1 / beta) log(1 - beta^2 v / 2)                 for beta^2 v < 2, else sign(beta) inf
    logistic    U = m + (1 / beta) log(y / sin y),  y^2 = 3 beta^2 v     for y < pi, else sign(beta) inf
    Student     no exponential moment: only beta = 0

The paper's logistic row is written with a scale s, B(1 - beta s, 1 + beta s) = pi beta s / sin(pi beta s); the constant
of its footnote is s^2 = (3 / pi^2) v. Mixtures reduce to the discrete case: E exp(beta X) = sum_k pi_k exp(beta U_k),
which is the entropic utility of the components' utilities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from rasf.risk.base import Array, Risk, array_namespace, check_beta
from rasf.risk.entropic import entropic_utility
from rasf.risk.mean_variance import variance_term

Law = Literal["normal", "laplace", "logistic", "student"]


def _laplace_factor(x: Array) -> Array:
    """-log(1 - x / 2) / (x / 2) for x = beta^2 v; 1 at 0, inf from 2 on."""
    xp = array_namespace(x)
    half = xp.where((x > 0) & (x < 2), x / 2, 0.5)
    return xp.where(x >= 2, xp.inf, xp.where(x > 0, -xp.log1p(-half) / half, 1.0))


def _logistic_factor(x: Array) -> Array:
    """log(y / sin y) / (y^2 / 6) with y^2 = 3 x, x = beta^2 v; 1 at 0, inf from y = pi on."""
    xp = array_namespace(x)
    square = 3.0 * x
    inside = (square > 0) & (square < math.pi**2)
    square = xp.where(inside, square, 1.0)
    y = xp.sqrt(square)
    # y - sin y by its series where the difference would cancel
    series = y * square / 6 * (1 - square / 20 * (1 - square / 42 * (1 - square / 72 * (1 - square / 110))))
    excess = xp.where(y < 0.5, series, y - xp.sin(y)) / xp.sin(y)
    return xp.where(inside, xp.log1p(excess) * 6 / square, xp.where(x > 0, xp.inf, 1.0))


def elliptical_utility(law: Law, beta: Array, mean: Array, variance: Array) -> Array:
    """U_beta of an elliptical law with this mean and variance; sign(beta) inf outside the law's domain."""
    xp = array_namespace(beta, mean, variance)
    term = variance_term(beta, xp.asarray(variance) * 1.0)
    if law in ("normal", "student"):
        return mean + term
    x = 2 * beta * term
    factor = _laplace_factor(x) if law == "laplace" else _logistic_factor(x)
    return mean + xp.where(term == 0, 0.0, term * factor)


def _check_law(law: str, beta: Array) -> None:
    if law not in get_args(Law):
        raise ValueError(f"law must be one of {', '.join(get_args(Law))}, got {law!r}")
    if law == "student" and not (isinstance(beta, (int, float)) and beta == 0):
        raise ValueError(f"the Student law has no entropic utility: beta must be 0, got {beta}")


@dataclass(frozen=True)
class Elliptical(Risk):
    """Entropic utility at `beta` of a normal, Laplace, logistic or (beta = 0 only) Student law."""

    beta: Array
    law: Law = "normal"
    supports: ClassVar[frozenset[str]] = frozenset({"moments"})

    def __post_init__(self) -> None:
        check_beta(self.beta)
        _check_law(self.law, self.beta)

    def moments(self, mean: Array, variance: Array) -> Array:
        """U_beta for this mean and variance; sign(beta) inf outside the law's domain."""
        return elliptical_utility(self.law, self.beta, mean, variance)

    def at_discount(self, z: Array) -> Elliptical:
        """U_beta[z X] = z U_{beta z}[X]."""
        return Elliptical(self.beta * z, self.law)


@dataclass(frozen=True)
class EllipticalMixture(Risk):
    """Entropic utility at `beta` of a mixture, one elliptical law per component."""

    beta: Array
    laws: tuple[Law, ...]

    def __post_init__(self) -> None:
        check_beta(self.beta)
        if not self.laws:
            raise ValueError("laws must name at least one component")
        for law in self.laws:
            _check_law(law, self.beta)

    def mixture(self, weights: Array, mean: Array, variance: Array) -> Array:
        """U_beta (...) for weights, means and variances (..., M), one column per component."""
        xp = array_namespace(self.beta, weights, mean, variance)
        weights, mean, variance = xp.broadcast_arrays(*(xp.asarray(a) * 1.0 for a in (weights, mean, variance)))
        if weights.shape[-1] != len(self.laws):
            raise ValueError(f"weights must have {len(self.laws)} columns, one per law, got {weights.shape[-1]}")
        utilities = xp.stack(
            [elliptical_utility(law, self.beta, mean[..., k], variance[..., k]) for k, law in enumerate(self.laws)],
            axis=-1,
        )
        infinite = xp.isinf(utilities) & (weights > 0)
        finite = entropic_utility(weights, xp.where(xp.isinf(utilities), mean, utilities), self.beta)
        return xp.where(xp.any(infinite, axis=-1), xp.sign(self.beta) * xp.inf, finite)

    def at_discount(self, z: Array) -> EllipticalMixture:
        """U_beta[z X] = z U_{beta z}[X]."""
        return EllipticalMixture(self.beta * z, self.laws)
