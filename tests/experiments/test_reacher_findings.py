"""Verdicts from made-up measures: each rule says yes, no, or that it cannot tell."""

import numpy as np
import pytest

from rasf.experiments import reacher_findings
from rasf.experiments.reacher_batches import Batch, Size
from rasf.experiments.reacher_measures import Measures, label, measures

SEEDS, EVALUATIONS = 6, 21
NAMES = [f"{agent} {risk}" for agent in ("rasfc51", "rac51") for risk in reacher_findings.RISKS] + ["sfdqn 0"]


def made_up(levels, failures, noise=0.01):
    """Measures whose normalised return and failures a task are these levels by name, with a little noise."""
    rng = np.random.default_rng(0)
    arrays = {}
    for name in NAMES:
        given = (levels.get(name, 0.5), failures.get(name, 1.0))
        curve = {
            key: np.full((SEEDS, EVALUATIONS, 12), level) + noise * rng.normal(size=(SEEDS, EVALUATIONS, 12))
            for key, level in zip(("return", "failures"), given, strict=True)
        }
        arrays[name] = curve | {
            "seed": np.arange(SEEDS),
            "final_return": curve["return"][:, -1],
            "final_failures": curve["failures"][:, -1],
            "final_in_circle": np.full((SEEDS, 12), 0.8 if name == "rasfc51 0" else 0.1),
            "final_distance": np.full((SEEDS, 12), 0.2 if name.startswith("rac51") else 0.05),
        }
    steps = np.linspace(0, 1000, EVALUATIONS)
    return Measures(arrays, begin=np.zeros(12), end=np.ones(12), steps=steps)


def verdicts(levels, failures):
    measured = made_up(levels, failures)
    return {
        claim: rule(measured)[0]
        for claim, (needed, rule) in reacher_findings._RULES.items()
        if claim not in ("R14", "R15") and all(name in measured.arrays for name in needed)
    }


def test_the_papers_story_holds():
    levels = {f"rasfc51 {r}": 0.95 - 0.02 * i for i, r in enumerate(reacher_findings.RISKS)}
    levels |= {f"rac51 {r}": 0.6 - 0.05 * i for i, r in enumerate(reacher_findings.RISKS)} | {"sfdqn 0": 0.8}
    failures = {f"rasfc51 {r}": 6.0 - i for i, r in enumerate(reacher_findings.RISKS)}
    failures |= {f"rac51 {r}": 5.0 - 0.75 * i for i, r in enumerate(reacher_findings.RISKS)}
    assert set(verdicts(levels, failures).values()) == {"holds"}


def test_the_opposite_does_not():
    levels = {f"rasfc51 {r}": 0.3 for r in reacher_findings.RISKS} | {f"rac51 {r}": 0.9 for r in reacher_findings.RISKS}
    failures = {f"rasfc51 {r}": 1.0 + i for i, r in enumerate(reacher_findings.RISKS)}
    failures |= {f"rac51 {r}": 5.0 for r in reacher_findings.RISKS}
    found = verdicts(levels | {"sfdqn 0": 0.8}, failures)
    assert {claim for claim, verdict in found.items() if verdict != "does not hold"} == {"R10"}


def test_missing_runs_leave_claims_unmeasured():
    measured = made_up({}, {})
    only = Measures({"rac51 -3": measured.arrays["rac51 -3"]}, measured.begin, measured.end, measured.steps)
    found = reacher_findings.judge(only, {}, Size())
    assert set(found) == {"R2"}


def test_few_seeds_decide_nothing():
    measured = made_up({"rac51 -3": 0.1}, {})
    few = {key: values[:2] for key, values in measured.arrays["rac51 -3"].items()}
    found = reacher_findings.judge(
        Measures({"rac51 -3": few}, measured.begin, measured.end, measured.steps), {}, Size()
    )
    assert found["R2"].verdict == "not decided"


def test_measures_join_batches_by_seed_and_normalise():
    size = Size(evaluate_every=10)

    def lanes(beta, seeds, level):
        shape = (len(seeds), 3, 12)
        return {
            "beta": np.full(len(seeds), beta),
            "seed": np.array(seeds),
            "return": np.full(shape, level),
            "failures": np.zeros(shape),
            "tips": np.zeros(1),
            "seconds": np.zeros(2),
        }

    alone = {
        "target": np.repeat(np.arange(12), 2),
        "return": np.tile(np.array([1.0, 9.0])[None, :, None], (24, 1, 1)),
        "final_return": np.full((24, 1), 11.0),
    }
    found = {
        Batch("late", "rasfc51", (-3.0,), (7, 5), size): lanes(-3.0, [7, 5], 6.0),
        Batch("early", "rasfc51", (-3.0,), (1,), size): lanes(-3.0, [1], 3.5),
        Batch("alone", "rac51", (0.0,), (0, 1), size, alone=True): alone,
    }
    measured = measures(found)
    assert measured.names == ["rasfc51 -3"]
    np.testing.assert_array_equal(measured.arrays["rasfc51 -3"]["seed"], [1, 5, 7])
    np.testing.assert_allclose(measured.test_return("rasfc51 -3")[:, 0], [0.25, 0.5, 0.5])
    np.testing.assert_array_equal(measured.steps, [0, 10, 20])


@pytest.mark.parametrize(
    ("changes", "name"),
    [({}, "sfdqn -3"), ({"bootstrap": "gpi"}, "sfdqn gpi -3"), ({"target_networks": False}, "sfdqn no-target -3")],
)
def test_labels_tell_variants_apart(changes, name):
    assert label(Batch("x", "sfdqn", (-3.0,), (0,), Size(), **changes), -3.0) == name
