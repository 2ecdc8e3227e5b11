import subprocess
import sys

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import rasf
from rasf.envs.reacher.arm import physics, tip_position
from rasf.envs.reacher.env import ReacherEnv
from rasf.envs.reacher.world import TORQUES, Noise, Reacher
from rasf_lab.paper.reacher.beliefs import angles_reaching

STILL = 4


def placed(position, **arguments):
    """An environment whose arm rests with its tip at `position`."""
    env = ReacherEnv(**arguments)
    env.reset(seed=0)
    env._state = np.array([*angles_reaching(np.array(position))[0], 0.0, 0.0])
    return env


@pytest.mark.parametrize("engine", ["closed_form", "mujoco"])
@pytest.mark.parametrize("observation", ["raw", "wrapped", "sincos"])
def test_passes_the_checker(engine, observation):
    env = gym.make("rasf/Reacher-v0", engine=engine, observation=observation, render_mode="rgb_array")
    check_env(env.unwrapped)


def test_spaces_follow_the_vector_reward_convention():
    env = ReacherEnv()
    observation, info = env.reset(seed=0)
    assert observation.dtype == np.float32
    assert observation in env.observation_space
    assert env.observation_space.shape == (4,)
    assert env.action_space == gym.spaces.Discrete(9)
    assert env.reward_dim == 13
    assert env.reward_space == gym.spaces.Box(np.array([-1.0] * 12 + [0], np.float32), np.ones(13, np.float32))
    assert set(info) == {"failure", "in_circle", "tip", "state"}
    observation, phi, terminated, truncated, info = env.step(STILL)
    assert observation in env.observation_space
    assert phi.dtype == np.float32
    assert phi in env.reward_space
    assert (terminated, truncated, info["failure"]) == (False, False, False)


def test_a_step_is_that_of_the_world_with_the_same_draws():
    env, world = ReacherEnv(), Reacher()
    draws, actions = np.random.default_rng(5), np.random.default_rng(6).integers(0, 9, 300)
    _, info = env.reset(seed=5)
    state = np.concatenate([draws.uniform([-np.pi, -np.pi / 2], [np.pi, np.pi / 2]), np.zeros(2)])
    assert (info["state"] == state).all()
    circles = 0
    for action in actions:
        observation, phi, _, _, info = env.step(action)
        torques, chance = np.clip(TORQUES[action] + 0.03 * draws.standard_normal(2), -1, 1), draws.random()
        state = physics(state, torques)
        tip = tip_position(state)
        assert (info["state"] == state).all()
        assert (info["tip"] == tip).all()
        assert (observation == world.observe(state).astype(np.float32)).all()
        assert (phi == world.features(tip, np.array(chance)).astype(np.float32)).all()
        assert info["in_circle"] is bool(world.in_circle(tip))
        assert info["failure"] is bool(phi[-1])
        assert info["in_circle"] or not info["failure"]
        circles += info["in_circle"]
    assert circles > 0


def test_engines_agree_step_by_step_with_the_same_draws():
    closed, simulated = ReacherEnv(), ReacherEnv(engine="mujoco")
    _, info = closed.reset(seed=1)
    _, other = simulated.reset(seed=1)
    assert (info["state"] == other["state"]).all()
    for action in np.random.default_rng(2).integers(0, 9, 500):
        simulated._state = closed._state  # a step, not the growth of rounding over many
        observation, phi, _, truncated, info = closed.step(action)
        other_observation, other_phi, _, other_truncated, other = simulated.step(action)
        np.testing.assert_allclose(other["state"], info["state"], rtol=0, atol=1e-10)
        np.testing.assert_allclose(other_observation, observation, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(other_phi, phi, atol=1e-6)
        assert (other["failure"], other["in_circle"]) == (info["failure"], info["in_circle"])
        assert truncated == other_truncated
    assert truncated


def test_truncates_at_500_and_never_terminates():
    env = gym.make("rasf/Reacher-v0", failure_probability=1.0)
    for seed in range(2):
        env.reset(seed=seed)
        ends = [env.step(action)[2:4] for action in np.random.default_rng(seed).integers(0, 9, 500)]
        assert ends == [(False, False)] * 499 + [(False, True)]
    short = ReacherEnv(episode_length=3)
    short.reset(seed=0)
    assert [short.step(STILL)[3] for _ in range(3)] == [False, False, True]


def test_holding_a_risky_target_fails_always_at_one_and_never_at_zero():
    for probability in (0, 1):
        env = placed((0.14, 0.0), failure_probability=probability, action_noise=0)
        for _ in range(5):
            _, phi, terminated, _, info = env.step(STILL)
            assert (phi[-1], info["failure"], info["in_circle"], terminated) == (probability, probability, True, False)
            assert phi[0] == pytest.approx(1)


def test_same_seed_same_trajectory():
    def walk(seed):
        env = ReacherEnv(failure_probability=0.5)
        env.reset(seed=seed)
        steps = [env.step(action) for action in [0, 8, 3, 5, 7, 1] * 20]
        return np.array([[*observation, *phi] for observation, phi, *_ in steps])

    assert (walk(3) == walk(3)).all()
    assert (walk(3) != walk(4)).any()


def test_resets_without_a_seed_go_on_with_the_draws():
    env = ReacherEnv()
    first, _ = env.reset(seed=0)
    second, _ = env.reset()
    assert (first != second).any()


def test_what_a_user_does_to_the_info_does_not_reach_the_arm():
    env = ReacherEnv(action_noise=0)
    _, info = env.reset(seed=0)
    info["state"][:] = 100
    assert np.abs(env.step(STILL)[4]["state"]).max() < np.pi


def test_no_step_before_reset_or_after_the_end():
    env = ReacherEnv(episode_length=1)
    with pytest.raises(gym.error.ResetNeeded, match="call reset"):
        env.step(STILL)
    env.reset(seed=0)
    env.step(STILL)
    with pytest.raises(gym.error.ResetNeeded, match="call reset"):
        env.step(STILL)


@pytest.mark.parametrize("action", [-1, 9, 1.0, "left", None, np.zeros(2)])
def test_actions_outside_are_refused_and_change_nothing(action):
    env = ReacherEnv(episode_length=1)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="action must"):
        env.step(action)
    assert env.step(STILL)[3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"engine": "bullet"}, "engine must"),
        ({"render_mode": "human"}, "render_mode must"),
        ({"observation": "pixels"}, "observation must"),
        ({"episode_length": 0}, "episode_length must"),
        ({"risky": (0.5,)}, "risky must"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ReacherEnv(**arguments)


def test_without_mujoco_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    monkeypatch.delitem(sys.modules, "rasf.envs.reacher.mujoco", raising=False)
    with pytest.raises(ImportError, match=r"rasf\[mujoco\]"):
        ReacherEnv(engine="mujoco")
    ReacherEnv().reset(seed=0)


def test_the_closed_form_does_not_load_mujoco():
    code = "import sys, rasf, gymnasium; gymnasium.make('rasf/Reacher-v0').reset(); print('mujoco' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def render(env):
    image = env.render()
    assert image.shape == (480, 480, 3)
    assert image.dtype == np.uint8
    return image.astype(int)


def pixel(x, y, half=0.3):
    """Row and column of a place: 0.28 m to the edge of the outermost circle, and a margin of 0.02."""
    return int(240 - 240 * y / half), int(240 + 240 * x / half)


def test_a_picture_shows_the_tip_the_targets_and_the_risk():
    image = render(placed((-0.05, -0.12), render_mode="rgb_array"))
    assert image[pixel(-0.05, -0.12)].tolist() == [0, 0, 0]
    training, test = image[pixel(0.0, 0.14)], image[pixel(0.0, 0.22)]
    assert training.tolist() == image[pixel(-0.14, 0.0)].tolist()
    assert training[2] > training[0] + 100  # a disc
    assert test.tolist() == [255, 255, 255]  # a ring, empty inside
    risky, safe, beyond = image[pixel(0.14, 0.04)], image[pixel(0.05, 0.15)], image[pixel(0.25, 0.25)]
    assert risky[0] > risky[2] + 20
    assert 230 < safe.min() < 255
    assert beyond.tolist() == [255, 255, 255]


def test_a_picture_moves_with_the_arm_alone():
    env = placed((0.05, 0.12), render_mode="rgb_array")
    first = render(env)
    assert (render(env) == first).all()
    env._state = np.array([*angles_reaching(np.array([-0.05, 0.12]))[0], 0.0, 0.0])
    moved = (render(env) != first).any(-1)
    assert 1_000 < moved.sum() < 10_000
    env._state = np.array([*angles_reaching(np.array([0.05, 0.12]))[0], 0.0, 0.0])
    assert (render(env) == first).all()


def test_far_targets_and_no_risk_still_fit_the_picture():
    image = render(placed((0.1, 0.1), targets=((0.6, 0.0), (0.0, -0.6)), risky=(), render_mode="rgb_array"))
    target = image[pixel(0.6, 0.0, half=0.62)[0], pixel(0.6, 0.0, half=0.62)[1] - 5]
    assert target[2] > target[0] + 100


def test_no_render_mode_renders_nothing():
    env = ReacherEnv()
    env.reset(seed=0)
    assert env.render() is None


def test_registered_on_import_and_made_with_arguments():
    assert rasf.__version__
    assert gym.spec("rasf/Reacher-v0").max_episode_steps is None
    env = gym.make("rasf/Reacher-v0", targets=((0.1, 0.0), (0.0, 0.1)), risky=(1,), observation="sincos")
    assert env.reset(seed=0)[0].shape == (6,)
    assert env.step(STILL)[1].shape == (3,)
    same = gym.make("rasf/Reacher-v0", targets=np.array([(0.1, 0.0), (0.0, 0.1)]), risky=[1], observation="sincos")
    assert same.unwrapped.world == env.unwrapped.world


# --- continuous actions


def test_spaces_of_torques():
    env = ReacherEnv(continuous=True)
    assert env.action_space == gym.spaces.Box(-1.0, 1.0, (2,))
    assert (env.world.n_actions, env.world.action_size) == (0, 2)
    assert (env.preferred_agent, ReacherEnv().preferred_agent) == ("rasftd3", "rasfc51")
    assert (Reacher().n_actions, Reacher().action_size) == (9, 0)
    for wrong in (1, "yes", None):
        with pytest.raises(ValueError, match="continuous must be True or False"):
            ReacherEnv(continuous=wrong)


@pytest.mark.parametrize("engine", ["closed_form", "mujoco"])
def test_torques_pass_the_checker(engine):
    check_env(gym.make("rasf/Reacher-v0", continuous=True, engine=engine, render_mode="rgb_array").unwrapped)


def test_a_step_by_torques_is_that_of_the_world_with_the_same_draws():
    """Of the formula in numpy, and of the compiled world."""
    env, world = ReacherEnv(continuous=True), Reacher(continuous=True)
    advance, observe = jax.jit(world.advance), jax.jit(world.observe)
    draws, actions = np.random.default_rng(5), np.random.default_rng(6).uniform(-1, 1, (200, 2)).astype(np.float32)
    actions[:2] = [[1, -1], [-1, 1]]
    _, info = env.reset(seed=5)
    state = np.concatenate([draws.uniform([-np.pi, -np.pi / 2], [np.pi, np.pi / 2]), np.zeros(2)])
    assert (info["state"] == state).all()
    failures = 0
    for action in actions:
        push, chance = 0.03 * draws.standard_normal(2), np.array(draws.random())
        compiled, features = advance(jnp.asarray(state), jnp.asarray(action), Noise(push, chance))
        state = physics(state, np.clip(action + push, -1, 1))
        observation, phi, _, _, info = env.step(action)
        assert (info["state"] == state).all()
        np.testing.assert_allclose(compiled, state, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(observe(compiled), observation, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(features[:-1], phi[:-1], atol=1e-5)
        failures += phi[-1]
    assert failures >= 0


def test_the_torques_of_the_nine_actions_are_those_of_the_discrete_arm():
    discrete, continuous = ReacherEnv(), ReacherEnv(continuous=True)
    for env in (discrete, continuous):
        env.reset(seed=3)
    for action in np.random.default_rng(0).integers(0, 9, 100):
        one, other = discrete.step(action), continuous.step(np.array(TORQUES[action], np.float32))
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])


@pytest.mark.parametrize(
    "action",
    [np.zeros(3, np.float32), np.array([0.0, 1.5], np.float32), np.array([0, np.nan], np.float32), np.array(0)],
)
def test_torques_outside_are_refused_and_change_nothing(action):
    env = ReacherEnv(continuous=True, episode_length=1)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"action must be two torques in \[-1, 1\], float32"):
        env.step(action)
    assert env.step(np.zeros(2, np.float32))[3]
