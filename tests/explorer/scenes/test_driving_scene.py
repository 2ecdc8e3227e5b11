"""The scene of a road against the library it shows and a plain loop of its environment."""

import builtins

import numpy as np
import pytest
from small_roads import random_driver

import rasf
from rasf import MeanVariance
from rasf.envs.gymnasium.single import open_environment, seeds_from
from rasf_explorer.scenes.driving import ROADS, DrivingScene
from rasf_explorer.scenes.library import LibraryScene
from rasf_explorer.scenes.scene import Stopped, Ways
from rasf_explorer.views import scene_of
from rasf_lab.suite.film import shipped_driver

pytest.importorskip("highway_env")
pytest.importorskip("mo_gymnasium")

NAMES = ("Highway", "Merge", "Roundabout", "Intersection")
RISK = MeanVariance(-1.0)
SHORT = {"config": {"duration": 6, "vehicles_count": 8}}


@pytest.fixture(scope="module")
def scene():
    return DrivingScene(random_driver(**SHORT))


@pytest.mark.parametrize("name", NAMES)
def test_every_road_has_the_scene(name):
    scene = scene_of(random_driver(name))
    assert type(scene) is DrivingScene
    assert f"rasf/{name}-v0" in ROADS
    assert scene.title == name
    assert scene.road.follows == (name in ("Highway", "Merge"))
    found = scene.roll_out(scene.default_task, RISK, 3, 1)
    drive = found.drives[0]
    steps, cars = drive.steps, len(drive.sizes)
    assert drive.cars.shape == (steps + 1, cars, 4)
    assert not np.isnan(drive.cars[:, 0]).any()
    assert len(drive.observations) == steps + 1
    assert bool(np.isnan(drive.cars).any()) <= (name == "Intersection")  # where cars come and go
    np.testing.assert_array_equal(drive.sizes, [(5.0, 2.0)] * cars)
    assert len(scene.road.obstacles) == (name == "Merge")


def test_the_shipped_driver_is_calibrated_so_its_limit_is_sure():
    scene = scene_of(shipped_driver())
    assert type(scene) is DrivingScene
    assert scene.limit.name == "collisions at most, in 95 % of tasks"
    found = scene.roll_out(scene.default_task, RISK, 2, 0, ways=Ways(limit=0.2))
    price, bounds = (note for note in found.notes if not note.startswith("Note"))
    assert price.startswith("The price of the limit is ")
    assert price.endswith(" of return per unit of collision.")
    assert bounds.startswith("Bounds: ")
    np.testing.assert_array_equal(
        found.drives[0].cars[0], scene.roll_out(scene.default_task, RISK, 1, 0).drives[0].cars[0]
    )


def test_words_and_sliders(scene):
    assert [(one.name, one.low, one.high) for one in scene.weights] == [
        ("speed", 0, 1), ("right lane", 0, 1), ("collision", -1, 0)
    ]  # fmt: skip
    assert scene.actions == ("lane left", "idle", "lane right", "faster", "slower")
    assert scene.failure == "collision"
    assert scene.about.startswith("Thirty seconds among twenty cars")
    assert scene.limit.name == "collisions at most, expected, discounted"
    assert {family.name for family in scene.families} >= {"mean-variance", "cvar"}


def test_rollouts_are_those_of_the_library_in_a_plain_loop(scene):
    w, found = scene.default_task, scene.roll_out(scene.default_task, RISK, 20, seed=3)  # more than one block
    env = open_environment("rasf/Highway-v0", **SHORT)
    for i, seed in enumerate(seeds_from(3, 20)[:12]):
        obs, total, speeds, places, over = env.reset(seed), 0.0, [], [], False
        while not over:
            places.append(env.env.unwrapped.highway_env.vehicle.position.copy())
            step = env.step(scene.library.act(obs, w, RISK))
            obs, total, over = step.obs, total + step.phi @ w, step.terminated or step.truncated
            speeds.append(step.info["speed"])
        assert found.returns[i] == pytest.approx(total)
        assert (found.lengths[i], found.failures[i]) == (len(speeds), step.failure)
        if i < found.played:
            drive = found.drives[i]
            np.testing.assert_allclose(drive.speeds[1:], speeds)
            np.testing.assert_allclose(drive.cars[:-1, 0, :2], places)
            assert (drive.steps, drive.collided) == (len(speeds), step.failure)
            np.testing.assert_array_equal(drive.observations[-1], obs)
    env.close()
    assert found.played == 10
    report = scene.library.evaluate("rasf/Highway-v0", w, RISK, 20, seed=3)
    np.testing.assert_allclose(found.returns, report.returns)
    assert found.measures["failures"].estimate == pytest.approx(report.failures.mean())


def test_two_risks_meet_the_same_traffic(scene):
    one, other = (scene.roll_out(scene.default_task, MeanVariance(beta), 3, 1).drives[0] for beta in (-4.0, 1.0))
    np.testing.assert_array_equal(one.cars[0], other.cars[0])
    np.testing.assert_array_equal(one.observations[0], other.observations[0])


def test_mean_speed_is_of_the_steps_of_each_rollout(scene):
    found = scene.roll_out(scene.default_task, RISK, 5, 0)
    assert found.measures["speed"].estimate == pytest.approx(np.mean([d.speeds[1:].mean() for d in found.drives]))
    assert found.measures["speed"].low <= found.measures["speed"].estimate


def test_scores_are_the_library_s_own(scene):
    drive = scene.roll_out(scene.default_task, RISK, 2, 0).drives[1]
    found = scene.scores_at(drive.observations[0], scene.default_task, RISK)
    wanted = scene.library.scores(drive.observations[0], scene.default_task, RISK)
    np.testing.assert_array_equal(found.values, wanted.values)
    assert (found.action, found.driver, found.gamma) == (int(wanted.action), int(wanted.source), 0.8)


def test_a_limit_is_kept_by_a_rule_and_told_its_price(scene):
    found = scene.roll_out(scene.default_task, MeanVariance(0.0), 3, 1, ways=Ways(limit=0.01))
    assert found.notes[0].startswith("The price of the limit is ")
    static = scene.roll_out(scene.default_task, rasf.CVaR(0.2), 3, 1, ways=Ways(static=True))
    wanted = scene.library.evaluate("rasf/Highway-v0", scene.default_task, rasf.CVaR(0.2), 3, seed=1, static=True)
    np.testing.assert_allclose(static.returns, wanted.returns)


def test_it_stops_when_asked(scene):
    asked = []

    def stop():
        asked.append(True)
        return len(asked) == 3

    with pytest.raises(Stopped):
        scene.roll_out(scene.default_task, RISK, 20, 0, stop)
    assert len(asked) == 3
    assert len(scene.roll_out(scene.default_task, RISK, 2, 0).returns) == 2  # the environments are free again


def test_what_a_file_may_not_ask_for_is_not_made(tmp_path):
    library = random_driver()
    library.environment.kwargs["config"] = {"other_vehicles_type": "os.path"}
    library.save(tmp_path / "a.rasf")
    scene = scene_of(rasf.load(tmp_path / "a.rasf"))
    assert type(scene) is LibraryScene
    assert "the file sets config.other_vehicles_type of rasf/Highway-v0 to 'os.path'" in scene.can_run()


def test_without_highway_env_it_is_told_how_to_install_it(monkeypatch):
    library, real = random_driver(), builtins.__import__

    def without(name, *args, **kwargs):
        if name == "highway_env":
            raise ImportError("No module named 'highway_env'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    scene = scene_of(library)
    scene.warm(lambda: False)
    assert type(scene) is LibraryScene
    assert "pip install 'rasf[suite]'" in scene.can_run()
    assert "\n" not in scene.can_run()
