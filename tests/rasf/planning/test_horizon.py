"""Finite horizon, against the law of the return over all trajectories and against all policies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning_reference import all_policies, horizon_utilities, return_law, utility

from random_mdps import BETAS, SEEDS, choices, examples, random_policies, random_problem, random_task
from rasf import CVaR, Entropic, MeanVariance, NestedEntropic, evaluate_policy, plan, successor_moments

GAMMAS = st.sampled_from([1.0, 0.9, 0.5])
SHAPES = st.sampled_from([{"n_outcomes": 2}, {"n_outcomes": 3, "n_terminal": 1}, {"n_states": 3}])


@examples(25)
@given(SEEDS, BETAS, GAMMAS, SHAPES)
def test_a_policy_earns_the_utility_of_its_return(seed, beta, gamma, shape):
    problem = random_problem(seed, gamma=gamma, **shape)
    w, policy = random_task(seed, problem), random_policies(seed, problem, 3)
    q = evaluate_policy(problem.mdp, policy, w, Entropic(beta), horizon=3)
    for h, s, a in np.ndindex(*q.shape):
        # the utility in units of step h: what is earned from there on counts gamma^h
        expected = utility(return_law(problem, policy, w, s, a, h), beta * gamma**h)
        assert q[h, s, a] == pytest.approx(expected, rel=1e-11, abs=1e-11)


@examples(15)
@given(SEEDS, BETAS, GAMMAS, st.integers(1, 3))
def test_the_optimum_is_the_best_of_all_time_dependent_policies(seed, beta, gamma, n):
    problem = random_problem(seed, n_states=2, n_outcomes=2, gamma=gamma)
    w = random_task(seed, problem)
    best = np.full((n, 2, 2), -np.inf)
    for policy in all_policies(problem, n):
        for h, s, a in np.ndindex(n, 2, 2):
            law = return_law(problem, policy, w, s, a, h)
            best[h, s, a] = max(best[h, s, a], utility(law, beta * gamma**h))
    found = plan(problem.mdp, w, Entropic(beta), horizon=n)
    np.testing.assert_allclose(found.q, best, rtol=1e-11, atol=1e-11)
    attained = evaluate_policy(problem.mdp, found.policy, w, Entropic(beta), horizon=n)
    np.testing.assert_allclose(attained, found.q, rtol=1e-12, atol=1e-12)


@examples(15)
@given(SEEDS, BETAS, GAMMAS)
def test_longer_horizons_match_the_plain_recursion(seed, beta, gamma):
    problem = random_problem(seed, n_terminal=1, gamma=gamma)
    w, policy = random_task(seed, problem), random_policies(seed, problem, 12)
    found = plan(problem.mdp, w, Entropic(beta), horizon=12)
    assert (found.error, found.sweeps) == (0.0, 12)
    np.testing.assert_allclose(found.q, horizon_utilities(problem, w, beta, 12), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(
        evaluate_policy(problem.mdp, policy, w, Entropic(beta), horizon=12),
        horizon_utilities(problem, w, beta, 12, policy),
        rtol=1e-11,
        atol=1e-11,
    )
    np.testing.assert_array_equal(found.value, found.q.max(axis=-1))
    np.testing.assert_array_equal(found.policy, found.q.argmax(axis=-1))


@examples(10)
@given(SEEDS, BETAS)
def test_a_stationary_policy_is_a_constant_one(seed, beta):
    problem = random_problem(seed, gamma=0.9)
    w, policy = random_task(seed, problem), random_policies(seed, problem)
    once = evaluate_policy(problem.mdp, policy, w, Entropic(beta), horizon=4)
    np.testing.assert_array_equal(once, evaluate_policy(problem.mdp, [policy] * 4, w, Entropic(beta), horizon=4))


def test_worked_example():
    # two fair bets of 0 or 1 at gamma = 1/2: the return is 0, 1/2, 1 or 3/2, each with probability 1/4
    bet = [(0.5, 0, 0.0), (0.5, 0, 1.0)]
    problem = choices([bet], terminal=(), gamma=0.5)
    q = evaluate_policy(problem.mdp, [0], [1.0], Entropic(-2.0), horizon=2)
    assert q[0, 0, 0] == pytest.approx(-0.5 * np.log((1 + np.exp(-1) + np.exp(-2) + np.exp(-3)) / 4), rel=1e-14)
    # the nested recursion applies the whole beta to the halved second bet's utility: a different number
    nested = evaluate_policy(problem.mdp, [0], [1.0], NestedEntropic(-2.0), horizon=2)
    u = -0.5 * np.log((1 + np.exp(-2)) / 2)
    assert nested[0, 0, 0] == pytest.approx(u + 0.5 * u, rel=1e-14)


@examples(10)
@given(SEEDS, BETAS)
def test_nested_and_plain_agree_without_discount_only(seed, beta):
    problem = random_problem(seed)
    w = random_task(seed, problem)
    one, other = (plan(problem.mdp, w, risk(beta), horizon=5).q for risk in (Entropic, NestedEntropic))
    np.testing.assert_array_equal(one, other)


@examples(10)
@given(SEEDS, st.floats(1e4, 1e6), st.sampled_from([-1, 1]))
def test_huge_exponents_do_not_overflow(seed, size, sign):
    problem = random_problem(seed, n_outcomes=2)
    w, policy = random_task(seed, problem), random_policies(seed, problem, 3)
    q = evaluate_policy(problem.mdp, policy, w, Entropic(sign * size), horizon=3)
    for s, a in np.ndindex(4, 2):
        assert q[0, s, a] == pytest.approx(utility(return_law(problem, policy, w, s, a), sign * size), rel=1e-11)


def test_mean_variance_of_a_policy_comes_from_its_moments():
    problem = random_problem(0, gamma=0.9)
    w, policy = random_task(0, problem), random_policies(0, problem, 4)
    psi, Sigma = successor_moments(problem.mdp, policy, horizon=4)
    q = evaluate_policy(problem.mdp, policy, w, MeanVariance(-3.0), horizon=4)
    np.testing.assert_allclose(q, psi @ w - 1.5 * np.einsum("...ij,i,j->...", Sigma, w, w), rtol=1e-12)


@pytest.mark.parametrize("risk", [MeanVariance(-1.0), CVaR(0.1)])
@pytest.mark.parametrize("horizon", [None, 3])
def test_risks_without_a_dynamic_programme_are_refused(risk, horizon):
    mdp = random_problem(0, gamma=0.9).mdp
    with pytest.raises(ValueError, match="no dynamic programme"):
        plan(mdp, [1.0, 0.0], risk, horizon)
    if isinstance(risk, CVaR):
        with pytest.raises(ValueError, match="exact recursion for CVaR"):
            evaluate_policy(mdp, [0] * 4, [1.0, 0.0], risk, horizon)


@pytest.mark.parametrize("horizon", [0, -1, 2.0])
def test_bad_horizons(horizon):
    mdp = random_problem(0).mdp
    with pytest.raises(ValueError, match="horizon must"):
        plan(mdp, [1.0, 0.0], horizon=horizon)
    with pytest.raises(ValueError, match="horizon must"):
        evaluate_policy(mdp, [0] * 4, [1.0, 0.0], horizon=horizon)


@pytest.mark.parametrize("tolerance", [0.0, -1.0, np.nan])
def test_bad_tolerances(tolerance):
    with pytest.raises(ValueError, match="tolerance must"):
        plan(random_problem(0).mdp, [1.0, 0.0], horizon=2, tolerance=tolerance)


def test_a_policy_must_have_one_row_per_decision():
    with pytest.raises(ValueError, match="policy must"):
        evaluate_policy(random_problem(0).mdp, np.zeros((2, 4), int), [1.0, 0.0], horizon=3)
