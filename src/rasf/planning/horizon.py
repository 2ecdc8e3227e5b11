"""Finite horizon: n decisions, tables indexed by the decision h = 0 .. n - 1 (the paper's T is n - 1).

    Q_h(s, a) = U_{b_h}[r + gamma Q_{h+1}(s', pi_{h+1}(s'))],      Q_n = 0.

b_h = beta gamma^h is the entropic utility of the discounted return, in units of step h; b_h = beta is the nested
recursion. The two agree at gamma = 1.
"""

from __future__ import annotations

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.planning.bellman import Backup, follow


def check_horizon(horizon: int | None) -> None:
    """Refuse a horizon that is not a positive whole number."""
    if horizon is not None and (not isinstance(horizon, (int, np.integer)) or horizon < 1):
        raise ValueError(f"horizon must be a positive number of decisions, got {horizon}")


def sweep_back(
    backup: Backup, betas: Floats, last_value: Floats, policy: Ints | None = None, keep: int | None = None
) -> tuple[Floats, Ints]:
    """Tables (keep, S, A) and policies (n, S), from last_value (S,) back over the parameters betas (n,).

    Without `policy` (n, S) the sweep maximises. `keep` is how many of the first tables to return, all by default.
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
