"""`TablePolicies`: tabular policies of a library, psi and Sigma for every state they have met, frozen.

    mean psi . w,  variance w' Sigma w (never below 0),  value = risk.moments(mean, variance),
    act = argmax_a max_k value, ties to the lowest action

An observation is its numbers (n,), the `Encoder`'s. What is answered where little is known:

- A state that no learner has met: mean 0, spread 0, value risk.moments(0, 0) for all, so `act` gives action 0.
- A state that was met, but where nothing was learned (an episode was cut off there): the policies' initial noise, as
  the learner's own GPI has it. In both cases `seen` is False. Learners without noise cannot tell the second case.
- A policy that has learned nothing for an action of a state its learner knows: its initial noise, for the same reason.
- A policy whose learner has never met a state that others of a merged library know: it takes no part in the choice:
  value -inf, mean 0, spread nan.

Without Sigma (risk-neutral training) the spread is nan and only neutral risks are served. `act` remembers the greedy
actions of the last few (w, risk), so that a state is scored once for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.envs.four_room import FourRoom
from rasf.library.frozen_policies import Scores
from rasf.library.tables.checks import SIGMA, check_frozen, check_keys, check_sizes, same_everywhere
from rasf.risk import Elliptical, Entropic, MeanVariance, Risk, SkewNormal
from rasf.risk.base import concrete
from rasf.tabular import frozen as kernels
from rasf.tabular.environments import SuccessorAgent
from rasf.tabular.freezing import freeze, merge, visited_from_python, visited_in_four_room
from rasf.tabular.frozen import Frozen, Scoring
from rasf.tabular.learner import SuccessorLearner
from rasf.tabular.state_index import StateIndex, as_bits, make_index, states_of
from rasf.tabular.table import DIAGONAL_SIGMA, NO_SIGMA

_REMEMBERED = 16  # (w, risk) whose greedy actions are kept
_STATES_AT_ONCE = 4096  # scored together where the risk is not compiled


class _Task(NamedTuple):
    """One (w, risk): what compiled code needs, and 1 + the greedy action of every state, 0 if not yet found."""

    scoring: Scoring
    linear: bool  # whether the risk is mean + half_beta variance
    known: Ints


class Prepared(NamedTuple):
    """A `_Task` for loops that act by themselves; where it is not linear `find_actions(states)` fills in `known`."""

    state_index: StateIndex
    frozen: Frozen
    scoring: Scoring
    linear: bool
    known: Ints
    find_actions: Callable[[Ints], None]


class TablePolicies:
    """Frozen tabular policies; see the module's header for what they answer."""

    def __init__(self, keys: Floats, frozen: Frozen, n_actions: int, n_features: int, gamma: float, sigma: int) -> None:
        """Checks everything: the arrays may come from a stranger's file."""
        self.n_actions, self.n_features, self.gamma, self.sigma = n_actions, n_features, gamma, sigma
        check_keys(keys)
        check_frozen(frozen, len(keys), n_actions, n_features, sigma)
        self._keys, self._frozen = _uniform(keys), Frozen(*map(_uniform, frozen))
        self._index, _ = make_index(self._keys)
        if len(self._index.bits) < len(keys):
            raise ValueError(f"keys must be distinct, got {len(keys) - len(self._index.bits)} of {len(keys)} again")
        self._learned = np.zeros(len(keys), np.bool_)
        kernels.mark_learned(self._frozen, n_actions, n_features, self._learned)
        self._pairs = _pairs(n_features, sigma)
        self._tasks: dict[tuple[bytes, Risk], _Task] = {}

    @classmethod
    def from_learner(cls, learner: SuccessorLearner, keys: npt.ArrayLike) -> TablePolicies:
        """Freeze what a learner has learned; row r of its table is the state with the numbers keys[r] (n,)."""
        numbers, met = np.array(keys, np.float64), int(learner.table.used[0])
        if numbers.ndim != 2 or len(numbers) != met:
            raise ValueError(f"keys must have shape ({met}, n), a row for each state met, got {numbers.shape}")
        return cls._frozen_from(learner, numbers, np.arange(len(numbers)))

    @classmethod
    def from_agent(cls, agent: SuccessorAgent, size: int) -> TablePolicies:
        """Freeze an agent whose keys were the bytes of the observations' float64 numbers (size,)."""
        return cls._frozen_from(agent.learner, *visited_from_python(agent.learner, size))

    @classmethod
    def from_four_room(cls, learner: SuccessorLearner, rooms: FourRoom) -> TablePolicies:
        """Freeze a learner of the compiled four-room loop; it acts on the observations of `rasf/FourRoom-v0`."""
        return cls._frozen_from(learner, *visited_in_four_room(learner, rooms))

    @classmethod
    def _frozen_from(cls, learner: SuccessorLearner, keys: Floats, rows: Ints) -> TablePolicies:
        settings, frozen = learner.settings, freeze(learner, rows)
        return cls(keys, frozen, learner.n_actions, learner.n_features, float(settings.gamma), settings.sigma)

    @classmethod
    def restore(cls, description: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> TablePolicies:
        """What `describe` and `arrays` gave; anything else is refused."""
        A, d, gamma, sigma = check_sizes(description)
        wanted = {"keys", *Frozen._fields}
        if set(arrays) != wanted:
            raise ValueError(f"arrays must be {', '.join(sorted(wanted))}, got {', '.join(sorted(arrays))}")
        sources = cls(arrays["keys"], Frozen(*(arrays[name] for name in Frozen._fields)), A, d, gamma, sigma)
        for name, value in sources.describe().items():
            if description.get(name) != value:
                raise ValueError(f"{name} must be {value!r} for these arrays, got {description.get(name)!r}")
        return sources

    @classmethod
    def merge(cls, parts: Sequence[TablePolicies]) -> TablePolicies:
        """The union of the states, the policies of all parts one after the other."""
        same_everywhere(parts)
        keys, frozen = merge([part._keys for part in parts], [part._frozen for part in parts], parts[0].n_actions)
        return cls(keys, frozen, parts[0].n_actions, parts[0].n_features, parts[0].gamma, parts[0].sigma)

    @property
    def policies(self) -> int:
        """K."""
        return int(self._frozen.policies[-1])

    @property
    def states(self) -> int:
        """How many states were met."""
        return len(self._keys)

    @property
    def n_inputs(self) -> int:
        """n, the numbers of an observation."""
        return int(self._keys.shape[1])

    def check(self, risk: Risk) -> None:
        """Refuse a risk that mean and variance cannot serve, or any but a neutral one where no Sigma was learned."""
        if not isinstance(risk, Risk):
            raise ValueError(f"risk must be a rasf risk such as MeanVariance(-4.0), got {risk!r}")
        if isinstance(risk, MeanVariance | Entropic) and concrete(risk.beta) == 0:
            return
        if self.sigma == NO_SIGMA:
            raise ValueError(f"risk must be neutral (beta 0) where no covariance was learned, got {risk!r}")
        if "moments" not in risk.supports:
            way_out = "; for Entropic train rasfc51, or assume a law with Elliptical" * isinstance(risk, Entropic)
            raise ValueError(f"risk must score mean and variance, as MeanVariance and CVaR do, got {risk!r}{way_out}")

    def scores(self, obs: npt.NDArray[Any], w: Floats, risk: Risk) -> Scores:
        """GPE of every policy at observations (B, n)."""
        scoring = self._task(w, risk).scoring
        state = states_of(self._index, self._rows(obs))
        shape = (self.policies, len(state), self.n_actions)
        mean, variance, has_cell = np.zeros(shape), np.zeros(shape), np.zeros(shape[:2], np.bool_)
        kernels.policy_moments(self._frozen, self.n_actions, scoring.w, scoring.square, state, mean, variance, has_cell)
        np.maximum(variance, 0.0, out=variance)
        values = _values(risk, mean, variance)
        spread = np.full(shape, np.nan) if self.sigma == NO_SIGMA else np.sqrt(variance)
        outside = ~has_cell & (state >= 0)
        values[outside], spread[outside] = -np.inf, np.nan
        return Scores(values, mean, spread, self._is_learned(state))

    def seen(self, obs: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Where (B,) something was learned."""
        return self._is_learned(states_of(self._index, self._rows(obs)))

    def _is_learned(self, state: Ints) -> npt.NDArray[np.bool_]:
        learned = state >= 0
        learned[learned] = self._learned[state[learned]]
        return learned

    def act(self, obs: npt.NDArray[Any], w: Floats, risk: Risk) -> npt.NDArray[np.int64]:
        """Actions (B,) by GPI at observations (B, n); 0 at a state that was never met."""
        task, numbers = self._task(w, risk), self._rows(obs)
        if task.linear:
            actions = np.empty(len(numbers), np.int64)
            kernels.act_known(
                self._index, self._frozen, self.n_actions, task.scoring, as_bits(numbers), task.known, actions
            )
            return actions
        state = states_of(self._index, numbers)
        met = state[state >= 0]
        self._find_actions(task, risk, np.unique(met[task.known[met] == 0]))
        actions = np.zeros(len(state), np.int64)
        actions[state >= 0] = task.known[met].astype(np.int64) - 1
        return actions

    def act_one(self, obs: npt.NDArray[Any], w: Floats, risk: Risk) -> int:
        """The action at one observation (n,)."""
        if obs.shape != (self.n_inputs,):
            raise ValueError(f"obs must have shape ({self.n_inputs},), the numbers of one observation, got {obs.shape}")
        task = self._task(w, risk)
        if task.linear:
            return int(
                kernels.act_one(self._index, self._frozen, self.n_actions, task.scoring, as_bits(obs), task.known)
            )
        state = states_of(self._index, obs[None])
        if state[0] < 0:
            return 0
        if task.known[state[0]] == 0:
            self._find_actions(task, risk, state)
        return int(task.known[state[0]]) - 1

    def prepared(self, w: Floats, risk: Risk) -> Prepared:
        """For loops that act many times without coming back here."""
        task = self._task(w, risk)
        return Prepared(self._index, self._frozen, *task, partial(self._find_actions, task, risk))

    def arrays(self, precision: str = "single") -> dict[str, npt.NDArray[Any]]:
        """All that must be stored; tables are kept as they are."""
        if precision != "single":
            raise ValueError(f"precision must be single for tables, got {precision!r}")
        return {"keys": self._keys, **self._frozen._asdict()}

    def describe(self) -> dict[str, Any]:
        """Sizes and settings, as JSON."""
        return {
            "law": "table",
            "policies": self.policies,
            "actions": self.n_actions,
            "features": self.n_features,
            "numbers": self.n_inputs,
            "states": self.states,
            "gamma": self.gamma,
            "sigma": SIGMA[self.sigma],
        }

    def _rows(self, obs: npt.NDArray[Any]) -> Floats:
        """Compiled code does not check bounds, so the shape must fit."""
        if obs.ndim != 2 or obs.shape[1] != self.n_inputs:
            raise ValueError(f"obs must have shape (B, {self.n_inputs}), numbers of B observations, got {obs.shape}")
        return np.ascontiguousarray(obs, np.float64)

    def _task(self, w: Floats, risk: Risk) -> _Task:
        """The remembered (w, risk), or a new one; a risk that cannot be hashed is not remembered."""
        weights = np.ascontiguousarray(w, np.float64)
        key = (weights.tobytes(), risk)
        try:
            task = self._tasks.get(key)
        except TypeError:
            return self._new_task(weights, risk)
        if task is None:
            task = self._tasks[key] = self._new_task(weights, risk)
            for oldest in list(self._tasks)[:-_REMEMBERED]:  # a list, since another thread may ask meanwhile
                self._tasks.pop(oldest, None)
        return task

    def _new_task(self, w: Floats, risk: Risk) -> _Task:
        if w.shape != (self.n_features,):
            raise ValueError(f"w must have shape ({self.n_features},), one weight per feature, got {w.shape}")
        self.check(risk)
        beta = _linear_beta(risk)
        i, j, times = self._pairs
        half_beta = math.nan if beta is None else beta / 2
        scoring = Scoring(w.copy(), times * w[i] * w[j], float(np.abs(w).sum()), half_beta)
        # clearing is all that a new (w, risk) costs: a state is scored when it is met
        return _Task(scoring, beta is not None, np.zeros(self.states, np.uint16))

    def _find_actions(self, task: _Task, risk: Risk, state: Ints) -> None:
        """Note the greedy actions of these states, by the risk's own `moments`."""
        frozen, A = self._frozen, self.n_actions
        for begin in range(0, len(state), _STATES_AT_ONCE):
            some = state[begin : begin + _STATES_AT_ONCE]
            cells, after = frozen.states[some], frozen.states[some + 1]
            most = int((frozen.entries[after * A] - frozen.entries[cells * A] + A * (after - cells)).sum())
            mean, variance, ends = np.empty(most), np.empty(most), np.empty(len(some) * A, np.int64)
            used = kernels.slot_moments(frozen, A, task.scoring.w, task.scoring.square, some, mean, variance, ends)
            kernels.best_of(_values(risk, mean[:used], variance[:used]), ends, A, some, task.known)


def _pairs(d: int, sigma: int) -> tuple[Ints, Ints, Floats]:
    """Features i and j of the learned entries of Sigma, and how often each counts in w' Sigma w."""
    if sigma == NO_SIGMA:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    i, j = np.diag_indices(d) if sigma == DIAGONAL_SIGMA else np.triu_indices(d)
    return i, j, np.where(i == j, 1.0, 2.0)


def _values(risk: Risk, mean: Floats, variance: Floats) -> Floats:
    exact = MeanVariance(0.0) if isinstance(risk, Entropic) else risk  # `check` lets the neutral one pass only
    return np.array(exact.moments(mean, variance), np.float64)


def _linear_beta(risk: Risk) -> float | None:
    """beta where the risk of mean and variance is mean + (beta / 2) variance, else None."""
    if type(risk) is MeanVariance or type(risk) is SkewNormal or (type(risk) is Elliptical and risk.law == "normal"):
        return concrete(risk.beta)
    return 0.0 if type(risk) is Entropic else None


def _uniform(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Aligned, contiguous and not writable, wherever it comes from: compiled code then has one type to know."""
    same = np.require(array, requirements=["C", "A"]).view()
    same.setflags(write=False)
    return same
