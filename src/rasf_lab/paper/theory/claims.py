"""Judge claims T1 to T6. A theorem holds if no random instance violates it. A closed form of a utility holds if it
agrees with quadrature to 1e-7.
"""

from __future__ import annotations

from rasf_lab.common.results import Finding, Numbers
from rasf_lab.common.verdicts import holds
from rasf_lab.paper.theory.measures import INFINITY, PROOF

QUADRATURE_TOLERANCE = 1e-7


def judge(numbers: Numbers) -> dict[str, Finding]:
    """Return the findings on claims T1 to T6, by claim, from the numbers of `theory.runs.run`."""
    return {
        "T1": _lemma(numbers["lemma 1"]),
        "T2": _bound(numbers["theorem 1"]),
        "T3": _bound(numbers["theorem 2"]),
        "T4": _covariance(numbers["theorem 3"], numbers["theorem 3, one step"]),
        "T5": _discounted(numbers),
        "T6": _laws(numbers["quadrature"]),
    }


def _lemma(numbers: Numbers) -> Finding:
    broken = numbers["violations"]
    text = ", ".join(f"{name}: {count}" for name, count in broken.items())
    worst, sample = max(broken.values()), f"{numbers['instances']:,} random instances"
    return Finding(holds(worst == 0), f"violations ({text})", 1, f"{worst} broken", sample)


def _mdps(numbers: Numbers) -> str:
    return f"{numbers['instances']:,} random MDPs"


def _bound(numbers: Numbers) -> Finding:
    text = (
        f"{numbers['violations']} of {numbers['instances']} instances break the bound; "
        f"the largest gap is {numbers['largest_gap_over_bound']:.2f} of the bound"
    )
    return Finding(holds(numbers["violations"] == 0), text, 1, f"{numbers['violations']} broken", _mdps(numbers))


def _covariance(numbers: Numbers, one_step: Numbers) -> Finding:
    """Return the finding on Theorem 3, judged in the spectral norm by the proof's reading of Sigma~' (`measures`)."""
    infinity, ratio = numbers[INFINITY], one_step["error_over_eps"]
    text = (
        f"Readings of Sigma~' in the spectral norm: {_readings(numbers)}. In the induced infinity norm, which is "
        f'matrix-compatible too, the reading "{PROOF}" gives: {_broken(infinity, numbers)}. Example: one deterministic '
        f"last step, with psi~ off by 1 in all {one_step['features']} features, has an error of "
        f"{ratio['induced infinity']:.3g} eps in this norm ({ratio['spectral']:.3g} eps in the spectral norm)"
    )
    broken = numbers["readings"][PROOF]["broken"]
    return Finding(holds(_proved(numbers)), text, 1, f"{broken} broken", _mdps(numbers))


def _proved(numbers: Numbers) -> bool:
    return bool(numbers["readings"][PROOF]["broken"] == 0)


def _readings(numbers: Numbers) -> str:
    return "; ".join(f"{reading}: {_broken(cell, numbers)}" for reading, cell in numbers["readings"].items())


def _broken(cell: Numbers, numbers: Numbers) -> str:
    largest = f"{cell['largest_error_over_eps']:.3g} eps"
    return f"{cell['broken']} of {numbers['checks']} errors exceed 3 eps (the largest is {largest})"


def _discounted(numbers: Numbers) -> Finding:
    """Return the finding on the discounted theorems, in which z = gamma^t multiplies the remaining return."""
    first, second = _bound(numbers["theorem 1 discounted"]), _bound(numbers["theorem 2 discounted"])
    third, forgetful = numbers["theorem 3 discounted"], numbers["scoring with z = 1"]
    return Finding(
        holds(first.verdict == second.verdict == "holds" and _proved(third)),
        f"Theorem 1: {first.measured}; Theorem 2: {second.measured}; Theorem 3: {_readings(third)}. "
        "Not covered by the theorems: if sources are scored with z = 1 (no discount) at every step, GPI is worse than "
        f"its best source in {forgetful['worse_than_best_source']} of {forgetful['instances']} MDPs, by up to "
        f"{forgetful['worst']['loss']:.3g}",
        1,
        f"{first.number}, {second.number}",
        first.sample,
    )


def _laws(errors: dict[str, float]) -> Finding:
    text = ", ".join(f"{distribution} {error:.0e}" for distribution, error in errors.items())
    worst = max(errors.values())
    verdict = holds(worst < QUADRATURE_TOLERANCE)
    return Finding(verdict, f"largest error: {text}", 1, f"{worst:.0e}", f"{len(errors)} distributions")
