"""Roads with features: highway-env's own numbers under our names, whoever computes the traffic."""

import sys

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("highway_env")
pytest.importorskip("mo_gymnasium")

from rasf.envs.gymnasium.single import open_environment
from rasf_lab.driving.roads import ROADS, DrivingEnv

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def drive(env, seed, most=8):
    """Features and failures of random actions, until the episode is over."""
    rng, told = np.random.default_rng(seed), []
    env.reset(seed=seed)
    for _ in range(most):
        _, phi, terminated, truncated, info = env.step(int(rng.integers(env.action_space.n)))
        told.append((phi, info["failure"], info["crashed"], info["rewards"]))
        if terminated or truncated:
            break
    return told


@pytest.mark.parametrize("road", ROADS)
def test_features_are_highway_envs_own(road):
    env = DrivingEnv(road)
    for seed in range(4):
        for phi, failure, crashed, rewards in drive(env, seed):
            on_road = float(rewards.get("on_road_reward", 1.0))
            wanted = [rewards[name] * on_road for _, name, _, _ in ROADS[road].features]
            np.testing.assert_allclose(phi[:-1], wanted[:-1])
            assert phi[-1] == failure == crashed
            assert env.reward_space.contains(phi)


def test_the_highway_is_mo_gymnasiums():
    import mo_gymnasium

    theirs, ours = mo_gymnasium.make("mo-highway-fast-v0"), DrivingEnv("highway")
    theirs.reset(seed=3)
    ours.reset(seed=3)
    for action in (3, 3, 0, 1):
        _, reward, terminated, _, _ = theirs.step(action)
        np.testing.assert_allclose(ours.step(action)[1], reward * np.array([1, 1, -1]), atol=1e-6)
        if terminated:
            break


def test_the_intersection_does_not_change_other_roads():
    from highway_env.vehicle.behavior import IDMVehicle

    before = drive(DrivingEnv("highway"), 5)
    usual = IDMVehicle.DISTANCE_WANTED
    DrivingEnv("intersection").reset(seed=0)
    assert usual != IDMVehicle.DISTANCE_WANTED
    np.testing.assert_array_equal([one[0] for one in drive(DrivingEnv("highway"), 5)], [one[0] for one in before])
    assert usual == IDMVehicle.DISTANCE_WANTED == IDMVehicle.LENGTH + 5


def test_compiled_and_plain_traffic_tell_the_same():
    compiled, plain = (drive(DrivingEnv("roundabout", compiled=so), 1) for so in (True, False))
    np.testing.assert_allclose([one[0] for one in compiled], [one[0] for one in plain], atol=1e-9)


@pytest.mark.parametrize("road", ROADS)
def test_a_road_is_an_environment_with_features(road):
    opened = open_environment(f"rasf/{road.title()}-v0")
    assert opened.feature_names[-1] == "collision"
    assert opened.signs[-1] == -1
    assert opened.describe().id == f"rasf/{road.title()}-v0"
    opened.reset(0)
    opened.step(1)
    assert opened.reports_failures
    opened.close()


def test_settings_and_pictures():
    env = gym.make("rasf/Highway-v0", config={"vehicles_count": 3}, render_mode="rgb_array")
    env.reset(seed=0)
    assert len(env.unwrapped.highway_env.road.vehicles) == 4
    assert len(np.unique(env.render().reshape(-1, 3), axis=0)) > 3  # road, lines, own car, others
    env.close()


def test_what_cannot_be_is_said(monkeypatch):
    with pytest.raises(ValueError, match="road"):
        DrivingEnv("river")
    monkeypatch.setitem(sys.modules, "highway_env", None)
    with pytest.raises(ValueError, match=r"rasf\[suite\]"):
        DrivingEnv("highway")
