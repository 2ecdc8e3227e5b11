"""The families of risks that scenes offer, with their dials."""

from __future__ import annotations

from collections.abc import Iterable

from rasf.explorer.scene import Family
from rasf.library.sources import Sources
from rasf.risk import CVaR, Entropic, MeanVariance


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


def served(sources: Sources, families: Iterable[Family]) -> tuple[Family, ...]:
    """Those whose risks the policies' laws can serve."""
    kept = []
    for family in families:
        try:
            sources.check(family.make(family.low))
        except ValueError:
            continue
        kept.append(family)
    return tuple(kept)
