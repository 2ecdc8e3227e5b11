"""A file with the environment of a stranger: nothing that reads it imports a module of its choosing, or works for long.

The module `evil_mod` can be imported, and is what highway-env would import for the traffic of the file.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import rasf
from rasf.cli.main import main
from rasf.files import load_file, save_file

pytest.importorskip("highway_env")
EVIL = {"config": {"other_vehicles_type": "evil_mod.X"}}
HUGE = {"config": {"vehicles_count": 30_000_000}}
SENTENCE = "the file sets config"


@pytest.fixture(scope="module")
def honest():
    return rasf.learn("rasf/Grid-v0", tasks=1, agent="rasfql", steps_per_task=50, env_kwargs={"slip": 0.0})


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    (tmp_path / "evil_mod.py").write_text("import pathlib\npathlib.Path(__file__).with_name('owned').touch()\nX = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert "evil_mod" not in sys.modules
    assert not (tmp_path / "owned").exists()


def forged(library, kwargs, env_id="rasf/Highway-v0"):
    """The library, saved as one of another environment and loaded again; and its file."""
    described = replace(library.environment, id=env_id, kwargs=kwargs, max_episode_steps=None)
    path = Path("forged.rasf")
    header, arrays = library.describe(), None
    library.save(path)
    _, arrays = load_file(path)
    save_file(path, header | {"environment": described.to_json()}, arrays)
    return rasf.load(path), path


def test_python_refuses_to_make_it(honest):
    w = honest.policies[0].w
    for env_id in ("rasf/Highway-v0", "mo-highway-v0", "highway-v0"):
        for kwargs in (EVIL, HUGE):
            library, _ = forged(honest, kwargs, env_id)
            for call in (
                lambda lib=library: lib.evaluate(lib.environment.id, w, episodes=2),
                lambda lib=library: lib.compare(lib.environment.id, w, [rasf.CVaR(0.5)], episodes=2),
                lambda lib=library: lib.calibrate(lib.environment.id, 40),
            ):
                with pytest.raises(ValueError, match=SENTENCE):
                    call()


def test_the_command_line_refuses_it(honest, monkeypatch, capsys):
    for kwargs in (EVIL, HUGE):
        _, path = forged(honest, kwargs)
        w = ",".join("1" for _ in honest.policies[0].w)
        for command in (
            ("evaluate", path, "--w", w),
            ("evaluate", path, "--w", w, "--env", "rasf/Highway-v0"),
            ("evaluate", path, "--w", w, "--env-arg", "compiled=false"),
            ("calibrate", path),
            ("train", "--grow", path, "--w", w, "--out", "grown.rasf"),
        ):
            monkeypatch.setattr(sys, "argv", ["rasf", *map(str, command)])
            with pytest.raises(SystemExit) as left:
                main()
            assert left.value.code not in (0, None), command
            assert SENTENCE in " ".join(capsys.readouterr().err.split()), command


def test_the_explorer_shows_it_and_does_not_act(honest):
    pytest.importorskip("nicegui")
    from rasf_explorer.scenes.library import LibraryScene
    from rasf_explorer.views import scene_of

    for env_id in ("rasf/Highway-v0", "rasf/FourRoom-v0", "rasf/Reacher-v0"):
        library, _ = forged(honest, EVIL, env_id)
        scene = scene_of(library)
        assert type(scene) is LibraryScene
        assert SENTENCE in scene.can_run()
        with pytest.raises(ValueError, match=SENTENCE):
            scene.first_scores(np.ones(library.n_features), rasf.MeanVariance(0.0), 0)


def test_logs_keep_such_a_description_and_their_libraries_refuse_it(honest):
    """A recorder's folder, .npz and .parquet; a recorder that goes on compares, and makes nothing."""
    described = replace(honest.environment, id="rasf/Highway-v0", kwargs=EVIL, max_episode_steps=None)
    with rasf.Recorder(gym.make("rasf/Grid-v0", slip=0.0, disable_env_checker=True), "log") as env:
        for seed in range(20):
            env.reset(seed=seed)
            for step in range(30):
                if env.step((seed + step) % 4)[2]:
                    break
    part = next(Path("log").glob("part-*.rasf"))
    header, arrays = load_file(part)
    save_file(part, header | {"environment": described.to_json()}, arrays)
    with pytest.raises(ValueError, match="a log of another environment"):
        rasf.Recorder(gym.make("rasf/Grid-v0", slip=0.0, disable_env_checker=True), "log").close()
    log = rasf.Log.read("log")
    log.save("log.npz")
    log.save("log.parquet")
    w = honest.policies[0].w
    for source in ("log", "log.npz", "log.parquet"):
        learned = rasf.learn_from(source, tasks=[w])
        assert json.loads(json.dumps(learned.environment.kwargs)) == EVIL
        with pytest.raises(ValueError, match=SENTENCE):
            learned.evaluate("rasf/Highway-v0", w, episodes=2)


def test_what_the_user_gives_is_used(honest):
    library, _ = forged(honest, {"layout": "S" * 20_000}, "rasf/Grid-v0")
    w = honest.policies[0].w
    with pytest.raises(ValueError, match="the file sets layout"):
        library.evaluate("rasf/Grid-v0", w, episodes=2)
    for given in (
        {"env": "rasf/Grid-v0", "env_kwargs": {"slip": 0.0}},
        {"env": gym.make("rasf/Grid-v0", slip=0.0)},
        {"env": lambda: gym.make("rasf/Grid-v0", slip=0.0)},
    ):
        assert library.evaluate(w=w, episodes=2, max_steps=10, **given).episodes == 2


def test_settings_of_a_known_environment_go_on_working(honest):
    honest.save("honest.rasf")
    library, w = rasf.load("honest.rasf"), honest.policies[0].w
    reports = [one.evaluate("rasf/Grid-v0", w, episodes=4, max_steps=30) for one in (honest, library)]
    np.testing.assert_array_equal(reports[0].returns, reports[1].returns)
