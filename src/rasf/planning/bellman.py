"""The entropic Bellman backup of one task: Q(s, a) = U_b[r + g v(s')].

`Backup` holds a task's rewards beside the dynamics and applies the compiled kernel; the parameter b changes from step
to step in discounted problems (b = beta gamma^k), so it is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.mdp import FiniteMDP
from rasf.planning import kernels


@dataclass(frozen=True)
class Backup:
    """One task's rewards (n,) beside the dynamics."""

    mdp: FiniteMDP
    rewards: Floats

    def q(self, value: Floats, beta: float, gamma: float | None = None) -> Floats:
        """U_beta[r + gamma value(s')], (S, A), for values (S,); gamma defaults to the MDP's."""
        mdp = self.mdp
        return kernels.backup(mdp, self.rewards, value, beta, mdp.gamma if gamma is None else gamma)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Least and greatest reward of a step; 0 is among them if there are terminal states."""
        rewards = self.rewards if len(self.rewards) else np.zeros(1)
        low, high = float(rewards.min()), float(rewards.max())
        return (min(low, 0.0), max(high, 0.0)) if self.mdp.terminal.any() else (low, high)


def follow(q: Floats, policy: Ints) -> Floats:
    """Values (S,) of acting by policy (S,) in a table (S, A)."""
    return q[np.arange(len(q)), policy]
