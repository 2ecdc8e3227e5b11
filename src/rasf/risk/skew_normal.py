"""Entropic utility of the skew-normal distribution, which is skew-elliptical. The utility has a closed form.

The sum of features Psi has mean psi, covariance Sigma and skewness vector delta: Psi = xi + |Z0| delta + Z, with Z0
standard normal and Z normal with mean 0, independent of each other. The location is xi = psi - sqrt(2 / pi) delta, and
the scale matrix Cov Z + delta delta' is Sigma + (2 / pi) delta delta'. The return X = Psi . w has mean m, variance v
and skew s = delta . w. With the standard normal distribution function Phi, the entropic utility of X is

    U = m - sqrt(2 / pi) s + (beta / 2) (v + (2 / pi) s^2) + (1 / beta) log(2 Phi(beta s)).

The distribution exists if s^2 <= v / (1 - 2 / pi).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rasf.arrays import Array, array_namespace
from rasf.risk.base import BetaRisk, special_function
from rasf.risk.mean_variance import variance_term

_HALF_NORMAL_MEAN = math.sqrt(2 / math.pi)


def _skew_excess(x: Array) -> Array:
    """Return log(2 Phi(x)) / x - sqrt(2 / pi), which is 0 at x = 0. Near 0, the series of this function is used."""
    xp = array_namespace(x)
    a = _HALF_NORMAL_MEAN
    near = xp.abs(x) < xp.finfo(x.dtype).eps ** 0.2
    t = xp.where(near, x, 0.0)
    series = t * (-(a**2) / 2 + t * (a**3 / 3 - a / 6 + t * (a**2 / 6 - a**4 / 4 + t * (a / 40 - a**3 / 6 + a**5 / 5))))
    safe = xp.where(near, 1.0, x)
    middle = xp.log1p(special_function(xp, "erf")(xp.maximum(safe, -1.0) / math.sqrt(2)))
    far = special_function(xp, "log_ndtr")(xp.minimum(safe, 0.0)) + math.log(2)
    return xp.where(near, series, xp.where(safe > -1, middle, far) / safe - a)


@dataclass(frozen=True)
class SkewNormal(BetaRisk):
    """Entropic utility at `beta` of a skew-normal distribution. Without skew, this is `MeanVariance`."""

    supports: ClassVar[frozenset[str]] = frozenset({"moments"})

    def moments(self, mean: Array, variance: Array, skew: Array = 0.0) -> Array:
        """Return U_beta (...) for mean psi . w, variance w' Sigma w and skew delta . w of the return, each (...)."""
        xp = array_namespace(self.beta, mean, variance, skew)
        skew = xp.asarray(skew) * 1.0
        if xp is np and np.any((1 - 2 / math.pi) * skew**2 > np.maximum(variance, 0.0) * (1 + 1e-12)):
            raise ValueError("skew is too large for the variance: skew^2 must be at most variance / (1 - 2 / pi)")
        spread = variance_term(self.beta, variance + 2 / math.pi * skew**2)
        return mean + spread + skew * _skew_excess(self.beta * skew)
