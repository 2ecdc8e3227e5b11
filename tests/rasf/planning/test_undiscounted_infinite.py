"""gamma = 1: utilities that are infinite, or look it. Action 1 ends everywhere, so that an end is within reach."""

import math

import numpy as np
import pytest
from planning_reference import time_limit

from random_mdps import chain, choices
from rasf import Entropic, evaluate_policy, plan

INF = math.inf
END = 9.0  # what action 1 pays, so that it cannot be mistaken for the loops' own value


def with_way_out(*rows):
    """Action 0 as given, action 1 ends; the terminal state comes after the rows."""
    return choices(*[[row, [(1.0, len(rows), END)]] for row in rows], terminal=(len(rows),))


def value_of_action_0(problem, beta):
    return evaluate_policy(problem.mdp, np.zeros(problem.n_states, int), [1.0], Entropic(beta))[:, 0].tolist()


@pytest.mark.parametrize("beta", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize(("reward", "expected"), [(1.0, INF), (-1.0, -INF), (0.0, 0.0), (1e-9, INF), (-1e-9, -INF)])
def test_never_ending(beta, reward, expected):
    assert value_of_action_0(with_way_out([(1.0, 0, reward)]), beta)[0] == expected


@pytest.mark.parametrize(
    ("beta", "expected"),
    # E exp(beta r) of one step with r = 3 or -1 is above 1 for beta = -1 and below 1 for beta = -0.1
    [(-1.0, -INF), (-0.1, INF), (0.0, INF), (0.1, INF), (1.0, INF)],
)
def test_never_ending_with_mixed_rewards(beta, expected):
    assert value_of_action_0(with_way_out([(0.5, 0, 3.0), (0.5, 0, -1.0)]), beta)[0] == expected


@pytest.mark.parametrize("beta", [-0.5, 0.0, 0.5])
@pytest.mark.parametrize(("there", "back", "expected"), [(2.0, -1.0, INF), (-2.0, 1.0, -INF), (0.0, 0.0, 0.0)])
def test_never_ending_in_a_cycle(beta, there, back, expected):
    assert value_of_action_0(with_way_out([(1.0, 1, there)], [(1.0, 0, back)]), beta)[:2] == [expected] * 2


@pytest.mark.parametrize("cycle", [[[(1.0, 1, 1.0)], [(1.0, 0, -1.0)]], [[(0.5, 0, 1.0), (0.5, 0, -1.0)]]])
def test_no_mean_where_the_sum_has_no_limit(cycle):
    with pytest.raises(ValueError, match="reward has no limit"):
        value_of_action_0(with_way_out(*cycle), 0.0)


def test_a_policy_that_may_earn_either_infinity():
    problem = with_way_out([(0.5, 1, 0.0), (0.5, 2, 0.0)], [(1.0, 1, 1.0)], [(1.0, 2, -1.0)])
    with pytest.raises(ValueError, match="inf or -inf"):
        value_of_action_0(problem, 0.0)
    # for beta < 0 the worst counts, for beta > 0 the best
    assert value_of_action_0(problem, -0.5)[:3] == [-INF, INF, -INF]
    assert value_of_action_0(problem, 0.5)[:3] == [INF, INF, -INF]


@pytest.mark.parametrize("beta", [-1.0, 1.0])
def test_an_infinity_that_does_not_count(beta):
    # half the time the sum runs off to where exp(beta R) vanishes: only the other half is left in E exp(beta R)
    away = -math.copysign(1.0, beta)
    problem = with_way_out([(0.5, 1, 0.0), (0.5, 2, 3.0)], [(1.0, 1, away)])
    value = value_of_action_0(problem, beta)
    assert value[0] == pytest.approx(math.log(0.5 * math.exp(3 * beta)) / beta, rel=1e-12)
    assert value[1] == -math.copysign(INF, beta)


@pytest.mark.parametrize("beta", [-1.0, 1.0])
def test_a_solve_alone_returns_finite_nonsense(beta):
    cost = math.copysign(1.0, beta)
    problem = chain([(0.99, 2, cost), (0.01, 1, cost)], [(0.9, 1, cost), (0.1, 2, cost)], terminal=(2,))
    onward = math.e * np.array([[0.0, 0.01], [0.0, 0.9]])
    ending = math.e * np.array([0.99, 0.1])
    naive = np.linalg.solve(np.eye(2) - onward, ending)
    assert naive[0] > 0  # it has a logarithm, so nothing warns
    assert value_of_action_0(problem, beta)[:2] == [math.copysign(INF, beta)] * 2


def test_only_the_states_that_can_reach_the_bad_class_are_infinite():
    problem = chain(
        [(1.0, 1, -1.0)],
        [(0.5, 2, -1.0), (0.5, 3, -1.0)],
        [(0.9, 2, -1.0), (0.1, 4, -1.0)],  # 0.9 e > 1
        [(0.1, 3, -1.0), (0.9, 4, -1.0)],  # 0.1 e < 1
        terminal=(4,),
    )
    value = value_of_action_0(problem, -1.0)
    assert value[:3] == [-INF] * 3
    assert value[3] == pytest.approx(-math.log(0.9 * math.e / (1 - 0.1 * math.e)))
    # the same chain at beta = -0.05 is finite everywhere
    assert np.isfinite(value_of_action_0(problem, -0.05)).all()


def test_a_class_whose_states_look_harmless_one_by_one():
    # rewards -2 and +1 around a loop left with probability 0.05 a round: 0.95 e^(-beta) decides, not either step
    def loop(beta):
        problem = chain([(1.0, 1, -2.0)], [(0.95, 0, 1.0), (0.05, 2, 1.0)], terminal=(2,))
        return value_of_action_0(problem, beta)[0]

    assert np.isfinite(loop(math.log(0.95) * 0.999))
    assert loop(math.log(0.95) * 1.001) == -INF
    assert np.isfinite(loop(5.0))


@pytest.mark.parametrize("beta", [-1.0, 0.0, 0.05])
def test_planning_takes_the_finite_route(beta):
    # waiting costs 1 with probability 0.9 of waiting again, or 12 at once; waiting is unbearable at beta = -1
    problem = choices([[(0.9, 0, -1.0), (0.1, 1, -1.0)], [(1.0, 1, -12.0)]], terminal=(1,))
    with time_limit(10):
        found = plan(problem.mdp, [1.0], Entropic(beta))
    assert found.policy[0] == (1 if beta == -1.0 else 0)
    assert np.isfinite(found.value).all()
    if beta == -1.0:
        assert found.value[0] == -12.0


@pytest.mark.parametrize(("beta", "expected"), [(-1.0, -INF), (-0.05, -10.3), (0.0, -10.0)])
def test_planning_without_a_finite_route(beta, expected):
    problem = choices([[(0.9, 0, -1.0), (0.1, 2, -1.0)]], [[(0.5, 0, -1.0), (0.5, 2, -1.0)]], terminal=(2,))
    with time_limit(10):
        found = plan(problem.mdp, [1.0], Entropic(beta))
    assert found.value[0] == (expected if math.isinf(expected) else pytest.approx(expected, abs=3.5))
    assert math.isinf(found.value[1]) == math.isinf(expected)


@pytest.mark.parametrize("beta", [-0.5, 0.0, 0.5])
def test_planning_takes_an_infinite_gain(beta):
    problem = with_way_out([(1.0, 0, 0.01)], [(1.0, 0, -100.0)])
    with time_limit(10):
        found = plan(problem.mdp, [1.0], Entropic(beta))
    assert found.value[:2].tolist() == [INF, INF]
    assert found.policy[:2].tolist() == [0, 0]


def test_a_risk_seeker_stays_for_the_rare_windfall():
    problem = choices([[(0.9, 0, 0.2), (0.1, 1, 0.2)], [(1.0, 1, 5.0)]], terminal=(1,))
    with time_limit(10):
        assert plan(problem.mdp, [1.0], Entropic(0.0)).policy[0] == 1
        seeking = plan(problem.mdp, [1.0], Entropic(1.0))
    assert (seeking.policy[0], seeking.value[0]) == (0, INF)


def test_planning_refuses_states_that_cannot_end():
    problem = chain([(1.0, 0, 1.0)], [(1.0, 2, 1.0)], terminal=(2,))
    for call in (lambda: plan(problem.mdp, [1.0]), lambda: evaluate_policy(problem.mdp, [0, 0, 0], [1.0])):
        with pytest.raises(ValueError, match="reached from states 0"):
            call()
