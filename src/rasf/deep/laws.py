"""How a network represents the law of a policy's feature return, how it is scored, and what it learns from.

    Histogram        N probabilities for each of d features, taken to be independent; one head per feature
    MeanOnly         the mean psi alone, so that only the mean can be scored
    MeanCovariance   psi, and by a second network the covariance Sigma from the residual recursion
                     delta delta' + gamma^2 Sigma(s', a'),  delta = phi + gamma psi(s', a') - psi(s, a)
    MeanDiagonal     psi and the variance of each feature, the diagonal of the same recursion, by one network
    MeanLogDiagonal  the same, where what is never negative, variances and the means of events, is learned by its
                     logarithm: it may be next to nothing in one place and large in the next

A law consists of parts; each part is one stack of K networks. Outputs of a part have shape (K, B, A, F, M): policies,
batch, actions, heads, numbers per head. `task_heads` keeps what matters for the weights at hand: a task that weighs two
features of thirteen needs two histograms, and of psi and Sigma the two numbers psi . w and w' Sigma w, which are linear
in the last layer.

Histograms are those of C51, feature by feature, on fixed atoms with the projected Bellman update

    support       z_j = low + j Delta,  [low, high] = [phi_min, phi_max] / (1 - gamma),  Delta = (high - low) / (N - 1)
    projection    m_j = sum_k clip(1 - |clip(phi + gamma z_k) - z_j| / Delta, 0, 1) p_k

It keeps the mean while nothing is clipped, and widens the variance: between two atoms, with weights 1 - f and f, by
Delta^2 f (1 - f) at every update. Histograms converge to the fixed point of the projected operator, not to the law
itself. How much variance of a histogram is the projection's own, c, obeys the recursion of a variance,

    c = E_p[Delta^2 f (1 - f)] + gamma^2 c(s', a'),

so a `corrected` histogram learns it beside the probabilities, one more number a head, and it is taken off: risks of
mean and variance are given the variance less c, others the histogram drawn together about its mean until it has that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.agents import LawKind
from rasf.arrays import Array, Bools, Floats, array_namespace
from rasf.deep.networks import Heads, Layer, Network, choose_heads, fold_heads
from rasf.risk import MeanVariance
from rasf.risk.base import Risk, histogram_moments
from rasf.transfer import packed_indices, packed_weights

_NOTHING = -1e4  # the logarithm of what does not count
MOST_LEARNED, _MOST_SAID = 10.0, 80.0  # logarithms: a target must not run away, a score must not overflow
Parts = tuple[Array, ...]  # outputs of every part
Networks = tuple[Network, ...]  # weights of every part


class TaskHeads(NamedTuple):
    """What scoring needs for K weightings: the networks with the heads that matter, their atoms and their weights."""

    networks: Networks
    atoms: Array
    weights: Array


class Expected(NamedTuple):
    """Features (B, d) where events are what they come to on average, given the rest of a transition; how these vary.

    All others are what they are, and vary by nothing.
    """

    mean: Array
    variance: Array


class Within(NamedTuple):
    """What discounted sums of features can come to: at least `low` (d,), at most `high` (d,)."""

    low: Array
    high: Array


class Law(Protocol):
    """See the module's header."""

    kind: ClassVar[LawKind]

    @property
    def features(self) -> int: ...

    def shapes(self) -> tuple[Heads, ...]:
        """Shape of every part's outputs."""

    def task_shapes(self, task_heads: TaskHeads) -> tuple[Heads, ...]:
        """Shape of every part's outputs, of what `task_heads` leaves."""

    def task_heads(self, networks: Networks, w: Array, active: int) -> TaskHeads:
        """The heads for the weights w (K, d), one row per policy, of which at most `active` are not zero."""

    def scores(self, outputs: Parts, task_heads: TaskHeads, risk: Risk) -> Array:
        """Risk-adjusted value (K, B, A) of the outputs of `task_heads`."""

    def scores_by_each(
        self, outputs: Parts, task_heads: TaskHeads, risk: Callable[[Array], Risk], beta: Array
    ) -> Array:
        """The same where every policy has a risk of its own, by its beta (K,)."""

    def plain_heads(self, networks: Networks, w: Floats) -> TaskHeads:
        """`task_heads` in numpy, where one task w (d,) is asked of all policies."""

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        """Mean and variance (K, B, A) of the return; a variance that was learned may come out negative."""

    def loss(self, chosen: Parts, following: Parts, phi: Array, discount: Array) -> tuple[Array, Array]:
        """Loss, and clipped mass (2,), of outputs (K, B, H, M) at (s, a) against those at (s', a')."""

    def in_units(self, networks: Networks, units: Array) -> Networks:
        """The networks of plain features, from those that learned features (d,) in these units."""


def make_law(
    kind: LawKind,
    features: int,
    atoms: npt.ArrayLike | None = None,
    corrected: bool = False,
    events: tuple[int, ...] = (),
) -> Law:
    """The law of this kind; atoms (d, N) are those of histograms, which may be corrected; events: `MeanLogDiagonal`."""
    if kind is LawKind.MEAN_LOG_VARIANCE:
        return MeanLogDiagonal(features, events)
    if kind is LawKind.HISTOGRAM:
        return Histogram(tuple(map(tuple, np.asarray(atoms, np.float64).tolist())), corrected)
    laws = {LawKind.MEAN: MeanOnly, LawKind.MEAN_COVARIANCE: MeanCovariance, LawKind.MEAN_VARIANCE: MeanDiagonal}
    return laws[kind](features)


@dataclass(frozen=True)
class Histogram:
    """Probabilities on `atoms` (d, N), kept as nested tuples; `corrected`: see the module's header."""

    kind: ClassVar[LawKind] = LawKind.HISTOGRAM
    atoms: tuple[tuple[float, ...], ...]
    corrected: bool = False

    @property
    def features(self) -> int:
        return len(self.atoms)

    def shapes(self) -> tuple[Heads, ...]:
        return (Heads(len(self.atoms), len(self.atoms[0]) + self.corrected),)

    def task_shapes(self, task_heads: TaskHeads) -> tuple[Heads, ...]:
        return (Heads(task_heads.weights.shape[-1], self.shapes()[0].numbers),)

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
            return histogram_scores(risk, outputs[0], task_heads.atoms, task_heads.weights)
        each = jax.vmap(partial(histogram_scores, risk))
        return each(outputs[0], task_heads.atoms, task_heads.weights)

    def scores_by_each(
        self, outputs: Parts, task_heads: TaskHeads, risk: Callable[[Array], Risk], beta: Array
    ) -> Array:
        each = jax.vmap(lambda own, *given: histogram_scores(risk(own), *given))
        return each(beta, outputs[0], task_heads.atoms, task_heads.weights)

    def plain_heads(self, networks: Networks, w: Floats) -> TaskHeads:
        weighed, shape = np.flatnonzero(w) if np.any(w) else np.zeros(1, int), self.shapes()[0]
        columns = np.arange(shape.size).reshape(shape)[weighed].ravel()
        (network,) = networks
        chosen = network._replace(heads=Layer(*(part[..., columns] for part in network.heads)))
        return TaskHeads((chosen,), np.array(self.atoms)[weighed], w[weighed])

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        mean, variance = histogram_variance(outputs[0], task_heads.atoms[:, None, None])
        weights = task_heads.weights[:, None, None]
        return jnp.sum(mean * weights, axis=-1), jnp.sum(variance * weights**2, axis=-1)

    def loss(self, chosen: Parts, following: Parts, phi: Array, discount: Array) -> tuple[Array, Array]:
        """Cross-entropy against the projected histograms, summed over atoms, features and policies.

        Where they are corrected, also half the squared error of c, in units of the squared spacing.
        """
        n = len(self.atoms[0])
        logits, probs = chosen[0][..., :n], jax.nn.softmax(following[0][..., :n])
        over_features = jax.vmap(project, in_axes=(1, 0, None, 0), out_axes=(1, 0))
        over_batch = jax.vmap(over_features, in_axes=(1, 0, 0, None), out_axes=(1, 0))
        target, clipped = over_batch(probs, phi, discount, jnp.array(self.atoms))
        entropy = -jnp.sum(jax.lax.stop_gradient(target) * jax.nn.log_softmax(logits))
        if self.corrected:
            added = widening(probs, phi, discount, jnp.array(self.atoms))
            wanted = added + discount[:, None] ** 2 * jnp.maximum(following[0][..., n], 0.0)
            entropy += jnp.sum((chosen[0][..., n] - jax.lax.stop_gradient(wanted)) ** 2) / 2
        return entropy / len(phi), jnp.mean(clipped, axis=(0, 1))

    def in_units(self, networks: Networks, units: Array) -> Networks:
        """As they are: atoms have units of their own."""
        return networks


def histogram_scores(risk: Risk, numbers: Array, atoms: Array, w: Array) -> Array:
    """Risk-adjusted value (..) of features with numbers (.., H, M) over atoms (H, N), in numpy or jax.

    M is N, or N + 1 where histograms are corrected.
    """
    n = atoms.shape[-1]
    if numbers.shape[-1] == n:
        return risk.independent_log(numbers, atoms, w)
    mean, left = histogram_variance(numbers, atoms)
    xp = array_namespace(numbers)
    if isinstance(risk, MeanVariance):
        return risk.moments(xp.sum(mean * w, axis=-1), xp.sum(left * w**2, axis=-1))
    _, variance = histogram_moments(_softmax(numbers[..., :n]), atoms)
    narrower = xp.sqrt(left / xp.maximum(variance, 1e-12))[..., None]
    drawn = mean[..., None] + narrower * (atoms - mean[..., None])
    one_by_one = jax.vmap(lambda logits, there: risk.independent_log(logits, there, w))
    flat = one_by_one(numbers[..., :n].reshape(-1, *atoms.shape), drawn.reshape(-1, *atoms.shape))
    return flat.reshape(mean.shape[:-1])


def histogram_variance(numbers: Array, atoms: Array) -> tuple[Array, Array]:
    """Mean and variance (.., H) of histograms; less the projection's own, where they are corrected."""
    n, xp = atoms.shape[-1], array_namespace(numbers)
    mean, variance = histogram_moments(_softmax(numbers[..., :n]), atoms)
    if numbers.shape[-1] == n:
        return mean, variance
    spacing = atoms[..., 1] - atoms[..., 0]
    return mean, xp.maximum(variance - spacing**2 * xp.maximum(numbers[..., n], 0.0), 0.0)


def _softmax(logits: Array) -> Array:
    xp = array_namespace(logits)
    if xp is not np:
        return jax.nn.softmax(logits)
    probs = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return probs / probs.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class MeanOnly:
    """The mean of `features` features; every task needs all of its one head."""

    kind: ClassVar[LawKind] = LawKind.MEAN
    features: int

    def shapes(self) -> tuple[Heads, ...]:
        return (Heads(1, self.features),)

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

    def scores_by_each(
        self, outputs: Parts, task_heads: TaskHeads, risk: Callable[[Array], Risk], beta: Array
    ) -> Array:
        mean, variance = self.moments(outputs, task_heads)
        return jax.vmap(lambda m, v, own: risk(own).moments(m, v))(mean, jnp.maximum(variance, 0.0), beta)

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        mean = outputs[0][..., 0, 0]
        return mean, array_namespace(mean).zeros_like(mean)

    def loss(self, chosen: Parts, following: Parts, phi: Array, discount: Array) -> tuple[Array, Array]:
        """Half the squared temporal difference, summed over features and policies."""
        return jnp.sum(_difference(chosen, following, phi, discount) ** 2) / 2 / len(phi), jnp.zeros(2)

    def in_units(self, networks: Networks, units: Array) -> Networks:
        return tuple(
            one._replace(heads=Layer(*(part * _padded(factor, part.shape[-1]) for part in one.heads)))
            for one, factor in zip(networks, self._factors(units), strict=True)
        )

    def _factors(self, units: Array) -> tuple[Array, ...]:
        """By what the outputs of each part are multiplied."""
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

    def loss(self, chosen: Parts, following: Parts, phi: Array, discount: Array) -> tuple[Array, Array]:
        """Half the squared differences of psi and of Sigma."""
        delta = _difference(chosen, following, phi, discount)
        rows, columns = packed_indices(self.features)
        fixed = jax.lax.stop_gradient(delta)
        target = fixed[..., rows] * fixed[..., columns] + discount[:, None] ** 2 * following[1][:, :, 0]
        both = jnp.sum(delta**2) + jnp.sum((target - chosen[1][:, :, 0]) ** 2)
        return both / 2 / len(phi), jnp.zeros(2)

    def _factors(self, units: Array) -> tuple[Array, ...]:
        rows, columns = packed_indices(self.features)
        return units, units[rows] * units[columns]


@dataclass(frozen=True)
class MeanDiagonal(MeanOnly):
    """Mean and variance of `features` features, taken to be uncorrelated: two heads, one for each moment."""

    kind: ClassVar[LawKind] = LawKind.MEAN_VARIANCE

    def shapes(self) -> tuple[Heads, ...]:
        return (Heads(2, self.features),)

    def _folding(self, w: Array) -> tuple[Array, ...]:
        xp = array_namespace(w)
        none = xp.zeros_like(w)
        columns = (xp.concatenate([w, none], axis=-1), xp.concatenate([none, w**2], axis=-1))
        return (xp.stack(columns, axis=-1),)

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        return outputs[0][..., 0, 0], outputs[0][..., 0, 1]

    def loss(
        self, chosen: Parts, following: Parts, phi: Array, discount: Array, *more: Any, **known: Any
    ) -> tuple[Array, Array]:
        """The mean of each transition's, which may take more."""
        each, _ = self.each_loss(chosen, following, phi, discount, *more, **known)
        return jnp.sum(each) / len(phi), jnp.zeros(2)

    def each_loss(self, chosen: Parts, following: Parts, phi: Array, discount: Array) -> tuple[Array, Array]:
        """The loss (B,) of each transition, and its surprise (B,): how far off policies' means were, on average.

        Half the squared differences of the means, and of the variances from the residuals of the means.
        """
        delta = _difference(chosen, following, phi, discount)
        after = jnp.maximum(following[0][:, :, 1], 0.0)
        target = jax.lax.stop_gradient(delta) ** 2 + discount[:, None] ** 2 * after
        both = delta**2 + (jax.lax.stop_gradient(target) - chosen[0][:, :, 1]) ** 2
        return jnp.sum(both, axis=(0, 2)) / 2, _surprise(delta)

    def _factors(self, units: Array) -> tuple[Array, ...]:
        return (array_namespace(units).concatenate([units, units**2]),)


@dataclass(frozen=True)
class MeanLogDiagonal(MeanDiagonal):
    """`MeanDiagonal` where variances, and the means of `events`, are exponentials of what the network says.

    Events are features that are never negative and mostly zero, such as failures. Their mean is next to nothing in most
    places and large in a few, their variance too. A network that says them as they are has errors of the same size
    everywhere, which then decide where nothing can happen; the errors of logarithms are in proportion. What is never
    negative is learned by m - y log m (the loss of a Poisson law), least where m is the mean of y, whatever its law.
    """

    kind: ClassVar[LawKind] = LawKind.MEAN_LOG_VARIANCE
    events: tuple[int, ...] = ()

    @property
    def _is_event(self) -> Bools:
        return np.isin(np.arange(self.features), self.events)

    def task_heads(self, networks: Networks, w: Array, active: int) -> TaskHeads:
        """The mean of all but events, then the logarithms: of events' means, of variances times w^2 that matter."""
        xp, (policies, d), (network,) = array_namespace(w), w.shape, networks
        index = xp.argsort(w == 0, axis=-1, stable=True)[:, :active]
        own = xp.take_along_axis(w, index, axis=-1)
        every, events = xp.arange(2 * d), np.array(self.events, int)
        columns = [
            xp.concatenate([xp.where(self._is_event, 0.0, w), xp.zeros_like(w)], axis=-1)[..., None],
            xp.broadcast_to((every[:, None] == events) * 1.0, (policies, 2 * d, len(events))),
            (every[:, None] == d + index[:, None]) * 1.0,
        ]
        none = xp.zeros((policies, 1 + len(events)), w.dtype)
        shift = xp.where(own == 0, _NOTHING, 2 * xp.log(xp.where(own == 0, 1.0, xp.abs(own))))
        folded = fold_heads(network.heads, xp.concatenate(columns, axis=-1).astype(w.dtype))
        bias = folded.bias + xp.concatenate([none, shift], axis=-1)[:, None]
        return TaskHeads((network._replace(heads=Layer(folded.weight, bias)),), xp.zeros(0), w)

    def moments(self, outputs: Parts, task_heads: TaskHeads) -> tuple[Array, Array]:
        out, n = outputs[0][..., 0, :], len(self.events)
        mean, variance = out[..., 0], _exp(out[..., 1 + n :]).sum(axis=-1)
        if n:
            weights = task_heads.weights[:, list(self.events)][:, None, None]
            mean = mean + (_exp(out[..., 1 : 1 + n]) * weights).sum(axis=-1)
        return mean, variance

    def each_loss(
        self,
        chosen: Parts,
        following: Parts,
        phi: Array,
        discount: Array,
        expected: Expected | None = None,
        within: Within | None = None,
    ) -> tuple[Array, Array]:
        """Half the squared differences of means, and the losses of what is never negative; and the surprise.

        expected: what to learn from in place of the events that came (`rasf.deep.events`); these still surprise.
        within: nobody learns from what is said beyond it. An exponential that is asked of a state unlike all others may
        say anything, and one target of 20,000 spoils all that policies share.
        """
        now, later = self._means(chosen[0]), self._means(following[0])
        after, believed = jnp.exp(jnp.minimum(following[0][:, :, 1], MOST_LEARNED)), now
        most_mean = most_spread = jnp.float32(MOST_LEARNED)
        if within is not None:
            believed, later = jnp.clip(now, *within), jnp.clip(later, *within)
            span = (within.high - within.low) ** 2
            after = jnp.minimum(after, span / 4)  # no law on an interval varies by more
            widest = (1.25 if expected is None else 1.5) * span
            # logarithms of what targets below can be at most
            most_mean, most_spread = (jnp.log(jnp.maximum(most, 1.0)) for most in (within.high, widest))
        came = target = jax.lax.stop_gradient(phi + discount[:, None] * later)
        if expected is not None:
            target = jax.lax.stop_gradient(expected.mean + discount[:, None] * later)
            if within is not None:
                target = jnp.clip(target, *within)
                expected = expected._replace(variance=jnp.minimum(expected.variance, span / 4))
        of_events = poisson_loss(chosen[0][:, :, 0], target, most_mean)
        of_means = jnp.where(self._is_event, of_events, (target - now) ** 2 / 2)
        spread = jax.lax.stop_gradient((target - believed) ** 2 + discount[:, None] ** 2 * after)
        if expected is not None:
            spread += expected.variance
        each = jnp.sum(of_means + poisson_loss(chosen[0][:, :, 1], spread, most_spread), axis=(0, 2))
        return each, _surprise(came - believed)

    def _means(self, outputs: Array) -> Array:
        """Means (K, B, d) of features, from outputs (K, B, 2, d)."""
        said = outputs[:, :, 0]
        # of the others the exponential is not taken at all: it might overflow, and spoil the slope
        bounded = jnp.where(self._is_event, jnp.minimum(said, MOST_LEARNED), 0.0)
        return jnp.where(self._is_event, jnp.exp(bounded), said)

    def in_units(self, networks: Networks, units: Array) -> Networks:
        """Factors of what is said as it is; logarithms are shifted."""
        xp, (network,), event = array_namespace(units), networks, self._is_event
        factor = xp.concatenate([xp.where(event, 1.0, units), xp.ones(self.features)]).astype(units.dtype)
        shift = xp.concatenate([xp.where(event, xp.log(units), 0.0), 2 * xp.log(units)]).astype(units.dtype)
        weight, bias = (part * _padded(factor, part.shape[-1]) for part in network.heads)
        surplus = xp.zeros(bias.shape[-1] - len(shift), units.dtype)
        return (network._replace(heads=Layer(weight, bias + xp.concatenate([shift, surplus]))),)


def _exp(logs: Array) -> Array:
    xp = array_namespace(logs)
    return xp.exp(xp.minimum(logs, _MOST_SAID))


def poisson_loss(logs: Array, target: Array, most: Array | float = MOST_LEARNED) -> Array:
    """m - y log m for a target y that is never negative, by the logarithm of m; beyond `most` of it, a line."""
    bounded = jnp.minimum(logs, most)
    return jnp.exp(bounded) * (1 + logs - bounded) - target * logs


def _surprise(delta: Array) -> Array:
    """The length of the differences (K, B, d) of means, (B,), on average over policies."""
    return jnp.mean(jnp.sqrt(jnp.sum(delta**2, axis=-1)), axis=0)


def _padded(factor: Array, columns: int) -> Array:
    """Ones for the columns that only fill up."""
    xp = array_namespace(factor)
    return xp.concatenate([factor, xp.ones(columns - len(factor), factor.dtype)])


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


def widening(probs: Array, phi: Array, discount: Array, atoms: Array) -> Array:
    """What a projection adds to the variance (K, B, d), in squared spacings: the mean of f (1 - f).

    probs (K, B, d, N), phi (B, d), discount (B,), atoms (d, N). What is clipped lands on an atom.
    """
    low, spacing = atoms[:, 0], atoms[:, 1] - atoms[:, 0]
    moved = jnp.clip(phi[..., None] + discount[:, None, None] * atoms, atoms[:, :1], atoms[:, -1:])
    place = (moved - low[:, None]) / spacing[:, None]
    f = place - jnp.floor(place)
    return jnp.einsum("kbdn,bdn->kbd", probs, f * (1 - f))


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
