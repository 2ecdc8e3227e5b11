"""Verdicts on made-up curves: each rule, of both readings, says yes, no, or that it cannot tell."""

import numpy as np
import pytest

from rasf_lab.paper.four_room import claims, runs
from rasf_lab.paper.four_room.measures import RISKS, dangerous_objects, trap_cells

SEEDS, TASKS = 30, 32
PLAIN = (1.0, 10.0, 0.0)  # return and failures a task, and how the latter grow from task to task
CURVES = [
    *(f"sfql {noise} {risk:g}" for noise in ("independent", "shared", "w-given") for risk in RISKS),
    "sfql diagonal -2",
    *(f"prql {risk:g}" for risk in RISKS),
    *(f"prql c-step-0.1 {risk:g}" for risk in RISKS[1:]),
    *(f"prql as-printed {risk:g}" for risk in RISKS),
]

ON_TRAINING_TASKS = [*(f"F{n}" for n in range(1, 10)), "F11", "F12", "F13", "F17"]


def several(first, second, n=SEEDS):
    """A number a seed, the same for all, or two by turns: an interval in between."""
    return np.where(np.arange(n) % 2, first, second)


def made_up(levels=(), seeds=SEEDS):
    """Curves with these levels by name, with a little noise; a level may be a pair, by turns."""
    rng, curves = np.random.default_rng(0), {}
    for name in CURVES:
        level, failures, trend = dict(levels).get(name, PLAIN)
        each = [several(*np.broadcast_to(one, 2), seeds)[:, None] for one in (level, failures, trend)]
        curves[name] = {
            "return": each[0] + 0.01 * rng.normal(size=(seeds, TASKS)),
            "failures": each[1] + each[2] * np.arange(TASKS) + 0.01 * rng.normal(size=(seeds, TASKS)),
        }
    return curves


def first(claim, levels):
    return claims.read(claim, claims.Curves(made_up(levels))).verdict


def second(claim, levels):
    return claims.read(claim, claims.Curves(made_up(levels)), "second").verdict


def test_verdicts_follow_the_numbers():
    curves = made_up(
        {
            "sfql independent 0": (4.0, 20.0, 0.1),
            "sfql independent -2": (3.5, 8.0, -0.1),
            "sfql independent -4": (3.0, 6.0, -0.1),
            "sfql diagonal -2": (3.5, 8.1, -0.1),
            "prql 0": (2.0, 20.0, 0.0),
            "prql -2": (1.0, 12.0, -0.01),
            "prql -4": (0.5, 9.0, 0.0),
        }
    )
    said = {claim: claims.read(claim, claims.Curves(curves)).verdict for claim in ON_TRAINING_TASKS}
    assert {claim for claim, verdict in said.items() if verdict != "holds"} == {"F8", "F9"}
    assert said["F8"] == said["F9"] == "not decided"
    turned = {claim: claims.read(claim, claims.Curves(curves), noise="shared").verdict for claim in ON_TRAINING_TASKS}
    assert turned["F2"] == "does not hold"
    assert turned["F6"] == "does not hold"


# --- failures of RaSFQL and RaPRQL


@pytest.mark.parametrize(("theirs", "verdict"), [(12.0, "holds"), (8.0, "does not hold"), ((12.0, 8.0), "not decided")])
def test_f5_is_read_with_w_learned_and_with_w_given(theirs, verdict):
    levels = {"prql -2": (1.0, theirs, 0.0)}
    assert first("F5", levels | {"sfql w-given -2": (1.0, 50.0, 0.0)}) == verdict
    assert second("F5", levels | {"sfql independent -2": (1.0, 50.0, 0.0)}) == verdict


@pytest.mark.parametrize(
    ("more", "once", "twice"),  # RaPRQL's failures minus RaSFQL's at the five risks; both readings
    [
        ([1, 1, 1, 1, 1], "holds", "holds"),
        ([1, 1, 1, 1, 0], "holds", "holds"),
        ([-1, 1, 1, 1, 1], "holds", "does not hold"),  # one exception refutes "for every pair"
        ([1, 1, 1, 0, 0], "not decided", "not decided"),
        ([-1, 1, 1, 1, 0], "not decided", "does not hold"),
        ([1, 1, 1, -1, -1], "does not hold", "does not hold"),
        ([-1, -1, 0, 0, 0], "does not hold", "does not hold"),
    ],
)
def test_f8_bears_one_exception_or_none(more, once, twice):
    for noise, rule, verdict in (("independent", first, once), ("w-given", second, twice)):
        levels = {f"prql {risk:g}": (1.0, 10.0, 0.0) for risk in RISKS}
        # where they are equal: by turns, so that the interval is around 0
        levels |= {
            f"sfql {noise} {risk:g}": (1.0, 10.0 - gap if gap else (9.0, 11.0), 0.0)
            for risk, gap in zip(RISKS, more, strict=True)
        }
        assert rule("F8", levels) == verdict


@pytest.mark.parametrize(("early", "verdict"), [(2.0, "holds"), (-2.0, "does not hold"), ((2.0, -2.0), "not decided")])
@pytest.mark.parametrize(("noise", "reading"), [("independent", first), ("w-given", second)])
def test_f11_is_about_the_first_16_tasks(early, verdict, noise, reading):
    """Later ones say the opposite, and so does the other reading's curve."""
    curves = made_up()
    more = several(*np.broadcast_to(early, 2))[:, None]
    for name in CURVES:
        curves[name]["failures"] += 0 if name in ("prql -2", f"sfql {noise} -2") else more
    curves["prql -2"]["failures"][:, :16] += more
    curves["prql -2"]["failures"][:, 16:] -= 9 * more
    found = claims.read("F11", claims.Curves(curves), reading.__name__)
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("theirs", "verdict"),  # RaPRQL's failures and return; RaSFQL has 10 failures for a return of 1
    [
        ((6.0, 0.5), "holds"),  # fewer failures, but more for the same return
        ((12.0, 2.0), "does not hold"),
        (((6.0, 4.0), 0.5), "not decided"),
        ((6.0, -0.5), "not decided"),  # the ratio means nothing
    ],
)
def test_f11_may_mean_failures_for_a_return(theirs, verdict):
    failures, earned = theirs
    curves = made_up({"prql -2": (earned, failures, 0.0)})
    for name in ("prql -2", "sfql independent -2"):
        for what in ("return", "failures"):
            curves[name][what][:, 16:] = 99.0  # later tasks do not count
    assert claims.read("F11", claims.Curves(curves), "third").verdict == verdict


@pytest.mark.parametrize(("trend", "verdict"), [(-0.1, "holds"), (0.1, "does not hold"), ((0.1, -0.1), "not decided")])
def test_f12_is_about_the_slope_over_tasks(trend, verdict):
    assert first("F12", {"prql -2": (1.0, 10.0, trend), "prql 0": (1.0, 5.0, 0.0)}) == verdict


@pytest.mark.parametrize(("averse", "verdict"), [(9.0, "holds"), (11.0, "does not hold"), ((9.0, 11.0), "not decided")])
def test_f12_may_mean_within_tasks(averse, verdict):
    assert second("F12", {"prql -2": (1.0, averse, 0.0), "prql 0": (1.0, 10.0, 0.0)}) == verdict


@pytest.mark.parametrize(
    ("diagonal", "neutral", "verdict"),  # failures; a full Sigma has 10
    [
        (10.5, 20.0, "holds"),
        (9.0, 20.0, "holds"),
        (11.5, 20.0, "does not hold"),  # more than a tenth more
        (9.0, 8.0, "does not hold"),  # more than SFQL
        ((10.0, 12.0), 20.0, "not decided"),
        (9.0, (8.0, 10.0), "not decided"),
    ],
)
def test_f17_wants_fewer_than_sfql_and_hardly_more_than_with_a_full_sigma(diagonal, neutral, verdict):
    levels = {"sfql diagonal -2": (1.0, diagonal, 0.0), "sfql independent 0": (1.0, neutral, 0.0)}
    assert first("F17", levels) == verdict


# --- what risk costs


@pytest.mark.parametrize(
    ("left", "once", "twice"),  # of a return of 1, at omega -4
    [
        (0.25, "holds", "holds"),
        (0.37, "does not hold", "holds"),  # between the two margins
        (0.13, "does not hold", "holds"),
        (0.45, "does not hold", "does not hold"),
        (0.05, "does not hold", "does not hold"),
        ((0.1, 0.6), "not decided", "not decided"),
    ],
)
def test_f7_has_a_margin_of_10_points_and_then_of_15(left, once, twice):
    assert first("F7", {"prql -4": (left, 10.0, 0.0), "prql c-step-0.1 -4": (1.0, 10.0, 0.0)}) == once
    assert second("F7", {"prql c-step-0.1 -4": (left, 10.0, 0.0), "prql -4": (1.0, 10.0, 0.0)}) == twice


@pytest.mark.parametrize(
    ("theirs", "ours", "verdict"),  # what is left of 2 and of 4
    [(0.5, 3.0, "holds"), (1.8, 3.0, "does not hold"), ((0.5, 2.5), 3.0, "not decided")],
)
def test_f13_compares_shares_lost(theirs, ours, verdict):
    levels = {"prql 0": (2.0, 10.0, 0.0), "prql -4": (theirs, 10.0, 0.0)}
    levels |= {"sfql independent 0": (4.0, 10.0, 0.0), "sfql independent -4": (ours, 10.0, 0.0)}
    assert first("F13", levels) == verdict


# --- eta and tau


def searches(best, worst, at=None):
    """Returns (seeds,) of nine settings at every omega; `at` is the omega where they matter, else all."""
    pairs = [(eta, tau) for eta in runs.ETAS for tau in runs.TAUS]
    found = {}
    for risk in RISKS:
        high, low = (best, worst) if at in (None, risk) else (9.0, 1.0)
        levels = [several(*np.broadcast_to(one, 2), 5).astype(float) for one in (high, low)]
        middle = (levels[0] + levels[1]) / 2
        found[f"prql {risk:g}"] = dict(zip(pairs, [*[middle] * 4, levels[1], *[middle] * 3, levels[0]], strict=True))
        found[f"prql as-printed {risk:g}"] = dict.fromkeys(pairs, np.ones(5))  # another reading does not count
    return found


@pytest.mark.parametrize(
    ("best", "worst", "verdict"),
    [
        (9.0, 4.0, "holds"),
        (1.0, -5.0, "holds"),  # the worst loses
        (9.0, 5.0, "does not hold"),
        ((11.0, 8.0), 4.8, "not decided"),
    ],
)
@pytest.mark.parametrize("at", [None, 0.0, -1.0, -4.0])
def test_f14_wants_twice_the_worst_at_every_omega(best, worst, verdict, at):
    assert claims.sensitive(searches(best, worst, at)).verdict == verdict


# --- novel tasks

CELLS = len(trap_cells())
TRAP, OBJECT = np.flatnonzero(trap_cells())[0], np.flatnonzero(dangerous_objects())[0]
SAFE = np.flatnonzero(~trap_cells() & ~dangerous_objects())
ROLLOUTS = 4


def made_up_visits(averse, neutral, seeds=SEEDS):
    """What is seen of the novel tasks: steps a rollout (27, cells) or (seeds, 27, cells), and one on a safe cell."""
    novel = {}
    for way, steps in (("averse", averse), ("neutral", neutral)):
        visits = ROLLOUTS * np.broadcast_to(steps, (seeds, 27, CELLS)).astype(float)
        visits[:, :, SAFE[-1]] += ROLLOUTS
        novel[way] = {f"visits_{act}": visits for act in ("averse", "neutral", "aware")}
        novel[way] |= {f"features_{act}": np.zeros((seeds, 27, ROLLOUTS, 5)) for act in ("averse", "neutral", "aware")}
    return novel


def on_novel_tasks(claim, novel, reading="first"):
    return claims.read(claim, claims.Curves({f"novel {way}": arrays for way, arrays in novel.items()}), reading)


def steps_on(cells, steps):
    """Steps (seeds, 27, cells) on these cells, one number for all seeds or one for each."""
    found = np.zeros((SEEDS, 27, CELLS))
    found[..., np.atleast_1d(cells)] = np.reshape(steps, (-1, 1, 1))
    return found


@pytest.mark.parametrize(
    ("averse", "once", "twice"),  # steps on a trap and on an object beside one, where SFQL has 10
    [
        ((0.5, 1.5), "holds", "holds"),
        ((1.5, 5.0), "holds", "does not hold"),
        ((5.0, 1.5), "holds", "does not hold"),
        ((12.0, 1.5), "does not hold", "does not hold"),
        ((1.5, 12.0), "does not hold", "does not hold"),
        (((8.0, 12.0), 1.5), "not decided", "does not hold"),
        (((1.0, 3.0), 1.5), "holds", "not decided"),
    ],
)
def test_f10_asks_for_fewer_steps_and_then_for_a_fifth(averse, once, twice):
    neutral = steps_on(TRAP, 10.0) + steps_on(OBJECT, 10.0)
    ours = sum(
        steps_on(cell, several(*np.broadcast_to(one, 2))) for cell, one in zip((TRAP, OBJECT), averse, strict=True)
    )
    novel = made_up_visits(ours, neutral)
    assert on_novel_tasks("F10", novel).verdict == once
    assert on_novel_tasks("F10", novel, "second").verdict == twice


def f15(averse, neutral):
    novel = {
        way: {f"visits_{way}": np.broadcast_to(visits, (SEEDS, 27, CELLS)).astype(float)}
        for way, visits in (("averse", averse), ("neutral", neutral))
    }
    return claims.alike(novel)


def all_in(cells):
    """Visits (27, cells) of a task spent in one cell each."""
    return np.eye(CELLS)[np.broadcast_to(cells, 27)]


@pytest.mark.parametrize(
    ("averse", "neutral", "number", "verdict"),
    [
        (all_in(np.arange(27)), 7 * all_in(np.arange(27)), "1.00 against 0.00", "holds"),
        (all_in(3), all_in(4), "0.00 against 1.00", "does not hold"),
        (all_in(3), all_in(3), "1.00 against 1.00", "not decided"),
        # half of the averse one's time is elsewhere on each task: 1/2 on a task, 1/2 and 1 from task to task
        (all_in(np.arange(27)) + all_in(99), all_in(99), "0.50 against 0.75", "does not hold"),
    ],
)
def test_f15_s_overlap_by_hand(averse, neutral, number, verdict):
    found = f15(averse, neutral)
    assert (found.number, found.verdict, found.seeds) == (number, verdict, SEEDS)


def test_f15_is_of_visits_averaged_over_seeds():
    """In a seed the two agents never meet; over all seeds they are in the same cells, each seed counting alike."""
    here, there = all_in(np.arange(27)), all_in(27 + np.arange(27))
    turns = (np.arange(SEEDS) % 2 == 0)[:, None, None]
    averse, neutral = np.where(turns, 5 * here, there), np.where(turns, there, 9 * here)
    found = f15(averse, neutral)
    assert (found.number, found.verdict) == ("1.00 against 0.00", "holds")


# of the tasks (w1, w2, w3) in order: w2 = 1 three times three, (1, -1, -1) and (1, -1, 0)
NAMED = [6, 7, 8, 15, 16, 17, 24, 25, 26, 18, 19]
OTHERS = [task for task in range(27) if task not in NAMED]


@pytest.mark.parametrize(
    ("named", "others", "number", "verdict"),  # steps in danger saved a rollout
    [
        (2.0, 1.0, "2.00 against 1.00", "holds"),
        (1.0, 2.0, "1.00 against 2.00", "does not hold"),
        ((3.0, 1.0), 2.0, "2.00 against 2.00", "not decided"),
    ],
)
@pytest.mark.parametrize("cell", [TRAP, OBJECT])
def test_f16_compares_the_11_named_tasks_with_the_other_16(named, others, number, verdict, cell):
    neutral = np.zeros((SEEDS, 27, CELLS))
    neutral[:, NAMED, cell] = several(*np.broadcast_to(named, 2))[:, None]
    neutral[:, OTHERS, cell] = several(*np.broadcast_to(others, 2))[:, None]
    neutral[:, OTHERS, SAFE[0]] = 50.0  # no danger
    found = on_novel_tasks("F16", made_up_visits(0.0, neutral))
    assert (found.number, found.verdict) == (number, verdict)


@pytest.mark.parametrize("task", range(27))
def test_f16_s_named_tasks_one_by_one(task):
    neutral = np.zeros((27, CELLS))
    neutral[task, TRAP] = 11 * 16
    expected = "16.00 against 0.00" if task in NAMED else "0.00 against 11.00"
    assert on_novel_tasks("F16", made_up_visits(0.0, neutral)).number == expected


# --- all together


@pytest.mark.parametrize(("seeds", "decided"), [(30, True), (4, False)])
def test_few_seeds_decide_nothing_by_any_reading(seeds, decided):
    levels = {"prql 0": (1.0, 20.0, 0.0), "prql -2": (1.0, 12.0, -0.1)}
    novel = made_up_visits(steps_on([TRAP, OBJECT], 1.0)[0], steps_on([TRAP, OBJECT], 9.0)[0], seeds)
    found = claims.judge(made_up(levels, seeds), novel, searches(9.0, 1.0))
    assert found.keys() == {*ON_TRAINING_TASKS, "F10", "F14", "F15", "F16", "T7"}
    seconds = {claim: one.second_reading for claim, one in found.items() if one.second_reading}
    assert seconds.keys() == {"F5", "F7", "F8", "F10", "F11", "F12"}
    thirds = {claim: one.third_reading for claim, one in found.items() if one.third_reading}
    assert thirds.keys() == {"F11"}
    decided_by_seeds = {claim: one for claim, one in found.items() if claim != "F14"}  # F14 has its own seeds
    for readings in (decided_by_seeds, seconds | {"F11 third": thirds["F11"]}):
        assert {one.seeds for one in readings.values()} == {seeds}
        assert ({one.verdict for one in readings.values()} != {"not decided"}) is decided
    assert (found["F14"].seeds, found["F14"].verdict) == (5, "holds")
