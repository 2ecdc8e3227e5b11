"""The chart of vector actions: bars from the zero line, places, the chosen one, and many policies or entries."""

import numpy as np
import pytest
from drawn import of_class, parse, words

from rasf_explorer.drawing.actions import draw_actions
from rasf_explorer.scenes.scene import Proposals


def proposals(actions, low=-1.0, high=1.0, entries=()):
    actions = np.asarray(actions, float)
    low, high = (np.broadcast_to(np.asarray(end, float), actions.shape[1:]) for end in (low, high))
    return Proposals(actions, low, high, entries)


def frames(root):
    """For each policy: its bars, its zero lines and its frame, as numbers."""
    found = {}
    for group in of_class(root, "proposal"):
        (frame,) = of_class(group, "frame")
        bars = [[float(bar.get(name)) for name in ("y", "height")] for bar in of_class(group, "action-bar")]
        zeros = [float(line.get("d").split("h")[0].split()[1]) for line in of_class(group, "zero")]
        found[int(group.get("data-policy"))] = bars, zeros, [float(frame.get(name)) for name in ("y", "height")]
    return found


def test_a_bar_reaches_from_the_zero_line_to_the_value():
    root = parse(draw_actions(proposals([[0.5, -1.0], [0.0, 0.25]]), 0))
    for policy, action in enumerate([[0.5, -1.0], [0.0, 0.25]]):
        bars, zeros, (top, height) = frames(root)[policy]
        for (y, long), zero, value in zip(bars, zeros, action, strict=True):
            assert zero == pytest.approx(top + height / 2, abs=0.01)
            assert long == pytest.approx(abs(value) * height / 2, abs=0.01)
            assert (y if value > 0 else y + long) == pytest.approx(zero - value * height / 2, abs=0.01)


def test_bounds_without_zero_have_their_zero_line_at_the_nearest_bound():
    root = parse(draw_actions(proposals([[3.0, -4.0, 1.0]], [2.0, -4.0, -1.0], [4.0, -2.0, 3.0]), None))
    bars, zeros, (top, height) = frames(root)[0]
    np.testing.assert_allclose(zeros, [top + height, top, top + 0.75 * height], atol=0.01)
    np.testing.assert_allclose([long for _, long in bars], [0.5 * height, height, 0.25 * height], atol=0.01)
    assert "Frames reach from the low to the high bound of an entry, with a line at 0" in words(root)


def test_the_chosen_action_is_marked_and_said():
    root = parse(draw_actions(proposals([[0.1], [0.2], [0.3]], entries=("push",)), 1))
    (group,) = [group for group in of_class(root, "proposal") if of_class(group, "star")]
    assert group.get("data-policy") == "1"
    assert "chosen" in group.get("class")
    assert "GPI takes the action of policy 1: push 0.2." in next(root.iter("desc")).text
    assert "Bars: push" in words(root)
    assert not of_class(parse(draw_actions(proposals([[0.1]]), None)), "star")


@pytest.mark.parametrize("entries", [1, 2, 6, 17, 200])
def test_frames_stay_in_the_picture_and_apart(entries):
    root = parse(draw_actions(proposals(np.zeros((9, entries))), 4))
    _, _, width, height = map(float, root.get("viewBox").split())
    places = []
    for group in of_class(root, "proposal"):
        x, y = map(float, group.get("transform")[10:-1].split())
        (frame,) = of_class(group, "frame")
        left, top, wide, high = (float(frame.get(name)) for name in ("x", "y", "width", "height"))
        places.append((x + left, y + top, x + left + wide, y + top + high))
        assert x + left >= 0
        assert x + left + wide <= width
        assert y + top + high <= height
    for i, one in enumerate(places):
        for other in places[:i]:
            assert one[0] >= other[2] or other[0] >= one[2] or one[1] >= other[3] or other[1] >= one[3]


def test_many_policies_and_entries_are_counted_and_the_chosen_one_is_kept():
    root = parse(draw_actions(proposals(np.zeros((100, 200))), 77))
    assert len(frames(root)) == 40
    assert 77 in frames(root)
    assert "Bars: the first 56 of 200 entries" in words(root)
    assert "Frames reach from −1 to 1, with a line at 0; policies not shown: 60" in words(root)


def test_values_beyond_the_bounds_end_at_the_frame():
    ((y, long),), _, (top, _) = frames(parse(draw_actions(proposals([[1.5]]), 0)))[0]
    assert y == pytest.approx(top)
    assert long > 0


def test_names_are_escaped():
    root = parse(draw_actions(proposals([[0.1]], entries=("<script>",)), 0))
    assert "Bars: <script>" in words(root)
    assert not list(root.iter("script"))
