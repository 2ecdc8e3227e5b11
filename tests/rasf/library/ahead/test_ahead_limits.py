"""Limits with wrong tables: looking ahead in the true model brings the expected cost within the theorem's bound."""

import numpy as np
from test_ahead_finite import table_library
from test_limits_in_use import GAMMA, STEPS, D, follow

from rasf import FiniteMDP, MeanVariance, successor_moments
from rasf.envs.finite import FiniteEnv
from rasf.library.acting.rule import NEUTRAL


def problem(seed, S=4, A=3):
    """Dynamics with two successors each, costs in the last feature, and a library whose means are wrong."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(S, 0.5), (S, A))
    P = np.where(np.partition(P, -2, axis=-1)[..., [-2]] > P, 0.0, P)
    P /= P.sum(axis=-1, keepdims=True)
    phi = rng.random((S, A, D))
    mdp = FiniteMDP(P, phi, gamma=GAMMA)
    tasks = np.array([np.r_[rng.random(D - 1), -rng.exponential()] for _ in range(4)])
    env = FiniteEnv(mdp, 0, ("one", "two", "cost"), (1, 1, -1))
    return table_library(lambda: env, mdp, tasks, GAMMA, error=1.0, seed=seed), mdp, P, phi


def error_of_costs(library, mdp):
    """The largest error of the tables' costs, for the policies that the tables define and their own actions."""
    states = np.arange(mdp.n_states)
    keys, worst = states[:, None].astype(float), 0.0
    learned = library.sources.scores(keys, np.eye(D)[-1], NEUTRAL).mean
    for i, (w, _) in enumerate(library.policies):
        own = library.sources.scores(keys, np.array(w), MeanVariance(0.0)).values[i].argmax(axis=1)
        true = successor_moments(mdp, own).psi[states, own, -1]
        worst = max(worst, np.abs(learned[i, states, own] - true).max())
    return worst


def test_a_limit_is_exceeded_by_no_more_than_the_discounted_error_of_the_tails():
    tail, over = GAMMA**STEPS / (1 - GAMMA), 0
    for seed in range(15):
        library, mdp, P, phi = problem(seed)
        rng, start = np.random.default_rng([seed, 1]), 0
        w, eps = np.r_[rng.random(D - 1), 0.0], error_of_costs(library, mdp)
        exact = library.rule(w, NEUTRAL, model=mdp, ahead=20).sources
        costs = exact.scores(np.zeros((1, 1)), np.eye(D)[-1], NEUTRAL).mean
        limit = float(rng.uniform(costs.min(), costs.max()))
        for h in (0, 1, 2, 4, 8):
            rule = library.rule(w, NEUTRAL, limits={D - 1: limit}, model=mdp, ahead=h)
            total, first = follow(rule, P, phi, start)
            if h == 0:
                over += total[-1] > limit + tail
            elif first.own["kept"].all():
                assert total[-1] <= limit + 2 * GAMMA**h * eps / (1 - GAMMA) + tail
    assert over > 2  # without looking ahead, wrong costs break limits
