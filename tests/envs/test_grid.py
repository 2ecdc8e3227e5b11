import numpy as np
import pytest

import rasf
from rasf.envs.grid import Grid


def test_moves_and_walls():
    grid = Grid("S#.\n..G")
    assert [grid.move(0, a) for a in range(4)] == [0, 0, 0, 3]
    assert [grid.move(4, a) for a in range(4)] == [3, 4, 5, 4]


def test_features_count_the_step_the_goal_and_each_class_of_trap():
    grid = Grid("SXYG.")
    assert grid.features(4).tolist() == [1, 0, 0, 0]
    assert grid.features(3).tolist() == [1, 1, 0, 0]
    assert grid.features(1).tolist() == [1, 0, 1, 0]
    assert grid.features(2).tolist() == [1, 0, 0, 1]


def test_reaching_the_goal_nets_19():
    grid = Grid()
    assert grid.features(grid.cells.index("G")) @ grid.task((20, 0)) == 19


def test_slip_spreads_over_all_four_moves():
    mdp = Grid("S..\n...\n..G", slip=0.2).mdp()
    row = slice(mdp.indptr[4 * 4 + 2], mdp.indptr[4 * 4 + 3])  # the centre, right
    chance = dict(zip(mdp.successor[row].tolist(), mdp.probability[row].tolist(), strict=True))
    assert chance == pytest.approx({3: 0.05, 1: 0.05, 5: 0.85, 7: 0.05})


def test_a_corner_keeps_the_mass_of_both_bumps():
    mdp = Grid("S..\n...\n..G", slip=0.2).mdp()
    row = slice(mdp.indptr[0], mdp.indptr[1])  # the start in the corner, left
    chance = dict(zip(mdp.successor[row].tolist(), mdp.probability[row].tolist(), strict=True))
    assert chance == pytest.approx({0: 0.9, 1: 0.05, 3: 0.05})


def test_without_slip_the_shortest_way_is_planned():
    grid = Grid("S.\n.G", slip=0.0)
    best = rasf.plan(grid.mdp(), grid.task(()))
    assert best.value[grid.start] == pytest.approx(20 - 2)
    assert len(grid.route(best.policy)) == 3


def test_route_stops_at_a_loop():
    grid = Grid("S.\n.G", slip=0.0)
    assert grid.route(np.array([2, 0, 0, 0])) == [0, 1, 0]


@pytest.mark.parametrize(
    ("layout", "slip", "words"),
    [
        ("S.\n.", 0.2, "equal length"),
        ("..\n.G", 0.2, "exactly one start"),
        ("SS\n.G", 0.2, "exactly one start"),
        ("S.\n..", 0.2, "a goal"),
        ("S?\n.G", 0.2, r"got '\?'"),
        ("S.\n.G", 1.5, "slip must be"),
    ],
)
def test_bad_maps_are_refused(layout, slip, words):
    with pytest.raises(ValueError, match=words):
        Grid(layout, slip)


def test_a_task_needs_one_cost_per_class():
    with pytest.raises(ValueError, match="X, Y"):
        Grid().task((1.0,))
