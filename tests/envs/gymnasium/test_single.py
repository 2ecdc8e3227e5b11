"""Single environments: features and ends as the environment itself gives them, and one sentence for what is wrong."""

import json
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from toy_environments import Answers, Corridor, Vectors, corridor_phi

from rasf.envs.gymnasium.description import EnvironmentDescription
from rasf.envs.gymnasium.single import FeatureReward, estimate_bounds, open_environment
from rasf.envs.gymnasium.vector import open_vector

MO_IDS = [
    "resource-gathering-v0",
    "deep-sea-treasure-v0",
    "four-room-v0",
    "minecart-v0",
    "mo-lunar-lander-v3",
    "breakable-bottles-v0",
    "fruit-tree-v0",
]
LINE = spaces.Box(-np.inf, np.inf, (1,), np.float64)


@pytest.mark.parametrize("env_id", MO_IDS)
def test_mo_gymnasium_environments_are_passed_on_bit_for_bit(env_id):
    mo_gymnasium = pytest.importorskip("mo_gymnasium")
    env, own = open_environment(env_id), mo_gymnasium.make(env_id)
    assert env.describe().id == env_id
    assert env.n_features == own.unwrapped.reward_space.shape[0]
    assert env.n_actions == own.action_space.n
    rng = np.random.default_rng(0)
    obs, (own_obs, _) = env.reset(seed=3), own.reset(seed=3)
    if env_id == "minecart-v0":
        seed_minecart(own)
    for _ in range(300):
        np.testing.assert_array_equal(env.encoder.vector(obs), spaces.flatten(own.observation_space, own_obs))
        assert not env.encoder.is_batch(obs)
        action = int(rng.integers(env.n_actions))
        step, (own_obs, reward, terminated, truncated, _) = env.step(action), own.step(action)
        assert step.phi.dtype == np.float64
        assert step.phi.tolist() == [float(entry) for entry in reward]
        assert (step.terminated, step.truncated, step.failure) == (terminated, truncated, False)
        obs = step.obs
        if terminated or truncated:
            obs, (own_obs, _) = env.reset(), own.reset()
    assert not env.reports_failures
    json.dumps(env.describe().to_json(), allow_nan=False)
    env.close()


def seed_minecart(own):
    for mine in own.unwrapped.mines:
        for law in mine.distributions:
            law.random_state = own.unwrapped.np_random


def test_minecart_does_not_draw_from_numpys_global_generator():
    pytest.importorskip("mo_gymnasium")
    env = open_environment("minecart-v0")
    loads = []
    for disturbance in range(2):
        env.reset(seed=1)
        env.env.unwrapped.cart.pos = np.array([0.5, 0.84])  # at a mine
        np.random.random(disturbance)  # noqa: NPY002
        loads.append(env.step(0).obs[-2:])
    assert (loads[0] > 0).any()
    np.testing.assert_array_equal(loads[0], loads[1])


def test_bounds_come_from_the_reward_space_or_phi():
    pytest.importorskip("mo_gymnasium")
    assert open_environment("resource-gathering-v0").bounds.tolist() == [[-1, 0], [0, 1], [0, 1]]
    assert open_environment("mo-lunar-lander-v3").bounds is None
    assert open_environment("rasf/FourRoom-v0").bounds.tolist() == [[0, 1]] * 5
    assert open_environment(Corridor(), corridor_phi).bounds is None

    def phi(obs, action, next_obs, info):
        return [obs[0], 1]

    phi.bounds = [[0, 3], [1, 1]]
    assert open_environment(Corridor(), phi).bounds.tolist() == [[0, 3], [1, 1]]
    phi.bounds = [[0, 3], [2, 1]]
    with pytest.raises(ValueError, match=r"phi\.bounds must"):
        open_environment(Corridor(), phi)


def test_phi_sees_the_whole_step_and_actions_start_at_zero():
    env = open_environment(Corridor(length=3, limit=9), corridor_phi)
    described = env.describe()
    assert (env.n_actions, env.n_features, described.id, described.max_episode_steps) == (2, 7, None, None)
    obs = env.reset(seed=4)
    noise = np.random.default_rng(4).random(5).astype(np.float32)
    assert obs.tolist() == [0, noise[0]]
    assert env.step(1).phi.tolist() == [0, noise[0], 6, 1, noise[1], 1, 0]
    assert env.step(0).phi.tolist() == [1, noise[1], 5, 1, noise[2], 2, 0]
    assert env.step(1).phi.tolist() == [1, noise[2], 6, 2, noise[3], 3, 0]
    last = env.step(1)
    assert last.phi[:6].tolist() == [2, noise[3], 6, 3, noise[4], 4]
    assert (last.terminated, last.truncated, last.failure) == (True, False, bool(noise[4] < 0.5))
    assert env.reports_failures


def test_a_wrapper_gives_the_features_as_the_reward():
    env, opened = (
        FeatureReward(Corridor(length=3, limit=9), corridor_phi),
        open_environment(Corridor(3, 9), corridor_phi),
    )
    assert env.reward_space.shape == (7,)
    first, info = env.reset(seed=4)
    np.testing.assert_array_equal(first, opened.reset(seed=4))
    assert info == {"failure": False, "time": 0}
    for action in (1, 0, 1, 1):
        obs, phi, terminated, truncated, info = env.step(5 + action)
        step = opened.step(action)
        np.testing.assert_array_equal(obs, step.obs)
        assert phi.tolist() == step.phi.tolist()
        assert (terminated, truncated, info["failure"]) == (step.terminated, step.truncated, step.failure)


def test_an_environment_in_the_wrapper_is_as_one_opened_with_phi():
    wrapped = open_environment(gym.wrappers.TimeLimit(FeatureReward(Corridor(), corridor_phi), 3))
    opened = open_environment(Corridor(), corridor_phi)
    assert wrapped.has_phi
    assert wrapped.describe().difference(opened.describe()) is None
    bounds = [[0.0, 3.0], [-np.inf, 1.0]]
    declared = open_environment(FeatureReward(Corridor(), lambda *_: [1.0, 1.0], bounds))
    assert declared.declared_bounds.tolist() == bounds
    with pytest.raises(ValueError, match="bounds must"):
        FeatureReward(Corridor(), corridor_phi, [1.0, 2.0])


def test_phi_sees_the_old_observation_of_an_environment_that_reuses_its_array():
    shared = np.zeros(1)

    class Reusing(Answers):
        def step(self, action):
            shared[0] += 1
            return shared, 0.0, False, False, {}

    env = open_environment(Reusing(LINE, [shared], 0.0), lambda obs, action, next_obs, info: [obs[0], next_obs[0]])
    shared[0] = 5
    env.reset()
    assert env.step(0).phi.tolist() == [5, 6]
    assert env.step(0).phi.tolist() == [6, 7]


def test_truncation_is_not_termination():
    env = open_environment(Corridor(length=3, limit=2), corridor_phi)
    env.reset(seed=0)
    env.step(0)
    step = env.step(0)
    assert (step.terminated, step.truncated) == (False, True)
    env = open_environment(Corridor(length=2, limit=2), corridor_phi)
    env.reset(seed=0)
    env.step(1)
    step = env.step(1)
    assert (step.terminated, step.truncated) == (True, True)


def test_registered_time_limits_hold():
    env = open_environment("FrozenLake-v1", lambda obs, action, next_obs, info: [next_obs, 1.0], is_slippery=False)
    assert (env.describe().max_episode_steps, env.n_features, env.encoder.n_possible) == (100, 2, 16)
    env.reset(seed=0)
    ends = [env.step(0)[2:4] for _ in range(100)]
    assert ends[-1] == (False, True)
    assert not any(truncated for _, truncated in ends[:-1])
    assert env.describe().kwargs["is_slippery"] is False


def test_the_same_seed_gives_the_same_bits():
    env = open_environment("rasf/FourRoom-v0")
    traces = []
    for _ in range(2):
        rng = np.random.default_rng(0)
        obs = env.reset(seed=7)
        trace = [obs.tolist()]
        for _ in range(300):
            step = env.step(int(rng.integers(4)))
            trace += [step.obs.tolist(), step.phi.tolist(), step.terminated, step.truncated, step.failure]
            if step.terminated or step.truncated:
                trace.append(env.reset().tolist())
        traces.append(trace)
    assert traces[0] == traces[1]
    assert env.reports_failures


def test_estimated_bounds_widen_what_was_seen_and_keep_what_is_declared():
    env = open_environment(Corridor(length=3, limit=4), lambda o, a, n, i: [n[0], -2.0, 0.0])
    seen = np.array([[0.0, 3.0], [-2, -2], [0, 0]])
    widening = np.array([[0.5 * 3], [0.002], [0.001]])
    np.testing.assert_allclose(
        estimate_bounds(env, steps=200, seed=1, margin=0.5), seen + widening * [-1, 1], rtol=1e-12
    )
    np.testing.assert_array_equal(estimate_bounds(env, 200, 1, 0.0)[0], [-0.003, 3.003])
    lander = open_environment("mo-lunar-lander-v3")
    bounds = estimate_bounds(lander, steps=300, seed=0, margin=1.0)
    np.testing.assert_array_equal(bounds[[0, 2, 3]], [[-100, 100], [-1, 0], [-1, 0]])
    assert np.isfinite(bounds).all()
    assert bounds[1, 0] < 0 < bounds[1, 1]
    np.testing.assert_array_equal(bounds, estimate_bounds(lander, steps=300, seed=0, margin=1.0))
    for name, wrong in (("steps", 0), ("margin", -1.0), ("margin", np.nan)):
        with pytest.raises(ValueError, match=f"{name} must"):
            estimate_bounds(env, **{name: wrong})


def test_what_cannot_be_opened_says_why(monkeypatch):
    def refused(message, *args, **kwargs):
        with pytest.raises(ValueError, match=message):
            open_environment(*args, **kwargs)

    refused(r"reward is one number, not a vector of features; give phi", Corridor())
    refused(r"reward is one number", "CartPole-v1")
    refused("action space must be Discrete, got Box: no other actions are served", "Pendulum-v1", corridor_phi)
    two = Answers(LINE, [[0.0]], [1.0], spaces.MultiDiscrete([2, 2]))
    refused("action space must be Discrete, got MultiDiscrete: no other", two)
    refused("phi must be a function", Corridor(), [1, 2])
    refused(r"phi must return features of shape \(d,\), got shape \(\)", Corridor(), lambda *_: 1.0)
    refused(
        "env must be an id that Gymnasium or MO-Gymnasium knows, or MODULE:ID to import its module, got 'no-such-v0'",
        "no-such-v0",
    )
    refused("env 'no such id!' cannot be made: ", "no such id!")
    refused("env 'CartPole-v1' cannot be made: .*colour", "CartPole-v1", corridor_phi, colour=3)
    refused("colour can only be given with an environment's id", Corridor(), corridor_phi, colour=3)
    refused("env must be", 3)
    refused("observation space must be .* got Text", Answers(spaces.Text(3), ["a"], [1.0]))
    monkeypatch.setitem(sys.modules, "mo_gymnasium", None)
    refused("for MO-Gymnasium's ids install rasf", "no-such-v0")


@pytest.mark.parametrize(
    ("observations", "reward", "message"),
    [
        ([[0.0], [np.nan]], [1.0, 2.0], "observation that its space does not allow: obs must be finite"),
        ([[0.0], [1.0, 2.0]], [1.0, 2.0], r"must be one observation of shape \(1,\), got shape \(2,\)"),
        ([[0.0], [1.0]], [1.0, np.nan], "features of a step must be finite, the environment gave"),
        ([[0.0], [1.0]], [1.0, np.inf], "features of a step must be finite"),
        ([[0.0], [1.0]], [1.0], r"reward must be features of shape \(2,\), got shape \(1,\)"),
        ([[0.0], [1.0]], 1.0, "reward is one number"),
        ([[0.0], [1.0]], ["a", "b"], "features of a step must be numbers, got list"),
    ],
)
def test_a_bad_step_is_refused_when_it_happens(observations, reward, message):
    env = Answers(LINE, observations, reward)
    env.reward_space = spaces.Box(-np.inf, np.inf, (2,))
    opened = open_environment(env)
    opened.reset()
    with pytest.raises(ValueError, match=message):
        opened.step(0)


class OldGym(gym.Env):
    """An environment in the style before Gymnasium: what its reset and step return is given."""

    observation_space, action_space = LINE, spaces.Discrete(2)
    reward_space = spaces.Box(0.0, 1.0, (1,))

    def __init__(self, first, then):
        self.first, self.then = first, then

    def reset(self, *, seed=None, options=None):
        return self.first

    def step(self, action):
        return self.then


class Unseeded(OldGym):
    """A reset without arguments."""

    def reset(self):
        return self.first


def bounded_phi(obs, action, next_obs, info):
    """Features whose bounds are known, so that nothing is probed."""
    return [1.0]


bounded_phi.bounds = [[0.0, 1.0]]
FIRST, THEN = (np.zeros(1), {}), (np.zeros(1), [1.0], False, False, {})


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (OldGym(np.zeros(1), THEN), r"reset must return \(obs, info\), as Gymnasium has it, got ndarray$"),
        (OldGym((np.zeros(1), 0.5), THEN), r"reset must return \(obs, info\), as Gymnasium has it, got 2 values$"),
        (
            OldGym(FIRST, THEN[:3] + THEN[4:]),
            r"step must return \(obs, reward, terminated, truncated, info\), .* got 4",
        ),
        (Unseeded(FIRST, THEN), "the environment's reset must take a seed, as Gymnasium has it: .*reset"),
    ],
)
def test_the_old_gym_style_is_refused_in_a_sentence(env, message):
    def take_a_step(opened):
        opened.reset(seed=0)
        opened.step(0)

    with pytest.raises(ValueError, match=message):
        take_a_step(open_environment(env))


def test_an_old_style_vector_environment_is_refused_too():
    class Old(gym.vector.SyncVectorEnv):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed, options=options)[0]

    vector = open_vector(Old([lambda: Vectors(Corridor())] * 2), phi=bounded_phi)
    with pytest.raises(ValueError, match="reset must"):
        vector.reset()


def test_another_type_error_of_a_reset_is_the_environments_own():
    class Broken(OldGym):
        def reset(self, *, seed=None, options=None):
            return 1 + "a"

    with pytest.raises(TypeError, match="unsupported operand"):
        open_environment(Broken(FIRST, THEN)).reset()


def test_a_bad_first_observation_is_refused():
    env = Answers(LINE, [[np.nan]], [1.0])
    env.reward_space = spaces.Box(0.0, 1.0, (1,))
    with pytest.raises(ValueError, match="obs must"):
        open_environment(env).reset()


def test_steps_need_a_running_episode_and_a_known_action():
    env = open_environment(Vectors(Corridor(limit=1)))
    with pytest.raises(ValueError, match="no episode is running"):
        env.step(0)
    env.reset(seed=0)
    for action in (-1, 2):
        with pytest.raises(ValueError, match="action must"):
            env.step(action)
    assert env.step(0).truncated
    with pytest.raises(ValueError, match="no episode is running"):
        env.step(0)
    probed = open_environment(Corridor(), corridor_phi)
    with pytest.raises(ValueError, match="no episode is running"):
        probed.step(0)


def test_the_description_is_json_whatever_the_settings():
    gym.register("rasf-tests/Corridor-v0", Corridor, disable_env_checker=True)
    try:
        env = open_environment("rasf-tests/Corridor-v0", corridor_phi, length=4, limit=np.int64(5))
        described = json.loads(json.dumps(env.describe().to_json(), allow_nan=False))
        assert EnvironmentDescription.from_json(described) == env.describe()
    finally:
        gym.registry.pop("rasf-tests/Corridor-v0")
    assert described["kwargs"] == {"length": 4, "limit": "<int64>"}
    assert described["observations"]["shape"] == [2]
    assert (described["n_actions"], described["first_action"], described["n_features"]) == (2, 5, 7)
    assert described["phi"] == "corridor_phi"


class Halved(gym.RewardWrapper):
    """Half the features, and says so."""

    def __init__(self, env):
        super().__init__(env)
        self.reward_space = spaces.Box(0.0, 0.5, (4,), np.float32)

    def reward(self, reward):
        return reward / 2


def test_the_outermost_declaration_of_bounds_counts():
    inner = gym.make("rasf/Grid-v0")
    plain = gym.wrappers.TimeLimit(inner, 5)
    np.testing.assert_array_equal(open_environment(plain).bounds, np.tile([0.0, 1.0], (4, 1)))
    changed = gym.wrappers.TimeLimit(Halved(plain), 5)
    np.testing.assert_array_equal(open_environment(changed).bounds, np.tile([0.0, 0.5], (4, 1)))
