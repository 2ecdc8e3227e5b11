"""Entropic utility of the discounted return: enumerated laws, convolution, honest truncation, optimal pi(s, z)."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning_reference import (
    all_policies,
    augmented_utilities,
    feature_law,
    return_law,
    utility,
    value_iteration,
)

from random_mdps import BETAS, SEEDS, Problem, chain, choices, examples, random_policies, random_problem, random_task
from rasf import Entropic, NestedEntropic, evaluate_policy, plan
from rasf.planning import discounted
from rasf.planning.bellman import Backup

GAMMAS = st.sampled_from([0.5, 0.8, 0.9])
SHAPES = st.sampled_from([{}, {"n_terminal": 1}, {"n_outcomes": 2}])


def steps_for(gamma):
    return math.ceil(math.log(1e-15) / math.log(gamma))


def layered(seed, depth, gamma):
    """A problem that ends after `depth` steps: states are (layer, 0 or 1), then the end."""
    rng = np.random.default_rng(seed)
    outcomes = []
    for layer in range(depth):
        below = [2 * layer + 2, 2 * layer + 3] if layer + 1 < depth else [2 * depth, 2 * depth]
        for _ in range(2):
            p = rng.dirichlet(np.ones(2), size=2)
            phi = rng.normal(size=(2, 2, 1))
            outcomes.append([[(float(p[a, i]), below[i], phi[a, i]) for i in range(2)] for a in range(2)])
    return Problem([*outcomes, [[], []]], frozenset([2 * depth]), gamma)


@examples(15)
@given(SEEDS, BETAS, GAMMAS)
def test_a_policy_earns_the_utility_of_its_discounted_return(seed, beta, gamma):
    problem = layered(seed, 4, gamma)
    policy = random_policies(seed, problem)
    q = evaluate_policy(problem.mdp, policy, [1.0], Entropic(beta))
    for s, a in np.ndindex(*q.shape):
        law = return_law(problem, np.array([policy] * 4), np.ones(1), s, a)
        assert q[s, a] == pytest.approx(utility(law, beta), abs=1e-9)


@pytest.mark.parametrize("beta", [-50.0, -2.0, -1e-6, 1e-6, 0.5, 50.0])
@pytest.mark.parametrize("gamma", [0.3, 0.9])
def test_independent_rewards_convolve(gamma, beta):
    # R = sum gamma^t X_t with independent X_t: the utilities U_beta[gamma^t X] add up
    law = [(0.2, -1.0), (0.5, 0.0), (0.3, 2.0)]
    problem = chain([(p, 0, x) for p, x in law], terminal=(), gamma=gamma)
    expected = math.fsum(utility([(p, gamma**t * x) for p, x in law], beta) for t in range(400))
    assert evaluate_policy(problem.mdp, [0], [1.0], Entropic(beta))[0, 0] == pytest.approx(expected, abs=2e-10)


@examples(20)
@given(SEEDS, BETAS, GAMMAS, SHAPES, st.integers(0, 4))
def test_evaluation_against_the_recursion_in_z(seed, beta, gamma, shape, rows):
    problem = random_problem(seed, gamma=gamma, **shape)
    w = random_task(seed, problem)
    policy = random_policies(seed, problem, rows) if rows else random_policies(seed, problem)
    expected = augmented_utilities(problem, w, beta, steps_for(gamma), policy)[0]
    np.testing.assert_allclose(evaluate_policy(problem.mdp, policy, w, Entropic(beta)), expected, atol=1e-9, rtol=0)


@examples(20)
@given(SEEDS, BETAS, GAMMAS, SHAPES)
def test_planning_against_the_recursion_in_z(seed, beta, gamma, shape):
    problem = random_problem(seed, gamma=gamma, **shape)
    w = random_task(seed, problem)
    found = plan(problem.mdp, w, Entropic(beta))
    expected = augmented_utilities(problem, w, beta, steps_for(gamma))[0]
    np.testing.assert_allclose(found.q, expected, atol=1e-9, rtol=0)
    assert found.error <= 1e-10 + 1e-12
    attained = evaluate_policy(problem.mdp, found.policy, w, Entropic(beta))
    np.testing.assert_allclose(attained, found.q, atol=1e-9, rtol=0)


@examples(10)
@given(SEEDS, BETAS)
def test_no_policy_that_knows_z_does_better(seed, beta):
    problem = random_problem(seed, n_states=3, gamma=0.8)
    w = random_task(seed, problem)
    best = plan(problem.mdp, w, Entropic(beta))
    for i in range(20):
        rng = np.random.default_rng([seed, i])
        other = rng.integers(2, size=(6, 3))
        near = best.policy.copy()
        near[rng.random(near.shape) < 0.1] ^= 1
        for policy in (other, near):
            assert (evaluate_policy(problem.mdp, policy, w, Entropic(beta)) <= best.q + 1e-9).all()


def test_the_best_of_all_policies_on_a_problem_that_ends():
    problem = layered(0, 2, 0.5)
    best = np.full((5, 2), -np.inf)
    for policy in all_policies(problem, 2):
        for s, a in np.ndindex(5, 2):
            best[s, a] = max(best[s, a], utility(return_law(problem, policy, np.ones(1), s, a), -3.0))
    np.testing.assert_allclose(plan(problem.mdp, [1.0], Entropic(-3.0)).q, best, atol=1e-10)


@examples(15)
@given(SEEDS, st.sampled_from([-20.0, -1.0, 1.0, 20.0]), GAMMAS, SHAPES, st.booleans())
def test_the_truncation_error_is_honest(seed, beta, gamma, shape, optimal):
    problem = random_problem(seed, gamma=gamma, **shape)
    w = random_task(seed, problem)
    backup = Backup(problem.mdp, problem.mdp.rewards(w))
    policy = None if optimal else random_policies(seed, problem)
    fine = discounted.augmented(backup, beta, policy, 1e-12)[0][0]
    for tolerance in (1e-1, 1e-4, 1e-8):
        tables, rows, error = discounted.augmented(backup, beta, policy, tolerance)
        assert np.abs(tables[0] - fine).max() <= error + 1e-11
        assert error <= tolerance
        assert len(rows) == discounted.truncation_depth(backup, beta, tolerance / 2) + 1


def test_the_truncation_bound_is_met_with_equality_by_a_fair_coin():
    # Hoeffding is tight for a fair bet at small parameters: one bet, at once, then nothing
    problem = chain([(0.5, 1, 1.0), (0.5, 1, -1.0)], terminal=(1,), gamma=0.5)
    exact = utility([(0.5, 1.0), (0.5, -1.0)], -1e-3)
    assert exact == pytest.approx(-1e-3 * 2**2 / 8, rel=1e-6)
    assert evaluate_policy(problem.mdp, [0, 0], [1.0], Entropic(-1e-3))[0, 0] == pytest.approx(exact, abs=1e-13)


def test_all_tables_hold_the_utilities_at_every_power():
    problem = random_problem(1, gamma=0.5)
    w, policy = random_task(1, problem), random_policies(1, problem)
    backup = Backup(problem.mdp, problem.mdp.rewards(w))
    tables, rows, _ = discounted.augmented(backup, -1.0, policy, 1e-10, all_tables=True)
    assert len(tables) == len(rows)
    for k in range(5):
        # U at z = gamma^k of a stationary policy is that at z = 1 with the parameter beta gamma^k
        shifted = evaluate_policy(problem.mdp, policy, w, Entropic(-1.0 * 0.5**k))
        np.testing.assert_allclose(tables[k], shifted, atol=1e-7)


def test_the_nested_recursion_is_something_else():
    problem = choices([[(0.5, 0, 0.0), (0.5, 0, 1.0)]], terminal=(), gamma=0.5)
    plain = evaluate_policy(problem.mdp, [0], [1.0], Entropic(-2.0))[0, 0]
    nested = evaluate_policy(problem.mdp, [0], [1.0], NestedEntropic(-2.0))[0, 0]
    # sum_t gamma^t U_{beta gamma^t} against U_beta sum_t gamma^t; the return itself is uniform on [0, 2]
    assert plain == pytest.approx(-0.5 * math.log((1 - math.exp(-4)) / 4), abs=1e-10)
    assert nested == pytest.approx(-math.log((1 + math.exp(-2)) / 2), abs=1e-9)
    assert plain - nested == pytest.approx(0.1361, abs=1e-4)


def test_the_optimal_policy_may_need_z():
    # take a gamble now or later: at z = 1 it is too risky, at z = 1/2 it is worth it
    gamble, sure = [(0.5, 1, 0.0), (0.5, 1, 4.0)], [(1.0, 1, 1.0)]
    problem = choices([gamble, sure], [[(1.0, 0, 0.0)], [(1.0, 0, 0.0)]], terminal=(), gamma=0.5)
    found = plan(problem.mdp, [1.0], Entropic(-1.0))
    assert found.policy[:2, 0].tolist() == [1, 0]
    assert (found.policy[1:, 0] == 0).all()


@pytest.mark.parametrize("beta", [-1.0, 1.0])
def test_evaluation_is_the_law_of_the_simulated_features_too(beta):
    problem = layered(3, 3, 0.7)
    policy = np.zeros((3, problem.n_states), int)
    law = [(p, float(features[0])) for p, features in feature_law(problem, policy, 0, 0)]
    assert evaluate_policy(problem.mdp, policy[0], [1.0], Entropic(beta))[0, 0] == pytest.approx(utility(law, beta))


def test_small_parameters_join_the_neutral_value():
    problem = random_problem(5, gamma=0.9)
    w = random_task(5, problem)
    neutral = value_iteration(problem, w, 0.0, 400)
    for beta in (1e-12, -1e-12):
        np.testing.assert_allclose(plan(problem.mdp, w, Entropic(beta)).q, neutral, atol=1e-9)
