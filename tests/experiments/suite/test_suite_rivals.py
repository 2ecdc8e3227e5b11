"""Rivals, with a stand-in for Stable-Baselines3, which needs torch: what they are given, and what is made of it."""

import json
import shutil
import sys
import types

import numpy as np
import pytest

import coin_world
from rasf.experiments.suite import find_case
from rasf.experiments.suite.cases import PRESETS
from rasf.experiments.suite.measures import cases_of, summary
from rasf.experiments.suite.rivals import rival_training, rivals_of
from rasf.experiments.suite.runs import SUITE, all_runs, runs_of
from rasf.sweep.runs import Run
from rasf.sweep.store import Finished

MINE = """
import coin
from rasf.experiments.suite import Case

CASE = Case(
    env="Coin-v0", about="a fair coin, or a sure thing", features=("won", "lost"), tasks=((1, 0), (1, -4)),
    unseen=((1, -0.2), (1, -5), (0.4, -0.1)), steps_per_task=400, failures="losses", priced=1, settings={"gamma": 0.9},
    actings=("neutral", "mean-variance:-4"), episodes=400, rival_steps=80,
    rival={"learning_rate": 0.5, "train_freq": (1, "episode")},
)
"""
TRAINED = []


class Greedy:
    """Tries both actions as often as it may, and then takes the better one."""

    def __init__(self, policy, env, seed, device, **settings):
        TRAINED.append(settings)
        self.env, self.seed = env, seed

    def learn(self, steps):
        TRAINED[-1]["steps"] = steps
        earned = np.zeros(2)
        for i in range(steps):
            obs, _ = self.env.reset(seed=self.seed + i)
            assert obs.shape == self.env.observation_space.shape
            earned[i % 2] += self.env.step(i % 2)[1]
        self.best = int(earned.argmax())

    def predict(self, obs, deterministic):
        assert deterministic
        return self.best, None


@pytest.fixture
def mine(tmp_path, monkeypatch):
    shutil.copy(coin_world.__file__, tmp_path / "coin.py")
    (tmp_path / "rivals_of_mine.py").write_text(MINE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "rivals_of_mine", raising=False)
    monkeypatch.setitem(sys.modules, "stable_baselines3", types.SimpleNamespace(DQN=Greedy))
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(set_num_threads=lambda n: None))
    TRAINED.clear()
    return "rivals_of_mine:CASE"


def test_a_rival_is_trained_for_each_weighting_with_the_steps_of_the_library(mine, tmp_path):
    runs = runs_of(mine, "quick", ["dqn"])
    assert len(runs) == 2 * 3  # seeds, weightings
    outcomes = SUITE.execute(runs[:3], tmp_path)
    assert [one["steps"] for one in TRAINED] == [2 * 100] * 3  # quick has a quarter of the steps
    assert all(one["learning_rate"] == 0.5 and one["gamma"] == 0.9 for one in TRAINED)
    assert TRAINED[0]["train_freq"] == (1, "episode")
    assert [Run.from_description(json.loads(json.dumps(run.describe()))) for run in runs] == runs
    failures = [float(one.arrays["failures"].item()) for one in outcomes]
    assert failures[1] == 0  # where a loss costs 5, it takes the sure thing
    assert failures[0] == pytest.approx(0.5, abs=0.15)
    assert float(outcomes[1].arrays["return"].item()) == 1


def test_a_documented_recipe_has_its_own_steps(mine):
    case, quick = find_case(mine), PRESETS["quick"]
    assert rivals_of(case) == ["dqn", "qr-dqn", "dqn-documented"]
    assert rival_training(case, "dqn-documented", quick)["steps"] == 20
    assert rival_training(case, "dqn", quick)["steps"] == 200
    undocumented = find_case("inventory")
    assert "dqn-documented" not in rivals_of(undocumented)
    with pytest.raises(ValueError, match="no documented recipe"):
        rival_training(undocumented, "dqn-documented", quick)
    both = all_runs([mine, "inventory"], "quick", ["dqn-documented"])
    assert {run.parameters["case"] for run in both} == {mine}
    with pytest.raises(ValueError, match="no documented recipe"):
        all_runs(["inventory"], "quick", ["dqn-documented"])


def finished(run, **numbers):
    shape = (1, 1) if run.parameters["agent"] != "library" else (2, 3)
    names = ("return", "cvar", "failures", "length", "gauge", "discounted", "std", "predicted", "predicted_std")
    arrays = {name: np.full(shape, 1.0) for name in names} | {k: np.broadcast_to(v, shape) for k, v in numbers.items()}
    return Finished(run, {"training_seconds": 2.0, "library": "here"}, {}, arrays)


def test_ours_stands_beside_theirs_on_the_same_seeds(mine):
    library = [finished(run, failures=np.array([[0.2], [0.1]])) for run in runs_of(mine, "quick")]
    rival = [finished(run, failures=0.4) for run in runs_of(mine, "quick", ["dqn"])]
    found = cases_of([*library, *rival[:5]])  # the second seed lacks a weighting
    told = summary(found[mine])["rivals"]["dqn"]
    assert told["seeds"] == [0]
    assert told["steps"] == 200
    assert told["seconds"] == 2.0
    assert told["beside"]["neutral"]["failures"] == pytest.approx(0.5)
    assert told["beside"]["mean-variance:-4"]["failures"] == pytest.approx(0.25)
    assert told["beside"]["neutral"]["return"] == pytest.approx(1.0)


def test_without_them_it_is_said_what_is_missing(mine, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(ValueError, match="pip install"):
        SUITE.execute(runs_of(mine, "quick", ["dqn"])[:1], tmp_path)
