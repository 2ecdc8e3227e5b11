"""Single environments: features and ends as the environment itself gives them, and one sentence for what is wrong."""

import json
import re
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from toy_environments import Answers, Corridor, Vectors, corridor_phi

from rasf.envs.gymnasium.description import EnvironmentDescription
from rasf.envs.gymnasium.single import FeatureReward, estimate_bounds, open_environment, time_limit_of
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
    two = Answers(LINE, [[0.0]], [1.0], spaces.MultiDiscrete([2, 2]))
    refused("action space must be Discrete or a Box, got MultiDiscrete, which is not supported", two)
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
    refused("env must be a function or class that needs no arguments: missing a required argument", lambda size: None)
    refused("observation space must be .* got Text", Answers(spaces.Text(3), ["a"], [1.0]))
    monkeypatch.setitem(sys.modules, "mo_gymnasium", None)
    refused("for MO-Gymnasium's ids install rasf", "no-such-v0")


@pytest.mark.parametrize(
    ("observations", "reward", "message"),
    [
        ([[0.0], [np.nan]], [1.0, 2.0], "observation that is not in its space: obs must be finite"),
        ([[0.0], [1.0, 2.0]], [1.0, 2.0], r"must be one observation of shape \(1,\), got shape \(2,\)"),
        ([[0.0], [1.0]], [1.0, np.nan], r"features of a step must be finite and at most 1e\+18 in size, got"),
        ([[0.0], [1.0]], [1.0, np.inf], "features of a step must be finite"),
        ([[0.0], [1.0]], [1.0], r"reward must be features of shape \(2,\), got shape \(1,\)"),
        ([[0.0], [1.0]], 1.0, "reward is one number"),
        ([[0.0], [1.0]], ["a", "b"], r"features of a step must be numbers, got \['a', 'b'\]"),
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
        (OldGym(np.zeros(1), THEN), r"reset must return \(obs, info\), as in Gymnasium, got ndarray$"),
        (OldGym((np.zeros(1), 0.5), THEN), r"reset must return \(obs, info\), as in Gymnasium, got 2 values$"),
        (
            OldGym(FIRST, THEN[:3] + THEN[4:]),
            r"step must return \(obs, reward, terminated, truncated, info\), .* got 4",
        ),
        (Unseeded(FIRST, THEN), "the environment's reset must take a seed, as in Gymnasium: .*reset"),
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


# --- what wrappers and phi declare


class Declaring(gym.Wrapper):
    """Passes everything on, and declares something of the reward."""

    def __init__(self, env, **declared):
        super().__init__(env)
        for name, value in declared.items():
            setattr(self, name, value)


def draws(value):
    return lambda count, rng: np.full((count, 2), value)


DECLARED = {"signs": (1, -1), "feature_names": ("gain", "cost"), "events": (1,), "random_tasks": draws(1.0)}


def told(opened):
    drawn = opened.random_tasks(3, np.random.default_rng(0))
    return (
        None if opened.signs is None else opened.signs.tolist(),
        opened.feature_names,
        opened.events,
        None if drawn is None else drawn.tolist(),
    )


def vectors(**declared):
    env = Vectors(Corridor())
    for name, value in declared.items():
        setattr(env.env, name, value)
    return env


def of_two(obs, action, next_obs, info):
    return [1.0, obs[0]]


NOTHING = (None, None, (), None)
ALL = ([1, -1], ("gain", "cost"), (1,), [[1.0, 1.0]] * 3)


def test_declarations_are_looked_up_along_the_wrappers_outermost_first():
    assert told(open_environment(vectors())) == NOTHING
    assert told(open_environment(vectors(**DECLARED))) == ALL
    wrapped = gym.wrappers.TimeLimit(Declaring(gym.wrappers.TimeLimit(vectors(), 3), **DECLARED), 3)
    assert told(open_environment(wrapped)) == ALL
    assert told(open_vector(lambda: Declaring(vectors(), **DECLARED), 2)) == ALL
    outer = Declaring(wrapped, signs=(0, 0), random_tasks=draws(2.0))
    assert told(open_environment(outer)) == ([0, 0], *ALL[1:3], [[2.0, 2.0]] * 3)


def test_what_describes_another_reward_does_not_leak():
    inner = vectors(signs=(1, -1, 1), feature_names=("a", "b", "c"), events=(2,), random_tasks=draws(3.0))
    assert told(open_environment(inner, of_two)) == NOTHING
    assert told(open_environment(FeatureReward(inner, of_two))) == NOTHING
    space = spaces.Box(0.0, 1.0, (2,), np.float32)
    assert told(open_environment(Declaring(inner, reward_space=space))) == NOTHING
    assert told(open_environment(Declaring(inner, reward_space=space, **DECLARED))) == ALL
    # of features that a function computes, the function, its wrapper and those around it
    assert told(open_environment(Declaring(FeatureReward(inner, of_two), **DECLARED))) == ALL

    def phi(*step):
        return of_two(*step)

    phi.signs, phi.feature_names, phi.events, phi.random_tasks = DECLARED.values()
    assert told(open_environment(inner, phi)) == ALL
    assert told(open_environment(gym.wrappers.TimeLimit(FeatureReward(inner, phi), 3))) == ALL
    assert told(open_vector(gym.vector.SyncVectorEnv([Corridor] * 2), phi=phi)) == ALL
    rewarded = FeatureReward(inner, phi)
    rewarded.signs = (0, 1)
    assert told(open_environment(rewarded)) == ([0, 1], *ALL[1:])


def test_vector_environments_are_looked_up_too():
    mo_gymnasium = pytest.importorskip("mo_gymnasium")
    kind = mo_gymnasium.wrappers.vector.MOSyncVectorEnv
    assert told(open_vector(kind([lambda: Declaring(vectors(), **DECLARED)] * 2))) == ALL
    assert told(open_vector(kind([vectors] * 2))) == NOTHING
    around = gym.vector.VectorWrapper(kind([vectors] * 2))
    around.signs = (-1, -1)
    assert told(open_vector(around))[0] == [-1, -1]
    assert open_vector(kind([lambda: mo_gymnasium.make("resource-gathering-v0")] * 2)).signs.tolist() == [1, 1, 1]


@pytest.mark.parametrize("env_id", ["resource-gathering-v0", "deep-sea-treasure-v0", "breakable-bottles-v0"])
def test_components_of_mo_gymnasiums_rewards_are_to_be_maximised(env_id):
    pytest.importorskip("mo_gymnasium")
    env = open_environment(gym.wrappers.TimeLimit(open_environment(env_id).env, 50))
    assert env.signs.tolist() == [1] * env.n_features
    changed = Declaring(env.env, reward_space=env.env.unwrapped.reward_space)
    assert open_environment(changed).signs is None
    assert open_environment(env.env, lambda *_: [1.0, 2.0]).signs is None


def test_declarations_that_are_wrong_are_refused():
    for name, values, said in (
        ("signs", ((1,), (1, 2), "ab", 3, [[1], [1, 1]], (np.nan, 1)), "signs must be 2 numbers"),
        ("feature_names", ("ab", 3, ("a",), ("a", "a"), (1, 2)), "feature_names must be 2 different words"),
        ("events", (3, "a", (2,), (0, 0), (True,), [object()]), "events must list different indices from 0 to 1"),
        ("random_tasks", (3, draws(np.nan), lambda *_: [[1.0, 2.0]], lambda *_: None), "random_tasks must"),
    ):
        for value in values:
            with pytest.raises(ValueError, match=said) as refused:
                told(open_environment(Declaring(vectors(), **{name: value})))
            assert "\n" not in str(refused.value)


# --- what phi is given


def test_phi_gets_reward_and_ends_if_it_names_them():
    def phi(obs, action, next_obs, info, truncated, scale=2.0, *, reward, terminated):
        return [scale * reward, terminated, truncated]

    class Whole:
        def __call__(self, obs, action, next_obs, info, reward):
            return [reward, info["time"]]

    env = open_environment(Corridor(length=1, limit=2), phi)
    env.reset(seed=0)
    assert env.step(0).phi.tolist() == [3.0, 0.0, 0.0]
    assert env.step(1).phi.tolist() == [3.0, 1.0, 1.0]
    other = open_environment(Corridor(), Whole())
    other.reset(seed=0)
    assert other.step(0).phi.tolist() == [1.5, 1.0]
    wrapped = FeatureReward(Corridor(length=1), phi)
    wrapped.reset(seed=0)
    assert wrapped.step(6)[1].tolist() == [3.0, 1.0, 0.0]
    for mode in gym.vector.AutoresetMode:
        native = gym.vector.SyncVectorEnv([lambda: Corridor(length=1, limit=2)] * 2, autoreset_mode=mode)
        vector = open_vector(native, phi=phi)
        vector.reset(0)
        assert vector.step([0, 1]).phi.tolist() == [[3.0, 0.0, 0.0], [3.0, 1.0, 0.0]]
        assert vector.step([0, 0]).phi[0].tolist() == [3.0, 0.0, 1.0]


def test_a_phi_of_other_parameters_is_refused_before_a_step():
    def first_named_reward(reward, action, next_obs, info):  # by position, as ever
        return [reward[0], 1.0]

    env = open_environment(Corridor(), first_named_reward)
    env.reset(seed=0)
    assert env.step(1).phi.tolist() == [0.0, 1.0]
    for phi in (lambda obs: [1.0], lambda obs, action, next_obs: [1.0], lambda o, a, n, i, speed: [1.0], lambda: [1.0]):
        for open_with in (
            open_environment,
            lambda env, phi: open_vector(gym.vector.SyncVectorEnv([Corridor]), phi=phi),
        ):
            with pytest.raises(ValueError, match=r"phi must be a function phi\(obs, action, next_obs, info\), with"):
                open_with(Corridor(), phi)


def test_features_that_are_none_are_refused(subtests):
    said = r"^(phi must return features of shape|the features of a step must be)"
    for features in [
        None,
        "12",
        ["1", "2"],
        [1j, 2j],
        np.ones(2, complex),
        {"a": 1},
        [[1.0], [2.0, 3.0]],
        [np.nan, 1.0],
        [1.0],
        7,
        [],
        np.ones((2, 1)),
        object(),
    ]:
        with subtests.test(features=features):

            def phi(obs, action, next_obs, info, features=features):
                return features if info["time"] > 1 else [1.0, 2.0]

            env = open_environment(Corridor(), phi)
            env.reset(seed=0)
            env.step(0)
            with pytest.raises(ValueError, match=said):
                env.step(0)


# --- ends, failures, spaces, sizes


class Saying(Answers):
    """Says something of its ends and failures."""

    def __init__(self, terminated=False, truncated=False, **info):
        super().__init__(LINE, [np.zeros(1)] * 9, np.ones(2))
        self.reward_space, self.said = spaces.Box(0.0, 1.0, (2,)), (terminated, truncated, info)

    def step(self, action):
        return *super().step(action)[:2], *self.said


def test_ends_and_failures_must_be_yes_or_no():
    for yes, no in ((True, False), (np.True_, np.False_), (1, 0), (np.int8(1), np.int8(0)), (np.array(True), 0.0)):
        for name, place in (("terminated", 2), ("truncated", 3), ("failure", 4)):
            for given, wanted in ((yes, True), (no, False)):
                env = open_environment(Saying(**{name: given}))
                env.reset()
                found = env.step(0)[place]
                assert (found, type(found)) == (wanted, bool)
    for given in ("no", None, np.nan, 2, -1, [True], np.array([True]), np.array([True, False]), {}, object()):
        for name in ("terminated", "truncated", "failure"):
            said = 'info["failure"]' if name == "failure" else name
            env = open_environment(Saying(**{name: given}))
            env.reset()
            with pytest.raises(
                ValueError, match="^the environment's " + re.escape(said) + " must be True or False, got"
            ):
                env.step(0)
        env = open_environment(Saying())
        env.count_failures(lambda step, given=given: given)
        env.reset()
        with pytest.raises(ValueError, match=r"^the result of failure\(step\) must be True or False, got"):
            env.step(0)


def test_an_environment_without_spaces_is_refused():
    class Bare(gym.Env):
        def reset(self, *, seed=None, options=None):
            return np.zeros(1), {}

    class Observed(Bare):
        observation_space = LINE

    with pytest.raises(ValueError, match=r"must have an observation_space, a space of gymnasium\.spaces, got none"):
        open_environment(Bare())
    with pytest.raises(ValueError, match=r"must have an action_space, a space of gymnasium\.spaces, got none"):
        open_environment(gym.wrappers.TimeLimit(Observed(), 3))
    with pytest.raises(ValueError, match=r"an observation_space, a space of gymnasium\.spaces, got a builtins\.int"):
        open_environment(Answers(3, [0], [1.0]))
    two = gym.vector.SyncVectorEnv([Corridor] * 2)
    two.single_action_space = None
    with pytest.raises(ValueError, match="must have an single_action_space"):
        open_vector(two, phi=corridor_phi)


def test_too_many_actions_or_features_are_refused_before_anything_is_made():
    for n in (2**15 + 1, 10**5, 10**9, 2**62):
        with pytest.raises(ValueError, match=f"^the action space must have at most 32768 actions, got {n}$"):
            open_environment(Answers(LINE, [np.zeros(1)], np.ones(2), spaces.Discrete(n)))
    assert open_environment(Answers(LINE, [np.zeros(1)] * 2, np.ones(2), spaces.Discrete(2**15))).n_actions == 2**15
    with pytest.raises(ValueError, match=r"^the number of features must be 1 to 32768, got 40000$"):
        open_environment(Answers(LINE, [np.zeros(1)] * 2, np.ones(40_000)))


def test_a_part_that_is_not_served_is_named_with_the_way_out():
    view = spaces.Box(0, 255, (7, 7, 3), np.uint8)
    space = spaces.Dict({"image": view, "mission": spaces.Text(9), "direction": spaces.Discrete(4)})
    way_out = r"leave it out with gymnasium\.wrappers\.FilterObservation\(env, \['direction', 'image'\]\)$"
    with pytest.raises(ValueError, match=rf"got Text at obs\[mission\]; {way_out}"):
        open_environment(Answers(space, [None], [1.0]))
    env = gym.wrappers.FilterObservation(Answers(space, [space.sample()] * 2, [1.0]), ["direction", "image"])
    assert open_environment(env).encoder.images == [(7, 7, 3)]
    with pytest.raises(ValueError, match=r"got Graph at obs\[1\]; .*FilterObservation\(env, \[0\]\)"):
        open_environment(Answers(spaces.Tuple((LINE, spaces.Graph(LINE, None))), [None], [1.0]))
    with pytest.raises(ValueError, match=r"got Text at obs\[a\]\[b\]$"):
        open_environment(Answers(spaces.Dict({"a": spaces.Dict({"b": spaces.Text(3)})}), [None], [1.0]))


def test_an_old_gymnasium_is_named_at_the_first_use():
    import tomllib
    from importlib.metadata import version
    from pathlib import Path

    from packaging.requirements import Requirement

    from rasf.envs import registration

    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
    wanted = next(one for one in map(Requirement, project["dependencies"]) if one.name == "gymnasium")
    assert str(wanted.specifier) == ">=" + ".".join(map(str, registration.OLDEST_GYMNASIUM))
    assert gym.__version__ == version("gymnasium")
    code = "import gymnasium; gymnasium.__version__ = '0.29.1'; import rasf; rasf.learn('rasf/Grid-v0', tasks=1)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said = "rasf needs Gymnasium 1.1 or newer, but 0.29.1 is installed, perhaps because another package required it"
    assert said in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize("size", [1.1e18, 1e300, -1e19])
def test_features_whose_variance_is_beyond_single_precision_are_refused(size):
    def phi(obs, action, next_obs, info):
        return [size if info["time"] else 1.0, 0.0]

    phi.bounds = [[-np.inf, np.inf]] * 2
    for opened in (open_environment(Corridor(), phi), open_vector(gym.vector.SyncVectorEnv([Corridor]), phi=phi)):
        opened.reset(0)
        with pytest.raises(ValueError, match=r"features of a step must be finite and at most 1e\+18 in size"):
            opened.step([0] if hasattr(opened, "num_envs") else 0)


def test_a_wrapper_of_features_needs_an_environment():
    for env in ("rasf/Grid-v0", 3, None):
        with pytest.raises(ValueError, match=r"env must be a gymnasium\.Env, got"):
            FeatureReward(env, lambda obs, action, after, info: [1.0])
    with pytest.raises(ValueError, match="env must be an id") as refusal:
        open_environment("a" * 10_000)
    assert len(str(refusal.value)) < 300


class Limited(gym.Wrapper):
    """A wrapper that says how long episodes are."""

    def __init__(self, env, **told):
        super().__init__(env)
        vars(self).update(told)


@pytest.mark.parametrize(
    ("make", "limit"),
    [
        (Corridor, None),
        (lambda: gym.wrappers.TimeLimit(Corridor(), 7), 7),
        (lambda: gym.wrappers.TimeLimit(gym.wrappers.TimeLimit(Corridor(), 7), 12), 7),  # the first to cut
        (lambda: gym.wrappers.RescaleObservation(gym.wrappers.TimeLimit(Corridor(), 7), -1, 1), 7),
        (lambda: Limited(Corridor(), max_episode_steps=9), 9),
        (lambda: Limited(Corridor(), max_steps=np.int64(9)), 9),
        (lambda: Limited(Corridor(), max_episode_steps=None, max_steps="many"), None),
        (lambda: Limited(Corridor(), max_steps=0), None),
        (lambda: gym.make("CartPole-v1"), 500),
        (lambda: gym.make("CartPole-v1", max_episode_steps=30), 30),
        (lambda: gym.make("rasf/FourRoom-v0", step_limit=40), 40),
    ],
)
def test_the_time_limit_is_what_an_environment_and_its_wrappers_tell(make, limit):
    assert time_limit_of(make()) == limit


def test_vector_environments_tell_the_time_limit_of_one():
    several = gym.vector.SyncVectorEnv([lambda: gym.wrappers.TimeLimit(Corridor(), 7)] * 2)
    phi = {"phi": lambda obs, action, after, info: np.ones(2)}
    assert time_limit_of(several) == open_vector(several, None, **phi).time_limit == 7
    assert open_vector(gym.make_vec("CartPole-v1", 2), None, **phi).time_limit == 500
    assert open_environment(gym.wrappers.TimeLimit(Corridor(), 7), **phi).time_limit == 7
