"""The entropic Bellman backup of one task, Q(s, a) = U_b[r + gamma v(s')], sweeps of backups, and a stopping rule.

U_b[X] = log E exp(b X) / b is the entropic utility at parameter b, U_0 is the mean, and v(s') is the value of the next
state. `Backup` contains a task's rewards and the dynamics, and calls the compiled kernel. The parameter b is an
argument, because it changes from step to step in discounted problems: b = beta gamma^k at step k. Over a horizon of n
decisions, tables are indexed by the decision h = 0 .. n - 1 (the paper's T is n - 1):

    Q_h(s, a) = U_{b_h}[r + gamma Q_{h+1}(s', pi_{h+1}(s'))],      Q_n = 0.

With b_h = beta gamma^h, Q_h is the entropic utility of the discounted return from decision h on, divided by gamma^h.
With b_h = beta, Q_h is the nested utility, which applies U_beta anew in every step. Both are equal at gamma = 1.

Shapes: S states, A actions, n stored transitions (in rewards) or n decisions (in policies and tables).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.mdp import FiniteMDP
from rasf.planning import kernels

WINDOW = 50  # number of sweeps over which the rate of convergence is estimated
_ROUNDING = 4 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Backup:
    """The dynamics, and the rewards (n,) of one task: a reward for each stored transition of the MDP."""

    mdp: FiniteMDP
    rewards: Floats

    def q(self, value: Floats, beta: float, gamma: float | None = None) -> Floats:
        """Return U_beta[r + gamma value(s')] (S, A) for values (S,). Default of gamma: the MDP's discount."""
        mdp = self.mdp
        return kernels.backup(mdp, self.rewards, value, beta, mdp.gamma if gamma is None else gamma)

    @property
    def reward_range(self) -> tuple[float, float]:
        """The least and the largest reward of a step; the range includes 0 if there are terminal states."""
        rewards = self.rewards if len(self.rewards) else np.zeros(1)
        low, high = float(rewards.min()), float(rewards.max())
        return (min(low, 0.0), max(high, 0.0)) if self.mdp.terminal.any() else (low, high)


def follow(q: Floats, policy: Ints) -> Floats:
    """Return the value q[s, policy[s]] of each state s, (S,)."""
    return q[np.arange(len(q)), policy]


def sweep_back(
    backup: Backup, betas: Floats, last_value: Floats, policy: Ints | None = None, keep: int | None = None
) -> tuple[Floats, Ints]:
    """Apply the backup for each of n decisions, from the last to the first.

    Args:
        backup: The backup of the task.
        betas: The parameter b_h of each decision (n,).
        last_value: Values (S,) after the last decision.
        policy: A policy (n, S) to evaluate. Default: none, to compute the optimal policy.
        keep: The number of tables to return, from the first decision on. Default: all n.

    Returns:
        Tables Q_h (keep, S, A) and the policy (n, S).
    """
    n, mdp = len(betas), backup.mdp
    keep = n if keep is None else keep
    tables = np.empty((keep, mdp.n_states, mdp.n_actions))
    chosen = np.empty((n, mdp.n_states), np.int32)
    value = last_value
    for h in range(n - 1, -1, -1):
        q = backup.q(value, betas[h])
        chosen[h] = q.argmax(axis=1) if policy is None else policy[h]
        value = follow(q, chosen[h])
        if h < keep:
            tables[h] = q
    return tables, chosen


def remaining_change(change: Floats, earlier: Floats, value: Floats) -> Floats:
    """Estimate how much each value will still change until convergence.

    The estimate assumes that changes keep shrinking at the mean rate of the last WINDOW sweeps.

    Args:
        change: The absolute changes in the last sweep. Changes of the size of rounding errors count as zero.
        earlier: The absolute changes WINDOW sweeps before.
        value: The values after the last sweep.
    """
    moving = change > _ROUNDING * np.abs(value)
    rate = np.divide(change, earlier, out=np.ones_like(change), where=moving & (earlier > 0)) ** (1 / WINDOW)
    ahead = np.divide(change * rate, 1 - rate, out=np.full_like(change, np.inf), where=rate < 1)
    return np.where(moving, ahead, 0.0)
