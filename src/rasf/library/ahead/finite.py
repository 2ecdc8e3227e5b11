"""Looking ahead in a `FiniteMDP`, exactly.

Mean m and variance v of the return of source policy i are computed backwards from the learned tails, h times:

    m(s, a) = E[ r + gamma m(s', pi_i(s')) ]
    v(s, a) = E[ (r + gamma m(s', pi_i(s')) - m(s, a))^2 + gamma^2 v(s', pi_i(s')) ]

The first m and v on the right are learned. Terminal states have m = v = 0. If policies know the time left, m and v also
depend on the steps of the episode so far (its age), and are 0 at the time limit. In shapes, K is the number of
policies, S of states, A of actions, B of observations and n of numbers of an encoded observation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from rasf.arrays import Bools, Floats, Ints
from rasf.library.ahead.followed import Followed

if TYPE_CHECKING:
    from rasf.mdp import FiniteMDP

_KEPT = 128  # at most this number of triples of weights, h and age have their moments cached
_Moments: TypeAlias = tuple[Floats, Floats, Bools]  # mean, variance, and where both are known


class _AtAge(NamedTuple):
    """Encoded observations (S, n) at an age, states by their bytes, the same for K policies, and actions (K, S)."""

    keys: npt.NDArray[np.generic]
    state: dict[bytes, int]
    obs: npt.NDArray[np.generic]
    actions: Ints


class FiniteModel:
    """A finite MDP in which a library looks ahead.

    Args:
        mdp: The MDP. The discount is the library's.
        keys: Returns the encoded observations (S, n) of its states at an age.
        followed: The source policies.
        gamma: The discount of the policies.
        limit: Number of steps after which the learned returns end; 0 for continuing returns, which need no age.
            Default: 0.
        tried: Whether each action is considered as a first action (S, A). Default: all actions.
    """

    sampled = False  # returns have a mean and a variance, but no samples

    def __init__(
        self, mdp: FiniteMDP, keys: Callable[[int], npt.NDArray[np.generic]], followed: Followed, gamma: float,
        limit: int = 0, tried: Bools | None = None,
    ) -> None:  # fmt: skip
        import scipy.sparse as sp  # here, so that acting without a model does not load scipy

        self._mdp, self._followed, self._gamma, self._encoded, self._limit = mdp, followed, gamma, keys, limit
        self._tried = tried
        self.numbers = int(limit > 0)  # an observation determines the state; the age is the only further number
        entries = np.arange(len(mdp.successor))
        self._expect = sp.csr_array((mdp.probability, entries, mdp.indptr), shape=(len(mdp.indptr) - 1, len(entries)))
        self._known: dict[int, _AtAge] = {}
        self._kept: dict[tuple[bytes, int, int], _Moments] = {}
        self._at(0)

    def rows(self, ages: Sequence[int]) -> Floats:
        """Return the numbers (B, 1) of the model's states at these ages, or (B, 0) for continuing returns."""
        return np.array(ages, np.float64)[:, None][:, : self.numbers]

    def states(self, obs: npt.NDArray[np.generic], rows: Floats) -> Ints:
        """Return the states (B,) of encoded observations (B, n), -1 if an observation or its age is unknown.

        Args:
            obs: Encoded observations (B, n).
            rows: Numbers from `rows`; nan for an unknown age.
        """
        ages = self._ages(rows, len(obs))
        found = np.full(len(obs), -1, np.int64)
        for age in np.unique(ages[ages >= 0]):
            at = self._at(int(age))
            same = np.flatnonzero(ages == age)
            keys = np.ascontiguousarray(obs[same], at.keys.dtype)
            found[same] = [at.state.get(row.tobytes(), -1) for row in keys]
        return found

    def moments(self, states: Ints, rows: Floats, w: Floats, ahead: int) -> _Moments:
        """Return mean and variance (K, B, A) of the return, and where both are known.

        Args:
            states: States (B,).
            rows: Numbers from `rows`.
            w: Weights (d,) of the task.
            ahead: Number of steps h.
        """
        ages = self._ages(rows, len(states))
        shape = (self._followed.policies, len(states), self._mdp.n_actions)
        found = np.zeros(shape), np.zeros(shape), np.zeros(shape, np.bool_)
        for age in np.unique(ages):
            same = ages == age
            of_age = self._keep((w.tobytes(), ahead, int(age)), partial(self._backwards, w, ahead, int(age)))
            for part, every in zip(found, of_age, strict=True):
                part[:, same] = every[:, states[same]]
        return found

    def _ages(self, rows: Floats, count: int) -> Ints:
        """Return the ages (B,), 0 for continuing returns, and -1 if an age is unknown or not before the limit."""
        if not self._limit:
            return np.zeros(count, np.int64)
        ages = rows[:, 0]
        return np.where((ages >= 0) & (ages < self._limit), np.nan_to_num(ages, nan=-1.0), -1.0).astype(np.int64)

    def _at(self, age: int) -> _AtAge:
        """Return observations, states and actions of the source policies at an age."""
        if age not in self._known:
            keys = np.ascontiguousarray(np.atleast_2d(self._encoded(age)))
            if len(keys) != self._mdp.n_states:
                raise ValueError(f"keys must have a row for each of {self._mdp.n_states} states, got {len(keys)}")
            obs = np.broadcast_to(keys, (self._followed.policies, *keys.shape))
            state = {row.tobytes(): s for s, row in enumerate(keys)}
            self._known[age] = _AtAge(keys, state, obs, np.asarray(self._followed.actions(obs)))
        return self._known[age]

    def _keep(self, key: tuple[bytes, int, int], make: Callable[[], _Moments]) -> _Moments:
        if key not in self._kept:
            for oldest in list(self._kept)[: 1 - _KEPT]:
                self._kept.pop(oldest, None)
            self._kept[key] = make()
        return self._kept[key]

    def _backwards(self, w: Floats, ahead: int, age: int) -> _Moments:
        """Return mean and variance (K, S, A) of the return after `ahead` exact steps, and where both are known."""
        mdp, gamma = self._mdp, self._gamma
        steps = min(ahead, self._limit - age) if self._limit else ahead
        ages = [age + t if self._limit else 0 for t in range(steps + 1)]
        rewards, row = mdp.phi @ w, np.repeat(np.arange(len(mdp.indptr) - 1), np.diff(mdp.indptr))
        states, over = np.arange(mdp.n_states), self._limit > 0 and ages[-1] == self._limit
        shape = (self._followed.policies, mdp.n_states, mdp.n_actions)
        mean, variance, known = np.zeros(shape), np.zeros(shape), np.ones(shape, np.bool_)
        last = None if over else self._at(ages[-1])
        tails = None if last is None else self._followed.tails(last.obs, last.actions, w)
        for i in range(len(mean)):
            m, v, k = np.zeros(mdp.n_states), np.zeros(mdp.n_states), np.ones(mdp.n_states, np.bool_)
            if tails is not None:
                m = np.where(mdp.terminal, 0.0, tails.mean[i])
                v = np.where(mdp.terminal, 0.0, tails.variance[i])
                k = mdp.terminal | tails.known[i]
            for t in reversed(range(steps)):
                target = rewards + gamma * m[mdp.successor]
                now = self._expect @ target
                spread = self._expect @ ((target - now[row]) ** 2 + gamma**2 * v[mdp.successor])
                unknown = self._expect @ (~k[mdp.successor]).astype(np.float64)
                mean[i], variance[i], known[i] = (
                    part.reshape(shape[1:]) for part in (now, spread, unknown == 0)
                )  # fmt: skip
                own = self._at(ages[t]).actions[i]
                m, v, k = (part[i, states, own] for part in (mean, variance, known))
        return mean, variance, known if self._tried is None else known & self._tried
