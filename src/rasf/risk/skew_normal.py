"""Entropic utility of the skew-normal law, the member of the skew-elliptical family with a closed form.

Psi has mean psi, covariance Sigma and skewness vector delta: Psi = xi + |Z0| delta + Z with Z0 standard normal. Then
xi = psi - sqrt(2 / pi) delta, Omega = Sigma + (2 / pi) delta delta', and for X = Psi . w with m, v and s = delta . w

    U = m - sqrt(2 / pi) s + (beta / 2) (v + (2 / pi) s^2) + (1 / beta) log(2 Phi(beta s)).

The law exists for s^2 <= v / (1 - 2 / pi).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rasf.risk.base import Array, Risk, array_namespace, check_beta, special_function
from rasf.risk.mean_variance import variance_term

_HALF_NORMAL_MEAN = math.sqrt(2 / math.pi)


def _log_twice_cdf_ratio(x: Array) -> Array:
    """log(2 Phi(x)) / x, sqrt(2 / pi) at 0."""
    xp = array_namespace(x)
    safe = xp.where(x == 0, 1.0, x)
    near = xp.log1p(special_function(xp, "erf")(xp.clip(safe, -1.0, None) / math.sqrt(2)))
    far = special_function(xp, "log_ndtr")(xp.minimum(safe, 0.0)) + math.log(2)
    return xp.where(x == 0, _HALF_NORMAL_MEAN, xp.where(safe > -1, near, far) / safe)


@dataclass(frozen=True)
class SkewNormal(Risk):
    """Entropic utility at `beta` of a skew-normal law; without skew it is `MeanVariance`."""

    beta: Array
    supports: ClassVar[frozenset[str]] = frozenset({"moments"})

    def __post_init__(self) -> None:
        check_beta(self.beta)

    def moments(self, mean: Array, variance: Array, skew: Array = 0.0) -> Array:
        """U_beta for mean psi . w, variance w' Sigma w and skew delta . w."""
        xp = array_namespace(self.beta, mean, variance, skew)
        skew = xp.asarray(skew) * 1.0
        if xp is np and np.any((1 - 2 / math.pi) * skew**2 > np.asarray(variance) * (1 + 1e-12)):
            raise ValueError("skew is too large for the variance: skew^2 must be at most variance / (1 - 2 / pi)")
        spread = variance_term(self.beta, variance + 2 / math.pi * skew**2)
        return mean + spread + skew * (_log_twice_cdf_ratio(self.beta * skew) - _HALF_NORMAL_MEAN)

    def at_discount(self, z: Array) -> SkewNormal:
        """U_beta[z X] = z U_{beta z}[X]."""
        return SkewNormal(self.beta * z)
