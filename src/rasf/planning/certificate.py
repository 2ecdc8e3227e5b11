"""Theorems 1 and 2 of the paper as numbers: bounds on how far GPI is below its best source, and below the optimum.

Let pi be the GPI policy over source policies i, and Q^pi and Q^i their exact utilities. If the scores by which GPI acts
differ from Q^i by at most eps, then at decision h of a horizon of n decisions

    Theorem 1    Q^pi >= max_i Q^i - 2 (n - h) eps
    Theorem 2    |Q^pi - Q*| <= 2 (n - h) (delta_r + eps),    delta_r = min_i max |r - r_i|,

where Q* is the optimal utility, r the reward of the task, and r_i the reward of the task of source i. Theorem 2 needs
sources that are optimal for their own tasks at the same beta. For discounted returns, 1 / (1 - gamma) replaces n - h.
The theorems then hold for a GPI policy that depends on the discount z = gamma^k at decision k, and utilities are
divided by z. At gamma = 1 without a horizon, a bound is 0 or infinite. The bound is 0 if its factor, eps or
delta_r + eps, is 0, and if from every state the GPI policy ends with probability one or has utility inf. (The second
condition can fail if actions tie: GPI may stay for ever in a loop that has the same utility as leaving the loop.)

At gamma = 1 without a horizon, utilities may be inf. A policy that always takes an action of utility inf may itself
have a lower utility. So in states where sources have utility inf, GPI takes the action of the first such source. Then
the utility of GPI is inf, too. Proof: along states of infinite utility, the index of the selected source never grows,
so from some step on GPI follows a single source. If beta > 0, this source leads to a communicating class where
E exp(beta R) diverges (R is the total reward). If beta = 0, the source leads to a class of positive average reward. If
beta < 0, GPI follows the source for ever: each communicating class of the GPI policy lies within a class of the source,
so the spectral radius (`rasf.planning.undiscounted`) of the smaller class is below 1, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.checks import number, numbers, shown
from rasf.mdp import FiniteMDP, as_actions, require_mdp
from rasf.planning import discounted
from rasf.planning.bellman import Backup, follow
from rasf.planning.plan import (
    DEFAULT_TOLERANCE,
    Plan,
    augmented_policy,
    check_settings,
    evaluate_policy,
    plain_beta,
    plan,
)
from rasf.planning.undiscounted import ends_surely
from rasf.risk import Entropic
from rasf.transfer import Choice, gpi


@dataclass(frozen=True, repr=False)
class Certificate:
    """Bounds of Theorems 1 and 2 and the true gaps. Each bound and gap is the largest over states and actions.

    Bounds and gaps have shape (n,) with a horizon of n decisions. For discounted returns their shape is (K + 1,), with
    a value for each power of gamma from 0 to K. In all other cases it is (). An infinite bound gives no guarantee.

    Attributes:
        epsilon: The largest error of the scores by which GPI acts.
        delta_r: The largest difference of a reward between the task and the nearest source task.
        source_bound: The bound of Theorem 1.
        optimality_bound: The bound of Theorem 2, infinite if no source is a `Plan` for the same risk, horizon and
            gamma.
        source_gap: The largest difference between the utilities of the best source and of the GPI policy.
        optimality_gap: The largest difference between the optimal utility and the utility of the GPI policy.
        policy: The GPI policy.
        source: The indices of the selected source policies, of the same shape as `policy`.
        source_utilities: The exact utilities of the m sources, nan where a total reward has no mean. The shape is that
            of `scores` in `certificate`.
    """

    epsilon: float
    delta_r: float
    source_bound: Floats
    optimality_bound: Floats
    source_gap: Floats
    optimality_gap: Floats
    policy: Ints
    source: Ints
    source_utilities: Floats

    @property
    def holds(self) -> bool:
        """Whether the true gaps are at most the bounds, up to rounding."""
        slack = 1e-8 * (1 + np.abs(self.source_bound)) + 1e-8
        return bool(
            (self.source_gap <= self.source_bound + slack).all()
            and (self.optimality_gap <= self.optimality_bound + slack).all()
        )

    def __repr__(self) -> str:
        source = f"{self.source_gap.max():.3g} below the best source (bound {self.source_bound.max():.3g})"
        optimum = f"{self.optimality_gap.max():.3g} below the optimum (bound {self.optimality_bound.max():.3g})"
        verdict = f"{len(self.source_utilities)} sources, {'holds' if self.holds else 'does not hold'}"
        return f"<Certificate of {verdict}: at most {source} and {optimum}, policy {self.policy.shape}>"


def certificate(
    mdp: FiniteMDP,
    sources: Sequence[Plan | npt.ArrayLike],
    w: npt.ArrayLike,
    risk: Entropic,
    horizon: int | None = None,
    *,
    scores: npt.ArrayLike | None = None,
    epsilon: float | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Certificate:
    """Compute the bounds of both theorems for GPI over source policies on a task, and the true gaps.

    Args:
        mdp: The dynamics and features.
        sources: Plans of any tasks, or policies as arrays of actions that `evaluate_policy` accepts.
        w: The weights of the task (d,).
        risk: The entropic utility that scores the sources.
        horizon: The number of decisions. Default: none, which needs gamma below 1 or an MDP with terminal states.
        scores: The approximate utilities of the m sources, by which GPI acts. The shape is (m, n, S, A) with a horizon
            of n decisions, (m, K + 1, S, A) for discounted returns, else (m, S, A). Default: the exact utilities.
        epsilon: The largest error of the scores. If this value is below the true error, `holds` may be False. Default:
            the measured error.
        tolerance: The largest error of discounted utilities. Default: 1e-10.

    Returns:
        The bounds of both theorems, the true gaps, and the GPI policy.

    Raises:
        ValueError: An argument is invalid, or the total reward of a policy has no mean (gamma = 1, beta = 0).
    """
    require_mdp(mdp)
    if not isinstance(risk, Entropic):
        raise ValueError(f"risk must be Entropic, the risk of the theorems, got {type(risk).__name__}")
    if not isinstance(sources, Sequence | np.ndarray) or isinstance(sources, str | bytes) or len(sources) == 0:
        raise ValueError(f"sources must hold at least one plan or policy, got {shown(sources)}")
    check_settings(mdp, horizon, tolerance)
    policies = [source.policy if isinstance(source, Plan) else as_actions(source) for source in sources]
    augmented = mdp.gamma < 1 and horizon is None
    depth = 0
    if augmented:
        backup = Backup(mdp, mdp.rewards(w))
        depth = discounted.truncation_depth(backup, plain_beta(risk), tolerance / 2)
        depth = max([depth, *(len(policy) - 1 for policy in policies if policy.ndim == 2)])

    def utilities(policy: npt.ArrayLike | None) -> Floats:
        if not augmented:
            if policy is None:
                return plan(mdp, w, risk, horizon, tolerance=tolerance).q
            return evaluate_policy(mdp, policy, w, risk, horizon, tolerance=tolerance)
        given = None if policy is None else augmented_policy(mdp, policy)
        return discounted.augmented(backup, float(risk.beta), given, tolerance, all_tables=True, depth=depth)[0]

    exact = np.stack([utilities(policy) for policy in policies])
    acted_on = exact if scores is None else numbers("scores", scores)
    measured = _largest_error(acted_on, exact)
    eps = measured if epsilon is None else number("epsilon", epsilon, low=0.0)
    wanted = _chosen_from(exact)
    choice = gpi(_chosen_from(acted_on))
    endless = mdp.gamma == 1 and horizon is None
    if endless:
        choice = _earning_infinity(choice, acted_on, np.stack(policies))
    attained, optimal = utilities(choice.policy), utilities(None)
    surely = not endless or ends_surely(mdp, choice.policy) | (follow(attained, choice.policy) == np.inf)
    certain = bool(np.all(surely))
    steps = _remaining_steps(mdp, horizon, len(exact[0]) if augmented else 0)
    delta_r = _nearest_task(mdp, sources, w, risk, horizon)
    return Certificate(
        epsilon=eps,
        delta_r=delta_r,
        source_bound=_product(2 * steps, eps, certain),
        optimality_bound=_product(2 * steps, delta_r + eps, certain),
        source_gap=_largest_gap(wanted.max(axis=0), attained),
        optimality_gap=_largest_gap(optimal, attained),
        policy=choice.policy,
        source=choice.source,
        source_utilities=exact,
    )


def _largest_error(scores: Floats, exact: Floats) -> float:
    """Return the largest error of the scores, or raise ValueError if they do not fit the exact utilities."""
    if scores.shape != exact.shape:
        raise ValueError(f"scores must have shape {exact.shape}, got {scores.shape}")
    if (np.isnan(scores) & ~np.isnan(exact)).any():
        raise ValueError("scores must be numbers, got nan")
    differs = (scores != exact) & ~np.isnan(exact)
    measured = float(np.abs(np.subtract(scores, exact, out=np.zeros_like(exact), where=differs)).max())
    if measured == np.inf:
        raise ValueError("scores must be infinite exactly where the exact utilities are infinite")
    return measured


def _chosen_from(utilities: Floats) -> Floats:
    """Return utilities with -inf in place of nan, so that an action without a mean is the last choice."""
    return np.where(np.isnan(utilities), -np.inf, utilities)


def _earning_infinity(choice: Choice, scores: Floats, policies: Ints) -> Choice:
    """Return `choice`, changed where a source's own action has score inf: there, the first such source is selected."""
    states = np.arange(scores.shape[1])
    infinite = scores[np.arange(len(scores))[:, None], states, policies] == np.inf
    some, first = infinite.any(axis=0), infinite.argmax(axis=0)
    policy = np.where(some, policies[first, states], choice.policy)
    return Choice(policy, np.where(some, first, choice.source))


def _remaining_steps(mdp: FiniteMDP, horizon: int | None, powers: int) -> Floats:
    if horizon is not None:
        return horizon - np.arange(horizon, dtype=np.float64)
    if mdp.gamma < 1:
        return np.full(powers, 1 / (1 - mdp.gamma))
    return np.array(np.inf)


def _product(steps: Floats, error: float, certain: bool) -> Floats:
    """Return the bound steps * error; for an error of 0, return 0 if `certain`, else inf.

    `certain` means that from every state the GPI policy ends with probability one or has utility inf.
    """
    return np.zeros_like(steps) if error == 0 and certain else steps * (error or np.inf)


def _largest_gap(wanted: Floats, attained: Floats) -> Floats:
    """Return max over (s, a) of wanted - attained; the gap is 0 for equal infinities and for wanted = -inf."""
    gap = np.subtract(wanted, attained, out=np.zeros_like(wanted), where=(wanted != attained) & (wanted > -np.inf))
    return gap.max(axis=(-2, -1))


def _nearest_task(
    mdp: FiniteMDP, sources: Sequence[Plan | npt.ArrayLike], w: npt.ArrayLike, risk: Entropic, horizon: int | None
) -> float:
    """Return delta_r over the sources that are plans for the same risk, horizon and gamma; inf without such sources."""
    target = mdp.task(w)
    distances = [
        float(np.abs(mdp.phi @ (target - source.w)).max(initial=0.0))
        for source in sources
        if isinstance(source, Plan) and (source.risk, source.horizon, source.gamma) == (risk, horizon, mdp.gamma)
    ]
    return min(distances, default=np.inf)
