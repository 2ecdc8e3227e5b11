"""Finite Markov decision processes with feature rewards.

A task is a weight vector w (d,) with the rewards r(s, a, s') = phi(s, a, s') . w. All tasks have the same dynamics and
features, so one `FiniteMDP` is used for all tasks.

There are S states, A actions, d features and n transitions. Transitions are stored as a compressed sparse matrix. Row
s A + a contains the transitions from state s with action a:

    indptr (S A + 1,)   successor (n,) int32   probability (n,)   phi (n, d)

A successor may appear several times within a row, with different features: for example, a trap may fire or not. Rows of
terminal states are empty, because there is no reward after the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from rasf.arrays import Floats, Ints
from rasf.checks import LARGEST, discount, is_whole, numbers, shown, table, whole

SUM_TOLERANCE = 1e-9
Sparse: TypeAlias = sp.sparray | sp.spmatrix


class FiniteMDP:
    """Dynamics, features, terminal states and discount of a decision process. The arrays are checked and read-only.

    Args:
        P: Transition probabilities: dense (S, A, S), sparse (S A, S) with row s A + a, or a list of A sparse (S, S)
            matrices. Entries of terminal states are ignored.
        phi: Features (S, A, S, d) or (S, A, d). If `P` is (S A, S) in CSR format, also (n, d), one row for each stored
            entry of `P`.
        terminal: A mask (S,) or a list of states. Default: none.
        gamma: Discount in (0, 1]. Default: 1.

    Raises:
        ValueError: Shapes do not fit, probabilities do not sum to 1, or numbers are not finite.
    """

    def __init__(
        self,
        P: npt.ArrayLike | Sparse | Sequence[Sparse],
        phi: npt.ArrayLike,
        terminal: npt.ArrayLike = (),
        gamma: float = 1.0,
    ) -> None:
        sparse = _as_sparse(P)
        if sparse is not None:
            rows, successor, probability = _from_sparse(sparse)
            n_states, n_actions = sparse.shape[1], sparse.shape[0] // sparse.shape[1]
        else:
            dense = _dense(P)
            n_states, n_actions, _ = dense.shape
            state, action, successor = np.nonzero(dense)
            rows, probability = state * n_actions + action, dense[state, action, successor]
        aligned = sparse is not None and sparse.format == "csr"
        features = _features(phi, rows, successor, n_states, n_actions, aligned)
        self.gamma = discount(gamma)
        if features.shape[1] == 0:
            raise ValueError("phi must have at least one feature, got none")
        self.n_states, self.n_actions, self.n_features = int(n_states), int(n_actions), features.shape[1]
        self.terminal = _terminal_mask(terminal, self.n_states)
        live = (probability != 0) & ~self.terminal[rows // n_actions]
        if not live.all():
            rows, successor = rows[live], successor[live]
            probability, features = probability[live], features[live]
        if not np.isfinite(probability).all():
            raise ValueError("P must be finite, got nan or infinite entries")
        if (probability < 0).any():
            raise ValueError(f"P must not be negative, got {probability.min():g}")
        if not np.isfinite(features).all():
            raise ValueError("phi must be finite, got nan or infinite features")
        if np.abs(features).max(initial=0.0) > LARGEST:
            raise ValueError(
                f"phi must be at most {LARGEST:g} in size, got {np.abs(features).max():g}; rescale the features"
            )
        counts = np.bincount(rows, minlength=n_states * n_actions)
        self.indptr = np.concatenate([[0], np.cumsum(counts)])
        sums = np.bincount(rows, weights=probability, minlength=n_states * n_actions).reshape(n_states, n_actions)
        wrong = np.argwhere((np.abs(sums - 1) > SUM_TOLERANCE) & ~self.terminal[:, None])
        if len(wrong):
            s, a = wrong[0]
            raise ValueError(f"P must sum to 1 over s' for every s and a; at s={s}, a={a} it sums to {sums[s, a]:.12g}")
        # copy, so that the caller's arrays stay writable
        self.successor = np.array(successor, np.int32)
        self.probability = np.array(probability, np.float64)
        self.phi = np.array(features, np.float64, order="C")
        for array in (self.indptr, self.successor, self.probability, self.phi, self.terminal):
            array.setflags(write=False)

    @classmethod
    def from_transitions(
        cls,
        transitions: Iterable[tuple[int, int, int, float, npt.ArrayLike]],
        n_states: int,
        n_actions: int,
        terminal: npt.ArrayLike = (),
        gamma: float = 1.0,
    ) -> FiniteMDP:
        """Return an MDP, given tuples (s, a, s', p, phi). Tuples with equal s, a and s' stay separate transitions.

        Args:
            transitions: Tuples of state, action, next state, probability and features (d,).
            n_states: The number of states.
            n_actions: The number of actions.
            terminal: A mask (S,) or a list of states. Default: none.
            gamma: Discount in (0, 1]. Default: 1.

        Returns:
            The MDP.

        Raises:
            ValueError: A tuple is malformed, or the MDP is not valid.
        """
        whole("n_states", n_states)
        table("n_actions", whole("n_actions", n_actions), n_states)
        try:
            listed = list(transitions)
            state, action, successor, probability, phi = zip(*listed, strict=True)
        except (TypeError, ValueError):
            raise ValueError(
                f"transitions must be at least one tuple (s, a, s', p, phi), got {shown(transitions)}"
            ) from None
        for name, values, size in (("s", state, n_states), ("a", action, n_actions), ("s'", successor, n_states)):
            outside = [value for value in values if not (_is_index(value) and 0 <= value < size)]
            if outside:
                raise ValueError(f"transitions must have whole numbers 0 <= {name} < {size}, got {shown(outside[0])}")
        rows = np.asarray(state, np.int64) * n_actions + np.asarray(action, np.int64)
        order = np.argsort(rows, kind="stable")
        features = numbers("phi", phi).reshape(len(listed), -1)
        chances = numbers("p", probability)
        if chances.shape != (len(listed),):
            raise ValueError(f"p must be one probability for each transition, got shape {chances.shape[1:]}")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_states * n_actions))])
        entries = chances[order], np.asarray(successor, np.int64)[order], indptr
        return cls(sp.csr_array(entries, shape=(n_states * n_actions, n_states)), features[order], terminal, gamma)

    def __repr__(self) -> str:
        return (
            f"FiniteMDP(states={self.n_states}, actions={self.n_actions}, features={self.n_features}, "
            f"transitions={len(self.successor)}, terminal={int(self.terminal.sum())}, gamma={self.gamma:g})"
        )

    def rewards(self, w: npt.ArrayLike) -> Floats:
        """Return the reward of every stored transition on a task.

        Args:
            w: The weights (d,) of the task.

        Returns:
            The rewards (n,).

        Raises:
            ValueError: `w` is not d finite numbers, or a reward is beyond 1e90 in size.
        """
        weights = self.task(w)
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.phi @ weights
        if not (np.abs(found) <= LARGEST).all():
            raise ValueError(f"w must give rewards of at most {LARGEST:g} in size, got {shown(w)}; rescale the weights")
        return found

    def task(self, w: npt.ArrayLike) -> Floats:
        """Return the weights of a task as a checked array.

        Args:
            w: The weights (d,) of the task.

        Returns:
            The weights (d,).
        """
        weights = numbers("w", w)
        if weights.shape != (self.n_features,):
            raise ValueError(f"w must have shape ({self.n_features},), one weight per feature, got {weights.shape}")
        if not np.isfinite(weights).all():
            raise ValueError("w must be finite")
        return weights

    def policy(self, policy: npt.ArrayLike, steps: int | None = None) -> Ints:
        """Return a policy as a checked array of actions.

        Args:
            policy: Actions (S,). If `steps` is given, also (steps, S).
            steps: The number of decisions, for which a policy (S,) is repeated. Default: none, for a policy that does
                not depend on the decision.

        Returns:
            Actions (S,), or (steps, S) if `steps` is given.
        """
        actions = as_actions(policy)
        if steps is not None and steps < 1:
            raise ValueError(f"policy must have at least one step, got {steps}")
        if not np.issubdtype(actions.dtype, np.integer):
            raise ValueError(f"policy must hold integer actions, got dtype {actions.dtype}")
        if steps is not None and actions.ndim == 1:
            actions = np.broadcast_to(actions, (steps, *actions.shape))
        wanted = (self.n_states,) if steps is None else (steps, self.n_states)
        if actions.shape != wanted:
            raise ValueError(f"policy must have shape {wanted}, got {actions.shape}")
        if actions.min() < 0 or actions.max() >= self.n_actions:
            raise ValueError(f"policy must hold actions 0 to {self.n_actions - 1}")
        return actions

    def policies(self, given: object, steps: int | None = None) -> list[Ints]:
        """Return a list of source policies, each checked by `policy`.

        Args:
            given: A sequence of at least one policy.
            steps: The number of decisions, as for `policy`. Default: none.

        Returns:
            The checked policies.
        """
        if not isinstance(given, Sequence | np.ndarray) or isinstance(given, str | bytes) or len(given) == 0:
            raise ValueError(f"policies must hold at least one policy, got {shown(given)}")
        return [self.policy(one, steps) for one in given]

    def state(self, name: str, given: object) -> int:
        """Return the index of a state as an int, after a check.

        Args:
            name: The name of the argument, for the error.
            given: The index.

        Returns:
            The index.
        """
        if not is_whole(given) or not 0 <= given < self.n_states:
            raise ValueError(f"{name} must be a state from 0 to {self.n_states - 1}, got {shown(given)}")
        return int(given)

    def under_policy(self, policy: Ints) -> tuple[Ints, Ints]:
        """Return the Markov chain of a policy, as indices of the stored transitions of its actions.

        Args:
            policy: Actions (S,).

        Returns:
            `indptr` (S + 1,) and `entries`. The transitions from state s are entries[indptr[s]:indptr[s + 1]].
        """
        rows = np.arange(self.n_states) * self.n_actions + policy
        counts = self.indptr[rows + 1] - self.indptr[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        entries = np.arange(indptr[-1]) + np.repeat(self.indptr[rows] - indptr[:-1], counts)
        return indptr, entries


def require_mdp(mdp: object) -> None:
    """Raise an error if an argument is not a `FiniteMDP`."""
    if not isinstance(mdp, FiniteMDP):
        raise ValueError(f"mdp must be a FiniteMDP, got {type(mdp).__name__}")


def as_actions(policy: npt.ArrayLike) -> Ints:
    """Return a policy as an array of any shape."""
    try:
        return np.asarray(policy)
    except ValueError:
        raise ValueError(f"policy must be an array of actions, got {shown(policy)}") from None


def _is_index(value: object) -> bool:
    """Return whether a value is an integer, or a float with an integer value."""
    return is_whole(value) or (isinstance(value, float | np.floating) and float(value).is_integer())


def _dense(P: object) -> Floats:
    dense = numbers("P", P)
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2] or 0 in dense.shape:
        raise ValueError(f"P must have shape (S, A, S), got {dense.shape}")
    return dense


def _as_sparse(P: object) -> Sparse | None:
    """Return sparse transitions as one matrix with row s A + a for state s and action a, or None if P is dense."""
    if not (isinstance(P, Sequence) and len(P) > 0 and all(sp.issparse(matrix) for matrix in P)):
        return P if sp.issparse(P) else None
    n_states = P[0].shape[0]
    if any(matrix.shape != (n_states, n_states) for matrix in P):
        raise ValueError("P as a list must hold one sparse (S, S) matrix per action")
    stacked = sp.vstack([sp.csr_array(matrix) for matrix in P], format="csr")
    return stacked[np.arange(len(P) * n_states).reshape(len(P), n_states).T.ravel()]


def _from_sparse(P: Sparse) -> tuple[Ints, Ints, Floats]:
    if P.ndim != 2 or 0 in P.shape or P.shape[0] % P.shape[1]:
        raise ValueError(f"P as a sparse matrix must have shape (S A, S), got {P.shape}")
    csr = sp.csr_array(P)
    numbers("P", csr.data)
    return np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr)), csr.indices, csr.data


def _features(phi: npt.ArrayLike, rows: Ints, successor: Ints, n_states: int, n_actions: int, aligned: bool) -> Floats:
    features = numbers("phi", phi)
    if features.ndim == 4 and features.shape[:3] == (n_states, n_actions, n_states):
        return features[rows // n_actions, rows % n_actions, successor]
    if features.ndim == 3 and features.shape[:2] == (n_states, n_actions):
        return features.reshape(n_states * n_actions, -1)[rows]
    if aligned and features.ndim == 2 and features.shape[0] == len(rows):
        return features
    raise ValueError(
        "phi must have shape (S, A, S, d), (S, A, d) or, with P in CSR format, (stored entries, d); "
        f"got {features.shape} for S={n_states}, A={n_actions}, {len(rows)} entries"
    )


def _terminal_mask(terminal: npt.ArrayLike, n_states: int) -> npt.NDArray[np.bool_]:
    try:
        given = np.asarray(terminal)
    except ValueError:
        raise ValueError(f"terminal must be a boolean mask (S,) or a list of states, got {shown(terminal)}") from None
    if given.dtype == np.bool_:
        if given.shape != (n_states,):
            raise ValueError(f"terminal as a mask must have shape ({n_states},), got {given.shape}")
        return given.copy()
    mask = np.zeros(n_states, np.bool_)
    if given.size:
        if given.ndim != 1 or not np.issubdtype(given.dtype, np.integer):
            raise ValueError("terminal must be a boolean mask (S,) or a list of states")
        if given.min() < 0 or given.max() >= n_states:
            raise ValueError(f"terminal must name states 0 to {n_states - 1}")
        mask[given] = True
    return mask
