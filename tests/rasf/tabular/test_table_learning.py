"""One update as printed, and what it converges to: the exact mean and covariance of the feature return."""

import numpy as np
import pytest
from tabular_kernel import contents, make_rule

from rasf import successor_moments
from rasf.compiled import compiled
from rasf.envs.grid import Grid
from rasf.tabular.table import (
    SigmaForm,
    add_row,
    find_policy,
    learn_entry,
    new_table,
    read,
    reserve,
)


def table_of(rule, d, n_actions, rows):
    table = reserve(new_table(d, n_actions, rule.sigma), rows, 2 * rows, 0)
    for _ in range(rows):
        add_row(table, rule, 0)
    return table


@pytest.mark.parametrize("sigma", [SigmaForm.NONE, SigmaForm.DIAGONAL, SigmaForm.FULL])
def test_one_update(sigma):
    d, rng = 3, np.random.default_rng(0)
    m = d + SigmaForm(sigma).entries(d)
    rule = make_rule(sigma=sigma, gamma=0.9, alpha=0.3, alpha_sigma=0.2, noise_scale=1.0)
    table = table_of(rule, d, 4, 2)
    before = contents(table, rule, 1, m)
    phi, after, scratch = rng.normal(size=d), rng.normal(size=m), np.empty(d)
    for _ in range(2):  # the second time Sigma is not zero
        psi, Sigma = before[1, 0, :d, 2], before[1, 0, d:, 2]
        delta = phi + 0.9 * after[:d] - psi
        square = np.outer(delta, delta)
        square = (np.empty(0), np.diag(square), square[np.triu_indices(d)])[sigma]
        expected = before.copy()
        expected[1, 0, :d, 2] = psi + 0.3 * delta
        expected[1, 0, d:, 2] = Sigma + 0.2 * (square + 0.81 * after[d:] - Sigma)
        learn_entry(table, rule, 1, find_policy(table, 1, 0), 2, phi, after, scratch)
        before = contents(table, rule, 1, m)
        np.testing.assert_allclose(before, expected, rtol=1e-6)


@compiled()
def _sweeps(table, rule, pairs, entries, successor, phi, policy, terminal, after, delta):
    """One sampled transition from each of the pairs (s, a), bootstrapped with the policy's own action."""
    for n in range(len(pairs)):
        s, a = divmod(pairs[n], table.best.shape[1])
        to = successor[entries[n]]
        after[:] = 0.0
        if not terminal[to]:
            read(table, rule, to, find_policy(table, to, 0), policy[to], after)
        learn_entry(table, rule, s, find_policy(table, s, 0), a, phi[entries[n]], after, delta)


@pytest.mark.parametrize("sigma", [SigmaForm.DIAGONAL, SigmaForm.FULL])
def test_sampled_updates_approach_the_exact_moments(sigma):
    mdp, rng = Grid(slip=0.4).mdp(0.9), np.random.default_rng(1)
    d, batches, sweeps = mdp.n_features, 300, 300
    policy = rng.integers(0, mdp.n_actions, mdp.n_states)
    rule = make_rule(gamma=mdp.gamma, sigma=sigma)
    table = table_of(rule, d, mdp.n_actions, mdp.n_states)
    m = d + SigmaForm(sigma).entries(d)

    live = np.flatnonzero(np.diff(mdp.indptr))
    pairs = np.tile(live, sweeps)
    first, last = mdp.indptr[pairs], mdp.indptr[pairs + 1] - 1
    below = np.concatenate([[0.0], np.cumsum(mdp.probability)])
    for n in range(batches):
        drawn = np.searchsorted(below, below[first] + rng.random(len(pairs)), side="right") - 1
        entries = np.clip(drawn, first, last)
        # the steps must decay, or psi and Sigma hover; Sigma follows psi more slowly, as in the paper
        rule = rule._replace(alpha=1 / (1 + 5 * n), alpha_sigma=0.5 / (1 + 5 * n))
        _sweeps(table, rule, pairs, entries, mdp.successor, mdp.phi, policy, mdp.terminal, np.empty(m), np.empty(d))

    exact = successor_moments(mdp, policy)
    held = contents(table, rule, 1, m)[:, 0].transpose(0, 2, 1).reshape(-1, m)[live]
    Sigma = exact.Sigma.reshape(-1, d, d)[live]
    i, j = (np.arange(d), np.arange(d)) if sigma == SigmaForm.DIAGONAL else np.triu_indices(d)
    # every feature and pair of features on its own scale: traps are rare, steps are many
    for learned, true in ((held[:, :d], exact.psi.reshape(-1, d)[live]), (held[:, d:], Sigma[:, i, j])):
        error = np.abs(learned - true) / np.abs(true).max(0)
        assert error.mean() < 0.01
        assert error.max() < 0.05


@pytest.mark.parametrize("alpha", [0.5, 0.1])
def test_a_constant_step_size_makes_a_learned_covariance_too_large(alpha):
    """Double sampling: psi and Sigma are learned from the same steps. At a last step Sigma is 2 / (2 - alpha) times it.

    psi hovers about the mean of phi with variance alpha / (2 - alpha), which delta delta^T counts as risk.
    """
    rng, steps = np.random.default_rng(0), 20_000
    rule = make_rule(alpha=alpha, alpha_sigma=0.02, sigma=SigmaForm.FULL)
    table, after, scratch = table_of(rule, 1, 1, 1), np.zeros(2), np.empty(1)
    total = 0.0
    for n, phi in enumerate(rng.normal(size=(steps, 1))):
        learn_entry(table, rule, 0, find_policy(table, 0, 0), 0, phi, after, scratch)
        if n >= 1_000:
            total += contents(table, rule, 1, 2)[0, 0, 1, 0]
    assert total / (steps - 1_000) == pytest.approx(2 / (2 - alpha), rel=0.05)
