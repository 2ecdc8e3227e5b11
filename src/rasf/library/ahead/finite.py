"""Looking ahead in a `FiniteMDP`, exactly.

Mean m and variance v of the return of source policy i are computed backwards from the learned tails, h times:

    m(s, a) = E[ r + gamma m(s', pi_i(s')) ]
    v(s, a) = E[ (r + gamma m(s', pi_i(s')) - m(s, a))^2 + gamma^2 v(s', pi_i(s')) ]

The first m and v on the right are learned. Terminal states have m = v = 0. In shapes, K is the number of policies, S of
states, A of actions, B of observations and n of numbers of an encoded observation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rasf.arrays import Bools, Floats, Ints
from rasf.library.ahead.followed import Followed

if TYPE_CHECKING:
    from rasf.mdp import FiniteMDP

_KEPT = 8  # at most this number of pairs of weights and h have their moments cached


class FiniteModel:
    """A finite MDP in which a library looks ahead.

    Args:
        mdp: The MDP. The discount is the library's.
        keys: Encoded observations (S, n) of its states.
        followed: The source policies.
        gamma: The discount of the policies.
        tried: Whether each action is considered as a first action (S, A). Default: all actions.
    """

    numbers = 0  # an observation determines the state, so that no numbers of the state are needed
    sampled = False  # returns have a mean and a variance, but no samples

    def __init__(
        self,
        mdp: FiniteMDP,
        keys: npt.NDArray[np.generic],
        followed: Followed,
        gamma: float,
        tried: Bools | None = None,
    ) -> None:
        import scipy.sparse as sp  # here, so that acting without a model does not load scipy

        if len(keys) != mdp.n_states:
            raise ValueError(f"keys must have a row for each of {mdp.n_states} states, got {len(keys)}")
        self._mdp, self._followed, self._gamma, self._keys = mdp, followed, gamma, np.ascontiguousarray(keys)
        self._tried = tried
        self._state = {row.tobytes(): s for s, row in enumerate(self._keys)}
        entries = np.arange(len(mdp.successor))
        self._expect = sp.csr_array((mdp.probability, entries, mdp.indptr), shape=(len(mdp.indptr) - 1, len(entries)))
        self._own: tuple[npt.NDArray[np.generic], Ints] | None = None
        self._kept: dict[tuple[bytes, int], tuple[Floats, Floats, Bools]] = {}

    def states(self, obs: npt.NDArray[np.generic]) -> Ints:
        """Return the states (B,) of encoded observations (B, n), -1 for an observation that is not of the MDP."""
        rows = np.ascontiguousarray(obs, self._keys.dtype)
        return np.array([self._state.get(row.tobytes(), -1) for row in rows], np.int64)

    def moments(self, states: Ints, w: Floats, ahead: int) -> tuple[Floats, Floats, Bools]:
        """Return mean and variance (K, B, A) of the return, and where both are known.

        Args:
            states: States (B,).
            w: Weights (d,) of the task.
            ahead: Number of steps h.
        """
        mean, variance, known = self._keep((w.tobytes(), ahead), lambda: self._backwards(w, ahead))
        return mean[:, states], variance[:, states], known[:, states]

    def _keep(
        self, key: tuple[bytes, int], make: Callable[[], tuple[Floats, Floats, Bools]]
    ) -> tuple[Floats, Floats, Bools]:
        if key not in self._kept:
            for oldest in list(self._kept)[: 1 - _KEPT]:
                self._kept.pop(oldest, None)
            self._kept[key] = make()
        return self._kept[key]

    def _backwards(self, w: Floats, ahead: int) -> tuple[Floats, Floats, Bools]:
        """Return mean and variance (K, S, A) of the return after `ahead` exact steps, and where both are known."""
        mdp, gamma, (obs, actions) = self._mdp, self._gamma, self._of_policies()
        tails, states = self._followed.tails(obs, actions, w), np.arange(mdp.n_states)
        rewards, row = mdp.phi @ w, np.repeat(np.arange(len(mdp.indptr) - 1), np.diff(mdp.indptr))
        shape = (len(actions), mdp.n_states, mdp.n_actions)
        mean, variance, known = np.zeros(shape), np.zeros(shape), np.ones(shape, np.bool_)
        for i in range(len(actions)):
            m = np.where(mdp.terminal, 0.0, tails.mean[i])
            v = np.where(mdp.terminal, 0.0, tails.variance[i])
            k = mdp.terminal | tails.known[i]
            for _ in range(ahead):
                target = rewards + gamma * m[mdp.successor]
                now = self._expect @ target
                spread = self._expect @ ((target - now[row]) ** 2 + gamma**2 * v[mdp.successor])
                unknown = self._expect @ (~k[mdp.successor]).astype(np.float64)
                mean[i], variance[i], known[i] = (
                    part.reshape(shape[1:]) for part in (now, spread, unknown == 0)
                )  # fmt: skip
                m, v, k = (part[i, states, actions[i]] for part in (mean, variance, known))
        return mean, variance, known if self._tried is None else known & self._tried

    def _of_policies(self) -> tuple[npt.NDArray[np.generic], Ints]:
        """Return the observations (K, S, n) of all states, repeated for the policies, and their actions (K, S)."""
        if self._own is None:
            obs = np.broadcast_to(self._keys, (self._followed.policies, *self._keys.shape))
            self._own = obs, np.asarray(self._followed.actions(obs))
        return self._own
