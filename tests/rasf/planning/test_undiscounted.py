"""gamma = 1 until the end: closed forms, spectral radii, long horizons."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning_reference import all_policies, own_values, time_limit, total_utility, value_iteration

from random_mdps import SEEDS, chain, choices, examples, random_policies, random_problem, random_task
from rasf import Entropic, NestedEntropic, evaluate_policy, plan
from rasf.planning import undiscounted

NONZERO = st.one_of(st.floats(0.05, 1.5), st.floats(-1.5, -0.05))
MILD = st.one_of(st.just(0.0), st.floats(0.01, 0.2), st.floats(-0.2, -0.01))
SHAPES = st.sampled_from([{"n_terminal": 1}, {"n_outcomes": 3, "n_terminal": 1}, {"n_outcomes": 2, "n_terminal": 2}])


def geometric(p, reward):
    """Stays with probability p, earns `reward` at every step."""
    return chain([(p, 0, reward), (1 - p, 1, reward)], terminal=(1,))


@pytest.mark.parametrize("reward", [1.0, -2.0])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("beta", [-3.0, -0.6, -0.04, 0.04, 0.6, 3.0])
def test_geometric_chain(p, reward, beta):
    # E exp(beta R) = sum_n p^(n - 1) (1 - p) e^(beta reward n), finite iff p e^(beta reward) < 1
    growth = np.exp(beta * reward)
    q = evaluate_policy(geometric(p, reward).mdp, [0, 0], [1.0], Entropic(beta))[0, 0]
    if p * growth < 1:
        assert q == pytest.approx(np.log((1 - p) * growth / (1 - p * growth)) / beta, rel=1e-11)
    else:
        assert q == np.sign(beta) * np.inf


def test_geometric_chain_neutral():
    assert evaluate_policy(geometric(0.9, -2.0).mdp, [0, 0], [1.0])[0, 0] == pytest.approx(-20.0)


@pytest.mark.parametrize("beta", [-1.0, 1.0])
def test_the_critical_parameter_is_sharp(beta):
    problem = geometric(0.5, np.sign(beta) * np.log(2) * 1.0)
    for factor, finite in ((1 - 1e-9, True), (1.0, False), (1 + 1e-9, False)):
        q = evaluate_policy(problem.mdp, [0, 0], [1.0], Entropic(beta * factor))[0, 0]
        assert np.isfinite(q) == finite
        assert finite or q == np.sign(beta) * np.inf


@pytest.mark.parametrize("factor", [-1.0, 0.5, 0.99, 1 - 1e-6, 1 + 1e-6, 1.01])
def test_random_walk(factor):
    # a walk on 1 .. 29 with a cost of 1 a step:
    # E s^T = cos(t (x - 15)) / cos(15 t) with s = 1 / cos t, as long as t < pi / 30
    rows = [[]] + [[(0.5, x - 1, -1.0), (0.5, x + 1, -1.0)] for x in range(1, 30)]
    problem = chain(*rows, terminal=(0, 30))
    beta = factor * np.log(np.cos(np.pi / 30))
    q = evaluate_policy(problem.mdp, [0] * 31, [1.0], Entropic(beta))[:, 0]
    x = np.arange(1, 30)
    if factor > 1:
        assert (q[x] == -np.inf).all()
    else:
        t = np.arccos(np.exp(beta) + 0j)
        np.testing.assert_allclose(q[x], np.log((np.cos(t * (x - 15)) / np.cos(t * 15)).real) / beta, rtol=1e-7)


@examples(60)
@given(SEEDS, NONZERO, SHAPES)
def test_evaluation_against_eigenvalues_and_a_linear_solve(seed, beta, shape):
    problem = random_problem(seed, **shape)
    w, policy = random_task(seed, problem), random_policies(seed, problem)
    value = total_utility(problem, w, beta, policy)
    q = evaluate_policy(problem.mdp, policy, w, Entropic(beta))
    np.testing.assert_allclose(own_values(q, policy), value, rtol=1e-8, atol=1e-8)
    # every other action is one backup away
    for s, a in np.ndindex(*q.shape):
        outcomes = problem.outcomes[s][a]
        if any(np.isinf(value[successor]) for _, successor, _ in outcomes):
            assert q[s, a] == np.sign(beta) * np.inf


@examples(15)
@given(SEEDS, MILD, SHAPES)
def test_evaluation_is_the_limit_of_long_horizons(seed, beta, shape):
    problem = random_problem(seed, **shape)
    w, policy = 0.3 * random_task(seed, problem), random_policies(seed, problem)
    long_run = value_iteration(problem, w, beta, 1500, policy)
    # a chain that hardly ever ends has not reached its limit by then
    if np.abs(long_run - value_iteration(problem, w, beta, 1400, policy)).max() < 1e-9:
        exact = evaluate_policy(problem.mdp, policy, w, Entropic(beta))
        np.testing.assert_allclose(exact, long_run, rtol=1e-7, atol=1e-7)
    by_horizon = evaluate_policy(problem.mdp, policy, w, Entropic(beta), horizon=1500)[0]
    np.testing.assert_allclose(by_horizon, long_run, rtol=1e-10, atol=1e-10)


@examples(25)
@given(SEEDS, NONZERO, SHAPES)
def test_planning_finds_the_best_stationary_policy(seed, beta, shape):
    problem = random_problem(seed, **shape)
    w = 0.5 * random_task(seed, problem)
    best = np.max([total_utility(problem, w, beta, policy[0]) for policy in all_policies(problem, 1)], axis=0)
    with time_limit(20):
        found = plan(problem.mdp, w, Entropic(beta))
    np.testing.assert_allclose(found.value, best, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(own_values(found.q, found.policy), found.value, rtol=1e-12)
    attained, finite = total_utility(problem, w, beta, found.policy), np.isfinite(best)
    np.testing.assert_allclose(attained[finite], best[finite], rtol=1e-7, atol=1e-7)


@examples(15)
@given(SEEDS, st.sampled_from([0.0, -0.5, 0.3]), SHAPES)
def test_the_iterative_solver_agrees_with_the_direct_one(seed, beta, shape):
    problem = random_problem(seed, **shape)
    w, policy = 0.5 * random_task(seed, problem), random_policies(seed, problem)
    direct = evaluate_policy(problem.mdp, policy, w, Entropic(beta))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(undiscounted, "DIRECT_SOLVE_STATES", 0)
        iterated = evaluate_policy(problem.mdp, policy, w, Entropic(beta))
    np.testing.assert_allclose(iterated, direct, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("beta", [-1e6, -1e4, 1e4, 1e6])
def test_huge_exponents_do_not_overflow(beta):
    # a loop of three states that ends with probability 1/2 a round; the sign keeps its spectral radius below 1
    r = -np.sign(beta)
    problem = chain([(1.0, 1, r)], [(1.0, 2, 2 * r)], [(0.5, 0, 3 * r), (0.5, 3, -r)], terminal=(3,))
    q = evaluate_policy(problem.mdp, [0] * 4, [1.0], Entropic(beta))[:, 0]
    # one round of 3 r - r = 2 r dominates from state 0; later rounds are smaller by e^(6 beta r)
    np.testing.assert_allclose(q[:3], np.array([2 * r, r, -r]) + np.log(0.5) / beta, rtol=1e-12)


@pytest.mark.parametrize("beta", [-0.3, 0.0, 0.3])
def test_periodic_classes(beta):
    # 0 -> 1 -> 2 -> 0 for ever, but for a way out of 2; a round earns c
    c = 1.0 - 3.0 + 0.5
    problem = chain([(1.0, 1, 1.0)], [(1.0, 2, -3.0)], [(0.75, 0, 0.5), (0.25, 3, 0.5)], terminal=(3,))
    q = evaluate_policy(problem.mdp, [0] * 4, [1.0], Entropic(beta))[0, 0]
    if beta == 0:
        assert q == pytest.approx(4 * c)
    elif 0.75 * np.exp(beta * c) >= 1:
        assert q == -np.inf
    else:
        assert q == pytest.approx(np.log(0.25 * np.exp(beta * c) / (1 - 0.75 * np.exp(beta * c))) / beta)


def test_the_nested_recursion_is_the_same_thing():
    problem = random_problem(0, n_terminal=1)
    one, other = (plan(problem.mdp, [0.3, 0.1], risk(-0.2)).q for risk in (Entropic, NestedEntropic))
    np.testing.assert_array_equal(one, other)


def test_an_empty_problem():
    done = choices([[(1.0, 0, 1.0)]], terminal=(0,))
    assert plan(done.mdp, [1.0], Entropic(-1.0)).q.tolist() == [[0.0]]
    assert evaluate_policy(done.mdp, [0], [1.0], Entropic(-1.0)).tolist() == [[0.0]]
