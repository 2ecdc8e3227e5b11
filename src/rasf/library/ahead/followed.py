"""The source policies as a simulation needs them: every policy acts, and is scored, at observations of its own.

`FrozenPolicies.scores` evaluates all K policies at the same observations. In a simulation each policy has reached
states of its own, so observations have shape (K, M, n). Policy i takes the action that is greedy for its own task at
its own risk. Another class, `rasf.library.ahead.networks.FollowedNetworks`, does the same in jax.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from rasf.agents import acting_risk
from rasf.arrays import Array, Bools, Floats, Ints
from rasf.library.frozen_policies import FrozenPolicies
from rasf.risk import MeanVariance, Risk

NEUTRAL = MeanVariance(0.0)
Own = Sequence[tuple[Sequence[float], Risk]]  # the weights and the risk that each source policy was trained for


class Tails(NamedTuple):
    """Means and variances (K, M) of returns; variances are nan if not learned. `known` is False without any data."""

    mean: Array
    variance: Array
    known: Array


class Followed(Protocol):
    """Source policies that act and are scored at observations (K, M, n) of their own."""

    @property
    def policies(self) -> int: ...  # K

    def actions(self, obs: Array) -> Array:
        """Return the policies' actions (K, M), or (K, M, P) if actions are vectors."""

    def tails(self, obs: Array, actions: Array, w: Floats) -> Tails:
        """Return the moments of the policies' returns for weights w (d,), after the given actions of the policies."""

    def histograms(self, obs: Array, actions: Array, w: Floats) -> Array:
        """Return equally likely returns (K, M, L), if policies have histograms."""


def own_tasks(own: Own) -> list[tuple[Floats, Risk]]:
    """Return the weights (d,) and the risk for which each source policy acts."""
    return [(np.asarray(w, np.float64), acting_risk(risk)) for w, risk in own]


class FollowedTables:
    """Tabular policies at observations of their own.

    Args:
        base: The policies.
        own: The weights and the risk that each policy was trained for.
    """

    def __init__(self, base: FrozenPolicies, own: Own) -> None:
        self._base, self._own, self.policies = base, own_tasks(own), base.policies

    def actions(self, obs: npt.NDArray[np.generic]) -> Ints:
        """Return the policies' actions (K, M) at observations (K, M, n)."""
        each = enumerate(zip(obs, self._own, strict=True))
        return np.stack([self._base.scores(mine, w, risk).values[i].argmax(axis=1) for i, (mine, (w, risk)) in each])

    def tails(self, obs: npt.NDArray[np.generic], actions: Ints, w: Floats) -> Tails:
        """Return moments of returns; arguments as for `Followed`."""
        rows = np.arange(obs.shape[1])
        mean, variance = np.zeros((2, *obs.shape[:2]))
        known: Bools = np.ones(obs.shape[:2], np.bool_)
        for i, mine in enumerate(obs):
            found = self._base.scores(mine, w, NEUTRAL)
            at = i, rows, actions[i]
            mean[i], variance[i], known[i] = found.mean[at], found.std[at] ** 2, found.values[at] > -np.inf
        return Tails(mean, variance, known)

    def histograms(self, obs: npt.NDArray[np.generic], actions: Ints, w: Floats) -> Array:
        """Raise an error, because tables have no histograms."""
        raise ValueError("tables have no histograms")
