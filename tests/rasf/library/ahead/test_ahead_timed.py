"""Looking ahead in a finite MDP by policies that know the time left: against a plain recursion over time."""

import itertools

import gymnasium
import numpy as np
import pytest

import rasf
from random_mdps import random_problem
from rasf import MeanVariance
from rasf.envs.finite import FiniteEnv
from rasf.library.ahead.finite import FiniteModel
from rasf.library.ahead.followed import Tails

LIMIT, GAMMA = 5, 0.9


class Timed:
    """Two policies whose actions, and learned tails, are arbitrary functions of state and age; rows are (s, age)."""

    policies = 2

    def __init__(self, states, actions, seed):
        rng = np.random.default_rng(seed)
        self.action = rng.integers(actions, size=(2, LIMIT, states))
        self.mean, self.variance = rng.normal(size=(2, LIMIT, states)), rng.uniform(size=(2, LIMIT, states))

    def actions(self, obs):
        return self._of(self.action, obs)

    def tails(self, obs, actions, w):
        assert (actions == self.actions(obs)).all()
        mean = self._of(self.mean, obs)
        return Tails(mean, self._of(self.variance, obs), np.ones(mean.shape, bool))

    def _of(self, table, obs):
        return np.stack([table[i, row[:, 1].astype(int), row[:, 0].astype(int)] for i, row in enumerate(obs)])


def keys(mdp, age):
    return np.array([(s, age) for s in range(mdp.n_states)], float)


def plain(mdp, policies, w, i, s, a, age, ahead):
    """Mean and second moment of the return from an age on: `ahead` steps, then the learned tail; 0 at the limit."""
    if mdp.terminal[s] or age == LIMIT:
        return 0.0, 0.0
    if ahead == 0:
        mean, variance = policies.mean[i, age, s], policies.variance[i, age, s]
        return mean, variance + mean**2
    first = second = 0.0
    row = s * mdp.n_actions + (policies.action[i, age, s] if a is None else a)
    for e in range(mdp.indptr[row], mdp.indptr[row + 1]):
        r, p = mdp.phi[e] @ w, mdp.probability[e]
        m, q = plain(mdp, policies, w, i, int(mdp.successor[e]), None, age + 1, ahead - 1)
        first += p * (r + GAMMA * m)
        second += p * (r**2 + 2 * r * GAMMA * m + GAMMA**2 * q)
    return first, second


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ahead", [1, 3, 9])
def test_moments_at_every_age(seed, ahead):
    problem = random_problem(seed)
    mdp, w = problem.mdp, np.random.default_rng(seed).normal(size=problem.mdp.n_features)
    policies = Timed(mdp.n_states, mdp.n_actions, seed)
    model = FiniteModel(mdp, lambda age: keys(mdp, age), policies, GAMMA, LIMIT)
    obs = np.concatenate([keys(mdp, age) for age in range(LIMIT)])
    rows = model.rows(obs[:, 1].astype(int).tolist())
    assert (model.states(obs, rows) == obs[:, 0]).all()
    mean, variance, known = model.moments(model.states(obs, rows), rows, w, ahead)
    assert known.all()
    for i, b, a in itertools.product(range(2), range(len(obs)), range(mdp.n_actions)):
        s, age = obs[b].astype(int)
        if not mdp.terminal[s]:
            first, second = plain(mdp, policies, w, i, s, a, age, ahead)
            assert mean[i, b, a] == pytest.approx(first, abs=1e-9)
            assert variance[i, b, a] == pytest.approx(second - first**2, abs=1e-9)


def test_unknown_ages_and_observations_are_not_usable():
    problem = random_problem(0)
    policies = Timed(problem.mdp.n_states, problem.mdp.n_actions, 0)
    model = FiniteModel(problem.mdp, lambda age: keys(problem.mdp, age), policies, GAMMA, LIMIT)
    obs = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.5, 2.0]])
    rows = np.array([[2.0], [np.nan], [LIMIT], [2.0]])
    assert model.states(obs, rows).tolist() == [1, -1, -1, -1]


@pytest.mark.slow
def test_networks_that_know_the_time_left_look_ahead_exactly():
    """With as many steps as the episode has, learned tails do not count: predictions are those of the model alone."""
    mdp = rasf.FiniteMDP(np.ones((1, 2, 1)), np.array([[[[1.0, 0.0]], [[0.0, 1.0]]]]), (), 1.0)

    def make():
        return gymnasium.wrappers.TimeLimit(FiniteEnv(mdp, 0, ("a", "b"), (1, 1)), 4)

    library = rasf.learn(make, tasks=[(1.0, 0.0), (0.0, 1.0)], agent="rasfdqn", gamma=1.0, steps_per_task=600,
                         widths=(8,), progress=False)  # fmt: skip
    assert library.sources.limit == 4
    report = library.evaluate(make, (1.0, 0.2), MeanVariance(-1.0), episodes=2, ahead=4)
    assert report.returns.tolist() == [4.0, 4.0]
    actor = library.actor((1.0, 0.2), model=mdp, ahead=4)
    for _ in range(4):
        assert actor.act(0) == 0
        actor.observe((1.0, 0.0))
