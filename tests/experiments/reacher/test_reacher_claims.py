"""Verdicts from made-up measures: each rule says yes, no, or that it cannot tell."""

import numpy as np
import pytest

from rasf.envs.reacher.world import Reacher
from rasf.experiments.reacher.beliefs import grid
from rasf.experiments.reacher.claims import RULES, finding, judge, wall_time
from rasf.experiments.reacher.measures import RISKS, Measures, measures, title
from rasf.experiments.reacher.training import TARGETS, ReacherRun

SEEDS, EVALUATIONS = 6, 21
NAMES = [f"{agent} {risk}" for agent in ("rasfc51", "rac51") for risk in RISKS] + ["sfdqn 0"]


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
        for claim, (needed, rule) in RULES.items()
        if claim not in ("R11", "R14", "R15") and all(name in measured.arrays for name in needed)
    }


def test_the_papers_story_holds():
    levels = {f"rasfc51 {r}": 0.95 - 0.02 * i for i, r in enumerate(RISKS)}
    levels |= {f"rac51 {r}": 0.6 - 0.05 * i for i, r in enumerate(RISKS)} | {"sfdqn 0": 0.8}
    failures = {f"rasfc51 {r}": 6.0 - i for i, r in enumerate(RISKS)}
    failures |= {f"rac51 {r}": 5.0 - 0.75 * i for i, r in enumerate(RISKS)}
    assert set(verdicts(levels, failures).values()) == {"holds"}


def test_the_opposite_does_not():
    levels = {f"rasfc51 {r}": 0.3 for r in RISKS} | {f"rac51 {r}": 0.9 for r in RISKS}
    failures = {f"rasfc51 {r}": 1.0 + i for i, r in enumerate(RISKS)}
    failures |= {f"rac51 {r}": 5.0 for r in RISKS}
    found = verdicts(levels | {"sfdqn 0": 0.8}, failures)
    assert {claim for claim, verdict in found.items() if verdict != "does not hold"} == {"R10"}


def test_missing_runs_leave_claims_unmeasured():
    measured = made_up({}, {})
    only = Measures({"rac51 -3": measured.arrays["rac51 -3"]}, measured.begin, measured.end, measured.steps)
    found = judge(only)
    assert set(found) == {"R2"}


def test_few_seeds_decide_nothing():
    measured = made_up({"rac51 -3": 0.1}, {})
    few = {key: values[:2] for key, values in measured.arrays["rac51 -3"].items()}
    found = judge(Measures({"rac51 -3": few}, measured.begin, measured.end, measured.steps))
    assert found["R2"].verdict == "not decided"


def test_one_seed_is_judged_too():
    measured = made_up({}, {})
    one = {name: {key: values[:1] for key, values in arrays.items()} for name, arrays in measured.arrays.items()}
    alone = Measures(one, measured.begin, measured.end, measured.steps)
    for claim, (_, rule) in RULES.items():
        if claim not in ("R11", "R12", "R15"):  # they need what only networks have
            assert rule(alone)[0] in ("holds", "does not hold", "not decided")


def test_measures_join_runs_by_seed_and_normalise():
    def arrays(level, tasks=12):
        return {"return": np.full((3, tasks), level), "failures": np.zeros((3, tasks)), "seconds": np.zeros(2)}

    like = {"agent": "rasfc51", "beta": -3.0, "evaluate_every": 10, "map_points": 7}
    found = {ReacherRun(seed=seed, **like): arrays(level) for seed, level in ((7, 6.0), (5, 6.0), (1, 3.5))}
    found[ReacherRun(seed=7, **like)]["tips"] = np.zeros(1)  # of some seeds only
    alone = {"return": np.array([[1.0], [9.0]]), "final_return": np.array([11.0])}
    normaliser = {
        ReacherRun("rac51", 0.0, s, target=target, evaluate_every=40): alone for s in (0, 1) for target in TARGETS
    }
    measured = measures(normaliser | found)  # the normaliser, which trains for longer, first
    assert list(measured.arrays) == ["rasfc51 -3"]
    np.testing.assert_array_equal(measured.arrays["rasfc51 -3"]["seed"], [1, 5, 7])
    np.testing.assert_allclose(measured.test_return("rasfc51 -3")[:, 0], [0.25, 0.5, 0.5])
    np.testing.assert_array_equal(measured.steps, [0, 10, 20])
    assert measured.map_points == 7


@pytest.mark.parametrize(
    ("changes", "name"),
    [({}, "sfdqn -3"), ({"bootstrap": "gpi"}, "sfdqn gpi -3"), ({"target_networks": False}, "sfdqn no-target -3")],
)
def test_labels_tell_variants_apart(changes, name):
    assert ReacherRun("sfdqn", -3.0, 0, **changes).label == name


def test_titles_are_the_papers():
    names = ("rasfc51 -3", "rasfc51 0", "rac51 -4", "rac51 0", "sfdqn 0")
    assert [title(name) for name in names] == ["RaSFC51 (3)", "SFC51", "RaC51 (4)", "C51", "SFDQN"]


def rule(claim, levels, failures):
    return RULES[claim][1](made_up(levels, failures))[0]


def by_risk(agent, values):
    return {f"{agent} {risk}": value for risk, value in zip(RISKS, values, strict=True)}


@pytest.mark.parametrize(
    ("last_step", "verdict"), [(0.2, "holds"), (0.3, "does not hold"), (0.25, "not decided")]
)  # of normalised return, where a quarter is graceful
def test_graceful_is_a_matter_of_intervals(last_step, verdict):
    levels = by_risk("rasfc51", [0.9, 0.85, 0.8, 0.75, 0.75 - last_step]) | by_risk("rac51", [0.3] * 5)
    assert rule("R5", levels, {}) == verdict


@pytest.mark.parametrize(("apart", "verdict"), [(0.3, "holds"), (-0.3, "holds"), (0.9, "does not hold")])
def test_about_equal_is_within_a_tenth_of_the_neutral_failures(apart, verdict):
    failures = by_risk("rasfc51", [6.0, 5.0, 4.0, 3.0, 2.0 + apart]) | by_risk("rac51", [5.0, 4.0, 3.0, 2.5, 2.0])
    assert rule("R8", {}, failures) == verdict


def test_return_per_failure_is_compared_pair_by_pair():
    """Seeds differ more than agents do, but within every seed ours has more return per failure."""
    measured = made_up(by_risk("rasfc51", [0.5] * 5) | by_risk("rac51", [0.45] * 5), {}, noise=0.0)
    luck = np.linspace(0.5, 2.0, SEEDS)[:, None]
    for arrays in measured.arrays.values():
        arrays["final_failures"] = arrays["final_failures"] * luck
    assert RULES["R9"][1](measured)[0] == "holds"


def test_only_seeds_that_all_have_are_compared():
    measured = made_up(by_risk("rasfc51", [0.9] * 5) | by_risk("rac51", [0.5] * 5), {})
    few = {key: values[:5] for key, values in measured.arrays["rasfc51 -4"].items()}
    fewer = Measures(measured.arrays | {"rasfc51 -4": few}, measured.begin, measured.end, measured.steps)
    for claim in ("R5", "R7", "R8", "R9"):
        assert finding(fewer, *RULES[claim]).seeds == 5


@pytest.mark.parametrize("name", ["rasfc51 -3", "rac51 -3", "rac51 0"])
def test_the_fewest_seeds_of_all_that_are_compared_count(name):
    measured = made_up(by_risk("rasfc51", [0.9] * 5) | by_risk("rac51", [0.5] * 5), {})
    few = {key: values[:2] for key, values in measured.arrays[name].items()}
    fewer = Measures(measured.arrays | {name: few}, measured.begin, measured.end, measured.steps)
    found = finding(fewer, *RULES["R3"])
    assert (found.seeds, found.verdict) == (2, "not decided")


@pytest.mark.parametrize(
    ("scale", "shift", "residual", "verdict", "correlation"),
    [
        (1.2, 0.0, 0.0, "holds", "1 [1, 1] and 0 [0, 0]"),  # the right places, a fifth too much
        (0.2, 0.0, 0.0, "does not hold", "1 [1, 1] and 0 [0, 0]"),  # the right places, far too little
        (1.2, 0.0, 1.1, "does not hold", "1 [1, 1] and 1 [1, 1]"),  # the residual is better
        (-0.2, 1.0, 0.0, "does not hold", "-1 [-1, -1] and 0 [0, 0]"),
    ],
)
def test_a_variance_is_learned_when_its_amount_is(scale, shift, residual, verdict, correlation):
    truth = np.random.default_rng(0).random((SEEDS, 4, 4, 50))

    def maps(learned):
        return {
            "map_variance": np.broadcast_to(learned, truth.shape),
            "map_truth": truth,
            "map_negative": np.zeros((SEEDS, 4)),
            "seed": np.arange(SEEDS),
        }

    arrays = {
        "rasfc51 -3": maps(scale * truth + shift),
        "sfdqn-residual -3": maps(residual * truth if residual else 5.0),
    }
    found = RULES["R12"][1](Measures(arrays, np.zeros(12), np.ones(12), np.arange(2.0)))
    assert found[0] == verdict
    assert f"correlation with the truth over positions {correlation};" in found[1]


# --- rules that need more than curves


def several(first, second, n=SEEDS):
    """A number a seed, the same for all, or two by turns: an interval in between."""
    return np.where(np.arange(n) % 2, first, second)


@pytest.mark.parametrize(
    ("averse", "neutral", "verdict"),  # metres from a target to the peak; on the target is below 0.029
    [
        ((0.1, 0.1), (0.0, 0.0), "holds"),
        ((0.03, 0.03), (0.0, 0.0), "does not hold"),  # inside the circle of 0.06
        ((0.1, 0.1), (0.1, 0.1), "does not hold"),  # the neutral one is not on its target
        ((0.1, 0.02), (0.0, 0.0), "not decided"),
    ],
)
def test_peaks_lie_outside_the_circles_or_on_the_targets(averse, neutral, verdict):
    world, where = Reacher(), grid(31)
    away = np.linalg.norm(where.tips[where.reached] - world.target_positions()[:, None], axis=-1)  # (12, P)
    safe = ~np.isin(np.arange(12), world.risky)

    def maps(wanted):
        peak = np.where(safe, 0.2, several(*wanted)[:, None])  # what safe targets have must not matter
        best = -np.abs(away - peak[..., None])
        elsewhere = np.full_like(best, -0.05)  # of a policy that is nowhere the better one at its peak
        return {"map_objective": np.stack([elsewhere, best], axis=1), "seed": np.arange(SEEDS)}

    arrays = {"rasfc51 -3": maps(averse), "rasfc51 0": maps(neutral)}
    found = RULES["R11"][1](Measures(arrays, np.zeros(12), np.ones(12), np.arange(2.0), map_points=31))
    assert found[0] == verdict


@pytest.mark.parametrize(("seconds", "verdict"), [(79.0, "holds"), (81.0, "does not hold")])
def test_a_trial_costs_the_mean_of_its_shares(seconds, verdict):
    """RaSFC51: 80 s a trial, (50 + 50 + 140) / 3, though the means by beta are 50 and 140."""
    shares = {"rasfc51 0": [50.0, 50.0], "rasfc51 -3": [140.0], "rac51 0": [seconds, seconds], "sfdqn 0": [1e6]}
    arrays = {name: {"seconds": np.array([[one, 1e6] for one in each])} for name, each in shares.items()}
    judged = wall_time(Measures(arrays, np.zeros(12), np.ones(12), np.arange(2.0)))
    assert (judged.verdict, judged.seeds) == (verdict, 3)
    assert judged.measured.endswith(f"rasfc51 80 s a trial (3 trials), rac51 {seconds:.0f} s a trial (2 trials)")


@pytest.mark.parametrize(
    ("saved", "verdict"),
    [
        ({"rac51 0": (1.0, 1.0), "rac51 -3": (1.0, 1.0)}, "holds"),
        ({"rac51 0": (1.0, 1.0), "rac51 -3": (-1.0, -1.0)}, "does not hold"),
        ({"rac51 0": (-1.0, -1.0), "rac51 -3": (1.0, 1.0)}, "does not hold"),
        ({"rac51 0": (1.0, 1.0), "rac51 -3": (1.0, -1.0)}, "not decided"),
    ],
)
def test_failures_fall_from_the_first_fifth_to_the_last(saved, verdict):
    """The evaluation before training, and those between the fifths, would say the opposite."""
    measured = made_up({}, {})
    for name, change in saved.items():
        failures, more = measured.arrays[name]["failures"], several(*change)[:, None, None]
        failures[:, 1:5] += more
        failures[:, 0] -= 50 * more[:, 0]
        failures[:, 5:-4] += 50 * more
        failures[:, :, :4] -= 50 * more  # training tasks do not count
    assert RULES["R14"][1](measured)[0] == verdict


@pytest.mark.parametrize(
    ("agree", "verdict"), [((0.95, 0.93), "holds"), ((0.85, 0.8), "does not hold"), ((0.95, 0.85), "not decided")]
)
def test_an_approximation_is_good_where_nine_actions_of_ten_agree(agree, verdict):
    seen = {"agree": several(*agree), "level": np.full(SEEDS, 4.0), "lost": np.full(SEEDS, 0.25)}
    seen |= {key: np.tile([scale, 2 * scale, 3 * scale], (SEEDS, 1)) for key, scale in (("apart", 1.0), ("trace", 0.1))}
    arrays = {"rasfc51 -3": {f"risk_{key}": values for key, values in seen.items()}}
    found = RULES["R15"][1](Measures(arrays, np.zeros(12), np.ones(12), np.arange(2.0)))
    assert found[0] == verdict
    assert "differ by 2 (median), 3 (0.9 quantile), at a level of 4; " in found[1]
    assert found[1].endswith("by 0.2 (median); the plain formula overflows for 25%")
