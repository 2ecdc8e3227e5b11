import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import rasf
from rasf.envs.grid import Grid
from rasf.envs.grid_env import GridEnv


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


def test_bad_arguments_are_refused(env):
    env.reset(seed=0)
    with pytest.raises(ValueError, match="action must"):
        env.unwrapped.step(4)
    with pytest.raises(ValueError, match="render_mode"):
        GridEnv(render_mode="human")


def test_registered_on_import():
    assert rasf.__version__
    assert "rasf/Grid-v0" in gym.registry
