"""Every compiled chooser breaks ties as `rasf.transfer.gpi` does; the learner's driver as Algorithm 1."""

import numpy as np
import pytest
from tabular_kernel import make_rule

from rasf import CVaR, MeanVariance
from rasf.library.tables.policies import TablePolicies
from rasf.tabular.frozen import Frozen
from rasf.tabular.scores import best_action, ensure_fresh, greedy, greedy_of_slot
from rasf.tabular.table import BASE, SigmaForm, add_row, find_policy, new_table, newest_slot, reserve
from rasf.transfer import Choice, gpi
from rasf_lab.paper.four_room import prql

K, A = 4, 5


def score_tables():
    """Scores (K, A): random ones, then integers with many ties, then all equal."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=(K, A)) for _ in range(50)] + [
        rng.integers(0, n, (K, A)).astype(float) for n in (1, 2, 3) for _ in range(150)
    ]


def driver_first(scores):
    """GPI in the order of Algorithm 1: c in argmax_i max_a score_i, then a in argmax_a score_c."""
    source = scores.max(axis=1).argmax()
    return Choice(scores[source].argmax(), source)


def tied(scores):
    """Whether two actions share the best score."""
    return (scores.max(0) == scores.max()).sum() > 1


def learner_table(scores):
    """A table of one row and one feature in which policy k scores scores[k] under w = 1."""
    rule = make_rule(sigma=SigmaForm.NONE, noise_scale=0.0, shared_noise=True)
    table = reserve(new_table(1, A, rule.sigma), 1, 64, 16)
    add_row(table, rule, 0)
    for k, each in enumerate(scores):
        slot = newest_slot(table, 0, k)  # may move the row's block
        table.value[table.row[0, BASE] + slot, :, 0] = each
    return table, rule


def test_the_learner():
    coef, now = np.ones(1), np.array([1.0, 1.0, 0.0, 0.0, 1.0])
    ties = readings = 0
    for scores in score_tables():
        scores = scores.astype(np.float32).astype(float)
        table, rule = learner_table(scores)
        ensure_fresh(table, rule, 0, coef, now)
        wanted = gpi(scores)
        # the action it bootstraps with
        assert best_action(table, 0) == wanted.policy
        assert table.best_policy[0, wanted.policy] == wanted.source
        for k in range(K):  # one policy by itself
            own = greedy_of_slot(table, rule, 0, find_policy(table, 0, k), coef)
            assert own == gpi(scores[k : k + 1]).policy
        # the action it takes: the driving policy first, which differs only where actions tie
        taken = driver_first(scores)
        assert greedy(table, 0)[:2] == taken
        if not tied(scores):
            assert taken == wanted
        ties, readings = ties + tied(scores), readings + (taken != wanted)
    assert ties > 100
    assert readings > 20


def frozen_tables(tables, groups):
    """Frozen policies, of one learner or each of its own, whose means under w = 1 are tables (S, K, A)."""
    S = len(tables)
    cells = np.arange(S * groups)
    each = K // groups
    values = np.moveaxis(tables.reshape(S, groups, each, A), 3, 2)  # by state, group, action, policy
    policies = np.tile(np.arange(each), len(cells) * A).astype(np.int16)
    frozen = Frozen(
        states=groups * np.arange(S + 1), group=np.tile(np.arange(groups), S).astype(np.int32),
        row=cells.astype(np.int32), entries=each * np.arange(len(cells) * A + 1), first=policies, last=policies,
        value=np.column_stack([values.ravel(), np.zeros(values.size)]).astype(np.float32),
        policies=each * np.arange(groups + 1), seed=np.zeros(groups, np.uint64), noise=np.zeros(groups),
    )  # fmt: skip
    return TablePolicies(np.arange(S, dtype=float)[:, None], frozen, A, 1, 0.9, SigmaForm.FULL)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("risk", [MeanVariance(-1.0), CVaR(0.3)], ids=str)
def test_frozen_policies(groups, risk):
    tables = np.array(score_tables()).astype(np.float32).astype(float)
    policies, w = frozen_tables(tables, groups), np.ones(1)
    keys = policies.arrays()["keys"]
    np.testing.assert_array_equal(policies.scores(keys, w, risk).mean, np.moveaxis(tables, 0, 1))
    wanted = gpi(np.moveaxis(tables, 0, 1)).policy
    np.testing.assert_array_equal(policies.act(keys, w, risk), wanted)
    again = frozen_tables(tables, groups)
    np.testing.assert_array_equal([again.act_one(key, w, risk) for key in keys], wanted)


def test_policy_reuse():
    constants = prql.make_rule(omega=-2.0, eta=0.3, tau=1.0, seed=0)
    for scores in score_tables():
        memory = prql.reserve(prql.new_memory(K, A), 1)
        row = prql.row_of(memory, constants, K - 1, 0)
        for k in range(K):
            memory.value[row, prql.Q], memory.value[row, prql.C] = 0.0, scores[k] / 2
            prql.choose(memory, constants, k, row)
            assert memory.choice[k, row] == gpi(scores[k : k + 1]).policy
