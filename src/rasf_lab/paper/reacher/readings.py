"""The paper's claims under other readings of what the paper leaves open.

The paper does not say, for example, which activation the networks have. A reading changes one such choice in all runs.
The rules of the claims are applied to the runs of a reading as they are applied to ours, and beside them to our runs of
the same agents, betas and seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rasf.files import Arrays
from rasf_lab.common.results import Finding, Numbers
from rasf_lab.paper.reacher.claims import judge
from rasf_lab.paper.reacher.measures import measures
from rasf_lab.paper.reacher.training import BETAS, ReacherRun

Found = Mapping[ReacherRun, Arrays]


@dataclass(frozen=True)
class OtherReading:
    """Another reading of what the paper leaves open.

    Attributes:
        words: the choice in words.
        changes: fields of `ReacherRun` whose values differ from ours, by name.
        factor: the paper's beta, divided by the beta of the run. Default: 1.
    """

    words: str
    changes: Mapping[str, object] = field(default_factory=dict)
    factor: float = 1.0

    def as_ours(self, run: ReacherRun) -> ReacherRun | None:
        """Return the run of ours to which a run of this reading corresponds; None for runs of other readings."""
        usual = {name: getattr(ReacherRun, name) for name in self.changes}
        ours = replace(run, **usual, beta=self.factor * run.beta)
        same = all(getattr(run, name) == value for name, value in self.changes.items())
        is_ordinary = ours.variant in (run.agent, f"{run.agent} alone")
        return ours if same and is_ordinary and ours.beta in BETAS else None


READINGS: Mapping[str, OtherReading] = {
    "relu": OtherReading("ReLU, not tanh", {"activation": "relu"}),
    "half": OtherReading("beta is twice the factor of the variance", factor=2.0),
    "adam": OtherReading("Adam's epsilon is 1e-7, not 1e-8", {"adam_epsilon": 1e-7}),
    "late-tip": OtherReading("features of the tip before the step", {"late_tip": True}),
    "atoms": OtherReading("201 atoms, not 51", {"atoms": 201}),
    "gpi": OtherReading("a' by GPI over all policies", {"bootstrap": "gpi"}),
    "separate-heads": OtherReading("each feature's heads initialised by themselves", {"separate_heads": True}),
    "risky-last": OtherReading("the risky training targets come last", {"risky_last": True}),
}


def judged_readings(found: Found) -> Numbers:
    """Return the verdicts on the claims under each reading, beside the verdicts of our runs with the same seeds.

    Args:
        found: the arrays of all finished runs.

    Returns:
        For each reading with runs on all training targets that differ from ours: "words", "agents" (the number of seeds
        by label) and "claims". For each claim that both groups of runs allow to judge, "claims" has our verdicts
        ("ours"), those under the reading ("theirs"), and the number of seeds and the measured number under the reading.
    """
    rows: Numbers = {}
    alone = {run: arrays for run, arrays in found.items() if _normalises(run)}
    for name, reading in READINGS.items():
        matched = {run: one for run in found if (one := reading.as_ours(run)) is not None}
        if not any(run != one and run.target is None for run, one in matched.items()):
            continue
        theirs = {one: found[run] for run, one in matched.items()}
        trained = [one for one in theirs if one.target is None]
        ours = {one: found[one] for one in trained if one in found} | alone
        normalised = theirs if any(map(_normalises, theirs)) else theirs | alone
        labels = dict(Counter(one.label for one in trained))
        rows[name] = {"words": reading.words, "agents": labels, "claims": _compared(ours, normalised)}
    return rows


def _normalises(run: ReacherRun) -> bool:
    """Return whether a run is C51 on a single target with our choices, whose returns normalise all returns."""
    return run.label == "rac51 alone 0"


def _compared(ours: Found, theirs: Found) -> Numbers:
    """Return the verdicts on the claims that both groups of runs decide, except R13, which is about time."""
    before, after = (judge(measures(runs)) for runs in (ours, theirs))
    told = {}
    for claim in after:
        if claim in before and claim != "R13":
            told[claim] = {
                "ours": _verdicts(before[claim]),
                "theirs": _verdicts(after[claim]),
                "number": after[claim].number,
                "seeds": after[claim].seeds,
            }
    return told


def _verdicts(finding: Finding) -> list[str]:
    again = finding.second_reading
    return [finding.verdict, *([again.verdict] if again else [])]
