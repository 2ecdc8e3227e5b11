"""Mean and covariance of the feature return, with a horizon, discounted, and until the end."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning_reference import feature_law, time_limit

from random_mdps import SEEDS, Problem, chain, choices, examples, random_policies, random_problem, random_task
from rasf import FiniteMDP, simulate, successor_moments
from rasf.planning import moments

GAMMAS = st.sampled_from([1.0, 0.9, 0.5])
SETTINGS = st.sampled_from(
    [
        ({"n_terminal": 1}, None),
        ({"n_outcomes": 3, "n_terminal": 2}, None),
        ({"gamma": 0.9}, None),
        ({"gamma": 0.8, "n_outcomes": 2, "n_terminal": 1}, None),
        ({"gamma": 0.9}, 6),
        ({"n_outcomes": 2}, 6),
    ]
)


def law_moments(law):
    mean = sum(p * features for p, features in law)
    return mean, sum(p * np.outer(features - mean, features - mean) for p, features in law)


def bellman_residual(problem: Problem, policy, found, gamma):
    """What is left of psi = E[phi + gamma psi'] and Sigma = E[delta delta' + gamma^2 Sigma'], by loops."""
    worst = 0.0
    for s in range(problem.n_states):
        for a, outcomes in enumerate(problem.outcomes[s]):
            psi, Sigma = np.zeros(problem.n_features), np.zeros((problem.n_features,) * 2)
            for p, s2, phi in outcomes:
                target = phi + gamma * found.psi[s2, policy[s2]]
                delta = target - found.psi[s, a]
                psi += p * target
                Sigma += p * (np.outer(delta, delta) + gamma**2 * found.Sigma[s2, policy[s2]])
            worst = max(worst, np.abs(psi - found.psi[s, a]).max(), np.abs(Sigma - found.Sigma[s, a]).max())
    return worst


@examples(20)
@given(SEEDS, GAMMAS, st.sampled_from([{"n_outcomes": 2}, {"n_outcomes": 3, "n_terminal": 1}, {"n_states": 3}]))
def test_with_a_horizon_against_all_trajectories(seed, gamma, shape):
    problem = random_problem(seed, gamma=gamma, **shape)
    policy = random_policies(seed, problem, 3)
    found = successor_moments(problem.mdp, policy, horizon=3)
    for h, s, a in np.ndindex(*found.psi.shape[:3]):
        mean, covariance = law_moments(feature_law(problem, policy, s, a, h))
        np.testing.assert_allclose(found.psi[h, s, a], mean, atol=1e-12)
        np.testing.assert_allclose(found.Sigma[h, s, a], covariance, atol=1e-12)


@examples(15)
@given(SEEDS, st.sampled_from([({"n_outcomes": 3, "n_terminal": 2}, 1.0), ({}, 0.8), ({"n_terminal": 1}, 0.9)]))
def test_without_a_horizon_is_the_limit_of_long_ones(seed, setting):
    shape, gamma = setting
    problem = random_problem(seed, gamma=gamma, **shape)
    policy = random_policies(seed, problem)
    found = successor_moments(problem.mdp, policy)
    long_run = successor_moments(problem.mdp, policy, horizon=800)
    np.testing.assert_allclose(found.psi, long_run.psi[0], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(found.Sigma, long_run.Sigma[0], rtol=1e-7, atol=1e-7)
    scale = max(1.0, np.abs(found.Sigma).max())
    assert bellman_residual(problem, policy, found, gamma) < 1e-10 * scale


@examples(25)
@given(SEEDS, SETTINGS)
def test_Sigma_is_a_covariance(seed, setting):
    shape, horizon = setting
    problem = random_problem(seed, n_features=3, **shape)
    _, Sigma = successor_moments(problem.mdp, random_policies(seed, problem), horizon)
    np.testing.assert_allclose(Sigma, np.swapaxes(Sigma, -1, -2), rtol=1e-10, atol=1e-12)
    assert np.linalg.eigvalsh(Sigma).min() > -1e-10 * max(1.0, np.abs(Sigma).max())


@examples(25)
@given(SEEDS, SETTINGS)
def test_a_task_sees_the_moments_of_its_own_reward(seed, setting):
    shape, horizon = setting
    problem = random_problem(seed, n_features=3, **shape)
    w, policy = random_task(seed, problem), random_policies(seed, problem)
    psi, Sigma = successor_moments(problem.mdp, policy, horizon)
    rewards = [[[(p, s2, np.array([phi @ w])) for p, s2, phi in row] for row in rows] for rows in problem.outcomes]
    scalar = successor_moments(Problem(rewards, problem.terminal, problem.gamma).mdp, policy, horizon)
    np.testing.assert_allclose(psi @ w, scalar.psi[..., 0], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(np.einsum("...ij,i,j->...", Sigma, w, w), scalar.Sigma[..., 0, 0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("problem", "horizon", "steps"),
    [
        (random_problem(1, n_states=12, n_outcomes=4), 15, 15),
        (random_problem(2, n_states=12, n_outcomes=4, gamma=0.8), None, 80),
        (random_problem(3, n_states=12, n_outcomes=4, n_terminal=3), None, 150),
    ],
    ids=["horizon", "discounted", "until the end"],
)
def test_against_rollouts(problem, horizon, steps):
    policy = random_policies(0, problem)
    psi, Sigma = successor_moments(problem.mdp, policy, horizon)
    if horizon is not None:
        psi, Sigma = psi[0], Sigma[0]
    features = simulate(problem.mdp, policy, 0, steps, 40_000, seed=0).features
    mean, centred = features.mean(axis=0), features - features.mean(axis=0)
    products = centred[:, :, None] * centred[:, None, :]
    assert (np.abs(mean - psi[0, policy[0]]) < 5 * features.std(axis=0) / 200).all()
    assert (np.abs(products.mean(axis=0) - Sigma[0, policy[0]]) < 5 * products.std(axis=0) / 200).all()


def test_worked_examples():
    # a geometric number of steps, one each: mean 1 / q, variance (1 - q) / q^2
    psi, Sigma = successor_moments(chain([(0.75, 0, 1.0), (0.25, 1, 1.0)], terminal=(1,)).mdp, [0, 0])
    assert (psi[0, 0, 0], Sigma[0, 0, 0, 0]) == pytest.approx((4.0, 12.0))
    # independent fair bets: variances add up with gamma^2
    psi, Sigma = successor_moments(chain([(0.5, 0, 0.0), (0.5, 0, 2.0)], terminal=(), gamma=0.5).mdp, [0])
    assert (psi[0, 0, 0], Sigma[0, 0, 0, 0]) == pytest.approx((2.0, 4 / 3))


@pytest.mark.parametrize("risky", [[(1.0, 0, 1.0)], [(0.5, 0, 1.0), (0.5, 2, 0.0)], [(1.0, 0, 0.0)]])
def test_a_policy_that_may_never_end_is_refused(risky):
    # state 2 is a trap without an exit of its own action 0; the zero loop of the last case has moments, but no end
    problem = choices([risky, [(1.0, 1, 1.0)]], [[], []], [[(1.0, 2, 1.0)], [(1.0, 1, 0.0)]], terminal=(1,))
    with pytest.raises(ValueError, match="may never end"):
        successor_moments(problem.mdp, [0, 0, 0])
    assert np.isfinite(successor_moments(problem.mdp, [1, 0, 1]).Sigma).all()
    assert np.isfinite(successor_moments(problem.mdp, [0, 0, 0], horizon=5).Sigma).all()
    assert np.isfinite(successor_moments(problem.discounted(0.9).mdp, [0, 0, 0]).Sigma).all()


@examples(15)
@given(SEEDS, st.sampled_from([{"n_terminal": 1}, {"n_outcomes": 3, "n_terminal": 2}, {"gamma": 0.9}]))
def test_the_iterative_solver_agrees_with_the_direct_one(seed, shape):
    problem = random_problem(seed, **shape)
    policy = random_policies(seed, problem)
    direct = successor_moments(problem.mdp, policy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moments, "DIRECT_SOLVE_STATES", 0)
        iterated = successor_moments(problem.mdp, policy)
    np.testing.assert_allclose(iterated.psi, direct.psi, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(iterated.Sigma, direct.Sigma, rtol=1e-8, atol=1e-9)


def test_the_iterative_solver_waits_for_small_and_slow_features(monkeypatch):
    slow = 1 - 1e-3
    problem = Problem(
        [
            [[(0.5, 0, np.array([1e3, 0.0])), (0.5, 2, np.array([1e3, 0.0]))]],
            [[(slow, 1, np.array([0.0, 1e-9])), (1 - slow, 2, np.array([0.0, 1e-9]))]],
            [[]],
        ],
        frozenset([2]),
    )
    monkeypatch.setattr(moments, "DIRECT_SOLVE_STATES", 0)
    with time_limit(20):
        psi = successor_moments(problem.mdp, [0, 0, 0]).psi
    assert psi[1, 0, 1] == pytest.approx(1e-6, rel=1e-6)


@pytest.mark.parametrize("horizon", [None, 2])
def test_a_problem_that_has_ended_already(horizon):
    mdp = FiniteMDP(np.ones((1, 1, 1)), np.ones((1, 1, 2)), terminal=[0])
    assert not successor_moments(mdp, [0], horizon).Sigma.any()


@pytest.mark.parametrize("horizon", [0, -1, 2.5])
def test_bad_horizons(horizon):
    with pytest.raises(ValueError, match="horizon must"):
        successor_moments(random_problem(0).mdp, [0] * 4, horizon)


def test_a_policy_per_power_of_gamma_goes_on_with_its_last_row():
    """Against the same rows written out over a horizon long enough that the rest does not count."""
    rng = np.random.default_rng(4)
    P = rng.dirichlet(np.ones(4), size=(4, 2))
    mdp = FiniteMDP(P, rng.normal(size=(4, 2, 4, 2)), (), 0.7)
    rows = rng.integers(2, size=(3, 4))
    psi, Sigma = successor_moments(mdp, rows)
    long = successor_moments(mdp, np.concatenate([rows, np.tile(rows[-1], (120, 1))]), horizon=123)
    np.testing.assert_allclose(psi, long.psi[0], atol=1e-12)
    np.testing.assert_allclose(Sigma, long.Sigma[0], atol=1e-12)
    single = successor_moments(mdp, rows[-1:])
    np.testing.assert_allclose(single.psi, successor_moments(mdp, rows[-1]).psi)
