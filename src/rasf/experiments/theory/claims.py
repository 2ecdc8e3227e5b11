"""`rasf reproduce theory`: the T claims, measured on random instances.

One seed gives all of them; `quick` looks at fewer instances.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rasf.experiments.common.results import Finding, Result, Verdict
from rasf.experiments.theory import covariance as theory_covariance
from rasf.experiments.theory import gpi as theory_gpi
from rasf.experiments.theory import laws as theory_laws

INSTANCES = {"quick": 50, "paper": 1_000}
_PARTS_PER_INSTANCE = 8  # campaigns over instances; the laws add a few ticks
_LAW_TICKS = 6
QUADRATURE_TOLERANCE = 1e-7


def total_ticks(preset: str) -> int:
    """How often `run` calls `tick`."""
    return _PARTS_PER_INSTANCE * INSTANCES[preset] + _LAW_TICKS


def run(preset: str = "paper", seed: int = 0, tick: Callable[[], None] = lambda: None) -> Result:
    """Numbers and verdicts for T1 to T6; T7 belongs to the experiments that act."""
    begin = time.perf_counter()
    n = INSTANCES[preset]
    numbers: dict[str, Any] = {
        "lemma 1": theory_laws.lemma_1(n, seed, tick),
        "theorem 1": theory_gpi.bounds(n, seed, optimal_sources=False, discounted=False, tick=tick),
        "theorem 2": theory_gpi.bounds(n, seed, optimal_sources=True, discounted=False, tick=tick),
        "theorem 3": theory_covariance.backup_errors(n, seed, discounted=False, tick=tick),
        "theorem 1 discounted": theory_gpi.bounds(n, seed, optimal_sources=False, discounted=True, tick=tick),
        "theorem 2 discounted": theory_gpi.bounds(n, seed, optimal_sources=True, discounted=True, tick=tick),
        "theorem 3 discounted": theory_covariance.backup_errors(n, seed, discounted=True, tick=tick),
        "scoring with z = 1": theory_gpi.forgetful_scoring(n, seed, tick),
        "quadrature": theory_laws.penalties(tick),
        "figure 7": theory_laws.figure_7(),
    }
    findings = {
        "T1": _lemma(numbers["lemma 1"]),
        "T2": _bound(numbers["theorem 1"]),
        "T3": _bound(numbers["theorem 2"]),
        "T4": _covariance(numbers["theorem 3"]),
        "T5": _discounted(numbers),
        "T6": _laws(numbers["quadrature"]),
    }
    return Result("theory", preset, seed, time.perf_counter() - begin, numbers, findings)


def _holds(condition: bool) -> Verdict:
    return "holds" if condition else "does not hold"


def _lemma(numbers: dict[str, Any]) -> Finding:
    broken = numbers["violations"]
    text = ", ".join(f"{name}: {count}" for name, count in broken.items())
    return Finding(_holds(not any(broken.values())), f"violations ({text})", numbers["instances"])


def _bound_text(numbers: dict[str, Any]) -> str:
    return (
        f"{numbers['violations']} of {numbers['instances']} instances break the bound; "
        f"largest gap is {numbers['largest_gap_over_bound']:.2f} of it"
    )


def _bound(numbers: dict[str, Any]) -> Finding:
    return Finding(_holds(numbers["violations"] == 0), _bound_text(numbers), numbers["instances"])


def _covariance_text(numbers: dict[str, Any]) -> str:
    return "; ".join(
        f"{reading}: {cell['broken']} of {numbers['checks']} break 3 eps (worst: {cell['largest_error_over_eps']:.3g})"
        for reading, cell in numbers["readings"].items()
    )


def _covariance(numbers: dict[str, Any]) -> Finding:
    """The verdict is on the reading that the proof uses."""
    proved = numbers["readings"][theory_covariance.PROOF]["broken"] == 0
    return Finding(_holds(proved), "Sigma~' as the proof reads it, " + _covariance_text(numbers), numbers["instances"])


def _discounted(numbers: dict[str, Any]) -> Finding:
    first, second, third = (numbers[f"theorem {k} discounted"] for k in (1, 2, 3))
    forgetful = numbers["scoring with z = 1"]
    proved = third["readings"][theory_covariance.PROOF]["broken"] == 0
    return Finding(
        _holds(first["violations"] == 0 and second["violations"] == 0 and proved),
        f"Theorem 1: {_bound_text(first)}; Theorem 2: {_bound_text(second)}; Theorem 3: {_covariance_text(third)}. "
        f"Not covered: scored with z = 1 for ever, GPI fell below its best source in "
        f"{forgetful['worse_than_best_source']} of {forgetful['instances']}, by up to {forgetful['worst']['loss']:.3g}",
        first["instances"],
    )


def _laws(errors: dict[str, float]) -> Finding:
    text = ", ".join(f"{law} {error:.0e}" for law, error in errors.items())
    return Finding(_holds(max(errors.values()) < QUADRATURE_TOLERANCE), f"largest error: {text}", len(errors))
