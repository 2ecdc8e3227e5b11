"""`CountedModel`: the counted transitions of `rasf-model` or of a log, as a model in which tables look ahead, exactly.

An action that was never tried, or too rarely for the policies, is not considered as the first action. A path that
reaches a state without such an action ends there, because the data do not say how it continues. The probabilities
include the virtual tries of the agent's prior, as in the evaluation of the policies. The prior depends on the task; the
model has the prior of the task for which it is the strongest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from rasf.arrays import Bools, Floats
from rasf.files import Arrays
from rasf.mdp import FiniteMDP

if TYPE_CHECKING:
    from rasf.tabular.model import ModelLearner

_PARTS = ("indptr", "successor", "probability", "phi", "terminal")


class CountedModel(NamedTuple):
    """Counted transitions.

    Attributes:
        mdp: The MDP of S + 1 states; the last one is the end of an episode.
        keys: Observations (S, n) of the states.
        tried: Whether each action of a state is considered as a first action (S, A).
    """

    mdp: FiniteMDP
    keys: Floats
    tried: Bools

    def describe(self) -> dict[str, object]:
        """Return what a file says of the model, as JSON."""
        return {"kind": "counts", "gamma": self.mdp.gamma, "actions": self.mdp.n_actions}

    def arrays(self) -> Arrays:
        """Return the arrays of a file."""
        return {name: np.asarray(getattr(self.mdp, name)) for name in _PARTS} | {"keys": self.keys, "tried": self.tried}

    @classmethod
    def restore(cls, description: Mapping[str, object], arrays: Arrays) -> CountedModel:
        """Return the model that a file stores.

        Args:
            description: As `describe` returns it.
            arrays: As `arrays` returns them.

        Raises:
            ValueError: An array is missing or does not fit.
        """
        if set(arrays) != {*_PARTS, "keys", "tried"}:
            raise ValueError(f"its model must have the arrays {' '.join((*_PARTS, 'keys', 'tried'))}")
        keys, tried = arrays["keys"], arrays["tried"]
        states, gamma, A = len(keys) + 1, description["gamma"], description["actions"]
        if keys.ndim != 2 or tried.dtype != np.bool_ or type(A) is not int or tried.shape != (len(keys), A):
            raise ValueError(f"tried of its model must be flags ({len(keys)}, {A}), got {tried.shape}, {tried.dtype}")
        if type(gamma) not in (int, float):
            raise ValueError(f"gamma of its model must be a number, got {gamma!r:.60}")
        indptr, successor = arrays["indptr"], arrays["successor"]
        valid = indptr.shape == (states * A + 1,) and indptr[0] == 0 and (np.diff(indptr) >= 0).all()
        if not valid or indptr[-1] != len(successor) or not ((successor >= 0) & (successor < states)).all():
            raise ValueError("indptr and successor of its model must be the rows of a sparse matrix")
        P = sp.csr_array((arrays["probability"], successor, indptr), shape=(states * A, states))
        return cls(FiniteMDP(P, arrays["phi"], arrays["terminal"], float(gamma)), keys, tried)  # type: ignore[arg-type]


def counted_model(learner: ModelLearner, keys: Floats, tasks: Floats, least_tries: int = 1) -> CountedModel:
    """Return the model of a learner's counts.

    Args:
        learner: The learner, with S states. Its current task becomes one of `tasks`.
        keys: Observations (S, n) of the states.
        tasks: Weights (K, d) of the tasks.
        least_tries: Actions with fewer tries are not considered. If this excludes all actions of a state, its most
            tried actions are. Default: 1.
    """
    strengths = []
    for w in tasks:
        learner.begin_task(w)
        learner.weigh_prior()
        strengths.append(learner.prior)
    learner.begin_task(tasks[int(np.argmax(strengths))])
    learner.weigh_prior()
    mdp, tried = learner.finite_mdp(), np.asarray(learner.tried(least_tries), np.bool_)
    ends = np.append(~tried.any(axis=1), True)
    P = sp.csr_array((mdp.probability, mdp.successor, mdp.indptr), shape=(len(mdp.indptr) - 1, mdp.n_states))
    return CountedModel(FiniteMDP(P, mdp.phi, ends, mdp.gamma), np.array(keys, np.float64), tried)
