"""In the place of pycddlib 2.1: the corners of a polyhedron, by trying all sets of active inequalities.

Only the part that morl-baselines' linear support calls. Its polyhedra have a few variables and some tens of
inequalities. Rays are left out, as linear support skips them.
"""

from __future__ import annotations

from itertools import combinations, islice
from typing import Any

import numpy as np

_TOLERANCE = 1e-7
_AT_ONCE = 50_000  # number of linear systems that are solved in one call


class RepType:
    """Names of representations."""

    INEQUALITY = "inequality"


class Matrix:
    """Inequalities b - A x >= 0 as rows (b, -A)."""

    def __init__(self, rows: Any, number_type: str = "float") -> None:
        self.rows, self.rep_type = np.asarray(rows, np.float64), ""


class _Generators(list[tuple[float, ...]]):
    """Corners as rows (1, x)."""

    lin_set = frozenset[int]()


class Polyhedron:
    """The set of x that satisfies all inequalities."""

    def __init__(self, matrix: Matrix) -> None:
        self._b, self._a = matrix.rows[:, 0], -matrix.rows[:, 1:]

    def get_generators(self) -> _Generators:
        """Return the corners, each once."""
        n, found = self._a.shape[1], []
        scale = np.maximum(np.abs(self._a).max(axis=1), 1.0)
        sets = combinations(range(len(self._a)), n)
        while some := list(islice(sets, _AT_ONCE)):
            a, b = self._a[np.array(some)], self._b[np.array(some)]
            regular = np.abs(np.linalg.det(a / scale[np.array(some)][..., None])) > 1e-12
            if regular.any():
                x = np.linalg.solve(a[regular], b[regular][..., None])[..., 0]
                slack = (self._b - x @ self._a.T) / scale
                found.append(x[(slack >= -_TOLERANCE).all(axis=1)])
        corners = np.unique(np.round(np.concatenate(found), 7), axis=0) if found else np.zeros((0, n))
        return _Generators((1, *corner) for corner in corners.tolist())
