"""The compiled traffic beside highway-env's own: the same seeds and actions, whole episodes."""

import copy
import math
import sys
import types

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("highway_env")

from highway_env.envs.common.observation import KinematicObservation
from highway_env.vehicle.behavior import IDMVehicle

from rasf_lab.driving.wrapper import CompiledTraffic

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")
CONSTANTS = ("DISTANCE_WANTED", "COMFORT_ACC_MAX", "COMFORT_ACC_MIN")


@pytest.fixture(autouse=True)
def constants_of_the_class():
    """The intersection sets these for every vehicle in the process."""
    before = {name: getattr(IDMVehicle, name) for name in CONSTANTS}
    yield
    for name, value in before.items():
        setattr(IDMVehicle, name, value)


class NumpyByTheCLibrary:
    """numpy, but for functions whose last digits depend on the processor: numpy has versions of its own for some.

    A car that hardly moves turns on the last digits, so that a thousand frames later they are others of the first.
    """

    def __init__(self):
        for name in ("sin", "cos", "tan", "arctan", "arcsin", "arctan2", "power"):
            known = getattr(math, {"power": "pow"}.get(name, name.replace("arc", "a")))
            setattr(self, name, self._of_numbers(known, getattr(np, name)))
        self.linalg = types.SimpleNamespace(norm=lambda x: math.sqrt(sum(float(one) * float(one) for one in x)))

    def _of_numbers(self, known, otherwise):
        return lambda *x: otherwise(*x) if any(np.ndim(one) for one in x) else np.float64(known(*x))

    def dot(self, a, b):
        if np.ndim(a) > 1 or np.ndim(b) > 1:
            return np.dot(a, b)
        return sum(float(x) * float(y) for x, y in zip(a, b, strict=True))

    def __getattr__(self, name):
        return getattr(np, name)


@pytest.fixture
def same_last_digits(monkeypatch):
    """highway-env computes as the compiled traffic does, on every processor."""
    replaced = NumpyByTheCLibrary()
    for name, module in list(sys.modules.items()):
        if name.startswith("highway_env") and getattr(module, "np", None) is np:
            monkeypatch.setattr(module, "np", replaced)


def make(name, compiled=True, **options):
    env = gym.make(name, disable_env_checker=True, **options)
    return CompiledTraffic(env) if compiled else env


def state_numbers(env):
    """All vehicles' numbers (n, 8)."""
    return [
        (*v.position, v.heading, v.speed, v.target_speed, getattr(v, "timer", 0.0), *v.action.values())
        for v in env.unwrapped.road.vehicles
    ]


def state_exact(env):
    """What else is known of vehicles and obstacles."""
    vehicles = env.unwrapped.road.vehicles
    names = ("lane_index", "target_lane_index", "route", "crashed", "is_yielding", "yield_timer", "speed_index")
    exact = [[getattr(v, name, None) for name in names] + [hasattr(v, "color"), v.impact is None] for v in vehicles]
    return exact, [(tuple(o.position), o.crashed) for o in env.unwrapped.road.objects]


def assert_same_state(plain, compiled):
    np.testing.assert_allclose(state_numbers(compiled), state_numbers(plain), rtol=0, atol=1e-9)
    assert state_exact(compiled) == state_exact(plain)


def episode(env, seed, steps=60):
    """Observation, reward, ends and rewards of each step; the first has only an observation."""
    draw = np.random.default_rng(seed)
    yield env.reset(seed=seed)[0], 0.0, False, False, {}
    for _ in range(steps):
        observation, reward, terminated, truncated, info = env.step(int(draw.integers(env.action_space.n)))
        yield observation, reward, terminated, truncated, info
        if terminated or truncated:
            return


def same_episode(plain, compiled, seed):
    """Whether it ends in a crash."""
    for a, b in zip(episode(plain, seed), episode(compiled, seed), strict=True):
        assert a[0].dtype == b[0].dtype
        np.testing.assert_allclose(b[0], a[0], rtol=0, atol=1e-6)  # single precision
        np.testing.assert_allclose(b[1], a[1], rtol=0, atol=1e-9)
        assert a[2:4] == b[2:4]
        assert a[4].keys() == b[4].keys()
        if a[4]:
            assert a[4]["crashed"] == b[4]["crashed"]
            assert a[4]["rewards"] == pytest.approx(b[4]["rewards"], rel=0, abs=1e-9)
        assert_same_state(plain, compiled)
    assert plain.unwrapped.np_random.bit_generator.state == compiled.unwrapped.np_random.bit_generator.state
    return a[4]["crashed"]


@pytest.mark.parametrize(
    ("name", "seeds", "crashes", "config"),
    [
        ("highway-fast-v0", (0, 6), 2, {"vehicles_count": 12}),
        ("merge-v0", (1, 7), 1, {}),
        ("merge-v1", (2, 4), 1, {}),
        ("roundabout-v1", (0, 2), 1, {}),
        ("intersection-v2", (3, 5), 1, {"initial_vehicle_count": 6}),
    ],
)
@pytest.mark.usefixtures("same_last_digits")
def test_episodes_are_those_of_highway_env(name, seeds, crashes, config):
    plain, compiled = make(name, compiled=False, config=config), make(name, config=config)
    assert sum(same_episode(plain, compiled, seed) for seed in seeds) == crashes
    assert compiled.plain_steps == 0


def test_a_car_runs_into_the_obstacle():
    pair = make("merge-v1", compiled=False), make("merge-v1")
    for env in pair:
        env.reset(seed=0)
        ego = env.unwrapped.vehicle
        ego.position[:] = 280.0, env.unwrapped.road.objects[0].position[1]
        ego.on_state_update()
        ego.target_lane_index = ego.lane_index
    for _ in range(2):
        rewards = [env.step(1)[1] for env in pair]
        assert rewards[0] == pytest.approx(rewards[1], rel=0, abs=1e-9)
        assert_same_state(*pair)
    assert pair[1].unwrapped.road.objects[0].crashed


def test_constants_are_read_at_each_step():
    pair = make("merge-v1", compiled=False), make("merge-v1")
    for env in pair:
        env.reset(seed=0)
    for gap in (10.0, 40.0):
        IDMVehicle.DISTANCE_WANTED = gap
        for env in pair:
            env.step(1)
        assert_same_state(*pair)


def test_vehicles_that_are_not_known_are_left_to_highway_env():
    config = {
        "vehicles_count": 3,
        "other_vehicles_type": "highway_env.vehicle.behavior.DefensiveVehicle",
        "duration": 3,
    }
    plain, compiled = make("highway-fast-v0", compiled=False, config=config), make("highway-fast-v0", config=config)
    same_episode(plain, compiled, 0)
    assert compiled.plain_steps == 3


@pytest.mark.parametrize(
    "observation",
    [
        {"vehicles_count": 8, "see_behind": True, "features": ["x", "presence", "sin_h", "cos_h", "vy"]},
        {"vehicles_count": 30, "absolute": True, "clip": False},
        {"normalize": False, "include_obstacles": False},
        {"features_range": {"x": [-50, 80], "presence": [0, 4]}},
        {"features": ["x", "heading", "lat_off"], "include_obstacles": False},
        {"order": "shuffled", "see_behind": True},
        {"features": ["sin_d", "x", "cos_d"], "vehicles_count": 15, "observe_intentions": True},
        {"features": ["sin_d", "x", "cos_d"], "vehicles_count": 15},
    ],
)
@pytest.mark.parametrize("name", ["highway-fast-v0", "merge-v1", "roundabout-v1", "intersection-v2"])
def test_observations(name, observation):
    env = make(name, config={"observation": {"type": "Kinematics"} | observation}).unwrapped
    env.reset(seed=0)
    for action in (1, 0, 2, 2):
        env.step(action)
        draws = copy.deepcopy(env.np_random.bit_generator.state)
        observed = env.observation_type.observe()
        env.np_random.bit_generator.state = draws
        wanted = KinematicObservation.observe(env.observation_type)
        assert observed.dtype == wanted.dtype
        np.testing.assert_allclose(observed, wanted, rtol=1e-6, atol=1e-6)


def test_where_others_are_going_is_seen_only_where_it_is_told():
    features = {"type": "Kinematics", "features": ["presence", "cos_d", "sin_d"], "vehicles_count": 15}
    for told in (True, False):
        env = make("intersection-v2", config={"observation": features | {"observe_intentions": told}})
        observed, _ = env.reset(seed=0)
        others = observed[1:][observed[1:, 0] == 1, 1:]
        np.testing.assert_allclose(np.hypot(*observed[0, 1:]), 1, atol=1e-6)
        np.testing.assert_allclose(np.hypot(*others.T), 1 if told else 0, atol=1e-6)
        assert len(others) > 3


def test_same_seed_same_bits():
    env = make("highway-fast-v0")
    first, second = list(episode(env, 3)), list(episode(env, 3))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a[0], b[0])
        assert a[1:4] == b[1:4]


def test_settings_may_change_with_a_reset():
    env = make("highway-fast-v0")
    for lanes in (3, 2):
        env.reset(seed=0, options={"config": {"lanes_count": lanes, "observation": {"type": "Kinematics"}}})
        assert len(env.unwrapped.road.network.graph["0"]["1"]) == lanes
        env.step(1)
    speeds = {"type": "DiscreteMetaAction", "target_speeds": np.linspace(0, 30, 7)}
    for _ in range(2):
        env.reset(seed=0, options={"config": {"action": speeds}})
        env.step(1)
        assert env.unwrapped.vehicle.target_speeds.size == 7
    assert env.plain_steps == 0


def test_a_deep_copy_goes_its_own_way():
    env = make("highway-fast-v0").unwrapped
    env.reset(seed=0)
    other = copy.deepcopy(env)
    before = state_numbers(env)
    other.step(1)
    np.testing.assert_array_equal(state_numbers(env), before)
    env.step(1)
    np.testing.assert_array_equal(state_numbers(env), state_numbers(other))


def test_frames_in_between_are_rendered_by_highway_env():
    env = make("highway-fast-v0", render_mode="rgb_array", config={"vehicles_count": 2})
    env.reset(seed=0)
    env.step(1)
    assert env.plain_steps == 0
    assert env.render().shape == (150, 600, 3)
    env.step(1)
    assert env.plain_steps == 1
    env.close()


def test_other_environments_are_refused():
    with pytest.raises(TypeError, match="env must be an environment of highway-env, got CartPoleEnv"):
        make("CartPole-v1")
    with pytest.raises(TypeError, match="actions of type DiscreteMetaAction, got ContinuousAction"):
        make("highway-fast-v0", config={"action": {"type": "ContinuousAction"}, "vehicles_count": 1})
