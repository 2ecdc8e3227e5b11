import csv
import io
import math

from rasf.explorer.exports import HEADER, Sheet, file_name, numbers_csv
from rasf.explorer.scenes.scene import Frontier, Point
from rasf.explorer.state import State
from rasf.statistics import Interval

STATE = State("grid", (-1.0, 0.1), "entropic", -0.1, cell=20, seed=3, layer="drivers")


def sheet(**changes):
    usual = {
        "provenance": {"rasf": "1.2", "library": "a.rasf"},
        "state": STATE,
        "weights": ("step", "goal"),
        "chosen": {"return": Interval(0.1 + 0.2, 0.25, 0.35)},
        "neutral": {"return": Interval(0.5, 0.4, 0.6)},
        "frontier": Frontier("entropic", (Point(-0.1, Interval(1.0, 0.5, 1.5), Interval(0.25, 0.2, 0.3)),)),
        "scores": [
            ("policy 0: near", "left", 1.0, math.nan, -math.inf, False),
            ("policy 1", "up", 2.0, 0.5, 1.5, True),
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
    assert ["score", "policy 0: near: spread", "left", "nan", "", ""] in rows
    assert ["winning score", "policy 1: value", "up", "1.5", "", ""] in rows
    (chosen,) = [row for row in rows if row[:3] == ["measure", "return", "chosen"]]
    assert [float(number) for number in chosen[3:]] == [0.1 + 0.2, 0.25, 0.35]


def test_what_is_not_there_yet_is_left_out():
    rows = rows_of(numbers_csv(sheet(chosen={}, neutral={}, frontier=None, scores=[])))
    assert {row[0] for row in rows} == {"section", "provenance", "state", "weight"}


def test_names_from_files_are_no_formulas():
    text = numbers_csv(sheet(weights=("=cmd()", "+1"), scores=[("@evil", "-left", 1.0, 1.0, 1.0, False)]))
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
