"""What a risk measure is.

A risk turns a return distribution into one number, larger is better. The distribution has one of five forms, each
batched over leading axes:

    samples      x (..., n), weights (..., n) or none
    histogram    probs (..., N) over atoms (N,) or (..., N)
    moments      mean (...), variance (...)
    independent  probs (..., d, N) over atoms (d, N) of d independent features, weighted by w (d,)
    mixture      weights, means and variances (..., M) of M components

`supports` names the forms a risk can score; the others raise one clear sentence. Arrays may be numpy or jax; the answer
is of the same kind. `beta < 0` is risk averse everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import ClassVar, Self

import numpy as np

from rasf.arrays import Array, array_namespace
from rasf.checks import reals, shown


def special_function(xp: ModuleType, name: str) -> Callable[..., Array]:
    """The function `name` of scipy.special, for the array kind `xp`."""
    if xp is np:
        import scipy.special

        return getattr(scipy.special, name)
    import jax.scipy.special

    return getattr(jax.scipy.special, name)


def check_beta(beta: Array) -> None:
    """Refuse a risk parameter that is not one finite number (a traced jax scalar passes)."""
    if np.ndim(beta) != 0:
        raise ValueError(f"beta must be one number, got shape {np.shape(beta)}; use vmap for several")
    number = concrete(beta)
    if number is not None and not math.isfinite(number):
        raise ValueError(f"beta must be finite, got {beta}")


def concrete(beta: Array) -> float | None:
    """A risk parameter as a float, or None where jax is tracing it; refuse what is no number."""
    if not isinstance(beta, str | bytes | bool):
        try:
            return float(beta)
        except (TypeError, OverflowError):
            if array_namespace(beta) is not np:
                return None
    raise ValueError(f"beta must be a number, got {shown(beta)}")


def histogram_moments(probs: Array, atoms: Array) -> tuple[Array, Array]:
    """Mean and variance (...) of a histogram; the variance is a sum of squares, so it is never negative."""
    xp = array_namespace(probs, atoms)
    probs, atoms = xp.broadcast_arrays(xp.asarray(probs) * 1.0, xp.asarray(atoms) * 1.0)
    present = probs > 0  # an atom without mass does not count, not even at infinity
    mean = xp.sum(probs * xp.where(present, atoms, 0.0), axis=-1)
    centred = xp.where(present, atoms - mean[..., None], 0.0)
    return mean, xp.sum(probs * centred**2, axis=-1)


class Risk:
    """A risk measure: it turns a return distribution into one number, larger is better.

    There is a method for each form of a distribution: samples, a histogram, moments (mean and variance), histograms of
    independent features, a mixture. `supports` names those that a risk can score. A user's own risk overrides them:
    `moments` for tables, `independent` for networks with histograms.
    """

    supports: ClassVar[frozenset[str]] = frozenset()

    def samples(self, x: Array, weights: Array | None = None) -> Array:
        """Score samples x (..., n), equally weighted or by `weights` (..., n), which need not sum to one."""
        if "samples" not in self.supports:
            raise self._unsupported("samples")
        xp = array_namespace(x, weights)
        if xp is np:
            x, weights = reals("x", x), None if weights is None else reals("weights", weights)
            if np.isnan(x).any():
                raise ValueError("x must be numbers, got nan")
        x = xp.asarray(x) * 1.0
        if x.ndim == 0 or x.shape[-1] == 0:
            raise ValueError("x must hold at least one sample on its last axis")
        weights = xp.ones_like(x) if weights is None else xp.asarray(weights) * 1.0
        if weights.ndim == 0 or weights.shape[-1] != x.shape[-1]:
            raise ValueError(f"weights must have one for each of {x.shape[-1]} samples, got shape {weights.shape}")
        x, weights = xp.broadcast_arrays(x, weights)
        valid = xp is not np or (np.all(weights >= 0) and np.isfinite(weights).all() and np.all(weights.sum(-1) > 0))
        if not valid:
            raise ValueError("weights must be finite and non-negative with a positive sum")
        return self.histogram(weights / xp.sum(weights, axis=-1, keepdims=True), x)

    def histogram(self, probs: Array, atoms: Array) -> Array:
        """Score probabilities (..., N) over atoms (N,) or (..., N)."""
        raise self._unsupported("histogram")

    def moments(self, mean: Array, variance: Array) -> Array:
        """Score a mean and a variance."""
        raise self._unsupported("moments")

    def independent(self, probs: Array, atoms: Array, w: Array) -> Array:
        """Score sum_i w_i Z_i of independent features Z_i with histograms probs (..., d, N) over atoms (d, N)."""
        raise self._unsupported("independent")

    def independent_log(self, log_probs: Array, atoms: Array, w: Array) -> Array:
        """`independent` of log-probabilities, up to a constant; risks of the far tail keep what exp would lose."""
        xp = array_namespace(log_probs, atoms, w)
        unnormalised = xp.exp(log_probs - xp.max(log_probs, axis=-1, keepdims=True))
        return self.independent(unnormalised / xp.sum(unnormalised, axis=-1, keepdims=True), atoms, w)

    def mixture(self, weights: Array, mean: Array, variance: Array) -> Array:
        """Score a mixture of components with weights, means and variances (..., M)."""
        raise self._unsupported("mixture")

    def at_discount(self, z: Array) -> Self:
        """The equivalent risk for what remains of the return, discounted by z: ranks X as this risk ranks z X."""
        raise ValueError(f"{type(self).__name__} has no discount-aware form")

    def _unsupported(self, form: str) -> ValueError:
        offered = ", ".join(sorted(self.supports)) or "no law by itself; it is for planning"
        return ValueError(f"{type(self).__name__} cannot score {form}; it supports {offered}")


@dataclass(frozen=True)
class BetaRisk(Risk):
    """A risk with a parameter `beta`; one finite number, below 0 for risk aversion, or a traced scalar of jax."""

    beta: Array

    def __post_init__(self) -> None:
        check_beta(self.beta)

    def at_discount(self, z: Array) -> Self:
        """The risk at beta z, since rho_beta[z X] = z rho_{beta z}[X]."""
        return replace(self, beta=self.beta * z)
