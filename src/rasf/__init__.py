"""Risk-aware transfer in reinforcement learning with successor features.

Train a library of policies once; then, for any new reward weights and any level of risk, act at once, without
retraining, and know what you risk. Names load when first used, so that importing rasf stays quick.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "CVaR": "rasf.risk",
    "Elliptical": "rasf.risk",
    "EllipticalMixture": "rasf.risk",
    "Entropic": "rasf.risk",
    "MeanVariance": "rasf.risk",
    "NestedEntropic": "rasf.risk",
    "Risk": "rasf.risk",
    "SkewNormal": "rasf.risk",
    "FiniteMDP": "rasf.mdp",
    "Choice": "rasf.choice",
    "gpe": "rasf.choice",
    "gpi": "rasf.choice",
    "gpi_policy": "rasf.choice",
    "Plan": "rasf.planning.plan",
    "evaluate_policy": "rasf.planning.plan",
    "plan": "rasf.planning.plan",
    "Moments": "rasf.planning.moments",
    "successor_moments": "rasf.planning.moments",
    "Certificate": "rasf.planning.certificate",
    "certificate": "rasf.planning.certificate",
    "Rollouts": "rasf.planning.simulate",
    "simulate": "rasf.planning.simulate",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'rasf' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def _register_environments() -> None:
    # Without Gymnasium (a bare GPU machine) everything but its environments still works.
    if find_spec("gymnasium") is not None:
        import_module("rasf.envs.registration").register_environments()


_register_environments()
