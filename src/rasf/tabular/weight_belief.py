"""What is believed of a task's weights while they are learned from rewards, r = phi . w.

A normal law: before a reward is seen, the mean and covariance of the tasks before, and every reward narrows it, exactly
where rewards have no noise. What is not yet known is taken to be good, one standard deviation above its mean by
default, so that it is found out; weights that were the same in all tasks, as the price of a failure, need not be found
out again.
"""

from __future__ import annotations

import numpy as np

from rasf.arrays import Floats

_NOISE = 1e-4  # standard deviation of a reward's error, in units of the largest weight known


class WeightBelief:
    """Mean (d,) and covariance (d, d) of the weights of the task at hand."""

    STATE = ("mean", "covariance", "_before", "_begun")  # for checkpoints

    def __init__(self, n_features: int, curiosity: float) -> None:
        self.curiosity = curiosity
        self.mean, self.covariance = np.zeros(n_features), np.eye(n_features)
        self._before: list[Floats] = []
        self._begun = False

    @property
    def scale(self) -> float:
        """The largest weight known; 1 while there is none."""
        return float(max((np.abs(w).max() for w in (*self._before, self.mean) if np.any(w)), default=1.0))

    def begin_task(self) -> None:
        """The weights of the task that ends are one more example of what weights are like."""
        if self._begun:
            self._before.append(self.mean)
        self._begun = True
        n, d = len(self._before), len(self.mean)
        if n == 0:
            return
        seen = np.array(self._before)
        self.mean = seen.mean(axis=0)
        # the less is known, the wider; a weight that never changed can yet change
        self.covariance = np.atleast_2d(np.cov(seen.T, ddof=0)) + (self.scale / n) ** 2 * np.eye(d)

    def observe(self, phi: Floats, reward: float) -> None:
        along = self.covariance @ phi
        spread = phi @ along + (_NOISE * self.scale) ** 2
        self.mean = self.mean + along * ((reward - phi @ self.mean) / spread)
        self.covariance = self.covariance - np.outer(along, along) / spread

    def errors(self, phi: Floats) -> Floats:
        """Standard deviations of the rewards of features (.., d)."""
        variance = np.einsum("...i,ij,...j->...", phi, self.covariance, phi)
        return np.sqrt(np.maximum(variance, 0.0))

    def rewards(self, phi: Floats) -> Floats:
        """Of features (.., d), as good as they may well be."""
        return np.asarray(phi @ self.mean + self.curiosity * self.errors(phi))
