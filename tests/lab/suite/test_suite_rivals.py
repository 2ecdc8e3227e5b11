"""Rivals, with stand-ins for packages that need torch: what they are given, and what is made of it."""

import json
import shutil
import sys
import types

import numpy as np
import pytest

import coin_world
import rasf_lab.commands.suite as cli
from rasf_lab.suite import find_case
from rasf_lab.suite.cases import PRESETS
from rasf_lab.suite.measures import cases_of, summary
from rasf_lab.suite.rivals import RIVALS, TOGETHER, rival_training, rivals_of, signs_of
from rasf_lab.suite.runs import SUITE, all_runs, runs_of
from rasf_lab.sweep.runs import Run
from rasf_lab.sweep.store import Finished

MINE = """
from dataclasses import replace

import coin
from rasf_lab.suite import Case

CASE = Case(
    env="Coin-v0", about="a fair coin, or a sure thing", features=("won", "lost"), tasks=((1, 0), (1, -4)),
    unseen=((1, -0.2), (1, -5), (0.4, -0.1)), steps_per_task=400, failures="losses", priced=1, settings={"gamma": 0.9},
    actings=("neutral", "mean-variance:-4"), episodes=400, rival_steps=80,
    rival={"learning_rate": 0.5, "train_freq": (1, "episode")},
)
IN_STEPS = replace(
    CASE, rival={"learning_rate": 0.01, "train_freq": 1, "learning_starts": 10, "exploration_fraction": 0.5},
    unseen=((0.2, -0.1), (0.2, -0.8), (0.2, -0.05)),  # differences below 1, where Huber's loss means the mean
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


class Envelope:
    """Looks at both actions' features, and can then weigh them as it is asked to."""

    def __init__(self, env, log, seed, device, **settings):
        assert not log
        assert env.unwrapped.reward_space.shape == (2,)
        TRAINED.append(settings)
        self.env, self.seed = env, seed

    def train(self, total_timesteps, ref_point, **others):
        TRAINED[-1] |= {"steps": total_timesteps} | others
        assert ref_point.shape == (2,)
        self.earned = np.zeros((2, 2))
        for i in range(total_timesteps):
            self.env.reset(seed=self.seed + i)
            phi = self.env.step(i % 2)[1]
            assert phi.dtype == np.float32
            assert phi[1] <= 0  # losses have negative weights
            self.earned[i % 2] += phi
        if "eval_env" in others:
            assert others["eval_env"] is not self.env

    def eval(self, obs, w):
        assert obs.shape == self.env.observation_space.shape
        assert w.dtype == np.float32
        assert (w >= 0).all()
        assert w.sum() == pytest.approx(1)
        return int((self.earned @ w).argmax())


class GPILS(Envelope):
    pass


@pytest.fixture
def mine(tmp_path, monkeypatch):
    shutil.copy(coin_world.__file__, tmp_path / "coin.py")
    (tmp_path / "rivals_of_mine.py").write_text(MINE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "rivals_of_mine", raising=False)
    monkeypatch.setitem(sys.modules, "stable_baselines3", types.SimpleNamespace(DQN=Greedy))
    nothing = {"set_num_threads": lambda n: None, "manual_seed": lambda seed: None}
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(**nothing))
    for name in ("envelope", "gpi-ls"):
        monkeypatch.setitem(sys.modules, RIVALS[name].module, types.SimpleNamespace(Envelope=Envelope, GPILS=GPILS))
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
    assert rivals_of(case) == list(RIVALS)
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


@pytest.mark.parametrize(("agent", "more"), [("envelope", set()), ("gpi-ls", {"eval_env", "timesteps_per_iter"})])
def test_one_rival_learns_every_weighting_at_once(mine, tmp_path, agent, more):
    runs = runs_of(mine, "quick", [agent])
    assert len(runs) == 2  # seeds
    (outcome,) = SUITE.execute(runs[:1], tmp_path)
    assert len(TRAINED) == 1
    assert TRAINED[0]["steps"] == 200
    assert TRAINED[0]["epsilon_decay_steps"] == 100
    assert TRAINED[0]["gamma"] == 0.9
    assert "learning_rate" not in TRAINED[0]  # a recipe for another
    assert more <= TRAINED[0].keys()
    failures = outcome.arrays["failures"]
    assert failures.shape == (1, 3)
    assert failures[0, 1] == 0
    assert failures[0, 0] == pytest.approx(0.5, abs=0.15)


def test_batched_ones_are_trained_together(mine, tmp_path):
    name = mine.replace("CASE", "IN_STEPS")
    jobs = SUITE.pack(runs_of(name, "quick", ["library", "dqn-batched"]), 0)
    assert [len(job) for job in jobs] == [1, 1, 6]  # two libraries; two seeds of three weightings are one program
    assert {run.parameters["agent"] for run in jobs[2]} == {"dqn-batched"}
    outcomes = SUITE.execute(jobs[2][1:3], tmp_path)
    failures = [float(one.arrays["failures"].item()) for one in outcomes]
    assert failures[0] == 0  # where a loss costs four times as much, it takes the sure thing
    assert failures[1] == pytest.approx(0.5, abs=0.15)
    assert all(one.scalars["training_seconds"] > 0 for one in outcomes)
    with pytest.raises(ValueError, match="train_freq"):
        SUITE.execute(runs_of(mine, "quick", ["dqn-batched"])[:1], tmp_path)


def test_more_than_a_program_holds_are_several_jobs():
    sizes = [len(job) for job in SUITE.pack(runs_of("highway", "full", ["dqn-batched"]), 0)]
    assert sizes == [TOGETHER] * 5
    one_seed = SUITE.pack(runs_of("highway", "full", ["dqn-batched"]), 0)[0]
    assert len({run.seed for run in one_seed}) == 1


def test_the_command_line_knows_them_all():
    assert [one.value for one in cli.RivalName] == list(RIVALS)


def test_whoever_wants_weights_of_one_sign_meets_only_such_cases(mine):
    np.testing.assert_array_equal(signs_of(find_case(mine)), [1, -1])
    mixed = find_case("four-rooms")
    assert signs_of(mixed) is None
    assert rivals_of(mixed) == ["dqn", "qr-dqn", "dqn-batched", "qr-dqn-batched"]
    with pytest.raises(ValueError, match="weights of both signs"):
        all_runs(["four-rooms"], "quick", ["envelope"])


def finished(run, **numbers):
    shape = (2, 3) if run.parameters["agent"] == "library" else (1, len(run.parameters["asked"]["unseen"]))
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


def test_one_who_learned_all_stands_beside_too(mine):
    library = [finished(run, failures=np.array([[0.2], [0.1]])) for run in runs_of(mine, "quick")]
    rival = [finished(run, failures=np.array([[0.1, 0.2, 0.3]])) for run in runs_of(mine, "quick", ["envelope"])]
    told = summary(cases_of([*library, *rival])[mine])["rivals"]["envelope"]
    assert told["seeds"] == [0, 1]
    assert told["beside"]["neutral"]["failures"] == pytest.approx(1.0)
    np.testing.assert_allclose(told["each"]["failures"], [0.1, 0.2, 0.3])


def test_without_them_it_is_said_what_is_missing(mine, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(ValueError, match="pip install 'rasf"):
        SUITE.execute(runs_of(mine, "quick", ["dqn"])[:1], tmp_path)
    monkeypatch.setitem(sys.modules, RIVALS["envelope"].module, None)
    with pytest.raises(ValueError, match="pip install morl-baselines"):
        SUITE.execute(runs_of(mine, "quick", ["envelope"])[:1], tmp_path)
