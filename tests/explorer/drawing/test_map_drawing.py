"""Maps: cells, arrows, drivers, visits, paths, words."""

import re

import numpy as np
import pytest
from drawn import of_class, parse, words

from rasf_explorer.drawing import palette
from rasf_explorer.drawing.map import centre, draw_map, side
from rasf_explorer.scenes.scene import Layout, MapPolicy

#   S . 1
#   # T G
SYMBOLS = "S.1#TG"
LAYOUT = Layout(
    2, 3, SYMBOLS, {"S": "start", "G": "goal", "#": "wall", "T": "trap", "1": "coin"}, 0, (3,), (4,), (5,), (2,)
)
POLICY = MapPolicy(np.array([2, 0, 3, -1, 1, -1]), np.array([0, 1, 1, -1, 0, -1]))
NAMES = ["careful", "bold"]


def drawn(**given):
    return parse(draw_map(LAYOUT, POLICY, **{"names": NAMES, **given}))


def cells(root):
    return {int(node.get("data-cell")): node for node in of_class(root, "cell")}


def all_ids(root):
    return [node.get("id") for node in root.iter() if node.get("id")]


def open_layout(rows, columns, **given):
    n = rows * columns
    return Layout(rows, columns, "S" + "." * (n - 1), {"S": "start"}, 0, (), (), (), **{"objects": (), **given})


def test_every_cell_is_there_once_and_walls_are_no_cells():
    root = drawn()
    assert sorted(cells(root)) == [0, 1, 2, 4, 5]
    assert len(of_class(root, "cell")) == 5
    assert len(of_class(root, "wall-cell")) == 1


def test_cells_carry_action_and_driver():
    found = cells(drawn())
    assert [found[cell].get("data-action") for cell in (0, 1, 2, 4, 5)] == ["right", "left", "down", "up", None]
    assert [found[cell].get("data-driver") for cell in (0, 1, 2, 4, 5)] == ["0", "1", "1", "0", None]


def arrow_direction(root, cell):
    """Where the arrow's tip points, worked out from the shape and the rotation."""
    use = next(cells(root)[cell].iter("use"))
    shape = next(node for node in root.iter("polygon") if node.get("id") == use.get("href")[1:])
    corners = np.array([pair.split(",") for pair in shape.get("points").split()], float)
    angle = np.radians(float(re.fullmatch(r"rotate\((-?\d+)\)", use.get("transform"))[1]))
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    tip = corners[np.argmax(corners[:, 0])]  # the shape points right
    return tuple(np.sign((turn @ tip).round(6)).astype(int))


def test_arrows_point_the_right_way():
    root = drawn()
    assert {cell: arrow_direction(root, cell) for cell in (0, 1, 2, 4)} == {
        0: (1, 0),
        1: (-1, 0),
        2: (0, 1),
        4: (0, -1),
    }
    assert not list(cells(root)[5].iter("use"))


def test_centres_are_where_the_cells_are():
    root = drawn()
    for cell, node in cells(root).items():
        assert node.get("transform") == "translate({:g} {:g})".format(*(round(at, 2) for at in centre(LAYOUT, cell)))
    (x0, y0), (x4, y4) = centre(LAYOUT, 0), centre(LAYOUT, 4)
    assert (x4 - x0, y4 - y0) == pytest.approx((side(LAYOUT), side(LAYOUT)))


def test_the_legend_names_drivers_and_symbols():
    root = drawn()
    assert len(of_class(root, "driver")) == 2
    assert {"policy 0", "policy 1", "careful", "bold", "2 cells", "start", "goal", "wall", "trap", "coin"} <= set(
        words(root)
    )
    fills = {node.get("fill") for node in root.iter("rect") if (node.get("fill") or "").startswith("url")}
    assert {fill[5:-1] for fill in fills} == {f"map-look{look}" for look in (0, 1)}
    assert set(all_ids(root)) >= {fill[5:-1] for fill in fills}


def test_many_drivers_are_seven_and_others():
    driver = np.repeat(np.arange(20), np.arange(20, 0, -1))
    layout = open_layout(1, len(driver))
    root = parse(draw_map(layout, MapPolicy(np.zeros_like(driver), driver), names=[f"n{k}" for k in range(20)]))
    lines = [[node.text for node in line.iter("text")] for line in of_class(root, "driver")]
    assert len(lines) == palette.DRIVERS + 1
    assert lines[0] == ["policy 0", "n0", "20 cells"]
    assert lines[-1] == ["13 others", lines[-1][1], f"{sum(range(1, 14))} cells"]


def test_collected_objects_are_hollow():
    assert not of_class(drawn(context=0), "collected")
    root = drawn(context=1)
    assert len(of_class(root, "collected")) == len(of_class(cells(root)[2], "collected")) == 1


def test_several_kinds_of_traps_carry_their_letters():
    layout = Layout(1, 3, "SXY", {"X": "trap X", "Y": "trap Y"}, 0, (), (1, 2), (), ())
    root = parse(draw_map(layout, MapPolicy(np.array([0, -1, -1]), np.array([0, -1, -1])), names=["a"]))
    assert [node.text for node in of_class(root, "trap-letter")][:2] == ["X", "Y"]
    assert of_class(drawn(), "trap-letter")[0].text == "!"


def test_visits_are_heat_with_numbers_on_the_largest():
    visits = np.array([1.0, 4.0, 0.3, 0.0, 0.02, 0.0])
    root = drawn(visits=visits)
    fills = {cell: next(node.iter("rect")).get("fill") for cell, node in cells(root).items()}
    assert fills[1] == "var(--h8)"
    assert fills[0] == "var(--h4)"  # a quarter of the largest, half the scale of roots
    assert fills[5] == "var(--h0)"
    assert "4.0" in [node.text for node in cells(root)[1].iter("text")]
    assert {"0", "4"} <= {node.text for node in of_class(root, "tick")}
    assert not of_class(root, "driver")
    assert not of_class(drawn(drivers=False), "driver")
    faint = {cell for cell, node in cells(root).items() if of_class(node, "faint")}
    assert faint == set()
    assert of_class(cells(drawn(visits=visits * 0))[1], "faint")


def test_of_equal_visits_all_carry_their_number_or_none():
    def numbered(visits):
        n = len(visits)
        root = parse(draw_map(
            open_layout(1, n), MapPolicy(np.full(n, 2), np.zeros(n, int)), names=["a"],
            visits=np.asarray(visits, float),
        ))  # fmt: skip
        return {cell: [node.text for node in found.iter("text")] for cell, found in cells(root).items() if cell}

    many = numbered([1.0, 3.0, 2.0, *[1.02, 1.01] * 6])  # the last twelve all read 1.0
    assert many[1] == ["3.0"]
    assert many[2] == ["2.0"]
    assert not any(many[cell] for cell in range(3, 15))
    few = numbered([1.0, *[1.0] * 8])
    assert all(few[cell] == ["1.0"] for cell in range(1, 9))


def test_a_path_has_an_agent_at_its_step():
    path = np.array([0, 1, 2, 5])
    root = drawn(path=path, step=2)
    (agent,) = of_class(root, "agent")
    assert (agent.get("data-x"), agent.get("data-y")) == ("2", "0")
    assert agent.get("transform") == "translate({:g} {:g})".format(*(round(at, 2) for at in centre(LAYOUT, 2)))
    assert len(of_class(root, "path")) == len(of_class(root, "ahead")) == 1
    (whole,) = of_class(drawn(path=path), "path")
    assert of_class(drawn(path=path), "agent")[0].get("data-x") == "0"
    first, last = (tuple(map(float, whole.get("points").split()[at].split(","))) for at in (0, -1))
    for place, cell in ((first, 0), (last, 5)):
        assert np.hypot(*np.subtract(place, centre(LAYOUT, cell))) < side(LAYOUT) / 4
    assert not of_class(drawn(), "agent")


def test_going_and_coming_back_are_two_lines():
    root = drawn(path=np.array([0, 1, 1, 0]))
    heights = {pair.split(",")[1] for pair in of_class(root, "path")[0].get("points").split()}
    assert len(heights) == 2


def test_a_path_of_one_cell_is_an_agent_only():
    root = drawn(path=np.array([0]), step=5)
    assert len(of_class(root, "agent")) == 1
    assert not of_class(root, "path")


def test_the_selected_cell_is_framed():
    (frame,) = [node for node in drawn(selected=4).iter() if node.get("data-selected")]
    box = next(frame.iter("rect"))
    x, y = centre(LAYOUT, 4)
    assert float(box.get("x")) == pytest.approx(x - side(LAYOUT) / 2, abs=0.01)
    assert float(box.get("y")) == pytest.approx(y - side(LAYOUT) / 2, abs=0.01)


def test_names_are_escaped():
    root = drawn(names=["<script>x</script>", '"&'])
    assert not list(root.iter("script"))
    assert "<script>x</script>" in words(root)


def test_two_maps_on_one_page_share_no_id():
    given = {"path": np.array([0, 1]), "selected": 1}
    first, second = drawn(id_prefix="a", **given), drawn(id_prefix="b", **given)
    ids = all_ids(first) + all_ids(second)
    assert len(set(ids)) == len(ids)
    used = re.findall(r"url\(#([^)]*)\)|href=\"#([^\"]*)\"", draw_map(LAYOUT, POLICY, names=NAMES, id_prefix="a"))
    assert {one or other for one, other in used} <= set(all_ids(first))


def test_cells_nobody_knows_say_so():
    root = parse(draw_map(LAYOUT, MapPolicy(np.full(6, -1), np.full(6, -1)), names=NAMES))
    assert "never visited in training" in words(root)
    assert any(said.startswith("none") for said in words(root))
    assert "never visited in training" not in words(drawn())


def test_the_policy_is_not_changed():
    action = POLICY.action.copy()
    drawn(visits=np.ones(6))
    assert (POLICY.action == action).all()


def test_the_description_has_the_main_facts():
    said = next(drawn(path=np.array([0, 1])).iter("desc")).text
    assert "At the start GPI takes right, by policy 0." in said
    assert "policy 1 (bold) 2 cells" in said
    assert "A rollout of 1 step that ends at row 1, column 2." in said


def test_a_full_map_is_small():
    n = 169
    rng = np.random.default_rng(0)
    policy = MapPolicy(rng.integers(0, 4, n), rng.integers(0, 30, n))
    names = [f"class 1 +{k}, class 2 -1, class 3 +1, goal +1, failure -2; mean-variance -4" for k in range(30)]
    path = rng.integers(0, n, 200)
    layout = open_layout(13, 13)
    assert len(draw_map(layout, policy, names=names, path=path, selected=3)) < 80_000
    assert len(draw_map(layout, policy, names=names, visits=rng.random(n))) < 80_000
