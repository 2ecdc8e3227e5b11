"""What a certificate says where there is no horizon, of which sources, and of which scores."""

import numpy as np
import pytest
from hypothesis import given
from planning_reference import time_limit

from random_mdps import SEEDS, choices, examples, random_policies, random_problem, random_task
from rasf import Entropic, MeanVariance, NestedEntropic, certificate, evaluate_policy, plan

RISK = Entropic(-0.2)


def ending(seed):
    problem = random_problem(seed, n_outcomes=3, n_terminal=2)
    return problem, 0.3 * random_task(seed, problem), random_policies(seed, problem, 2)


@examples(10)
@given(SEEDS)
def test_until_the_end_the_bounds_are_zero_without_errors(seed):
    problem, w, policies = ending(seed)
    sources = [plan(problem.mdp, w, RISK), *policies]
    found = certificate(problem.mdp, sources, w, RISK)
    assert (found.epsilon, found.delta_r) == (0.0, 0.0)
    assert (found.source_bound, found.optimality_bound) == (0.0, 0.0)
    assert found.optimality_gap == pytest.approx(0.0, abs=1e-9)
    assert found.holds
    assert found.policy.shape == found.source.shape == (problem.n_states,)


@examples(10)
@given(SEEDS)
def test_until_the_end_any_error_makes_them_infinite(seed):
    problem, w, policies = ending(seed)
    exact = np.stack([evaluate_policy(problem.mdp, policy, w, RISK) for policy in policies])
    noisy = certificate(problem.mdp, list(policies), w, RISK, scores=exact + 1e-6)
    assert noisy.epsilon == pytest.approx(1e-6)
    assert (noisy.source_bound, noisy.optimality_bound) == (np.inf, np.inf)
    assert noisy.holds
    # a task nearby leaves the first bound alone
    nearby = certificate(problem.mdp, [plan(problem.mdp, w + 1e-3, RISK)], w, RISK)
    assert 0 < nearby.delta_r < 0.1
    assert (nearby.source_bound, nearby.optimality_bound) == (0.0, np.inf)
    assert nearby.holds


@pytest.mark.parametrize("horizon", [None, 4])
@pytest.mark.parametrize("gamma", [0.8, 1.0])
def test_bare_policies_say_nothing_of_the_optimum(gamma, horizon):
    problem = random_problem(1, n_terminal=1, gamma=gamma)
    w = 0.3 * random_task(1, problem)
    policy = plan(problem.mdp, w, RISK, horizon).policy
    bare = certificate(problem.mdp, [policy], w, RISK, horizon)
    assert bare.delta_r == np.inf
    assert (bare.optimality_bound == np.inf).all()
    assert not bare.source_bound.any()
    assert bare.optimality_gap.max() <= 1e-9  # it is optimal, but nobody said so


@pytest.mark.parametrize("other", [Entropic(-0.3), Entropic(0.0), NestedEntropic(-0.2)])
def test_nor_do_plans_for_another_risk(other):
    problem = random_problem(1, gamma=0.8)
    w = random_task(1, problem)
    assert certificate(problem.mdp, [plan(problem.mdp, w, other)], w, RISK).delta_r == np.inf
    mixed = certificate(problem.mdp, [plan(problem.mdp, w, other), plan(problem.mdp, w + 1.0, RISK)], w, RISK)
    assert mixed.delta_r == pytest.approx(max(abs(phi.sum()) for *_, phi in problem.transitions))


@pytest.mark.parametrize(("gamma", "horizon"), [(1.0, 3), (0.8, 3), (0.8, None)])
def test_the_error_is_measured_unless_it_is_given(gamma, horizon):
    problem = random_problem(2, gamma=gamma)
    w, sources = random_task(2, problem), list(random_policies(2, problem, 2))
    exact = certificate(problem.mdp, sources, w, RISK, horizon)
    scores = exact.source_utilities.copy()
    scores[1, 1, 2, 0] += 0.3
    scores[0, 0, 0, 1] -= 0.1
    measured = certificate(problem.mdp, sources, w, RISK, horizon, scores=scores)
    assert measured.epsilon == pytest.approx(0.3)
    assert certificate(problem.mdp, sources, w, RISK, horizon, scores=scores, epsilon=0.4).epsilon == 0.4
    np.testing.assert_array_equal(measured.source_utilities, exact.source_utilities)
    steps = np.arange(3, 0, -1) if horizon else 1 / (1 - gamma)
    np.testing.assert_allclose(measured.source_bound, 2 * 0.3 * steps * np.ones(len(exact.source_bound)))


def test_an_understated_error_is_found_out():
    problem = choices([[(1.0, 0, -1.0)], [(1.0, 0, 0.0)]], terminal=())
    exact = evaluate_policy(problem.mdp, [1], [1.0], RISK, 4)
    upside_down = certificate(problem.mdp, [np.array([1])], [1.0], RISK, 4, scores=-exact[None], epsilon=0.0)
    assert not upside_down.holds
    assert certificate(problem.mdp, [np.array([1])], [1.0], RISK, 4, scores=-exact[None]).holds


def test_the_depth_covers_the_longest_source():
    problem = random_problem(3, gamma=0.5)
    w = random_task(3, problem)
    plain = certificate(problem.mdp, [random_policies(3, problem)], w, RISK)
    long = certificate(problem.mdp, [random_policies(3, problem, 200)], w, RISK)
    assert len(plain.source_gap) < 200
    assert long.policy.shape == (200, problem.n_states)
    assert long.holds


def test_bad_input():
    problem = random_problem(4, gamma=0.8)
    mdp, w, policy = problem.mdp, random_task(4, problem), random_policies(4, problem)
    with pytest.raises(ValueError, match=r"Entropic.* got MeanVariance"):
        certificate(mdp, [policy], w, MeanVariance(-1.0))
    with pytest.raises(ValueError, match="sources must"):
        certificate(mdp, [], w, RISK)
    with pytest.raises(ValueError, match="scores must"):
        certificate(mdp, [policy], w, RISK, 3, scores=np.zeros((1, 4, 2)))
    with pytest.raises(ValueError, match="scores must be numbers"):
        certificate(mdp, [policy], w, RISK, 3, scores=np.full((1, 3, 4, 2), np.nan))
    with pytest.raises(ValueError, match="policy must"):
        certificate(mdp, [random_policies(4, problem, 5)], w, RISK, 3)
    with pytest.raises(ValueError, match="horizon must"):
        certificate(mdp, [policy], w, RISK, 0)


UNBEARABLE = choices([[(0.9, 0, -1.0), (0.1, 1, -1.0)]], terminal=(1,))


def test_infinite_utilities():
    found = certificate(UNBEARABLE.mdp, [[0, 0]], [1.0], Entropic(-1.0))
    assert found.source_utilities[0, 0, 0] == -np.inf
    assert found.holds


def test_an_infinite_score_that_is_not_earned():
    # action 0 may come back to a state worth inf, so it scores inf as well, but taken always it ends
    problem = choices([[(0.1, 0, 0.0), (0.9, 1, 0.0)], [(0.9, 0, 1.0), (0.1, 1, 1.0)]], terminal=(1,))
    found = certificate(problem.mdp, [[0, 0], [1, 0]], [1.0], Entropic(1.0))
    assert found.source_utilities.max(axis=0)[0].tolist() == [np.inf, np.inf]
    assert (found.policy[0], found.source[0]) == (1, 1)
    assert (found.source_bound, found.source_gap) == (0.0, 0.0)
    assert found.holds


@pytest.mark.parametrize(("sign", "count"), [(1, 120), (-1, 60), (0, 60)])
def test_infinite_utilities_of_many_sources(sign, count):
    infinite = bounded = 0
    for seed in range(count):
        rng = np.random.default_rng([seed, 5])
        problem, beta = loose_problem(seed, rng.choice([-0.5, 0.0, 0.5])), sign * rng.choice([0.1, 0.5, 1.0, 3.0])
        sources = list(rng.integers(2, size=(rng.integers(1, 4), 4)))
        try:
            if seed % 2:
                sources.append(plan(problem.mdp, [1.0], Entropic(beta)))
            found = certificate(problem.mdp, sources, [1.0], Entropic(beta))
        except ValueError as error:
            assert "within reach of every state" in str(error) or sign == 0  # a source without a mean  # noqa: PT017
            continue
        assert found.holds
        assert not np.isnan([found.source_gap, found.optimality_gap]).any()
        infinite += bool((found.source_utilities == np.inf).any())
        bounded += bool(found.source_bound == 0)
    assert infinite > count / 4
    assert bounded > count / 2


def loose_problem(seed, shift):
    """Three states, two actions, rewards around `shift`, rounded so that some tie: many policies never end."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(6):
        k = rng.integers(1, 4)
        successors, probabilities = rng.integers(4, size=k), rng.dirichlet(np.ones(k))
        rewards = (rng.normal(size=k) + shift).round(rng.integers(3))
        rows.append([(float(p), int(s), float(r)) for p, s, r in zip(probabilities, successors, rewards, strict=True)])
    return choices(rows[:2], rows[2:4], rows[4:], terminal=(3,))


def test_an_action_without_a_mean_is_never_chosen():
    # from 0, action 0 leads to a gain or a loss without end
    problem = choices(
        [[(0.5, 1, 0.0), (0.5, 2, 0.0)], [(1.0, 3, 1.0)]],
        [[(1.0, 1, 1.0)], [(1.0, 3, 0.0)]],
        [[(1.0, 2, -1.0)], [(1.0, 3, 0.0)]],
        terminal=(3,),
    )
    assert np.isnan(evaluate_policy(problem.mdp, [1, 0, 0, 0], [1.0])[0, 0])
    found = certificate(problem.mdp, [[1, 0, 0, 0]], [1.0], Entropic(0.0))
    assert found.policy[0] == 1
    assert found.holds


def test_scores_with_the_same_infinities_have_no_error():
    exact = evaluate_policy(UNBEARABLE.mdp, [0, 0], [1.0], Entropic(-1.0))
    found = certificate(UNBEARABLE.mdp, [[0, 0]], [1.0], Entropic(-1.0), scores=exact[None])
    assert found.epsilon == 0.0


def test_until_the_end_a_tie_may_break_the_guarantee():
    # bumping into a wall for nothing scores as much as the goal beside it: GPI may bump for ever, though eps = 0
    problem = choices([[(1.0, 0, 0.0)], [(1.0, 1, 1.0)]], terminal=(1,))
    with time_limit(20):
        assert certificate(problem.mdp, [np.array([1, 0])], [1.0], RISK).holds


def test_a_plan_for_another_horizon_is_not_optimal_for_this_one():
    # 0 -> 1; from 1 take 1 and end, or go to 2; from 2 take 5 and end, or go to 3 for 10. Without a horizon the 10 is
    # best. With three decisions it comes too late, state 2 looks worthless, and GPI takes the 1 instead of the 5.
    problem = choices(
        [[(1.0, 1, 0.0)]] * 2,
        [[(1.0, 2, 0.0)], [(1.0, 4, 1.0)]],
        [[(1.0, 3, 0.0)], [(1.0, 4, 5.0)]],
        [[(1.0, 4, 10.0)]] * 2,
        terminal=(4,),
    )
    patient = plan(problem.mdp, [1.0], Entropic(-0.01))
    found = certificate(problem.mdp, [patient], [1.0], Entropic(-0.01), horizon=3)
    assert found.optimality_gap[0] == pytest.approx(4.0)
    assert found.holds


def test_plans_and_certificates_are_one_line():
    problem = choices([[(1.0, 1, 0.0)], [(1.0, 1, 1.0)]], terminal=(1,))
    best = plan(problem.mdp, [1.0], RISK, 2)
    values = "gamma 1, horizon 2, values 0 to 1, error 0"
    assert repr(best) == f"<Plan for Entropic(beta=-0.2): q (2, 2, 2), policy (2, 2), {values}>"
    gaps = "at most 0 below the best source (bound 0) and 0 below the optimum (bound 0), policy (2, 2)"
    assert repr(certificate(problem.mdp, [best], [1.0], RISK, 2)) == f"<Certificate of 1 sources, holds: {gaps}>"


@pytest.mark.parametrize("epsilon", [-1.0, np.inf, np.nan])
def test_an_epsilon_that_is_no_error_is_refused(epsilon):
    problem = choices([[(1.0, 1, 0.0)], [(1.0, 1, 1.0)]], terminal=(1,))
    exact = evaluate_policy(problem.mdp, [0, 0], [1.0], RISK, 2)
    with pytest.raises(ValueError, match="epsilon must"):
        certificate(problem.mdp, [[0, 0]], [1.0], RISK, 2, scores=exact[None] + 0.1, epsilon=epsilon)
