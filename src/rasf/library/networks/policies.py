"""Frozen networks: the laws of K policies' feature returns, as trained by the deep agents, to score and act with.

What the weights w allow to be done once is done once, and kept for the next observation:

    point, residual   psi . w and w' Sigma w are linear in the last layer, so w is folded into it: of d numbers (or
                      d (d + 1) / 2) an action there remains one
    histogram         N probabilities for each feature that w weighs; the other heads are not read

A batch is one compiled jax program, padded to a power of two; it depends neither on w nor on beta (but on the number of
features weighed, and on a risk of histograms that has no beta). One observation of folded networks is a few products in
numpy: at the paper's size that takes 40 us where the dispatch of a compiled call alone takes more, and loops in numba
are no faster. Batches are not numpy's, nor are histograms, whose matrices are large: BLAS gives those to threads that
spin, and a core that another process holds makes it wait tens of milliseconds.

A point law knows no spread, so it serves the mean only. Arrays have shape (K, ..), as in `rasf.deep.networks`, without
the padding of the last layer. The two ways, and batches of other sizes, agree to rounding in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf.arrays import Array, Floats, Ints
from rasf.deep.agent import Agent
from rasf.deep.laws import Histogram, Law, MeanOnly, Networks
from rasf.deep.networks import Heads, Layer, Network, encode, read_heads
from rasf.library.frozen_policies import Scores
from rasf.library.networks import arrays as network_arrays
from rasf.risk import Entropic, MeanVariance, Risk
from rasf.risk.base import histogram_moments

Single = npt.NDArray[np.float32]
_KEPT = 4  # weightings whose folded or chosen heads are kept
_MOST_NUMBERS = 2**22  # of a batch's outputs at once


class HistogramProgram(NamedTuple):
    """`act` for jax code: choose(network, atoms, w, obs, beta, form), with arguments network, atoms, w and beta."""

    choose: Callable[..., Array]
    arguments: tuple[Any, ...]
    form: Any


class NetworkPolicies:
    """See the module's header; `networks` is one stack of K networks for each part of the law."""

    def __init__(self, law: Law, gamma: float, networks: Networks) -> None:
        self.law, self.gamma = law, gamma
        self.networks = tuple(_plain(one, shape) for one, shape in zip(networks, law.shapes(), strict=True))
        self.policies, self.n_inputs = self.networks[0].hidden[0].weight.shape[:2]
        self.n_actions: int = self.networks[0].heads.bias.shape[1]
        self.widths = tuple(layer.bias.shape[1] for layer in self.networks[0].hidden)
        self._kept: dict[bytes, Any] = {}

    @classmethod
    def from_agent(cls, agent: Agent, networks: Networks) -> Self:
        """The networks that an agent has learned; not of one that sees the task."""
        if agent.settings.conditioned:
            raise ValueError("agent must have a network for each task; one that sees the task makes no library")
        return cls(agent.law, agent.settings.gamma, networks)

    @property
    def n_features(self) -> int:
        """d."""
        return len(self.law.atoms) if isinstance(self.law, Histogram) else self.law.shapes()[0].numbers

    def check(self, risk: Risk) -> None:
        """Refuse a risk that these laws cannot serve."""
        if not isinstance(risk, Risk):
            raise ValueError(f"risk must be a rasf risk such as MeanVariance(-4.0), got {risk!r}")
        if _beta(risk) == 0:
            return
        if isinstance(self.law, MeanOnly):
            raise ValueError(f"risk must be neutral, as MeanVariance(0), for networks that know means only, got {risk}")
        form = "independent" if isinstance(self.law, Histogram) else "moments"
        if form not in risk.supports:
            raise ValueError(f"risk must be one that scores {form!r} laws, which these networks have, got {risk}")

    def scores(self, obs: npt.NDArray[Any], w: Floats, risk: Risk) -> Scores:
        """GPE of every policy at observations (B, n)."""
        self.check(risk)
        histogram = isinstance(self.law, Histogram)
        answer = partial(self._run, _score_histograms) if histogram else self._of_moments
        found = [[np.asarray(part)[:, : len(few)] for part in answer(few, w, risk)] for few in self._chunks(obs)]
        joined = (np.concatenate(parts, axis=1, dtype=np.float64) for parts in zip(*found, strict=True))
        values, mean, variance = joined
        spread = np.full_like(mean, np.nan) if isinstance(self.law, MeanOnly) else np.sqrt(variance)
        return Scores(values, mean, spread, self.seen(obs))

    def seen(self, obs: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Everywhere: networks always have an answer."""
        return np.ones(len(obs), np.bool_)

    def act(self, obs: npt.NDArray[Any], w: Floats, risk: Risk) -> Ints:
        """Actions (B,) by GPI; ties go to the lowest."""
        self.check(risk)
        if isinstance(self.law, Histogram):
            found = [
                np.asarray(self._run(_choose_by_histograms, few, w, risk))[: len(few)] for few in self._chunks(obs)
            ]
        else:
            found = [_gpi(self._of_moments(few, w, risk)[0]) for few in self._chunks(obs)]
        return np.concatenate(found, dtype=np.int64)

    def act_one(self, obs: npt.NDArray[Any], w: Floats, risk: Risk) -> int:
        """The action for one observation (n,), quickly."""
        if isinstance(self.law, Histogram):
            return int(self.act(obs[None], w, risk)[0])
        self.check(risk)
        return int(_gpi(self._of_moments(np.asarray(obs, np.float32)[None], w, risk)[0])[0])

    def histogram_program(self, w: Floats, risk: Risk) -> HistogramProgram | None:
        """For loops that are compiled as a whole; None if the networks are no histograms."""
        self.check(risk)
        if not isinstance(self.law, Histogram):
            return None
        return HistogramProgram(_choose_by_histograms, *self._arguments(w, risk))

    def arrays(self, precision: str = "single") -> dict[str, npt.NDArray[Any]]:
        """All that must be stored, beside `describe`; precision "half" takes half the room."""
        return network_arrays.named(self.law, self.networks, precision)

    def describe(self) -> dict[str, Any]:
        """Sizes and law, as JSON."""
        sizes = {"policies": self.policies, "inputs": self.n_inputs, "actions": self.n_actions}
        return network_arrays.describe(self.law) | sizes | {"widths": list(self.widths), "gamma": self.gamma}

    @classmethod
    def restore(cls, description: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The sources with this description and these arrays, all of which are checked."""
        return cls(*network_arrays.restored(description, arrays))

    @classmethod
    def merge(cls, parts: Sequence[Self]) -> Self:
        """The policies of all parts, one after the other."""
        if not parts:
            raise ValueError("parts must hold networks at least once, got none")
        first = parts[0].describe() | {"policies": None}
        for other in parts[1:]:
            for name, size in (other.describe() | {"policies": None}).items():
                if size != first[name]:
                    raise ValueError(f"networks to merge must agree in {name}, got {first[name]} and {size}")
            if other.law != parts[0].law:
                raise ValueError("networks to merge must have the same atoms: their supports differ")
        networks = jax.tree.map(lambda *same: np.concatenate(same), *(part.networks for part in parts))
        return cls(parts[0].law, parts[0].gamma, networks)

    def _of_moments(self, obs: Single, w: Floats, risk: Risk) -> tuple[Any, Any, Any]:
        """Values, mean and variance (K, B, A), of point and residual networks."""
        folded: list[_Prepared] = self._keep(w.tobytes(), lambda: self._fold(w))
        if len(obs) == 1:
            read = [_forward(one.network, obs) for one in folded]
        else:
            padded = _padded(obs)
            read = [np.asarray(_read_folded(one.on_device, padded))[:, : len(obs)] for one in folded]
        mean, variance = read[0], np.maximum(read[1], 0.0) if len(read) > 1 else np.zeros_like(read[0])
        return (mean if _beta(risk) == 0 else risk.moments(mean, variance)), mean, variance

    def _fold(self, w: Floats) -> list[_Prepared]:
        """Networks whose heads give psi . w, and w' Sigma w."""
        rows, columns = np.triu_indices(len(w))
        factors = (w, np.where(rows == columns, 1.0, 2.0) * w[rows] * w[columns])
        return [
            _Prepared(Network(one.hidden, Layer(*(part @ factor.astype(np.float32)[:, None] for part in one.heads))))
            for one, factor in zip(self.networks, factors, strict=False)
        ]

    def _run(self, program: Callable[..., Any], obs: Single, w: Floats, risk: Risk) -> Any:
        """A compiled program of histograms."""
        (network, atoms, weights, beta), form = self._arguments(w, risk)
        return program(network, atoms, weights, _padded(obs), beta, form)

    def _arguments(self, w: Floats, risk: Risk) -> tuple[tuple[Any, ...], Any]:
        """What programs of histograms take: networks, atoms, weights and beta, and the form they are compiled for."""
        weighed, beta = w != 0, _beta(risk)
        chosen: _Chosen = self._keep(weighed.tobytes(), lambda: self._choose_heads(np.flatnonzero(weighed)))
        form = risk if beta is None else type(risk)  # beta is an argument
        return (chosen.on_device, chosen.atoms, w[chosen.index].astype(np.float32), beta), form

    def _choose_heads(self, index: Ints) -> _Chosen:
        assert isinstance(self.law, Histogram)
        index = index if len(index) else np.zeros(1, np.int64)
        (network,), atoms = self.networks, np.array(self.law.atoms, np.float32)
        if len(index) < len(atoms):
            by_head = (part.reshape(*part.shape[:-1], *atoms.shape)[..., index, :] for part in network.heads)
            network = Network(network.hidden, Layer(*(part.reshape(*part.shape[:-2], -1) for part in by_head)))
        return _Chosen(network, index, atoms[index])

    def _keep(self, key: bytes, make: Callable[[], Any]) -> Any:
        """What was made for a key; the oldest is forgotten."""
        found = self._kept.get(key)
        if found is None:
            for oldest in list(self._kept)[: 1 - _KEPT]:  # a list, since another thread may ask meanwhile
                self._kept.pop(oldest, None)
            found = self._kept[key] = make()
        return found

    def _chunks(self, obs: npt.NDArray[Any]) -> Iterator[Single]:
        """The observations, so many at once that the outputs stay small; one empty part if there are none."""
        numbers = self.policies * max(*self.widths, self.n_actions * self.law.shapes()[0].size)
        most = 1 << max(0, (_MOST_NUMBERS // numbers).bit_length() - 1)
        for at in range(0, max(1, len(obs)), most):
            yield np.asarray(obs[at : at + most], np.float32)


@dataclass
class _Prepared:
    """Networks in numpy, and where jax computes once it is asked to."""

    network: Network

    @cached_property
    def on_device(self) -> Network:
        network: Network = jax.tree.map(jnp.asarray, self.network)
        return network


@dataclass
class _Chosen(_Prepared):
    """Histogram networks with the heads of the features `index`, whose atoms are (F, N)."""

    index: Ints
    atoms: Single


def _plain(network: Network, shape: Heads) -> Network:
    """The network in numpy, without the padding of its heads."""
    heads = Layer(*(np.asarray(part)[..., : shape.size] for part in network.heads))
    single = partial(np.require, dtype=np.float32, requirements=["C", "A"])  # memory that BLAS reads as it is
    plain: Network = jax.tree.map(single, Network(network.hidden, heads))
    return plain


def _padded(obs: Single) -> Single:
    """Observations filled up to a power of two, so that few sizes compile."""
    padded = np.zeros((1 << (len(obs) - 1).bit_length(), obs.shape[1]), np.float32)
    padded[: len(obs)] = obs
    return padded


def _forward(folded: Network, x: Single) -> Any:
    """Outputs (K, B, A) of folded networks in numpy, for the inputs x (B, n)."""
    h: Any = x
    for layer in folded.hidden:
        h = h @ layer.weight
        h += layer.bias[:, None]
        np.tanh(h, out=h)
    return h @ folded.heads.weight[..., 0] + folded.heads.bias[:, None, :, 0]


def _gpi(scores: Any) -> Any:
    """Actions (B,) of scores (K, B, A)."""
    return scores.max(axis=0).argmax(axis=-1)


def _beta(risk: Risk) -> float | None:
    """The number that compiled programs take as an argument, and that is 0 for the mean."""
    return float(risk.beta) if isinstance(risk, MeanVariance | Entropic) else None


@jax.jit
def _read_folded(folded: Network, obs: Array) -> Array:
    """Outputs (K, B, A)."""
    return _outputs(folded, obs, Heads(1, 1))[..., 0, 0]


def _outputs(network: Network, obs: Array, shape: Heads) -> Array:
    return read_heads(network.heads, encode(network, obs), shape)


def _values(outputs: Array, atoms: Array, w: Array, beta: Array, form: Any) -> Array:
    risk: Risk = form if beta is None else form(beta)
    return risk.independent_log(outputs, atoms, w)


@partial(jax.jit, static_argnames="form")
def _score_histograms(network: Network, atoms: Array, w: Array, obs: Array, beta: Array, form: Any) -> Any:
    """Values, mean and variance (K, B, A)."""
    outputs = _outputs(network, obs, Heads(*atoms.shape))
    mean, variance = histogram_moments(jax.nn.softmax(outputs), atoms)
    return _values(outputs, atoms, w, beta, form), jnp.sum(mean * w, axis=-1), jnp.sum(variance * w**2, axis=-1)


@partial(jax.jit, static_argnames="form")
def _choose_by_histograms(network: Network, atoms: Array, w: Array, obs: Array, beta: Array, form: Any) -> Any:
    """Actions (B,)."""
    return jnp.argmax(
        jnp.max(_values(_outputs(network, obs, Heads(*atoms.shape)), atoms, w, beta, form), axis=0), axis=-1
    )
