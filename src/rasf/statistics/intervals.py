"""Intervals for one list of values (n,): by the bootstrap, and in closed form where the bootstrap takes too long.

The standard error of the mean, as in the paper's figures, is s / sqrt(n) with s^2 = sum_i (x_i - mean)^2 / (n - 1). For
scores (runs, tasks), the standard error of each task's mean is taken over axis 0. The standard error of the mean over
tasks is the standard error of the n values `scores.mean(axis=1)`.

The closed form of the interval of a mean is mean +- t standard errors, where t is Student's quantile (1.96 for many
values). With a few hundred values the closed form agrees with the bootstrap to a few percent. With few values of a
skewed distribution, both intervals are too narrow. If all values are equal, both intervals are a point, although new
data could have other values. This matters for rare events, such as failures, so events have other intervals:

    share       The share of n trials with an event, if k trials have one. Clopper and Pearson's interval contains all
                probabilities p of an event at which "k or fewer" and "k or more" events have a probability of at least
                2.5 % each. The ends are quantiles of beta distributions. For k = 0 the interval is
                [0, 1 - 0.025^(1/n)], which is [0, 0.036] for n = 100.
    events      The mean number of events in an episode. Let [low, high] be the interval of the share of episodes with
                events, and c the mean number of events in these episodes (1 if there are no such episodes). If all
                these episodes have the same number of events, the interval is c [low, high]. Otherwise it is the
                smallest interval that contains c [low, high] and the closed form. A feature that counts events may
                have both signs; then the interval is the closed form.
    difference  The mean difference of the numbers of events of two policies in the same episodes. Let m be the mean
                of max(difference, 0) and l the mean of max(-difference, 0), with intervals as for events.
                By Newcombe's rule, the interval of m - l is from m - l - sqrt((m - m_low)^2 + (l_high - l)^2) to
                m - l + sqrt((m_high - m)^2 + (l - l_low)^2). It is extended to contain the closed form for m - l.

Clopper and Pearson's interval covers at least 95 % for every p and n. Wilson's and Jeffreys' intervals are shorter, but
cover 95 % only on average over p, and less for some rare events.
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
    """An estimate with its 95 % interval.

    Attributes:
        estimate: The estimate.
        low: The lower end; nan if unknown.
        high: The upper end; nan if unknown.
    """

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        ends = ("-" if math.isnan(end) else f"{end:.3g}" for end in (self.low, self.high))
        return f"{self.estimate:.3g} [{', '.join(ends)}]"

    def holding(self, other: Interval) -> Interval:
        """Return the smallest interval that contains this interval and another, with the estimate of this interval.

        Args:
            other: The other interval.
        """
        return Interval(self.estimate, min(self.low, other.low), max(self.high, other.high))

    def minus(self, other: Interval) -> Interval:
        """Return this estimate minus an independent one, with the interval of the difference by Newcombe's rule.

        Args:
            other: The estimate to subtract, with its interval.
        """
        estimate = self.estimate - other.estimate
        below = math.hypot(self.estimate - self.low, other.high - other.estimate)
        above = math.hypot(self.high - self.estimate, other.estimate - other.low)
        return Interval(estimate, estimate - below, estimate + above)

    @classmethod
    def of(cls, estimate: Floats | float, drawn: list[Floats], n: int) -> Interval:
        """Return the interval of a statistic, given the statistic's values for the resamples.

        Args:
            estimate: The statistic of the data.
            drawn: The statistics of all resamples, as a list of arrays.
            n: The size of the sample, which determines the quantiles (`rasf.statistics.resampling`).
        """
        low, high = np.quantile(np.concatenate(drawn), tails(n))
        return cls(float(estimate), float(low), float(high))


def standard_error(values: Floats, axis: int = 0) -> Floats:
    """Return the standard error of the mean. For a single value, return 0.

    Args:
        values: Values of any shape.
        axis: The axis of the mean. Default: 0.
    """
    n = values.shape[axis]
    return values.std(axis=axis, ddof=1) / np.sqrt(n) if n > 1 else np.zeros_like(values.mean(axis=axis))


def mean_interval(values: Floats, seed: int = 0) -> Interval:
    """Return the bootstrap interval of a mean.

    Args:
        values: Values (n,).
        seed: The seed of the resamples. Default: 0.
    """
    return interval_of(values, lambda drawn: drawn.mean(axis=-1), seed)


def interval_of(values: Floats, statistic: Callable[[Floats], Floats], seed: int = 0) -> Interval:
    """Return the bootstrap interval of a statistic.

    Args:
        values: Values (n,).
        statistic: A function from values (.., n) to statistics (..).
        seed: The seed of the resamples. Default: 0.
    """
    return joint_interval(statistic, values, seed=seed)


def ratio_interval(numerator: Floats, denominator: Floats, seed: int = 0) -> Interval:
    """Return the bootstrap interval of a ratio of means of paired values.

    Args:
        numerator: Values (n,).
        denominator: Values (n,), paired with the values of the numerator.
        seed: The seed of the resamples. Default: 0.
    """
    return joint_interval(
        lambda top, bottom: top.mean(axis=-1) / bottom.mean(axis=-1), numerator, denominator, seed=seed
    )


def joint_interval(statistic: Callable[..., Floats], *values: Floats, seed: int = 0) -> Interval:
    """Return the bootstrap interval of a statistic of several lists whose entries are paired.

    Args:
        statistic: A function from one array (.., n) for each list to statistics (..).
        *values: Lists of values (n,). Entries of the same index are resampled together.
        seed: The seed of the resamples. Default: 0.
    """
    n, generator, drawn = len(values[0]), np.random.default_rng(seed), []
    for block in blocks(n):
        chosen = generator.integers(n, size=(block, n))
        drawn.append(statistic(*(part[chosen] for part in values)))
    return Interval.of(statistic(*values), drawn, n)


def mean_of_the_worst(values: Floats, share: float) -> Floats:
    """Return the mean of the smallest values, a given share of all, as `CVaR.samples` does, but ten times faster.

    Args:
        values: Values (.., n).
        share: The share, above 0 and at most 1. If share * n is not a whole number, one value has a smaller weight.

    Returns:
        The means (..).
    """
    n = values.shape[-1]
    part = np.clip(share * n - np.arange(n), 0.0, 1.0)
    return np.asarray(np.sort(values, axis=-1) @ (part / part.sum()))


def slopes(values: Floats) -> Floats:
    """Return the least-squares slope of each row against 0 .. T - 1.

    Args:
        values: Rows (n, T).

    Returns:
        The slopes (n,).
    """
    time: Floats = np.arange(values.shape[1]) - (values.shape[1] - 1) / 2
    return np.asarray(values @ time / (time @ time))


def normal_mean(values: Floats) -> Interval:
    """Return the mean of values (n,) with its interval in closed form. For one value the interval is a point."""
    n = len(values)
    return around(float(values.mean()), float(values.var(ddof=1)) / n if n > 1 else 0.0, n)


def share_interval(events: float, trials: float) -> Interval:
    """Return the share of trials with an event, with Clopper and Pearson's interval. The share may be 0 or 1.

    Args:
        events: The number of trials with an event, from 0 to `trials`. A fraction is allowed, such as a mean of counts.
        trials: The number of independent trials, above 0.

    Returns:
        The share, with an interval that covers the true probability in at least 95 % of samples.

    Raises:
        ValueError: `events` is not between 0 and `trials`, or `trials` is not above 0.
    """
    if not 0 <= events <= trials or trials <= 0:
        raise ValueError(f"events must lie between 0 and the {trials} trials, got {events}")
    low = 0.0 if events == 0 else float(betaincinv(events, trials - events + 1, _TAIL))
    high = 1.0 if events == trials else float(betaincinv(events + 1, trials - events, 1 - _TAIL))
    return Interval(events / trials, low, high)


def event_interval(counts: Floats, size: float = 1.0) -> Interval:
    """Return the mean number of events in an episode, with an interval that is not a point if there are no events.

    Args:
        counts: Numbers of events (n,), one for each episode, or sums of a feature that counts events.
        size: The amount that one event adds to a count, used only if no episode has an event. Give nan if this amount
            is unknown; without events, the ends of the interval are then nan. Default: 1.

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
    """Return the mean difference of the numbers of events that two policies have in the same episodes.

    Args:
        ours: Numbers of events (n,), one for each episode.
        theirs: Numbers of events (n,) of the other policy in the same episodes.

    Returns:
        The mean of ours - theirs with its interval; see the module's header.
    """
    difference = ours - theirs
    more, less = (event_interval(np.maximum(sign * difference, 0.0)) for sign in (1.0, -1.0))
    return normal_mean(difference).holding(more.minus(less))


def around(estimate: float, squared_error: float, n: int) -> Interval:
    """Return `estimate` with the interval of +- t standard errors for n values, given the squared standard error."""
    half = float(stdtrit(max(n - 1, 1), 1 - _TAIL)) * math.sqrt(squared_error)
    return Interval(estimate, estimate - half, estimate + half)
