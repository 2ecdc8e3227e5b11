"""Rules for T1 to T6: a theorem holds if no instance breaks it, a closed form if quadrature agrees to 1e-7."""

from __future__ import annotations

from rasf.experiments.common.results import Finding, Numbers
from rasf.experiments.common.verdicts import holds
from rasf.experiments.theory.measures import PROOF

QUADRATURE_TOLERANCE = 1e-7


def judge(numbers: Numbers) -> dict[str, Finding]:
    """All findings."""
    return {
        "T1": _lemma(numbers["lemma 1"]),
        "T2": _bound(numbers["theorem 1"]),
        "T3": _bound(numbers["theorem 2"]),
        "T4": _covariance(numbers["theorem 3"]),
        "T5": _discounted(numbers),
        "T6": _laws(numbers["quadrature"]),
    }


def _lemma(numbers: Numbers) -> Finding:
    broken = numbers["violations"]
    text = ", ".join(f"{name}: {count}" for name, count in broken.items())
    return Finding(holds(not any(broken.values())), f"violations ({text})", numbers["instances"])


def _bound(numbers: Numbers) -> Finding:
    text = (
        f"{numbers['violations']} of {numbers['instances']} instances break the bound; "
        f"largest gap is {numbers['largest_gap_over_bound']:.2f} of it"
    )
    return Finding(holds(numbers["violations"] == 0), text, numbers["instances"])


def _covariance(numbers: Numbers) -> Finding:
    """The verdict is on the reading that the proof uses."""
    proved, text = numbers["readings"][PROOF]["broken"] == 0, f"Sigma~' as the proof reads it, {_readings(numbers)}"
    return Finding(holds(proved), text, numbers["instances"])


def _readings(numbers: Numbers) -> str:
    return "; ".join(
        f"{reading}: {cell['broken']} of {numbers['checks']} break 3 eps (worst: {cell['largest_error_over_eps']:.3g})"
        for reading, cell in numbers["readings"].items()
    )


def _discounted(numbers: Numbers) -> Finding:
    """All three theorems, for scores that know the discount so far."""
    first, second = _bound(numbers["theorem 1 discounted"]), _bound(numbers["theorem 2 discounted"])
    third, forgetful = numbers["theorem 3 discounted"], numbers["scoring with z = 1"]
    return Finding(
        holds(all(one.verdict == "holds" for one in (first, second, _covariance(third)))),
        f"Theorem 1: {first.measured}; Theorem 2: {second.measured}; Theorem 3: {_readings(third)}. "
        f"Not covered: scored with z = 1 for ever, GPI fell below its best source in "
        f"{forgetful['worse_than_best_source']} of {forgetful['instances']}, by up to {forgetful['worst']['loss']:.3g}",
        first.seeds,
    )


def _laws(errors: dict[str, float]) -> Finding:
    text = ", ".join(f"{law} {error:.0e}" for law, error in errors.items())
    return Finding(holds(max(errors.values()) < QUADRATURE_TOLERANCE), f"largest error: {text}", len(errors))
