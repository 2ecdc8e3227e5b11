"""gamma = 1: rewards and parameters of any size, against elimination with 80 digits."""

import math

import numpy as np
import pytest
from planning_reference import all_policies, own_values, precise_total_utility, time_limit

from random_mdps import chain, choices, random_problem, random_task
from rasf import Entropic, evaluate_policy, plan
from rasf.planning import optimum, undiscounted


@pytest.mark.parametrize("last", [0.0, 1e9])
def test_a_small_parameter_and_a_large_reward(last):
    # E exp(beta R) = 0.5 exp(beta last) (1 + 0.5 exp(-1000) + ..), so U = last + log(0.5) / beta
    problem = chain([(0.5, 0, 1e9), (0.5, 1, last)], terminal=(1,))
    expected = last + math.log(0.5) / -1e-6
    assert plan(problem.mdp, [1.0], Entropic(-1e-6)).value[0] == pytest.approx(expected, rel=1e-14)
    assert evaluate_policy(problem.mdp, [0, 0], [1.0], Entropic(-1e-6))[0, 0] == pytest.approx(expected, rel=1e-14)


def test_a_small_parameter_and_a_long_stay():
    problem = chain([(1 - 2**-30, 0, 1.0), (2**-30, 1, 1.0)], terminal=(1,))
    value = evaluate_policy(problem.mdp, [0, 0], [1.0], Entropic(-1e-6))[0, 0]
    assert value == pytest.approx(precise_total_utility(problem, np.ones(1), -1e-6, np.zeros(2, int))[0], rel=1e-9)


def loose_problem(seed, scale):
    """Three states, two actions, one to three outcomes each: many policies never end."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(6):
        k = rng.integers(1, 4)
        successors, probabilities = rng.integers(4, size=k), rng.dirichlet(np.ones(k))
        rewards = scale * (rng.normal(size=k) - 0.3)
        rows.append([(float(p), int(s), float(r)) for p, s, r in zip(probabilities, successors, rewards, strict=True)])
    if not any(successor == 3 for row in rows for _, successor, _ in row):
        rows[0] = [(1.0, 3, scale)]
    return choices(rows[:2], rows[2:4], rows[4:], terminal=(3,)), np.ones(1)


def sized_problem(seed):
    """Rewards of 1e-3 to 1e14, beta r of 1e-6 to 1e6."""
    rng = np.random.default_rng([seed, 9])
    scale = 10 ** rng.uniform(-3, 14)
    beta = float(rng.choice([-1, 1]) * 10 ** rng.uniform(-6, 6) / scale)
    if seed % 2:
        return *loose_problem(seed, scale), beta, scale
    problem = random_problem(seed, n_outcomes=3, n_terminal=1)
    return problem, scale * random_task(seed, problem), beta, scale


def assert_same(found, expected, scale):
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7 * scale)


@pytest.mark.parametrize("iterated", [pytest.param(False, marks=pytest.mark.slow), True])
def test_rewards_of_any_size(iterated, monkeypatch):
    if iterated:
        monkeypatch.setattr(undiscounted, "DIRECT_SOLVE_STATES", 0)
        monkeypatch.setattr(optimum, "DIRECT_SOLVE_STATES", 0)
    checked = 0
    for seed in range(30 if iterated else 110):
        problem, w, beta, scale = sized_problem(seed)
        try:
            with time_limit(20):
                found = plan(problem.mdp, w, Entropic(beta))
        except ValueError:  # no end within reach
            continue
        exact = []
        for policy in all_policies(problem, 1):
            exact.append(precise_total_utility(problem, w, beta, policy[0]))
            q = evaluate_policy(problem.mdp, policy[0], w, Entropic(beta))
            assert_same(own_values(q, policy[0]), exact[-1], scale)
        assert_same(found.value, np.max(exact, axis=0), scale)
        checked += 1
    assert checked > (25 if iterated else 100)


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_a_plan_leaves_a_gain_that_becomes_a_loss(scale):
    # the policy (0, 1, 1) never ends: worth inf at a small |beta|, and -inf at a large one, where only (0, 0, 1) is not
    problem = choices(
        [
            [(0.35, 1, 9.0 * scale), (0.49, 2, 5.9 * scale), (0.16, 1, 1.7 * scale)],
            [(0.69, 3, -2.6 * scale), (0.12, 2, -1.6 * scale), (0.19, 1, 1.2 * scale)],
        ],
        [[(0.02, 3, 1.9 * scale), (0.52, 1, 1.2 * scale), (0.46, 0, 1.3 * scale)], [(1.0, 2, 0.2 * scale)]],
        [[(0.56, 3, -0.9 * scale), (0.15, 0, -7.4 * scale), (0.29, 2, -1.8 * scale)], [(1.0, 0, -3.9 * scale)]],
        terminal=(3,),
    )
    for beta in (-0.1, -2.5, -20.0):
        exact = [precise_total_utility(problem, np.ones(1), beta / scale, one[0]) for one in all_policies(problem, 1)]
        with time_limit(20):
            found = plan(problem.mdp, [1.0], Entropic(beta / scale))
        assert_same(found.value, np.max(exact, axis=0), scale)
