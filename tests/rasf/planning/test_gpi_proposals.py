"""GPI over a finite set of sampled continuous actions is never worse than the best source, by brute force.

Actions are points of [-1, 1]^2, of which there are infinitely many; dynamics and features are functions of them. At
every state, and for episodes at every time, GPI chooses among candidates: the action of every source policy, and
sometimes further random ones. Values are exact, by backward induction or by linear equations.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from random_mdps import SEEDS, examples
from rasf import gpi

SIZE = 2


class Problem:
    """A random MDP with S states whose transition probabilities and mean features are functions of an action."""

    def __init__(self, seed, states=4, features=3):
        rng = np.random.default_rng(seed)
        self.states = states
        self.logits = rng.normal(size=(states, states, 3 + SIZE)) * 2
        self.effect = rng.normal(size=(states, states, features, 3 + SIZE))
        self.target = rng.uniform(-1, 1, (states, SIZE))
        self.w = rng.normal(size=features)

    def _terms(self, s, action):
        return np.array([1.0, *action, action[0] * action[1], np.sum((action - self.target[s]) ** 2)])

    def transitions(self, s, action):
        """Probabilities (S,) of the next states."""
        powers = np.exp(self.logits[s] @ self._terms(s, action))
        return powers / powers.sum()

    def psi(self, s, action, following, gamma):
        """The mean feature return (d,) of an action, where `following` (S, d) is that of the next states."""
        probability = self.transitions(s, action)
        phi = np.tanh(self.effect[s] @ self._terms(s, action))
        return probability @ (phi + gamma * following)


def random_policy(rng, *shape):
    """Actions (.., 2): inside, and often at the bounds, as those of saturated actors are."""
    return np.clip(rng.normal(size=(*shape, SIZE)), -1, 1)


def candidates_of(policies, s, more):
    """The actions (A, 2) of all policies at a state, then further ones."""
    return np.concatenate([[policy[s] for policy in policies], more])


def horizon_psi(problem, policy, horizon):
    """Mean feature returns (T + 1, S, d) of a policy (T, S, 2), with t steps taken."""
    d = len(problem.w)
    psi = np.zeros((horizon + 1, problem.states, d))
    for t in reversed(range(horizon)):
        for s in range(problem.states):
            psi[t, s] = problem.psi(s, policy[t, s], psi[t + 1], 1.0)
    return psi


@examples(40)
@given(SEEDS, st.integers(1, 4), st.sampled_from([0, 3]))
def test_episodes(seed, sources, further):
    problem, rng, horizon = Problem(seed), np.random.default_rng([seed, 1]), 4
    policies = [random_policy(rng, horizon, problem.states) for _ in range(sources)]
    psi = [horizon_psi(problem, policy, horizon) for policy in policies]
    improved, chosen = np.zeros((horizon, problem.states, SIZE)), set()
    for t, s in np.ndindex(horizon, problem.states):
        actions = candidates_of([policy[t] for policy in policies], s, random_policy(rng, further))
        scores = [[problem.psi(s, a, own[t + 1], 1.0) @ problem.w for a in actions] for own in psi]
        choice = gpi(np.array(scores)[:, None])
        improved[t, s] = actions[int(choice.policy[0])]
        chosen.add(int(choice.policy[0]))
    values, found = [one @ problem.w for one in psi], horizon_psi(problem, improved, horizon) @ problem.w
    assert (found >= np.max(values, axis=0) - 1e-9).all()
    if sources == 1 and not further:
        np.testing.assert_allclose(found, values[0])


def discounted_psi(problem, policy, gamma):
    """Mean feature returns (S, d) of a stationary policy (S, 2), by linear equations."""
    transitions = np.array([problem.transitions(s, policy[s]) for s in range(problem.states)])
    nothing = np.zeros((problem.states, len(problem.w)))
    phi = np.array([problem.psi(s, policy[s], nothing, gamma) for s in range(problem.states)])
    return np.linalg.solve(np.eye(problem.states) - gamma * transitions, phi)


@examples(40)
@given(SEEDS, st.integers(1, 4), st.sampled_from([0, 3]), st.sampled_from([0.0, 0.5, 0.95]))
def test_discounted_returns(seed, sources, further, gamma):
    problem, rng = Problem(seed), np.random.default_rng([seed, 1])
    policies = [random_policy(rng, problem.states) for _ in range(sources)]
    psi = [discounted_psi(problem, policy, gamma) for policy in policies]
    improved, best = np.zeros((problem.states, SIZE)), np.zeros(problem.states)
    for s in range(problem.states):
        actions = candidates_of(policies, s, random_policy(rng, further))
        scores = np.array([[problem.psi(s, a, own, gamma) @ problem.w for a in actions] for own in psi])
        choice = gpi(scores[:, None])
        improved[s], best[s] = actions[int(choice.policy[0])], scores.max()
        for k, own in enumerate(psi):  # a policy's score for its own action is its value
            assert scores[k, k] == pytest.approx(own[s] @ problem.w)
    found = discounted_psi(problem, improved, gamma) @ problem.w
    sources_best = np.max([own @ problem.w for own in psi], axis=0)
    assert (best >= sources_best - 1e-9).all()
    assert (found >= best - 1e-8).all()


def test_without_the_policies_own_actions_gpi_may_be_worse():
    """The guarantee needs these candidates: random ones alone lose against the source in some state."""
    worse = 0
    for seed in range(20):
        problem, rng = Problem(seed), np.random.default_rng([seed, 1])
        policy = random_policy(rng, problem.states)
        psi = discounted_psi(problem, policy, 0.9)
        improved = np.zeros((problem.states, SIZE))
        for s in range(problem.states):
            actions = random_policy(rng, 2)
            improved[s] = max(actions, key=lambda a, s=s: problem.psi(s, a, psi, 0.9) @ problem.w)
        worse += (discounted_psi(problem, improved, 0.9) @ problem.w < psi @ problem.w - 1e-6).any()
    assert worse > 3
