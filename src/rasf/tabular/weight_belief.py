"""The belief about the weights w of a task, learned from rewards r = phi . w.

The belief is a normal distribution. At the start of a task, its mean and covariance are those of the weights of earlier
tasks. Every reward updates the belief by Bayesian linear regression with nearly no noise. To make the agent explore, a
reward that depends on uncertain weights is estimated `curiosity` standard deviations above its mean. A weight that was
equal in all earlier tasks, such as the cost of a failure, has a narrow distribution and needs little exploration.
"""

from __future__ import annotations

import numpy as np

from rasf.arrays import Floats

_NOISE = 1e-4  # standard deviation of the noise of a reward, in units of the largest known weight


class WeightBelief:
    """Mean (d,) and covariance (d, d) of the weights of the current task.

    Args:
        n_features: number d of features.
        curiosity: number of standard deviations by which an estimated reward exceeds its mean.
    """

    STATE = ("mean", "covariance", "_before", "_begun")  # attributes in a checkpoint

    def __init__(self, n_features: int, curiosity: float) -> None:
        self.curiosity = curiosity
        self.mean, self.covariance = np.zeros(n_features), np.eye(n_features)
        self._before: list[Floats] = []
        self._begun = False

    @property
    def scale(self) -> float:
        """The largest absolute weight known, 1 if all known weights are 0."""
        return float(max((np.abs(w).max() for w in (*self._before, self.mean) if np.any(w)), default=1.0))

    def begin_task(self) -> None:
        """Store the weights of the last task, and set the belief to the mean and covariance of all stored weights."""
        if self._begun:
            self._before.append(self.mean)
        self._begun = True
        n, d = len(self._before), len(self.mean)
        if n == 0:
            return
        seen = np.array(self._before)
        self.mean = seen.mean(axis=0)
        # after few tasks the covariance is widened: a weight that was equal in these tasks may still change
        self.covariance = np.atleast_2d(np.cov(seen.T, ddof=0)) + (self.scale / n) ** 2 * np.eye(d)

    def observe(self, phi: Floats, reward: float) -> None:
        """Update the belief by the reward of a step with features phi (d,)."""
        along = self.covariance @ phi
        spread = phi @ along + (_NOISE * self.scale) ** 2
        self.mean = self.mean + along * ((reward - phi @ self.mean) / spread)
        self.covariance = self.covariance - np.outer(along, along) / spread

    def errors(self, phi: Floats) -> Floats:
        """Return the standard deviation (..) of the reward of each feature vector in phi (.., d)."""
        variance = np.einsum("...i,ij,...j->...", phi, self.covariance, phi)
        return np.sqrt(np.maximum(variance, 0.0))

    def rewards(self, phi: Floats) -> Floats:
        """Return the optimistic reward (..) of each feature vector in phi (.., d)."""
        return np.asarray(phi @ self.mean + self.curiosity * self.errors(phi))
