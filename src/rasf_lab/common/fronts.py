"""Measures of fronts: how good is a set of policies, if the weights of the reward are not known in advance?

A *point* is the vector of mean returns of one policy, with one entry for each of d objectives. Larger is better in
every objective. A point dominates another point if it is at least as large in all objectives and larger in one. A
*front* is a set of points.

    hypervolume            the volume of the points that the front dominates and that dominate a reference point
    expected_utility       EUM: the mean over weightings w of the largest w . point of the front
    expected_risk_utility  the mean over weightings w of the risk of the returns that were realised for w
    sparsity               the mean squared distance of neighbouring points of the front, as in PGMORL (Xu et al., 2020)

The hypervolume of n points is computed by recursive exclusion (While, Bradstreet and Barone, 2012). The points are
sorted by the last objective, ascending. Point i adds the part of its box that no later point dominates. All later
points are at least as large in the last objective, so this part is a box in d - 1 objectives less a hypervolume in
d - 1 objectives, times the height of point i in the last objective.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.risk import Risk

Bools = npt.NDArray[np.bool_]


def is_dominated(points: npt.ArrayLike) -> Bools:
    """Return whether each point is dominated by another point. Equal points do not dominate each other.

    Args:
        points: Points (n, d).

    Returns:
        True for each dominated point (n,).
    """
    given = _points(points)
    at_least = np.ones((len(given), len(given)), bool)  # [i, j]: point j is at least as large as point i
    for values in given.T:  # one objective at a time, because (n, n, d) numbers are many
        at_least &= values[None, :] >= values[:, None]
    return np.asarray((at_least & ~at_least.T).any(axis=1))


def non_dominated(points: npt.ArrayLike) -> Floats:
    """Return the points that no other point dominates, each once, in ascending order of the first objective.

    Args:
        points: Points (n, d).

    Returns:
        The non-dominated points (m, d).
    """
    given = _points(points)
    return np.unique(given[~is_dominated(given)], axis=0)


def hypervolume(points: npt.ArrayLike, reference: npt.ArrayLike) -> float:
    """Return the hypervolume of a front, exactly.

    Args:
        points: Points (n, d). A point that is not larger than the reference in all objectives adds nothing.
        reference: The reference point (d,). It is the same for all fronts that are compared.

    Returns:
        The hypervolume; 0 without points.

    Raises:
        ValueError: The shapes do not fit, or a number is not finite.
    """
    given, lowest = _points(points), np.asarray(reference, np.float64)
    if lowest.shape != given.shape[1:]:
        raise ValueError(f"reference must have shape {given.shape[1:]}, as each point has, got {lowest.shape}")
    if not np.isfinite(lowest).all():
        raise ValueError(f"reference must be finite, got {lowest.tolist()}")
    above = given - lowest
    return _volume(non_dominated(above[(above > 0).all(axis=1)]))


def expected_utility(points: npt.ArrayLike, weightings: npt.ArrayLike) -> float:
    """Return the expected utility of a front (EUM), for a user who selects the best policy for each weighting.

    Args:
        points: Points (n, d), at least one.
        weightings: Weightings (m, d).

    Returns:
        The mean over weightings w of the largest w . point.
    """
    given = _points(points)
    if not len(given):
        raise ValueError("points must not be empty")
    return float((_weightings(weightings, given.shape[1]) @ given.T).max(axis=1).mean())


def expected_risk_utility(returns: npt.ArrayLike, weightings: npt.ArrayLike, risk: Risk) -> float:
    """Return the mean over weightings of the risk of the returns that were realised for each weighting.

    With `CVaR(0.1)`, this is the mean over weightings of the mean of the worst tenth of the episodes.

    Args:
        returns: Vector returns (m, n, d) of n episodes for each of m weightings.
        weightings: Weightings (m, d).
        risk: The risk measure. With `MeanVariance(0)`, the result is the mean of w . return.

    Returns:
        The mean over weightings w of the risk of w . return.
    """
    realised = np.asarray(returns, np.float64)
    if realised.ndim != 3 or not realised.size:
        raise ValueError(f"returns must have shape (weightings, episodes, objectives), got {realised.shape}")
    given = _weightings(weightings, realised.shape[2])
    if len(given) != len(realised):
        raise ValueError(f"returns must have a row for each of {len(given)} weightings, got {len(realised)} rows")
    return float(np.asarray(risk.samples(np.einsum("mnd,md->mn", realised, given))).mean())


def sparsity(points: npt.ArrayLike) -> float:
    """Return the sparsity of a front, as in PGMORL: the mean squared distance of neighbours, summed over objectives.

    A small sparsity means a dense front. A front of one point has sparsity 0, although it is not dense, so sparsity
    is read beside hypervolume.

    Args:
        points: Points (n, d). Dominated points are left out.

    Returns:
        The sum over objectives of the squared gaps between sorted values, divided by the number of points less 1.
    """
    front = non_dominated(points)
    return float((np.diff(np.sort(front, axis=0), axis=0) ** 2).sum() / max(len(front) - 1, 1))


def simplex(objectives: int, parts: int) -> Floats:
    """Return all weightings whose entries are multiples of 1 / `parts` and sum to 1.

    Args:
        objectives: Number d of objectives.
        parts: Number of parts, at least 1.

    Returns:
        Weightings (m, d) in lexicographic order, with m = (parts + d - 1 choose d - 1).
    """
    return np.array(_compositions(objectives, parts), np.float64) / parts


def _compositions(entries: int, total: int) -> list[tuple[int, ...]]:
    if entries == 1:
        return [(total,)]
    return [(first, *rest) for first in range(total + 1) for rest in _compositions(entries - 1, total - first)]


def _volume(front: Floats) -> float:
    """Return the hypervolume of mutually non-dominated points (n, d) above the reference 0."""
    n, d = front.shape
    if n == 0:
        return 0.0
    if d == 1:
        return float(front.max())
    if n == 1:
        return float(front.prod())
    order = front[np.argsort(front[:, -1], kind="stable")]
    if d == 2:  # the first objective descends where the second ascends
        widths = order[:, 0] - np.append(order[1:, 0], 0.0)
        return float(widths @ order[:, 1])
    heights, rest = order[:, -1], order[:, :-1]
    total = 0.0
    for i, height in enumerate(heights):
        covered = _kept(np.minimum(rest[i + 1 :], rest[i]))
        total += float(height) * (float(rest[i].prod()) - _volume(covered))
    return total


def _kept(points: Floats) -> Floats:
    """Return the non-dominated points, each once."""
    if len(points) < 2:
        return points
    points = points[np.lexsort(points.T[::-1])[::-1]]  # descending, so that only earlier points dominate
    if points.shape[1] == 2:
        best = np.maximum.accumulate(points[:, 1])
        return points[np.append(True, points[1:, 1] > best[:-1])]
    covers = np.ones((len(points), len(points)), bool)
    for values in points.T:
        covers &= values[None, :] >= values[:, None]
    return points[~np.tril(covers, -1).any(axis=1)]


def _points(points: npt.ArrayLike) -> Floats:
    given = np.asarray(points, np.float64)
    if given.ndim != 2 or not given.shape[1]:
        raise ValueError(f"points must have shape (points, objectives), got {given.shape}")
    if not np.isfinite(given).all():
        raise ValueError("points must be finite")
    return given


def _weightings(weightings: npt.ArrayLike, objectives: int) -> Floats:
    given = np.asarray(weightings, np.float64)
    if given.ndim != 2 or given.shape[1] != objectives or not len(given):
        raise ValueError(f"weightings must have shape (weightings, {objectives}), got {given.shape}")
    return given
