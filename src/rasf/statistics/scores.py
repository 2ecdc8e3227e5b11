"""What counts as scores (runs, tasks), and the sentences that refuse the rest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats


def finite_scores(name: str, scores: npt.ArrayLike) -> Floats:
    """Scores (.., runs, tasks) as float64, none of the axes empty."""
    try:
        found = np.asarray(scores)
        if found.dtype.kind not in "biuf":
            raise TypeError
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of numbers (runs, tasks), got {type(scores).__name__}.") from None
    if found.ndim < 2 or found.size == 0:
        raise ValueError(f"{name} must have at least one run and one task (runs, tasks), got shape {found.shape}.")
    values = found.astype(np.float64, copy=False)
    bad = ~np.isfinite(values)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"{name} must be finite, got {values[where]} at index {where}.")
    return values


def several_runs(name: str, scores: npt.ArrayLike) -> Floats:
    """Scores (runs, tasks) of at least two runs, which an interval needs."""
    values = finite_scores(name, scores)
    if values.ndim != 2:
        raise ValueError(f"{name} must be an array (runs, tasks), got shape {values.shape}.")
    if len(values) < 2:
        raise ValueError(f"{name} must have at least 2 runs for an interval, got {len(values)}.")
    return values


def same_tasks(ours: npt.ArrayLike, theirs: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Scores of two algorithms on the same tasks, (n, tasks) and (m, tasks)."""
    first, second = several_runs("ours", ours), several_runs("theirs", theirs)
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"theirs must have the tasks of ours, {first.shape[1]}, got {second.shape[1]}.")
    return first, second


def same_runs(ours: npt.ArrayLike, theirs: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Scores of two algorithms in which run i of both shares its seed, (n, tasks) each."""
    first, second = same_tasks(ours, theirs)
    if len(first) != len(second):
        raise ValueError(f"theirs must have the runs of ours to be paired, {len(first)}, got {len(second)}.")
    return first, second
