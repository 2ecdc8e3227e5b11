"""One algorithm's scores x (n, T) against another's y (m, T) on the same tasks.

Difference: S(x) - S(y) for a statistic S. Probability of improvement: that a run of ours beats a run of theirs on a
task, mean over tasks, ties counting half:

    P = 1/T sum_t P_t,    P_t = 1/(n m) sum_ij [x_it > y_jt] + [x_it = y_jt] / 2,

where n m P_t is the statistic U of Mann and Whitney. It says how often, not how much; 1/2 is no improvement.

Unpaired: the runs of the two are resampled independently. Paired, where run i of both shares its seed (and with it
tasks and noise): n = m, pairs are resampled, and P_t = 1/n sum_i [x_it > y_it] + [x_it = y_it] / 2. What the pairs
share cancels in the difference: the interval of a mean is that of the differences x_it - y_it. Note that the
interquartile mean of the differences, `stratified_interval(x - y)`, is not the difference of interquartile means.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.statistics.aggregates import Statistic, mean_score, statistic_of, stratified_interval
from rasf.statistics.bootstrap import blocks, drawn_runs, resampled, times_drawn
from rasf.statistics.intervals import Interval
from rasf.statistics.scores import same_runs, same_tasks


def paired_difference(
    ours: npt.ArrayLike,
    theirs: npt.ArrayLike,
    statistic: Statistic = mean_score,
    *,
    seed: int = 0,
    whole_runs: bool = False,
) -> Interval:
    """Interval of statistic(ours) - statistic(theirs), run i of both (runs, tasks) sharing its seed."""
    first, second = same_runs(ours, theirs)
    estimate, generator = _difference(statistic, first, second), np.random.default_rng(seed)
    drawn = []
    for block in blocks(2 * first.size):
        pairs = drawn_runs(generator, block, first.shape, whole_runs)
        drawn.append(_difference(statistic, resampled(first, pairs), resampled(second, pairs)))
    return Interval.of(estimate, drawn, len(first))


def unpaired_difference(
    ours: npt.ArrayLike,
    theirs: npt.ArrayLike,
    statistic: Statistic = mean_score,
    *,
    seed: int = 0,
    whole_runs: bool = False,
) -> Interval:
    """Interval of statistic(ours) - statistic(theirs), of runs (n, tasks) and (m, tasks) that share no seeds."""
    first, second = same_tasks(ours, theirs)
    estimate, generators = _difference(statistic, first, second), np.random.default_rng(seed).spawn(2)
    drawn = []
    for block in blocks(first.size + second.size):
        mine, other = (
            resampled(scores, drawn_runs(generator, block, scores.shape, whole_runs))
            for scores, generator in zip((first, second), generators, strict=True)
        )
        drawn.append(_difference(statistic, mine, other))
    return Interval.of(estimate, drawn, min(len(first), len(second)))


def probability_of_improvement(
    ours: npt.ArrayLike, theirs: npt.ArrayLike, *, paired: bool = False, seed: int = 0, whole_runs: bool = False
) -> Interval:
    """Probability that a run of ours (n, tasks) beats one of theirs (m, tasks); paired, the one of the same seed."""
    if paired:
        return stratified_interval(_wins(*same_runs(ours, theirs)), mean_score, seed=seed, whole_runs=whole_runs)
    first, second = same_tasks(ours, theirs)
    wins = _wins(first.T[:, :, None], second.T[:, None, :])  # (tasks, n, m)
    generators = np.random.default_rng(seed).spawn(2)
    drawn = []
    for block in blocks(2 * (first.size + second.size)):
        mine, other = (
            times_drawn(drawn_runs(generator, block, scores.shape, whole_runs), len(scores))
            for scores, generator in zip((first, second), generators, strict=True)
        )
        # sums of halves: exact, whatever the order in which they are added
        drawn.append(((mine @ wins) * other).sum(axis=(0, 2)) / wins.size)
    return Interval.of(wins.mean(), drawn, min(len(first), len(second)))


def _difference(statistic: Statistic, ours: Floats, theirs: Floats) -> Floats:
    return statistic_of(statistic, ours) - statistic_of(statistic, theirs)


def _wins(ours: Floats, theirs: Floats) -> Floats:
    """1 where ours is more, 1/2 where they are equal, 0 where it is less."""
    twice: Ints = np.add(ours > theirs, ours >= theirs, dtype=np.int64)
    return twice / 2
