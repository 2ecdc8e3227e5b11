"""How a network represents the law of a policy's feature return, how it is scored, and what it learns from.

    Histogram        N probabilities for each of d features, taken to be independent; one head per feature
    MeanOnly         the mean psi alone, so that only the mean can be scored
    MeanCovariance   psi, and by a second network the covariance Sigma from the residual recursion
                     delta delta' + gamma^2 Sigma(s', a'),  delta = phi + gamma psi(s', a') - psi(s, a)

A law consists of parts; each part is one stack of K networks. Outputs of a part have shape (K, B, A, F, M): policies,
batch, actions, heads, numbers per head. `task_heads` keeps the heads that matter for the weights at hand: a task that
weighs two features of thirteen needs two heads.

Histograms are those of C51, feature by feature, on fixed atoms with the projected Bellman update

    support       z_j = low + j Delta,  [low, high] = [phi_min, phi_max] / (1 - gamma),  Delta = (high - low) / (N - 1)
    projection    m_j = sum_k clip(1 - |clip(phi + gamma z_k) - z_j| / Delta, 0, 1) p_k

It keeps the mean while nothing is clipped, and widens the variance a little: histograms converge to the fixed point of
the projected operator, not to the law itself.
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
from rasf.arrays import Array, Floats
from rasf.deep.networks import Heads, Network, choose_heads
from rasf.risk.base import Risk, histogram_moments
from rasf.transfer import packed_indices, packed_weights

Parts = tuple[Array, ...]  # outputs of every part
Networks = tuple[Network, ...]  # weights of every part


class TaskHeads(NamedTuple):
    """What scoring needs for K weightings: the networks with the heads that matter, their atoms and their weights."""

    networks: Networks
    atoms: Array
    weights: Array


class Law(Protocol):
    """See the module's header."""

    kind: ClassVar[LawKind]

    @property
    def features(self) -> int: ...

    def shapes(self, active: int | None = None) -> tuple[Heads, ...]:
        """Shape of every part's outputs: of the networks, or of the heads of a task with `active` features."""

    def task_heads(self, networks: Networks, w: Array, active: int) -> TaskHeads:
        """The heads for the weights w (K, d), one row per policy, of which at most `active` are not zero."""

    def scores(self, outputs: Parts, task_heads: TaskHeads, risk: Risk) -> Array:
        """Risk-adjusted value (K, B, A) of the outputs of `task_heads`."""

    def scores_by_each(
        self, outputs: Parts, task_heads: TaskHeads, risk: Callable[[Array], Risk], beta: Array
    ) -> Array:
        """The same where every policy has a risk of its own, by its beta (K,)."""

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        """Mean and variance (K, B, A) of the return; a variance that was learned may come out negative."""

    def loss(self, chosen: Parts, following: Parts, phi: Array, discount: Array) -> tuple[Array, Array]:
        """Loss, and clipped mass (2,), of outputs (K, B, H, M) at (s, a) against those at (s', a')."""


def make_law(kind: LawKind, features: int, atoms: npt.ArrayLike | None = None) -> Law:
    """The law of this kind; atoms (d, N) are those of histograms."""
    if kind is LawKind.HISTOGRAM:
        return Histogram(tuple(map(tuple, np.asarray(atoms, np.float64).tolist())))
    return MeanOnly(features) if kind is LawKind.MEAN else MeanCovariance(features)


@dataclass(frozen=True)
class Histogram:
    """Probabilities on `atoms` (d, N), kept as nested tuples."""

    kind: ClassVar[LawKind] = LawKind.HISTOGRAM
    atoms: tuple[tuple[float, ...], ...]

    @property
    def features(self) -> int:
        return len(self.atoms)

    def shapes(self, active: int | None = None) -> tuple[Heads, ...]:
        return (Heads(len(self.atoms) if active is None else active, len(self.atoms[0])),)

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
        def of_policy(logits: Array, atoms: Array, w: Array) -> Array:
            return risk.independent_log(logits, atoms, w)

        return jax.vmap(of_policy)(outputs[0], task_heads.atoms, task_heads.weights)

    def scores_by_each(
        self, outputs: Parts, task_heads: TaskHeads, risk: Callable[[Array], Risk], beta: Array
    ) -> Array:
        def of_policy(logits: Array, atoms: Array, w: Array, own: Array) -> Array:
            return risk(own).independent_log(logits, atoms, w)

        return jax.vmap(of_policy)(outputs[0], task_heads.atoms, task_heads.weights, beta)

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        mean, variance = histogram_moments(jax.nn.softmax(outputs[0]), task_heads.atoms[:, None, None])
        weights = task_heads.weights[:, None, None]
        return jnp.sum(mean * weights, axis=-1), jnp.sum(variance * weights**2, axis=-1)

    def loss(self, chosen: Parts, following: Parts, phi: Array, discount: Array) -> tuple[Array, Array]:
        """Cross-entropy against the projected histograms, summed over atoms, features and policies."""
        over_features = jax.vmap(project, in_axes=(1, 0, None, 0), out_axes=(1, 0))
        over_batch = jax.vmap(over_features, in_axes=(1, 0, 0, None), out_axes=(1, 0))
        target, clipped = over_batch(jax.nn.softmax(following[0]), phi, discount, jnp.array(self.atoms))
        entropy = -jnp.sum(jax.lax.stop_gradient(target) * jax.nn.log_softmax(chosen[0]))
        return entropy / len(phi), jnp.mean(clipped, axis=(0, 1))


@dataclass(frozen=True)
class MeanOnly:
    """The mean of `features` features; every task needs all of its one head."""

    kind: ClassVar[LawKind] = LawKind.MEAN
    features: int

    def shapes(self, active: int | None = None) -> tuple[Heads, ...]:
        return (Heads(1, self.features),)

    def task_heads(self, networks: Networks, w: Array, active: int) -> TaskHeads:
        return TaskHeads(networks, jnp.zeros(0), w)

    def scores(self, outputs: Parts, task_heads: TaskHeads, risk: Risk) -> Array:
        """The risk of mean and variance; a negative variance counts as zero."""
        mean, variance = self.moments(outputs, task_heads)
        return risk.moments(mean, jnp.maximum(variance, 0.0))

    def scores_by_each(
        self, outputs: Parts, task_heads: TaskHeads, risk: Callable[[Array], Risk], beta: Array
    ) -> Array:
        mean, variance = self.moments(outputs, task_heads)
        return jax.vmap(lambda m, v, own: risk(own).moments(m, v))(mean, jnp.maximum(variance, 0.0), beta)

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        mean = jnp.einsum("kbad,kd->kba", outputs[0][:, :, :, 0], task_heads.weights)
        return mean, jnp.zeros_like(mean)

    def loss(self, chosen: Parts, following: Parts, phi: Array, discount: Array) -> tuple[Array, Array]:
        """Half the squared temporal difference, summed over features and policies."""
        return jnp.sum(_difference(chosen, following, phi, discount) ** 2) / 2 / len(phi), jnp.zeros(2)


@dataclass(frozen=True)
class MeanCovariance(MeanOnly):
    """The mean of `features` features, and by a second part their covariance, packed as in `rasf.transfer`."""

    kind: ClassVar[LawKind] = LawKind.MEAN_COVARIANCE

    def shapes(self, active: int | None = None) -> tuple[Heads, ...]:
        return (Heads(1, self.features), Heads(1, len(packed_indices(self.features)[0])))

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        mean, _ = super().moments(outputs, task_heads)
        return mean, jnp.einsum("kbam,km->kba", outputs[1][:, :, :, 0], packed_weights(task_heads.weights))

    def loss(self, chosen: Parts, following: Parts, phi: Array, discount: Array) -> tuple[Array, Array]:
        """Half the squared differences of psi and of Sigma."""
        delta = _difference(chosen, following, phi, discount)
        rows, columns = packed_indices(self.features)
        fixed = jax.lax.stop_gradient(delta)
        target = fixed[..., rows] * fixed[..., columns] + discount[:, None] ** 2 * following[1][:, :, 0]
        both = jnp.sum(delta**2) + jnp.sum((target - chosen[1][:, :, 0]) ** 2)
        return both / 2 / len(phi), jnp.zeros(2)


def _difference(chosen: Parts, following: Parts, phi: Array, discount: Array) -> Array:
    """phi + gamma psi(s', a') - psi(s, a), (K, B, d)."""
    return phi + discount[:, None] * following[0][:, :, 0] - chosen[0][:, :, 0]


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
