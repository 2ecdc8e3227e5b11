from itertools import combinations

import numpy as np
import pytest

from rasf import CVaR, MeanVariance
from rasf_lab.common.fronts import (
    expected_risk_utility,
    expected_utility,
    hypervolume,
    is_dominated,
    non_dominated,
    simplex,
    sparsity,
)


def sphere(n, d, seed=0):
    """Mutually non-dominated points."""
    points = np.abs(np.random.default_rng(seed).normal(size=(n, d)))
    return points / np.linalg.norm(points, axis=1)[:, None]


def by_inclusion_exclusion(points, reference):
    """The volume of a union of boxes."""
    boxes, total = np.maximum(points - reference, 0.0), 0.0
    for size in range(1, len(boxes) + 1):
        for some in combinations(boxes, size):
            total -= (-1) ** size * np.min(some, axis=0).prod()
    return total


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6])
def test_the_hypervolume_is_the_volume_of_a_union_of_boxes(d):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        points, reference = rng.normal(size=(9, d)), rng.normal(-0.7, 0.3, size=d)  # some points are below
        assert hypervolume(points, reference) == pytest.approx(by_inclusion_exclusion(points, reference), rel=1e-12)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_the_hypervolume_of_whole_numbers_counts_cells(d):
    """Many ties: a cell of the grid counts if its upper corner is dominated."""
    rng, side = np.random.default_rng(d), 6
    points = rng.integers(0, side + 1, (12, d))
    corners = np.stack(np.meshgrid(*[np.arange(1, side + 1)] * d, indexing="ij"), axis=-1).reshape(-1, d)
    counted = (points[:, None] >= corners[None]).all(axis=2).any(axis=0).sum()
    assert hypervolume(points, np.zeros(d)) == counted


def test_the_hypervolume_of_many_points_agrees_with_random_points():
    points, drawn = sphere(150, 5), np.random.default_rng(1).random((200_000, 5))
    inside = np.zeros(len(drawn), bool)
    for point in points:
        inside |= (drawn <= point).all(axis=1)
    assert hypervolume(points, np.zeros(5)) == pytest.approx(inside.mean(), abs=5 * (0.08 * 0.92 / 2e5) ** 0.5)


def test_the_hypervolume_depends_neither_on_order_nor_on_repeats():
    points, reference = sphere(40, 4), np.full(4, 0.05)
    expected = hypervolume(points, reference)
    shuffled = np.random.default_rng(2).permutation(np.concatenate([points, points[:9], 0.5 * points]))
    assert hypervolume(shuffled, reference) == pytest.approx(expected, rel=1e-12)
    swapped = [2, 0, 3, 1]
    assert hypervolume(points[:, swapped], reference[swapped]) == pytest.approx(expected, rel=1e-12)
    assert hypervolume(7.0 * points - 3.0, 7.0 * reference - 3.0) == pytest.approx(7.0**4 * expected, rel=1e-12)


def test_known_fronts():
    assert hypervolume([[1, 3], [2, 2], [3, 1]], [0, 0]) == 6.0
    assert hypervolume([[2, 2]], [2, 0]) == 0.0  # on the edge of the reference
    assert hypervolume(np.zeros((0, 3)), np.zeros(3)) == 0.0
    assert sparsity([[1, 3], [2, 2], [3, 1], [1, 1]]) == 2.0  # gaps of 1 in two objectives; (1, 1) is dominated
    assert sparsity([[0, 4], [4, 0]]) == 32.0
    assert sparsity([[5, 5], [1, 1]]) == 0.0


def test_dominated_points():
    points = [[1, 1], [1, 2], [1, 2], [0, 3], [2, 0], [0, 0]]
    assert is_dominated(points).tolist() == [True, False, False, False, False, True]
    assert non_dominated(points).tolist() == [[0, 3], [1, 2], [2, 0]]
    drawn = np.random.default_rng(3).integers(0, 4, (60, 3))
    slow = [any((b >= a).all() and (b > a).any() for b in drawn) for a in drawn]
    assert is_dominated(drawn).tolist() == slow


def test_expected_utility_takes_the_best_point_for_each_weighting():
    assert expected_utility([[4, 0], [0, 2]], [[1, 0], [0, 1], [0.5, 0.5]]) == pytest.approx((4 + 2 + 2) / 3)
    with pytest.raises(ValueError, match="must not be empty"):
        expected_utility(np.zeros((0, 2)), [[1, 0]])


def test_expected_risk_utility_is_the_mean_risk_of_realised_returns():
    returns, weightings = np.random.default_rng(4).normal(size=(3, 20, 2)), simplex(2, 2)
    tails = [np.sort(some @ w)[:2].mean() for some, w in zip(returns, weightings, strict=True)]
    assert expected_risk_utility(returns, weightings, CVaR(0.1)) == pytest.approx(np.mean(tails))
    means = np.einsum("mnd,md->m", returns, weightings) / 20
    assert expected_risk_utility(returns, weightings, MeanVariance(0.0)) == pytest.approx(means.mean())


def test_a_simplex_has_all_weightings_of_a_grid():
    assert simplex(2, 4).tolist() == [[0, 1], [0.25, 0.75], [0.5, 0.5], [0.75, 0.25], [1, 0]]
    found = simplex(4, 5)
    assert found.shape == (56, 4)
    assert len(np.unique(found, axis=0)) == 56
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_wrong_arguments_are_refused():
    for call, said in (
        (lambda: hypervolume([1.0, 2.0], [0.0]), "points must have shape"),
        (lambda: hypervolume([[1.0, 2.0]], [0.0]), "reference must have shape"),
        (lambda: hypervolume([[1.0, np.nan]], [0.0, 0.0]), "points must be finite"),
        (lambda: hypervolume([[1.0, 2.0]], [0.0, -np.inf]), "reference must be finite"),
        (lambda: expected_utility([[1.0, 2.0]], [[1.0]]), "weightings must have shape"),
        (lambda: expected_risk_utility(np.zeros((2, 2)), [[1.0, 0.0]], CVaR(0.1)), "returns must have shape"),
        (lambda: expected_risk_utility(np.zeros((2, 5, 2)), [[1.0, 0.0]], CVaR(0.1)), "row for each of 1 weightings"),
    ):
        with pytest.raises(ValueError, match=said):
            call()


@pytest.mark.filterwarnings("ignore")
def test_pymoo_finds_the_same_hypervolume():
    indicator = pytest.importorskip("pymoo.indicators.hv").HV
    for d in (2, 3, 4, 5):
        points = sphere(60, d, seed=d)
        assert hypervolume(points, np.zeros(d)) == pytest.approx(float(indicator(ref_point=np.zeros(d))(-points)))


@pytest.mark.filterwarnings("ignore")
def test_morl_baselines_finds_the_same_measures():
    theirs = pytest.importorskip("morl_baselines.common.performance_indicators")
    points, weightings = sphere(30, 3), simplex(3, 6)
    assert hypervolume(points, np.zeros(3)) == pytest.approx(float(theirs.hypervolume(np.zeros(3), list(points))))
    assert expected_utility(points, weightings) == pytest.approx(float(theirs.expected_utility(points, weightings)))
    assert sparsity(points) == pytest.approx(float(theirs.sparsity(list(points))))
