"""The nested recursion at gamma < 1: Algorithm 3 run for long, honest errors, and the fast path beside the safe one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning_reference import value_iteration

from random_mdps import BETAS, SEEDS, chain, examples, random_policies, random_problem, random_task
from rasf import Entropic, NestedEntropic, evaluate_policy, plan
from rasf.planning import discounted
from rasf.planning.bellman import Backup

GAMMAS = st.sampled_from([0.5, 0.8, 0.9])
SHAPES = st.sampled_from([{}, {"n_terminal": 1}, {"n_outcomes": 2}, {"n_outcomes": 3, "n_terminal": 1}])
HARSH = st.sampled_from([-50.0, -1.0, -1e-6, 0.0, 1e-6, 1.0, 50.0])


def sweeps_for(gamma):
    return math.ceil(math.log(1e-16) / math.log(gamma))


def rounding(problem, w):
    largest = max(abs(float(phi @ w)) for *_, phi in problem.transitions)
    return 1e-14 * largest / (1 - problem.gamma)


@examples(25)
@given(SEEDS, BETAS, GAMMAS, SHAPES)
def test_the_plan_is_the_limit_of_algorithm_3(seed, beta, gamma, shape):
    problem = random_problem(seed, gamma=gamma, **shape)
    w = random_task(seed, problem)
    found = plan(problem.mdp, w, NestedEntropic(beta))
    np.testing.assert_allclose(
        found.q, value_iteration(problem, w, beta, sweeps_for(gamma)), atol=1e-9, rtol=0, err_msg=str(found)
    )
    np.testing.assert_array_equal(found.policy, found.q.argmax(axis=1))


@examples(20)
@given(SEEDS, BETAS, GAMMAS, SHAPES)
def test_a_policy_is_the_limit_of_algorithm_3_for_evaluation(seed, beta, gamma, shape):
    problem = random_problem(seed, gamma=gamma, **shape)
    w, policy = random_task(seed, problem), random_policies(seed, problem)
    expected = value_iteration(problem, w, beta, sweeps_for(gamma), policy)
    q = evaluate_policy(problem.mdp, policy, w, NestedEntropic(beta))
    np.testing.assert_allclose(q, expected, atol=1e-9, rtol=0)


@examples(30)
@given(SEEDS, HARSH, GAMMAS, SHAPES, st.sampled_from([1e-1, 1e-3, 1e-6, 1e-10]))
def test_the_error_is_honest(seed, beta, gamma, shape, tolerance):
    problem = random_problem(seed, gamma=gamma, **shape)
    w = random_task(seed, problem)
    found = plan(problem.mdp, w, NestedEntropic(beta), tolerance=tolerance)
    truth = value_iteration(problem, w, beta, sweeps_for(gamma))
    # what the logarithm of a sum near 1 may lose on the fast path, which the tolerance then covers
    lost = 1e-2 * tolerance
    assert np.abs(found.q - truth).max() <= found.error + lost + rounding(problem, w)
    assert found.error <= tolerance


@pytest.mark.parametrize("beta", [-50.0, -1.0, 1.0, 50.0])
@pytest.mark.parametrize("n_terminal", [0, 2])
def test_the_fast_path_agrees_with_the_safe_one(beta, n_terminal, monkeypatch):
    problem = random_problem(7, n_states=8, n_terminal=n_terminal, gamma=0.9)
    w = 0.05 * random_task(7, problem)  # keeps |beta| range / (1 - gamma) below the fast path's limit
    taken = []
    fast_step = discounted._exponential_step
    monkeypatch.setattr(discounted, "_exponential_step", lambda *a: taken.append(1) or fast_step(*a))
    fast = plan(problem.mdp, w, NestedEntropic(beta))
    assert taken
    monkeypatch.setattr(discounted, "_LARGEST_EXPONENT", 0.0)
    safe = plan(problem.mdp, w, NestedEntropic(beta))
    assert len(taken) == 1
    np.testing.assert_allclose(fast.q, safe.q, rtol=0, atol=1.5e-10)
    np.testing.assert_array_equal(fast.policy, safe.policy)


@pytest.mark.parametrize("beta", [-1e3, -1e-9, 1e-9, 1e3])
def test_the_safe_path_is_taken_where_the_fast_one_would_lose_digits(beta, monkeypatch):
    monkeypatch.setattr(discounted, "_exponential_step", lambda *a: pytest.fail("took the fast path"))
    problem = random_problem(2, gamma=0.9)
    w = random_task(2, problem)
    found = plan(problem.mdp, w, NestedEntropic(beta))
    np.testing.assert_allclose(found.q, value_iteration(problem, w, beta, sweeps_for(0.9)), atol=1e-9, rtol=0)


def test_the_middle_of_the_enclosure_needs_few_sweeps():
    # a constant reward is exact after one sweep, where waiting for the change to vanish takes 2,000 at gamma = 0.99
    found = plan(chain([(1.0, 0, 3.0)], terminal=(), gamma=0.99).mdp, [1.0], NestedEntropic(-1.0))
    assert found.q[0, 0] == pytest.approx(300.0, rel=1e-13)
    assert found.sweeps <= 3


@pytest.mark.parametrize("gamma", [0.999, 0.9999])
@pytest.mark.parametrize("beta", [0.0, -0.01])
def test_patience_near_one(gamma, beta):
    problem = random_problem(1, n_terminal=1, gamma=gamma)
    w = random_task(1, problem)
    found = plan(problem.mdp, w, NestedEntropic(beta))
    backup = Backup(problem.mdp, problem.mdp.rewards(w))
    # a further backup shrinks the distance to the fixed point, so it moves by less than twice the error
    assert np.abs(backup.q(found.value, beta) - found.q).max() <= 2 * found.error + 1e-12
    assert found.error <= 1e-6


def test_neutral_is_neutral_by_either_name():
    problem = random_problem(3, n_terminal=1, gamma=0.9)
    w = random_task(3, problem)
    one, other = plan(problem.mdp, w, Entropic(0.0)), plan(problem.mdp, w, NestedEntropic(0.0))
    np.testing.assert_array_equal(one.q, other.q)
    np.testing.assert_allclose(one.q, value_iteration(problem, w, 0.0, 400), atol=1e-9)


def test_the_policy_of_a_nested_plan_is_stationary():
    problem = random_problem(3, gamma=0.9)
    with pytest.raises(ValueError, match="policy must"):
        evaluate_policy(problem.mdp, np.zeros((2, 4), int), [1.0, 0.0], NestedEntropic(-1.0))
