"""Limits: the best candidate within them by brute force, and prices by trying many."""

import subprocess
import sys

import numpy as np
import pytest

from rasf import Limit
from rasf.limits import best_within, prices_within, read_limits

RNG = np.random.default_rng(0)


def drawn(B=300, N=8, m=1):
    return RNG.normal(size=(B, N)), RNG.exponential(size=(B, N, m)), RNG.exponential(size=(B, m))


@pytest.mark.parametrize("m", [1, 2, 3])
def test_the_best_within_limits_or_the_nearest(m):
    values, costs, at_most = drawn(m=m)
    values[RNG.random(values.shape) < 0.1] = -np.inf
    found = best_within(values, costs, at_most)
    for v, c, most, chosen, kept in zip(values, costs, at_most, found.chosen, found.kept, strict=True):
        excess = np.where(v > -np.inf, np.maximum(c - most, 0).sum(axis=1), np.inf)
        assert kept == (excess.min() == 0)
        if kept:
            assert v[chosen] == v[excess == 0].max()
        else:
            assert excess[chosen] == excess.min()


def test_a_price_is_the_smallest_that_keeps_the_limit():
    values, costs, at_most = drawn()
    prices, kept_by = prices_within(values, costs, at_most)[:, 0], best_within(values, costs, at_most).kept
    for v, c, most, price, kept in zip(values, costs[..., 0], at_most[:, 0], prices, kept_by, strict=True):

        def cost_at(p, v=v, c=c):
            return c[np.argmax(v - p * c)]

        if kept:
            assert cost_at(price * (1 + 1e-7) + 1e-12) <= most
        else:
            assert cost_at(price * (1 + 1e-7) + 1e-12) == c.min()
        if price > 0:
            assert cost_at(price * (1 - 1e-7)) > most
        else:
            assert v.argmax() == np.argmax(v - 1e-12 * c)


def test_several_prices_keep_all_limits_where_prices_can():
    values, costs, at_most = drawn(m=2)
    found, prices = best_within(values, costs, at_most), prices_within(values, costs, at_most)
    by_price = np.argmax(values - (costs * (prices * (1 + 1e-6) + 1e-9)[:, None]).sum(axis=2), axis=1)
    chosen = np.take_along_axis(costs, by_price[:, None, None], axis=1)[:, 0]
    within = (chosen <= at_most + 1e-9).all(axis=1)
    assert within[found.kept].mean() > 0.7  # the rest have no prices: their best lies below a mixture of others
    assert not within[~found.kept].any()


def test_ties_go_to_the_lower_cost_and_no_candidates_to_the_first():
    given = np.array([[1.0, 1.0], [-np.inf, -np.inf]]), np.array([[[2.0], [1.0]]] * 2), np.full((2, 1), 5.0)
    found = best_within(*given)
    assert found.chosen.tolist() == [1, 0]
    assert found.kept.tolist() == [True, True]
    assert prices_within(*given).tolist() == [[0.0], [0.0]]


def test_what_is_not_a_number_is_not_kept():
    found = best_within(np.array([[2.0, 1.0]]), np.array([[[np.nan], [0.5]]]), np.ones((1, 1)))
    assert found.chosen.tolist() == [1]
    three = (np.array([[3.0, 2.0, 1.0]]), np.array([[[np.nan], [2.0], [0.5]]]), np.ones((1, 1)))
    assert prices_within(*three).tolist() == [[pytest.approx(1 / 1.5)]]  # of the two whose cost is known
    assert best_within(np.ones((1, 1)), np.full((1, 1, 1), np.nan), np.ones((1, 1))).kept.tolist() == [False]


def test_a_name_comes_before_a_number():
    assert read_limits({"1": 0.5}, 2, ("1", "0")).features.tolist() == [0]
    assert read_limits({1: 0.5}, 2, ("1", "0")).features.tolist() == [1]


def test_limits_by_name_and_index():
    found = read_limits(
        {"failure": 0.05, 0: Limit(at_least=-2.0), "1": Limit(3, per_episode=True)}, 3, ("a", "b", "failure")
    )
    assert found.names == ("failure", "a", "b")
    assert found.features.tolist() == [2, 0, 1]
    assert found.at_most.tolist() == [0.05, 2.0, 3.0]
    np.testing.assert_allclose(found.costs(np.array([-1.0, 2.0, 0.5])), [0.5, 1.0, 2.0])
    assert found.not_kept(np.array([0.1, 3.0, 1.0])) == (
        "failure at most 0.05 cannot be kept: the nearest attainable sum is 0.1; "
        "a at least -2 cannot be kept: the nearest attainable sum is -3"
    )
    assert str(found.given[2]) == "at most 3 an episode"
    assert [limit.short() for limit in found.given] == ["<= 0.05", ">= -2", "<= 3/episode"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "limits must be a dict"),
        ([0.1], "limits must be a dict"),
        ({"oops": 1.0}, "one of a, b, or a number from 0 to 1, got 'oops'"),
        ({2: 1.0}, "a number from 0 to 1, got 2"),
        ({True: 1.0}, "a number from 0 to 1, got True"),
        ({0: "x"}, "the limit of 0 must be a number"),
        ({0: float("nan")}, "the limit of 0 must be a finite number"),
        ({0: 1.0, "a": 2.0}, "name each feature only once"),
    ],
)
def test_bad_limits(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_limits(given, 2, ("a", "b"))


def test_a_limit_has_one_side():
    for sides in ({}, {"at_most": 1.0, "at_least": 0.0}):
        with pytest.raises(ValueError, match="either at_most or at_least"):
            Limit(**sides)
    with pytest.raises(ValueError, match="finite"):
        Limit(np.inf)


def test_choosing_within_limits_compiles_nothing():
    """A compiled loop took seconds at the first action within limits."""
    loaded = "import sys, rasf.limits; print('numba' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
