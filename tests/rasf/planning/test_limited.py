"""Limits, exactly: against the linear programme of the constrained MDP, with its occupancies, by scipy."""

import numpy as np
import pytest
from scipy.optimize import linprog

import rasf
from rasf import Entropic, FiniteMDP, Limit, limited_gpi, plan, plan_limited, successor_moments

D = 4  # features, the last of which is limited


def random_mdp(rng, S=10, A=3, gamma=0.9, terminal=()):
    P = rng.dirichlet(np.full(S, 0.3), (S, A))
    if len(terminal):
        P = 0.8 * P + 0.2 * np.eye(S)[terminal[0]]  # so that every policy ends
    phi = rng.random((S, A, D)) * (rng.random((S, A, D)) < 0.4)
    return FiniteMDP(P, phi, terminal=terminal, gamma=gamma)


def occupancy_optimum(mdp, w, costs, at_most, start):
    """max R . x, sum_a x(s, a) = [s = start] + gamma sum P x, C . x <= L, x >= 0; None where nothing keeps L."""
    S, A = mdp.n_states, mdp.n_actions
    P, phi = np.zeros((S * A, S)), np.zeros((S * A, D))
    for row in range(S * A):
        for e in range(mdp.indptr[row], mdp.indptr[row + 1]):
            P[row, mdp.successor[e]] += mdp.probability[e]
            phi[row] += mdp.probability[e] * mdp.phi[e]
    live = np.flatnonzero(~np.repeat(mdp.terminal, A))
    flow = (np.repeat(np.eye(S), A, axis=0) - mdp.gamma * P).T[~mdp.terminal][:, live]
    begin = np.eye(S)[start][~mdp.terminal]
    found = linprog(-(phi @ w)[live], (phi @ costs.T).T[:, live], at_most, flow, begin)
    return -found.fun if found.status == 0 else None


def policy_for(mdp, w):
    found = plan(mdp, w, Entropic(0.0)).policy
    return found if found.ndim == 1 else found[-1]


def spanning(mdp, rng):
    """Policies for single features, for nothing but the limit, and for some mixtures."""
    tasks = [*np.eye(D)[:-1], -np.eye(D)[-1], *(np.r_[rng.random(D - 1), -2 * rng.random()] for _ in range(6))]
    return [policy_for(mdp, task) for task in tasks]


@pytest.mark.parametrize(("gamma", "terminal"), [(0.9, ()), pytest.param(1.0, (0,), marks=pytest.mark.slow)])
def test_against_the_programme_of_the_constrained_mdp(gamma, terminal):
    rng, gaps = np.random.default_rng(0), []
    for _ in range(30):
        mdp = random_mdp(rng, gamma=gamma, terminal=terminal)
        sources, w, start = spanning(mdp, rng), np.r_[rng.random(D - 1), 0.0], 1
        free, least = (plan_limited(mdp, task, {3: 1e9}, start=start).costs[0] for task in (w, -np.eye(D)[-1]))
        limit = least + (free - least) * rng.random()
        best = occupancy_optimum(mdp, w, np.eye(D)[[3]], [limit], start)
        optimum = plan_limited(mdp, w, {3: limit}, start=start)
        assert optimum.value == pytest.approx(best, rel=1e-6)
        found = limited_gpi(mdp, sources, w, {3: limit}, start=start)
        assert found.kept
        assert found.costs[0] <= limit + 1e-7
        gaps.append((best - found.value) / best)
        # never below the best mixture of the sources: which is the hull of their returns and costs, here by hand
        returns, costs = found.sources.T
        mixed = linprog(-returns, costs[None], [limit], np.ones((1, len(returns))), [1.0])
        assert mixed.status == 2 or found.value >= -mixed.fun - 1e-9
    assert min(gaps) > -1e-7
    assert max(gaps) < 0.05


def test_what_a_plan_says_is_what_its_mixture_does():
    rng = np.random.default_rng(1)
    mdp = random_mdp(rng)
    w, limits = np.r_[rng.random(D - 1), 0.0], {3: 0.4, 0: Limit(at_least=0.5)}
    found = plan_limited(mdp, w, limits, start=2)
    psi = np.array([successor_moments(mdp, policy).psi[2, policy[2]] for policy in found.policies])
    mean = found.probabilities @ psi
    assert mean @ w == pytest.approx(found.value)
    np.testing.assert_allclose(mean[[3, 0]], found.costs)
    best = occupancy_optimum(mdp, w, np.array([np.eye(D)[3], -np.eye(D)[0]]), [0.4, -0.5], 2)
    assert found.kept
    assert found.value == pytest.approx(best, rel=1e-6)
    assert 1 <= len(found.policies) <= 3


def test_a_price_is_what_a_little_more_of_the_limit_is_worth():
    mdp = random_mdp(np.random.default_rng(2))
    w = np.array([1.0, 0.5, 0.2, 0.0])
    one, other = (plan_limited(mdp, w, {3: limit}, start=0) for limit in (0.5, 0.5 + 1e-6))
    assert one.prices[0] == pytest.approx((other.value - one.value) / 1e-6, rel=1e-3)
    assert one.prices[0] > 0


def test_many_sources_are_no_hindrance():
    rng = np.random.default_rng(6)
    mdp, w = random_mdp(rng), np.array([1.0, 0.5, 0.2, 0.0])
    many = [rng.integers(mdp.n_actions, size=mdp.n_states) for _ in range(220)]
    few, all_of = (limited_gpi(mdp, sources, w, {3: 0.5}, start=0) for sources in (many[:20], many))
    assert few.kept
    assert all_of.value >= few.value - 1e-9


def test_with_a_horizon():
    rng = np.random.default_rng(3)
    mdp, w = random_mdp(rng, S=5), np.array([1.0, 0.5, 0.2, 0.0])
    sources = [plan(mdp, task, Entropic(0.0), horizon=4).policy for task in (*np.eye(D)[:-1], -np.eye(D)[-1])]
    free, least = (plan_limited(mdp, task, {3: 1e9}, start=0, horizon=4) for task in (w, -np.eye(D)[-1]))
    limit = (free.costs[0] + least.costs[0]) / 2
    best = plan_limited(mdp, w, {3: limit}, start=0, horizon=4)
    found = limited_gpi(mdp, sources, w, {3: limit}, start=0, horizon=4)
    assert best.policies[0].shape == (4, 5)
    assert found.kept
    assert found.costs[0] <= limit + 1e-9
    assert found.value <= best.value + 1e-9
    assert found.value >= 0.95 * best.value


def test_what_cannot_be_kept():
    mdp = random_mdp(np.random.default_rng(4))
    least = plan_limited(mdp, -np.eye(D)[-1], {3: 1e9}, start=0).costs[0]
    found = plan_limited(mdp, [1.0, 1.0, 1.0, 0.0], {3: least - 0.5}, start=0)
    assert not found.kept
    assert found.costs[0] == pytest.approx(least)
    assert found.remark == f"3 at most {least - 0.5:g} cannot be kept: the nearest attainable sum is {least:.4g}"
    assert "cannot be kept" in repr(found)


def test_bad_input():
    mdp = random_mdp(np.random.default_rng(5))
    with pytest.raises(ValueError, match="at least one policy"):
        limited_gpi(mdp, [], np.ones(D), {3: 1.0}, start=0)
    with pytest.raises(ValueError, match="start must be a state"):
        plan_limited(mdp, np.ones(D), {3: 1.0}, start=99)
    with pytest.raises(ValueError, match="per_episode need an MDP with gamma = 1"):
        plan_limited(mdp, np.ones(D), {3: rasf.Limit(1.0, per_episode=True)}, start=0)
