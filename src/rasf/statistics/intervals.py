"""Intervals for one list of values (n,): by the bootstrap, and in closed form where that takes too long.

Standard error of the mean, as the paper draws: s / sqrt(n) with s^2 = sum_i (x_i - mean)^2 / (n - 1). For scores
(runs, tasks), that of a task is over axis 0 and that of the mean over tasks is of `scores.mean(axis=1)`.

The closed form of a mean is mean +- t standard errors, t Student's quantile (1.96 for many values). With a few hundred
values it agrees with the bootstrap's to some percent; with few values of a skewed distribution it is too narrow, as the
bootstrap's is. Both are a point where all values are equal, which is no interval: n equal values do not say how
probable another value is. Events, such as failures, are rare enough for that to matter. They have other intervals:

    share      k of n trials, by Clopper and Pearson: all p at which k or fewer, and k or more, have a probability of at
               least 2.5 %. Quantiles of beta distributions; 0 of n gives [0, 1 - 0.025^(1/n)]: 0 of 100, [0, 0.036]
    events     the mean number in an episode. At most one in each: the share of episodes with one. Else the smallest
               interval that holds the normal one and s [low, high], the share of episodes with an event times the mean
               number s in those (1 if there are none)
    difference of events, episode by episode: with m the events that are more and l those that are less, each with an
               interval as above, m - l by Newcombe's rule, low = m - l - sqrt((m - m_low)^2 + (l_high - l)^2) and high
               likewise, or the normal interval where that is wider

Clopper and Pearson's is chosen since it covers at least 95 % for every p and n; Wilson's and Jeffreys' are shorter and
cover 95 % on average over p, but less for some rare events.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv, stdtrit

from rasf.arrays import Floats
from rasf.statistics.resampling import COVERED, blocks, tails

_TAIL = (1 - COVERED) / 2


class Interval(NamedTuple):
    """An estimate with its 95 % interval; the ends are nan where none can be told."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        ends = ("-" if math.isnan(end) else f"{end:.3g}" for end in (self.low, self.high))
        return f"{self.estimate:.3g} [{', '.join(ends)}]"

    def holding(self, other: Interval) -> Interval:
        """Return the smallest interval that holds this one and another one, with this one's estimate."""
        return Interval(self.estimate, min(self.low, other.low), max(self.high, other.high))

    def minus(self, other: Interval) -> Interval:
        """Return the difference of two independent estimates, by Newcombe's rule."""
        estimate = self.estimate - other.estimate
        below = math.hypot(self.estimate - self.low, other.high - other.estimate)
        above = math.hypot(self.high - self.estimate, other.estimate - other.low)
        return Interval(estimate, estimate - below, estimate + above)

    @classmethod
    def of(cls, estimate: Floats | float, drawn: list[Floats], n: int) -> Interval:
        """From the statistic of n values and, block by block, of their resamples."""
        low, high = np.quantile(np.concatenate(drawn), tails(n))
        return cls(float(estimate), float(low), float(high))


def standard_error(values: Floats, axis: int = 0) -> Floats:
    """Of the mean over `axis`; zeros for a single value."""
    n = values.shape[axis]
    return values.std(axis=axis, ddof=1) / np.sqrt(n) if n > 1 else np.zeros_like(values.mean(axis=axis))


def mean_interval(values: Floats, seed: int = 0) -> Interval:
    """Bootstrap interval of the mean of values (n,)."""
    return interval_of(values, lambda drawn: drawn.mean(axis=-1), seed)


def interval_of(values: Floats, statistic: Callable[[Floats], Floats], seed: int = 0) -> Interval:
    """Bootstrap interval of a statistic of values (n,); it takes values (.., n) and gives (..)."""
    return joint_interval(statistic, values, seed=seed)


def ratio_interval(numerator: Floats, denominator: Floats, seed: int = 0) -> Interval:
    """Bootstrap interval of the ratio of means of paired values (n,)."""
    return joint_interval(
        lambda top, bottom: top.mean(axis=-1) / bottom.mean(axis=-1), numerator, denominator, seed=seed
    )


def joint_interval(statistic: Callable[..., Floats], *values: Floats, seed: int = 0) -> Interval:
    """Bootstrap interval of a statistic of lists (n,) whose entries belong together; it takes (.., n) of each."""
    n, generator, drawn = len(values[0]), np.random.default_rng(seed), []
    for block in blocks(n):
        chosen = generator.integers(n, size=(block, n))
        drawn.append(statistic(*(part[chosen] for part in values)))
    return Interval.of(statistic(*values), drawn, n)


def mean_of_the_worst(values: Floats, share: float) -> Floats:
    """CVaR (..) of values (.., n), as `CVaR.samples` has it, but in a tenth of its time; the last may count in part."""
    n = values.shape[-1]
    part = np.clip(share * n - np.arange(n), 0.0, 1.0)
    return np.asarray(np.sort(values, axis=-1) @ (part / part.sum()))


def slopes(values: Floats) -> Floats:
    """Least-squares slope of each row (n, T) against 0 .. T - 1."""
    time: Floats = np.arange(values.shape[1]) - (values.shape[1] - 1) / 2
    return np.asarray(values @ time / (time @ time))


def normal_mean(values: Floats) -> Interval:
    """The mean of values (n,) in closed form; that of one value is a point."""
    n = len(values)
    return around(float(values.mean()), float(values.var(ddof=1)) / n if n > 1 else 0.0, n)


def share_interval(events: float, trials: float) -> Interval:
    """Return the share of trials with an event, with Clopper and Pearson's interval, which is exact at 0 and 1 too.

    Args:
        events: number of trials with an event, from 0 to `trials`; a mean of several counts need not be whole.
        trials: number of independent trials, above 0.

    Returns:
        The share with an interval that covers it in at least 95 % of samples.

    Raises:
        ValueError: if `events` is not within 0 and `trials`.
    """
    if not 0 <= events <= trials or trials <= 0:
        raise ValueError(f"events must lie between 0 and the {trials} trials, got {events}")
    low = 0.0 if events == 0 else float(betaincinv(events, trials - events + 1, _TAIL))
    high = 1.0 if events == trials else float(betaincinv(events + 1, trials - events, 1 - _TAIL))
    return Interval(events / trials, low, high)


def event_interval(counts: Floats, size: float = 1.0) -> Interval:
    """Return the mean number of events in an episode, with an interval that is not a point where there are none.

    Args:
        counts: events (n,) of each episode, or sums of what they count.
        size: what an event counts, where no episode has one; nan if that is not known, and the ends are nan then.

    Returns:
        The mean with its interval; see the module's header.
    """
    some = counts[counts != 0]
    share, each = share_interval(len(some), len(counts)), float(some.mean()) if len(some) else size
    low, high = sorted((share.low * each, share.high * each))
    found = Interval(float(counts.mean()), low, high)
    if len(some) == 0 or (some == some[0]).all():
        return found
    around = normal_mean(counts)
    of_one_sign = found.holding(around)
    if (some > 0).all():
        return Interval(found.estimate, max(of_one_sign.low, 0.0), of_one_sign.high)
    if (some < 0).all():
        return Interval(found.estimate, of_one_sign.low, min(of_one_sign.high, 0.0))
    return around


def event_difference(ours: Floats, theirs: Floats) -> Interval:
    """Return the mean of ours - theirs, events (n,) of the same episodes, with its interval.

    Args:
        ours: events (n,) of each episode.
        theirs: events (n,) of the same episodes, acted in otherwise.

    Returns:
        The mean difference with its interval; see the module's header.
    """
    difference = ours - theirs
    more, less = (event_interval(np.maximum(sign * difference, 0.0)) for sign in (1.0, -1.0))
    return normal_mean(difference).holding(more.minus(less))


def around(estimate: float, squared_error: float, n: int) -> Interval:
    """Return estimate +- t standard errors of n values; `squared_error` is that of the estimate, squared."""
    half = float(stdtrit(max(n - 1, 1), 1 - _TAIL)) * math.sqrt(squared_error)
    return Interval(estimate, estimate - half, estimate + half)
