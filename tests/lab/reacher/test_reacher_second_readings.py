"""Second readings on made-up measures: each says yes, no, or that it cannot tell, and counts only what it should."""

import numpy as np
import pytest
from reacher_made_up import SEEDS, by_risk, made_up, measured_of, peaked_maps, several

from rasf.envs.reacher.world import Reacher
from rasf_lab.paper.reacher.beliefs import grid
from rasf_lab.paper.reacher.claims import larger_inside, read_again
from rasf_lab.paper.reacher.measures import RISKS

RISKY = list(Reacher().risky)


def judged(claim, measured):
    found = read_again(claim, measured)
    return found.verdict, found.measured, found.number


# --- R1: a task soon after it was selected

PER_PHASE = 40  # evaluations, as in the paper's runs


def soon(levels):
    """Returns that are low but for evaluations 9 to 16 of a task's own 40: what is not within 20 to 40 % would show."""
    curve = np.full((SEEDS, 4 * PER_PHASE + 1, 12), -50.0)
    for task, level in enumerate(levels):
        begin = PER_PHASE * task
        curve[:, begin + 9 : begin + 17, task] = several(*level)[:, None]
    return {"return": curve}


@pytest.mark.parametrize(
    ("averse", "verdict"),
    [
        ([(0.8, 0.8)] * 4, "holds"),
        ([(0.9, 0.9)] * 3 + [(0.7, 0.7)], "does not hold"),
        ([(0.7, 0.7)] + [(0.9, 0.9)] * 3, "does not hold"),
        ([(0.9, 0.9), (0.9, 0.6), (0.9, 0.9), (0.9, 0.9)], "not decided"),
    ],
)
@pytest.mark.parametrize("other", [0.1, 0.9])  # what other betas have is told only
def test_r1_looks_at_each_task_in_its_own_phase(averse, verdict, other):
    found = {f"rasfc51 {risk}": soon([(other, other)] * 4) for risk in ("0", "-1", "-2")}
    measured = measured_of(found | {"rasfc51 -3": soon(averse)}, steps=5_000.0 * np.arange(4 * PER_PHASE + 1))
    assert judged("R1", measured)[0] == verdict


# --- R2: exactly two


@pytest.mark.parametrize(
    ("levels", "verdict"),
    [
        ([(0.9, 0.9), (0.5, 0.5), (0.9, 0.9), (0.5, 0.5)], "holds"),
        ([(0.5, 0.5)] * 4, "does not hold"),
        ([(0.5, 0.5)] * 3 + [(0.9, 0.9)], "does not hold"),
        ([(0.9, 0.9)] * 3 + [(0.5, 0.5)], "does not hold"),
        ([(0.9, 0.9), (0.9, 0.9), (0.5, 0.5), (0.9, 0.6)], "not decided"),
    ],
)
def test_r2_wants_two_of_the_four_below_and_two_above(levels, verdict):
    measured = made_up(by_risk("rac51", [0.5] * 5), {})
    measured.arrays["rac51 -3"]["final_return"][:, :4] = np.stack([several(*each) for each in levels], axis=1)
    measured.arrays["rac51 -3"]["final_return"][:, 4:] = 0.0  # test tasks do not count
    assert judged("R2", measured)[0] == verdict


def test_r2_tells_of_runs_alone_where_there_are_such():
    levels, alone = made_up(by_risk("rac51", [0.5] * 5), {}), np.tile(np.arange(12) / 100, (SEEDS, 1))
    without = judged("R2", levels)
    with_alone = judged("R2", measured_of(levels.arrays, steps=levels.steps, alone_averse=alone))
    assert with_alone[0] == without[0]
    assert with_alone[1].startswith(without[1])
    told = with_alone[1].removeprefix(without[1])
    assert [f"{task / 100:g} [{task / 100:g}, {task / 100:g}]" in told for task in range(5)] == [True] * 4 + [False]


# --- R8 and R9: the last fifth of training


def late(levels, failures):
    """Measures with these levels in the last fifth; the final policies, and training before it, say the opposite."""
    measured = made_up(levels, failures)
    for name, arrays in measured.arrays.items():
        other = name.replace("rasfc51", "X").replace("rac51", "rasfc51").replace("X", "rac51")
        for what, given in (("return", levels), ("failures", failures)):
            arrays[what][:, :-4] = arrays[f"final_{what}"][:] = 0.0
            arrays[what][:, :-4] += given.get(other, 1.0)
            arrays[f"final_{what}"] += given.get(other, 1.0)
    return measured


@pytest.mark.parametrize(
    ("ours", "verdict"),  # failures a task where RaC51 has 5, 4, 3, 2.5, 2; a tenth of SFC51's is 0.6
    [
        ([6.0, 5.0, 4.0, 3.0, 2.3], "holds"),
        ([6.0, 5.0, 4.0, 3.0, 1.7], "holds"),
        ([6.0, 5.0, 4.0, 3.0, 2.9], "does not hold"),
        ([6.0, 5.0, 2.0, 3.0, 2.0], "does not hold"),
        ([6.0, 5.0, 4.0, 2.5, 2.0], "not decided"),
        ([6.0, 5.0, 4.0, 3.0, 2.6], "not decided"),
    ],
)
def test_r8_is_about_the_last_fifth(ours, verdict):
    failures = by_risk("rasfc51", ours) | by_risk("rac51", [5.0, 4.0, 3.0, 2.5, 2.0])
    assert judged("R8", late({}, failures))[0] == verdict


@pytest.mark.parametrize(
    ("at_3", "at_4", "verdict"),  # normalised return, where RaC51 has 0.5, and both fail alike
    [(0.6, 0.6, "holds"), (0.4, 0.9, "does not hold"), (0.9, 0.4, "does not hold"), (0.9, 0.5, "not decided")],
)
def test_r9_is_about_the_last_fifth(at_3, at_4, verdict):
    levels = by_risk("rasfc51", [0.5, 0.5, 0.5, at_3, at_4]) | by_risk("rac51", [0.5] * 5)
    assert judged("R9", late(levels, dict.fromkeys(levels, 2.0)))[0] == verdict


# --- R10: at the boundary of most, and some missed

AT, IN, OFF = (0.075, 0.075), (0.05, 0.05), (0.1, 0.1)  # metres from a target
EITHER = (0.03, 0.08)


@pytest.mark.parametrize(
    ("held", "missed", "verdict"),  # of the six risky targets by RaSFC51; how many test targets by RaC51
    [
        ([AT] * 6, (2, 2), "holds"),
        ([AT] * 4 + [IN, OFF], (1, 4), "holds"),
        ([AT] * 3 + [IN] * 3, (2, 2), "does not hold"),
        ([AT] * 3 + [OFF] * 3, (2, 2), "does not hold"),
        ([AT] * 3 + [IN] * 2 + [EITHER], (2, 2), "not decided"),
        ([AT] * 6, (0, 0), "does not hold"),
        ([AT] * 6, (8, 8), "does not hold"),
        ([AT] * 6, (5, 3), "not decided"),
        ([AT] * 6, (0, 2), "not decided"),
    ],
)
def test_r10_wants_most_held_at_the_boundary_and_some_missed(held, missed, verdict):
    measured = made_up({}, {})
    ours, theirs = (measured.arrays[name]["final_distance"] for name in ("rasfc51 -3", "rac51 -3"))
    ours[:] = 9.0  # safe targets do not count
    ours[:, RISKY] = np.stack([several(*each) for each in held], axis=1)
    theirs[:, :4] = 9.0  # nor do training targets
    theirs[:, 4:] = np.where(np.arange(8) < several(*missed)[:, None], 0.11, 0.09)
    assert judged("R10", measured)[0] == verdict


# --- R11: away, and in low volatility

EVERY, NONE = np.ones((SEEDS, 12), bool), np.zeros((SEEDS, 12), bool)  # of the peaks are in a circle
BY_TURNS = several(True, False)[:, None] & EVERY
SOME = np.isin(np.arange(12), RISKY[:2]) & EVERY  # two of six


def peaks(averse, inside, neutral, points=31):
    """Objectives of both agents: metres from a target to the peak, and whether the averse one's is in a circle."""
    return [
        {"map_objective": peaked_maps(several(*averse), inside, points)},
        {"map_objective": peaked_maps(several(*neutral), points=points)},
    ]


@pytest.mark.parametrize(
    ("averse", "inside", "neutral", "verdict"),
    [
        ((0.08, 0.08), NONE, (0.0, 0.0), "holds"),
        ((0.08, 0.08), SOME, (0.0, 0.0), "holds"),
        ((0.08, 0.08), ~SOME, (0.0, 0.0), "does not hold"),  # away, but four of six in a circle
        ((0.04, 0.04), EVERY, (0.0, 0.0), "does not hold"),
        ((0.08, 0.08), NONE, (0.15, 0.15), "does not hold"),  # outside, but nearer
        ((0.08, 0.08), BY_TURNS, (0.0, 0.0), "not decided"),
        ((0.08, 0.14), NONE, (0.14, 0.08), "not decided"),
    ],
)
def test_r11_wants_peaks_away_and_outside(averse, inside, neutral, verdict):
    names = ("rasfc51 -3", "rasfc51 0")
    found = dict(zip(names, peaks(averse, inside, neutral), strict=True))
    assert judged("R11", measured_of(found))[0] == verdict
    # finer maps are told only, though they say the opposite
    fine = ("rasfc51 fine-maps -3", "rasfc51 fine-maps 0")
    opposite = peaks(neutral, ~inside, averse, points=41)
    for name, arrays in zip(fine, opposite, strict=True):
        found[name] = {key: values[[0, 2, 5]] for key, values in arrays.items()} | {"seed": np.array([0, 2, 5])}
    beside = judged("R11", measured_of(found, map_points=dict.fromkeys(fine, 41)))
    assert beside[0] == verdict
    assert "Maps of 41 points, 3 seeds: " in beside[1]


# --- R12: the pattern

INSIDE = np.asarray(Reacher().in_circle(grid(31).tips[grid(31).reached]))
TRUE = np.where(INSIDE, 1.0, 0.1)
FLAT, TURNED = np.full_like(TRUE, 0.7), 1.1 - TRUE


def variances(even, odd, truth=TRUE):
    """Maps (seeds, tasks, policies, P) whose last are these by turns; after the tasks before, all is turned round."""
    last = np.where((np.arange(SEEDS) % 2)[:, None], odd, even)
    shape = (SEEDS, 4, 4, len(TRUE))
    variance, true = np.full(shape, TURNED), np.full(shape, TURNED)
    variance[:, -1], true[:, -1] = last[:, None], truth
    return {"map_variance": variance, "map_truth": true}


@pytest.mark.parametrize(
    ("even", "odd", "residual", "verdict"),
    [
        (TRUE, TRUE, FLAT, "holds"),
        (0.2 * TRUE, 0.2 * TRUE, FLAT, "holds"),  # far too little, in the right places
        (FLAT, FLAT, TURNED, "does not hold"),  # by chance, above the residual
        (TURNED, TURNED, FLAT, "does not hold"),
        (TRUE, FLAT, TURNED, "not decided"),  # 1 and 1/2 by turns: the middle between chance and truth
        (TRUE, TRUE, TRUE, "not decided"),  # no better than the residual, nor worse
    ],
)
def test_r12_is_about_the_pattern(even, odd, residual, verdict):
    found = {"rasfc51 -3": variances(even, odd), "sfdqn-residual -3": variances(residual, residual)}
    assert judged("R12", measured_of(found))[0] == verdict


@pytest.mark.parametrize(
    ("scale", "told"), [(1.2, "holds"), (0.8, "holds"), (0.7, "does not hold"), (2.0, "does not hold")]
)
def test_r12_tells_of_calibration(scale, told):
    """Mean variance in the circles within a quarter of the truth's; the verdict does not hang on it."""
    ours = variances(scale * TRUE, scale * TRUE)
    verdict, text, _ = judged("R12", measured_of({"rasfc51 -3": ours, "sfdqn-residual -3": variances(FLAT, FLAT)}))
    assert verdict == "holds"
    assert text.endswith(f"ratio {scale:.3g} [{scale:.3g}, {scale:.3g}], {told}")


def test_larger_inside_is_a_count_of_all_pairs():
    rng = np.random.default_rng(0)
    values, inside = rng.integers(4, size=(2, 3, 13)).astype(float), rng.random(13) < 0.4
    found = larger_inside(values, inside)
    assert found.shape == (2, 3)
    for index in np.ndindex(2, 3):
        won = [1.0 if a > b else 0.5 if a == b else 0.0 for a in values[index][inside] for b in values[index][~inside]]
        assert {0.0, 0.5, 1.0} <= set(won)
        assert found[index] == pytest.approx(sum(won) / len(won))


# --- R15: agreement by beta

GOOD, BAD, BETWEEN = (0.95, 0.95), (0.5, 0.5), (0.95, 0.8)


@pytest.mark.parametrize(
    ("agree", "verdict"),
    [
        ([GOOD] * 4, "holds"),
        ([GOOD, GOOD, BAD, BAD], "holds"),
        ([BAD, BAD, GOOD, GOOD], "holds"),
        ([BAD] * 4, "does not hold"),
        ([GOOD, BAD, BAD, BAD], "not decided"),
        ([GOOD, BETWEEN, BAD, BAD], "not decided"),
        ([BETWEEN, BAD, BAD, BAD], "not decided"),
    ],
)
@pytest.mark.parametrize("lost", [0.0, 0.9])  # what overflows is told only
def test_r15_wants_agreement_at_two_of_the_four_betas(agree, verdict, lost):
    found = {
        f"rasfc51 {risk}": {"risk_agree": several(*each), "risk_lost": np.full(SEEDS, lost)}
        for risk, each in zip(RISKS[1:], agree, strict=True)
    }
    assert judged("R15", measured_of(found))[0] == verdict
