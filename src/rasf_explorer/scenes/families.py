"""The families of risks of the scenes. The module `scene` explains the words family, dial and level."""

from __future__ import annotations

from collections.abc import Iterable

from rasf.library.frozen_policies import FrozenPolicies
from rasf.library.policy_library import SourcePolicy
from rasf.risk import CVaR, Entropic, MeanVariance, MonotoneMeanVariance, Risk
from rasf.risk.names import risk_to_text
from rasf_explorer.scenes.scene import RiskFamily


def mean_variance(low: float, high: float, step: float, default: float) -> RiskFamily:
    """Return the family mean + (beta / 2) variance. The arguments are the ends, step and default of the dial."""
    return RiskFamily("mean-variance", "Mean and variance", "beta", low, high, step, 0.0, default, MeanVariance)


def monotone(low: float, step: float, default: float) -> RiskFamily:
    """Return the monotone mean-variance family, with a dial from beta `low` to neutral (0)."""
    make = MonotoneMeanVariance
    return RiskFamily("monotone", "Monotone mean and variance", "beta", low, 0.0, step, 0.0, default, make)


def entropic(low: float, high: float, step: float, default: float) -> RiskFamily:
    """Return the family log E exp(beta return) / beta. The arguments are the ends, step and default of the dial."""
    return RiskFamily("entropic", "Entropic utility", "beta", low, high, step, 0.0, default, Entropic)


def cvar(default: float) -> RiskFamily:
    """Return the family CVaR: the mean of the worst share alpha of the returns. `default` is the alpha shown first."""
    return RiskFamily("cvar", "CVaR, the worst share", "alpha", 0.05, 1.0, 0.05, 1.0, default, CVaR)


NEUTRAL_ONLY = mean_variance(0.0, 0.0, 1.0, 0.0)  # for policies that learned only the mean


def trained_for(risk: Risk) -> str:
    """Return the risk of a source policy in a few words."""
    text = risk_to_text(risk)
    if text == "neutral" or not isinstance(risk, MeanVariance | MonotoneMeanVariance | Entropic | CVaR):
        return text
    return f"{text.partition(':')[0]} {risk.alpha if isinstance(risk, CVaR) else risk.beta:g}"


def around_trained(policies: Iterable[SourcePolicy], farthest: float | None = None) -> tuple[RiskFamily, ...]:
    """Return families whose dials suit a library.

    Args:
        policies: The source policies.
        farthest: Largest aversion, -beta, of the dials. Default: four times the largest |beta| of the policies. If all
            policies are neutral, this |beta| is taken to be 1 / (largest weight), at which mean and beta x variance
            have about the same size.

    Returns:
        Monotone mean-variance, mean-variance, entropic utility and CVaR.
    """
    given = list(policies)
    largest = max((abs(w) for policy in given for w in policy.w), default=1.0)
    risks = [policy.risk for policy in given]
    with_beta = (risk for risk in risks if isinstance(risk, MeanVariance | MonotoneMeanVariance | Entropic))
    betas = [abs(float(risk.beta)) for risk in with_beta if risk.beta != 0]
    beta = float(f"{max(betas, default=1 / max(largest, 1e-6)):.1g}") if farthest is None else farthest / 4
    ends = (-4 * beta, 2 * beta, beta / 8, -beta)
    return monotone(-4 * beta, beta / 8, -beta), mean_variance(*ends), entropic(*ends), cvar(0.2)


def served(sources: FrozenPolicies, families: Iterable[RiskFamily]) -> tuple[RiskFamily, ...]:
    """Return the families that the policies can score; if there are none, a family with only the neutral risk."""
    kept = []
    for family in families:
        try:
            sources.check(family.make(family.low))
        except ValueError:
            continue
        kept.append(family)
    return tuple(kept) or (NEUTRAL_ONLY,)
