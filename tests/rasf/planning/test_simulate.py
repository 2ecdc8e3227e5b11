import numpy as np
import pytest
from scipy.stats import chi2

from random_mdps import Problem, random_policies, random_problem
from rasf import FiniteMDP, simulate


def test_the_same_seed_gives_the_same_rollouts():
    problem = random_problem(0, n_states=6, gamma=0.9)
    policy = random_policies(0, problem)
    one, same, other = (simulate(problem.mdp, policy, 0, 20, 50, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.states, same.states)
    np.testing.assert_array_equal(one.features, same.features)
    assert (one.states != other.states).any()
    from_generator = simulate(problem.mdp, policy, 0, 20, 50, np.random.default_rng(3))
    np.testing.assert_array_equal(one.states, from_generator.states)


def test_a_shorter_run_is_the_beginning_of_a_longer_one():
    problem = random_problem(1, n_states=6, n_outcomes=3, n_terminal=1)
    policy = random_policies(1, problem)
    short, long = (simulate(problem.mdp, policy, 0, steps, 40, 0).states for steps in (5, 9))
    np.testing.assert_array_equal(short, long[:, :6])


@pytest.mark.parametrize("shape", [{}, {"n_outcomes": 3}, {"n_terminal": 1}])
def test_one_step_frequencies(shape):
    problem = random_problem(2, n_states=5, n_actions=3, **shape)
    n = 20_000
    for s in set(range(5)) - problem.terminal:
        for a in range(3):
            states = simulate(problem.mdp, np.full(5, a), s, 1, n, seed=10 * s + a).states
            expected = np.zeros(5)
            for p, successor, _ in problem.outcomes[s][a]:
                expected[successor] += n * p
            found = np.bincount(states[:, 1], minlength=5)
            possible = expected > 0
            assert found[~possible].sum() == 0
            statistic = ((found - expected)[possible] ** 2 / expected[possible]).sum()
            assert statistic < chi2.isf(1e-6, max(possible.sum() - 1, 1))


def test_same_successor_with_different_features():
    trap = [(0, 0, 1, 0.8, [0.0]), (0, 0, 1, 0.2, [1.0])]
    fired = simulate(FiniteMDP.from_transitions(trap, 2, 1, terminal=[1]), [0, 0], 0, 3, 10_000, 0).features
    assert fired.mean() == pytest.approx(0.2, abs=5 * 0.4 / 100)
    assert set(np.unique(fired)) == {0.0, 1.0}


def test_the_end_absorbs():
    problem = random_problem(3, n_states=6, n_outcomes=3, n_terminal=2)
    states = simulate(problem.mdp, random_policies(3, problem), 0, 60, 200, 0).states
    ended = np.isin(states, sorted(problem.terminal))
    assert ended[:, -1].all()
    first = ended.argmax(axis=1)
    for path, t in zip(states, first, strict=True):
        assert (path[t:] == path[t]).all()
    from_the_end = simulate(problem.mdp, random_policies(3, problem), 5, 4, 3, 0)
    assert (from_the_end.states == 5).all()
    assert not from_the_end.features.any()


def test_feature_returns_follow_the_visited_states():
    problem = random_problem(4, n_states=5, n_terminal=1, gamma=0.7)
    policy = random_policies(4, problem, 12)
    rollouts = simulate(problem.mdp, policy, 0, 12, 30, 0)
    phi = {(s, a, s2): features for s, a, s2, _, features in problem.transitions}
    for path, features in zip(rollouts.states, rollouts.features, strict=True):
        expected = np.zeros(2)
        for t in range(12):
            if path[t] not in problem.terminal:
                expected += 0.7**t * phi[path[t], policy[t, path[t]], path[t + 1]]
        np.testing.assert_allclose(features, expected, rtol=1e-12, atol=1e-14)


def test_a_policy_per_step_is_followed_step_by_step():
    # action a leads to state a for sure
    moves = [[[(1.0, a, np.array([float(a)]))] for a in range(3)] for _ in range(3)]
    policy = np.array([[2] * 3, [0] * 3, [1] * 3])
    rollouts = simulate(Problem(moves, gamma=0.5).mdp, policy, 0, 3, 2, 0)
    assert rollouts.states.tolist() == [[0, 2, 0, 1]] * 2
    assert rollouts.features.tolist() == [[2.25]] * 2


def test_rare_and_tiny_probabilities():
    # the draw is an inverse of the running sum over all rows: neighbours must not leak into each other
    outcomes = [
        [[(1e-12, 1, np.zeros(1)), (1 - 1e-12, 0, np.zeros(1))]],
        [[(1.0, 2, np.zeros(1))]],
        [[(1.0, 0, np.zeros(1))]],
    ]
    mdp = Problem(outcomes).mdp
    for start, arrives in ((0, 0), (1, 2), (2, 0)):
        assert (simulate(mdp, [0, 0, 0], start, 1, 5000, 0).states[:, 1] == arrives).all()


@pytest.mark.parametrize("start", [-1, 4])
def test_bad_starts(start):
    with pytest.raises(ValueError, match="start must"):
        simulate(random_problem(0).mdp, [0] * 4, start, 2, 2, 0)


def test_bad_policies():
    with pytest.raises(ValueError, match="policy must"):
        simulate(random_problem(0).mdp, np.zeros((2, 5), int), 0, 3, 2, 0)
