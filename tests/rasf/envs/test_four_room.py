import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import rasf
from rasf.envs import four_room
from rasf.envs.four_room import PAPER_MAP, FourRoom, FourRoomEnv, step

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


def test_bad_arguments_are_refused(subtests):
    for arguments, message in [
        ({"layout": ""}, "equal length"),
        ({"layout": "S..\n.G"}, "equal length"),
        ({"layout": "S?G"}, r"1 to 9, got '\?'"),
        ({"layout": "S0G"}, "1 to 9, got '0'"),
        ({"layout": "S.g"}, "1 to 9, got 'g'"),
        ({"layout": "..G"}, "exactly one start S, got 0"),
        ({"layout": "S.S\n..G"}, "exactly one start S, got 2"),
        ({"layout": "S.."}, "must have a goal G"),
        ({"layout": "S" + "1" * 49 + "G"}, "at most 48 objects"),
        ({"trap_probability": -0.01}, "trap_probability must"),
        ({"trap_probability": 1.01}, "trap_probability must"),
        ({"trap_probability": float("nan")}, "trap_probability must"),
        ({"step_limit": 0}, "step_limit must"),
        ({"step_limit": -3}, "step_limit must"),
    ]:
        with subtests.test(arguments=arguments, message=message), pytest.raises(ValueError, match=message):
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


# --- the Gymnasium environment


class Reference:
    """The rules in plain words, sharing nothing with the package but the text of the map."""

    def __init__(self, layout, trap_probability, step_limit):
        self.at = {(i, j): symbol for i, row in enumerate(layout.split()) for j, symbol in enumerate(row)}
        self.objects = sorted(place for place, symbol in self.at.items() if symbol in "123456789")
        self.classes = max((int(self.at[place]) for place in self.objects), default=0)
        self.trap_probability, self.step_limit = trap_probability, step_limit
        self.reset()

    def reset(self):
        (self.place,) = (place for place, symbol in self.at.items() if symbol == "S")
        self.collected, self.steps = set(), 0

    def step(self, action, draw):
        down, right = {0: (0, -1), 1: (-1, 0), 2: (0, 1), 3: (1, 0)}[action]
        target = (self.place[0] + down, self.place[1] + right)
        if self.at.get(target, "X") != "X":
            self.place = target
        self.steps += 1
        phi, symbol = [0.0] * (self.classes + 2), self.at[self.place]
        failed = symbol == "T" and draw < self.trap_probability
        if failed:
            phi[-1] = 1.0
        elif symbol == "G":
            phi[-2] = 1.0
        elif symbol in "123456789" and self.place not in self.collected:
            self.collected.add(self.place)
            phi[int(symbol) - 1] = 1.0
        ended = failed or symbol == "G"
        return phi, ended, not ended and self.steps == self.step_limit

    @property
    def observation(self):
        return [*self.place, *(int(place in self.collected) for place in self.objects)]


def random_map(seed):
    rng = np.random.default_rng(seed)
    cells = rng.choice(list("......XT1234"), 42)
    cells[rng.permutation(42)[:2]] = "S", "G"
    return "\n".join("".join(row) for row in cells.reshape(6, 7))


@pytest.mark.parametrize(
    ("layout", "trap_probability", "step_limit", "n_steps"),
    [
        (PAPER_MAP, 0.05, 200, 10_000),
        *((random_map(seed), 0.3, 60, 1_500) for seed in range(4)),
        ("11111111\n11111111\n111S1111\n11111111\n11111111\n1111111G", 0.05, 400, 6_000),  # 46 objects
    ],
)
def test_identical_move_by_move(layout, trap_probability, step_limit, n_steps):
    """The environment, the compiled step and the reference, with the same draws."""
    env = FourRoomEnv(layout, trap_probability, step_limit)
    world, n_cells = FourRoom(layout, trap_probability, step_limit).world(), len("".join(layout.split()))
    columns = len(layout.split()[0])
    reference = Reference(layout, trap_probability, step_limit)
    draws, actions = np.random.default_rng(5).random(n_steps), np.random.default_rng(6).integers(0, 4, n_steps)
    observation, info = env.reset(seed=5)
    cell, flags, counts, truncations = world.start, 0, np.zeros(env.reward_dim), 0
    for action, draw in zip(actions.tolist(), draws.tolist(), strict=True):
        observation, phi, terminated, truncated, info = env.step(action)
        cell, flags, feature, ended = four_room.step(world, cell, flags, action, draw)
        expected_phi, expected_end, expected_truncation = reference.step(action, draw)

        assert observation.tolist() == reference.observation
        assert (cell // columns, cell % columns) == reference.place
        assert [flags >> i & 1 for i in range(len(reference.objects))] == reference.observation[2:]
        assert info["state"] == cell + n_cells * flags

        assert phi.tolist() == expected_phi == [float(i == feature) for i in range(env.reward_dim)]
        assert (terminated, terminated, truncated) == (expected_end, ended, expected_truncation)
        assert info["failure"] is bool(expected_phi[-1])

        counts, truncations = counts + phi, truncations + truncated
        if terminated or truncated:
            env.reset()
            reference.reset()
            cell, flags = world.start, 0
    if layout == PAPER_MAP:
        assert (counts[[0, 1, 2, 4]] > 0).all()
        assert truncations > 0


@pytest.mark.parametrize("render_mode", ["ansi", "rgb_array"])
def test_passes_the_checker(render_mode):
    check_env(gym.make("rasf/FourRoom-v0", render_mode=render_mode).unwrapped)


def test_spaces_follow_the_vector_reward_convention():
    env = FourRoomEnv()
    observation, info = env.reset(seed=0)
    assert env.observation_space == gym.spaces.MultiDiscrete([13, 13] + [2] * 18)
    assert observation.dtype == np.int64
    assert observation.tolist() == [12, 0] + [0] * 18
    assert info == {"failure": False, "state": 156}
    assert env.action_space == gym.spaces.Discrete(4)
    assert env.reward_dim == 5
    assert env.reward_space == gym.spaces.Box(0.0, 1.0, (5,), np.float32)
    _, phi, *_ = env.step(RIGHT)
    assert phi.dtype == np.float32
    assert phi in env.reward_space


def test_walls_and_edges_stop_the_environments_agent():
    env = FourRoomEnv("SX\n.G")
    env.reset(seed=0)
    for action in (LEFT, UP, RIGHT):
        observation, phi, terminated, truncated, _ = env.step(action)
        assert observation.tolist() == [0, 0]
        assert not phi.any()
        assert not terminated
        assert not truncated


def test_an_object_is_collected_once_and_returns_on_reset():
    env = FourRoomEnv("S2G")
    for _ in range(2):
        observation, _ = env.reset()
        assert observation.tolist() == [0, 0, 0]
        observation, phi, *_, info = env.step(RIGHT)
        assert observation.tolist() == [0, 1, 1]
        assert phi.tolist() == [0, 1, 0, 0]
        assert info["state"] == 1 + 3 * 1
        env.step(LEFT)
        observation, phi, *_ = env.step(RIGHT)
        assert observation.tolist() == [0, 1, 1]
        assert not phi.any()


def test_the_goal_ends_the_environments_episode():
    env = FourRoomEnv("SG")
    env.reset(seed=0)
    _, phi, terminated, truncated, info = env.step(RIGHT)
    assert phi.tolist() == [1, 0]
    assert (terminated, truncated, info["failure"]) == (True, False, False)


def test_a_trap_of_probability_one_fires_and_of_zero_never_does():
    env = FourRoomEnv("STG", trap_probability=1)
    env.reset(seed=0)
    _, phi, terminated, truncated, info = env.step(RIGHT)
    assert phi.tolist() == [0, 1]
    assert (terminated, truncated, info["failure"]) == (True, False, True)
    env = FourRoomEnv("ST\n.G", trap_probability=0, step_limit=500)
    env.reset(seed=0)
    assert not any(env.step(RIGHT)[2] for _ in range(500))


def test_staying_on_a_trap_fires_at_its_rate():
    """Steps until the trap fires are geometric with mean 4; 2,000 episodes, to five standard deviations."""
    env, lengths = FourRoomEnv("ST\n.G", trap_probability=0.25, step_limit=10_000), []
    env.reset(seed=0)
    for _ in range(2_000):
        env.reset()
        lengths.append(1)
        while not env.step(RIGHT)[2]:
            lengths[-1] += 1
    assert abs(np.mean(lengths) - 4) < 5 * np.sqrt(12 / 2_000)
    assert max(lengths) > 1


def test_truncates_at_the_limit_and_not_earlier():
    env = FourRoomEnv(step_limit=7)
    for _ in range(2):
        env.reset(seed=0)
        ends = [env.step(LEFT)[2:4] for _ in range(7)]
        assert ends == [(False, False)] * 6 + [(False, True)]
    made = gym.make("rasf/FourRoom-v0")
    made.reset(seed=0)
    assert [made.step(LEFT)[3] for _ in range(200)] == [False] * 199 + [True]


@pytest.mark.parametrize("layout", ["S.G", "S.T\nG.."])
def test_an_end_at_the_limit_is_not_a_truncation(layout):
    env = FourRoomEnv(layout, trap_probability=1, step_limit=2)
    env.reset(seed=0)
    assert env.step(RIGHT)[2:4] == (False, False)
    assert env.step(RIGHT)[2:4] == (True, False)


def test_no_step_before_reset_or_after_the_end():
    env = FourRoomEnv("S.G", step_limit=2)
    with pytest.raises(gym.error.ResetNeeded, match="call reset"):
        env.step(LEFT)
    for actions in ([LEFT, LEFT], [RIGHT, RIGHT]):  # truncated, terminated
        env.reset(seed=0)
        for action in actions:
            env.step(action)
        with pytest.raises(gym.error.ResetNeeded, match="call reset"):
            env.step(LEFT)


@pytest.mark.parametrize("action", [-1, 4, 1.0, "left", None])
def test_actions_outside_are_refused_and_change_nothing(action):
    env = FourRoomEnv("S.G", step_limit=1)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="action must"):
        env.step(action)
    assert env.step(RIGHT)[0].tolist() == [0, 1]


def test_numpy_actions_are_accepted():
    env = FourRoomEnv("S.G")
    env.reset(seed=0)
    assert env.step(np.int64(RIGHT))[4]["state"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layout": "S?G"}, "layout must hold"),
        ({"layout": "S."}, "goal G"),
        ({"trap_probability": 2}, "trap_probability must"),
        ({"step_limit": 0}, "step_limit must"),
        ({"render_mode": "human"}, "render_mode must"),
    ],
)
def test_bad_arguments_of_the_environment_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        FourRoomEnv(**arguments)


def test_same_seed_same_trajectory():
    def walk(seed):
        env = FourRoomEnv("STTTT\nTTTTG", trap_probability=0.3)
        env.reset(seed=seed)
        lengths = [0]
        for action in [RIGHT, LEFT] * 100:
            terminated = env.step(action)[2]
            lengths[-1] += 1
            if terminated:
                env.reset()
                lengths.append(0)
        return lengths

    assert walk(3) == walk(3)
    assert walk(3) != walk(4)


def test_ansi_shows_the_agent_and_what_is_left():
    env = FourRoomEnv("S1X\n2TG", trap_probability=0, render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == "A1X\n2TG"
    env.step(RIGHT)
    assert env.render() == "SAX\n2TG"
    env.step(DOWN)
    assert env.render() == "S.X\n2AG"
    env.step(RIGHT)
    assert env.render() == "S.X\n2TA"
    env.reset()
    assert env.render() == "A1X\n2TG"


def cell_pictures(env):
    rows, columns = env.rooms.shape
    image = env.render()
    side = image.shape[0] // rows
    assert image.shape == (rows * side, columns * side, 3)
    assert image.dtype == np.uint8
    return image.reshape(rows, side, columns, side, 3).swapaxes(1, 2).reshape(rows * columns, side, side, 3)


def test_an_image_shows_the_agent_and_what_is_left():
    env = FourRoomEnv("S.1\n..G", render_mode="rgb_array")
    env.reset(seed=0)
    before = cell_pictures(env)
    env.step(RIGHT)
    after = cell_pictures(env)
    assert [i for i in range(6) if (before[i] != after[i]).any()] == [0, 1]
    env.step(RIGHT)
    env.step(DOWN)
    assert (cell_pictures(env)[2] == before[1]).all()


def test_every_kind_of_cell_looks_different_even_without_colour():
    env = FourRoomEnv("SXTG.123456789", render_mode="rgb_array")
    env.reset(seed=0)
    pictures = cell_pictures(env)
    assert len({picture.tobytes() for picture in pictures}) == len(pictures)
    shapes = {(picture != pictures[4]).any(-1).tobytes() for picture in pictures[5:]}
    assert len(shapes) == 9


def test_no_render_mode_renders_nothing():
    env = FourRoomEnv()
    env.reset(seed=0)
    assert env.render() is None


def test_registered_on_import_and_made_with_a_layout():
    assert rasf.__version__
    assert gym.spec("rasf/FourRoom-v0").max_episode_steps is None
    env = gym.make("rasf/FourRoom-v0", layout="S.\n.G", trap_probability=0.5, step_limit=3)
    assert env.reset(seed=0)[0].tolist() == [0, 0]
    assert [env.step(LEFT)[3] for _ in range(3)] == [False, False, True]
