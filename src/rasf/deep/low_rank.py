"""Mean and covariance of the feature return by one network: the covariance is a diagonal plus a matrix of low rank.

    psi_i    = a_i + f b_i                                  f: sum of gamma^t over the steps left, of 1 for an episode
    Sigma_ij = s_i s_j (1 if i = j else 0, + c_i . c_j)     s_i > 0 by its logarithm, c_i (rank,)

Sigma is positive, and w' Sigma w is known for every w; it costs 1 + rank numbers for each feature that w weighs.
Without a time limit there is no b; nor is there for events, whose psi is a logarithm.

Means are learned by squared temporal differences delta. Covariances are learned from the variances of sums u' G of
features, for fixed directions u: unit vectors, the tasks' weights and random ones. With q = u' Sigma u

    target    t = (u' delta)^2 + gamma^2 u' Sigma(s', a') u
    loss      (t + e) / (q + e) + log(q + e)          at its least where q is the mean of t, whatever t's distribution

Errors are relative down to the floor e, so that directions count in which features cancel. In these sums every feature
is divided by its usual spread. Losses that are relative have gradients of the same size throughout training, and would
decide what the shared layers represent; so they have a small weight (the heads, by Adam, learn as quickly).

Events are features that are never negative and mostly zero, such as failures. The network gives the logarithms of their
means, because errors of the same size everywhere would decide where events cannot happen. They are learned by the loss
m - y log m, whose least value is at the mean of y.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from rasf.agents import LawKind
from rasf.arrays import Array, Bools, Floats, array_namespace
from rasf.deep.laws import Losses, MeanOnly, Networks, Parts, TaskHeads, Transition, padded
from rasf.deep.networks import Heads, Layer, fold_heads

RANK = 2  # of the covariance, where there are more than two features
_FLOOR = 1e-3  # e, in units of the usual variance
_WEIGHT = 0.01  # of the losses of covariances
_RANDOM = 2  # random directions for each feature
_LOG_ZERO = -1e4  # the logarithm of a weight that is zero
_MOST_LEARNED, _MOST_READ = 10.0, 80.0  # bounds of logarithms, of targets and of outputs, so that nothing overflows


@dataclass(frozen=True)
class MeanLowRank(MeanOnly):
    """See the module's header; timed: there is a time limit."""

    kind: ClassVar[LawKind] = LawKind.MEAN_LOW_RANK
    events: tuple[int, ...] = ()
    rank: int = 0
    timed: bool = False

    @property
    def _is_event(self) -> Bools:
        return np.isin(np.arange(self.features), self.events)

    def shapes(self) -> tuple[Heads, ...]:
        """Rows a, log s^2, c, and b."""
        return (Heads(2 + self.rank + self.timed, self.features),)

    def mean_heads(self, networks: Networks, w: Array) -> TaskHeads:
        """Sums of a over all features but events, the logarithms of events' means, and sums of b."""
        return self.task_heads(networks, w, 0)

    def task_heads(self, networks: Networks, w: Array, active: int) -> TaskHeads:
        """As `mean_heads`, with the logarithms of s^2 w^2 and factors of features that matter, before the sums of b.

        The factors have the sign of the weight.
        """
        xp, (policies, d), (network,) = array_namespace(w), w.shape, networks
        index = xp.argsort(w == 0, axis=-1, stable=True)[:, :active]
        own, plain = xp.take_along_axis(w, index, axis=-1), xp.where(self._is_event, 0.0, w)
        rows, events = 2 + self.rank + self.timed, np.array(self.events, int)
        every, none = xp.arange(rows * d), xp.zeros((policies, (rows - 1) * d), w.dtype)
        columns = [
            xp.concatenate([plain, none], axis=-1)[..., None],
            xp.broadcast_to((every[:, None] == events) * 1.0, (policies, len(every), len(events))),
            (every[:, None] == d + index[:, None]) * 1.0,
            *((every[:, None] == (2 + r) * d + index[:, None]) * xp.sign(own)[:, None] for r in range(self.rank)),
            *([xp.concatenate([none, plain], axis=-1)[..., None]] if self.timed else []),
        ]
        folded = fold_heads(network.heads, xp.concatenate(columns, axis=-1).astype(w.dtype))
        logs = xp.where(own == 0, _LOG_ZERO, 2 * xp.log(xp.where(own == 0, 1.0, xp.abs(own))))
        before, after = 1 + len(events), self.rank * index.shape[1] + self.timed
        shift = xp.concatenate([xp.zeros((policies, before)), logs, xp.zeros((policies, after))], axis=-1)
        heads = Layer(folded.weight, folded.bias + shift[:, None].astype(w.dtype))
        return TaskHeads((network._replace(heads=heads),), xp.zeros(0), w)

    def at_time(self, outputs: Parts, share: Array) -> Parts:
        """Outputs without b, whose means are those for the share of an episode's time that is left, (B,) or (K, B)."""
        if not self.timed:
            return outputs
        (out,) = outputs
        xp = array_namespace(out)
        if out.shape[-2] == 1:  # of `task_heads`
            now = out[..., :1] + share[..., None, None, None] * out[..., -1:]
            return (xp.concatenate([now, out[..., 1:-1]], axis=-1),)
        now = out[..., :1, :] + share[..., None, None] * xp.where(self._is_event, 0.0, out[..., -1:, :])
        return (xp.concatenate([now, out[..., 1:-1, :]], axis=-2),)

    def means(self, outputs: Parts, task_heads: TaskHeads) -> Array:
        out = outputs[0][..., 0, :]
        if not self.events:
            return out[..., 0]
        weights = task_heads.weights[:, list(self.events)][:, None, None]
        return out[..., 0] + (_exp(out[..., 1 : 1 + len(self.events)]) * weights).sum(axis=-1)

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        spread = outputs[0][..., 0, 1 + len(self.events) :]
        active = spread.shape[-1] // (1 + self.rank)
        variances = _exp(spread[..., :active])
        variance = variances.sum(axis=-1)
        if self.rank:
            xp = array_namespace(spread)
            factors = spread[..., active:].reshape(*spread.shape[:-1], self.rank, active)
            variance = variance + ((xp.sqrt(variances)[..., None, :] * factors).sum(axis=-1) ** 2).sum(axis=-1)
        return self.means(outputs, task_heads), variance

    def losses(self, chosen: Parts, following: Parts, given: Transition) -> Losses:
        """Half the squared differences of means, the losses of events' means, and those of variances of sums."""
        now, later = (self._means(part[0][:, :, 0]) for part in (chosen, following))
        later = jnp.clip(later, *given.there)
        target = jax.lax.stop_gradient(given.phi + given.discount[..., None] * later)
        most = jnp.log(jnp.maximum(given.here.high, 1.0))  # of the logarithm of a target
        of_events = poisson_loss(chosen[0][:, :, 0], target, most)
        of_means = jnp.where(self._is_event, of_events, (target - now) ** 2 / 2)
        delta = jax.lax.stop_gradient(target - jnp.clip(now, *given.here))
        of_sums = self._losses_of_sums(chosen[0][:, :, 1:], following[0][:, :, 1:], delta, later, given)
        error = jnp.mean(jnp.sqrt(jnp.sum(delta**2, axis=-1)), axis=0)
        return Losses(jnp.sum(of_means, axis=(0, 2)) + _WEIGHT * of_sums, error, jnp.zeros(2))

    def _losses_of_sums(self, chosen: Array, following: Array, delta: Array, later: Array, given: Transition) -> Array:
        """Losses (B,) of the variances of sums, of outputs (K, B, 1 + rank, d)."""
        weighed = given.weights * given.spread
        weighed = weighed / jnp.maximum(jnp.sqrt(jnp.sum(weighed**2, axis=-1, keepdims=True)), 1e-12)
        directions = jnp.concatenate([jnp.asarray(_directions(self.features)), weighed])
        # no variance is larger than that of a return at its two bounds
        largest = (given.there.high - later) * (later - given.there.low) / given.spread**2
        reach = (given.here.high - given.here.low) / given.spread @ jnp.abs(directions).T
        after = self._variances_of_sums(following, directions, largest)
        seen = (delta / given.spread @ directions.T) ** 2 + given.discount[..., None] ** 2 * after
        seen = jax.lax.stop_gradient(jnp.minimum(seen, reach**2)) + _FLOOR
        q = self._variances_of_sums(chosen, directions) + _FLOOR
        return self.features * jnp.sum(jnp.mean(seen / q + jnp.log(q), axis=-1), axis=0)

    def _variances_of_sums(self, outputs: Array, directions: Array, largest: Array | None = None) -> Array:
        """u' Sigma u (K, B, n) for directions u (n, d); largest: of each feature's variance, (K, B, d)."""
        factors = outputs[:, :, 1:]  # (K, B, r, d)
        own = jnp.exp(jnp.clip(outputs[:, :, 0], -_MOST_READ, _MOST_LEARNED))
        if largest is not None:
            own = jnp.minimum(own, largest / (1 + jnp.sum(factors**2, axis=2)))
        common = jnp.einsum("nd,...rd->...nr", directions, factors * jnp.sqrt(own)[..., None, :])
        return jnp.sum(common**2, axis=-1) + own @ (directions**2).T

    def _means(self, psi: Array) -> Array:
        """Means (K, B, d) of features."""
        # the exponential of other features is not taken at all: it could overflow and spoil the gradient
        bounded = jnp.where(self._is_event, jnp.minimum(psi, _MOST_LEARNED), 0.0)
        return jnp.where(self._is_event, jnp.exp(bounded), psi)

    def in_units(self, networks: Networks, units: Array, spread: Array) -> Networks:
        """Means are multiplied, logarithms shifted; factors have no unit."""
        xp, event, (network,) = array_namespace(units), self._is_event, networks
        none, of_means, plain = xp.zeros_like(units), xp.where(event, 1.0, units), xp.ones_like(units)
        factor = xp.concatenate([of_means, *[plain] * (1 + self.rank), *[of_means] * self.timed]).astype(units.dtype)
        logs = [xp.where(event, xp.log(units), 0.0), 2 * xp.log(units * spread)]
        shift = xp.concatenate([*logs, *[none] * (self.rank + self.timed)]).astype(units.dtype)
        weight, bias = (part * padded(factor, part.shape[-1]) for part in network.heads)
        surplus = xp.zeros(bias.shape[-1] - len(shift), units.dtype)
        return (network._replace(heads=Layer(weight, bias + xp.concatenate([shift, surplus]))),)


@lru_cache(maxsize=32)
def _directions(features: int) -> Floats:
    """Fixed directions (n, d) of length 1: unit vectors and random ones."""
    drawn = np.random.default_rng(0).standard_normal((_RANDOM * features, features))
    every = np.concatenate([np.eye(features), drawn])
    return np.asarray(every / np.sqrt((every**2).sum(axis=1, keepdims=True)), np.float32)


def _exp(logs: Array) -> Array:
    xp = array_namespace(logs)
    return xp.exp(xp.minimum(logs, _MOST_READ))


def poisson_loss(logs: Array, target: Array, most: Array | float = _MOST_LEARNED) -> Array:
    """m - y log m for a target y that is never negative, by the logarithm of m; linear where that exceeds `most`."""
    bounded = jnp.minimum(logs, most)
    return jnp.exp(bounded) * (1 + logs - bounded) - target * logs
