"""How a network represents the distribution of a policy's feature return, how it is scored, and its loss.

    Histogram        N probabilities for each of d features, taken to be independent; one head per feature
    MeanOnly         the mean psi alone, so that only the mean can be scored
    MeanCovariance   psi, and by a second network the covariance Sigma from the residual recursion
                     delta delta' + gamma^2 Sigma(s', a'),  delta = phi + gamma psi(s', a') - psi(s, a)
    MeanLowRank      psi and Sigma by two networks, Sigma as a diagonal and factors of low rank (`rasf.deep.low_rank`)

A distribution consists of parts; each part is one stack of K networks. Outputs of a part have shape (K, B, A, F, M):
policies, batch, actions, heads, numbers per head. `task_heads` keeps what matters for the weights at hand: a task that
weighs two features of thirteen needs two histograms, and of psi and Sigma the two numbers psi . w and w' Sigma w, which
are linear in the last layer.

Histograms are those of C51, feature by feature, on fixed atoms with the projected Bellman update

    support       z_j = low + j Delta,  [low, high] = [phi_min, phi_max] / (1 - gamma),  Delta = (high - low) / (N - 1)
    projection    m_j = sum_k clip(1 - |clip(phi + gamma z_k) - z_j| / Delta, 0, 1) p_k

The projection keeps the mean while nothing is clipped, and widens the variance by Delta^2 f (1 - f) at every update,
where f is the share of the upper atom. Histograms converge to the fixed point of the projected operator, not to the
return distribution itself.
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
RiskOf = Callable[[Array], Risk]  # takes beta


class TaskHeads(NamedTuple):
    """What scoring needs for K weightings: the networks with the heads that matter, their atoms and their weights."""

    networks: Networks
    atoms: Array
    weights: Array


class Bounds(NamedTuple):
    """Bounds of discounted feature returns: lowest (.., d) and highest (.., d)."""

    low: Array
    high: Array


class Within(NamedTuple):
    """Features of single steps so far: the least (d,), or 0, and the largest (d,), or 0.

    recurring: (d,), 1 for features that differ from 0 in steps that do not end the episode. Others occur at most once.
    """

    low: Array
    high: Array
    recurring: Array

    def bounds(self, longest: Array) -> Bounds:
        """Of returns of episodes; longest (..): the sum of gamma^t over the steps that are left."""
        times = 1 + self.recurring * (longest[..., None] - 1)
        return Bounds(self.low * times, self.high * times)


class Transition(NamedTuple):
    """What B transitions gave K policies; each policy may have sums over steps of its own.

    phi: features (B, d), or (K, B, d). discount: of what follows, (B,) or (K, B); 0 where the episode terminated. here:
    bounds (B, d) of the feature return at s. there: at s', (B, d) or (K, B, d). weights: (K, d), of each policy's task.
    spread: (d,), a typical standard deviation of each feature's return.
    """

    phi: Array
    discount: Array
    here: Bounds
    there: Bounds
    weights: Array
    spread: Array


class Losses(NamedTuple):
    """Losses (B,) of a batch of transitions, and what else an update shows.

    error: (B,) how far the predictions were from their targets, for prioritised replay. clipped: the mean mass (2,)
    that histograms lost below and above their support.
    """

    each: Array
    error: Array
    clipped: Array


class Law(Protocol):
    """A return distribution as networks hold it; see the module's header."""

    kind: ClassVar[LawKind]

    @property
    def features(self) -> int: ...

    def shapes(self) -> tuple[Heads, ...]:
        """Shape of every part's outputs."""

    def layers(self, widths: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """Units of every part's hidden layers, for the setting `widths`."""

    def task_shapes(self, task_heads: TaskHeads) -> tuple[Heads, ...]:
        """Shape of every part's outputs, of what `task_heads` leaves."""

    def task_heads(self, networks: Networks, w: Array, active: int) -> TaskHeads:
        """The heads for the weights w (K, d), one row per policy, of which at most `active` are not zero."""

    def scores(self, outputs: Parts, task_heads: TaskHeads, risk: Risk) -> Array:
        """Risk-adjusted value (K, B, A) of the outputs of `task_heads`."""

    def scores_by_each(self, outputs: Parts, task_heads: TaskHeads, risk: RiskOf, beta: Array) -> Array:
        """The same where every policy has a risk of its own, by its beta (K,)."""

    def plain_heads(self, networks: Networks, w: Floats) -> TaskHeads:
        """`task_heads` in numpy, of one task w (d,) for all policies."""

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        """Mean and variance (K, B, A) of the return; a learned variance may be negative."""

    def losses(self, chosen: Parts, following: Parts, given: Transition) -> Losses:
        """Losses of the outputs chosen (K, B, H, M) at (s, a) against those of the target networks at (s', a')."""

    def in_units(self, networks: Networks, units: Array, spread: Array) -> Networks:
        """The networks of plain features, from those that learned features (d,) in these units."""

    def at_time(self, outputs: Parts, share: Array) -> Parts:
        """Outputs for the share of an episode's time that is left, (B,) or (K, B)."""

    def mean_heads(self, networks: Networks, w: Array) -> TaskHeads:
        """The heads that the means of the return need for the weights w (K, d)."""

    def means(self, outputs: Parts, task_heads: TaskHeads) -> Array:
        """Means (K, B, A) of the return, of outputs of `mean_heads` or `task_heads`."""


@dataclass(frozen=True)
class Histogram:
    """Probabilities on `atoms` (d, N), kept as nested tuples."""

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
        """The heads of the features that w weighs, in order, filled up with features of weight zero."""
        atoms = jnp.array(self.atoms)
        if active == len(self.atoms):
            return TaskHeads(networks, jnp.broadcast_to(atoms, (len(w), *atoms.shape)), w)
        index = jnp.argsort(w == 0, axis=-1, stable=True)[:, :active]
        (network,) = networks
        chosen = network._replace(heads=choose_heads(network.heads, index, self.shapes()[0]))
        return TaskHeads((chosen,), atoms[index], jnp.take_along_axis(w, index, axis=-1))

    def scores(self, outputs: Parts, task_heads: TaskHeads, risk: Risk) -> Array:
        if isinstance(outputs[0], np.ndarray):  # of `plain_heads`
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
        """Cross-entropy against the projected histograms, summed over atoms, features and policies.

        The error is the divergence from the projected histograms, on average over policies.
        """
        over_features = jax.vmap(project, in_axes=(1, 0, None, 0), out_axes=(1, 0))
        over_batch = jax.vmap(over_features, in_axes=(1, 0, 0, None), out_axes=(1, 0))
        probs, atoms, (phi, discount, *_) = jax.nn.softmax(following[0]), jnp.array(self.atoms), given
        if phi.ndim == 3:  # every policy has its own sum, so its own projection
            own = jax.vmap(lambda *given: over_batch(*(part[None] for part in given[:1]), *given[1:], atoms))
            target, clipped = own(probs, phi, discount)
            target, clipped = target[:, 0], jnp.mean(clipped, axis=0)
        else:
            target, clipped = over_batch(probs, phi, discount, atoms)
        target = jax.lax.stop_gradient(target)
        entropy = -jnp.sum(target * jax.nn.log_softmax(chosen[0]), axis=(2, 3))  # (K, B)
        known = jnp.sum(target * jnp.log(jnp.maximum(target, 1e-12)), axis=(2, 3))
        error = jnp.mean(jax.lax.stop_gradient(entropy) + known, axis=0)
        return Losses(jnp.sum(entropy, axis=0), jnp.maximum(error, 0.0), jnp.mean(clipped, axis=(0, 1)))

    def in_units(self, networks: Networks, units: Array, spread: Array) -> Networks:
        """As they are: atoms have units of their own."""
        return networks

    def at_time(self, outputs: Parts, share: Array) -> Parts:
        return outputs

    def mean_heads(self, networks: Networks, w: Array) -> TaskHeads:
        return self.task_heads(networks, w, len(self.atoms))

    def means(self, outputs: Parts, task_heads: TaskHeads) -> Array:
        return self.moments(outputs, task_heads)[0]


@dataclass(frozen=True)
class MeanOnly:
    """The mean of `features` features; every task needs all of its one head."""

    kind: ClassVar[LawKind] = LawKind.MEAN
    features: int

    def shapes(self) -> tuple[Heads, ...]:
        return (Heads(1, self.features),)

    def layers(self, widths: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        return (widths,) * len(self.shapes())

    def task_shapes(self, task_heads: TaskHeads) -> tuple[Heads, ...]:
        """One number for each moment."""
        return tuple(Heads(1, one.heads.bias.shape[-1]) for one in task_heads.networks)

    def task_heads(self, networks: Networks, w: Array, active: int) -> TaskHeads:
        pairs = zip(networks, self._folding(w), strict=True)
        folded = tuple(one._replace(heads=fold_heads(one.heads, factor)) for one, factor in pairs)
        return TaskHeads(folded, array_namespace(w).zeros(0), w)

    def plain_heads(self, networks: Networks, w: Floats) -> TaskHeads:
        each = np.broadcast_to(w, (len(networks[0].heads.bias), len(w)))
        return self.task_heads(networks, each, max(1, int(np.count_nonzero(w))))

    def _folding(self, w: Array) -> tuple[Array, ...]:
        """How each part's numbers are summed up to moments for the weights (K, d): (K, numbers, moments)."""
        return (w[..., None],)

    def scores(self, outputs: Parts, task_heads: TaskHeads, risk: Risk) -> Array:
        """The risk of mean and variance; a negative variance counts as zero."""
        mean, variance = self.moments(outputs, task_heads)
        return risk.moments(mean, array_namespace(mean).maximum(variance, 0.0))

    def scores_by_each(self, outputs: Parts, task_heads: TaskHeads, risk: RiskOf, beta: Array) -> Array:
        mean, variance = self.moments(outputs, task_heads)
        return jax.vmap(lambda m, v, own: risk(own).moments(m, v))(mean, jnp.maximum(variance, 0.0), beta)

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        mean = outputs[0][..., 0, 0]
        return mean, array_namespace(mean).zeros_like(mean)

    def losses(self, chosen: Parts, following: Parts, given: Transition) -> Losses:
        """Half the squared temporal difference, summed over features and policies."""
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
        """The factors of each part's outputs."""
        return (units,)


@dataclass(frozen=True)
class MeanCovariance(MeanOnly):
    """The mean of `features` features, and by a second part their covariance, packed as in `rasf.transfer`."""

    kind: ClassVar[LawKind] = LawKind.MEAN_COVARIANCE

    def shapes(self) -> tuple[Heads, ...]:
        return (*super().shapes(), Heads(1, len(packed_indices(self.features)[0])))

    def _folding(self, w: Array) -> tuple[Array, ...]:
        return w[..., None], packed_weights(w)[..., None]

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        return outputs[0][..., 0, 0], outputs[1][..., 0, 0]

    def losses(self, chosen: Parts, following: Parts, given: Transition) -> Losses:
        """Half the squared differences of psi and of Sigma."""
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
    """The length of the differences (K, B, d) of means, (B,), on average over policies."""
    return jnp.mean(jnp.sqrt(jnp.sum(jax.lax.stop_gradient(delta) ** 2, axis=-1)), axis=0)


def padded(first: Array, columns: int, rest: float = 1.0) -> Array:
    """Numbers for the first columns of a layer, and `rest` for those that align it."""
    xp = array_namespace(first)
    return xp.concatenate([first, xp.full(columns - len(first), rest, first.dtype)])


def _difference(chosen: Parts, following: Parts, given: Transition) -> Array:
    """phi + gamma psi(s', a') - psi(s, a), (K, B, d)."""
    return given.phi + given.discount[..., None] * following[0][:, :, 0] - chosen[0][:, :, 0]


def support_atoms(bounds: npt.ArrayLike, gamma: float, n: int, *, with_zero: bool = False) -> Floats:
    """Atoms (d, n) of discounted sums of features that every step keeps within bounds (d, 2); gamma 0 leaves those.

    with_zero: an episode may end at any time, so 0 must be within; a feature that is always 0 gets [-1, 1].
    """
    ends = np.array(bounds, np.float64)
    if with_zero:
        ends = np.stack([np.minimum(ends[:, 0], 0.0), np.maximum(ends[:, 1], 0.0)], axis=1)
        ends[ends[:, 0] == ends[:, 1]] = gamma - 1, 1 - gamma
    ends = checks.bounds("bounds of the features", ends.tolist(), len(ends))
    if not 0 <= gamma < 1:
        raise ValueError(f"gamma must be in [0, 1) for a bounded support, got {gamma}")
    if with_zero:  # divided first, so that the same seed gives the same library as before, to the last bit
        ends, gamma = ends / (1 - gamma), 0.0
    return np.linspace(ends[:, 0], ends[:, 1], checks.whole("atoms", n, 2), axis=1) / (1 - gamma)


def project(probs: Array, phi: Array, discount: Array, atoms: Array) -> tuple[Array, Array]:
    """The histograms (K, N) of phi + discount Z_k on the atoms (N,), and their clipped mass (2,), below and above.

    Z_k has the probabilities probs (K, N) on the same, evenly spaced atoms; the K laws share phi and discount, and so
    the projection's matrix. Clipped mass is the mean over the K.
    """
    low, high, spacing = atoms[0], atoms[-1], atoms[1] - atoms[0]
    moved = phi + discount * atoms
    nearness = 1 - jnp.abs(jnp.clip(moved, low, high) - atoms[:, None]) / spacing
    # full precision: a target histogram must keep its mass and its mean
    projected = jnp.einsum("kn,mn->km", probs, jnp.clip(nearness, 0.0, 1.0), precision="highest")
    slack = 1e-4 * spacing  # rounding is not clipping
    outside = jnp.stack([moved < low - slack, moved > high + slack])
    return projected, jnp.mean(jnp.sum(probs * outside[:, None], axis=-1), axis=-1)
