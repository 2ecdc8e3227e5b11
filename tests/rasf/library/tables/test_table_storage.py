"""Tabular sources as stored: all comes back, and whatever does not fit is refused before compiled code reads it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_tables import random_sources

from rasf import CVaR, MeanVariance
from rasf.library.tables.policies import TablePolicies
from rasf.tabular.learner import SuccessorLearner
from rasf.tabular.settings import TableSettings

AVERSE = MeanVariance(-4.0)


@pytest.fixture(scope="module")
def sources():
    """Five policies in one group, seven states, three actions, two features."""
    return random_sources(np.random.default_rng(0), groups=1, n_states=7)


def test_what_is_stored_comes_back_bit_by_bit(sources):
    readonly = {name: array.copy() for name, array in sources.arrays().items()}
    for array in readonly.values():
        array.setflags(write=False)
    again = TablePolicies.restore(sources.describe(), readonly)
    assert again.describe() == sources.describe()
    w = np.array([0.3, 0.2])
    for one, other in zip(*(some.scores(readonly["keys"], w, AVERSE) for some in (again, sources)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_library_without_states_answers_too():
    learner = SuccessorLearner(2, 3, TableSettings(), 0, 1, AVERSE)
    learner.begin_task([1.0, 1.0])
    empty = TablePolicies.from_learner(learner, np.zeros((0, 4)))
    empty = TablePolicies.restore(empty.describe(), empty.arrays())
    for risk in (AVERSE, CVaR(0.5)):
        np.testing.assert_array_equal(empty.act(np.zeros((2, 4)), np.ones(2), risk), [0, 0])
    assert not empty.scores(np.zeros((2, 4)), np.ones(2), AVERSE).seen.any()


def broken(**changes):
    return lambda arrays: {name: changes[name](array) if name in changes else array for name, array in arrays.items()}


def put(where, number):
    def change(array):
        array = array.copy()
        array[where] = number
        return array

    return change


@pytest.mark.parametrize(("change", "message"), [
    (broken(keys=put((0, 0), np.nan)), "keys must be finite"),
    (broken(keys=lambda k: np.concatenate([k[:-1], k[:1]])), "keys must be distinct"),
    (broken(keys=lambda k: k.astype(np.float32)), "keys must be float64"),
    (broken(seed=lambda s: s.reshape(())), "seed must be uint64 of shape"),
    (broken(keys=lambda k: k[:-1]), "states must be int64 of shape"),
    (broken(states=put(-1, 3)), "states must increase strictly from 0"),
    (broken(states=put(1, 2**63 - 1)), "states must increase strictly from 0"),
    (broken(entries=put(0, -1)), "entries must increase from 0"),
    (broken(entries=put(3, 10**12)), "entries must increase from 0"),
    (broken(entries=lambda e: e[:-1]), "entries must be int64 of shape"),
    (broken(group=put(0, 1)), "group must be 0 to 0"),
    (broken(group=put(0, -1)), "group must be 0 to 0"),
    (broken(row=put(0, -1)), "row must not be negative"),
    (broken(first=put(0, -1)), "first and last must be policies"),
    (broken(last=put(-1, 5)), "first and last must be policies"),
    (broken(first=lambda f: f * 0, last=lambda l: l * 0), "first and last must give increasing, disjoint ranges"),
    (broken(value=put((0, 0), np.inf)), "value must be finite"),
    (broken(value=lambda v: v[:, :-1]), "value must be float32 of shape"),
    (broken(policies=put(1, 2**40)), "policies must"),
    (broken(policies=put(1, 4)), "first and last must be policies"),
    (broken(policies=lambda p: p[:1], seed=lambda s: s[:0], noise=lambda n: n[:0]), "seed must have one number"),
    (broken(noise=put(0, -0.5)), "noise must"),
    (lambda arrays: arrays | {"more": np.zeros(1)}, "arrays must be"),
    (lambda arrays: {}, "arrays must be"),
])  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(sources, change, message):
    with pytest.raises(ValueError, match=message):
        TablePolicies.restore(sources.describe(), change(sources.arrays()))


@pytest.mark.parametrize(("changes", "message"), [
    ({"actions": 0}, "actions"),
    ({"actions": True}, "actions"),
    ({"actions": 10**9}, "actions"),
    ({"actions": 2}, "entries must be"),
    ({"features": "4"}, "features"),
    ({"features": 3}, "value must be"),
    ({"gamma": float("nan")}, "gamma must"),
    ({"gamma": None}, "gamma must"),
    ({"gamma": 0.0}, "gamma must"),
    ({"sigma": "half"}, "sigma must"),
    ({"sigma": ["full"]}, "sigma must"),
    ({"sigma": "none"}, "value must be"),
    ({"policies": 7}, "policies must be 5"),
    ({"states": 8}, "states must be"),
    ({"law": "histogram"}, "law must be 'table'"),
])  # fmt: skip
def test_descriptions_that_do_not_fit_are_refused(sources, changes, message):
    with pytest.raises(ValueError, match=message):
        TablePolicies.restore(sources.describe() | changes, sources.arrays())


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_a_changed_byte_is_refused_or_harmless(seed):
    """Compiled code checks no bounds: whatever passes the checks must act without touching memory it has not."""
    rng = np.random.default_rng(seed)
    sources = random_sources(np.random.default_rng(1))
    arrays = {name: array.copy() for name, array in sources.arrays().items()}
    name = rng.choice([name for name in arrays if arrays[name].size])
    flat = arrays[name].view(np.uint8).reshape(-1)
    flat[rng.integers(len(flat))] ^= 1 << rng.integers(8)
    try:
        changed = TablePolicies.restore(sources.describe(), arrays)
    except ValueError:
        return
    keys = changed.arrays()["keys"]
    with np.errstate(over="ignore", invalid="ignore"):
        for risk in (AVERSE, CVaR(0.4)):
            assert ((changed.act(keys, np.ones(2), risk) >= 0) & (changed.act(keys, np.ones(2), risk) < 3)).all()
            changed.scores(keys, np.ones(2), risk)
