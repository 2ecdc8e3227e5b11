import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import rasf
from rasf.envs.grid import Grid, GridEnv


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


# --- the Gymnasium environment


@pytest.fixture
def env():
    return gym.make("rasf/Grid-v0", render_mode="ansi")


def test_passes_the_checker():
    check_env(gym.make("rasf/Grid-v0", render_mode="rgb_array").unwrapped)


def test_spaces_follow_the_vector_reward_convention(env):
    assert env.unwrapped.reward_dim == 4
    assert env.unwrapped.reward_space.shape == (4,)
    _, _ = env.reset(seed=0)
    _, phi, *_ = env.step(2)
    assert phi.dtype == np.float32
    assert phi in env.unwrapped.reward_space


def test_steps_follow_the_law_of_the_mdp(env):
    """Frequencies of 4,000 steps from one cell against the stored row, to five standard deviations."""
    mdp, core = Grid().mdp(), env.unwrapped
    core.reset(seed=1)
    state, action, n = 12, 2, 4_000
    seen = np.zeros(25)
    for _ in range(n):
        core._state = state
        seen[core.step(action)[0]] += 1
    row = slice(mdp.indptr[state * 4 + action], mdp.indptr[state * 4 + action + 1])
    p = np.zeros(25)
    p[mdp.successor[row]] = mdp.probability[row]
    assert (np.abs(seen / n - p) <= 5 * np.sqrt(p * (1 - p) / n)).all()


def test_goal_and_traps_terminate_and_35_steps_truncate(env):
    core = env.unwrapped
    for symbol, failed in (("G", False), ("X", True)):
        core.reset(seed=0)
        core.grid = Grid(slip=0.0)
        target = core.grid.cells.index(symbol)
        core._state, action = (target + 5, 1) if symbol == "G" else (target - 1, 2)
        if symbol == "X":
            core._state, action = target + 1, 0
        _, _, terminated, truncated, info = core.step(action)
        assert terminated
        assert not truncated
        assert info["failure"] is failed
    bumping = gym.make("rasf/Grid-v0", slip=0.0)
    bumping.reset(seed=0)
    assert [bumping.step(0)[3] for _ in range(35)] == [False] * 34 + [True]


def test_same_seed_same_steps():
    def walk():
        env = gym.make("rasf/Grid-v0")
        env.reset(seed=7)
        return [env.step(2)[0] for _ in range(3)]

    assert walk() == walk()


def test_render_shows_the_agent(env):
    env.reset(seed=0)
    assert env.render().splitlines()[4] == "A . . . X"
    image = gym.make("rasf/Grid-v0", render_mode="rgb_array")
    image.reset(seed=0)
    assert image.render().shape == (120, 120, 3)


def test_bad_arguments_of_the_environment_are_refused(env):
    env.reset(seed=0)
    with pytest.raises(ValueError, match="action must"):
        env.unwrapped.step(4)
    with pytest.raises(ValueError, match="render_mode"):
        GridEnv(render_mode="human")


def test_registered_on_import():
    assert rasf.__version__
    assert "rasf/Grid-v0" in gym.registry
