"""Training a table step by step, on environments that are not compiled."""

import gymnasium as gym
import numpy as np
import pytest

import rasf
from rasf import MeanVariance
from rasf.envs.grid import Grid
from rasf.library.tables.policies import TablePolicies

AVERSE = MeanVariance(-4.0)


class Walk(gym.Env):
    """A line of five cells with a prize at each end; observations (position / 4, 7)."""

    observation_space, action_space = gym.spaces.Box(0.0, 7.0, (2,), np.float64), gym.spaces.Discrete(2)
    reward_space = gym.spaces.Box(0.0, 1.0, (2,), np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 2
        return np.array([self.at / 4, 7.0]), {}

    def step(self, action):
        self.at += 2 * int(action) - 1
        ended = self.at in (0, 4)
        return np.array([self.at / 4, 7.0]), np.array([self.at == 0, self.at == 4], float), ended, False, {}


def test_states_are_known_by_the_numbers_of_their_observations():
    options = {"agent": "rasfql", "risk": AVERSE, "steps_per_task": 500, "seed": 1, "epsilon": 0.5}
    sources = rasf.learn(Walk, tasks=[[1.0, 0.0], [0.0, 1.0]], **options).sources
    assert isinstance(sources, TablePolicies)
    inner = np.array([[0.25, 7.0], [0.5, 7.0], [0.75, 7.0]])
    np.testing.assert_array_equal(np.unique(sources.arrays()["keys"], axis=0), inner)
    assert sources.scores(inner, np.ones(2), AVERSE).seen.all()
    np.testing.assert_array_equal(sources.act(inner, np.array([1.0, -1.0]), AVERSE), [0, 0, 0])
    np.testing.assert_array_equal(sources.act(inner, np.array([-1.0, 1.0]), AVERSE), [1, 1, 1])


@pytest.mark.parametrize("learn_w", [False, True])
def test_the_goal_of_the_grid_is_reached_and_the_same_seed_gives_the_same_bits(learn_w):
    tasks = [Grid(slip=0.0).task(costs) for costs in ((20, 20), (0, 0), (20, 0))]
    options = {"agent": "sfql", "tasks": tasks, "steps_per_task": 4_000, "gamma": 0.9, "seed": 2, "learn_w": learn_w}
    once, again = (rasf.learn("rasf/Grid-v0", env_kwargs={"slip": 0.0}, **options) for _ in range(2))
    assert once.history["return"][-1] > 1_000  # thousands of steps at -1 and a goal of +20
    np.testing.assert_array_equal(once.history["return"], again.history["return"])
    for name, array in once.sources.arrays().items():
        np.testing.assert_array_equal(array, again.sources.arrays()[name])


def test_progress_is_shown_every_500_steps_and_at_the_end_of_a_task_and_may_stop_it():
    shown = []

    def callback(progress):
        shown.append((progress.policy, progress.step))
        return progress.policy == 1 and progress.step == 500

    tasks = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    library = rasf.learn(Walk, agent="sfql", tasks=tasks, steps_per_task=600, callback=callback)
    assert shown == [(0, 500), (0, 600), (1, 500)]
    assert len(library.policies) == len(library.history["return"]) == 2
    assert np.isnan(library.history["failures"]).all()  # nobody names any


def test_a_number_outside_a_discrete_space_is_refused():
    library = rasf.learn("rasf/Grid-v0", tasks=1, agent="sfql", steps_per_task=50)
    w, risk = np.ones(4), MeanVariance(0.0)
    assert library.act(24, w, risk) == library.act(np.array([24, 0]), w, risk)[0]
    for obs in (25, -1, 0.5, np.array([3, 25]), np.array([-1, 3]), np.array([0.5, 3.0])):
        with pytest.raises(ValueError, match="obs must"):
            library.act(obs, w, risk)
