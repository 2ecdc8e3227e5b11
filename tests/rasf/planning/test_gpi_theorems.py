"""Theorems 1 and 2 with a horizon of n decisions, through `certificate` and through plain loops.

Theorem 1:  Q^pi_h >= max_i Q^i_h - 2 (n - h) eps      for GPI over utilities known to within eps
Theorem 2:  |Q^pi_h - Q*_h| <= 2 (n - h) (delta_r + eps)      for sources that are optimal for their own tasks
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning_reference import horizon_utilities, improved_policy, perturbed

from random_mdps import BETAS, SEEDS, choices, examples, random_policies, random_problem, random_task
from rasf import Entropic, MeanVariance, certificate, evaluate_policy, gpe, plan, successor_moments

ERRORS = st.sampled_from([0.0, 1e-3, 0.05, 0.5])
NOISE = st.sampled_from(["uniform", "signs", "adversary"])
GAMMAS = st.sampled_from([1.0, 0.8])
SHAPES = st.sampled_from([{}, {"n_outcomes": 2}, {"n_outcomes": 3, "n_terminal": 1}])


def remaining(n):
    return (n - np.arange(n))[:, None, None]


@examples(80)
@given(SEEDS, BETAS, ERRORS, NOISE, GAMMAS, SHAPES)
def test_theorem_1(seed, beta, eps, noise, gamma, shape):
    n = 4
    problem = random_problem(seed, gamma=gamma, **shape)
    w, sources = random_task(seed, problem), random_policies(seed, problem, 3, n)
    exact = np.stack([horizon_utilities(problem, w, beta, n, source) for source in sources])
    scores = perturbed(seed, exact, eps, noise)
    policy = improved_policy(scores)
    attained = horizon_utilities(problem, w, beta, n, policy)
    assert (attained >= exact.max(axis=0) - 2 * remaining(n) * eps - 1e-9).all()

    found = certificate(problem.mdp, list(sources), w, Entropic(beta), n, scores=scores, epsilon=eps)
    assert found.holds
    np.testing.assert_array_equal(found.policy, policy)
    np.testing.assert_allclose(found.source_bound, 2 * remaining(n)[:, 0, 0] * eps)
    np.testing.assert_allclose(found.source_gap, (exact.max(axis=0) - attained).max(axis=(1, 2)), atol=1e-9)


@examples(80)
@given(SEEDS, BETAS, ERRORS, NOISE, GAMMAS, SHAPES, st.sampled_from([0.0, 0.1, 1.0]))
def test_theorem_2(seed, beta, eps, noise, gamma, shape, distance):
    n = 4
    problem = random_problem(seed, gamma=gamma, **shape)
    w = random_task(seed, problem)
    tasks = w + distance * np.random.default_rng([seed, 4]).normal(size=(2, problem.n_features))
    sources = [plan(problem.mdp, task, Entropic(beta), n) for task in tasks]
    delta_r = min(max(abs(float(phi @ (w - task))) for *_, phi in problem.transitions) for task in tasks)
    exact = np.stack([horizon_utilities(problem, w, beta, n, source.policy) for source in sources])
    scores = perturbed(seed, exact, eps, noise)
    attained = horizon_utilities(problem, w, beta, n, improved_policy(scores))
    optimum = horizon_utilities(problem, w, beta, n)
    assert (np.abs(attained - optimum) <= 2 * remaining(n) * (delta_r + eps) + 1e-9).all()

    found = certificate(problem.mdp, sources, w, Entropic(beta), n, scores=scores, epsilon=eps)
    assert found.holds
    assert found.delta_r == pytest.approx(delta_r, abs=1e-12)
    np.testing.assert_allclose(found.optimality_bound, 2 * remaining(n)[:, 0, 0] * (delta_r + eps), atol=1e-12)
    np.testing.assert_allclose(found.optimality_gap, (optimum - attained).max(axis=(1, 2)), atol=1e-9)


@pytest.mark.parametrize("beta", [-2.0, 0.0, 2.0])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_theorem_1_loses_no_less_than_it_says(n, beta):
    # action 0 costs 2 eps; errors of eps make it tie with action 1 at every decision, and ties go to action 0
    eps = 0.25
    problem = choices([[(1.0, 0, -2 * eps)], [(1.0, 0, 0.0)]], terminal=())
    exact = evaluate_policy(problem.mdp, [1], [1.0], Entropic(beta), n)
    scores = (exact + np.array([eps, -eps]))[None]
    found = certificate(problem.mdp, [np.array([1])], [1.0], Entropic(beta), n, scores=scores)
    assert not found.policy.any()
    # the first action is given, so that one of the n - h decisions is not GPI's
    np.testing.assert_allclose(found.source_gap, 2 * eps * np.arange(n - 1, -1, -1))
    assert found.holds


@examples(15)
@given(SEEDS, BETAS)
def test_improvement_on_every_source_with_exact_scores(seed, beta):
    problem = random_problem(seed, n_actions=3)
    w, sources = random_task(seed, problem), random_policies(seed, problem, 3, 5)
    found = certificate(problem.mdp, list(sources), w, Entropic(beta), 5)
    assert (found.epsilon, found.source_bound.max()) == (0.0, 0.0)
    assert found.source_gap.max() <= 1e-10
    assert found.holds


@examples(10)
@given(SEEDS, BETAS)
def test_the_optimal_source_is_found_among_others(seed, beta):
    problem = random_problem(seed)
    w = random_task(seed, problem)
    optimal = plan(problem.mdp, w, Entropic(beta), 4)
    found = certificate(problem.mdp, [*random_policies(seed, problem, 2, 4), optimal], w, Entropic(beta), 4)
    assert found.delta_r == 0.0
    assert np.abs(found.optimality_gap).max() <= 1e-10


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(("gamma", "horizon"), [(1.0, 4), (0.9, 4), (0.8, None)])
def test_mean_variance_approaches_the_entropic_utility_at_order_beta_squared(gamma, horizon, sign):
    problem = random_problem(11, gamma=gamma)
    w, policy = random_task(11, problem), random_policies(11, problem)
    psi, Sigma = successor_moments(problem.mdp, policy, horizon)

    def error(beta):
        exact = evaluate_policy(problem.mdp, policy, w, Entropic(beta), horizon, tolerance=1e-13)
        gap = np.abs(gpe(psi, Sigma, w, MeanVariance(beta)) - exact)
        return gap.max() if horizon is None else gap[0].max()  # later tables hold U at beta gamma^h

    errors = [error(sign * 0.04 / 2**k) for k in range(4)]
    for larger, smaller in pairwise(errors):
        assert larger / smaller == pytest.approx(4.0, abs=0.3)
