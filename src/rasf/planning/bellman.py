"""The entropic Bellman backup of one task: Q(s, a) = U_b[r + g v(s')].

`Backup` holds a task's rewards beside the dynamics and applies the compiled kernel; the parameter b changes from step to
step in discounted problems (b = beta gamma^k), so it is an argument.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

from rasf.mdp import FiniteMDP, Floats, Ints
from rasf.planning import kernels

# Numba's fallback thread pool aborts when two Python threads enter a parallel kernel at once.
KERNEL_LOCK = threading.Lock()


@dataclass(frozen=True)
class Backup:
    """One task's rewards (n,) beside the dynamics."""

    mdp: FiniteMDP
    rewards: Floats

    def q(self, value: Floats, beta: float, gamma: float | None = None) -> Floats:
        """U_beta[r + gamma value(s')], (S, A), for values (S,); gamma defaults to the MDP's."""
        mdp = self.mdp
        out = np.empty((mdp.n_states, mdp.n_actions))
        with KERNEL_LOCK:
            kernels.backup(
                mdp.indptr,
                mdp.successor,
                mdp.probability,
                self.rewards,
                value,
                float(beta),
                mdp.gamma if gamma is None else gamma,
                out.reshape(-1),
            )
        return out

    @property
    def reward_range(self) -> tuple[float, float]:
        """Least and greatest reward of a step; 0 is among them if there are terminal states."""
        rewards = self.rewards if len(self.rewards) else np.zeros(1)
        low, high = float(rewards.min()), float(rewards.max())
        return (min(low, 0.0), max(high, 0.0)) if self.mdp.terminal.any() else (low, high)


def follow(q: Floats, policy: Ints) -> Floats:
    """Values (S,) of acting by policy (S,) in a table (S, A)."""
    return q[np.arange(len(q)), policy]
