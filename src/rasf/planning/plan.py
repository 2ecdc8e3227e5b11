"""`plan` and `evaluate_policy`: the optimal utilities of a task, and the utilities of a given policy.

U is the entropic utility, S the number of states and A the number of actions. For discounted returns, the parameter of
U at decision k is beta gamma^k, which vanishes as k grows. So from decision K on, the plan is risk-neutral
(`rasf.planning.discounted`). K follows from the tolerance.

| setting | `Entropic` | `NestedEntropic` |
| --- | --- | --- |
| horizon of n decisions | U of the (discounted) return, tables (n, S, A) | Q = U_beta[r + gamma Q'], applied n times |
| gamma = 1, terminal states | U of the total reward, (S, A) | the same |
| gamma < 1 | U of the discounted return; policy (K + 1, S), a row for each decision | fixed point of the recursion |

In the recursion, Q' is the utility in the next state. `MeanVariance` can be evaluated from exact moments, but cannot be
planned because it has no dynamic programme.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.checks import LARGEST, decisions, number
from rasf.mdp import FiniteMDP, as_actions, require_mdp
from rasf.planning import discounted, undiscounted
from rasf.planning.bellman import Backup, sweep_back
from rasf.planning.moments import feature_moments
from rasf.planning.optimum import optimise
from rasf.risk import Entropic, MeanVariance, NestedEntropic, Risk

DEFAULT_TOLERANCE = 1e-10
NEUTRAL = Entropic(0.0)
_NEUTRAL_BETA = 1e-200  # a smaller |beta| counts as neutral: rewards are at most 1e90, so its effect is negligible


@dataclass(frozen=True, repr=False)
class Plan:
    """Optimal utilities and a policy that attains them.

    At gamma = 1 without a horizon, utilities may be infinite, and a policy that is greedy for q may loop for ever among
    tied actions. `policy` attains the utilities.

    Attributes:
        q: Utilities (S, A), or (n, S, A) with a horizon of n decisions. For discounted `Entropic`, q contains the
            utilities at the first decision.
        policy: Actions (S,), or (n, S) with a horizon. For discounted `Entropic` with nonzero beta, (K + 1, S): a row
            for each decision, where the last row applies to all later decisions.
        w: The weights of the task (d,).
        risk: The risk of the utilities.
        horizon: The number of decisions, or None.
        gamma: The discount.
        error: A bound on the error of q, 0 if q is exact up to rounding.
        sweeps: The number of passes over the transitions, or at gamma = 1 without a horizon the number of rounds of
            policy iteration.
    """

    q: Floats
    policy: Ints
    w: Floats
    risk: Risk
    horizon: int | None
    gamma: float
    error: float
    sweeps: int

    @property
    def value(self) -> Floats:
        """The optimal utilities of the states, (S,) or (n, S)."""
        return self.q.max(axis=-1)

    def __repr__(self) -> str:
        over = "" if self.horizon is None else f", horizon {self.horizon}"
        sizes = f"q {self.q.shape}, policy {self.policy.shape}, gamma {self.gamma:g}{over}"
        values = f"values {self.value.min():.4g} to {self.value.max():.4g}, error {self.error:.2g}"
        return f"<Plan for {self.risk}: {sizes}, {values}>"


def plan(
    mdp: FiniteMDP,
    w: npt.ArrayLike,
    risk: Risk = NEUTRAL,
    horizon: int | None = None,
    *,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Plan:
    """Compute the optimal utilities and an optimal policy of a task under `Entropic` or `NestedEntropic`.

    Args:
        mdp: The dynamics and features.
        w: The weights of the task (d,).
        risk: `Entropic` or `NestedEntropic`. Default: `Entropic` at beta = 0.
        horizon: The number of decisions. Default: none, which needs gamma below 1 or an MDP with terminal states.
        tolerance: The largest error of discounted utilities. Default: 1e-10.

    Returns:
        The plan.

    Raises:
        ValueError: An argument is invalid, the risk has no dynamic programme, or a state cannot reach a terminal
            state (at gamma = 1 without a horizon).
    """
    require_mdp(mdp)
    if not isinstance(risk, (Entropic, NestedEntropic)):
        raise ValueError(
            f"{type(risk).__name__} has no dynamic programme; plan with Entropic (the exact counterpart of "
            "MeanVariance at the same beta), or train sources and choose among them with gpe and gpi"
        )
    beta = plain_beta(risk)
    check_settings(mdp, horizon, tolerance)
    task = mdp.task(w)
    backup = Backup(mdp, mdp.rewards(task))
    context = (task, risk, horizon, mdp.gamma)
    if horizon is not None:
        q, policy = sweep_back(backup, _step_betas(risk, mdp.gamma, horizon), np.zeros(mdp.n_states))
        return Plan(q, policy, *context, 0.0, horizon)
    if mdp.gamma == 1.0:
        value, policy, rounds = optimise(backup, beta, tolerance)
        return Plan(backup.q(value, beta), policy, *context, 0.0, rounds)
    if isinstance(risk, NestedEntropic) or beta == 0:
        value, error, sweeps = discounted.nested(backup, beta, None, tolerance)
        q = backup.q(value, beta)
        return Plan(q, q.argmax(axis=1), *context, mdp.gamma * error, sweeps + 1)
    tables, policy, error = discounted.augmented(backup, beta, None, tolerance)
    return Plan(tables[0], policy, *context, error, len(policy))


def evaluate_policy(
    mdp: FiniteMDP,
    policy: npt.ArrayLike,
    w: npt.ArrayLike,
    risk: Risk = NEUTRAL,
    horizon: int | None = None,
    *,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Floats:
    """Compute the utilities of taking each action in each state and following a policy afterwards.

    Args:
        mdp: The dynamics and features.
        policy: Actions (S,). With a horizon of n decisions, (n, S) is also accepted. For discounted `Entropic`,
            (K + 1, S) is also accepted, as in a `Plan`.
        w: The weights of the task (d,).
        risk: `Entropic`, `NestedEntropic` or `MeanVariance`. Default: `Entropic` at beta = 0.
        horizon: The number of decisions. Default: none, which needs gamma below 1 or an MDP with terminal states.
        tolerance: The largest error of discounted utilities. Default: 1e-10.

    Returns:
        Utilities (S, A), or (n, S, A) with a horizon. At gamma = 1 without a horizon, utilities may be infinite. At
        beta = 0, the utility is nan for an action after which the total reward may be inf or -inf and has no mean.

    Raises:
        ValueError: An argument is invalid, or the total reward of the policy has no mean (gamma = 1).
    """
    require_mdp(mdp)
    check_settings(mdp, horizon, tolerance)
    rewards = mdp.rewards(w)
    if isinstance(risk, MeanVariance):
        mean, variance = feature_moments(mdp, rewards[:, None], policy, horizon)
        return risk.moments(mean[..., 0], variance[..., 0, 0])
    if not isinstance(risk, (Entropic, NestedEntropic)):
        raise ValueError(
            f"evaluate_policy has no exact recursion for {type(risk).__name__}; use Entropic, NestedEntropic or "
            "MeanVariance, or score successor_moments with gpe"
        )
    backup, beta = Backup(mdp, rewards), plain_beta(risk)
    if horizon is not None:
        betas = _step_betas(risk, mdp.gamma, horizon)
        return sweep_back(backup, betas, np.zeros(mdp.n_states), mdp.policy(policy, horizon))[0]
    if mdp.gamma == 1.0:
        undiscounted.require_reachable_end(mdp)
        return backup.q(undiscounted.evaluate(backup, beta, mdp.policy(policy), tolerance), beta)
    if isinstance(risk, Entropic):
        return discounted.augmented(backup, beta, augmented_policy(mdp, policy), tolerance)[0][0]
    return backup.q(discounted.nested(backup, beta, mdp.policy(policy), tolerance)[0], beta)


def augmented_policy(mdp: FiniteMDP, policy: npt.ArrayLike) -> Ints:
    """Check a policy (S,) or (K + 1, S) and return it as an array."""
    given = as_actions(policy)
    return mdp.policy(given, len(given) if given.ndim == 2 else None)


def check_settings(mdp: FiniteMDP, horizon: int | None, tolerance: float = DEFAULT_TOLERANCE) -> None:
    """Raise ValueError for a horizon or a tolerance out of range, and for tables that do not fit into memory."""
    if horizon is not None:
        decisions("horizon", horizon, mdp.n_states * mdp.n_actions)
    if not number("tolerance", tolerance) > 0:
        raise ValueError(f"tolerance must be positive, got {tolerance}")


def plain_beta(risk: Entropic | NestedEntropic) -> float:
    """Return beta as a float, or 0 for |beta| below 1e-200; raise ValueError for |beta| above 1e90."""
    beta = float(risk.beta)
    if abs(beta) > LARGEST:
        raise ValueError(f"beta must be at most {LARGEST:g} in size, got {beta:g}")
    return 0.0 if abs(beta) < _NEUTRAL_BETA else beta


def _step_betas(risk: Entropic | NestedEntropic, gamma: float, horizon: int) -> Floats:
    fades = np.power(gamma, np.arange(horizon)) if isinstance(risk, Entropic) else np.ones(horizon)
    return np.float64(risk.beta) * fades
