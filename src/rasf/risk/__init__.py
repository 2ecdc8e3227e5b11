"""Risk measures: objects that turn a return distribution into one number. `rasf.risk.base` has the interface."""

from rasf.risk.base import Risk
from rasf.risk.certainty import CertaintyEquivalent
from rasf.risk.cvar import CVaR, PiecewiseLinear
from rasf.risk.elliptical import Elliptical, EllipticalMixture
from rasf.risk.entropic import Entropic, NestedEntropic
from rasf.risk.mean_variance import MeanVariance
from rasf.risk.monotone import MonotoneMeanVariance
from rasf.risk.skew_normal import SkewNormal

__all__ = [
    "CVaR",
    "CertaintyEquivalent",
    "Elliptical",
    "EllipticalMixture",
    "Entropic",
    "MeanVariance",
    "MonotoneMeanVariance",
    "NestedEntropic",
    "PiecewiseLinear",
    "Risk",
    "SkewNormal",
]
