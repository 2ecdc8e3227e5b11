"""Charts: ticks, histograms, the frontier, scores; also where there is little to draw."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from drawn import of_class, parse, words

from rasf.statistics import Interval
from rasf_explorer.drawing.axes import Scale, round_ticks, tick_words
from rasf_explorer.drawing.frontier import Labels, draw_frontier
from rasf_explorer.drawing.returns import draw_returns
from rasf_explorer.drawing.scores import draw_scores, scores_rows
from rasf_explorer.scenes.frontier import Frontier, Point
from rasf_explorer.scenes.scene import SceneOutcome, SceneScores


def ticks(root, axis):
    return [float(node.get("data-value").replace("−", "-")) for node in of_class(of_class(root, axis)[0], "tick")]


def exactly(value):
    return Interval(value, value, value)


def outcome(returns, **measures):
    returns = np.asarray(returns, float)
    found = (
        {"return": exactly(float(returns.mean())), "return_cvar": exactly(float(returns.min()))} if len(returns) else {}
    )
    return SceneOutcome(returns, np.zeros(len(returns)), np.ones(len(returns), int), {**found, **measures})


class TestTicks:
    @pytest.mark.parametrize(
        ("low", "high"), [(0, 1), (-3.7, 12.1), (5, 5), (0, 0), (-1e-7, 1e-7), (1e6, 1.1e6), (0.61, 0.64), (-2, -2)]
    )
    def test_they_cover_the_data_in_equal_round_steps(self, low, high):
        found = round_ticks(low, high)
        assert found[0] <= low <= high <= found[-1]
        assert np.allclose(np.diff(found), found[1] - found[0], rtol=1e-6)
        assert 2 <= len(found) <= 8

    def test_worked_example(self):
        assert round_ticks(0.0, 1.0) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        assert tick_words([0.0, 0.2, 0.4]) == ["0.0", "0.2", "0.4"]
        assert tick_words([-2.5, 0.0, 2.5]) == ["−2.5", "0.0", "2.5"]
        assert tick_words([0.0, 10.0]) == ["0", "10"]

    def test_infinity_is_refused(self):
        with pytest.raises(ValueError, match="low and high"):
            round_ticks(0.0, np.inf)

    def test_a_scale_keeps_to_its_axis(self):
        scale = Scale([0.0, 1.0], 100.0, 200.0)
        assert [scale(value) for value in (0.0, 0.5, 1.0, 2.0, -1.0)] == [100, 150, 200, 200, 100]


def test_labels_at_one_place_do_not_overlap():
    labels = Labels((0, 0, 400, 300))
    for _ in range(8):
        labels.put("here, beta -4", 200, 150)
    for one, a in enumerate(labels.taken):
        for b in labels.taken[:one]:
            assert a[2] <= b[0] or a[0] >= b[2] or a[3] <= b[1] or a[1] >= b[3]


def test_labels_of_a_crowded_place_go_where_there_is_room():
    labels = Labels((0, 0, 400, 300))
    labels.keep_free(385, 150, 80)  # nothing is free around the point, near the right edge
    labels.put("here, beta -4", 390, 150)
    labels.put("seeking", 390, 150)
    crowd, a, b = labels.taken
    for one, other in ((a, b), (a, crowd), (b, crowd)):
        assert one[2] <= other[0] or one[0] >= other[2] or one[3] <= other[1] or one[1] >= other[3]


class TestReturns:
    def test_few_values_have_a_bar_each_as_high_as_their_share(self):
        root = parse(draw_returns(outcome([-2, 1, 1, 1]), outcome([-2, -2, 1, 3]), label="averse"))
        bars = of_class(root, "chosen-bar")[1:]  # the first is the legend's
        assert len(bars) == 2
        assert float(bars[1].get("height")) == pytest.approx(3 * float(bars[0].get("height")), rel=1e-3)
        assert len(of_class(root, "neutral-bar")[1:]) == 3

    def test_bars_stand_at_their_values(self):
        root = parse(draw_returns(outcome([0, 1, 4]), outcome([0]), label="averse"))
        middles = [float(bar.get("x")) + float(bar.get("width")) / 2 for bar in of_class(root, "chosen-bar")[1:]]
        assert (middles[2] - middles[0]) == pytest.approx(4 * (middles[1] - middles[0]), rel=1e-3)

    def test_many_values_share_bins(self):
        rng = np.random.default_rng(0)
        chosen, neutral = outcome(rng.normal(5, 1, 500)), outcome(rng.normal(6, 3, 500))
        root = parse(draw_returns(chosen, neutral, label="averse"))
        bars = of_class(root, "chosen-bar")[1:]
        assert 4 <= len(bars) <= 40
        assert len({bar.get("width") for bar in bars}) <= 2  # all alike, up to rounding
        everything = np.concatenate([chosen.returns, neutral.returns])
        assert ticks(root, "x-axis")[0] <= everything.min()
        assert ticks(root, "x-axis")[-1] >= everything.max()

    def test_a_rare_end_is_seen(self):
        root = parse(draw_returns(outcome([-50] + [1] * 999), outcome([1]), label="averse"))
        assert min(float(bar.get("height")) for bar in of_class(root, "chosen-bar")[1:]) >= 2

    def test_marks_say_mean_and_worst_tenth_of_both_each_in_its_row(self):
        root = parse(draw_returns(outcome([0, 2]), outcome([-3, 5]), label="averse"))
        marked = list(of_class(root, "marks")[0].iter("text"))
        assert [node.text for node in marked] == [
            "mean 1",
            "neutral mean 1",
            "worst tenth 0",
            "neutral worst tenth −3",
        ]
        assert len({node.get("y") for node in marked}) == 4
        assert "averse, 2 rollouts: mean 1, worst tenth 0." in next(root.iter("desc")).text

    @pytest.mark.parametrize("returns", [[], [1.0], [0.0] * 9, [np.inf, 1.0], [np.nan]])
    def test_little_to_draw(self, returns):
        with np.errstate(invalid="ignore"):
            given = outcome(returns)
        root = parse(draw_returns(given, given, label="averse"))
        bars = of_class(root, "chosen-bar")[1:]
        assert len(bars) == (1 if np.isfinite(returns).any() else 0)
        assert ("no rollouts yet" in words(root)) == (not bars)

    def test_the_label_is_escaped(self):
        root = parse(draw_returns(outcome([1]), outcome([1]), label="<b>"))
        assert "<b>" in words(root)


def point(level, failures, returns):
    return Point(
        level, Interval(returns, returns - 0.1, returns + 0.1), Interval(failures, failures - 0.01, failures + 0.01)
    )


class TestFrontier:
    line = Frontier("mean-variance", tuple(point(level, 0.1 + level / 100, 2 + level / 8) for level in (-8, -4, 0, 4)))

    def test_points_are_joined_in_the_dials_order_whatever_the_order_given(self):
        back = Frontier("mean-variance", self.line.points[::-1])
        for frontier in (self.line, back):
            root = parse(draw_frontier(frontier, None, parameter="beta"))
            places = [float(pair.split(",")[0]) for pair in of_class(root, "curve")[0].get("points").split()]
            assert places == sorted(places)
            assert len(of_class(root, "point")) == 3
            assert len(of_class(root, "neutral-point")) == 1

    def test_ends_neutral_and_here_are_named(self):
        root = parse(draw_frontier(self.line, self.line.points[1], parameter="beta"))
        assert {"averse", "seeking", "neutral", "here, beta −4"} <= set(words(root))
        assert len(of_class(root, "here")) == 1

    @pytest.mark.parametrize(("at", "said"), [(0, "averse"), (2, "neutral"), (3, "seeking")])
    def test_the_present_point_has_its_own_words_only(self, at, said):
        found = words(parse(draw_frontier(self.line, self.line.points[at], parameter="beta")))
        assert said not in found
        assert len({"averse", "seeking", "neutral"} & set(found)) == 2

    def test_a_rate_is_in_per_cent(self):
        root = parse(draw_frontier(self.line, self.line.points[1], parameter="beta", share=True))
        assert "failures, % of rollouts (left is safer)" in words(root)
        assert ticks(root, "x-axis")[-1] >= 14
        assert "Here, at beta −4, failures 6 %, return 1.5." in next(root.iter("desc")).text
        root = parse(draw_frontier(self.line, self.line.points[1], parameter="beta"))
        assert "failures per rollout (left is safer)" in words(root)
        assert "failures 0.06, return 1.5." in next(root.iter("desc")).text

    def test_the_end_of_alpha_is_neutral_not_seeking(self):
        frontier = Frontier("cvar", (point(0.2, 0.1, 1), point(1.0, 0.2, 2)))
        said = words(parse(draw_frontier(frontier, None, parameter="alpha", neutral=1.0)))
        assert {"averse", "neutral"} <= set(said)
        assert "seeking" not in said

    def test_axes_cover_points_and_intervals(self):
        root = parse(draw_frontier(self.line, point(2, 0.5, 9.0), parameter="beta"))
        x, y = ticks(root, "x-axis"), ticks(root, "y-axis")
        assert x[0] <= 0.01
        assert x[-1] >= 0.51
        assert y[0] <= 0.9
        assert y[-1] >= 9.1

    @pytest.mark.parametrize("count", [0, 1, 2, 5])
    def test_few_points_or_all_at_one_place(self, count):
        frontier = Frontier("entropic", tuple(Point(level, exactly(1.0), exactly(0.0)) for level in range(-count, 0)))
        root = parse(draw_frontier(frontier, None, parameter="beta"))
        assert len(of_class(root, "point")) == count
        assert ("no points yet" in words(root)) == (count == 0)
        here = Point(-1.0, exactly(1.0), exactly(0.0))
        assert len(of_class(parse(draw_frontier(frontier, here, parameter="beta")), "here")) == 1

    def test_unknown_points_are_left_out(self):
        bad = Point(-1.0, exactly(np.nan), exactly(0.1))
        root = parse(draw_frontier(Frontier("entropic", (bad, point(-2, 0.1, 1))), bad, parameter="beta"))
        assert len(of_class(root, "point")) == 1
        assert not of_class(root, "here")


def scores(values, std=None, mean=None, **given):
    values = np.asarray(values, float)
    mean = np.where(np.isfinite(values), values + 1, 0.0) if mean is None else np.asarray(mean, float)
    std = np.full(values.shape, 0.5) if std is None else np.asarray(std, float)
    best = np.unravel_index(np.argmax(np.nan_to_num(values, nan=-np.inf, neginf=-1e300)), values.shape)
    return SceneScores(values, mean, std, **{"action": int(best[1]), "driver": int(best[0]), "seen": True, **given})


class TestScores:
    actions = ("left", "up")

    def test_rows_are_sorted_and_the_winner_is_marked(self):
        given = scores([[1.0, 3.0], [np.nan, -np.inf], [2.0, 0.0]])
        rows = scores_rows(given, ["a", "b", "c"], self.actions)
        assert [row.value for row in rows[:4]] == [3.0, 2.0, 1.0, 0.0]
        assert rows[0] == (0, "a", "up", 4.0, 0.5, 3.0, True)
        assert sum(row.wins for row in rows) == 1
        assert {(row.name, row.action) for row in rows[4:]} == {("policy 1: b", "left"), ("policy 1: b", "up")}

    def test_the_best_few_are_shown_and_the_rest_counted(self):
        values = np.arange(64.0).reshape(32, 2)
        values[:5, 0] = -np.inf
        root = parse(draw_scores(scores(values), [f"n{k}" for k in range(32)], self.actions, families_label="averse"))
        rows = of_class(root, "score-row")
        assert [row.get("data-policy") for row in rows if row.get("data-action") == "0"] == ["31", "30", "29", "28"]
        assert "policies not shown: 23, without a value: 5" in words(root)
        assert "policies not shown: 28" in words(root)
        assert "GPI takes up, by policy 31" in words(root)

    def test_one_row_has_the_star(self):
        root = parse(draw_scores(scores([[1.0, 3.0], [2.0, 0.0]]), ["a", "b"], self.actions, families_label="averse"))
        (row,) = [row for row in of_class(root, "score-row") if of_class(row, "star")]
        assert (row.get("data-policy"), row.get("data-action")) == ("0", "1")

    def test_a_tie_shows_the_driver(self):
        given = scores(np.zeros((40, 2)), action=0, driver=0)  # the lowest action and policy, as GPI has it
        root = parse(draw_scores(given, [""] * 40, self.actions, families_label="averse"))
        (row,) = [row for row in of_class(root, "score-row") if of_class(row, "star")]
        assert (row.get("data-policy"), row.get("data-action")) == ("0", "0")

    def test_the_axis_covers_means_stds_and_values(self):
        given = scores([[-7.0, 3.0]], std=[[4.0, 0.1]], mean=[[5.0, 3.0]])
        found = ticks(parse(draw_scores(given, ["a"], self.actions, families_label="averse")), "x-axis")
        assert found[0] <= -7
        assert found[-1] >= 9

    @pytest.mark.parametrize(
        ("gamma", "said"),
        [(0.95, "return of one policy, discounted (gamma 0.95)"), (1.0, "return of one policy, not discounted")],
    )
    def test_the_axis_says_which_return_it_is(self, gamma, said):
        root = parse(draw_scores(scores([[1.0, 2.0]], gamma=gamma), ["a"], self.actions, families_label="x"))
        assert said in words(root)
        assert said in next(root.iter("desc")).text

    def test_an_unknown_std_has_no_bar(self):
        root = parse(draw_scores(scores([[1.0, 2.0]], std=[[np.nan, 1.0]]), ["a"], self.actions, families_label="x"))
        bars = [len(of_class(row, "std")) for row in of_class(root, "score-row")]
        assert bars == [0, 1]

    def test_nine_actions_show_two_each(self):
        given = scores(np.arange(36.0).reshape(4, 9))
        root = parse(draw_scores(given, list("abcd"), [f"t{a}" for a in range(9)], families_label="averse"))
        assert len(of_class(root, "score-row")) == 18

    @pytest.mark.parametrize("value", [-np.inf, np.nan])
    def test_nothing_learned_says_so(self, value):
        given = scores(np.full((2, 2), value), std=np.full((2, 2), np.nan), seen=False)
        root = parse(draw_scores(given, ["a", "b"], self.actions, families_label="averse"))
        assert words(root) == ["Nothing was learned here."]
        assert len(scores_rows(given, ["a", "b"], self.actions)) == 4

    def test_initial_values_without_a_winner_say_that_nothing_was_learned(self):
        given = scores([[1.0, 2.0]], seen=False)  # a visited state in which a table has only its initial values
        root = parse(draw_scores(given, ["a"], self.actions, families_label="averse"))
        assert "Nothing was learned here." in words(root)
        assert not [word for word in words(root) if word.startswith("GPI takes")]
        assert len(of_class(root, "score-row")) == 2
        assert not of_class(root, "star")

    def test_infinite_values_stay_in_the_picture(self):
        root = parse(draw_scores(scores([[np.inf, 1.0]], mean=[[2.0, 1.0]]), ["a"], self.actions, families_label="x"))
        assert "inf" not in ET.tostring(root, encoding="unicode")
        assert len(of_class(root, "score-row")) == 2

    def test_names_are_escaped(self):
        root = parse(draw_scores(scores([[1.0, 2.0]]), ["<script>"], self.actions, families_label="<i>"))
        assert "<script>" in words(root)
        assert not list(root.iter("script"))


def test_charts_on_one_page_share_no_id():
    def ids(prefix):
        drawn = [
            draw_returns(outcome([1, 2]), outcome([1]), label="a", id_prefix=f"{prefix}r"),
            draw_frontier(TestFrontier.line, None, parameter="beta", id_prefix=f"{prefix}f"),
            draw_scores(scores([[1.0, 2.0]]), ["a"], ("x", "y"), families_label="a", id_prefix=f"{prefix}s"),
        ]
        return [node.get("id") for markup in drawn for node in parse(markup).iter() if node.get("id")]

    every = ids("a") + ids("b")
    assert len(set(every)) == len(every)
