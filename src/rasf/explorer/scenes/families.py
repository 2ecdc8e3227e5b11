"""The families of risks that scenes offer, with their dials."""

from __future__ import annotations

from collections.abc import Iterable

from rasf.explorer.scenes.scene import Family
from rasf.library.frozen_policies import FrozenPolicies
from rasf.library.policy_library import SourcePolicy
from rasf.risk import CVaR, Entropic, MeanVariance
from rasf.risk.names import risk_from_text


def mean_variance(low: float, high: float, step: float, default: float) -> Family:
    """mean + (beta / 2) variance."""
    return Family("mean-variance", "Mean and variance", "beta", low, high, step, 0.0, default, MeanVariance)


def entropic(low: float, high: float, step: float, default: float) -> Family:
    """log E exp(beta return) / beta."""
    return Family("entropic", "Entropic utility", "beta", low, high, step, 0.0, default, Entropic)


def cvar(default: float) -> Family:
    """The mean of the worst share alpha."""
    return Family("cvar", "CVaR, the worst share", "alpha", 0.05, 1.0, 0.05, 1.0, default, CVaR)


def neutral_only() -> Family:
    """For laws that know nothing but the mean."""
    return mean_variance(0.0, 0.0, 1.0, 0.0)


def trained_for(risk: str) -> str:
    """A source policy's risk in few words, from its text in a library."""
    name, colon, _ = risk.partition(":")
    known = _known(risk)
    if known is None or not colon:
        return risk
    return f"{name} {known.alpha if isinstance(known, CVaR) else known.beta:g}"


def _known(risk: str) -> MeanVariance | Entropic | CVaR | None:
    """The risk that a text names; a library may have been trained for others, or a file hold anything."""
    try:
        found = risk_from_text(risk)
    except ValueError:
        return None
    return found if isinstance(found, MeanVariance | Entropic | CVaR) else None


def around_trained(policies: Iterable[SourcePolicy]) -> tuple[Family, ...]:
    """Dials for any library: they reach four times as far as its policies' own risk.

    Where none has any, beta is about the inverse of the rewards, so that mean and risk weigh about as much.
    """
    given = list(policies)
    largest = max((abs(w) for policy in given for w in policy.w), default=1.0)
    risks = [_known(policy.risk) for policy in given]
    betas = [abs(float(risk.beta)) for risk in risks if isinstance(risk, MeanVariance | Entropic) and risk.beta != 0]
    beta = float(f"{max(betas, default=1 / max(largest, 1e-6)):.1g}")
    return (
        mean_variance(-4 * beta, 2 * beta, beta / 8, -beta),
        entropic(-4 * beta, 2 * beta, beta / 8, -beta),
        cvar(0.2),
    )


def served(sources: FrozenPolicies, families: Iterable[Family]) -> tuple[Family, ...]:
    """Those whose risks the policies' laws can serve."""
    kept = []
    for family in families:
        try:
            sources.check(family.make(family.low))
        except ValueError:
            continue
        kept.append(family)
    return tuple(kept)
