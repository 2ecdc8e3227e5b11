"""What the page says of numbers."""

import re

import numpy as np

from rasf.explorer.pages.words import at_most_one, numbers_table, scores_table, summary, utility_words
from rasf.explorer.scenes.four_room import FourRoomScene
from rasf.explorer.scenes.grid import GridScene
from rasf.explorer.scenes.reacher import ReacherScene
from rasf.explorer.scenes.scene import ArmOutcome, Outcome
from rasf.statistics import Interval


def outcome(failures, kind=Outcome, *more):
    failures = np.asarray(failures, float)
    mean = float(failures.mean())
    measures = {"return": Interval(2.0, 1.0, 3.0), "failures": Interval(mean, mean, mean)}
    return kind(np.zeros(len(failures)), failures, np.ones(len(failures), int), measures, *more)


def arm(failures):
    part = Interval(0.0, 0.0, 0.0)
    return outcome(failures, ArmOutcome, part, part, np.zeros((0, 1, 2)), np.zeros((0, 1, 2)), np.zeros((0, 1), int))


def test_failures_have_one_unit_for_both_outcomes():
    said = summary("Policy 0 drives.", outcome([0, 1]), outcome([1, 1]))
    assert said.startswith("Policy 0 drives. Fails in 50 % of rollouts, risk-neutral 100 %; mean return 2,")
    for chosen, neutral in ((outcome([0, 1]), outcome([3, 1])), (outcome([3, 1]), outcome([0, 1]))):
        assert not at_most_one(chosen, neutral)
        assert "%" not in summary("", chosen, neutral)
    assert "0.5 failures a rollout, risk-neutral 2;" in summary("", outcome([0, 1]), outcome([3, 1]))


def test_an_arm_counts_failures_even_where_it_hardly_fails():
    assert "0.5 failures a rollout, risk-neutral 0;" in summary("", arm([0, 1]), arm([0, 0]))


def cells_of(table):
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr class.*?</tr>", table)]


def test_the_table_of_scores_begins_with_what_decides():
    rows = [
        ("policy 12: goal +1; beta -4", "up", 1.0, 2e-7, 3.0, True),
        ("policy 3", "0 / −", 2.0, 0.5, -1.5, False),
        ("policy 4: <b>", "left", 2.0, 0.0, -2.0, False),
    ]
    table = scores_table(rows)
    assert re.findall(r"<th [^>]*>(.*?)</th>", table) == ["Policy", "Action", "Value", "Mean", "Spread"]
    first, second, third = cells_of(table)
    assert re.sub(r"<[^>]*>", "", first[0]) == "★ 12"
    assert first[1:] == ["up", "3", "1", "&lt;0.001"]
    assert second == ["3", "0 / −", "−1.5", "2", "0.5"]
    assert third == ["4", "left", "−2", "2", "0"]
    assert 'title="policy 12: goal +1; beta -4"' in table
    assert "<b>" not in table


def test_what_is_exact_says_so_and_only_that():
    columns = {"Chosen": {"return": Interval(1.0, 1.0, 1.0), "cvar": Interval(0.5, 0.5, 0.5)}}
    names = {"return": "Mean return", "cvar": "CVaR"}
    table = numbers_table(columns, names, False, {"return"})
    assert re.findall(r'class="interval">(.*?)<', table) == ["exact", "0.5 to 0.5"]
    assert "where it is not exact" in table
    assert "exact" not in numbers_table(columns, names, False)


def test_utilities_in_words():
    found = {"GPI": 3.4766, "best source": -1.7229, "optimum": 3.4766}
    assert utility_words(found) == "Utility at the start: GPI 3.48, best source −1.72, optimum 3.48."
    assert utility_words({}) == ""


def test_every_scene_says_what_a_failure_is():
    assert "A trap that fires ends the episode and counts as a failure." in FourRoomScene.about
    assert "a trap that costs 0 ends the episode but does not count" in GridScene.about
    assert "every step may fail, which counts each time and does not end the episode" in ReacherScene.about
