"""What is seen of training: episodes, greedy and random returns, time, and whether anything is learned."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import rasf
from rasf import MeanVariance
from rasf.envs.gymnasium.single import open_environment
from rasf.library.greedy import Greedy, GreedyCheck
from rasf.library.progress import EpisodeMeter, seconds_left
from rasf.library.progress_bar import in_words

NETWORK = {"agent": "rasfdqn", "widths": (8,), "batch": 8, "warmup": 50}


class Corridor(gym.Env):
    """Five cells; to the right is a prize, to the left a cliff, which is a failure. `worth` 0: nothing can be told."""

    observation_space, action_space = spaces.Box(-3.0, 3.0, (1,), np.float32), spaces.Discrete(2)
    reward_space, signs = spaces.Box(-1.0, 1.0, (2,), np.float32), (1, 1)

    def __init__(self, worth=1.0):
        self._worth = worth

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._cell = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._cell += 2 * int(action) - 1
        over = abs(self._cell) == 3
        phi = np.array([self._worth * (self._cell == 3), -self._worth * (self._cell == -3)])
        return np.full(1, self._cell, np.float32), phi, over, False, {"failure": self._cell == -3}


@pytest.mark.parametrize("options", [NETWORK, {"agent": "rasfql"}, {"agent": "rasf-model"}])
def test_greedy_and_random_episodes_are_shown(options):
    seen = []
    steps = 12_000 if options is NETWORK else 10_000
    rasf.learn(Corridor, tasks=[[1.0, 1.0]], steps_per_task=steps, gamma=0.9, callback=seen.append, **options)
    shown = [one.extras for one in seen if "greedy_return" in one.extras]
    assert len(shown) >= 10
    last = shown[-1]
    assert last["greedy_return"] == pytest.approx(1.0)
    assert last["greedy_failures"] == 0.0
    assert last["random_return"] < 0.8
    assert last["greedy_episodes"] >= 10
    assert 0.0 < last["environment_share"] < 1.0
    assert last["episode_length"] >= 3.0
    assert -1.0 <= last["episode_return"] <= 1.0


@pytest.mark.slow
def test_the_compiled_reacher_is_looked_at_too():
    from rasf.envs.reacher import Reacher

    seen, settings = [], {"tasks": Reacher().tasks((0,)), "widths": (4,), "batch": 2}
    rasf.learn(Reacher(), agent="rasfdqn", steps_per_task=10_000, callback=seen.append, **settings)
    shown = [one.extras for one in seen if "greedy_return" in one.extras]
    assert shown
    assert shown[-1].keys() >= {"greedy_return", "greedy_failures", "random_return"}


def test_looking_changes_nothing():
    """A function that makes environments is looked at, an environment that is given is not; both learn the same."""
    settings = {"tasks": [[1.0, 1.0]], "steps_per_task": 10_000, "agent": "rasfql", "gamma": 0.9}
    looked, seen = rasf.learn(Corridor, **settings), []
    alone = rasf.learn(Corridor(), callback=seen.append, **settings)
    assert not any("greedy_return" in one.extras for one in seen)
    for name, part in looked.sources.arrays().items():
        np.testing.assert_array_equal(part, alone.sources.arrays()[name])


def test_who_learns_nothing_is_told_so():
    kept = rasf.learn(lambda: Corridor(0.0), tasks=[[1.0, 1.0]], steps_per_task=10_000, agent="rasfql")
    assert any("no more than random actions" in note for note in kept.notes)
    good = rasf.learn(Corridor, tasks=[[1.0, 1.0]], steps_per_task=10_000, agent="rasfql", gamma=0.9)
    assert not any("random actions" in note for note in good.notes)


def test_short_trainings_are_not_looked_at():
    def never():
        raise AssertionError

    check = GreedyCheck(never, 9_000, 0)
    assert check.look(1.0, 0, np.ones(1), Greedy(lambda *_: 0)) == {}
    assert check.remarks() == []


class Coins(gym.Env):
    """Episodes of one step, which earn 1 or -1 by a fair coin."""

    observation_space, action_space = spaces.Box(-1.0, 1.0, (1,), np.float32), spaces.Discrete(2)
    reward_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), np.array([2.0 * self.np_random.integers(2) - 1]), True, False, {}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ((0.0, 1.0), None),
        ((0.1, 1.1), None),  # too little to matter
        ((0.6, 1.0), "standard deviations lower):"),
        ((-0.6, 1.0), "standard deviations higher):"),
        ((0.0, 3.0), "(the spread was smaller by a factor of 3.0):"),
        ((0.6, 0.3), "standard deviations lower, the spread was larger by a factor of 3"),
    ],
)
def test_predictions_of_training_are_compared_with_what_follows(told, said):
    check = GreedyCheck(lambda: open_environment(Coins, None), 20_000, 0)
    seen = [check.look(share / 10, 0, np.ones(1), Greedy(lambda *_: 0, lambda _: told, 0.9)) for share in range(1, 11)]
    assert seen[-1]["predicted"] == pytest.approx(told[0])
    assert abs(seen[-1]["greedy_discounted"]) < 0.4
    remarks = [one for one in check.remarks() if "random actions" not in one]
    assert len(remarks) == (said is not None)
    assert said is None or said in remarks[0]
    assert said is None or "of 500 greedy episodes" in remarks[0]


def test_returns_are_compared_discounted_and_only_of_whole_episodes():
    """Corridor: three steps, and a prize in the last one. A cut episode is whole where the time limit is an end."""

    def look(env, policy):
        check = GreedyCheck(lambda: open_environment(env, None), 20_000, 0)
        return [check.look(share, 0, np.ones(2), policy) for share in (0.6, 0.7, 0.8)][-1], check.remarks()

    seen, remarks = look(Corridor, Greedy(lambda *_: 1, lambda _: (0.81, 0.0), 0.9))
    assert seen["greedy_discounted"] == pytest.approx(0.81)
    assert remarks == []
    _, remarks = look(Corridor, Greedy(lambda *_: 1, lambda _: (1.0, 0.0), 0.9))
    assert "standard deviations lower" in remarks[0]
    assert "predicted" not in look(Corridor, Greedy(lambda *_: 1))[0]

    def limited():
        return gym.wrappers.TimeLimit(Corridor(), 2)

    assert "predicted" not in look(limited, Greedy(lambda *_: 1, lambda _: (0.0, 0.0), 0.9))[0]
    seen, _ = look(limited, Greedy(lambda *_: 1, lambda _: (0.0, 0.0), 0.9, whole=True))
    assert seen["greedy_discounted"] == 0.0


def test_networks_say_what_they_predicted():
    seen = []
    rasf.learn(Corridor, tasks=[[1.0, 1.0]], steps_per_task=12_000, gamma=0.9, callback=seen.append, **NETWORK)
    last = [one.extras for one in seen if "predicted" in one.extras][-1]
    assert last["greedy_discounted"] == pytest.approx(0.81)
    assert last["predicted"] == pytest.approx(0.81, abs=0.1)
    assert "discounted 0.81 (predicted" in in_words(seen[-1], 1)


def test_the_meter():
    now = iter([0.0, 1.0, 3.0, 4.0, 5.0, 8.0])
    meter = EpisodeMeter(2, lambda: next(now))
    assert meter.timed(lambda: "step") == "step"  # two seconds of four
    meter.add([1.0, 10.0], [False, True])
    meter.add([2.0, 5.0], [True, False], [True, False])
    assert meter.read() == {"environment_share": 0.5, "episode_return": 6.5, "episode_length": 1.5}
    assert meter.read() == {"environment_share": 0.0}
    meter.add([0.0, 4.0], [False, True])
    assert meter.read() == {"environment_share": 0.0, "episode_return": 4.0, "episode_length": 1.0}


def test_the_time_left():
    assert seconds_left(30.0, 0.25) == 90.0
    assert np.isnan(seconds_left(0.0, 0.0))


def test_tasks_side_by_side_take_turns_and_have_the_same_number_of_steps():
    seen = []
    risks = [MeanVariance(0.0), MeanVariance(-1.0)]
    library = rasf.learn(
        Corridor,
        tasks=np.eye(2),
        steps_per_task=2_700,
        gamma=0.9,
        risk=risks,
        num_envs=3,
        callback=seen.append,
        **NETWORK,
    )
    assert len(library.policies) == 4
    last = {one.policy: one.step for one in seen}
    assert sorted(last) == [0, 1, 2, 3]
    assert seen[-1].share == 1.0
    assert max(last.values()) <= 1_550
    order = [one.policy for one in seen]
    assert order.index(3) < len(order) - 1 - order[::-1].index(0)  # the last begins before the first ends


@pytest.mark.parametrize("num_envs", [2, 4])
def test_with_several_environments_every_policy_is_shown(num_envs):
    seen = []
    options = {"tasks": np.eye(2), "steps_per_task": 600, "num_envs": num_envs, "callback": seen.append}
    rasf.learn(Corridor, **options, **NETWORK)
    shown = [one.policy for one in seen]
    assert shown.count(0) >= 5
    assert shown.count(1) >= 5


def test_a_callback_that_is_none_is_refused():
    options = {"tasks": [[1.0, 1.0]], "steps_per_task": 10, "agent": "rasfql"}
    with pytest.raises(ValueError, match="callback must be a function of a TrainingProgress, got int"):
        rasf.learn(Corridor, callback=3, **options)
    with pytest.raises(ValueError, match="callback must return True to stop, or False or None, got ndarray"):
        rasf.learn(Corridor, callback=lambda _: np.zeros(2), **options)
    with pytest.raises(ValueError, match="progress must be True, False or None, got 'yes'"):
        rasf.learn(Corridor, progress="yes", **options)


def test_a_bar_shows_progress_where_it_is_asked_for(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    seen, options = [], {"tasks": [[1.0, 1.0]], "steps_per_task": 10_000, "agent": "rasfql", "gamma": 0.9}
    rasf.learn(Corridor, **options)
    assert capsys.readouterr().err == ""  # no terminal
    rasf.learn(Corridor, progress=True, callback=seen.append, **options)
    said = capsys.readouterr().err
    assert "policy 1 of 1; greedy return 1, 0 failures (random" in said
    assert "steps/s" in said
    assert len(seen) == 20


def test_imagined_weightings_are_learned_and_never_practised():
    seen, more = [], np.array([[0.2, 0.8], [1.0, 0.5], [0.5, 0.5]])
    risks = [MeanVariance(0.0), MeanVariance(-1.0)]
    for extra_tasks, count in ((more, 3), (2, 2)):
        library = rasf.learn(
            lambda: gym.wrappers.TimeLimit(Corridor(), 10),  # so that tasks take turns often
            tasks=np.eye(2),
            steps_per_task=400,
            risk=risks,
            extra_tasks=extra_tasks,
            callback=seen.append,
            **NETWORK,
        )
        assert len(library.policies) == 2 * (2 + count)
        assert {one.policy for one in seen} == {0, 1, 2 + count, 3 + count}  # those of the tasks lead
        assert [one.risk for one in library.policies] == [risks[0]] * (2 + count) + [risks[1]] * (2 + count)
        assert np.isnan(library.history["return"]).tolist() == 2 * ([False] * 2 + [True] * count)
        assert any("learned off-policy" in note for note in library.notes)
        seen.clear()
    np.testing.assert_allclose([one.w for one in library.policies[2:4]], [one.w for one in library.policies[6:8]])
    with pytest.raises(ValueError, match="extra_tasks is for networks"):
        rasf.learn(Corridor, tasks=np.eye(2), extra_tasks=2, agent="rasfql")


@pytest.mark.slow
def test_an_imagined_policy_is_as_good_as_one_that_was_practised():
    """Who only ever practised the first feature learns for the second from the same steps."""
    library = rasf.learn(
        Corridor, tasks=[[1.0, 0.0]], extra_tasks=[[-1.0, -1.0]], steps_per_task=6_000, seed=1,
        **NETWORK | {"gamma": 0.9, "epsilon": 0.5, "widths": (16,)},
    )  # fmt: skip
    report = library.evaluate(Corridor, [-1.0, -1.0], MeanVariance(0.0), episodes=10, max_steps=50)
    assert report.phi[:, 1].mean() == pytest.approx(-1.0)  # it seeks the cliff
