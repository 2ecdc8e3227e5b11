"""Entropic utility: U_beta[X] = (1 / beta) log E exp(beta X). At beta = 0 this is the mean.

The computation is smooth at beta = 0 and does not overflow. Let m be the mean, t = beta (X - m), and x* the atom with
the largest beta x. One of three forms is used:

    |t| large    U = x* + log E exp(beta (X - x*)) / beta             log-sum-exp
    |t| < 1      U = m + log1p(E expm1(t)) / beta                     no cancellation
    |t| ~ 0      U = m + (beta / 2) Var X                             the limit, exact up to rounding

For independent features Z_i, the utility of the weighted sum is the sum of the utilities (the paper's sum rule):
U_beta[sum_i w_i Z_i] = sum_i U_beta[w_i Z_i] = sum_i w_i U_{beta w_i}[Z_i].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rasf.arrays import Array, array_namespace
from rasf.risk.base import BetaRisk, Risk
from rasf.risk.certainty import CertaintyEquivalent


def entropic_utility(probs: Array, x: Array, beta: Array) -> Array:
    """Return U_beta (...) of values x (..., N) with probabilities probs (..., N)."""
    xp = array_namespace(probs, x, beta)
    probs, x = xp.broadcast_arrays(xp.asarray(probs) * 1.0, xp.asarray(x) * 1.0)
    present = probs > 0  # an atom without mass must not be x*
    x = xp.where(present, x, 0.0)
    mean = xp.sum(probs * x, axis=-1)
    centred = xp.where(present, x - mean[..., None], 0.0)
    t = beta * centred
    spread = xp.max(xp.abs(t), axis=-1)
    tiny = spread < xp.finfo(t.dtype).eps ** 0.5
    near = spread < 1.0
    near_sum = xp.sum(probs * xp.expm1(xp.where(near[..., None], t, 0.0)), axis=-1)
    high, low = (xp.max(xp.where(present, x, -xp.inf), axis=-1), xp.min(xp.where(present, x, xp.inf), axis=-1))
    anchor = xp.where(beta > 0, high, low)  # the atom x*
    far_sum = xp.sum(probs * xp.exp(beta * xp.where(present, x - anchor[..., None], 0.0)), axis=-1)
    variance = xp.sum(probs * xp.where(tiny[..., None], centred, 0.0) ** 2, axis=-1)
    safe_beta = xp.where(tiny, 1.0, beta)
    close = mean + xp.where(tiny, beta / 2 * variance, xp.log1p(near_sum) / safe_beta)
    return xp.where(near, close, anchor + xp.log(xp.where(near, 1.0, far_sum)) / safe_beta)


def entropic_utility_log(log_probs: Array, x: Array, beta: Array) -> Array:
    """Return U_beta (...) = log sum exp(log p + beta x) / beta for log-probabilities (..., N), perhaps unnormalised."""
    xp = array_namespace(log_probs, x, beta)
    log_probs, x = xp.broadcast_arrays(xp.asarray(log_probs) * 1.0, xp.asarray(x) * 1.0)
    most = xp.max(log_probs, axis=-1, keepdims=True)
    log_probs = log_probs - most - xp.log(xp.sum(xp.exp(log_probs - most), axis=-1, keepdims=True))
    close = entropic_utility(xp.exp(log_probs), x, beta)
    tilted = log_probs + beta * x
    top = xp.max(tilted, axis=-1)
    far = top + xp.log(xp.sum(xp.exp(tilted - top[..., None]), axis=-1))
    # if the atoms span less than 1 / |beta|, exp loses no digits, and `close` is more precise than `far`
    near = xp.abs(beta) * (xp.max(x, axis=-1) - xp.min(x, axis=-1)) < 1.0
    return xp.where(near, close, far / xp.where(near, 1.0, beta))


@dataclass(frozen=True)
class Entropic(BetaRisk, CertaintyEquivalent):
    """The exact entropic utility at `beta`. The computation does not overflow even if |beta x| is 1e6."""

    supports: ClassVar[frozenset[str]] = frozenset({"samples", "histogram", "independent"})

    def histogram(self, probs: Array, atoms: Array) -> Array:
        """Return U_beta (...) of probabilities (..., N) over atoms."""
        return entropic_utility(probs, atoms, self.beta)

    def independent(self, probs: Array, atoms: Array, w: Array) -> Array:
        """Return U_beta (...) of sum_i w_i Z_i, by the sum rule."""
        xp = array_namespace(probs, atoms, w, self.beta)
        weighted = xp.asarray(w)[..., :, None] * xp.asarray(atoms)
        return xp.sum(entropic_utility(probs, weighted, self.beta), axis=-1)

    def independent_log(self, log_probs: Array, atoms: Array, w: Array) -> Array:
        """Return U_beta as `independent` does, given log-probabilities.

        Even a probability of exp(-100) matters if beta w_i times its atom is large.
        """
        xp = array_namespace(log_probs, atoms, w, self.beta)
        weighted = xp.asarray(w)[..., :, None] * xp.asarray(atoms)
        return xp.sum(entropic_utility_log(log_probs, weighted, self.beta), axis=-1)

    @property
    def averse(self) -> bool:
        return bool(self.beta <= 0)

    def utility(self, x: Array) -> Array:
        """Return (exp(beta x) - 1) / beta, which is concave for beta <= 0."""
        return x if self.beta == 0 else array_namespace(x).expm1(self.beta * x) / self.beta

    def steepest(self, least: float) -> float:
        """Return the slope exp(beta x) at x = `least`."""
        return float(np.exp(self.beta * least))

    def threshold(self, probs: Array, atoms: Array) -> Array:
        """Return the entropic utility, which is the threshold."""
        return self.histogram(probs, atoms)

    def normal(self, mean: Array, std: Array) -> Array:
        """Return the entropic utility of normal distributions, which ranks them as E u(X) does and cannot overflow."""
        return mean + self.beta / 2 * std**2

    def normal_threshold(self, mean: Array, std: Array) -> Array:
        """Return the entropic utility of normal distributions, which is the threshold."""
        return self.normal(mean, std)


@dataclass(frozen=True)
class NestedEntropic(BetaRisk):
    """The recursion Q = U_beta[r + gamma Q'] of the paper's Algorithm 3; Q' is the utility in the next state.

    The risk is for planning with gamma < 1.

    The recursion is a contraction and time-consistent. Its result is not the entropic utility of the discounted return,
    which is the risk `Entropic`.
    """

    at_discount = Risk.at_discount  # raises a ValueError
