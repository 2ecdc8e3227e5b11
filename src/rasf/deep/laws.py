"""How networks represent distributions of feature returns: outputs of the networks, scores on tasks, and losses.

A feature return is the discounted sum of a feature over the remaining episode. The distributions are:

    Histogram        N probabilities for each of d features, which are assumed independent; one head per feature
    MeanOnly         the mean psi and no variance, so that only the neutral risk can be scored
    MeanCovariance   psi, and by a second network the covariance Sigma, with the target delta delta' +
                     gamma^2 Sigma(s', a') for the residual delta = phi + gamma psi(s', a') - psi(s, a);
                     a' is the action that the policy takes at s'
    MeanLowRank      psi and Sigma by separate networks; Sigma is a diagonal matrix plus a matrix of low rank
                     (`rasf.deep.low_rank`)

Each distribution has one or more parts. A part is one stack of K networks, one network per policy. Outputs of
a part have shape (K, B, A, H, M) for K policies, B inputs, A actions, H heads and M numbers per head. `task_heads`
reduces the last layer to the outputs that a task needs. With histograms, a task with weights on 2 of 13 features needs
the 2 histograms of these features. With psi and Sigma, a task needs the two numbers psi . w and w' Sigma w, which are
linear in the last layer.

Histograms are learned as in C51, separately for each feature. With probabilities p_k on fixed atoms z_k, k = 0 .. N-1,
the target probabilities m_j are given by the projected Bellman update

    support       z_j = low + j Delta,  [low, high] = [phi_min, phi_max] / (1 - gamma),  Delta = (high - low) / (N - 1)
    projection    m_j = sum_k max(0, 1 - |clip(phi + gamma z_k, low, high) - z_j| / Delta) p_k

The projection keeps the mean if no mass is clipped. The mass of each value is shared by its two neighbouring atoms.
If f is the share of the upper atom, every update increases the variance by Delta^2 f (1 - f). Histograms converge to
the fixed point of the projected operator, not to the return distribution itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.agents import LawKind
from rasf.arrays import Array, Floats, array_namespace
from rasf.deep.networks import Heads, Layer, Network, choose_heads, fold_heads
from rasf.risk.base import Risk, histogram_moments
from rasf.transfer import packed_indices, packed_weights

Parts = tuple[Array, ...]  # outputs of every part
Networks = tuple[Network, ...]  # weights of every part
RiskOf = Callable[[Array], Risk]  # a function from a beta to a risk


class TaskHeads(NamedTuple):
    """The networks, reduced to the outputs that are needed to score K weightings.

    Attributes:
        networks: The networks of every part, with the heads that are needed.
        atoms: For histograms: the atoms (K, F, N) of F selected features for each policy. Otherwise empty.
        weights: For histograms: the weights (K, F) of these features. Otherwise the weights (K, d) of all features.
    """

    networks: Networks
    atoms: Array
    weights: Array


class Bounds(NamedTuple):
    """Bounds of discounted feature returns: lowest values (.., d) and highest values (.., d)."""

    low: Array
    high: Array


class Within(NamedTuple):
    """The range of each feature over all steps so far.

    Attributes:
        low: The smallest values (d,), at most 0.
        high: The largest values (d,), at least 0.
        recurring: (d,), 1 for features that were nonzero in a step that did not end the episode. Other
            features have 0 and are assumed to be nonzero at most once in an episode.
    """

    low: Array
    high: Array
    recurring: Array

    def bounds(self, longest: Array) -> Bounds:
        """Return bounds of the feature returns of episodes.

        Args:
            longest: The sum (..) of gamma^t over the steps left.
        """
        times = 1 + self.recurring * (longest[..., None] - 1)
        return Bounds(self.low * times, self.high * times)


class Transition(NamedTuple):
    """B transitions from s to s', for K policies. With n-step returns, each policy may have its own sums of features.

    Attributes:
        phi: Features or n-step sums of features, (B, d) or (K, B, d).
        discount: Discount of the remaining return, (B,) or (K, B); 0 where no return remains.
        here: Bounds (B, d) of the feature return from s on.
        there: Bounds of the feature return from s' on, (B, d) or (K, B, d).
        weights: Weights (K, d) of each policy's task.
        spread: A typical standard deviation (d,) of each feature's return.
        frozen: Whether the policies are frozen (setting `freeze`), so that frozen networks choose a'. Default: False.
    """

    phi: Array
    discount: Array
    here: Bounds
    there: Bounds
    weights: Array
    spread: Array
    frozen: Array | bool = False


class Losses(NamedTuple):
    """Losses of a batch of B transitions, and statistics of the update.

    Attributes:
        each: Losses (B,).
        error: Distances (B,) of predictions from their targets, for prioritised replay.
        clipped: The mean mass (2,) of histograms that was clipped below and above their support.
    """

    each: Array
    error: Array
    clipped: Array


class Law(Protocol):
    """A representation of return distributions by networks; the module's header lists all representations."""

    kind: ClassVar[LawKind]

    @property
    def features(self) -> int: ...

    def shapes(self) -> tuple[Heads, ...]:
        """Return the shape of each part's outputs."""

    def layers(self, widths: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """Return the numbers of units of each part's hidden layers.

        Args:
            widths: The setting `widths`.
        """

    def task_shapes(self, task_heads: TaskHeads) -> tuple[Heads, ...]:
        """Return the shape of each part's outputs after a reduction by `task_heads`.

        Args:
            task_heads: The reduced networks.
        """

    def task_heads(self, networks: Networks, w: Array, active: int) -> TaskHeads:
        """Reduce networks to the outputs that are needed to score with given weights.

        Args:
            networks: The networks.
            w: Weights (K, d), one row per policy.
            active: The largest number of nonzero weights of a policy.
        """

    def scores(self, outputs: Parts, task_heads: TaskHeads, risk: Risk) -> Array:
        """Return the scores (K, B, A) of actions, with the same risk for all policies.

        Args:
            outputs: Outputs of the reduced networks.
            task_heads: The reduced networks.
            risk: The risk.
        """

    def scores_by_each(self, outputs: Parts, task_heads: TaskHeads, risk: RiskOf, beta: Array) -> Array:
        """Return the scores (K, B, A) of actions, with a separate risk for each policy.

        Args:
            outputs: Outputs of the reduced networks.
            task_heads: The reduced networks.
            risk: A function from a beta to a risk, such as `MeanVariance`.
            beta: The beta (K,) of each policy.
        """

    def plain_heads(self, networks: Networks, w: Floats) -> TaskHeads:
        """Return the networks in numpy, reduced as by `task_heads` for the same weights w (d,) in all policies."""

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        """Return the mean and the variance (K, B, A) of the return. A learned variance may be negative.

        Args:
            outputs: Outputs of the reduced networks.
            task_heads: The reduced networks.
        """

    def losses(self, chosen: Parts, following: Parts, given: Transition) -> Losses:
        """Return the losses of a batch.

        Args:
            chosen: Outputs (K, B, H, M) of the online networks at (s, a), for every part.
            following: Outputs (K, B, H, M) of the target networks at (s', a'), for every part.
            given: The transitions.
        """

    def in_units(self, networks: Networks, units: Array, spread: Array) -> Networks:
        """Return networks for features in their own units, from networks that learned scaled features.

        Args:
            networks: The networks.
            units: The unit (d,) by which each feature was divided.
            spread: A typical standard deviation (d,) of each feature's return, in multiples of the unit.
        """

    def at_time(self, outputs: Parts, share: Array) -> Parts:
        """Return the outputs, adjusted to the time left in the episode.

        Args:
            outputs: The outputs of the networks.
            share: The sum of gamma^t over the steps left, divided by this sum over a whole episode, (B,) or (K, B).
        """

    def mean_heads(self, networks: Networks, w: Array) -> TaskHeads:
        """Reduce networks to the outputs that are needed for the mean of the return with the weights w (K, d)."""

    def means(self, outputs: Parts, task_heads: TaskHeads) -> Array:
        """Return means (K, B, A) of the return, from outputs of networks that `mean_heads` or `task_heads` reduced."""


@dataclass(frozen=True)
class Histogram:
    """A histogram of each feature's return: probabilities of N fixed values `atoms` (d, N), given as nested tuples."""

    kind: ClassVar[LawKind] = LawKind.HISTOGRAM
    atoms: tuple[tuple[float, ...], ...]

    @property
    def features(self) -> int:
        return len(self.atoms)

    def shapes(self) -> tuple[Heads, ...]:
        return (Heads(len(self.atoms), len(self.atoms[0])),)

    def layers(self, widths: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        return (widths,)

    def task_shapes(self, task_heads: TaskHeads) -> tuple[Heads, ...]:
        return (Heads(task_heads.weights.shape[-1], len(self.atoms[0])),)

    def task_heads(self, networks: Networks, w: Array, active: int) -> TaskHeads:
        """Select the heads of features with nonzero weights, in order; pad to `active` with features of weight 0."""
        atoms = jnp.array(self.atoms)
        if active == len(self.atoms):
            return TaskHeads(networks, jnp.broadcast_to(atoms, (len(w), *atoms.shape)), w)
        index = jnp.argsort(w == 0, axis=-1, stable=True)[:, :active]
        (network,) = networks
        chosen = network._replace(heads=choose_heads(network.heads, index, self.shapes()[0]))
        return TaskHeads((chosen,), atoms[index], jnp.take_along_axis(w, index, axis=-1))

    def scores(self, outputs: Parts, task_heads: TaskHeads, risk: Risk) -> Array:
        if isinstance(outputs[0], np.ndarray):  # outputs of networks that `plain_heads` reduced
            return risk.independent_log(outputs[0], task_heads.atoms, task_heads.weights)
        each = jax.vmap(risk.independent_log)
        return each(outputs[0], task_heads.atoms, task_heads.weights)

    def scores_by_each(self, outputs: Parts, task_heads: TaskHeads, risk: RiskOf, beta: Array) -> Array:
        each = jax.vmap(lambda own, *given: risk(own).independent_log(*given))
        return each(beta, outputs[0], task_heads.atoms, task_heads.weights)

    def plain_heads(self, networks: Networks, w: Floats) -> TaskHeads:
        weighed, shape = np.flatnonzero(w) if np.any(w) else np.zeros(1, int), self.shapes()[0]
        columns = np.arange(shape.size).reshape(shape)[weighed].ravel()
        (network,) = networks
        chosen = network._replace(heads=Layer(*(part[..., columns] for part in network.heads)))
        return TaskHeads((chosen,), np.array(self.atoms)[weighed], w[weighed])

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        mean, variance = histogram_moments(jax.nn.softmax(outputs[0]), task_heads.atoms[:, None, None])
        weights = task_heads.weights[:, None, None]
        return jnp.sum(mean * weights, axis=-1), jnp.sum(variance * weights**2, axis=-1)

    def losses(self, chosen: Parts, following: Parts, given: Transition) -> Losses:
        """Return the cross-entropies of the target and the predicted histograms, summed over features and policies.

        The targets are projected on the atoms. `error` is the Kullback-Leibler divergence of the prediction from the
        target, summed over features and averaged over policies.
        """
        over_features = jax.vmap(project, in_axes=(1, 0, None, 0), out_axes=(1, 0))
        over_batch = jax.vmap(over_features, in_axes=(1, 0, 0, None), out_axes=(1, 0))
        probs, atoms, (phi, discount, *_) = jax.nn.softmax(following[0]), jnp.array(self.atoms), given
        if phi.ndim == 3:  # every policy has its own n-step sums, and therefore its own projection
            per_policy = jax.vmap(lambda *given: over_batch(*(part[None] for part in given[:1]), *given[1:], atoms))
            target, clipped = per_policy(probs, phi, discount)
            target, clipped = target[:, 0], jnp.mean(clipped, axis=0)
        else:
            target, clipped = over_batch(probs, phi, discount, atoms)
        target = jax.lax.stop_gradient(target)
        cross_entropy = -jnp.sum(target * jax.nn.log_softmax(chosen[0]), axis=(2, 3))  # (K, B)
        negative_entropy = jnp.sum(target * jnp.log(jnp.maximum(target, 1e-12)), axis=(2, 3))
        error = jnp.mean(jax.lax.stop_gradient(cross_entropy) + negative_entropy, axis=0)
        return Losses(jnp.sum(cross_entropy, axis=0), jnp.maximum(error, 0.0), jnp.mean(clipped, axis=(0, 1)))

    def in_units(self, networks: Networks, units: Array, spread: Array) -> Networks:
        """Return the networks unchanged, because histograms learn features in their own units."""
        return networks

    def at_time(self, outputs: Parts, share: Array) -> Parts:
        return outputs

    def mean_heads(self, networks: Networks, w: Array) -> TaskHeads:
        return self.task_heads(networks, w, len(self.atoms))

    def means(self, outputs: Parts, task_heads: TaskHeads) -> Array:
        return self.moments(outputs, task_heads)[0]


@dataclass(frozen=True)
class MeanOnly:
    """The means psi of the feature returns, in one head of `features` numbers."""

    kind: ClassVar[LawKind] = LawKind.MEAN
    features: int

    def shapes(self) -> tuple[Heads, ...]:
        return (Heads(1, self.features),)

    def layers(self, widths: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        return (widths,) * len(self.shapes())

    def task_shapes(self, task_heads: TaskHeads) -> tuple[Heads, ...]:
        """Return one head for each part, with as many numbers as the reduced last layer has columns."""
        return tuple(Heads(1, one.heads.bias.shape[-1]) for one in task_heads.networks)

    def task_heads(self, networks: Networks, w: Array, active: int) -> TaskHeads:
        pairs = zip(networks, self._folding(w), strict=True)
        folded = tuple(one._replace(heads=fold_heads(one.heads, factor)) for one, factor in pairs)
        return TaskHeads(folded, array_namespace(w).zeros(0), w)

    def plain_heads(self, networks: Networks, w: Floats) -> TaskHeads:
        each = np.broadcast_to(w, (len(networks[0].heads.bias), len(w)))
        return self.task_heads(networks, each, max(1, int(np.count_nonzero(w))))

    def _folding(self, w: Array) -> tuple[Array, ...]:
        """Return the factors (K, M, 1) by which the M outputs of each part are summed to the return's mean or variance.

        Args:
            w: Weights (K, d), one row per policy.
        """
        return (w[..., None],)

    def scores(self, outputs: Parts, task_heads: TaskHeads, risk: Risk) -> Array:
        """Return scores from the mean and the variance of the return; a negative variance is replaced by zero."""
        mean, variance = self.moments(outputs, task_heads)
        return risk.moments(mean, array_namespace(mean).maximum(variance, 0.0))

    def scores_by_each(self, outputs: Parts, task_heads: TaskHeads, risk: RiskOf, beta: Array) -> Array:
        mean, variance = self.moments(outputs, task_heads)
        return jax.vmap(lambda m, v, own: risk(own).moments(m, v))(mean, jnp.maximum(variance, 0.0), beta)

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        mean = outputs[0][..., 0, 0]
        return mean, array_namespace(mean).zeros_like(mean)

    def losses(self, chosen: Parts, following: Parts, given: Transition) -> Losses:
        """Return half the squared temporal difference, summed over features and policies."""
        delta = _difference(chosen, following, given)
        return Losses(jnp.sum(delta**2, axis=(0, 2)) / 2, _length(delta), jnp.zeros(2))

    def in_units(self, networks: Networks, units: Array, spread: Array) -> Networks:
        return tuple(
            one._replace(heads=Layer(*(part * padded(factor, part.shape[-1]) for part in one.heads)))
            for one, factor in zip(networks, self._factors(units), strict=True)
        )

    def at_time(self, outputs: Parts, share: Array) -> Parts:
        return outputs

    def mean_heads(self, networks: Networks, w: Array) -> TaskHeads:
        folded = networks[0]._replace(heads=fold_heads(networks[0].heads, w[..., None]))
        return TaskHeads((folded,), array_namespace(w).zeros(0), w)

    def means(self, outputs: Parts, task_heads: TaskHeads) -> Array:
        return outputs[0][..., 0, 0]

    def _factors(self, units: Array) -> tuple[Array, ...]:
        """Return the factors (M,) that convert each part's outputs from scaled features to the features' own units."""
        return (units,)


@dataclass(frozen=True)
class MeanCovariance(MeanOnly):
    """The means psi of the feature returns in one part, and the covariance Sigma of these returns in a second part.

    The second part outputs the upper triangle of Sigma, in the order of `rasf.transfer.packed_indices`.
    """

    kind: ClassVar[LawKind] = LawKind.MEAN_COVARIANCE

    def shapes(self) -> tuple[Heads, ...]:
        return (*super().shapes(), Heads(1, len(packed_indices(self.features)[0])))

    def _folding(self, w: Array) -> tuple[Array, ...]:
        return w[..., None], packed_weights(w)[..., None]

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        return outputs[0][..., 0, 0], outputs[1][..., 0, 0]

    def losses(self, chosen: Parts, following: Parts, given: Transition) -> Losses:
        """Return half the squared errors of psi and Sigma, summed over policies and over the entries of both arrays."""
        delta = _difference(chosen, following, given)
        rows, columns = packed_indices(self.features)
        fixed = jax.lax.stop_gradient(delta)
        target = fixed[..., rows] * fixed[..., columns] + given.discount[..., None] ** 2 * following[1][:, :, 0]
        of_sigma = (target - chosen[1][:, :, 0]) ** 2
        each = jnp.sum(delta**2, axis=(0, 2)) + jnp.sum(of_sigma, axis=(0, 2))
        return Losses(each / 2, _length(delta), jnp.zeros(2))

    def _factors(self, units: Array) -> tuple[Array, ...]:
        rows, columns = packed_indices(self.features)
        return units, units[rows] * units[columns]


def _length(delta: Array) -> Array:
    """Return the Euclidean lengths (B,) of the differences `delta` (K, B, d), averaged over policies."""
    return jnp.mean(jnp.sqrt(jnp.sum(jax.lax.stop_gradient(delta) ** 2, axis=-1)), axis=0)


def padded(first: Array, columns: int, rest: float = 1.0) -> Array:
    """Return one number for each column of a layer, including padding columns.

    Args:
        first: The numbers for the first columns.
        columns: Number of all columns.
        rest: The number for each padding column. Default: 1.
    """
    xp = array_namespace(first)
    return xp.concatenate([first, xp.full(columns - len(first), rest, first.dtype)])


def _difference(chosen: Parts, following: Parts, given: Transition) -> Array:
    """Return the temporal differences phi + gamma psi(s', a') - psi(s, a), (K, B, d)."""
    return given.phi + given.discount[..., None] * following[0][:, :, 0] - chosen[0][:, :, 0]


def support_atoms(bounds: npt.ArrayLike, gamma: float, n: int, *, with_zero: bool = False) -> Floats:
    """Return evenly spaced atoms (d, n) for discounted sums of bounded features.

    Args:
        bounds: Bounds (d, 2) of each feature in a step.
        gamma: The discount. If gamma is 0, `bounds` are the bounds of the sums.
        n: Number of atoms of each feature.
        with_zero: Whether the support is extended to contain 0, because an episode may end at any time. A feature that
            is always 0 then gets the support [-1, 1]. Default: False.

    Raises:
        ValueError: Bounds are not finite or not in increasing order, gamma is not in [0, 1), or n is below 2.
    """
    ends = np.array(bounds, np.float64)
    if with_zero:
        ends = np.stack([np.minimum(ends[:, 0], 0.0), np.maximum(ends[:, 1], 0.0)], axis=1)
        ends[ends[:, 0] == ends[:, 1]] = gamma - 1, 1 - gamma
    ends = checks.bounds("bounds of the features", ends.tolist(), len(ends))
    if not 0 <= gamma < 1:
        raise ValueError(f"gamma must be in [0, 1) for a bounded support, got {gamma}")
    if with_zero:  # divide before linspace, so that atoms have the same bits as in older files
        ends, gamma = ends / (1 - gamma), 0.0
    return np.linspace(ends[:, 0], ends[:, 1], checks.whole("atoms", n, 2), axis=1) / (1 - gamma)


def project(probs: Array, phi: Array, discount: Array, atoms: Array) -> tuple[Array, Array]:
    """Project the distributions of phi + discount * Z_k, k = 1 .. K, on the atoms.

    All K distributions have the same phi and discount, so that one projection matrix is enough.

    Args:
        probs: Probabilities (K, N) of Z_k on the atoms.
        phi: The feature ().
        discount: The discount ().
        atoms: Evenly spaced atoms (N,).

    Returns:
        The projected histograms (K, N), and the mass (2,) that was clipped below and above the atoms, averaged over
        the K distributions.
    """
    low, high, spacing = atoms[0], atoms[-1], atoms[1] - atoms[0]
    moved = phi + discount * atoms
    nearness = 1 - jnp.abs(jnp.clip(moved, low, high) - atoms[:, None]) / spacing
    # full precision: a target histogram must keep its mass and its mean
    projected = jnp.einsum("kn,mn->km", probs, jnp.clip(nearness, 0.0, 1.0), precision="highest")
    slack = 1e-4 * spacing  # rounding errors do not count as clipping
    outside = jnp.stack([moved < low - slack, moved > high + slack])
    return projected, jnp.mean(jnp.sum(probs * outside[:, None], axis=-1), axis=-1)
