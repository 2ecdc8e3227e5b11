"""One number for scores (runs, tasks), and its stratified bootstrap interval.

Mean: sum_it x_it / (n T). Interquartile mean (IQM): sort all m = n T scores, leave out the floor(m / 4) smallest and as
many of the largest, and average the others. Robust like a median, and less noisy with few runs.

Convention: where m is not a multiple of 4, whole scores are left out and none is weighted by a fraction, as do
scipy.stats.trim_mean(scores, 0.25, axis=None) and published tables of IQMs, so that numbers compare. The price: a bit
more than half of the scores count, all of them if m < 4, and writing every score down twice can move the IQM slightly.

Stratified interval: in each resample, n runs of every task are drawn with replacement among the n of that task.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.statistics.bootstrap import blocks, drawn_runs, resampled
from rasf.statistics.intervals import Interval
from rasf.statistics.scores import finite_scores, several_runs

Statistic = Callable[[Floats], Floats]


def mean_score(scores: npt.ArrayLike) -> Floats:
    """Mean over runs and tasks of scores (.., runs, tasks)."""
    return np.asarray(finite_scores("scores", scores).mean(axis=(-2, -1)))


def interquartile_mean(scores: npt.ArrayLike) -> Floats:
    """Mean of the middle half of all scores (.., runs, tasks)."""
    values = finite_scores("scores", scores)
    ordered = np.sort(values.reshape(*values.shape[:-2], -1), axis=-1)
    left_out = ordered.shape[-1] // 4
    return np.asarray(ordered[..., left_out : ordered.shape[-1] - left_out].mean(axis=-1))


def stratified_interval(
    scores: npt.ArrayLike, statistic: Statistic = interquartile_mean, *, seed: int = 0, whole_runs: bool = False
) -> Interval:
    """Interval of a statistic of scores (runs, tasks); it takes scores (.., runs, tasks) and gives (..)."""
    values = several_runs("scores", scores)
    estimate, generator = statistic_of(statistic, values), np.random.default_rng(seed)
    drawn = [
        statistic_of(statistic, resampled(values, drawn_runs(generator, block, values.shape, whole_runs)))
        for block in blocks(values.size)
    ]
    return Interval.of(estimate, drawn, len(values))


def statistic_of(statistic: Statistic, scores: Floats) -> Floats:
    """The statistic, refused if it is not one number for each (runs, tasks)."""
    found = np.asarray(statistic(scores), np.float64)
    if found.shape != scores.shape[:-2]:
        raise ValueError(
            f"statistic must turn scores (.., runs, tasks) into numbers (..), turned {scores.shape} into {found.shape}."
        )
    return found
