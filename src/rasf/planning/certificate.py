"""Theorems 1 and 2 as numbers: how far GPI can fall below its best source, and below the optimum.

With source utilities known to within eps, GPI over them satisfies, at decision h of a horizon of n,

    Theorem 1    Q^pi >= max_i Q^i - 2 (n - h) eps
    Theorem 2    |Q^pi - Q*| <= 2 (n - h) (delta_r + eps),    delta_r = min_i max |r - r_i|,

the second for sources that are optimal for their own tasks at the same beta. For discounted returns n - h becomes
1 / (1 - gamma), and the theorems hold for GPI that knows the discount so far, z = gamma^k; utilities are in units of z.
At gamma = 1 without a horizon both bounds are infinite unless the errors are 0 and the GPI policy surely ends (ties can
make it stay in a loop that is worth as much as leaving it, for ever).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.mdp import FiniteMDP
from rasf.planning import discounted
from rasf.planning.bellman import Backup
from rasf.planning.plan import DEFAULT_TOLERANCE, Plan, augmented_policy, check_settings, evaluate_policy, plan
from rasf.planning.undiscounted import ends_surely
from rasf.risk import Entropic
from rasf.transfer import gpi


@dataclass(frozen=True, repr=False)
class Certificate:
    """Bounds of Theorems 1 and 2 beside the true gaps, largest over states and actions.

    Each is one number, or one per decision (n,) with a horizon, or one per power of gamma (K + 1,) when discounted.
    `optimality_bound` is infinite where no source is a `Plan` for the same risk. `source_utilities` are the exact ones,
    (K, ..).
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
        """Whether the true gaps respect the bounds, up to rounding."""
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
    """What GPI over `sources` guarantees on the task `w`, and what it attains.

    Sources are plans (of any task) or policies. `scores` are the approximate utilities that GPI acts on, shaped like
    the exact ones: (K, S, A), (K, n, S, A) with a horizon, (K, K' + 1, S, A) discounted; the exact ones by default.
    `epsilon` is their error if known, else it is measured; understated, it shows in `holds`.
    """
    if not isinstance(risk, Entropic):
        raise ValueError(f"the theorems are about Entropic utilities, got {type(risk).__name__}")
    if len(sources) == 0:
        raise ValueError("sources must hold at least one plan or policy")
    check_settings(horizon, tolerance)
    policies = [source.policy if isinstance(source, Plan) else np.asarray(source) for source in sources]
    augmented = mdp.gamma < 1 and horizon is None
    depth = 0
    if augmented:
        backup = Backup(mdp, mdp.rewards(w))
        depth = discounted.truncation_depth(backup, float(risk.beta), tolerance / 2)
        depth = max([depth, *(len(policy) - 1 for policy in policies if policy.ndim == 2)])

    def utilities(policy: npt.ArrayLike | None) -> Floats:
        if not augmented:
            if policy is None:
                return plan(mdp, w, risk, horizon, tolerance=tolerance).q
            return evaluate_policy(mdp, policy, w, risk, horizon, tolerance=tolerance)
        given = None if policy is None else augmented_policy(mdp, policy)
        return discounted.augmented(backup, float(risk.beta), given, tolerance, all_tables=True, depth=depth)[0]

    exact = np.stack([utilities(policy) for policy in policies])
    acted_on = exact if scores is None else np.asarray(scores, np.float64)
    if acted_on.shape != exact.shape:
        raise ValueError(f"scores must have shape {exact.shape}, got {acted_on.shape}")
    measured = float(np.abs(np.subtract(acted_on, exact, out=np.zeros_like(exact), where=acted_on != exact)).max())
    eps = measured if epsilon is None else float(epsilon)
    if not 0 <= eps < np.inf:
        raise ValueError(f"epsilon must be finite and not negative, got {eps}")
    choice = gpi(acted_on)
    attained, optimal = utilities(choice.policy), utilities(None)
    certain = bool(mdp.gamma < 1 or horizon is not None or ends_surely(mdp, choice.policy).all())
    steps = _remaining_steps(mdp, horizon, len(exact[0]) if augmented else 0)
    delta_r = _nearest_task(mdp, sources, w, risk, horizon)
    return Certificate(
        epsilon=eps,
        delta_r=delta_r,
        source_bound=_product(2 * steps, eps, certain),
        optimality_bound=_product(2 * steps, delta_r + eps, certain),
        source_gap=_largest_gap(exact.max(axis=0), attained),
        optimality_gap=_largest_gap(optimal, attained),
        policy=choice.policy,
        source=choice.source,
        source_utilities=exact,
    )


def _remaining_steps(mdp: FiniteMDP, horizon: int | None, powers: int) -> Floats:
    if horizon is not None:
        return horizon - np.arange(horizon, dtype=np.float64)
    if mdp.gamma < 1:
        return np.full(powers, 1 / (1 - mdp.gamma))
    return np.array(np.inf)


def _product(steps: Floats, error: float, certain: bool) -> Floats:
    """The bound; without any error it is 0 even over infinitely many steps, if the policy is certain to end."""
    return np.zeros_like(steps) if error == 0 and certain else steps * (error or np.inf)


def _largest_gap(wanted: Floats, attained: Floats) -> Floats:
    """max over (s, a) of wanted - attained; equal infinities have no gap."""
    gap = np.subtract(wanted, attained, out=np.zeros_like(wanted), where=wanted != attained)
    return gap.max(axis=(-2, -1))


def _nearest_task(
    mdp: FiniteMDP, sources: Sequence[Plan | npt.ArrayLike], w: npt.ArrayLike, risk: Entropic, horizon: int | None
) -> float:
    """delta_r over the sources that are optimal for a task in this very setting; inf if there is none."""
    target = mdp.task(w)
    distances = [
        float(np.abs(mdp.phi @ (target - source.w)).max(initial=0.0))
        for source in sources
        if isinstance(source, Plan) and (source.risk, source.horizon, source.gamma) == (risk, horizon, mdp.gamma)
    ]
    return min(distances, default=np.inf)
