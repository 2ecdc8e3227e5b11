"""What the page says of numbers, and the file it saves them in."""

import csv
import io
import math
import re

import numpy as np

from rasf.statistics import Interval
from rasf_explorer.drawing.scores import ScoreRow
from rasf_explorer.pages.numbers import (
    HEADER,
    Sheet,
    at_most_one,
    file_name,
    numbers_csv,
    numbers_table,
    scores_table,
    summary,
    utility_words,
)
from rasf_explorer.scenes.four_room import FourRoomScene
from rasf_explorer.scenes.frontier import Frontier, Point
from rasf_explorer.scenes.grid import GridScene
from rasf_explorer.scenes.reacher import ReacherScene
from rasf_explorer.scenes.scene import ArmOutcome, SceneOutcome
from rasf_explorer.state import State

STATE = State("grid", (-1.0, 0.1), "entropic", -0.1, cell=20, seed=3, layer="drivers")


def outcome(failures, kind=SceneOutcome, *more):
    failures = np.asarray(failures, float)
    mean = float(failures.mean())
    measures = {"return": Interval(2.0, 1.0, 3.0), "failures": Interval(mean, mean, mean)}
    return kind(np.zeros(len(failures)), failures, np.ones(len(failures), int), measures, *more)


def arm(failures):
    part = Interval(0.0, 0.0, 0.0)
    return outcome(failures, ArmOutcome, part, part, np.zeros((0, 1, 2)), np.zeros((0, 1, 2)), np.zeros((0, 1), int))


def test_failures_have_one_unit_for_both_outcomes():
    said = summary("GPI takes up.", outcome([0, 1]), outcome([1, 1]))
    said_of_rollouts = "GPI fails in 50 % of rollouts, at the neutral risk in 100 %. The mean return is 2,"
    assert said.startswith(f"GPI takes up. {said_of_rollouts}")
    for chosen, neutral in ((outcome([0, 1]), outcome([3, 1])), (outcome([3, 1]), outcome([0, 1]))):
        assert not at_most_one(chosen, neutral)
        assert "%" not in summary("", chosen, neutral)
    assert "0.5 failures per rollout, at the neutral risk 2." in summary("", outcome([0, 1]), outcome([3, 1]))


def test_an_arm_counts_failures_even_where_it_hardly_fails():
    assert "0.5 failures per rollout, at the neutral risk 0." in summary("", arm([0, 1]), arm([0, 0]))


def cells_of(table):
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr class.*?</tr>", table)]


def test_the_table_of_scores_begins_with_what_decides():
    rows = [
        ScoreRow(12, "goal +1; beta -4", "up", 1.0, 2e-7, 3.0, True),
        ScoreRow(3, "", "0 / −", 2.0, 0.5, -1.5, False),
        ScoreRow(4, "<b>", "left", 2.0, 0.0, -2.0, False),
    ]
    table = scores_table(rows)
    assert re.findall(r"<th [^>]*>(.*?)</th>", table) == ["Policy", "Action", "Value", "Mean", "Std"]
    first, second, third = cells_of(table)
    assert re.sub(r"<[^>]*>", "", first[0]) == "★ 12"
    assert first[1:] == ["up", "3", "1", "&lt;0.001"]
    assert second == ["3", "0 / −", "−1.5", "2", "0.5"]
    assert third == ["4", "left", "−2", "2", "0"]
    assert 'title="policy 12: goal +1; beta -4"' in table
    assert "<b>" not in table


def test_what_is_exact_says_so_and_only_that():
    columns = {"Chosen": {"return": Interval(1.0, 1.0, 1.0), "return_cvar": Interval(0.5, 0.5, 0.5)}}
    table = numbers_table(columns, False, {"return"})
    assert re.findall(r'class="interval">(.*?)<', table) == ["exact", "0.5 to 0.5"]
    assert "that is not exact" in table
    assert "exact" not in numbers_table(columns, False)


def test_a_table_has_the_measures_that_are_known_and_failures_in_their_unit():
    columns = {"Chosen": {"failures": Interval(0.25, 0.2, 0.3)}, "Neutral": {}}
    for share, name, estimate in ((True, "Failure rate", "25 %"), (False, "Failures per episode", "0.25")):
        table = numbers_table(columns, share)
        assert re.findall(r'<th scope="row">(.*?)</th>', table) == [name]
        assert re.findall(r"<td>(?:<b>)?(.*?)<", table)[1:] == [estimate, "–"]


def test_utilities_in_words():
    found = {"GPI": 3.4766, "best source": -1.7229, "optimum": 3.4766}
    assert utility_words(found) == "Utility at the start: GPI 3.48, best source −1.72, optimum 3.48."
    assert utility_words({}) == ""


def test_every_scene_says_what_a_failure_is():
    assert "A trap that fires ends the episode and counts as a failure." in FourRoomScene.about
    assert "a trap that costs 0 ends the episode but does not count" in GridScene.about
    assert "every step may be a failure. Failures do not end the episode" in ReacherScene.about


def sheet(**changes):
    usual = {
        "provenance": {"rasf": "1.2", "library": "a.rasf"},
        "state": STATE,
        "weights": ("step", "goal"),
        "chosen": {"return": Interval(0.1 + 0.2, 0.25, 0.35)},
        "neutral": {"return": Interval(0.5, 0.4, 0.6)},
        "frontier": Frontier("entropic", (Point(-0.1, Interval(1.0, 0.5, 1.5), Interval(0.25, 0.2, 0.3)),)),
        "scores": [
            ScoreRow(0, "near", "left", 1.0, math.nan, -math.inf, False),
            ScoreRow(1, "far", "up", 2.0, 0.5, 1.5, True),
        ],
    }
    return Sheet(**(usual | changes))


def rows_of(text):
    return list(csv.reader(io.StringIO(text)))


def test_every_number_is_a_row_and_comes_back_exactly():
    rows = rows_of(numbers_csv(sheet()))
    assert tuple(rows[0]) == HEADER
    assert {len(row) for row in rows} == {6}
    assert ["provenance", "rasf", "", "1.2", "", ""] in rows
    assert ["state", "level", "", "-0.1", "", ""] in rows
    assert ["state", "seed", "", "3", "", ""] in rows
    assert ["state", "link", "", "?" + STATE.to_query(), "", ""] in rows
    assert ["weight", "goal", "", "0.1", "", ""] in rows
    assert ["frontier", "return", "-0.1", "1.0", "0.5", "1.5"] in rows
    assert ["frontier", "failures", "-0.1", "0.25", "0.2", "0.3"] in rows
    assert ["score", "policy 0: near: std", "left", "nan", "", ""] in rows
    assert ["winning score", "policy 1: far: value", "up", "1.5", "", ""] in rows
    (chosen,) = [row for row in rows if row[:3] == ["measure", "return", "chosen"]]
    assert [float(number) for number in chosen[3:]] == [0.1 + 0.2, 0.25, 0.35]


def test_what_is_not_there_yet_is_left_out():
    rows = rows_of(numbers_csv(sheet(chosen={}, neutral={}, frontier=None, scores=[])))
    assert {row[0] for row in rows} == {"section", "provenance", "state", "weight"}


def test_names_from_files_are_no_formulas():
    text = numbers_csv(sheet(weights=("=cmd()", "+1"), scores=[ScoreRow(0, "@evil", "-left", 1.0, 1.0, 1.0, False)]))
    for row in rows_of(text)[1:]:
        for cell in row:
            is_number = cell.lstrip("-").replace(".", "").isdigit() or cell in ("nan", "-inf", "inf")
            assert is_number or not cell.startswith(("=", "+", "-", "@"))
    assert "'=cmd()" in text


def test_lines_and_commas_in_names_stay_in_their_cell():
    rows = rows_of(numbers_csv(sheet(provenance={"library": 'a,\n"b"'})))
    assert ["provenance", "library", "", 'a,\n"b"', "", ""] in rows


def test_file_names_hold_nothing_that_a_file_system_minds():
    assert file_name(STATE, "svg") == "rasf-grid-entropic--0.1.svg"
    assert file_name(State("../x y", (), "cvar", 0.5), "csv") == "rasf-..-x-y-cvar-0.5.csv"
