"""The arm: places, targets, circles, the objective, the moving parts."""

import numpy as np
import pytest
from drawn import of_class, parse, words

from rasf_explorer.drawing.arm import WIDTH, draw_arm, from_view, to_view
from rasf_explorer.scenes.scene import Arm, Field, Posture

ARM = Arm(np.array([[0.14, 0.0], [0.0, 0.14], [-0.22, 0.0], [0.1, 0.1]]), (0, 2), 0.06, (0.1, 0.11), 2)
TIPS = np.array([[0.1, 0.0], [0.12, 0.0], [0.1, 0.02], [0.12, 0.02]])
FIELD = Field(TIPS, np.array([1.0, 10.0, 5.5, np.nan]), np.array([0, 1, 0, 0]), 0.02)


def drawn(field=FIELD, **given):
    return parse(draw_arm(ARM, field, **given))


def without_legend(root):
    for legend in of_class(root, "legend"):
        root.remove(legend)
    return root


def test_y_points_up_and_the_way_back_is_exact():
    shoulder, right, up = to_view(ARM, [(0.0, 0.0), (0.1, 0.0), (0.0, 0.1)])
    assert shoulder[0] == WIDTH / 2
    assert right[0] > shoulder[0]
    assert right[1] == shoulder[1]
    assert up[1] < shoulder[1]
    assert shoulder[1] - up[1] == pytest.approx(right[0] - shoulder[0])
    places = np.random.default_rng(0).uniform(-0.2, 0.2, (5, 3, 2))
    np.testing.assert_allclose(from_view(ARM, to_view(ARM, places)), places, atol=1e-12)


def test_everything_has_room():
    root = without_legend(drawn())
    height = float(root.get("viewBox").split()[3])
    for circle in root.iter("circle"):
        x, y, r = (float(circle.get(name)) for name in ("cx", "cy", "r"))
        assert r <= x <= WIDTH - r
        assert r <= y <= height - r


def test_targets_are_filled_or_hollow_and_numbered():
    root = without_legend(drawn())
    assert [len(of_class(root, kind)) for kind in ("trained", "new", "risky")] == [2, 2, 2]
    assert {"0", "1", "2", "3"} <= set(words(root))
    assert len(of_class(root, "trap")) == 2  # a warning on each circle


def test_an_objective_that_is_the_same_everywhere_has_no_peak_and_no_dark_colour():
    root = drawn(Field(TIPS, np.zeros(4), np.zeros(4, int), 0.02))
    assert [path.get("fill") for path in of_class(root, "heat")[0].iter("path")] == ["var(--h0)"]
    assert not of_class(root, "peak")
    assert "Objective 0 everywhere" in words(root)
    assert "largest objective" not in words(root)
    assert "The objective is 0 everywhere." in next(root.iter("desc")).text
    assert of_class(drawn(), "peak")


def test_circles_are_as_large_as_they_are():
    (first, _) = of_class(without_legend(drawn()), "risky")
    edge = to_view(ARM, ARM.targets[0] + (ARM.radius, 0.0))
    assert float(first.get("cx")) + float(first.get("r")) == pytest.approx(edge[0], abs=0.02)


def test_the_parts_that_move():
    elbow, tip = (0.0, 0.1), (0.11, 0.1)
    root = drawn(rollout=(np.array([(0.1, 0.0), elbow]), np.array([(0.21, 0.0), tip]), np.zeros(2, int)), step=1)
    (link1,), (link2,), (hand,) = (of_class(root, name) for name in ("link1", "link2", "tip"))
    ends = [[float(link.get(name)) for name in ("x1", "y1", "x2", "y2")] for link in (link1, link2)]
    np.testing.assert_allclose(ends[0], [*to_view(ARM, (0, 0)), *to_view(ARM, elbow)], atol=0.01)
    np.testing.assert_allclose(ends[1], [*to_view(ARM, elbow), *to_view(ARM, tip)], atol=0.01)
    np.testing.assert_allclose([float(hand.get("cx")), float(hand.get("cy"))], to_view(ARM, tip), atol=0.01)


def test_without_a_rollout_the_arm_is_stretched():
    (hand,) = of_class(drawn(), "tip")
    np.testing.assert_allclose([float(hand.get("cx")), float(hand.get("cy"))], to_view(ARM, (0.21, 0.0)), atol=0.01)


def test_heat_has_a_square_for_every_known_tip():
    heat = of_class(drawn(), "heat")[0]
    squares = {int(path.get("data-step")): path.get("d").count("z") for path in heat}
    assert squares == {0: 1, 4: 1, 8: 1}
    assert {"1", "10"} <= set(words(drawn()))
    assert not of_class(drawn(field=None), "heat")


def test_the_peak_is_marked():
    root = drawn()
    x, y = to_view(ARM, TIPS[1])
    marked = without_legend(root)
    start = of_class(marked, "peak")[0].get("d")[1:].split("h")[0].split()
    np.testing.assert_allclose([float(part) for part in start], [x - 8, y], atol=0.01)
    assert "The largest objective is 10, with the tip at (0.12, 0), by policy 1." in next(root.iter("desc")).text


@pytest.mark.parametrize("value", [[2.0] * 4, [np.nan] * 4, [-np.inf, 1.0, 1.0, 1.0]])
def test_fields_that_say_little(value):
    field = Field(TIPS, np.array(value), np.zeros(4, int), 0.02)
    squares = sum(path.get("d").count("z") for path in drawn(field=field).iter("path") if path.get("data-step"))
    assert squares == np.isfinite(value).sum()


def test_trail_and_failures():
    trail = np.array([[0.1, 0.0], [0.1, 0.05], [0.1, 0.1]])
    root = without_legend(drawn(rollout=(trail, trail, np.array([0, 1, 0]))))
    (line,) = of_class(root, "trail")
    places = np.array([pair.split(",") for pair in line.get("points").split()], float)
    np.testing.assert_allclose(places, to_view(ARM, trail), atol=0.01)
    assert len(of_class(root, "failure")) == 1
    assert of_class(drawn(), "trail")[0].get("points") == ""


def test_the_target_that_counts_is_ringed_and_named():
    root = drawn(target=2)
    x, y = to_view(ARM, ARM.targets[2])
    ring = of_class(without_legend(root), "goal-ring")[0]
    assert (float(ring.get("cx")), float(ring.get("cy"))) == pytest.approx((x, y), abs=0.01)
    assert "Target 2 has the largest weight." in next(root.iter("desc")).text


def test_a_selected_place_has_a_frame():
    x, y = to_view(ARM, (0.05, 0.1))
    for frame in (of_class(drawn(selected=posture(tip=(0.05, 0.1))), kind)[0] for kind in ("spot", "spot-edge")):
        left, top, side = (float(frame.get(name)) for name in ("x", "y", "width"))
        assert (left + side / 2, top + side / 2) == pytest.approx((x, y), abs=0.01)
    assert not of_class(drawn(), "spot")


def posture(torques=(0.0, 0.0), elbow=(0.1, 0.0), tip=(0.1, 0.11)):
    return Posture(np.array(elbow), np.array(tip), np.array(torques))


def test_a_selected_posture_has_a_line_through_its_joints():
    (line,) = of_class(drawn(selected=posture()), "posture")
    places = np.array([pair.split(",") for pair in line.get("points").split()], float)
    np.testing.assert_allclose(places, to_view(ARM, [(0, 0), (0.1, 0), (0.1, 0.11)]), atol=0.01)


def turned(path):
    """Centre, angle and ends of an arc, which is not longer than a circle, read by SVG's rules."""
    start, rest = path.get("d")[1:].split("A")
    radius, _, _, large, clockwise, *end = rest.split()
    start, end, radius = np.array(start.split(), float), np.array(end, float), float(radius)
    half = (end - start) / 2
    off = np.array([-half[1], half[0]]) / np.linalg.norm(half)
    off *= np.sqrt(max(radius**2 - half @ half, 0)) * (1 if large != clockwise else -1)
    centre = start + half + off
    angle = 2 * np.arcsin(min(np.linalg.norm(half) / radius, 1))
    angle = 2 * np.pi - angle if large == "1" else angle
    return centre, angle if clockwise == "1" else -angle, start


@pytest.mark.parametrize("torque", [1.0, 0.4, -0.1, -0.8, -1.0])
def test_a_torque_is_an_arc_around_its_joint_in_proportion_to_the_torque(torque):
    (arc,) = of_class(without_legend(drawn(selected=posture((0.0, torque)))), "torque")
    centre, angle, start = turned(arc)
    elbow = to_view(ARM, (0.1, 0.0))
    np.testing.assert_allclose(centre, elbow, atol=0.1)
    assert angle == pytest.approx(-torque * 1.5 * np.pi, abs=0.02)  # anticlockwise is negative where y points down
    assert start[0] == pytest.approx(elbow[0], abs=0.01)  # the arc begins on the link to the tip, which points up
    assert start[1] < elbow[1]


def test_each_joint_has_the_arc_of_its_torque():
    root = drawn(selected=posture((-0.6, 0.3)))
    assert "torque of GPI's choice" in words(root)
    assert "GPI's torques are −0.6 on the shoulder and 0.3 on the elbow." in next(root.iter("desc")).text
    found = [turned(arc) for arc in of_class(without_legend(root), "torque")]
    np.testing.assert_allclose([one[0] for one in found], to_view(ARM, [(0, 0), (0.1, 0)]), atol=0.1)
    assert [np.sign(one[1]) for one in found] == [1, -1]
    assert len(of_class(root, "torque-head")) == 2


def test_no_torque_has_no_arc():
    root = drawn(selected=posture((0.0, 0.01)))
    assert not of_class(root, "torque")
    assert "torque of GPI's choice" not in words(root)


def test_two_arms_on_one_page_share_no_id():
    every = [node.get("id") for prefix in "ab" for node in drawn(id_prefix=prefix).iter() if node.get("id")]
    assert len(set(every)) == len(every)
