"""Exact planning with limits: the largest return while expected sums of features stay within bounds.

    maximise  E sum r    subject to  E sum (feature k) <= L_k,    from one state, over mixtures of policies

L_k is the limit of feature k. The expected sum of a limited feature is a cost. A mixture draws one of its policies at
the start and follows this policy. For m limits, the optimum is in general a mixture of up to m + 1 policies. The
mixture is found by column generation. The policies found so far are the columns of a linear programme, which gives a
mixture and a price for each limit. The best policy at these prices becomes the next column. The search ends when the
return and costs of this policy equal the return and costs of a column. `limited_gpi` computes new policies by GPI over
its sources. The sources are columns from the start, so the result is never below the best mixture of the sources that
keeps the limits (docs/theory.md). `plan_limited` computes new policies by `plan`, so the result is the optimum of the
constrained MDP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from rasf.arrays import Floats, Ints
from rasf.limits import Limit, Limits, read_limits
from rasf.mdp import FiniteMDP, require_mdp
from rasf.planning.moments import successor_moments
from rasf.planning.plan import check_settings, plan
from rasf.risk import Entropic

_MOST_POLICIES = 200  # largest number of new columns
_SLACK = 1e-9  # tolerance for limits, relative to their size, and for probabilities

Oracle = Callable[[Floats], Ints]  # weights (d,) -> a policy (S,) or (horizon, S)


@dataclass(frozen=True, repr=False)
class LimitedPlan:
    """A mixture of policies, with its expected return and costs from the start state.

    Attributes:
        value: The expected return for w.
        costs: The expected sums (m,) of the m limited features.
        prices: For each limit (m,), the return gained per unit by which it is loosened; 0 if it does not bind.
        policies: The policies of the mixture, each an array (S,) or (horizon, S) of actions.
        probabilities: The probability of each policy.
        sources: The returns and costs (I, 1 + m) of the I source policies.
        kept: Whether all limits are kept. If False, none of the mixtures that were found keeps them, and this one
            exceeds them least.
        remark: A sentence on the limits that are not kept, or an empty string.
    """

    value: float
    costs: Floats
    prices: Floats
    policies: tuple[Ints, ...]
    probabilities: Floats
    sources: Floats
    kept: bool
    remark: str

    def __repr__(self) -> str:
        mixed = f"mixture of {len(self.policies)} policies" if len(self.policies) > 1 else "one policy"
        remark = f"; {self.remark}" if self.remark else ""
        return f"<LimitedPlan: {self.value:.4g} at costs {self.costs}, prices {self.prices}, {mixed}{remark}>"


def limited_gpi(
    mdp: FiniteMDP,
    policies: Sequence[npt.ArrayLike],
    w: npt.ArrayLike,
    limits: Mapping[str | int, float | Limit],
    *,
    start: int,
    horizon: int | None = None,
) -> LimitedPlan:
    """Compute the best mixture of source policies and GPI policies within limits.

    A GPI policy acts for the weights w minus a price for each limited feature. The search tries several prices.

    Args:
        mdp: The dynamics and features.
        policies: The source policies, each an array (S,) or (horizon, S) of actions, as `successor_moments` accepts.
        w: The weights of the task (d,).
        limits: A dict from a feature's index to its largest expected sum or a `Limit`. Sums are discounted by the MDP's
            gamma.
        start: The start state.
        horizon: The number of decisions. Default: none, which needs gamma below 1 or policies that end with
            probability one.

    Returns:
        The mixture. If no mixture keeps the limits, this is the mixture that exceeds them least.

    Raises:
        ValueError: An argument is invalid.
    """
    columns = _columns(mdp, w, limits, start, horizon)
    actions = mdp.policies(policies, horizon)
    psi = np.stack([successor_moments(mdp, one, horizon).psi for one in actions])

    def by_gpi(weights: Floats) -> Ints:
        return np.asarray((psi @ weights).max(axis=0).argmax(axis=-1))

    return _mix(columns, actions, by_gpi)


def plan_limited(
    mdp: FiniteMDP,
    w: npt.ArrayLike,
    limits: Mapping[str | int, float | Limit],
    *,
    start: int,
    horizon: int | None = None,
) -> LimitedPlan:
    """Compute the optimal mixture of policies within limits.

    Args:
        mdp: The dynamics and features.
        w: The weights of the task (d,).
        limits: A dict from a feature's index to its largest expected sum or a `Limit`. Sums are discounted by the MDP's
            gamma.
        start: The start state.
        horizon: The number of decisions. Default: none, which needs gamma below 1 or an MDP with terminal states.

    Returns:
        The mixture. If no mixture keeps the limits, this is the mixture that exceeds them least.

    Raises:
        ValueError: An argument is invalid.
    """
    columns = _columns(mdp, w, limits, start, horizon)

    def planned(weights: Floats) -> Ints:
        best = plan(mdp, weights, Entropic(0.0), horizon=horizon).policy
        return best if horizon is not None or best.ndim == 1 else best[-1]

    return _mix(columns, [], planned)


def _columns(
    mdp: FiniteMDP, w: npt.ArrayLike, limits: Mapping[str | int, float | Limit], start: int, horizon: int | None
) -> _Columns:
    """Check the arguments, and return an empty set of columns."""
    require_mdp(mdp)
    mdp.rewards(w)
    found = read_limits(limits, mdp.n_features)
    if any(limit.per_episode for limit in found.given) and mdp.gamma < 1:
        raise ValueError(f"limits with per_episode need an MDP with gamma = 1, got gamma = {mdp.gamma:g}")
    mdp.state("start", start)
    check_settings(mdp, horizon)
    return _Columns(mdp, mdp.task(w), found, start, horizon)


def _mix(columns: _Columns, sources: Sequence[Ints], solve: Oracle) -> LimitedPlan:
    w, found = columns.w, columns.limits
    for source in sources:
        columns.add(source)
    columns.add(solve(w))
    mixed = columns.mixture()
    for _ in range(_MOST_POLICIES):
        scale = 0.0 if mixed.excess > 0 else 1.0  # ignore the return until a mixture keeps the limits
        new = solve(scale * w - found.prices_of(mixed.prices, len(w)))
        if not columns.add(new):
            break
        mixed = columns.mixture()
    used = np.flatnonzero(mixed.shares > _SLACK)
    totals = mixed.shares @ columns.table()
    costs = totals[1:]
    kept = bool((costs <= found.at_most + _SLACK * (1.0 + np.abs(found.at_most))).all())
    return LimitedPlan(
        float(totals[0]),
        costs * found.signs,
        mixed.prices,
        tuple(columns.policies[i] for i in used),
        mixed.shares[used] / mixed.shares[used].sum(),
        columns.table()[: len(sources)] * [1.0, *found.signs],
        kept,
        "" if kept else found.not_kept(costs),
    )


@dataclass(frozen=True)
class _Mixture:
    shares: Floats
    prices: Floats
    excess: float


class _Columns:
    """Policies with their returns and their m costs from the start state."""

    def __init__(self, mdp: FiniteMDP, w: Floats, limits: Limits, start: int, horizon: int | None) -> None:
        self.w, self.limits = w, limits
        self._mdp, self._start, self._horizon = mdp, start, horizon
        self.policies: list[Ints] = []
        self._rows: list[Floats] = []

    def add(self, policy: Ints) -> bool:
        """Add a policy, unless a column has the same return and costs; return whether the policy was added."""
        psi = successor_moments(self._mdp, policy, self._horizon).psi
        first, actions = (psi, policy) if self._horizon is None else (psi[0], policy[0])
        here = first[self._start, actions[self._start]]
        row = np.array([here @ self.w, *self.limits.costs(here)])
        if any(np.allclose(row, other, rtol=1e-10, atol=1e-12) for other in self._rows):
            return False
        self.policies.append(policy)
        self._rows.append(row)
        return True

    def table(self) -> Floats:
        return np.array(self._rows)

    def mixture(self) -> _Mixture:
        """Return the best mixture that keeps the limits; if there is none, the mixture that exceeds them least."""
        table, at_most = self.table(), self.limits.at_most
        n, m = len(table), len(at_most)
        # excesses over the m limits are divided by these units before they are added up
        unit = np.maximum(np.abs(table[:, 1:] - at_most).max(axis=0), 1e-300)
        over = np.hstack([(table[:, 1:] - at_most).T / unit[:, None], -np.eye(m)])
        whole_row = np.hstack([np.ones((1, n)), np.zeros((1, m))])
        least = linprog(np.r_[np.zeros(n), np.ones(m)], over, np.zeros(m), whole_row, [1.0])
        if least.fun > _SLACK:
            return _Mixture(least.x[:n], -least.ineqlin.marginals / unit, float(least.fun))
        best = linprog(-table[:, 0], over[:, :n], np.maximum(least.x[n:], 0.0), whole_row[:, :n], [1.0])
        return _Mixture(best.x, np.maximum(-best.ineqlin.marginals, 0.0) / unit, 0.0)
