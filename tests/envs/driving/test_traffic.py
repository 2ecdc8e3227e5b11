"""The compiled traffic beside highway-env's own: the same seeds and actions, whole episodes."""

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("highway_env")

from highway_env.vehicle.behavior import IDMVehicle

from rasf.envs.driving.wrapper import CompiledTraffic

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")
CONSTANTS = ("DISTANCE_WANTED", "COMFORT_ACC_MAX", "COMFORT_ACC_MIN")


@pytest.fixture(autouse=True)
def constants_of_the_class():
    """The intersection sets these for every vehicle in the process."""
    before = {name: getattr(IDMVehicle, name) for name in CONSTANTS}
    yield
    for name, value in before.items():
        setattr(IDMVehicle, name, value)


def make(name, compiled=True, **options):
    env = gym.make(name, disable_env_checker=True, **options)
    return CompiledTraffic(env) if compiled else env


def state(env):
    """All vehicles' numbers (n, 9), and what is exact about them."""
    vehicles = env.unwrapped.road.vehicles
    numbers = [
        (*v.position, v.heading, v.speed, v.target_speed, getattr(v, "timer", 0.0), *v.action.values(), *v.velocity)
        for v in vehicles
    ]
    names = ("lane_index", "target_lane_index", "route", "crashed", "is_yielding", "yield_timer", "speed_index")
    exact = [[getattr(v, name, None) for name in names] + [hasattr(v, "color"), v.impact is None] for v in vehicles]
    return numbers, exact, [(tuple(o.position), o.crashed) for o in env.unwrapped.road.objects]


def assert_same_state(plain, compiled):
    (numbers, *exact), (compiled_numbers, *compiled_exact) = state(plain), state(compiled)
    np.testing.assert_allclose(compiled_numbers, numbers, rtol=0, atol=1e-9)
    assert compiled_exact == exact


def episode(env, seed, steps=60):
    """Observation, reward, ends and rewards of each step; the first has only an observation."""
    draw = np.random.default_rng(seed)
    yield env.reset(seed=seed)[0], 0.0, False, False, {}
    for _ in range(steps):
        observation, reward, terminated, truncated, info = env.step(int(draw.integers(env.action_space.n)))
        yield observation, reward, terminated, truncated, info
        if terminated or truncated:
            return


def assert_same_episodes(name, seeds, crashes, **options):
    plain, compiled = make(name, compiled=False, **options), make(name, **options)
    crashed = 0
    for seed in seeds:
        for a, b in zip(episode(plain, seed), episode(compiled, seed), strict=True):
            assert a[0].dtype == b[0].dtype
            np.testing.assert_allclose(b[0], a[0], rtol=0, atol=1e-6)  # one unit of a float32
            np.testing.assert_allclose(b[1], a[1], rtol=0, atol=1e-9)
            assert a[2:4] == b[2:4]
            assert a[4].keys() == b[4].keys()
            if a[4]:
                assert a[4]["crashed"] == b[4]["crashed"]
                assert a[4]["rewards"] == pytest.approx(b[4]["rewards"], rel=0, abs=1e-9)
            assert_same_state(plain, compiled)
        crashed += bool(a[4]["crashed"])
        assert plain.unwrapped.np_random.bit_generator.state == compiled.unwrapped.np_random.bit_generator.state
    assert compiled.plain_steps == 0
    assert crashed == crashes


def test_highway_fast():
    assert_same_episodes("highway-fast-v0", seeds=(0, 1), crashes=1, config={"vehicles_count": 12})


def test_same_seed_same_bits():
    env = make("highway-fast-v0")
    first, second = list(episode(env, 3)), list(episode(env, 3))
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a[0], b[0])
        assert a[1:4] == b[1:4]
