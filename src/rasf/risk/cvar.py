"""Conditional value at risk: the mean of the worst share alpha of the outcomes.

    CVaR_alpha[X] = (1 / alpha) integral_0^alpha F^{-1}(u) du

F^{-1} is the quantile function of X. CVaR with alpha = 1 is the mean. CVaR of a normal distribution with mean m and
standard deviation sd is m - sd pdf(q) / alpha, where pdf is the density of the standard normal distribution and q its
alpha-quantile. The paper names CVaR as an open extension. CVaR has no Bellman equation on states, but has a Bellman
equation on pairs of state and accrued return (`rasf.planning.static`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rasf.arrays import Array, array_namespace
from rasf.checks import number
from rasf.risk.base import histogram_moments
from rasf.risk.certainty import CertaintyEquivalent, ascending, below_zero, kink_cost, quantile

_GRID = 512  # number of cells into which a convolution divides the range of the sum
_BLOCK = 24  # the grid has a multiple of 24 x 24 atoms, so that Fourier transforms and sums over blocks are fast


@dataclass(frozen=True)
class CVaR(CertaintyEquivalent):
    """The mean of the worst share `alpha` of the outcomes, 0 < alpha <= 1.

    `rasf.risk.certainty` explains the utility u and the threshold.
    """

    alpha: float
    supports: ClassVar[frozenset[str]] = frozenset({"samples", "histogram", "moments", "independent"})

    def __post_init__(self) -> None:
        if not 0 < number("alpha", self.alpha) <= 1:
            raise ValueError(f"alpha must be in (0, 1], got {self.alpha}")

    def histogram(self, probs: Array, atoms: Array) -> Array:
        """Return CVaR (...) of probabilities (..., N) over atoms.

        The worst share may contain only a part of the mass of its best atom, the alpha-quantile.
        """
        return self._ascending(*ascending(probs, atoms))

    def _ascending(self, probs: Array, atoms: Array) -> Array:
        """Return the result of `histogram`, given atoms in increasing order."""
        xp = array_namespace(probs, atoms)
        tail = xp.clip(self.alpha - _below(probs), 0.0, probs)
        return xp.sum(tail * xp.where(tail > 0, atoms, 0.0), axis=-1) / xp.sum(tail, axis=-1)

    def moments(self, mean: Array, variance: Array) -> Array:
        """Return CVaR (...) of the normal distribution with this mean and variance."""
        xp = array_namespace(mean, variance)
        positive = xp.asarray(variance) > 0
        # two `where`, so that the gradient is 0 at variance 0
        spread = xp.where(positive, xp.sqrt(xp.where(positive, variance, 1.0)), 0.0)
        return mean - normal_tail_factor(self.alpha) * spread

    def independent(self, probs: Array, atoms: Array, w: Array) -> Array:
        """Return CVaR (...) of sum_i w_i Z_i for independent features Z_i, by convolution of their distributions."""
        return self._ascending(*convolution(probs, atoms, w))

    def at_discount(self, z: Array) -> CVaR:
        """Return the same risk, because scaling the return scales CVaR and changes no choice."""
        return self

    def utility(self, x: Array) -> Array:
        """Return min(x, 0) / alpha. At alpha = 1, return x: then b + E u(X - b) is the mean for every threshold b."""
        return x if self.alpha == 1 else array_namespace(x).minimum(x, 0.0) / self.alpha

    def steepest(self, least: float) -> float:
        return 1 / self.alpha

    def spread_cost(self, x: Array, variance: Array) -> Array:
        """Return an upper bound (...) on u(x) - E u(Y), for all Y with mean x and the given variance.

        The bound follows from the kink of u at 0. At alpha = 1, u is linear and the bound is 0.
        """
        return (0.0 if self.alpha == 1 else 1 / self.alpha) * kink_cost(x, variance)

    def threshold(self, probs: Array, atoms: Array) -> Array:
        """Return the alpha-quantile."""
        return quantile(probs, atoms, self.alpha)

    def normal(self, mean: Array, std: Array) -> Array:
        """Return E u(X) of normal distributions."""
        return mean if self.alpha == 1 else below_zero(mean, std) / self.alpha

    def normal_threshold(self, mean: Array, std: Array) -> Array:
        """Return the alpha-quantile of normal distributions."""
        return mean if self.alpha == 1 else mean + std * normal_quantile(self.alpha)


@dataclass(frozen=True)
class PiecewiseLinear(CertaintyEquivalent):
    """The certainty equivalent whose utility has slope `gain` above 0 and slope `loss` below; 0 <= gain < 1 < loss.

    The risk, rho, equals gain * mean + (1 - gain) * CVaR(alpha) with alpha = (1 - gain) / (loss - gain).
    """

    gain: float
    loss: float
    supports: ClassVar[frozenset[str]] = CVaR.supports

    def __post_init__(self) -> None:
        if not 0 <= number("gain", self.gain) < 1 < number("loss", self.loss):
            raise ValueError(f"gain must be in [0, 1) and loss above 1, got {self.gain} and {self.loss}")

    @property
    def _tail(self) -> CVaR:
        return CVaR((1 - self.gain) / (self.loss - self.gain))

    def histogram(self, probs: Array, atoms: Array) -> Array:
        """Return rho (...) of probabilities (..., N) over atoms."""
        return self._joined(histogram_moments(probs, atoms)[0], self._tail.histogram(probs, atoms))

    def moments(self, mean: Array, variance: Array) -> Array:
        """Return rho (...) of the normal distribution with this mean and variance."""
        return self._joined(mean, self._tail.moments(mean, variance))

    def independent(self, probs: Array, atoms: Array, w: Array) -> Array:
        """Return rho (...) of sum_i w_i Z_i for independent features Z_i."""
        xp = array_namespace(probs, atoms, w)
        mean = xp.sum(histogram_moments(probs, atoms)[0] * xp.asarray(w), axis=-1)
        return self._joined(mean, self._tail.independent(probs, atoms, w))

    def _joined(self, mean: Array, tail: Array) -> Array:
        return self.gain * mean + (1 - self.gain) * tail

    def at_discount(self, z: Array) -> PiecewiseLinear:
        """Return the same risk, because scaling the return scales rho and changes no choice."""
        return self

    def utility(self, x: Array) -> Array:
        """Return gain x above 0 and loss x below."""
        xp = array_namespace(x)
        return self.gain * xp.maximum(x, 0.0) + self.loss * xp.minimum(x, 0.0)

    def steepest(self, least: float) -> float:
        return self.loss

    def spread_cost(self, x: Array, variance: Array) -> Array:
        """Return an upper bound (...) on u(x) - E u(Y), for all Y with mean x and the given variance.

        The bound follows from the kink of u at 0.
        """
        return (self.loss - self.gain) * kink_cost(x, variance)

    def threshold(self, probs: Array, atoms: Array) -> Array:
        """Return the alpha-quantile, with alpha = (1 - gain) / (loss - gain)."""
        return quantile(probs, atoms, self._tail.alpha)

    def normal(self, mean: Array, std: Array) -> Array:
        """Return E u(X) of normal distributions."""
        below = below_zero(mean, std)
        return self.gain * (mean - below) + self.loss * below

    def normal_threshold(self, mean: Array, std: Array) -> Array:
        """Return the alpha-quantile of normal distributions, with alpha = (1 - gain) / (loss - gain)."""
        return self._tail.normal_threshold(mean, std)


def convolution(probs: Array, atoms: Array, w: Array) -> tuple[Array, Array]:
    """Return the distribution of sum_i w_i Z_i for independent features Z_i: probabilities (..., M), atoms (M,).

    The M atoms are a grid with equal spacing.
    The mass of every weighted atom is split between its two neighbours on the grid. This split keeps the mean, and adds
    at most a quarter of the squared spacing to the variance of each feature. Then the Fourier transforms of the
    features' distributions are multiplied.
    """
    xp = array_namespace(probs, atoms, w)
    weighted = xp.asarray(w)[..., :, None] * xp.asarray(atoms) * 1.0  # (d, N)
    least = xp.min(weighted, axis=-1)
    width = xp.sum(xp.max(weighted, axis=-1) - least)
    spacing = xp.where(width > 0, width, 1.0) / _GRID
    needed = _GRID + 1 + weighted.shape[-2]  # one more cell for each feature, because a split may reach the next cell
    size = -(-needed // _BLOCK**2) * _BLOCK**2
    place = (weighted - least[..., None]) / spacing
    share = xp.clip(1 - xp.abs(place[..., None] - xp.arange(size)), 0.0, 1.0)  # (d, N, M)
    exact = {} if xp is np else {"precision": "highest"}  # by default, a GPU rounds the shares to ten bits
    spectrum = xp.fft.rfft(xp.einsum("...dn,dnm->...dm", xp.asarray(probs) * 1.0, share, **exact), axis=-1)
    summed = xp.fft.irfft(xp.prod(spectrum, axis=-2), n=size, axis=-1)
    mass = xp.maximum(summed, 0.0)  # rounding errors give tiny negative masses
    return mass / xp.sum(mass, axis=-1, keepdims=True), xp.sum(least) + spacing * xp.arange(size)


def _below(probs: Array) -> Array:
    """Return the mass (..., N) below each atom, for atoms in increasing order."""
    xp, n = array_namespace(probs), probs.shape[-1]
    if xp is np or n % _BLOCK:
        return xp.cumsum(probs, axis=-1) - probs
    # sums within a block are added to the sums of earlier blocks: on a CPU, the cumsum of jax is several times slower
    blocks = probs.reshape(*probs.shape[:-1], -1, _BLOCK)
    inside = xp.cumsum(blocks, axis=-1) - blocks
    whole = xp.sum(blocks, axis=-1, keepdims=True)
    return (inside + xp.cumsum(whole, axis=-2) - whole).reshape(probs.shape)


def normal_tail_factor(alpha: float) -> float:
    """Return pdf(q) / alpha, where pdf is the density and q the alpha-quantile of the standard normal distribution."""
    return math.exp(-(normal_quantile(alpha) ** 2) / 2) / math.sqrt(2 * math.pi) / alpha


def normal_quantile(alpha: float) -> float:
    """Return the alpha-quantile of the standard normal distribution."""
    from scipy.special import ndtri

    return float(ndtri(alpha))
