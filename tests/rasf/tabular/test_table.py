"""Stretches of policies that share numbers behave as separate tables; noise vectors; growth; coefficients."""

import numpy as np
import pytest
from scipy import stats
from tabular_kernel import contents, make_rule

from rasf.tabular.scores import ensure_fresh, own_slot
from rasf.tabular.table import (
    SigmaForm,
    add_row,
    find_policy,
    initial_noise,
    learn_entry,
    new_table,
    newest_slot,
    reserve,
    set_coefficients,
)
from rasf.transfer import packed_weights

D, A = 3, 4
M = D + SigmaForm.FULL.entries(D)
NEWEST = 5
COEF, NOW = np.linspace(-1, 1, M), np.array([1.0, 1.0, 0.0, 1.0, 1.0])


def one_row(rule, seen_by=0):
    """A table with one row, seen first while the newest policy was `seen_by`; now policies 0 .. NEWEST exist."""
    table = reserve(new_table(D, A, rule.sigma), 1, 64, 16)
    assert add_row(table, rule, seen_by) == 0
    ensure_fresh(table, rule, 0, COEF, NOW)
    return table


def owned(table, rule, policy):
    """The slot of one policy, split off as the learner does; a driver always comes first in its stretch."""
    if policy == NEWEST:
        return newest_slot(table, 0, policy)
    return own_slot(table, rule, 0, policy, find_policy(table, 0, policy), NEWEST, COEF)


def update(table, rule, policy, action=1):
    learn_entry(table, rule, 0, owned(table, rule, policy), action, np.ones(D), np.full(M, float(policy)), np.empty(D))


ORDERS = {
    "first": [0],
    "last": [5],
    "first, then the rest's first": [0, 1, 2],
    "last, then first": [5, 0],
    "the middle from both ends": [0, 1, 5, 2],
    "down to single policies": [0, 1, 2, 3, 4, 5],
    "last, then all before it": [5, 0, 1, 2, 3, 4],
    "again and again": [0, 0, 5, 5, 1, 0, 5, 1],
}


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
def test_updating_one_policy_leaves_those_that_share_with_it(order, shared):
    rule = make_rule(shared_noise=shared, noise_scale=0.1)
    table = one_row(rule)
    for policy in order:
        before = contents(table, rule, NEWEST + 1, M)[0]
        update(table, rule, policy)
        after = contents(table, rule, NEWEST + 1, M)[0]
        others = np.arange(NEWEST + 1) != policy
        np.testing.assert_array_equal(after[others], before[others])
        assert (after[policy, :, 1] != before[policy, :, 1]).all()
        np.testing.assert_array_equal(np.delete(after[policy], 1, axis=1), np.delete(before[policy], 1, axis=1))


@pytest.mark.parametrize("policy", range(NEWEST))
def test_owning_a_slot_twice_changes_nothing(policy):
    rule = make_rule(shared_noise=True)
    table = one_row(rule)
    for earlier in range(policy + 1):
        owned(table, rule, earlier)
    slot, used = find_policy(table, 0, policy), table.used.copy()
    assert owned(table, rule, policy) == slot
    np.testing.assert_array_equal(table.used, used)
    sharing = [find_policy(table, 0, j) for j in range(policy + 1, NEWEST + 1)]
    assert len(set(sharing)) == 1
    assert slot not in sharing


@pytest.mark.parametrize("seen_by", [0, 1, 3, NEWEST])
def test_independent_noise_belongs_to_its_policy_and_later_ones_copy(seen_by):
    rule = make_rule(shared_noise=False, noise_scale=0.1)
    held = contents(one_row(rule, seen_by), rule, NEWEST + 1, M)[0]
    for policy in range(NEWEST + 1):
        drawn = [[initial_noise(rule.seed, 0, min(policy, seen_by), i * A + a) for a in range(A)] for i in range(D)]
        np.testing.assert_array_equal(held[policy, :D], (0.1 * np.array(drawn)).astype(np.float32))
    assert not held[:, D:].any()
    assert len(np.unique(held[:, 0, 0])) == seen_by + 1


def test_shared_noise_is_one_draw():
    rule = make_rule(shared_noise=True)
    held = contents(one_row(rule, 3), rule, NEWEST + 1, M)[0]
    assert len(np.unique(held[:, 0, 0])) == 1
    assert held[0, 0, 0] == np.float32(0.01 * initial_noise(7, 0, 0, 0))


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 3, 0, 1], [3, 5, 4, 2, 2, 0, 1]])
def test_a_noise_vector_turns_into_an_entry_when_its_policy_is_updated(order):
    rule = make_rule(shared_noise=False, noise_scale=0.1)
    table = one_row(rule, 3)
    assert table.used[2] == 3
    for policy in order:
        before = contents(table, rule, NEWEST + 1, M)[0]
        noisy = find_policy(table, 0, policy) < 0
        slot = owned(table, rule, policy)
        assert slot >= 0
        assert slot == find_policy(table, 0, policy)
        np.testing.assert_array_equal(contents(table, rule, NEWEST + 1, M)[0], before)  # owning alone changes no number
        update(table, rule, policy)
        after = contents(table, rule, NEWEST + 1, M)[0]
        others = np.arange(NEWEST + 1) != policy
        np.testing.assert_array_equal(after[others], before[others])
        if noisy:  # the first update starts from Sigma = 0 and the noise
            delta = 1 + 0.95 * policy - before[policy, :D, 1]
            np.testing.assert_allclose(after[policy, :D, 1], before[policy, :D, 1] + 0.5 * delta, rtol=1e-6)
            np.testing.assert_allclose(after[policy, D, 1], 0.1 * (delta[0] ** 2 + 0.95**2 * policy), rtol=1e-6)


def test_growth_keeps_contents_and_doubles():
    rule = make_rule(shared_noise=False)
    table = one_row(rule, 3)
    for policy in (1, 3, 5):
        update(table, rule, policy)
    ensure_fresh(table, rule, 0, COEF, NOW)
    held, used = contents(table, rule, NEWEST + 1, M), table.used.copy()
    assert reserve(table, 0, 64 - used[1], 16 - used[2]) is table
    for rows, entries, noise in ((1, 0, 0), (0, 64, 0), (0, 0, 16), (5, 500, 100)):
        larger = reserve(table, rows, entries, noise)
        assert larger is not table
        room = np.array([len(larger.row), len(larger.first_policy), len(larger.noise_policy)])
        assert (room >= used + np.array([rows, entries, noise])).all()
        np.testing.assert_array_equal(larger.used, used)
        np.testing.assert_array_equal(contents(larger, rule, NEWEST + 1, M), held)
        np.testing.assert_array_equal(larger.best[0], table.best[0])
        np.testing.assert_array_equal(larger.best_policy[0], table.best_policy[0])
    assert len(reserve(table, 0, 64, 0).first_policy) >= 2 * 64  # amortised


def test_a_block_that_a_row_has_outgrown_serves_another():
    rule = make_rule(shared_noise=True, noise_scale=0.1)
    table = reserve(new_table(D, A, rule.sigma), 2, 64, 16)
    for row in range(2):
        add_row(table, rule, 0)
        for policy in range(NEWEST + 1):
            learn_entry(
                table, rule, row, newest_slot(table, row, policy), 1, np.ones(D), np.full(M, float(policy)), np.empty(D)
            )
    held = contents(table, rule, NEWEST + 1, M)
    assert table.used[1] == 2 + 4 + 8 + 8  # the first row's two and four served the second as well
    for policy in range(1, NEWEST + 1):  # every policy learned on from the one before, at both rows alike
        expected = held[:, policy - 1, :D, 1] + 0.5 * (1 + 0.95 * policy - held[:, policy - 1, :D, 1])
        np.testing.assert_allclose(held[:, policy, :D, 1], expected, rtol=1e-6)
        np.testing.assert_array_equal(held[:, policy, :, 0], held[:, 0, :, 0])


def test_growth_leaves_pools_with_room_alone():
    table = one_row(make_rule(shared_noise=False), 3)
    larger = reserve(table, 0, 500, 0)
    assert len(larger.value) >= 500
    assert larger.best is table.best
    assert larger.noise_policy is table.noise_policy


def test_noise_is_a_function_of_its_arguments_uniform_and_exact_in_float32():
    places = [(s, r, p, k) for s in range(3) for r in range(40) for p in range(12) for k in range(20)]
    drawn = np.array([initial_noise(*place) for place in places])
    np.testing.assert_array_equal(drawn, [initial_noise(*place) for place in places])
    assert drawn.min() >= -1
    assert drawn.max() < 1
    np.testing.assert_array_equal(drawn, drawn.astype(np.float32))
    assert stats.kstest(drawn, stats.uniform(-1, 2).cdf).pvalue > 0.01
    cube = drawn.reshape(3, 40, 12, 20)
    for axis in range(4):  # neighbours along any argument are unrelated
        here, there = np.delete(cube, -1, axis).ravel(), np.delete(cube, 0, axis).ravel()
        assert abs(np.corrcoef(here, there)[0, 1]) < 4 / np.sqrt(len(here))
    # 24 bits: some equal values among 28,800 draws, but no more than chance makes
    assert len(drawn) - len(np.unique(drawn)) < 60


@pytest.mark.parametrize("sigma", [SigmaForm.NONE, SigmaForm.DIAGONAL, SigmaForm.FULL])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_coefficients_give_the_mean_variance_score(sigma, d):
    rng = np.random.default_rng(d)
    half = rng.normal(size=(d, d))
    psi, Sigma, w = rng.normal(size=d), half @ half.T, rng.normal(size=d)
    learned = {
        SigmaForm.NONE: np.empty(0),
        SigmaForm.DIAGONAL: np.diag(Sigma),
        SigmaForm.FULL: Sigma[np.triu_indices(d)],
    }[sigma]
    variance = {
        SigmaForm.NONE: 0.0,
        SigmaForm.DIAGONAL: w @ np.diag(np.diag(Sigma)) @ w,
        SigmaForm.FULL: w @ Sigma @ w,
    }[sigma]
    coef = np.full(d + SigmaForm(sigma).entries(d), np.nan)
    set_coefficients(w, make_rule(variance_weight=-1.7, sigma=sigma), coef)
    if sigma != SigmaForm.NONE:  # the layout is that of `rasf.transfer`
        packed = packed_weights(w, diagonal=sigma == SigmaForm.DIAGONAL)
        np.testing.assert_allclose(coef, np.concatenate([w, -1.7 * packed]), rtol=1e-15)
    assert coef @ np.concatenate([psi, learned]) == pytest.approx(psi @ w - 1.7 * variance)
