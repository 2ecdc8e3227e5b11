"""Statistics of scores (runs, tasks), their intervals, and comparisons of two algorithms.

Score x_it is the score of run i = 1..n on task t = 1..T. The mean is sum_it x_it / (n T). The interquartile mean (IQM)
is the mean of the scores without the floor(N / 4) smallest and the floor(N / 4) largest of all N = n T scores. The IQM
is robust like a median, and less noisy with few runs. If N is not a multiple of 4, slightly more than half of the
scores count (all scores if N < 4), and duplicating every score can change the IQM slightly. This is the definition of
scipy.stats.trim_mean(scores, 0.25, axis=None) and of published tables of IQMs, so our IQMs can be compared with theirs.

Stratified interval: in each resample, n runs of every task are drawn with replacement from the n runs of that task.

Two algorithms are compared on the same T tasks: ours with scores x (n runs), theirs with scores y (m runs). The
difference is S(x) - S(y) for a statistic S. The probability of improvement P is the probability that a run of ours has
a higher score than a run of theirs on the same task, averaged over tasks, where ties count half:

    P = 1/T sum_t P_t,    P_t = 1/(n m) sum_ij [x_it > y_jt] + [x_it = y_jt] / 2,

where [A] is 1 if A is true, else 0. n m P_t is the statistic U of Mann and Whitney. P measures how often our runs are
better, not by how much. P = 1/2 means no improvement.

If runs are unpaired, the runs of the two algorithms are resampled independently. If runs are paired, run i of both
algorithms has the same seed (and so the same tasks and noise). Then n = m, pairs are resampled, and
P_t = 1/n sum_i [x_it > y_it] + [x_it = y_it] / 2. Variation that the two runs of a pair share cancels: the interval of
a difference of means is the interval of the mean of x_it - y_it. The interquartile mean of the differences,
`stratified_interval(x - y)`, is not the difference of interquartile means.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.statistics.intervals import Interval
from rasf.statistics.resampling import blocks

Statistic = Callable[[Floats], Floats]


def mean_score(scores: npt.ArrayLike) -> Floats:
    """Return the mean over runs and tasks.

    Args:
        scores: Scores (.., runs, tasks).
    """
    return np.asarray(_finite("scores", scores).mean(axis=(-2, -1)))


def interquartile_mean(scores: npt.ArrayLike) -> Floats:
    """Return the mean of the middle half of all scores.

    Args:
        scores: Scores (.., runs, tasks).
    """
    values = _finite("scores", scores)
    ordered = np.sort(values.reshape(*values.shape[:-2], -1), axis=-1)
    left_out = ordered.shape[-1] // 4
    return np.asarray(ordered[..., left_out : ordered.shape[-1] - left_out].mean(axis=-1))


def stratified_interval(
    scores: npt.ArrayLike, statistic: Statistic = interquartile_mean, *, seed: int = 0, whole_runs: bool = False
) -> Interval:
    """Return the stratified bootstrap interval of a statistic.

    Args:
        scores: Scores (runs, tasks).
        statistic: A function from scores (.., runs, tasks) to statistics (..). Default: the interquartile mean.
        seed: The seed of the resamples. Default: 0.
        whole_runs: Whether whole rows are resampled; see `rasf.statistics`. Default: False.
    """
    return _interval(lambda drawn: _of(statistic, drawn), (_several("scores", scores),), seed, whole_runs)


def paired_difference(
    ours: npt.ArrayLike,
    theirs: npt.ArrayLike,
    statistic: Statistic = mean_score,
    *,
    seed: int = 0,
    whole_runs: bool = False,
) -> Interval:
    """Return the interval of statistic(ours) - statistic(theirs) for paired runs.

    Args:
        ours: Scores (runs, tasks).
        theirs: Scores (runs, tasks) of the other algorithm. Run i of both algorithms has the same seed.
        statistic: A function from scores (.., runs, tasks) to statistics (..). Default: the mean.
        seed: The seed of the resamples. Default: 0.
        whole_runs: Whether whole rows are resampled; see `rasf.statistics`. Default: False.
    """
    scores = _same_tasks(ours, theirs, paired=True)
    return _interval(lambda x, y: _of(statistic, x) - _of(statistic, y), scores, seed, whole_runs)


def probability_of_improvement(
    ours: npt.ArrayLike, theirs: npt.ArrayLike, *, paired: bool = False, seed: int = 0, whole_runs: bool = False
) -> Interval:
    """Return the probability that a run of ours has a higher score than a run of theirs, with its interval.

    Args:
        ours: Scores (n, tasks).
        theirs: Scores (m, tasks) of the other algorithm.
        paired: Whether only runs of the same index, and so of the same seed, are compared. Default: False.
        seed: The seed of the resamples. Default: 0.
        whole_runs: Whether whole rows are resampled; see `rasf.statistics`. Default: False.
    """
    first, second = _same_tasks(ours, theirs, paired)
    if paired:
        return stratified_interval(_wins(first, second), mean_score, seed=seed, whole_runs=whole_runs)
    wins = _wins(first.T[:, :, None], second.T[:, None, :])  # (tasks, n, m)
    generators = np.random.default_rng(seed).spawn(2)
    drawn = []
    for block in blocks(2 * (first.size + second.size)):
        mine, other = (
            _times_drawn(_drawn_runs(generator, block, scores.shape, whole_runs), len(scores))
            for scores, generator in zip((first, second), generators, strict=True)
        )
        # all terms are multiples of 1/2, so the sums have no rounding errors
        drawn.append(((mine @ wins) * other).sum(axis=(0, 2)) / wins.size)
    return Interval.of(wins.mean(), drawn, min(len(first), len(second)))


def _interval(statistic: Callable[..., Floats], scores: tuple[Floats, ...], seed: int, whole_runs: bool) -> Interval:
    """Return the interval of a statistic of several arrays of scores (runs, tasks) that are resampled together."""
    generator, columns, drawn = np.random.default_rng(seed), np.arange(scores[0].shape[1]), []
    for block in blocks(sum(part.size for part in scores)):
        runs = _drawn_runs(generator, block, scores[0].shape, whole_runs)
        drawn.append(statistic(*(part[runs, columns] for part in scores)))
    return Interval.of(statistic(*scores), drawn, len(scores[0]))


def _drawn_runs(generator: np.random.Generator, block: int, shape: tuple[int, int], whole_runs: bool) -> Ints:
    """Return the indices of the runs drawn in `block` resamples: (block, runs, tasks), or (.., 1) for whole runs."""
    runs, tasks = shape
    return generator.integers(runs, size=(block, runs, 1 if whole_runs else tasks))


def _times_drawn(drawn: Ints, runs: int) -> Floats:
    """Return the number of times that each run was drawn, (tasks, block, runs), from indices (block, runs, tasks)."""
    block, _, tasks = drawn.shape
    cells = (np.arange(tasks) * block + np.arange(block)[:, None, None]) * runs + drawn
    return np.bincount(cells.ravel(), minlength=tasks * block * runs).reshape(tasks, block, runs).astype(np.float64)


def _wins(ours: Floats, theirs: Floats) -> Floats:
    """Return 1 where our score is larger than theirs, 1/2 where the scores are equal, else 0."""
    twice: Ints = np.add(ours > theirs, ours >= theirs, dtype=np.int64)
    return twice / 2


def _of(statistic: Statistic, scores: Floats) -> Floats:
    """Return the statistic of scores. Raise an error if the result is not one number per matrix (runs, tasks)."""
    found = np.asarray(statistic(scores), np.float64)
    if found.shape != scores.shape[:-2]:
        raise ValueError(
            f"statistic must turn scores (.., runs, tasks) into numbers (..), got {found.shape} for {scores.shape}."
        )
    return found


def _finite(name: str, scores: npt.ArrayLike) -> Floats:
    """Return scores (.., runs, tasks) as float64. Raise an error if scores are empty or not finite numbers."""
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


def _several(name: str, scores: npt.ArrayLike) -> Floats:
    """Return scores (runs, tasks). Raise an error if there are fewer than the two runs that an interval needs."""
    values = _finite(name, scores)
    if values.ndim != 2:
        raise ValueError(f"{name} must be an array (runs, tasks), got shape {values.shape}.")
    if len(values) < 2:
        raise ValueError(f"{name} must have at least 2 runs for an interval, got {len(values)}.")
    return values


def _same_tasks(ours: npt.ArrayLike, theirs: npt.ArrayLike, paired: bool) -> tuple[Floats, Floats]:
    """Return scores (n, tasks) and (m, tasks). Raise an error if the numbers of tasks, or of paired runs, differ."""
    first, second = _several("ours", ours), _several("theirs", theirs)
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"theirs must have {first.shape[1]} tasks, as many as ours, got {second.shape[1]}.")
    if paired and len(first) != len(second):
        raise ValueError(f"theirs must have {len(first)} runs, as many as ours, to be paired, got {len(second)}.")
    return first, second
