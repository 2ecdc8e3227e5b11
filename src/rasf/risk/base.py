"""The interface of risk measures.

A risk turns a return distribution into one number, the score. A larger score is better. The distribution is given in
one of five forms. Leading axes (...) are batch axes:

    samples      samples x (..., n); weights (..., n) are optional
    histogram    probabilities probs (..., N) of the values atoms (N,) or (..., N)
    moments      mean (...), variance (...)
    independent  histograms probs (..., d, N) with atoms (d, N) of d independent features, and weights w (d,)
    mixture      weights, means and variances (..., M) of M components

The attribute `supports` of a risk names the forms that the risk can score. Methods for other forms raise a ValueError.
Arrays may be numpy or jax, and the result is of the same kind. A risk with a parameter `beta` is averse if `beta < 0`.
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
    """Return the function `name` of scipy.special, or of jax.scipy.special if the module `xp` is not numpy."""
    if xp is np:
        import scipy.special

        return getattr(scipy.special, name)
    import jax.scipy.special

    return getattr(jax.scipy.special, name)


def check_beta(beta: Array) -> None:
    """Raise a ValueError if a risk parameter is not one finite number. A scalar that jax traces is accepted."""
    if np.ndim(beta) != 0:
        raise ValueError(f"beta must be one number, got shape {np.shape(beta)}; use vmap for several")
    number = concrete(beta)
    if number is not None and not math.isfinite(number):
        raise ValueError(f"beta must be finite, got {beta}")


def concrete(beta: Array) -> float | None:
    """Return a risk parameter as a float, or None while jax traces it.

    Raises:
        ValueError: The parameter is not a number.
    """
    if not isinstance(beta, str | bytes | bool):
        try:
            return float(beta)
        except (TypeError, OverflowError):
            if array_namespace(beta) is not np:
                return None
    raise ValueError(f"beta must be a number, got {shown(beta)}")


def histogram_moments(probs: Array, atoms: Array) -> tuple[Array, Array]:
    """Return mean and variance (...) of histograms. The variance is a sum of squares, so it is never negative."""
    xp = array_namespace(probs, atoms)
    probs, atoms = xp.broadcast_arrays(xp.asarray(probs) * 1.0, xp.asarray(atoms) * 1.0)
    present = probs > 0  # atoms without mass are ignored, even if they are infinite
    mean = xp.sum(probs * xp.where(present, atoms, 0.0), axis=-1)
    centred = xp.where(present, atoms - mean[..., None], 0.0)
    return mean, xp.sum(probs * centred**2, axis=-1)


class Risk:
    """A risk measure, which turns a return distribution into one number, the score. A larger score is better.

    There is a method for each form of a distribution: samples, a histogram, moments (mean and variance), histograms of
    independent features, a mixture. `supports` names the forms that a risk can score. To define a risk, list forms in
    `supports` and override the methods of these forms. Tables and the agent `rasfdqn` need `moments`, the agent
    `rasfc51` needs `independent`.
    """

    supports: ClassVar[frozenset[str]] = frozenset()

    def samples(self, x: Array, weights: Array | None = None) -> Array:
        """Return the score (...) of samples.

        Args:
            x: Samples (..., n).
            weights: Weights (..., n), which need not sum to one. Default: equal weights.
        """
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
            raise ValueError(f"weights must have {x.shape[-1]} entries, one for each sample, got shape {weights.shape}")
        x, weights = xp.broadcast_arrays(x, weights)
        valid = xp is not np or (np.all(weights >= 0) and np.isfinite(weights).all() and np.all(weights.sum(-1) > 0))
        if not valid:
            raise ValueError("weights must be finite and non-negative with a positive sum")
        return self.histogram(weights / xp.sum(weights, axis=-1, keepdims=True), x)

    def histogram(self, probs: Array, atoms: Array) -> Array:
        """Return the score (...) of histograms.

        Args:
            probs: Probabilities (..., N).
            atoms: Atoms (N,) or (..., N).
        """
        raise self._unsupported("histogram")

    def moments(self, mean: Array, variance: Array) -> Array:
        """Return the score (...) of return distributions, given their means and variances.

        Args:
            mean: Means (...).
            variance: Variances (...).
        """
        raise self._unsupported("moments")

    def independent(self, probs: Array, atoms: Array, w: Array) -> Array:
        """Return the score (...) of sum_i w_i Z_i for independent features Z_i.

        Args:
            probs: Probabilities (..., d, N), a histogram for each feature.
            atoms: Atoms (d, N).
            w: The weights (d,) of the task.
        """
        raise self._unsupported("independent")

    def independent_log(self, log_probs: Array, atoms: Array, w: Array) -> Array:
        """Return the score (...) as `independent` does, given log-probabilities.

        Risks for which tiny probabilities matter override this method, because exp rounds these probabilities to zero.

        Args:
            log_probs: Log-probabilities (..., d, N), which need not be normalised.
            atoms: Atoms (d, N).
            w: The weights (d,) of the task.
        """
        xp = array_namespace(log_probs, atoms, w)
        unnormalised = xp.exp(log_probs - xp.max(log_probs, axis=-1, keepdims=True))
        return self.independent(unnormalised / xp.sum(unnormalised, axis=-1, keepdims=True), atoms, w)

    def mixture(self, weights: Array, mean: Array, variance: Array) -> Array:
        """Return the score (...) of mixtures of M components.

        Args:
            weights: Weights (..., M).
            mean: Means (..., M).
            variance: Variances (..., M).
        """
        raise self._unsupported("mixture")

    def at_discount(self, z: Array) -> Self:
        """Return the risk that ranks remaining returns X in the same order as this risk ranks z X.

        Args:
            z: The discount gamma^t after t steps.

        Raises:
            ValueError: There is no such risk.
        """
        raise ValueError(f"{type(self).__name__} does not support discount_aware=True")

    def _unsupported(self, form: str) -> ValueError:
        offered = ", ".join(sorted(self.supports)) or "no form, because it is for planning"
        return ValueError(f"{type(self).__name__} cannot score {form}; it supports {offered}")


@dataclass(frozen=True)
class BetaRisk(Risk):
    """A risk with a parameter `beta`: one finite number or a traced scalar of jax, below 0 for risk aversion."""

    beta: Array

    def __post_init__(self) -> None:
        check_beta(self.beta)

    def at_discount(self, z: Array) -> Self:
        """Return the risk at beta z, because rho_beta[z X] = z rho_{beta z}[X], where rho_beta is the risk at beta."""
        return replace(self, beta=self.beta * z)
