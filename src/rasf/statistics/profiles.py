"""Performance profiles: the share of runs above a threshold, for every threshold.

    F(tau) = 1/(n T) sum_it [x_it > tau],

from 1 below all scores to 0 at the highest, never rising; the area under it right of the lowest score is the mean's
distance from that score. An algorithm whose profile is nowhere below another's is at least as good in mean and in every
quantile.

The band is pointwise: at each threshold alone, the stratified bootstrap interval of F(tau). All of F lies in it less
often than 95 %.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.statistics.bootstrap import AT_ONCE, RESAMPLES, blocks, drawn_runs, resampled, tails
from rasf.statistics.scores import several_runs


class Profile(NamedTuple):
    """The share of runs above each threshold with its 95 % interval; all (thresholds,)."""

    thresholds: Floats
    share: Floats
    low: Floats
    high: Floats


def performance_profile(
    scores: npt.ArrayLike, thresholds: npt.ArrayLike, *, seed: int = 0, whole_runs: bool = False
) -> Profile:
    """Profile of scores (runs, tasks) at thresholds (k,), in the order given."""
    values = several_runs("scores", scores)
    taus = _checked(thresholds)
    levels, place = np.unique(taus, return_inverse=True)
    share = (values.size - np.searchsorted(np.sort(values, axis=None), levels, side="right")) / values.size
    # the band's quantiles need all resamples at once, so many thresholds are done some at a time
    parts = np.array_split(levels, -(-levels.size * RESAMPLES // (8 * AT_ONCE)))
    low, high = np.concatenate([_band(values, part, seed, whole_runs) for part in parts], axis=1)
    return Profile(taus, share[place], low[place], high[place])


def _checked(thresholds: npt.ArrayLike) -> Floats:
    try:
        taus = np.array(thresholds, np.float64)
    except (TypeError, ValueError):
        taus = np.empty(0)
    if taus.ndim != 1 or taus.size == 0 or np.isnan(taus).any():
        raise ValueError(f"thresholds must be a list (k,) of at least one number, without nan, got {thresholds!r}.")
    return taus


def _band(scores: Floats, levels: Floats, seed: int, whole_runs: bool) -> Floats:
    """Low and high (2, k) at ascending levels (k,)."""
    generator = np.random.default_rng(seed)
    exceeded = np.searchsorted(levels, scores, side="left")  # how many of the levels each score is above
    bins = levels.size + 1
    shares = []
    for block in blocks(scores.size + bins):
        drawn = resampled(exceeded, drawn_runs(generator, block, scores.shape, whole_runs))
        cells = drawn + bins * np.arange(block)[:, None, None]
        counts = np.bincount(cells.ravel(), minlength=block * bins).reshape(block, bins)
        shares.append(counts[:, :0:-1].cumsum(axis=1)[:, ::-1] / scores.size)
    return np.quantile(np.concatenate(shares), tails(len(scores)), axis=0)
