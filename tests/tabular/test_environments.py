"""The kernels stepped from Python: the same learning as in the compiled loop, on any environment."""

import gymnasium as gym
import numpy as np
import pytest

import rasf
from rasf import MeanVariance
from rasf.envs.grid import Grid
from rasf.tabular import prql
from rasf.tabular.environments import ReuseAgent, SuccessorAgent, learn_environment, state_key
from rasf.tabular.learner import SuccessorSettings


def prql_rule(**changes):
    given = {"omega": 0.0, "eta": 0.3, "tau": 1.0, "gamma": 0.9, "epsilon": 0.1, "noise_scale": 0.01, "seed": 1}
    return prql.make_rule(**(given | changes))


class Coin(gym.Env):
    """One decision: take 1 for sure, or toss for 0 or 3; observations of the kind asked for."""

    observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)

    def __init__(self, kind):
        self.kind = kind

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return self.kind(0), {}

    def step(self, action):
        paid = 1.0 if action == 0 else 3.0 * (self.np_random.random() < 0.5)
        return self.kind(1), np.array([paid]), True, False, {}


@pytest.mark.parametrize("kind", [int, str, lambda n: (n, "x"), lambda n: np.array([n, 7])])
def test_hashable_observations_of_any_kind_and_the_sign_of_risk(kind):
    """Mean 1.5 against 1; variance 2.25 against 0: at beta = -2 the sure coin is better (1.5 - 2.25 < 1)."""
    settings = {"epsilon": 1.0, "alpha": 0.02, "alpha_sigma": 0.02, "initial_noise": "shared"}
    for beta, best in ((0.0, 1), (-2.0, 0)):
        agent = SuccessorAgent(1, 2, SuccessorSettings(risk=MeanVariance(beta), **settings), seed=0, max_tasks=1)
        learn_environment(Coin(kind), agent, [[1.0]], 3_000, seed=0)
        row = agent.learner.row(state_key(kind(0), 0, None))
        assert agent.learner.choose(row)[0] == best
    psi, Sigma = agent.learner.moments(0, row)
    assert psi[:, 0] == pytest.approx([1.0, 1.5], abs=0.3)
    assert Sigma[:, 0, 0] == pytest.approx([0.0, 2.25], abs=0.5)


def test_an_observation_that_cannot_be_hashed_is_refused():
    agent = SuccessorAgent(1, 2, SuccessorSettings(), seed=0, max_tasks=1)
    with pytest.raises(ValueError, match="observations must"):
        learn_environment(Coin(lambda n: [n]), agent, [[1.0]], 5, seed=0)


@pytest.mark.parametrize("make", [
    lambda: SuccessorAgent(4, 4, SuccessorSettings(gamma=0.9, learn_w=False), seed=1, max_tasks=3),
    lambda: ReuseAgent(4, prql_rule(), max_tasks=3),
    lambda: ReuseAgent(4, prql_rule(reuse=False), max_tasks=3),
])  # fmt: skip
def test_every_learner_comes_to_reach_the_goal_of_the_grid(make):
    grid = Grid(slip=0.0)
    tasks = [grid.task(costs) for costs in ((20, 20), (0, 0), (20, 0))]
    env = gym.make("rasf/Grid-v0", slip=0.0)
    history = learn_environment(env, make(), tasks, 4_000, seed=2)
    assert history.total.shape == (3,)
    assert history.total[-1] > 1_000  # thousands of steps at -1 and a goal of +20
    again = learn_environment(gym.make("rasf/Grid-v0", slip=0.0), make(), tasks, 4_000, seed=2)
    np.testing.assert_array_equal(history.total, again.total)


def test_time_indexed_tables_solve_a_finite_horizon():
    """gamma = 1, three decisions, no slip: the learned totals are the optimal ones of `plan` with a horizon."""
    grid = Grid("S.G\n...", slip=0.0)
    w = grid.task((), goal=5.0)
    best = rasf.plan(grid.mdp(), w, horizon=3)
    settings = SuccessorSettings(gamma=1.0, learn_w=False, epsilon=0.5, initial_noise="shared")
    agent = SuccessorAgent(2, 4, settings, seed=0, max_tasks=1)
    learn_environment(gym.make("rasf/Grid-v0", layout="S.G\n...", slip=0.0), agent, [w], 6_000, seed=0, horizon=3)
    for h, value in enumerate(best.value[:, grid.start]):
        if h > 0 and (h, np.int64(grid.start)) not in agent.learner._row_of_key:
            continue
        row = agent.learner.row(state_key(np.int64(grid.start), h, 3))
        assert (agent.learner.moments(0, row).psi @ w).max() == pytest.approx(value, abs=1e-3)


def test_rewards_of_another_size_are_refused():
    agent = SuccessorAgent(2, 2, SuccessorSettings(), seed=0, max_tasks=1)
    with pytest.raises(ValueError, match="must return 2 features"):
        learn_environment(Coin(int), agent, [[1.0, 2.0]], 5, seed=0)
    with pytest.raises(ValueError, match="tasks must"):
        learn_environment(Coin(int), agent, [[np.nan]], 5, seed=0)


def test_bad_agents_and_calls_are_refused():
    with pytest.raises(ValueError, match="alpha must"):
        prql_rule(alpha=-5)
    agent = ReuseAgent(2, prql_rule(), max_tasks=1)
    with pytest.raises(ValueError, match="made for 1 tasks"):
        learn_environment(Coin(int), agent, [[1.0], [2.0]], 5, seed=0)
    with pytest.raises(ValueError, match="must be positive"):
        learn_environment(Coin(int), agent, [[1.0]], 5, seed=0, horizon=0)
    wrong = SuccessorAgent(3, 4, SuccessorSettings(), seed=0, max_tasks=1)
    with pytest.raises(ValueError, match="phi must"):
        learn_environment(gym.make("rasf/Grid-v0"), wrong, [np.ones(4)], 5, seed=0)


def test_a_feature_that_is_not_finite_is_refused():
    class Broken(Coin):
        def step(self, action):
            return 1, np.array([np.nan]), True, False, {}

    agent = SuccessorAgent(1, 2, SuccessorSettings(), seed=0, max_tasks=1)
    with pytest.raises(ValueError, match="must be finite"):
        learn_environment(Broken(int), agent, [[1.0]], 5, seed=0)
