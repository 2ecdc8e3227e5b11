"""`TablePolicies`: frozen tabular policies of a library, with psi and Sigma for every visited state.

    mean = psi . w,  variance = max(w' Sigma w, 0),  value = risk.moments(mean, variance),
    act = argmax_a max_k value over policies k; ties go to the lowest action

In shapes, K is the number of policies, S of states, A of actions, d of features, B of observations in a batch, and n of
numbers in an encoded observation (`Encoder`). States and actions without data are scored as follows:

- A state that no learner visited: mean 0, std 0 and value risk.moments(0, 0) for every policy and action, so that `act`
  returns action 0. `seen` is False.
- A visited state where nothing was learned, because an episode was truncated there: scored with the random initial
  values of the tables (initial noise), as in the learner's own GPI. `seen` is False, except if the tables were
  initialised without noise.
- A policy that has learned nothing for an action in a state that its learner visited: scored with the initial
  noise, as in the learner's own GPI. A policy that was planned on a model is excluded instead, as in the next case.
- In a merged library, a policy whose learner never visited a state that another learner visited: excluded from GPI in
  this state, with value -inf, mean 0, std nan.

If Sigma was not learned, the std is nan and only neutral risks are accepted. `act` caches the greedy actions of the
last 16 pairs (w, risk), so that a state is scored once for each pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from rasf.agents import Family, LawKind, check_acting
from rasf.arrays import Bools, Floats, Floats32, Ints
from rasf.checks import number, one_of, whole
from rasf.files import Arrays, Header
from rasf.library.frozen_policies import Scores
from rasf.risk import Elliptical, Entropic, MeanVariance, Risk, SkewNormal
from rasf.risk.base import concrete
from rasf.tabular import frozen as kernels
from rasf.tabular.frozen import NO_NOISE, Frozen, PreparedTask, as_bits, freeze, freeze_tables, make_index, states_of
from rasf.tabular.learner import SuccessorLearner
from rasf.tabular.table import SigmaForm
from rasf.transfer import packed_weights

_REMEMBERED = 16  # number of pairs (w, risk) whose greedy actions are cached
_STATES_AT_ONCE = 4096  # number of states scored in one batch, for risks that compiled code cannot score
_MOST_POLICIES = 2**15 - 1  # largest number of policies of one learner (a group), which are numbered in 16 bits
_LARGEST = 2**15  # largest number of actions and of features; the cache stores 1 + action in 16 bits


class TablePolicies:
    """Frozen tabular policies; the module's header says how states without data are scored."""

    family, law_kind, limit, action_size = Family.TABLES, LawKind.TABLE, 0, 0

    def __init__(
        self, keys: Floats, frozen: Frozen, n_actions: int, n_features: int, gamma: float, sigma: SigmaForm
    ) -> None:
        """Check and store all arrays, which may come from an untrusted file."""
        self.n_actions, self.n_features, self.gamma, self.sigma = n_actions, n_features, gamma, sigma
        _check_arrays(keys, frozen, n_actions, n_features, sigma)
        self._keys, self._frozen = _uniform(keys), Frozen(*map(_uniform, frozen))
        self._index, _ = make_index(self._keys)
        if len(self._index.bits) < len(keys):
            raise ValueError(
                f"keys must be distinct, got {len(keys) - len(self._index.bits)} repeated among {len(keys)}"
            )
        self._learned = np.zeros(len(keys), np.bool_)
        kernels.mark_learned(self._frozen, n_actions, n_features, self._learned)
        self._tasks: dict[tuple[bytes, Risk], PreparedTask] = {}

    @classmethod
    def from_learner(cls, learner: SuccessorLearner, keys: npt.ArrayLike) -> Self:
        """Freeze the tables of a learner.

        Args:
            learner: A learner that has begun at least one task.
            keys: Observations (S, n) of the learner's states; row r of its table belongs to the state keys[r].

        Returns:
            The frozen policies, one for each task of the learner.

        Raises:
            ValueError: `keys` has another shape or equal rows, or the learner has no policies.
        """
        numbers, S = np.array(keys, np.float64), learner.states
        if numbers.ndim != 2 or len(numbers) != S:
            raise ValueError(f"keys must have shape ({S}, n), a row for each state visited, got {numbers.shape}")
        gamma = float(learner.settings.gamma)
        return cls(numbers, freeze(learner), learner.n_actions, learner.n_features, gamma, learner.sigma)

    @classmethod
    def from_tables(cls, keys: Floats, values: Floats32, known: Bools, d: int, gamma: float) -> Self:
        """Make policies from given psi and Sigma.

        Args:
            keys: Observations (S, n).
            values: psi (d numbers) and then the packed entries of Sigma, (K, S, A, m) with m = d + d (d + 1) / 2.
            known: Whether each action of a state has values, (S, A). Actions without values are excluded from GPI.
            d: Number of features.
            gamma: Discount.

        Returns:
            The policies.
        """
        return cls(np.array(keys, np.float64), freeze_tables(values, known), values.shape[2], d, gamma, SigmaForm.FULL)

    @classmethod
    def restore(cls, description: Header, arrays: Mapping[str, np.ndarray]) -> Self:
        """Restore policies from the results of `describe` and `arrays`.

        Args:
            description: Sizes and settings.
            arrays: All arrays, by name.

        Returns:
            The policies.

        Raises:
            ValueError: An array or a setting is missing or invalid.
        """
        A, d = (whole(name, description.get(name)) for name in ("actions", "features"))
        gamma = number("gamma", description.get("gamma"), 0.0, 1.0)
        if gamma == 0:
            raise ValueError("gamma must be above 0, got 0")
        one_of("sigma", description.get("sigma"), map(str, SigmaForm))
        wanted = {"keys", *Frozen._fields}
        if set(arrays) != wanted:
            raise ValueError(f"arrays must be {', '.join(sorted(wanted))}, got {', '.join(sorted(arrays))}")
        frozen = Frozen(*(arrays[name] for name in Frozen._fields))
        sources = cls(arrays["keys"], frozen, A, d, gamma, SigmaForm[description["sigma"].upper()])
        for name, value in sources.describe().items():
            if description.get(name) != value:
                raise ValueError(f"{name} must be {value!r} for these arrays, got {description.get(name)!r}")
        return sources

    @classmethod
    def merge(cls, parts: Sequence[TablePolicies]) -> Self:
        """Merge libraries into one, with the union of their states and the policies of all parts in order.

        Args:
            parts: Policies with equal numbers of features and actions, observation size, gamma and form of Sigma.

        Returns:
            The merged policies.

        Raises:
            ValueError: There are no parts, or the parts differ in one of these properties.
        """
        if not parts:
            raise ValueError("parts must hold at least one library, got none")
        for name in ("features", "actions", "numbers", "gamma", "sigma"):
            found = [part.describe()[name] for part in parts]
            if any(value != found[0] for value in found):
                raise ValueError(f"parts must all have the same {name}, got {', '.join(map(str, found))}")
        one = parts[0]
        keys, frozen = kernels.merge([part._keys for part in parts], [part._frozen for part in parts], one.n_actions)
        return cls(keys, frozen, one.n_actions, one.n_features, one.gamma, one.sigma)

    @property
    def policies(self) -> int:
        return int(self._frozen.policies[-1])

    @property
    def states(self) -> int:
        return len(self._keys)

    @property
    def n_inputs(self) -> int:
        """n, the size of an observation."""
        return int(self._keys.shape[1])

    def shared_settings(self) -> Header:
        """Return the settings of the agent that must be the same for all policies of a library."""
        if self.sigma is SigmaForm.DIAGONAL:
            raise ValueError("a library whose tables hold only the diagonal of Sigma cannot grow; train a new one")
        return {"gamma": self.gamma}

    def check(self, risk: Risk) -> None:
        """Raise ValueError if a risk needs more than mean and variance, or needs Sigma and Sigma was not learned."""
        check_acting(self.law_kind, risk, covariance=self.sigma is not SigmaForm.NONE)

    def scores(self, obs: np.ndarray, w: Floats, risk: Risk) -> Scores:
        """Return the scores of every policy (GPE) at observations (B, n)."""
        task, state = self.prepared(w, risk), states_of(self._index, self._rows(obs))
        shape = (self.policies, len(state), self.n_actions)
        mean, variance, has_cell = np.zeros(shape), np.zeros(shape), np.zeros(shape[:2], np.bool_)
        kernels.policy_moments(task, state, mean, variance, has_cell)
        np.maximum(variance, 0.0, out=variance)
        values = _values(risk, mean, variance)
        std = np.full(shape, np.nan) if self.sigma is SigmaForm.NONE else np.sqrt(variance)
        outside = np.isnan(mean) | (~has_cell & (state >= 0))[..., None]
        values[outside], mean[outside], std[outside] = -np.inf, 0.0, np.nan
        return Scores(values, mean, std, self._is_learned(state))

    def laws(self, obs: np.ndarray, w: Floats) -> None:
        """Return None: tables hold mean and covariance, but no distribution."""

    def seen(self, obs: np.ndarray) -> Bools:
        """Return whether any policy has learned at each observation (B,)."""
        return self._is_learned(states_of(self._index, self._rows(obs)))

    def _is_learned(self, state: Ints) -> Bools:
        learned = state >= 0
        learned[learned] = self._learned[state[learned]]
        return learned

    def act(self, obs: np.ndarray, w: Floats, risk: Risk) -> npt.NDArray[np.int64]:
        """Return actions (B,) by GPI at observations (B, n); 0 at a state that was never visited."""
        task, rows = self.prepared(w, risk), as_bits(self._rows(obs))
        actions = np.empty(len(rows), np.int64)
        kernels.act_all(task, rows, actions)
        if not task.linear and (actions < 0).any():
            self.find_actions(task, risk, np.unique(-1 - actions[actions < 0]))
            kernels.act_all(task, rows, actions)
        return actions

    def proposals(self, obs: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """Return None, because actions are numbered."""
        return None

    def actions(self, obs: np.ndarray, chosen: Ints) -> Ints:
        """Return the indices `chosen` (B,) themselves, because actions are numbered."""
        return chosen

    def act_one(self, obs: np.ndarray, w: Floats, risk: Risk) -> int:
        """Return the action at one observation (n,)."""
        if obs.shape != (self.n_inputs,):
            raise ValueError(f"obs must have shape ({self.n_inputs},), the numbers of one observation, got {obs.shape}")
        task = self.prepared(w, risk)
        action = int(kernels.act_one(task, as_bits(obs)))
        if action < 0:
            state = -1 - action
            self.find_actions(task, risk, np.array([state]))
            action = int(task.known[state]) - 1
        return action

    def prepared(self, w: Floats, risk: Risk) -> PreparedTask:
        """Return the cached task for (w, risk), or make and cache it. Risks that cannot be hashed are not cached."""
        weights = np.ascontiguousarray(w, np.float64)
        key = (weights.tobytes(), risk)
        try:
            task = self._tasks.get(key)
        except TypeError:
            return self._prepare(weights, risk)
        if task is None:
            task = self._tasks[key] = self._prepare(weights, risk)
            for oldest in list(self._tasks)[:-_REMEMBERED]:  # a copy, because another thread may change the dict
                self._tasks.pop(oldest, None)
        return task

    def _prepare(self, w: Floats, risk: Risk) -> PreparedTask:
        if w.shape != (self.n_features,):
            raise ValueError(f"w must have shape ({self.n_features},), one weight per feature, got {w.shape}")
        self.check(risk)
        square = np.zeros(0)
        if self.sigma is not SigmaForm.NONE:
            square = packed_weights(w, diagonal=self.sigma is SigmaForm.DIAGONAL)
        weight = _variance_weight(risk)
        # `known` starts empty: a state is scored when it is first visited
        return PreparedTask(
            state_index=self._index,
            frozen=self._frozen,
            n_actions=self.n_actions,
            w=w.copy(),
            square=square,
            size=float(np.abs(w).sum()),
            linear=weight is not None,
            variance_weight=0.0 if weight is None else weight,
            known=np.zeros(self.states, np.uint16),
        )

    def find_actions(self, task: PreparedTask, risk: Risk, state: Ints) -> None:
        """Find the greedy actions of some states by the values of `risk.moments`, and store them in the task."""
        frozen, A = self._frozen, self.n_actions
        for begin in range(0, len(state), _STATES_AT_ONCE):
            some = state[begin : begin + _STATES_AT_ONCE]
            cells, after = frozen.states[some], frozen.states[some + 1]
            most = int((frozen.entries[after * A] - frozen.entries[cells * A] + A * (after - cells)).sum())
            mean, variance, ends = np.empty(most), np.empty(most), np.empty(len(some) * A, np.int64)
            used = kernels.slot_moments(task, some, mean, variance, ends)
            kernels.best_of(_values(risk, mean[:used], variance[:used]), ends, A, some, task.known)

    def arrays(self, precision: str = "single") -> Arrays:
        """Return all arrays, to store them unchanged; `precision` must be "single"."""
        if precision != "single":
            raise ValueError(f"precision must be single for tables, got {precision!r}")
        return {"keys": self._keys, **self._frozen._asdict()}

    def describe(self) -> Header:
        """Return sizes and settings, as JSON."""
        return {
            "law": "table",
            "policies": self.policies,
            "actions": self.n_actions,
            "features": self.n_features,
            "numbers": self.n_inputs,
            "states": self.states,
            "gamma": self.gamma,
            "sigma": str(self.sigma),
        }

    def _rows(self, obs: np.ndarray) -> Floats:
        """Return observations (B, n) as float64; compiled code does not check bounds, so the shape is checked here."""
        if obs.ndim != 2 or obs.shape[1] != self.n_inputs:
            raise ValueError(f"obs must have shape (B, {self.n_inputs}), numbers of B observations, got {obs.shape}")
        return np.ascontiguousarray(obs, np.float64)


def _values(risk: Risk, mean: Floats, variance: Floats) -> Floats:
    exact = MeanVariance(0.0) if isinstance(risk, Entropic) else risk  # `check` accepts only the neutral `Entropic`
    return np.array(exact.moments(mean, variance), np.float64)


def _variance_weight(risk: Risk) -> float | None:
    """Return c if the value of a risk is mean + c * variance, else None."""
    if type(risk) is SkewNormal or (type(risk) is Elliptical and risk.law == "normal"):
        return concrete(MeanVariance(risk.beta).variance_weight)
    if type(risk) is MeanVariance:
        return concrete(risk.variance_weight)
    return 0.0 if type(risk) is Entropic else None


def _uniform(array: np.ndarray) -> np.ndarray:
    """Make an array aligned, contiguous and read-only, so that compiled code sees one array type."""
    same = np.require(array, requirements=["C", "A"]).view()
    same.setflags(write=False)
    return same


def _check_arrays(keys: Floats, frozen: Frozen, A: int, d: int, sigma: SigmaForm) -> None:
    """Check shapes, types, offsets and ranges of all arrays, because compiled code does not check bounds."""
    if not (1 <= A <= _LARGEST and 1 <= d <= _LARGEST):
        raise ValueError(f"actions and features must be 1 to {_LARGEST} each, got {A} and {d}")
    if keys.dtype != np.float64 or keys.ndim != 2 or keys.shape[1] < 1:
        raise ValueError(f"keys must be float64 of shape (S, n), got {keys.dtype} of shape {keys.shape}")
    if not np.isfinite(keys).all():
        raise ValueError("keys must be finite, got nan or infinite numbers")
    m, cells, stored, groups = d + sigma.entries(d), frozen.group.size, frozen.first.size, frozen.seed.size
    wanted: dict[str, tuple[type[np.generic], tuple[int, ...]]] = {
        "states": (np.int64, (len(keys) + 1,)),
        "group": (np.int32, (cells,)),
        "row": (np.int32, (cells,)),
        "entries": (np.int64, (cells * A + 1,)),
        "first": (np.int16, (stored,)),
        "last": (np.int16, (stored,)),
        "value": (np.float32, (stored, m)),
        "policies": (np.int64, (groups + 1,)),
        "seed": (np.uint64, (groups,)),
        "noise": (np.float64, (groups,)),
    }
    for name, array in frozen._asdict().items():
        kind, shape = np.dtype(wanted[name][0]), wanted[name][1]
        if array.dtype != kind or array.shape != shape:
            raise ValueError(f"{name} must be {kind} of shape {shape}, got {array.dtype} of shape {array.shape}")
    if groups == 0:
        raise ValueError("seed must have one number for each group of policies, got none")
    _check_offsets("policies", frozen.policies, min(int(frozen.policies[-1]), groups * _MOST_POLICIES), strictly=True)
    if np.diff(frozen.policies).max() > _MOST_POLICIES:
        raise ValueError(f"policies must be offsets that give every group at most {_MOST_POLICIES} policies")
    _check_offsets("states", frozen.states, cells, strictly=True)
    _check_offsets("entries", frozen.entries, stored, strictly=False)
    if cells and (frozen.group.min() < 0 or frozen.group.max() >= groups):
        raise ValueError(f"group must be 0 to {groups - 1}, got {frozen.group.min()} to {frozen.group.max()}")
    if not _rise_within(frozen.group, frozen.group, frozen.states):
        raise ValueError("group must increase strictly within each state")
    if cells and frozen.row.min() < 0:
        raise ValueError(f"row must not be negative, got {frozen.row.min()}")
    size = np.repeat(np.diff(frozen.policies)[frozen.group], np.diff(frozen.entries[::A]))
    if not ((frozen.first >= 0) & (frozen.first <= frozen.last) & (frozen.last < size)).all():
        raise ValueError("first and last must be policies of their group, with first <= last")
    if not _rise_within(frozen.first, frozen.last, frozen.entries):
        raise ValueError("first and last must give increasing, disjoint ranges for each cell and action")
    if not np.isfinite(frozen.value).all():
        raise ValueError("value must be finite, got nan or infinite numbers")
    if not (np.isfinite(frozen.noise) & ((frozen.noise >= 0) | (frozen.noise == NO_NOISE))).all():
        raise ValueError(f"noise must be finite and not negative, or {NO_NOISE:g}")


def _check_offsets(name: str, offsets: Ints, end: int, strictly: bool) -> None:
    low, high = offsets[:-1], offsets[1:]
    if offsets[0] != 0 or offsets[-1] != end or not (low < high if strictly else low <= high).all():
        raise ValueError(f"{name} must increase {'strictly ' if strictly else ''}from 0 to {end}")


def _rise_within(low: Ints, high: Ints, offsets: Ints) -> bool:
    """Return whether the intervals low[i] .. high[i] increase without overlap within each range given by `offsets`."""
    begins = np.zeros(len(low), np.bool_)
    begins[offsets[:-1][np.diff(offsets) > 0]] = True
    return bool((begins[1:] | (low[1:] > high[:-1])).all())
