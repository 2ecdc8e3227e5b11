"""Networks for mean and covariance of the feature return; the covariance is a diagonal plus a matrix of low rank.

The feature return G is the vector of the discounted sums of the features. Its mean is psi, its covariance is Sigma.

For every feature i, the networks output the numbers a_i, b_i and log s_i^2, and the vector c_i (rank,):

    psi_i    = a_i + f b_i
    Sigma_ij = s_i s_j ((1 if i = j else 0) + c_i . c_j)

Here f is the sum of gamma^t over the steps left, divided by this sum at the start of an episode. Without a time limit,
psi_i = a_i. Sigma is positive definite. To compute w' Sigma w, 1 + rank outputs are needed for each feature with a
nonzero weight.

Means are learned by squared temporal differences delta. Sigma is learned from the variances of sums u' G for
several directions u: unit vectors, random vectors and the tasks' weights. The predicted variance of u' G
is q = u' Sigma u. The target and the loss of q are

    target    t = (u' delta)^2 + gamma^2 u' Sigma(s', a') u
    loss      (t + e) / (q + e) + log(q + e)

For any distribution of t, the mean loss is smallest if q is the mean of t. The loss depends on the relative error of q,
as long as q is above the small constant e. So directions with small variances count as much as other directions. In
the sums u' G, every feature is divided by its typical standard deviation. The gradients of this loss do not shrink
during training. If Sigma and psi shared layers, these gradients would dominate the training of these layers. So Sigma
has a separate network, of half the width.

Events are rare features that are never negative, such as failures. The networks output the logarithms of their means.
Without the logarithm, errors would have the same size in all states. Such errors would decide the action in states
where events cannot happen. The mean m of an event is learned by the loss m - y log m for the target y. The mean loss is
smallest if m is the mean of y.

The maximum over actions at s' selects overestimated means, and bootstrapping adds these errors up. So psi has two
networks with separate layers, psi_1 and psi_2, whose errors differ. Both networks have the same target, which contains

    psi(s', a')  =  3/4 of the output of the network with the lower mean return psi(s', a') . w
                    + 1/4 of the output of the other network

This is a softer form of clipped double Q-learning (Fujimoto and others, 2018). In the last part of training the
policies are frozen (setting `freeze`): frozen networks choose a', so the choice no longer selects errors of the
networks that learn. The target then contains the mean of both outputs.

The mean of the two networks is used to act and to predict. Half the difference of the two, D = (psi_1 - psi_2) . w / 2,
is an estimate of the error of this mean. Let a* = argmax_b psi(s, b) . w be the action that the same policy takes
without risk. The score of an action a is lowered by twice the estimated error of the advantage of a over a*:

    score(s, a)  =  risk[psi . w, w' Sigma w] - 2 |D(s, a) - D(s, a*)|          without risk: psi . w

So a risk-averse policy departs from a* only for a gain of more than twice this error. The score of a* is not lowered.
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
from rasf.deep.laws import Losses, MeanOnly, Networks, Parts, RiskOf, TaskHeads, Transition, padded
from rasf.deep.networks import Heads, Layer, fold_heads
from rasf.risk import Risk

RANK = 2  # the rank that `make_law` chooses for three or more features; for d = 1 or 2 features it is d - 1
_FLOOR = 1e-3  # the constant e of the module's header
_RANDOM = 2  # number of random directions u for each feature
_LOG_ZERO = -1e4  # stands for the logarithm of zero
_LOWER, _LOWER_FROZEN = 0.75, 0.5  # weight of the network with the lower mean, before and after freezing
_DISAGREEMENT = 2.0  # factor of |D(s, a) - D(s, a*)| in scores
_MOST_LEARNED, _MOST_READ = 10.0, 80.0  # upper bounds of logarithms in losses and in scores, to prevent overflow


@dataclass(frozen=True)
class MeanLowRank(MeanOnly):
    """Mean and covariance of low rank; see the module's header.

    Attributes:
        events: Indices of events. Default: none.
        rank: The length of the vectors c_i. Default: 0.
        timed: Whether episodes have a time limit. Default: False.
        mean_networks: Number of networks of psi: 2, or 1 in older files. Default: 2.
    """

    kind: ClassVar[LawKind] = LawKind.MEAN_LOW_RANK
    events: tuple[int, ...] = ()
    rank: int = 0
    timed: bool = False
    mean_networks: int = 2

    @property
    def _is_event(self) -> Bools:
        return np.isin(np.arange(self.features), self.events)

    def shapes(self) -> tuple[Heads, ...]:
        """Return the shape of each part's outputs: a and b for a network of psi; log s^2 and c for Sigma."""
        return *(Heads(1 + self.timed, self.features),) * self.mean_networks, Heads(1 + self.rank, self.features)

    def layers(self, widths: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        return *(widths,) * self.mean_networks, tuple((width + 1) // 2 for width in widths)

    def mean_heads(self, networks: Networks, w: Array) -> TaskHeads:
        """Reduce each network of psi to the outputs from which the mean of the return is computed.

        These are a . w and, with a time limit, b . w, both without the events. The other outputs are the logarithms of
        the means of the events.
        """
        xp, events = array_namespace(w), np.array(self.events, int)
        plain, every = xp.where(self._is_event, 0.0, w), np.arange(self.shapes()[0].size)
        zeros = xp.zeros_like(plain)
        sums = [[plain, zeros], [zeros, plain]] if self.timed else [[plain]]
        one_hot = xp.broadcast_to((every[:, None] == events) * 1.0, (len(w), len(every), len(events)))
        columns = [*(xp.concatenate(each, axis=-1)[..., None] for each in sums), one_hot]
        factor = xp.concatenate(columns, axis=-1).astype(w.dtype)
        folded = (psi._replace(heads=fold_heads(psi.heads, factor)) for psi in networks[: self.mean_networks])
        return TaskHeads(tuple(folded), xp.zeros(0), w)

    def task_heads(self, networks: Networks, w: Array, active: int) -> TaskHeads:
        """Reduce psi as `mean_heads` does, and Sigma to log(s^2 w^2) and c of the features with nonzero weights.

        The vectors c are multiplied by the sign of the feature's weight.
        """
        xp, sigma = array_namespace(w), networks[-1]
        index = xp.argsort(w == 0, axis=-1, stable=True)[:, :active]
        own, every = xp.take_along_axis(w, index, axis=-1), np.arange(self.shapes()[-1].size)[:, None]
        columns = [(every == index[:, None]) * 1.0]
        for r in range(self.rank):
            columns.append((every == (1 + r) * self.features + index[:, None]) * xp.sign(own)[:, None])
        folded = fold_heads(sigma.heads, xp.concatenate(columns, axis=-1).astype(w.dtype))
        logs = xp.where(own == 0, _LOG_ZERO, 2 * xp.log(xp.where(own == 0, 1.0, xp.abs(own))))
        shift = xp.concatenate([logs, xp.zeros((len(w), self.rank * index.shape[1]))], axis=-1)
        heads = Layer(folded.weight, folded.bias + shift[:, None].astype(w.dtype))
        of_means = self.mean_heads(networks, w)
        return of_means._replace(networks=(*of_means.networks, sigma._replace(heads=heads)))

    def at_time(self, outputs: Parts, share: Array) -> Parts:
        """Return the outputs with a + f b in place of a and b. The argument `share`, (B,) or (K, B), is f."""
        if not self.timed:
            return outputs
        n = self.mean_networks
        return *(self._at_time(psi, share) for psi in outputs[:n]), *outputs[n:]

    def _at_time(self, psi: Array, share: Array) -> Array:
        xp = array_namespace(psi)
        if psi.shape[-2] == 1:  # outputs of networks that `mean_heads` reduced
            now = psi[..., :1] + share[..., None, None, None] * psi[..., 1:2]
            return xp.concatenate([now, psi[..., 2:]], axis=-1)
        return psi[..., :1, :] + share[..., None, None] * xp.where(self._is_event, 0.0, psi[..., 1:, :])

    def scores(self, outputs: Parts, task_heads: TaskHeads, risk: Risk) -> Array:
        found = super().scores(outputs, task_heads, risk)
        return found - (getattr(risk, "beta", 1.0) != 0) * self._disagreement(outputs, task_heads)

    def scores_by_each(self, outputs: Parts, task_heads: TaskHeads, risk: RiskOf, beta: Array) -> Array:
        found = super().scores_by_each(outputs, task_heads, risk, beta)
        return found - (beta != 0)[:, None, None] * self._disagreement(outputs, task_heads)

    def _disagreement(self, outputs: Parts, task_heads: TaskHeads) -> Array | float:
        """Return the amount 2 |D(s, a) - D(s, a*)| (K, B, A) by which scores are lowered; see the module's header."""
        if self.mean_networks == 1:
            return 0.0
        first, second = self._means_of_each(outputs, task_heads)
        best = (first + second).argmax(axis=-1)[..., None]
        difference = (first - second) / 2
        of_best = array_namespace(first).take_along_axis(difference, best, axis=-1)
        return _DISAGREEMENT * abs(difference - of_best)

    def means(self, outputs: Parts, task_heads: TaskHeads) -> Array:
        each = self._means_of_each(outputs, task_heads)
        return sum(each[1:], each[0]) / len(each)

    def _means_of_each(self, outputs: Parts, task_heads: TaskHeads) -> list[Array]:
        """Return the mean (K, B, A) of the return that each network of psi predicts."""
        found = [psi[..., 0, :] for psi in outputs[: self.mean_networks]]
        if not self.events:
            return [psi[..., 0] for psi in found]
        weights = task_heads.weights[:, list(self.events)][:, None, None]
        return [psi[..., 0] + (_exp(psi[..., 1:]) * weights).sum(axis=-1) for psi in found]

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        spread = outputs[-1][..., 0, :]
        active = spread.shape[-1] // (1 + self.rank)
        variances = _exp(spread[..., :active])
        variance = variances.sum(axis=-1)
        if self.rank:
            xp = array_namespace(spread)
            factors = spread[..., active:].reshape(*spread.shape[:-1], self.rank, active)
            # not sqrt(variances), because the square root has no gradient at 0
            deviations = xp.exp(xp.minimum(spread[..., :active], _MOST_READ) / 2)
            variance = variance + ((deviations[..., None, :] * factors).sum(axis=-1) ** 2).sum(axis=-1)
        return self.means(outputs, task_heads), variance

    def losses(self, chosen: Parts, following: Parts, given: Transition) -> Losses:
        """Return the losses of the means of feature returns, plus the losses of the variances of the sums u' G."""
        later = self._mean_after([jnp.clip(self._means(psi[:, :, 0]), *given.there) for psi in following[:-1]], given)
        target = jax.lax.stop_gradient(given.phi + given.discount[..., None] * later)
        most = jnp.log(jnp.maximum(given.here.high, 1.0))  # the largest logarithm of a target
        of_means, now = jnp.zeros(()), jnp.zeros(())
        for psi in chosen[:-1]:
            mean = self._means(psi[:, :, 0])
            of_events = poisson_loss(psi[:, :, 0], target, most)
            of_means += jnp.where(self._is_event, of_events, (target - mean) ** 2 / 2)
            now += mean / self.mean_networks
        delta = jax.lax.stop_gradient(target - jnp.clip(now, *given.here))
        of_sums = self._losses_of_sums(chosen[-1], following[-1], delta, later, given)
        error = jnp.mean(jnp.sqrt(jnp.sum(delta**2, axis=-1)), axis=0)
        return Losses(jnp.sum(of_means, axis=(0, 2)) + of_sums, error, jnp.zeros(2))

    def _mean_after(self, means: list[Array], given: Transition) -> Array:
        """Return the mean (K, B, d) of the feature return from s' on, weighted as in the module's header."""
        if len(means) == 1:
            return means[0]
        first, second = means
        of_lower = jnp.where(given.frozen, _LOWER_FROZEN, _LOWER)
        is_lower = jnp.sum((first - second) * given.weights[:, None], axis=-1, keepdims=True) < 0
        share = jnp.where(is_lower, of_lower, 1 - of_lower)
        return share * first + (1 - share) * second

    def _losses_of_sums(self, chosen: Array, following: Array, delta: Array, later: Array, given: Transition) -> Array:
        """Return the losses (B,) of the variances of u' G, from outputs (K, B, 1 + rank, d) and means `later` at s'."""
        weighed = given.weights * given.spread
        weighed = weighed / jnp.maximum(jnp.sqrt(jnp.sum(weighed**2, axis=-1, keepdims=True)), 1e-12)
        directions = jnp.concatenate([jnp.asarray(_directions(self.features)), weighed])
        # for a given mean, the variance is largest if the return always equals one of its bounds
        largest = (given.there.high - later) * (later - given.there.low) / given.spread**2
        reach = (given.here.high - given.here.low) / given.spread @ jnp.abs(directions).T
        after = self._variances_of_sums(following, directions, largest)
        target = (delta / given.spread @ directions.T) ** 2 + given.discount[..., None] ** 2 * after
        target = jax.lax.stop_gradient(jnp.minimum(target, reach**2)) + _FLOOR
        q = self._variances_of_sums(chosen, directions) + _FLOOR
        return self.features * jnp.sum(jnp.mean(target / q + jnp.log(q), axis=-1), axis=0)

    def _variances_of_sums(self, outputs: Array, directions: Array, largest: Array | None = None) -> Array:
        """Return u' Sigma u (K, B, n) for directions u (n, d). `largest` (K, B, d) bounds the features' variances."""
        factors = outputs[:, :, 1:]  # (K, B, r, d)
        own = jnp.exp(jnp.clip(outputs[:, :, 0], -_MOST_READ, _MOST_LEARNED))
        if largest is not None:
            own = jnp.minimum(own, largest / (1 + jnp.sum(factors**2, axis=2)))
        common = jnp.einsum("nd,...rd->...nr", directions, factors * jnp.sqrt(own)[..., None, :])
        return jnp.sum(common**2, axis=-1) + own @ (directions**2).T

    def _means(self, psi: Array) -> Array:
        """Return the means (K, B, d) of feature returns, from outputs that are logarithms for events."""
        # other features get 0 in place of their output, because an exponential that overflows makes the gradient nan
        bounded = jnp.where(self._is_event, jnp.minimum(psi, _MOST_LEARNED), 0.0)
        return jnp.where(self._is_event, jnp.exp(bounded), psi)

    def in_units(self, networks: Networks, units: Array, spread: Array) -> Networks:
        """Multiply means by the units, and shift logarithms accordingly; the vectors c have no unit."""
        xp, event, (*means, sigma) = array_namespace(units), self._is_event, networks
        factor = xp.tile(xp.where(event, 1.0, units).astype(units.dtype), 1 + self.timed)
        of_events = xp.where(event, xp.log(units), 0.0)
        for i, psi in enumerate(means):
            weight, bias = (part * padded(factor, part.shape[-1]) for part in psi.heads)
            heads = Layer(weight, bias + padded(of_events, bias.shape[-1], 0.0).astype(bias.dtype))
            means[i] = psi._replace(heads=heads)
        bias = sigma.heads.bias
        logs = padded(2 * xp.log(units * spread), bias.shape[-1], 0.0).astype(bias.dtype)
        return *means, sigma._replace(heads=sigma.heads._replace(bias=bias + logs))


@lru_cache(maxsize=32)
def _directions(features: int) -> Floats:
    """Return fixed directions (n, d) of length 1: unit vectors and random vectors."""
    drawn = np.random.default_rng(0).standard_normal((_RANDOM * features, features))
    every = np.concatenate([np.eye(features), drawn])
    return np.asarray(every / np.sqrt((every**2).sum(axis=1, keepdims=True)), np.float32)


def _exp(logs: Array) -> Array:
    xp = array_namespace(logs)
    return xp.exp(xp.minimum(logs, _MOST_READ))


def poisson_loss(logs: Array, target: Array, most: Array | float = _MOST_LEARNED) -> Array:
    """Return the losses m - y log m (..) for predicted means m and targets y.

    Args:
        logs: Logarithms of the means m (..).
        target: Targets y (..), never negative.
        most: Above this value of log m, m is extrapolated linearly, so that gradients stay bounded. Default: 10.
    """
    bounded = jnp.minimum(logs, most)
    return jnp.exp(bounded) * (1 + logs - bounded) - target * logs
