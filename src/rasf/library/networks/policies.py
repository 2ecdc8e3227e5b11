"""Policies of a library that are frozen networks, as trained by the deep agents: scores, actions and storage.

Computations that depend only on the weights w are done once and cached for later observations:

    psi, Sigma    psi . w and w' Sigma w are linear in the last layer. So w is folded into this layer, which then has
                  one output per action instead of d (psi) or d (d + 1) / 2 (Sigma).
    histograms    Each feature has a head with N probabilities as outputs. Only the heads of active features, which have
                  a nonzero weight, are computed.

A batch is padded until its number of observations is a power of two, and scored by a compiled jax program. For
histograms, one program is compiled for each number of active features, and separately for mean-variance risks, for
entropic risks, and for every other risk. w is an argument of the programs, as is the beta of a mean-variance or
entropic risk. A single observation is scored in numpy, in a few matrix products with the folded networks. With the
network sizes of the paper this takes 40 us, less than the dispatch of a compiled call, and loops in numba are not
faster. Batches and histograms are not scored in numpy, because BLAS distributes large matrices to threads that wait for
each other in busy loops: if another process occupies a core, BLAS waits tens of milliseconds.

If only the mean is learned, there is no standard deviation, so only the neutral risk is supported. Scores in numpy and
jax, and in batches of different sizes, are equal up to rounding in float32. Arrays have shape (K, ..) for K policies,
as in `rasf.deep.networks`, but the last layer has no padding. A file contains a description of sizes, and these arrays
by name:

    <part>/hidden/<i>/weight (K, n, m)   .../bias (K, m)       float32, or float16 for half the size
    <part>/heads/weight (K, m, A, X)     .../bias (K, A, X)    float32 or float16
    atoms (d, N)                                               float64, for histograms only

A layer has n inputs and m units, and there are A actions. Hidden layers that all policies share are stored once, with 1
in place of K. A part is a network of the return distribution: "histogram", "psi" or "Sigma". For covariances of low
rank there is also "psi2", a second network of the mean. The number X of outputs per action is d N for "histogram", d
for "psi" and d (d + 1) / 2 for "Sigma". For covariances of low rank, X is the number of outputs in
`rasf.deep.low_rank`. Older files contain one part "moments" instead of "psi" and "Sigma". The hidden layers of
"moments" are copied to both parts.

In docstrings, B is the number of observations, and scores have shape (K, B, A).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf.agents import Family, LawKind, check_acting
from rasf.arrays import Array, Bools, Floats, Ints
from rasf.checks import number, one_of, whole
from rasf.deep.clock import TIME_INPUTS, Clock
from rasf.deep.laws import Histogram, Law, Networks, Parts, TaskHeads
from rasf.deep.low_rank import MeanLowRank
from rasf.deep.make_law import make_law
from rasf.deep.networks import (
    Heads,
    Layer,
    Network,
    Pairs,
    Sines,
    Sizes,
    encode,
    kinds_of_layers,
    plain_outputs,
    read_heads,
)
from rasf.files import Arrays
from rasf.library.frozen_policies import Scores
from rasf.risk import Entropic, MeanVariance, Risk
from rasf.risk.base import histogram_moments
from rasf.risk.cvar import convolution
from rasf.transfer import gpi_actions

Single = npt.NDArray[np.float32]
Made = TypeVar("Made")
RiskForm = Callable[[Array], Risk] | Risk  # mean-variance and entropic: a function from beta to the risk; else the risk
_KEPT = 8  # at most this many objects are cached: networks reduced to one weighting, in numpy or on the device
_MOST_NUMBERS = 2**22  # the largest number of outputs computed in one call
_PARTS = {
    LawKind.HISTOGRAM: ("histogram",), LawKind.MEAN: ("psi",), LawKind.MEAN_COVARIANCE: ("psi", "Sigma"),
    LawKind.MEAN_LOW_RANK: ("psi", "psi2", "Sigma"),
}  # fmt: skip
# optional fields of files that `shared_settings` leaves out or returns in another form
_OF_FILES = ("sines", "events", "limit", "rank", "mean_networks", "spread_widths")
_PRECISIONS: dict[str, np.dtype[Any]] = {"single": np.dtype(np.float32), "half": np.dtype(np.float16)}


class HistogramTask(NamedTuple):
    """A task, as the compiled programs for histograms need it.

    It contains the networks, reduced to the heads of active features, and the atoms and weights of these features.
    `beta` is the beta of a mean-variance or entropic risk, and None for other risks.
    """

    network: Network
    atoms: Array
    weights: Array
    beta: float | None


class NetworkPolicies:
    """Policies that are frozen networks; see the module's header.

    Args:
        law: The object that defines how networks represent return distributions.
        gamma: The discount.
        networks: A stack of K networks for each part of the distribution.
        n_inputs: Number n of inputs.
        limit: Number of steps after which an episode and its return end. If there is a limit, the last inputs encode
            the time left. 0 for continuing returns. Default: 0.
    """

    family = Family.NETWORKS
    action_size = 0

    def __init__(self, law: Law, gamma: float, networks: Networks, n_inputs: int, limit: int = 0) -> None:
        self.law, self.gamma, self.law_kind, self.n_features = law, gamma, law.kind, law.features
        self.networks = tuple(plain(one, shape) for one, shape in zip(networks, law.shapes(), strict=True))
        self.policies, self.n_actions = self.networks[0].heads.bias.shape[:2]
        self.n_inputs, self.limit = n_inputs, limit
        self._layers = tuple(tuple(layer.bias.shape[1] for layer in one.hidden) for one in self.networks)
        self.widths = self._layers[0]
        self._few = 1  # batches of at most this number of rows are computed in numpy
        self._kept: dict[bytes, Any] = {}

    def proposals(self, obs: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """Return None: actions are numbered, and policies propose actions only if these are vectors."""
        return None

    def actions(self, obs: npt.NDArray[Any], chosen: Ints) -> npt.NDArray[Any]:
        """Return the indices `chosen` unchanged, because they are the actions.

        Args:
            obs: Observations (B, n).
            chosen: Indices (B,), 0 to A - 1.
        """
        return chosen

    def shared_settings(self) -> dict[str, Any]:
        """Return the settings of the agent, by name, that must be the same for all policies of a library.

        Raises:
            ValueError: The networks are of an earlier version of rasf, and policies cannot be added.
        """
        own: dict[str, Any] = {"atoms": self._atoms} if isinstance(self.law, Histogram) else {}
        if isinstance(self.law, MeanLowRank):
            if self._layers != self.law.layers(self.widths):
                raise ValueError(
                    "a library of an earlier version, whose means and variances share layers, cannot grow; train a new "
                    "library"
                )
            own["events"] = self.law.events
        switches = {name: so for name, so in self._switches().items() if name not in _OF_FILES}
        own["horizon"] = "episode" if self.limit else "continuing"
        return {"gamma": self.gamma, "widths": self.widths, "objects": 0, **own, **switches}

    @property
    def _atoms(self) -> int | None:
        """The number of atoms of histograms; None for other distributions."""
        return len(self.law.atoms[0]) if isinstance(self.law, Histogram) else None

    def check(self, risk: Risk) -> None:
        """Raise a ValueError for a risk that these distributions cannot score."""
        check_acting(self.law_kind, risk)

    def scores(self, obs: npt.NDArray[Any], w: Floats, risk: Risk) -> Scores:
        """Return the scores of every policy (GPE).

        Args:
            obs: Observations (B, n).
            w: The weights (d,) of the task.
            risk: The risk.
        """
        self.check(risk)
        histogram = self.law_kind is LawKind.HISTOGRAM
        answer = partial(self._run, _score_histograms) if histogram else self._values_and_moments
        found = [[np.asarray(part)[:, : len(few)] for part in answer(few, w, risk)] for few in self._chunks(obs)]
        values, mean, variance = (np.concatenate(some, axis=1, dtype=np.float64) for some in zip(*found, strict=True))
        std = np.full_like(mean, np.nan) if self.law_kind is LawKind.MEAN else np.sqrt(variance)
        return Scores(values, mean, std, self.seen(obs))

    def laws(self, obs: npt.NDArray[Any], w: Floats) -> tuple[Floats, Floats] | None:
        """Return the return distributions of all policies and actions, if the policies have histograms.

        The returns of different features are assumed to be independent.

        Args:
            obs: Observations (B, n).
            w: The weights (d,) of the task.

        Returns:
            Probabilities (K, B, A, M), and the returns (M,) that have these probabilities; None without histograms.
        """
        if not isinstance(self.law, Histogram):
            return None
        task, _ = self.histogram_task(w, MeanVariance(0.0))
        found = [_convolve(task, padded(few)) for few in self._chunks(obs)]
        probs = [
            np.asarray(part, np.float64)[:, : len(few)] for (part, _), few in zip(found, self._chunks(obs), strict=True)
        ]
        joined = np.concatenate(probs, axis=1)
        return joined / joined.sum(axis=-1, keepdims=True), np.asarray(found[0][1], np.float64)

    def seen(self, obs: npt.NDArray[Any]) -> Bools:
        """Return True for every observation (B,), because networks generalise to all observations."""
        return np.ones(len(obs), np.bool_)

    def act(self, obs: npt.NDArray[Any], w: Floats, risk: Risk) -> Ints:
        """Return actions (B,) by GPI.

        Args:
            obs: Observations (B, n).
            w: The weights (d,) of the task.
            risk: The risk.
        """
        self.check(risk)
        if self.law_kind is LawKind.HISTOGRAM:
            found = [np.asarray(self._run(choose_by_histograms, few, w, risk))[: len(few)] for few in self._chunks(obs)]
        else:
            found = [gpi_actions(self._values(few, w, risk)) for few in self._chunks(obs)]
        return np.concatenate(found, dtype=np.int64)

    def act_one(self, obs: npt.NDArray[Any], w: Floats, risk: Risk) -> int:
        """Return the action for one observation. This is faster than `act` with a batch of one observation.

        Args:
            obs: The observation (n,).
            w: The weights (d,) of the task.
            risk: The risk.
        """
        if self.law_kind is LawKind.HISTOGRAM:
            return int(self.act(obs[None], w, risk)[0])
        self.check(risk)
        return int(gpi_actions(self._values(np.asarray(obs, np.float32)[None], w, risk))[0])

    def histogram_task(self, w: Floats, risk: Risk) -> tuple[HistogramTask, RiskForm]:
        """Return the arguments `task` and `form` of `choose_by_histograms`, for calls in compiled loops.

        Args:
            w: The weights (d,) of the task.
            risk: The risk.
        """
        active, beta = w != 0, _beta(risk)
        heads = self._keep(active.tobytes(), lambda: self._active_heads(active))
        weights = w[active] if active.any() else np.zeros(1)
        form = risk if beta is None else type(risk)  # programs get beta as a part of the task
        return HistogramTask(heads.networks[0], heads.atoms[0], weights.astype(np.float32), beta), form

    def _active_heads(self, active: Bools) -> TaskHeads:
        """Return the networks reduced to the heads of the features that are `active` (d,), on the device."""
        same = np.tile(active.astype(np.float32), (self.policies, 1))
        heads = self.law.task_heads(self.networks, same, max(1, int(active.sum())))
        on_device: TaskHeads = jax.tree.map(jnp.asarray, heads)
        return on_device

    def _run(self, program: Callable[..., Any], obs: Single, w: Floats, risk: Risk) -> Any:
        """Run a compiled program for histograms, and return its results."""
        task, form = self.histogram_task(w, risk)
        return program(task, padded(obs), form)

    def _values_and_moments(self, obs: Single, w: Floats, risk: Risk) -> tuple[Array, Array, Array]:
        """Return scores, mean and variance (K, B, A) of the return, from networks of psi and Sigma."""
        read, folded = self._read(obs, w)
        mean, variance = self.law.moments(read, folded)
        values = mean if _beta(risk) == 0 else self.law.scores(read, folded, risk)
        return values, mean, np.maximum(variance, 0.0)

    def _values(self, obs: Single, w: Floats, risk: Risk) -> Array:
        """Return scores (K, B, A), from networks of psi and, unless the risk is neutral, of Sigma."""
        if _beta(risk) == 0:
            return self.law.means(*self._read(obs, w, only_means=True))
        return self.law.scores(*self._read(obs, w), risk)

    def _read(self, obs: Single, w: Floats, *, only_means: bool = False) -> tuple[Parts, TaskHeads]:
        """Return the outputs of networks into which the weights w are folded, and these networks."""
        key = w.tobytes()
        folded = self._keep(key, lambda: self.law.plain_heads(self.networks, w.astype(np.float32)))
        shapes = self.law.task_shapes(folded)
        some = slice(self._mean_networks if only_means else None)
        if len(obs) <= self._few:
            pairs = zip(folded.networks[some], shapes[some], strict=True)
            read = tuple(plain_outputs(one, obs, shape) for one, shape in pairs)
        else:
            on_device = self._keep(b"device" + key, lambda: jax.tree.map(jnp.asarray, folded.networks))
            parts = _read_folded(on_device[some], padded(obs), shapes[some])
            read = tuple(np.asarray(part)[:, : len(obs)] for part in parts)
        if self.clock is not None:
            read = self.law.at_time(read, self.clock.share(obs).astype(np.float32))
        return read, folded

    @property
    def _mean_networks(self) -> int:
        """The number of parts that are networks of the mean."""
        return self.law.mean_networks if isinstance(self.law, MeanLowRank) else 1

    @property
    def clock(self) -> Clock | None:
        """The encoding of the time left as inputs; None without a limit."""
        return Clock(self.limit, self.gamma) if self.limit else None

    def _keep(self, key: bytes, make: Callable[[], Made]) -> Made:
        """Return the cached object of a key. If it is missing, make it; then only the newest `_KEPT` objects stay."""
        found: Made | None = self._kept.get(key)
        if found is None:
            for oldest in list(self._kept)[: 1 - _KEPT]:  # a list, because another thread may add keys
                self._kept.pop(oldest, None)
            found = self._kept[key] = make()
        return found

    def _chunks(self, obs: npt.NDArray[Any]) -> Iterator[Single]:
        """Yield the observations in chunks, to limit the memory of outputs; without observations, one empty chunk."""
        first = self.networks[0].hidden[0]
        listed = self.n_inputs // first.numbers if isinstance(first, Pairs) else 1
        numbers = self.policies * max(listed * max(self.widths), self.n_actions * self.law.shapes()[0].size)
        most = 1 << max(0, (_MOST_NUMBERS // numbers).bit_length() - 1)
        for at in range(0, max(1, len(obs)), most):
            yield np.asarray(obs[at : at + most], np.float32)

    def describe(self) -> dict[str, Any]:
        """Return the sizes and the kind of the networks as a JSON object."""
        return {
            "law": self.law_kind.value,
            "features": self.n_features,
            "atoms": self._atoms,
            "policies": self.policies,
            "inputs": self.n_inputs,
            "actions": self.n_actions,
            "widths": list(self.widths),
            "gamma": self.gamma,
        } | self._switches()

    def _switches(self) -> dict[str, Any]:
        """Return the optional fields that differ from their defaults. `restore` uses defaults for missing fields."""
        first = self.networks[0].hidden[0]
        said = {"sines": isinstance(first, Sines), "shared": len(first.weight) < self.policies}
        events, rank = (self.law.events, self.law.rank) if isinstance(self.law, MeanLowRank) else ((), 0)
        more = {
            "events": list(events),
            "objects": first.numbers if isinstance(first, Pairs) else 0,
            "limit": self.limit,
            "rank": rank,
            "mean_networks": self._mean_networks if self._mean_networks > 1 else 0,
            "spread_widths": [] if self._layers[-1] == self.widths else list(self._layers[-1]),
        }
        return {name: True for name, so in said.items() if so} | {name: value for name, value in more.items() if value}

    def arrays(self, precision: str = "single") -> Arrays:
        """Return the arrays of the library's file.

        Args:
            precision: "single" for float32, or "half" for float16. Default: "single".

        Raises:
            ValueError: A weight is beyond the range of float16.
        """
        one_of("precision", precision, _PRECISIONS)
        first = self.networks[0].hidden[0].weight.shape[1]
        of_parts = [(first, *widths) for widths in self._layers]
        layout = _layout(
            self.law, self.policies, of_parts, self.networks[0].heads.bias.shape[1], "shared" in self._switches()
        )
        named = zip(layout, jax.tree.leaves(self.networks), strict=True)
        arrays = {name: rounded(array, precision) for name, array in named}
        return arrays | ({"atoms": np.array(self.law.atoms)} if isinstance(self.law, Histogram) else {})

    @classmethod
    def restore(cls, description: Mapping[str, object], arrays: Arrays) -> Self:
        """Return the policies that a file stores.

        Args:
            description: Sizes and kind, as `describe` returns them.
            arrays: The arrays, as `arrays` returns them.

        Raises:
            ValueError: A field or an array is missing, invalid, or does not fit.
        """
        return cls(*cls._read_file(description, arrays))

    @staticmethod
    def _read_file(
        description: Mapping[str, object], arrays: Arrays, action_size: int = 0
    ) -> tuple[Law, float, Networks, int, int]:
        """Return the arguments of `NetworkPolicies` that a file stores.

        The inputs of the networks are `action_size` numbers of an action, and then the observation.
        """
        one_of("law", description.get("law"), tuple(_PARTS))
        kind = LawKind(str(description["law"]))
        policies, inputs, actions, features = (
            whole(name, description.get(name)) for name in ("policies", "inputs", "actions", "features")
        )
        widths, gamma = sizes("widths", description.get("widths")), number("gamma", description.get("gamma"), 0.0, 1.0)
        narrow = sizes("spread_widths", description.get("spread_widths")) if "spread_widths" in description else widths
        if len(narrow) != len(widths):
            raise ValueError(f"spread_widths must have {len(widths)} sizes, as many as widths, got {narrow}")
        limit = whole("limit", description.get("limit", 0), 0)
        if gamma == 1 and not limit:
            raise ValueError("gamma must be below 1 without a time limit, got 1")
        atoms = None
        if kind is LawKind.HISTOGRAM:
            n = whole("atoms", description.get("atoms"), 2)
            atoms = checked(arrays, "atoms", (features, n), (np.dtype(np.float64),))
            if not (np.diff(atoms, axis=1) > 0).all():
                raise ValueError("atoms must be in increasing order")
        if description.get("corrected", False):
            raise ValueError("histograms that were trained with corrected=True cannot be read since version 1.0rc2")
        events, objects = description.get("events", []), whole("objects", description.get("objects", 0), 0)
        listed = inputs - (TIME_INPUTS if limit else 0)
        if objects and listed % objects:
            raise ValueError(f"objects must divide the {listed} inputs, got {objects}")
        first = Sizes(policies, action_size + inputs, (), actions, objects=objects, timed=bool(limit)).first
        if not isinstance(events, list) or any(whole("events", event, 0) >= features for event in events):
            raise ValueError(f"events must be a list of features from 0 to {features - 1}, got {events!r}")
        defaults = {"rank": 0, "mean_networks": 1}
        rank, mean_networks = (whole(name, description.get(name, least), least) for name, least in defaults.items())
        if mean_networks > 2:
            raise ValueError(f"mean_networks must be 1 or 2, got {mean_networks}")
        law = make_law(kind, features, atoms, tuple(events), rank, bool(limit), mean_networks)
        if isinstance(law, MeanLowRank) and "moments/heads/weight" in arrays:
            arrays = _in_two_parts(arrays, features)
        of_parts = [*[widths] * (len(law.shapes()) - 1), narrow]
        layout = _layout(
            law, policies, [(first, *part) for part in of_parts], actions, description.get("shared", False) is True
        )
        leaves = [checked(arrays, name, shape) for name, shape in layout.items()]
        surplus = arrays.keys() - layout.keys() - ({"atoms"} if atoms is not None else set())
        if surplus:
            raise ValueError(f"arrays must contain only arrays of {kind} networks, got {min(surplus)!r} too")
        kinds = kinds_of_layers(len(widths), objects, description.get("sines", False) is True)
        like = (Network(tuple(kind(0, 0) for kind in kinds), Layer(0, 0)),) * len(law.shapes())
        return law, gamma, jax.tree.unflatten(jax.tree.structure(like), leaves), inputs, limit

    @classmethod
    def merge(cls, parts: Sequence[Self]) -> Self:
        """Return one object with the policies of several objects, concatenated.

        Args:
            parts: The objects, which must have equal sizes and atoms.

        Raises:
            ValueError: `parts` is empty, or sizes or atoms differ.
        """
        if not parts:
            raise ValueError("parts must hold networks, got none")
        first = parts[0].describe() | {"policies": None, "shared": None}
        for other in parts[1:]:
            theirs = other.describe() | {"policies": None, "shared": None}
            for name in first | theirs:
                if first.get(name) != theirs.get(name):
                    got = f"{first.get(name)} and {theirs.get(name)}"
                    raise ValueError(f"networks to merge must agree in {name}, got {got}")
            if np.any(_atoms_used(other.law) != _atoms_used(parts[0].law)):
                raise ValueError("networks to merge must have the same atoms: their supports differ")
        return cls(parts[0].law, parts[0].gamma, cls._merged(parts), parts[0].n_inputs, parts[0].limit)

    @classmethod
    def _merged(cls, parts: Sequence[Self]) -> Any:
        """Return the networks of all objects in `parts`, concatenated."""
        return tuple(joined(stacks) for stacks in zip(*(part.networks for part in parts), strict=True))


def joined(stacks: Sequence[Network]) -> Network:
    """Return one stack with the networks of all `stacks`.

    Hidden layers that are shared in each stack stay shared if they are equal in all stacks.
    """
    heads = Layer(*(np.concatenate(same) for same in zip(*(one.heads for one in stacks), strict=True)))
    leaves = [jax.tree.leaves(one.hidden) for one in stacks]
    alike = all(
        np.array_equal(part, first) for other in leaves[1:] for part, first in zip(other, leaves[0], strict=True)
    )
    if alike and len(leaves[0][0]) == 1:
        return Network(stacks[0].hidden, heads)
    # layers that are shared within a stack but differ between stacks are repeated for each network of the stack
    own = [jax.tree.map(partial(_repeated, len(one.heads.bias)), one.hidden) for one in stacks]
    return Network(jax.tree.map(lambda *same: np.concatenate(same), *own), heads)


def _repeated(n: int, part: Single) -> Single:
    return np.broadcast_to(part, (n, *part.shape[1:]))


def _atoms_used(law: Law) -> Single:
    """Return the atoms of histograms in float32, or 0 for other distributions."""
    return np.array(law.atoms if isinstance(law, Histogram) else 0.0, np.float32)


def plain(network: Network, shape: Heads) -> Network:
    """Return the network in numpy, without the padding of its heads."""
    heads = Layer(*(np.asarray(part)[..., : shape.size] for part in network.heads))
    single = partial(np.require, dtype=np.float32, requirements=["C", "A"])  # contiguous, for BLAS
    plain: Network = jax.tree.map(single, Network(network.hidden, heads))
    return plain


def padded(obs: Single) -> Single:
    """Append rows of zeros until the number of rows is a power of two, so that programs are compiled for few sizes."""
    padded = np.zeros((1 << (len(obs) - 1).bit_length(), obs.shape[1]), np.float32)
    padded[: len(obs)] = obs
    return padded


def _beta(risk: Risk) -> float | None:
    """Return the beta of a mean-variance or entropic risk, or None for other risks.

    Compiled programs have this beta as an argument, so that one program serves every beta.
    """
    return float(risk.beta) if isinstance(risk, MeanVariance | Entropic) else None


@partial(jax.jit, static_argnums=2)
def _read_folded(folded: Networks, obs: Array, shapes: tuple[Heads, ...]) -> tuple[Array, ...]:
    """Return the outputs (K, B, A, H, M) of every part, for H heads of M numbers."""
    return tuple(_outputs(one, obs, shape) for one, shape in zip(folded, shapes, strict=True))


def _outputs(network: Network, obs: Array, shape: Heads) -> Array:
    return read_heads(network.heads, encode(network, obs), shape)


def _values(outputs: Array, task: HistogramTask, form: RiskForm) -> Array:
    risk = form if isinstance(form, Risk) else form(task.beta)
    return risk.independent_log(outputs, task.atoms, task.weights)


@jax.jit
def _convolve(task: HistogramTask, obs: Array) -> tuple[Array, Array]:
    """Return the probabilities (K, B, A, M) of the weighted sum of feature returns, and its possible values (M,)."""
    return convolution(jax.nn.softmax(_task_outputs(task, obs)), task.atoms, task.weights)


def _task_outputs(task: HistogramTask, obs: Array) -> Array:
    """Return the logits (K, B, A, H, N) of the histograms of the task's H active features."""
    return _outputs(task.network, obs, Heads(*task.atoms.shape))


@partial(jax.jit, static_argnames="form")
def _score_histograms(task: HistogramTask, obs: Array, form: RiskForm) -> tuple[Array, Array, Array]:
    """Return scores, mean and variance (K, B, A) of the return."""
    outputs = _task_outputs(task, obs)
    mean, variance = histogram_moments(jax.nn.softmax(outputs), task.atoms)
    w = task.weights
    return _values(outputs, task, form), jnp.sum(mean * w, axis=-1), jnp.sum(variance * w**2, axis=-1)


@partial(jax.jit, static_argnames="form")
def choose_by_histograms(task: HistogramTask, obs: Array, form: RiskForm) -> Array:
    """Return actions (B,) by GPI.

    Args:
        task: The task, from `NetworkPolicies.histogram_task`.
        obs: Observations (B, n).
        form: A function from beta to the risk, or the risk itself, from `NetworkPolicies.histogram_task`.
    """
    return gpi_actions(_values(_task_outputs(task, obs), task, form))


def sizes(name: str, given: object) -> list[int]:
    """Return the field `name` of a file, which must be a list of sizes."""
    if not isinstance(given, list) or not given:
        raise ValueError(f"{name} must be a list of sizes, got {given!r}")
    return [whole(name, size) for size in given]


def _in_two_parts(arrays: Arrays, features: int) -> Arrays:
    """Return the arrays of separate networks of psi and Sigma, from older files with one network for psi and Sigma.

    The columns of the heads are split between the two networks, and the hidden layers are copied to both networks.
    """
    found: Arrays = {}
    for name, array in arrays.items():
        part, _, place = name.partition("/")
        if part != "moments":
            found[name] = array
            continue
        of_heads = place.startswith("heads/")
        found[f"psi/{place}"] = array[..., :features] if of_heads else array
        found[f"Sigma/{place}"] = array[..., features:] if of_heads else array
    return found


def _layout(
    law: Law, policies: int, sizes: Sequence[tuple[int, ...]], actions: int, shared: bool
) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of the stored arrays, in the order in which jax lists the arrays of the networks.

    For each part, `sizes` contains the number of inputs of the first layer and the units of the hidden layers.
    """
    layout: dict[str, tuple[int, ...]] = {}
    *of_means, last = _PARTS[law.kind]
    for part, own, heads in zip((*of_means[: len(sizes) - 1], last), sizes, law.shapes(), strict=True):
        layers: dict[str, tuple[int, ...]] = {f"hidden/{i}": pair for i, pair in enumerate(pairwise(own))}
        for place, shape in (layers | {"heads": (own[-1], actions, heads.size)}).items():
            several = 1 if shared and place in layers else policies
            layout[f"{part}/{place}/weight"] = (several, *shape)
            layout[f"{part}/{place}/bias"] = (several, *shape[1:])
    return layout


def rounded(array: Single, precision: str) -> npt.NDArray[Any]:
    """Return an array in the precision "single" or "half"; refuse weights beyond the range of float16."""
    with np.errstate(over="ignore"):
        found = array.astype(_PRECISIONS[precision], copy=False)
    if not _all_finite(found):
        raise ValueError(f"precision must be 'single': a weight of {np.abs(array).max():g} is beyond float16")
    return found


def checked(
    arrays: Arrays, name: str, shape: tuple[int, ...], dtypes: Sequence[np.dtype[Any]] = tuple(_PRECISIONS.values())
) -> npt.NDArray[Any]:
    """Return an array of a file by name; refuse a missing array, another shape or type, and infinite or nan numbers."""
    array = arrays.get(name)
    if array is None:
        raise ValueError(f"arrays must hold {name!r}, which is missing")
    if array.shape != shape or array.dtype not in dtypes:
        wanted = " or ".join(map(str, dtypes))
        raise ValueError(f"array {name!r} must have shape {shape} and type {wanted}, got {array.shape}, {array.dtype}")
    if not _all_finite(array):
        raise ValueError(f"array {name!r} must be finite")
    return array


def _all_finite(array: npt.NDArray[Any]) -> bool:
    # isfinite of the array would allocate a second array. Minimum and maximum are nan if any number is nan.
    return bool(array.size == 0 or (np.isfinite(array.min()) and np.isfinite(array.max())))
