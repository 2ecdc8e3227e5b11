"""How a network represents the law of a policy's feature return, how it is scored, and what it learns from.

    Histogram   N probabilities for each of d features, taken to be independent; one head a feature
    MeanOnly       the mean psi alone, so that only the mean can be scored
    MeanCovariance    psi, and by a second network the covariance Sigma from the residual recursion
                    delta delta' + gamma^2 Sigma(s', a'),  delta = phi + gamma psi(s', a') - psi(s, a)

A law consists of parts; each part is one stack of K networks. Outputs of a part have shape (K, B, A, F, M): policies,
batch, actions, heads, numbers a head. `select` keeps the heads that matter for the weights at hand: a task that weighs
two features of thirteen needs two heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from rasf.arrays import Array
from rasf.deep.categorical import project
from rasf.deep.networks import Heads, Network, choose_heads
from rasf.risk.base import Risk, histogram_moments

Parts = tuple[Array, ...]  # outputs of every part
Networks = tuple[Network, ...]  # weights of every part


class TaskHeads(NamedTuple):
    """What scoring needs for K weightings: the networks with the heads that matter, their atoms and their weights."""

    networks: Networks
    atoms: Array
    weights: Array


class Law(Protocol):
    """See the module's header."""

    def shapes(self, active: int | None = None) -> tuple[Heads, ...]:
        """Shape of every part's outputs: of the networks, or of a task_heads for weights with `active` entries."""

    def select(self, networks: Networks, w: Array, active: int) -> TaskHeads:
        """The task_heads for the weights w (K, d), one row a policy, of which at most `active` are not zero."""

    def scores(self, outputs: Parts, task_heads: TaskHeads, risk: Risk) -> Array:
        """Risk-adjusted value (K, B, A) of the outputs of a task_heads."""

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        """Mean and variance (K, B, A) of the return; a variance that was learned may come out negative."""

    def loss(self, chosen: Parts, following: Parts, phi: Array, discount: Array) -> tuple[Array, Array]:
        """Loss, and clipped mass (2,), of outputs (K, B, H, M) at (s, a) against those at (s', a')."""


@dataclass(frozen=True)
class Histogram:
    """Probabilities on `atoms` (d, N), kept as nested tuples."""

    atoms: tuple[tuple[float, ...], ...]

    def shapes(self, active: int | None = None) -> tuple[Heads, ...]:
        """One head of N logits a feature."""
        return (Heads(len(self.atoms) if active is None else active, len(self.atoms[0])),)

    def select(self, networks: Networks, w: Array, active: int) -> TaskHeads:
        """The heads of the features that w weighs, in order, filled up with features of weight zero."""
        atoms = jnp.array(self.atoms)
        if active == len(self.atoms):
            return TaskHeads(networks, jnp.broadcast_to(atoms, (len(w), *atoms.shape)), w)
        index = jnp.argsort(w == 0, axis=-1, stable=True)[:, :active]
        (network,) = networks
        chosen = network._replace(heads=choose_heads(network.heads, index, self.shapes()[0]))
        return TaskHeads((chosen,), atoms[index], jnp.take_along_axis(w, index, axis=-1))

    def scores(self, outputs: Parts, task_heads: TaskHeads, risk: Risk) -> Array:
        """The risk of the weighted sum of independent features."""

        def of_policy(logits: Array, atoms: Array, w: Array) -> Array:
            return risk.independent_log(logits, atoms, w)

        return jax.vmap(of_policy)(outputs[0], task_heads.atoms, task_heads.weights)

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        """Of the weighted sum of independent features."""
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
    """The mean of `features` features."""

    features: int

    def shapes(self, active: int | None = None) -> tuple[Heads, ...]:
        """One head of d numbers."""
        return (Heads(1, self.features),)

    def select(self, networks: Networks, w: Array, active: int) -> TaskHeads:
        """Everything is needed."""
        return TaskHeads(networks, jnp.zeros(0), w)

    def scores(self, outputs: Parts, task_heads: TaskHeads, risk: Risk) -> Array:
        """The risk of a certain return psi . w."""
        return risk.moments(*self.moments(outputs, task_heads))

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        """psi . w, and no variance."""
        mean = jnp.einsum("kbad,kd->kba", outputs[0][:, :, :, 0], task_heads.weights)
        return mean, jnp.zeros_like(mean)

    def loss(self, chosen: Parts, following: Parts, phi: Array, discount: Array) -> tuple[Array, Array]:
        """Half the squared temporal difference, summed over features and policies."""
        return jnp.sum(_difference(chosen, following, phi, discount) ** 2) / 2 / len(phi), jnp.zeros(2)


@dataclass(frozen=True)
class MeanCovariance:
    """The mean of `features` features, and the upper triangle of their covariance."""

    features: int

    def shapes(self, active: int | None = None) -> tuple[Heads, ...]:
        """psi, and Sigma's upper triangle."""
        triangle = self.features * (self.features + 1) // 2
        return (Heads(1, self.features), Heads(1, triangle))

    def select(self, networks: Networks, w: Array, active: int) -> TaskHeads:
        """Everything is needed."""
        return TaskHeads(networks, jnp.zeros(0), w)

    def scores(self, outputs: Parts, task_heads: TaskHeads, risk: Risk) -> Array:
        """The risk of mean and variance; a negative variance counts as zero."""
        mean, variance = self.moments(outputs, task_heads)
        return risk.moments(mean, jnp.maximum(variance, 0.0))

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        """psi . w and w' Sigma w."""
        rows, columns = np.triu_indices(self.features)
        twice = np.where(rows == columns, 1.0, 2.0)
        products = twice * task_heads.weights[:, rows] * task_heads.weights[:, columns]
        mean = jnp.einsum("kbad,kd->kba", outputs[0][:, :, :, 0], task_heads.weights)
        return mean, jnp.einsum("kbam,km->kba", outputs[1][:, :, :, 0], products)

    def loss(self, chosen: Parts, following: Parts, phi: Array, discount: Array) -> tuple[Array, Array]:
        """Half the squared differences of psi and of Sigma."""
        delta = _difference(chosen, following, phi, discount)
        rows, columns = np.triu_indices(self.features)
        fixed = jax.lax.stop_gradient(delta)
        target = fixed[..., rows] * fixed[..., columns] + discount[:, None] ** 2 * following[1][:, :, 0]
        both = jnp.sum(delta**2) + jnp.sum((target - chosen[1][:, :, 0]) ** 2)
        return both / 2 / len(phi), jnp.zeros(2)


def _difference(chosen: Parts, following: Parts, phi: Array, discount: Array) -> Array:
    """phi + gamma psi(s', a') - psi(s, a), (K, B, d)."""
    return phi + discount[:, None] * following[0][:, :, 0] - chosen[0][:, :, 0]
