"""gamma = 1 where it is delicate: small parameters, long chains, ties, loops that value iteration leaves late."""

import math
from contextlib import suppress
from decimal import Decimal, localcontext

import numpy as np
import pytest
from planning_reference import all_policies, time_limit

from random_mdps import chain, choices
from rasf import Entropic, FiniteMDP, evaluate_policy, plan
from rasf.planning import optimum, undiscounted

SECONDS = 20.0  # an endless loop, not a slow machine


def solved(problem, beta):
    with time_limit(SECONDS):
        return plan(problem.mdp, [1.0], Entropic(beta))


def value_of(problem, beta, policy=None):
    actions = np.zeros(problem.n_states, int) if policy is None else policy
    q = evaluate_policy(problem.mdp, actions, [1.0], Entropic(beta))
    return q[np.arange(len(q)), actions]


def geometric_utility(p, beta):
    """(1 / beta) log((1 - p) e^beta / (1 - p e^beta)) with digits to spare, for the very p that the chain holds."""
    with localcontext() as context:
        context.prec = 60
        growth = Decimal(beta).exp()
        return float((Decimal(1 - p) * growth / (1 - Decimal(p) * growth)).ln() / Decimal(beta))


SMALL = [
    *(pytest.param(beta) for beta in (-1e-2, 1e-3, -1e-4, 1e-5)),
    *(beta for beta in (1e-8, -1e-9, 1e-12, -1e-14)),
]


@pytest.mark.parametrize("beta", SMALL)
def test_small_parameters_keep_their_digits(beta):
    problem = chain([(0.9, 0, 1.0), (0.1, 1, 1.0)], terminal=(1,))
    assert value_of(problem, beta)[0] == pytest.approx(geometric_utility(0.9, beta), abs=2e-9)


@pytest.mark.parametrize("beta", [1e-8, -1e-9, 1e-14])
def test_planning_ends_at_small_parameters(beta):
    problem = choices([[(0.9, 0, 1.0), (0.1, 1, 1.0)], [(0.8, 0, 1.0), (0.2, 1, 1.0)]], terminal=(1,))
    assert solved(problem, beta).value[0] == pytest.approx(geometric_utility(0.9, beta), abs=2e-9)


def corridor(n, reward):
    return chain(*[[(1.0, s + 1, reward)] for s in range(n)], terminal=(n,))


LENGTHS = [60, 300, *(n for n in (2000, 4000))]


@pytest.mark.parametrize("reward", [-1.0, 1.0])
@pytest.mark.parametrize("beta", [-1.0, 1.0])
@pytest.mark.parametrize("n", LENGTHS)
def test_long_corridors(n, reward, beta):
    np.testing.assert_allclose(value_of(corridor(n, reward), beta), reward * np.arange(n, -1, -1), rtol=1e-12)


@pytest.mark.parametrize("beta", [-1e4, 1e4])
@pytest.mark.parametrize("reward", [-1.0, 1.0])
def test_huge_exponents_in_a_corridor(reward, beta):
    assert value_of(corridor(100, reward), beta)[0] == pytest.approx(100 * reward)


@pytest.mark.parametrize("n", [1000, 2000])
def test_planning_a_long_corridor(n):
    with time_limit(3 * SECONDS):
        assert plan(corridor(n, 1.0).mdp, [1.0], Entropic(-1.0)).value[0] == pytest.approx(n)


@pytest.mark.parametrize("beta", [-1.0, 0.0, 1.0])
def test_a_free_loop_beside_the_goal(beta):
    # bumping into a wall costs nothing: its score equals that of going on, and only going on ever arrives
    found = solved(choices([[(1.0, 0, 0.0)], [(1.0, 1, 1.0)]], terminal=(1,)), beta)
    assert (found.value[0], found.policy[0]) == (1.0, 1)


@pytest.mark.parametrize("beta", [-1.0, 0.0])
def test_a_loop_that_gives_and_takes_back(beta):
    # going round for ever has no sum, but at beta = 0 its score ties with that of ending
    problem = choices([[(1.0, 1, 1.0)], [(1.0, 2, 5.0)]], [[(1.0, 0, -1.0)], [(1.0, 2, 5.0)]], terminal=(2,))
    assert value_of(problem, beta, np.array([0, 1, 0]))[:2].tolist() == [6.0, 5.0]
    assert solved(problem, beta).value[:2].tolist() == [6.0, 5.0]


@pytest.mark.parametrize("beta", [-0.1, 0.0, 0.1])
def test_a_cheap_loop_does_not_hide_a_dear_end(beta):
    # value iteration needs 1,000 sweeps to find that waiting at 0.01 a step is dearer than paying 10
    wait = [[(1.0, 0, -0.01)], [(1.0, 1, -0.01)]]
    problem = choices([wait[0], [(1.0, 1, -0.01)]], [wait[1], [(1.0, 2, -10.0)]], terminal=(2,))
    assert solved(problem, beta).value[:2] == pytest.approx([-10.01, -10.0])


def test_planning_sees_no_clash_of_infinities_where_the_optimum_has_none():
    problem = choices(
        [[(0.5, 1, 0.0), (0.5, 2, 0.0)], [(1.0, 3, -1.0)]],
        [[(1.0, 1, 1.0)], [(1.0, 3, 0.0)]],
        [[(1.0, 2, -0.001)], [(1.0, 3, -10.0)]],
        terminal=(3,),
    )
    assert solved(problem, 0.0).value[:3].tolist() == [math.inf, math.inf, -10.0]


def loose_problem(seed):
    """Three states, two actions, one or two outcomes each: many policies never end."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(3):
        row = []
        for _ in range(2):
            k = rng.integers(1, 3)
            successors, probabilities = rng.integers(4, size=k), rng.dirichlet(np.ones(k))
            row.append([(float(probabilities[i]), int(successors[i]), rng.normal() - 0.5) for i in range(k)])
        rows.append(row)
    return choices(*rows, terminal=(3,)), float(rng.choice([-1.0, -0.3, -0.05, 0.05, 0.3, 0.0]))


def can_end(problem):
    reached = set(problem.terminal)
    for _ in range(problem.n_states):
        reached |= {s for s, _, successor, _, _ in problem.transitions if successor in reached}
    return len(reached) == problem.n_states


WRONG = {24, 717, 1129, 1185}  # -inf for a finite optimum in all of them, and nan in 717


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(sorted(set(range(100)) - WRONG), marks=pytest.mark.slow, id="first hundred"),
        pytest.param(sorted(set(range(10)) - WRONG), id="first ten"),
        *(pytest.param([seed], id=str(seed)) for seed in sorted(WRONG)),
    ],
)
def test_planning_where_many_policies_never_end(seeds):
    for seed in seeds:
        problem, beta = loose_problem(seed)
        if not can_end(problem):
            continue
        found = solved(problem, beta)
        values = []
        for policy in all_policies(problem, 1):
            with suppress(ValueError):  # at beta = 0 some sums have no mean
                values.append(value_of(problem, beta, policy[0]))
        np.testing.assert_allclose(found.value, np.max(values, axis=0), rtol=1e-7, atol=1e-7)


def test_a_plan_of_infinite_utility_has_a_policy_that_earns_it():
    # action 0 comes back with probability 0.1 to a state worth inf, so it scores inf too, but it never stays
    problem = choices([[(0.1, 0, 0.0), (0.9, 1, 0.0)], [(0.9, 0, 1.0), (0.1, 1, 1.0)]], terminal=(1,))
    found = solved(problem, 1.0)
    assert found.value[0] == math.inf
    assert value_of(problem, 1.0, found.policy)[0] == math.inf


def test_the_iterative_solver_waits_for_slow_states(monkeypatch):
    # the change falls from 1 to 1e-11 at once, and then stays there for a million sweeps
    problem = chain([(1.0, 2, 1.0)], [(1 - 1e-4, 1, 5e-11), (1e-4, 2, 0.0)], terminal=(2,))
    monkeypatch.setattr(undiscounted, "DIRECT_SOLVE_STATES", 0)
    assert value_of(problem, 0.0)[1] == pytest.approx(5e-7, abs=1e-9)


@pytest.mark.parametrize("factor", [1.0, 1 + 1e-6])
def test_a_radius_that_power_iteration_does_not_reach_in_time(factor):
    rows = [[]] + [[(0.5, x - 1, -1.0), (0.5, x + 1, -1.0)] for x in range(1, 501)]
    beta = factor * math.log(math.cos(math.pi / 501))
    # infinite above the critical parameter; on it, anything of the right sign that is not finite nonsense
    assert (value_of(chain(*rows, terminal=(0, 501)), beta)[1:501] < -1e5).all()


@pytest.mark.parametrize("tolerance", [1e-6, 1e-10])
def test_iterated_evaluation_does_not_mistake_its_error_for_a_gain(monkeypatch, tolerance):
    monkeypatch.setattr(undiscounted, "DIRECT_SOLVE_STATES", 0)
    monkeypatch.setattr(optimum, "DIRECT_SOLVE_STATES", 0)
    rng = np.random.default_rng(0)
    P = 0.9 * rng.dirichlet(np.ones(30), size=(31, 2))
    P = np.concatenate([P, np.full((31, 2, 1), 0.1)], axis=2)
    mdp = FiniteMDP(P, rng.normal(size=(31, 2, 31, 1)), [30])
    with time_limit(20):
        found = plan(mdp, [1.0], Entropic(-0.1), tolerance=tolerance)
    monkeypatch.undo()
    np.testing.assert_allclose(found.value, plan(mdp, [1.0], Entropic(-0.1)).value, atol=1e-4)
