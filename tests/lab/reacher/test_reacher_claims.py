"""Verdicts from made-up measures, by the first reading of each claim: a rule says yes, no, or that it cannot tell."""

import numpy as np
import pytest
from reacher_made_up import NAMES, SEEDS, by_risk, made_up, measured_of, peaked_maps, several, without_seeds

from rasf_lab.paper.reacher.claims import CLAIMS, judge, read, read_again
from rasf_lab.paper.reacher.measures import RISKS, Measures

# these need maps, or curves that are not flat, or what only histograms have, or seconds
NOT_FROM_LEVELS = ("R11", "R12", "R13", "R14", "R15")


def verdicts(measured):
    return {claim: read(claim, measured).verdict for claim in CLAIMS if claim not in NOT_FROM_LEVELS}


def test_the_papers_story_holds():
    levels = {f"rasfc51 {r}": 0.95 - 0.02 * i for i, r in enumerate(RISKS)}
    levels |= {f"rac51 {r}": 0.6 - 0.05 * i for i, r in enumerate(RISKS)} | {"sfdqn 0": 0.8}
    failures = {f"rasfc51 {r}": 6.0 - 1.2 * i for i, r in enumerate(RISKS)}
    failures |= {f"rac51 {r}": 5.0 - 0.95 * i for i, r in enumerate(RISKS)}
    assert set(verdicts(made_up(levels, failures)).values()) == {"holds"}


def test_the_opposite_does_not():
    levels = {f"rasfc51 {r}": 0.3 for r in RISKS} | {f"rac51 {r}": 0.9 for r in RISKS}
    failures = {f"rasfc51 {r}": 1.0 + i for i, r in enumerate(RISKS)}
    failures |= {f"rac51 {r}": 5.0 for r in RISKS}
    measured = made_up(levels | {"sfdqn 0": 0.8}, failures)
    for arrays in measured.arrays.values():
        arrays["final_in_circle"] = 1 - arrays["final_in_circle"]
        arrays["final_distance"] = 0.25 - arrays["final_distance"]
    assert set(verdicts(measured).values()) == {"does not hold"}


def test_missing_runs_leave_claims_unmeasured():
    measured = made_up({}, {})
    only = Measures({"rac51 -3": measured.arrays["rac51 -3"]}, measured.begin, measured.end, measured.steps)
    found = judge(only)
    assert set(found) == {"R2"}
    assert found["R2"].second_reading is None  # it wants -1 and -2 too


def test_few_seeds_decide_nothing():
    every = made_up(by_risk("rac51", [0.1] * 5), {})
    found = read("R2", every), read_again("R2", every)
    assert [one.verdict for one in found] == ["holds", "does not hold"]
    few = without_seeds(without_seeds(every, "rac51 -3", [0, 3]), "rac51 -2", [0])
    found = judge(
        Measures(
            {name: few.arrays[name] for name in NAMES if "rac51" in name.split()[0]}, few.begin, few.end, few.steps
        )
    )
    assert found["R2"].verdict == found["R2"].second_reading.verdict == "not decided"
    assert found["R2"].seeds == found["R2"].second_reading.seeds == SEEDS - 2


def test_one_seed_is_judged_too():
    measured = made_up({}, {})
    for name in NAMES:
        measured = without_seeds(measured, name, range(1, SEEDS))
    for reading, unread in ((read, ("R11", "R12", "R13", "R15")), (read_again, ("R11", "R12", "R15"))):
        judged = [reading(claim, measured) for claim in CLAIMS if claim not in unread]  # they need what networks have
        assert {one.verdict for one in judged if one} == {"not decided"}
        assert sum(one is not None for one in judged) == (14 if reading is read else 5)


# --- pairs


def with_luck(levels):
    """Measures whose returns differ much more between seeds than between labels; luck is not in the order of seeds."""
    measured = made_up(levels, {}, noise=0.0)
    for arrays in measured.arrays.values():
        arrays["final_return"] = arrays["final_return"] + np.array([0.0, 9.0, 2.0, 7.0, 1.0, 8.0])[:, None]
    return measured


@pytest.mark.parametrize("missing", [0, 2, 5])
def test_a_seed_that_one_label_lacks_does_not_part_the_other_pairs(missing):
    measured = without_seeds(with_luck({"rasfc51 0": 0.55, "sfdqn 0": 0.5}), "sfdqn 0", [missing])
    both = measured.of_common_seeds("rasfc51 0", "sfdqn 0")
    for name in ("rasfc51 0", "sfdqn 0"):
        np.testing.assert_array_equal(both.arrays[name]["seed"], np.delete(np.arange(SEEDS), missing))
    apart = both.final("rasfc51 0", "return") - both.final("sfdqn 0", "return")
    np.testing.assert_allclose(apart, 0.05)
    assert measured.seeds("rasfc51 0") == SEEDS  # what it was made of is as it was
    assert both.seeds("rac51 0") == SEEDS  # and labels that were not asked for are
    found = read("R6", measured)
    assert (found.verdict, found.seeds) == ("holds", SEEDS - 1)


def test_runs_that_are_only_told_of_are_paired_too():
    measured = with_luck({"rasfc51 0": 0.55, "sfdqn 0": 0.5})
    other = measured.arrays["sfdqn 0"] | {"final_return": measured.arrays["sfdqn 0"]["final_return"] - 0.2}
    measured.arrays["sfdqn gpi 0"] = other
    found = read("R6", without_seeds(measured, "sfdqn gpi 0", [2]))
    assert found.seeds == SEEDS
    assert "0.25 [0.25, 0.25]" in found.measured


def test_only_seeds_that_all_have_are_compared():
    measured = made_up(by_risk("rasfc51", [0.9] * 5) | by_risk("rac51", [0.5] * 5), {})
    fewer = without_seeds(without_seeds(measured, "rasfc51 -4", [1]), "rac51 -3", [4])
    for claim in ("R5", "R7", "R8", "R9"):
        assert read(claim, fewer).seeds == SEEDS - 2
    assert read("R4", fewer).seeds == SEEDS


@pytest.mark.parametrize("name", ["rasfc51 -3", "rac51 -3", "rac51 0"])
def test_the_fewest_seeds_of_all_that_are_compared_count(name):
    measured = made_up(by_risk("rasfc51", [0.9] * 5) | by_risk("rac51", [0.5] * 5), {})
    found = read("R3", without_seeds(measured, name, range(2, SEEDS)))
    assert (found.seeds, found.verdict) == (2, "not decided")


# --- rules from returns and failures


def rule(claim, levels, failures):
    return read(claim, made_up(levels, failures)).verdict


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
    assert read("R9", measured).verdict == "holds"


@pytest.mark.parametrize(("seconds", "verdict"), [(79.0, "holds"), (81.0, "does not hold")])
def test_a_trial_costs_the_mean_of_its_shares(seconds, verdict):
    """RaSFC51: 80 s a trial, (50 + 50 + 140) / 3, though the means by beta are 50 and 140."""
    shares = {"rasfc51 0": [50.0, 50.0], "rasfc51 -3": [140.0], "rac51 0": [seconds, seconds]}
    others = ("sfdqn 0", "rasfc51 fine-maps -3", "rasfc51 gpi -3", "rac51-relabelled 0")  # not the paper's own
    shares |= {name: [1e6] for name in others}
    judged = read(
        "R13", measured_of({name: {"seconds": np.array([[one, 1e6] for one in each])} for name, each in shares.items()})
    )
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
    assert read("R14", measured).verdict == verdict


@pytest.mark.parametrize(
    ("missed", "verdict"),  # test targets by some seeds and by the others
    [((0, 0), "holds"), ((1, 1), "does not hold"), ((1, 0), "not decided")],
)
def test_targets_farther_than_10_cm_are_missed(missed, verdict):
    measured = made_up({}, {})
    distance = measured.arrays["rasfc51 0"]["final_distance"]
    distance[:] = 0.1  # just found
    distance[:, :4] = 1.0  # training targets do not count
    distance[:, 7] += 0.01 * several(*missed)
    assert read("R16", measured).verdict == verdict


@pytest.mark.parametrize(
    ("fifth", "more", "verdict"),  # what is added to 2 failures a task, where half of SFC51's at the end is 3
    [
        (0, (0.0, 0.0), "holds"),
        (0, (2.0, 2.0), "does not hold"),
        (2, (2.0, 2.0), "does not hold"),
        (4, (2.0, 2.0), "does not hold"),
        (1, (3.0, 0.0), "not decided"),
    ],
)
def test_failures_stay_below_half_of_the_neutral_ones_at_the_end(fifth, more, verdict):
    measured = made_up({}, {"rasfc51 -3": 2.0, "rasfc51 0": 1.0})
    averse, neutral = (measured.arrays[name]["failures"] for name in ("rasfc51 -3", "rasfc51 0"))
    neutral[:, -4:] = 6.0
    averse[:, 0] = 100.0  # before training
    averse[:, :, :4] = 100.0  # training tasks
    averse[:, 1 + 4 * fifth : 5 + 4 * fifth, 4:] += several(*more)[:, None, None]
    assert read("R17", measured).verdict == verdict


@pytest.mark.parametrize(
    ("training", "test", "verdict"),  # how many failures more SFC51 has
    [
        ((1.0, 1.0), (1.0, 1.0), "holds"),
        ((-1.0, -1.0), (9.0, 9.0), "does not hold"),
        ((9.0, 9.0), (-1.0, -1.0), "does not hold"),
        ((1.0, -1.0), (9.0, 9.0), "not decided"),
    ],
)
def test_safer_means_on_training_tasks_and_on_test_tasks(training, test, verdict):
    measured = made_up({}, {})
    more = measured.arrays["rasfc51 0"]["final_failures"]
    more[:, 3] += several(*training)
    more[:, 8] += several(*test)
    assert read("R18", measured).verdict == verdict


# --- rules from maps and histograms


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
        }

    learned = {
        "rasfc51 -3": maps(scale * truth + shift),
        "sfdqn-residual -3": maps(residual * truth if residual else 5.0),
    }
    found = read("R12", measured_of(learned))
    assert found.verdict == verdict
    assert f"correlation with the truth over positions {correlation};" in found.measured


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
    peaks = {
        name: {"map_objective": peaked_maps(several(*wanted))}
        for name, wanted in (("rasfc51 -3", averse), ("rasfc51 0", neutral))
    }
    assert read("R11", measured_of(peaks)).verdict == verdict


def test_peaks_are_read_off_maps_of_the_label_s_own_size():
    names = ("rasfc51 -3", "rasfc51 0")
    peaks = {
        name: {"map_objective": peaked_maps(np.full(SEEDS, away), points=41)}
        for name, away in zip(names, (0.1, 0.0), strict=True)
    }
    found = read("R11", measured_of(peaks, map_points=dict.fromkeys(names, 41)))
    # 1.1 cm a cell: (0.14, 0) is 0.3 cm from a point, (0.22, 0) 1.1 because it is itself at the end of the arm's reach,
    # (0.1, -0.1) 0.1 in both directions
    away = (0.3 + 1.1 + 0.1 * 2**0.5) / 3
    assert (found.verdict, found.number) == ("holds", f"10.0 against {away:.1f} cm")


@pytest.mark.parametrize(
    ("agree", "verdict"), [((0.95, 0.93), "holds"), ((0.85, 0.8), "does not hold"), ((0.95, 0.85), "not decided")]
)
def test_an_approximation_is_good_where_nine_actions_of_ten_agree(agree, verdict):
    seen = {"agree": several(*agree), "level": np.full(SEEDS, 4.0), "lost": np.full(SEEDS, 0.25)}
    seen |= {key: np.tile([scale, 2 * scale, 3 * scale], (SEEDS, 1)) for key, scale in (("apart", 1.0), ("trace", 0.1))}
    found = read("R15", measured_of({"rasfc51 -3": {f"risk_{key}": values for key, values in seen.items()}}))
    assert found.verdict == verdict
    assert "differ by 2 (median), 3 (0.9 quantile), at a level of 4; " in found.measured
    assert found.measured.endswith("by 0.2 (median); the plain formula overflows for 25%")
