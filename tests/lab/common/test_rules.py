"""Rules of claims as data, on runs with numbers that are known."""

from dataclasses import dataclass

import numpy as np
import pytest

from rasf.statistics import joint_interval, mean_interval, probability_of_improvement, ratio_interval
from rasf_lab.common.rules import ClaimRule, as_rule

NOISE = np.random.default_rng(0).normal(size=(3, 8))
MEASURES = {
    "level": lambda runs, name: runs.arrays[name]["level"],
    "level by task": lambda runs, name: np.stack([runs.arrays[name]["level"] + n for n in range(3)], axis=1),
    "column": lambda runs, name: runs.arrays[name]["columns"],
}


@dataclass
class Runs:
    """Levels (seeds,) by label."""

    arrays: dict

    def of_common_seeds(self, *names):
        n = min(map(self.seeds, names))
        kept = {name: {key: values[:n] for key, values in self.arrays[name].items()} for name in names}
        return Runs(self.arrays | kept)

    def seeds(self, name):
        return len(next(iter(self.arrays[name].values())))


def runs(**levels):
    return Runs({name.replace("_", " "): {"level": np.asarray(level)} for name, level in levels.items()})


TWO = runs(a_0=5.0 + NOISE[0], a_1=3.0 + NOISE[1], b_0=2.0 + NOISE[2][:6])


def read(measured, intervals=None, values=None, given=TWO, **fields):
    values = values or {"x": "level of a 0", "y": "level of a 1"}
    rule = as_rule({"values": values, "intervals": intervals or {}, "measured": measured, **fields})
    return rule.read(given, MEASURES)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x", lambda x, y: mean_interval(x)),
        ("x - y", lambda x, y: mean_interval(x - y)),
        ("2 * (x - y) + 1", lambda x, y: mean_interval(2 * (x - y) + 1)),
        ("-x", lambda x, y: mean_interval(-x)),
        ("x / y", ratio_interval),
        ("1 - x / y", lambda x, y: joint_interval(lambda a, b: 1 - a.mean(axis=-1) / b.mean(axis=-1), x, y)),
    ],
)
def test_an_interval_is_of_seeds_or_of_means_where_it_divides(expression, expected):
    x, y = (TWO.arrays[name]["level"] for name in ("a 0", "a 1"))
    assert read("{i}", {"i": expression}).measured == str(expected(x, y))


def test_slopes_and_the_probability_of_improvement_are_over_columns():
    values = {"x": "level by task of a 0", "y": "level by task of a 1"}
    assert read("{i.estimate:.6f}", {"i": "slope(x)"}, values).measured == "1.000000"
    x, y = (MEASURES["level by task"](TWO, name) for name in ("a 0", "a 1"))
    expected = probability_of_improvement(x, y, paired=True, whole_runs=True)
    assert read("{i}", {"i": "x > y"}, values).measured == str(expected)


def test_only_seeds_that_all_labels_have_count():
    found = read("{x:.9f}, {seeds}", {"i": "x - y"}, {"x": "level of a 0", "y": "level of b 0"})
    assert found.seeds == 6
    assert found.measured == f"{TWO.arrays['a 0']['level'][:6].mean():.9f}, 6"


def test_names_are_put_in_and_a_reading_s_own_come_first():
    rule = as_rule({"values": {"x": "level of {which}"}, "intervals": {"i": "x"}, "measured": "{x:.3f}"})
    assert rule.takes("which")
    assert not rule.takes("noise")
    assert rule.labels(which="a 0|1") == ["a 0", "a 1"]
    assert rule.read(TWO, MEASURES, which="a 0").measured == f"{TWO.arrays['a 0']['level'].mean():.3f}"
    own = as_rule({"values": {"x": "level of {which}"}, "intervals": {}, "measured": "", "names": {"which": "b 0"}})
    assert own.labels(which="a 0") == ["b 0"]


def test_alternatives_are_columns_with_names():
    found = read("{i}; {x:.1f}", {"i": "x"}, {"x": "level of a 0|1"})
    first, second = (mean_interval(TWO.arrays[name]["level"]) for name in ("a 0", "a 1"))
    assert found.measured == f"0: {first}, 1: {second}; {first.estimate:.1f}, {second.estimate:.1f}"


@pytest.mark.parametrize(
    ("test", "verdict"),
    [
        ("i > 1", "holds"), ("i > 9", "does not hold"), ("i > y - y + 5", "not decided"), ("i < 9", "holds"),
        ("i < 1", "does not hold"), ("1 <= i <= 9", "holds"), ("-9 <= i <= -y", "does not hold"),
        ("5 <= i <= 9", "not decided"),
    ],
)  # fmt: skip
def test_a_test_is_above_below_or_within(test, verdict):
    assert read("", {"i": "x"}, holds=[test]).verdict == verdict


def test_all_tests_must_hold_and_what_is_told_does_not_count():
    told = {"holds": ["i > 1", "i < 9"], "told": ["i > 9"]}
    found = read("{verdicts[0]}, {verdicts[2]}", {"i": "x"}, **told)
    assert (found.verdict, found.measured) == ("holds", "holds, does not hold")
    assert read("", {"i": "x"}, holds=["i > 1", "i > 9"]).verdict == "does not hold"


@pytest.mark.parametrize(("level", "verdict"), [(1.0, "holds"), (-1.0, "not decided"), (0.0, "not decided")])
def test_a_ratio_needs_a_positive_denominator(level, verdict):
    values, given = {"x": "level of a 0", "y": "level of b 0"}, runs(a_0=np.full(6, 2.0 * level), b_0=np.full(6, level))
    assert read("", {"i": "x / y"}, values, given, holds=["i > 1"], positive=["y"]).verdict == verdict


def columns(*signs):
    """Columns that are above 0, below it, or around it."""
    around = np.where(np.arange(8) % 2, 1.0, -1.0)
    return Runs({"c": {"columns": np.stack([np.full(8, float(s)) if s else around for s in signs], axis=1)}})


@pytest.mark.parametrize(
    ("signs", "vote", "verdict"),
    [
        ((1, 1, 1), {}, "holds"),
        ((1, 1, 0), {}, "not decided"),
        ((1, 0, -1), {}, "does not hold"),
        ((1, 1, 0), {"enough": 2}, "holds"),
        ((1, 0, -1), {"enough": 2, "refuted_by": 2}, "not decided"),
        ((1, -1, -1), {"enough": 2, "refuted_by": 2}, "does not hold"),
        ((1, 1, -1), {"enough": 2, "refuted_by": 1}, "does not hold"),  # it is refuted first
        ((1, 1, -1), {"exactly": 2}, "holds"),
        ((1, 1, 0), {"exactly": 2}, "not decided"),
        ((1, 1, 1), {"exactly": 2}, "does not hold"),
        ((1, -1, -1), {"exactly": 2}, "does not hold"),
    ],
)
def test_columns_vote(signs, vote, verdict):
    found = read("{held[0]} {refuted[0]}", {"i": "x"}, {"x": "column of c"}, columns(*signs), holds=["i > 0"], **vote)
    assert found.verdict == verdict
    assert found.measured == f"{signs.count(1)} {signs.count(-1)}"


def test_formats():
    found = read("{i:.1f}; {c:.0f}; {c.least:.0f}; {k.least:.0f} to {k.most:.0f}", {"i": "x", "c": "k"},
                 {"x": "column of c", "k": "column of c"}, columns(3, 1, 2))  # fmt: skip
    assert found.measured == "3.0 1.0 2.0; 3 1 2; 1; 1 to 3"
    assert read("{i:.1f}", {"i": "x - x"}).measured == "0.0 [0.0, 0.0]"


def test_what_is_told_beside_it_needs_its_own_runs():
    beside = [{"values": {"y": f"level of {name}"}, "intervals": {"j": "y"}, "measured": f"; {name}"}
              for name in ("a 1", "nobody")]  # fmt: skip
    assert read("a 0", {"i": "x"}, {"x": "level of a 0"}, also=beside).measured == "a 0; a 1"
    assert read("", {"i": "x"}, {"x": "level of nobody"}) is None


def test_other_expressions_are_refused():
    with pytest.raises(ValueError, match=r"a rule must consist of numbers, names.*max\(x\)"):
        read("", {"i": "max(x)"})
    assert isinstance(as_rule({"values": {}, "intervals": {}, "measured": ""}), ClaimRule)
