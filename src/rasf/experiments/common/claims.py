"""The paper's claims, and what our runs say about each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from rasf.experiments.common.results import Finding, Result


@dataclass(frozen=True)
class Claim:
    """One claim: where the paper makes it, and what is measured."""

    id: str
    where: str
    claim: str
    metric: str


CLAIMS = tuple(
    Claim(*row)
    for row in (
        ("G1", "Fig. 1", "the optimal policies at beta -0.1 of both sources and the target take three different routes",
         "intended paths from S"),
        ("G2", "Fig. 1", "GPI with risk-averse evaluation is optimal on the target",
         "U at every reachable state equals U*, 1e-9"),
        ("G3", "Fig. 1", "GPI with risk-neutral evaluation is not, though both sources are optimal on their own tasks",
         "U(S) below U*(S)"),
        ("G4", "Fig. 1", "the risk-averse GPI policy stitches: it is neither source, and better than both", "U(S)"),
        ("G5", "Fig. 1", "over 5,000 rollouts of 35 steps its returns vary less", "variance, trap hits"),
        ("F1", "Fig. 3", "RaSFQL collects less than SFQL (beta = omega = -2)", "cumulative return"),
        ("F2", "Fig. 3", "RaSFQL collects far more than RaPRQL, and than PRQL", "cumulative return"),
        ("F3", "Fig. 3", "RaSFQL's failures per task decrease over the tasks", "slope, first 16 vs last 16"),
        ("F4", "Fig. 3", "SFQL's failures per task increase slightly", "slope"),
        ("F5", "Fig. 3", "RaPRQL fails slightly more than RaSFQL", "failures"),
        ("F6", "Fig. 8", "beta 0 to -4 costs RaSFQL about 25 % of its return", "relative drop"),
        ("F7", "Fig. 8", "omega 0 to -4 costs RaPRQL about 75 %", "relative drop"),
        ("F8", "Fig. 8", "RaSFQL generally fails less than RaPRQL at equal beta = omega", "failures"),
        ("F9", "Fig. 8", "for beta in {-1, -2, -4} cumulative failures grow sub-linearly", "curvature"),
        ("F10", "Fig. 9", "on 27 novel tasks RaSFQL (-2) avoids the dangerous objects, SFQL does not",
         "visits to traps and trapped objects"),
        ("R1", "Fig. 4", "RaSFC51 exceeds 75 % of a fully trained C51 almost at once on all training tasks",
         "normalized return"),
        ("R2", "Fig. 4", "RaC51 stays unsatisfactory on two of the four training tasks", "normalized return"),
        ("R3", "Fig. 4", "on the test tasks RaSFC51 far exceeds RaC51 and C51", "normalized return, mean over 8"),
        ("R4", "Fig. 4", "RaSFC51's test failures are considerably lower than SFC51's, all along", "failures"),
        ("R5", "Fig. 6", "RaSFC51 and RaC51 decay gracefully in beta; RaSFC51 is above RaC51 at each",
         "normalized return"),
        ("R6", "Fig. 6", "C51 in place of DQN improves successor features", "normalized return"),
        ("R7", "Fig. 10", "test failures fall as beta falls", "failures"),
        ("R8", "Fig. 10", "at equal beta RaSFC51 fails modestly more than RaC51; about equal at -4", "failures"),
        ("R9", "Fig. 10", "return per failure: RaSFC51 above RaC51, clearly at -3 and -4", "ratio"),
        ("R10", "Figs. 6, 11, 12", "RaSFC51 hovers at the edge of risky circles; SFC51 goes in; RaC51 misses targets",
         "time in circles, distance held"),
        ("R11", "Fig. 13", "for risky targets the objective of RaSFC51 peaks off the target, that of SFC51 on it",
         "arg max of the heat map"),
        ("R12", "Fig. 14", "RaSFC51 learns the return variance; SFDQN with the residual covariance does not",
         "error against Monte Carlo"),
        ("R13", "C.4", "RaSFC51 took 28-36 h a trial, RaC51 6-8 h", "our wall time, same steps"),
        ("R14", "sec. 4", "C51 and RaC51 fail often early in training, less later, not reaching the targets",
         "failures over time, distance held"),
        ("R15", "A.3", "mean-variance approximates the entropic utility well; log-sum-exp helps little",
         "both on the learned histograms, tail sensitivity"),
        ("T1", "Lemma 1", "entropic utility is monotone, cash-invariant, concave for beta < 0, non-expansive",
         "random laws"),
        ("T2", "Thm. 1", "GPI loses at most 2 (T - h + 1) eps against the best source", "random MDPs"),
        ("T3", "Thm. 2", "GPI is within 2 (T - h + 1) (delta_r + eps) of optimal", "random MDPs"),
        ("T4", "Thm. 3", "the covariance backup errs by at most 3 eps", "random MDPs, three readings"),
        ("T5", "Thms. A.2, B.3", "the discounted forms hold for scores that know the discount so far",
         "random MDPs; and scoring with z = 1 for ever"),
        ("T6", "A.4", "lemma on elliptical laws; the table of penalties; mixtures", "against quadrature"),
        ("T7", "sec. 3.1", "risk-awareness of GPI depends mainly on how sources are evaluated, less on their training",
         "train-risk x act-risk table"),
    )
)  # fmt: skip

NOT_MEASURED = "not measured"


def table(results: Mapping[str, Result]) -> list[dict[str, object]]:
    """One row per claim: the claim, and verdict, measured, seeds from the results; not measured where none speaks."""
    rows = []
    for claim in CLAIMS:
        found = _together([result.findings[claim.id] for result in results.values() if claim.id in result.findings])
        spoken = asdict(found) if found else {"verdict": NOT_MEASURED, "measured": "", "seeds": 0}
        rows.append(asdict(claim) | spoken)
    return rows


def _together(findings: list[Finding]) -> Finding | None:
    """What several experiments say about one claim: undecided where they disagree."""
    if len(findings) < 2:
        return findings[0] if findings else None
    verdicts = {finding.verdict for finding in findings}
    return Finding(
        verdicts.pop() if len(verdicts) == 1 else "not decided",
        "; ".join(f"{finding.measured}: {finding.verdict}" for finding in findings),
        min(finding.seeds for finding in findings),
    )
