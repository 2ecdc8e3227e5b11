"""The road: windows, cars where they are, those that collided, and the chart of speeds."""

import re

import numpy as np
import pytest
from drawn import of_class, parse, words

from rasf_explorer.drawing.road import Acted, draw_road, moves
from rasf_explorer.scenes.scene import Drive, Road

LANES = ((np.array([[0.0, 0.0], [500.0, 0.0]]), 4.0), (np.array([[0.0, 4.0], [500.0, 4.0]]), 4.0))
LINES = ((np.array([[0.0, -2.0], [500.0, -2.0]]), False), (np.array([[0.0, 2.0], [500.0, 2.0]]), True))
LONG = Road(LANES, LINES, np.array([[310.0, 4.0]]), (120.0, 14.0), (250.0, 2.0), True)
ROUND = Road(LANES, LINES, np.zeros((0, 2)), (100.0, 100.0), (0.0, 0.0), False)


def drive(steps, speed=20.0, collides=False):
    """The own car, one beside it, and one that comes at the second step."""
    t = np.arange(steps + 1.0)
    own = np.stack([100 + speed * t, 0 * t, 0 * t, 0 * t], axis=1)
    other = own + np.array([30.0, 4.0, np.pi / 2, 0.0])
    late = np.where(t[:, None] < 2, np.nan, own + np.array([60.0, 0.0, 0.0, 0.0]))
    cars = np.stack([own, other, late], axis=1)
    cars[-1, :2, 3] = collides
    return Drive(cars, np.array([(5.0, 2.0)] * 3), np.full(steps + 1, speed), ())


SLOW, FAST = drive(8, 20.0), drive(3, 30.0, collides=True)
BOTH = (Acted("chosen", "beta −1", SLOW), Acted("neutral", "risk-neutral", FAST))


def drawn(road=LONG, acted=BOTH, step=0, **given):
    return parse(draw_road(road, acted, step, **given))


def movers(root):
    found = {int(node.get("data-mover")): node for node in root.iter() if node.get("data-mover")}
    assert sorted(found) == list(range(len(found)))
    return [found[i] for i in range(len(found))]


def place(node):
    return [float(part) for part in re.match(r"translate\((\S+) (\S+)\)", node.get("transform")).groups()]


@pytest.mark.parametrize("step", [0, 2, 5])
@pytest.mark.parametrize("road", [LONG, ROUND])
def test_the_picture_has_everything_where_the_player_puts_it(road, step):
    wanted, found = moves(road, [SLOW, FAST], step), movers(drawn(road, step=step))
    assert len(found) == len(wanted) == 2 * (1 + 3) + 1
    for (x, y, angle, crashed), node in zip(wanted, found, strict=True):
        assert (node.get("display") == "none") == np.isnan(x)
        if not np.isnan(x):
            assert place(node) == pytest.approx([x, y], abs=0.006)
            assert ("rotate" in node.get("transform")) == (angle != 0)
        assert ("crashed" in node.get("class").split()) == (crashed == 1)


def test_a_window_follows_the_car_on_a_long_road_and_stays_elsewhere():
    windows = [moves(LONG, [SLOW], step)[0] for step in (0, 3)]
    np.testing.assert_allclose(windows[0][0] - windows[1][0], 60.0)
    np.testing.assert_allclose(moves(ROUND, [SLOW], 3)[0], [50.0, 50.0, 0.0, 0.0])
    own = moves(LONG, [SLOW], 3)[1, :2] + moves(LONG, [SLOW], 3)[0, :2]  # in the window
    assert 0 < own[0] < LONG.window[0] / 2
    assert own[1] == LONG.window[1] / 2 - 2.0


def test_who_has_ended_stays_where_it_was():
    np.testing.assert_array_equal(moves(LONG, [FAST], 3)[:-1], moves(LONG, [FAST], 7)[:-1])
    late, later = (movers(drawn(step=step))[-1] for step in (3, 7))
    assert place(later)[0] > place(late)[0]  # the mark on the chart goes on


def test_it_says_in_words_how_it_ends():
    root = drawn()
    assert {"beta −1", "risk-neutral", "no collision in 8 steps, mean 20 m/s"} <= set(words(root))
    assert "collision at step 3, mean 30 m/s" in words(root)
    assert "risk-neutral: collision at step 3, mean 30 m/s." in next(root.iter("desc")).text


def test_lanes_lines_obstacles_and_what_the_legend_needs():
    root = drawn()
    assert len(of_class(root, "lane")) == 4
    assert len(of_class(root, "lane-line")) == 4
    assert len(of_class(root, "broken")) == 2
    assert {"obstacle", "collided", "other car", "own car, chosen risk"} <= set(words(root))
    alone = drawn(ROUND, [Acted("chosen", "beta −1", SLOW)])
    assert not {"obstacle", "collided", "own car, risk-neutral"} & set(words(alone))


def test_speeds_are_drawn_and_a_collision_is_marked():
    chosen, neutral = of_class(drawn(), "speed")
    assert len(chosen.get("points").split()) == 9
    assert len(neutral.get("points").split()) == 4
    assert len(of_class(drawn(), "failure")) == 1
    steps = of_class(drawn(acted=[Acted("chosen", "", drive(11))]), "x-axis")[0]
    assert [text.text for text in steps.iter("text")][:3] == ["0", "2", "4"]


@pytest.mark.parametrize("road", [LONG, ROUND])
def test_before_anyone_has_acted_there_is_room_for_it(road):
    nobody = [Acted("chosen", "beta −1", None), Acted("neutral", "risk-neutral", None)]
    root = drawn(road, nobody)
    assert words(root).count("computing ...") == 2
    assert not movers(root)
    half = drawn(road, [BOTH[0], nobody[1]])
    assert len(movers(half)) == 1 + 3 + 1
    assert len(of_class(half, "speed")) == 1


@pytest.mark.parametrize("road", [LONG, ROUND])
def test_windows_do_not_meet(road):
    boxes = []
    for clip in drawn(road).iter("clipPath"):
        x, y, wide, deep = (float(clip[0].get(name)) for name in ("x", "y", "width", "height"))
        assert x >= 0
        assert x + wide <= 560
        boxes.append((x, y, x + wide, y + deep))
    (left, top, right, bottom), other = boxes
    assert other[0] >= right or other[1] >= bottom
    assert (right - left) / (bottom - top) == pytest.approx(road.window[0] / road.window[1], rel=0.01)


def test_two_roads_on_one_page_share_no_id():
    every = [node.get("id") for prefix in "ab" for node in drawn(id_prefix=prefix).iter() if node.get("id")]
    assert len(set(every)) == len(every)
