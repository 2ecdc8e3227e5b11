"""Risk-aware transfer in reinforcement learning with successor features.

Train a library of policies once; then, for any new reward weights and any level of risk, act at once, without
retraining, and know what you risk. Names load when first used, so that importing rasf stays quick.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rasf.library.evaluation import Comparison, Report
    from rasf.library.file import load
    from rasf.library.learn import learn
    from rasf.library.policy_library import Explanation, PolicyLibrary, merge
    from rasf.library.weights import WeightEstimate, WeightLearner, infer_weights
    from rasf.mdp import FiniteMDP
    from rasf.planning.certificate import Certificate, certificate
    from rasf.planning.moments import Moments, successor_moments
    from rasf.planning.plan import Plan, evaluate_policy, plan
    from rasf.planning.simulate import Rollouts, simulate
    from rasf.risk import (
        CVaR,
        Elliptical,
        EllipticalMixture,
        Entropic,
        MeanVariance,
        NestedEntropic,
        Risk,
        SkewNormal,
    )
    from rasf.transfer import Choice, gpe, gpi, gpi_policy

__version__ = "0.1.0"

__all__ = [
    "CVaR",
    "Certificate",
    "Choice",
    "Comparison",
    "Elliptical",
    "EllipticalMixture",
    "Entropic",
    "Explanation",
    "FiniteMDP",
    "MeanVariance",
    "Moments",
    "NestedEntropic",
    "Plan",
    "PolicyLibrary",
    "Report",
    "Risk",
    "Rollouts",
    "SkewNormal",
    "WeightEstimate",
    "WeightLearner",
    "certificate",
    "evaluate_policy",
    "gpe",
    "gpi",
    "gpi_policy",
    "infer_weights",
    "learn",
    "load",
    "merge",
    "plan",
    "simulate",
    "successor_moments",
]

_HOME = {
    "rasf.risk": (
        "CVaR",
        "Elliptical",
        "EllipticalMixture",
        "Entropic",
        "MeanVariance",
        "NestedEntropic",
        "Risk",
        "SkewNormal",
    ),
    "rasf.mdp": ("FiniteMDP",),
    "rasf.transfer": ("Choice", "gpe", "gpi", "gpi_policy"),
    "rasf.planning.plan": ("Plan", "evaluate_policy", "plan"),
    "rasf.planning.moments": ("Moments", "successor_moments"),
    "rasf.planning.certificate": ("Certificate", "certificate"),
    "rasf.planning.simulate": ("Rollouts", "simulate"),
    "rasf.library.evaluation": ("Comparison", "Report"),
    "rasf.library.learn": ("learn",),
    "rasf.library.file": ("load",),
    "rasf.library.policy_library": ("Explanation", "PolicyLibrary", "merge"),
    "rasf.library.weights": ("WeightEstimate", "WeightLearner", "infer_weights"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'rasf' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _register_environments() -> None:
    # Without Gymnasium (a bare GPU machine) everything but its environments still works.
    if find_spec("gymnasium") is not None:
        import_module("rasf.envs.registration").register_environments()


_register_environments()
