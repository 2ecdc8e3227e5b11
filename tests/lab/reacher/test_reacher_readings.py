"""Other readings of what the paper leaves open: which runs correspond to ours, and the verdicts on both."""

from dataclasses import replace

import numpy as np
import pytest

from rasf_lab.paper.reacher.readings import READINGS, judged_readings
from rasf_lab.paper.reacher.training import TARGETS, ReacherRun

OURS = ReacherRun("rasfc51", -3.0, 4)


@pytest.mark.parametrize(
    ("name", "run", "ours"),
    [
        ("relu", replace(OURS, activation="relu"), OURS),
        ("relu", OURS, None),
        ("relu", replace(OURS, activation="relu", atoms=201), None),
        ("relu", ReacherRun("rac51", 0.0, 1, target=3, activation="relu"), ReacherRun("rac51", 0.0, 1, target=3)),
        ("half", replace(OURS, beta=-1.5), OURS),
        ("half", replace(OURS, beta=0.0), replace(OURS, beta=0.0)),
        ("half", OURS, None),  # -6 is not a beta of the paper
        ("half", replace(OURS, beta=-1.5, late_tip=True), None),
        ("late-tip", replace(OURS, late_tip=True), OURS),
        ("adam", replace(OURS, adam_epsilon=1e-7), OURS),
        ("atoms", replace(OURS, atoms=201), OURS),
        ("atoms", replace(OURS, map_points=61, atoms=201), None),
    ],
)
def test_the_run_of_ours_that_a_run_of_another_reading_corresponds_to(name, run, ours):
    assert READINGS[name].as_ours(run) == ours


def run_of(level, tasks=12):
    curve = np.full((21, tasks), level)
    return {
        "return": curve, "failures": curve, "seconds": np.zeros(2), "clipped": np.zeros((3, 2)),
        "final_return": curve[-1], "final_failures": curve[-1], "final_in_circle": curve[-1] / 10,
        "final_distance": np.full(tasks, 0.2), "map_peaks": np.zeros(tasks, int), "risk_agree": np.array(0.5),
        **{f"risk_{name}": np.zeros(3) for name in ("apart", "level", "trace", "lost")},
    }  # fmt: skip


def alone(end, **changes):
    """C51 on each target: its return rises from 0 to `end`."""
    found = {"return": np.array([[0.0], [end]]), "final_return": np.array([end])}
    return {ReacherRun("rac51", 0.0, s, target=target, **changes): found for s in (0, 1) for target in TARGETS}


def agents(level, seeds, **changes):
    """RaSFC51 and RaC51 at 0 and -3, and SFDQN, with a little noise by seed; RaSFC51 has the given mean return."""
    others = ("rasfc51", 0.0, 0.6), ("rac51", -3.0, 0.3), ("rac51", 0.0, 0.3), ("sfdqn", 0.0, 0.2)
    return {
        ReacherRun(agent, beta, seed, **changes): run_of(value + 0.001 * (seed % 2))
        for agent, beta, value in (("rasfc51", -3.0, level), *others)
        for seed in range(seeds)
    }


def test_a_reading_is_judged_beside_our_runs_of_the_same_seeds():
    found = alone(1.0) | agents(0.7, 7) | agents(0.2, 5, activation="relu")
    told = judged_readings(found)
    assert told.keys() == {"relu"}
    assert told["relu"]["agents"] == dict.fromkeys(("rasfc51 -3", "rasfc51 0", "rac51 -3", "rac51 0", "sfdqn 0"), 5)
    row = told["relu"]["claims"]["R3"]  # RaSFC51 far above RaC51 and C51
    assert (row["ours"], row["theirs"], row["seeds"]) == (["holds"], ["does not hold"], 5)
    assert "R13" not in told["relu"]["claims"]


def test_a_reading_is_normalised_by_its_own_runs_of_c51_if_there_are_any():
    found = alone(1.0) | agents(0.7, 5) | agents(0.7, 5, activation="relu")
    (before,) = judged_readings(found).values()
    assert before["claims"]["R3"]["number"].startswith("0.70")
    (after,) = judged_readings(found | alone(2.0, activation="relu")).values()
    assert after["claims"]["R3"]["number"].startswith("0.35")
    assert after["claims"]["R3"]["ours"] == before["claims"]["R3"]["ours"]


def test_without_runs_of_another_reading_nothing_is_judged():
    assert judged_readings(alone(1.0) | agents(0.7, 5)) == {}
