import numpy as np
import pytest

from rasf.envs.four_room import PAPER_MAP, FourRoom, step

LEFT, UP, RIGHT, DOWN = range(4)
NOTHING = -1


@pytest.fixture(params=["compiled", "plain"])
def move(request):
    return step if request.param == "compiled" else step.py_func


def walk(move, rooms, actions, draw=0.5):
    """Cell, flags, feature and end after each action from the start."""
    world, seen = rooms.world(), []
    cell, flags = world.start, 0
    for action in actions:
        cell, flags, feature, terminated = move(world, cell, flags, action, draw)
        seen.append((int(cell), int(flags), int(feature), bool(terminated)))
    return seen


def test_the_papers_map():
    rooms = FourRoom()
    cells = rooms.cells
    assert rooms.shape == (13, 13)
    counts = {symbol: cells.count(symbol) for symbol in sorted(set(cells))}
    assert counts == {".": 120, "1": 6, "2": 6, "3": 6, "G": 1, "S": 1, "T": 12, "X": 17}
    assert cells.index("S") == 12 * 13
    assert cells.index("G") == 12
    assert (rooms.trap_probability, rooms.step_limit) == (0.05, 200)
    assert (rooms.n_classes, rooms.n_features) == (3, 5)


def test_the_world_of_the_papers_map():
    world = FourRoom().world()
    assert world.start == 156
    assert world.destination.shape == (169, 4)
    assert np.bincount(world.class_of).tolist() == [6, 6, 6]
    assert np.flatnonzero(world.object_at >= 0).tolist() == [i for i, s in enumerate(FourRoom().cells) if s in "123"]
    assert world.object_at[world.object_at >= 0].tolist() == list(range(18))
    assert np.bincount(world.kind).tolist() == [169 - 13, 12, 1]


def test_moves_are_left_up_right_down(move):
    rooms = FourRoom("...\n.S.\n..G")
    assert [walk(move, rooms, [action])[0][0] for action in (LEFT, UP, RIGHT, DOWN)] == [3, 1, 5, 7]


def test_walls_and_edges_stop_the_agent(move):
    assert walk(move, FourRoom("SX\n.G"), [LEFT, UP, RIGHT]) == [(0, 0, NOTHING, False)] * 3
    # an edge does not wrap to the next row
    assert walk(move, FourRoom(".S\n.G"), [RIGHT]) == [(1, 0, NOTHING, False)]
    assert walk(move, FourRoom("G.\nS."), [LEFT, DOWN]) == [(2, 0, NOTHING, False)] * 2


def test_an_object_is_collected_once(move):
    seen = walk(move, FourRoom("S2.1G"), [RIGHT, LEFT, RIGHT, RIGHT, RIGHT, LEFT])
    assert [flags for _, flags, _, _ in seen] == [1, 1, 1, 1, 3, 3]
    assert [feature for _, _, feature, _ in seen] == [1, NOTHING, NOTHING, NOTHING, 0, NOTHING]


def test_bumping_on_a_collected_object_gives_nothing(move):
    assert walk(move, FourRoom("S1\n.G"), [RIGHT, RIGHT])[1] == (1, 1, NOTHING, False)


@pytest.mark.parametrize(
    ("probability", "draw", "fires"), [(0.05, 0.049, 1), (0.05, 0.05, 0), (0, 0, 0), (1, 0.999, 1)]
)
def test_a_trap_fires_below_its_probability(move, probability, draw, fires):
    expected = (1, 0, 1, True) if fires else (1, 0, NOTHING, False)
    assert walk(move, FourRoom("STG", probability), [RIGHT], draw) == [expected]


def test_staying_on_a_trap_can_fire(move):
    rooms = FourRoom("ST\n.G")
    world = rooms.world()
    assert move(world, 0, 0, RIGHT, 0.9) == (1, 0, NOTHING, False)
    assert move(world, 1, 0, RIGHT, 0.9) == (1, 0, NOTHING, False)
    assert move(world, 1, 0, RIGHT, 0.01) == (1, 0, 1, True)
    assert move(world, 1, 0, LEFT, 0.01) == (0, 0, NOTHING, False)


def test_the_goal_ends_the_episode(move):
    assert walk(move, FourRoom("S1G"), [RIGHT, RIGHT]) == [(1, 1, 0, False), (2, 1, 1, True)]


def test_48_objects_keep_a_flag_each():
    seen = walk(step, FourRoom("S" + "12" * 24 + "G"), [RIGHT] * 49)
    assert [flags for _, flags, _, _ in seen] == [2 ** (i + 1) - 1 for i in range(48)] + [2**48 - 1]
    assert [feature for _, _, feature, _ in seen] == [0, 1] * 24 + [2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layout": ""}, "equal length"),
        ({"layout": "S..\n.G"}, "equal length"),
        ({"layout": "S?G"}, r"1 to 9, got '\?'"),
        ({"layout": "S0G"}, "1 to 9, got '0'"),
        ({"layout": "S.g"}, "1 to 9, got 'g'"),
        ({"layout": "..G"}, "exactly one start S, got 0"),
        ({"layout": "S.S\n..G"}, "exactly one start S, got 2"),
        ({"layout": "S.."}, "must have a goal G"),
        ({"layout": "S" + "1" * 49 + "G"}, "at most 48 objects"),
        ({"trap_probability": -0.01}, r"trap_probability must be in \[0, 1\], got -0.01"),
        ({"trap_probability": 1.01}, r"trap_probability must be in \[0, 1\], got 1.01"),
        ({"trap_probability": float("nan")}, r"trap_probability must be in \[0, 1\], got nan"),
        ({"step_limit": 0}, "step_limit must be a positive whole number, got 0"),
        ({"step_limit": -3}, "step_limit must be a positive whole number, got -3"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        FourRoom(**arguments)


def test_classes_go_up_to_the_largest_digit():
    assert FourRoom("S1.4G").n_classes == 4
    assert FourRoom("S..G").n_features == 2


def test_a_task_is_the_class_rewards_the_goal_and_the_failure():
    assert FourRoom().task([0.5, -1, 0.25]).tolist() == [0.5, -1, 0.25, 1, -2]
    assert FourRoom().task([0, 0, 0], goal=3, failure=-4).tolist() == [0, 0, 0, 3, -4]


@pytest.mark.parametrize("rewards", [[1, 2], [1, 2, 3, 4], 1.0, [[1, 2, 3]]])
def test_a_task_of_the_wrong_size_is_refused(rewards):
    with pytest.raises(ValueError, match="class_rewards must"):
        FourRoom(PAPER_MAP).task(rewards)


def test_random_tasks():
    tasks = FourRoom().random_tasks(500, np.random.default_rng(0))
    rewards = tasks[:, :3]
    assert tasks.shape == (500, 5)
    assert (np.abs(rewards) <= 1).all()
    assert rewards.min() < -0.95
    assert rewards.max() > 0.95
    assert np.abs(rewards.mean(0)).max() < 5 / np.sqrt(3 * 500)  # five standard deviations
    assert (tasks[:, 3:] == [1, -2]).all()
    assert (tasks == FourRoom().random_tasks(500, np.random.default_rng(0))).all()
