"""Verdicts from intervals.

Intervals are 95 % bootstrap intervals over seeds. A claim states a range for a true value, such as above 0. The claim
holds if the whole interval is in the range. It does not hold if the interval and the range do not overlap. Otherwise,
and always with fewer than five seeds, the claim is not decided.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from rasf.statistics import Interval
from rasf_lab.common.results import Reading, Verdict

_FEWEST_SEEDS = 5
AnyReading = TypeVar("AnyReading", bound=Reading)


def holds(condition: bool) -> Verdict:
    """Return the verdict on a condition on exact numbers or counts. Such numbers need no interval."""
    return "holds" if condition else "does not hold"


def side(interval: Interval, above: float = 0.0) -> Verdict:
    """Return the verdict on the claim that the true value is above a number."""
    if interval.low > above:
        return "holds"
    return "does not hold" if interval.high < above else "not decided"


def below(interval: Interval, bound: float) -> Verdict:
    """Return the verdict on the claim that the true value is below a number."""
    return side(Interval(-interval.estimate, -interval.high, -interval.low), -bound)


def within(interval: Interval, low: float, high: float) -> Verdict:
    """Return the verdict on the claim that the true value is between two numbers."""
    if low <= interval.low and interval.high <= high:
        return "holds"
    return "does not hold" if interval.high < low or interval.low > high else "not decided"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on a claim that holds if all its parts hold, from the verdicts on the parts."""
    given = set(verdicts)
    return next((verdict for verdict in ("does not hold", "not decided") if verdict in given), "holds")


def with_enough_seeds(reading: AnyReading) -> AnyReading:
    """Return the reading. With fewer than five seeds, the verdict is changed to "not decided"."""
    return reading if reading.seeds >= _FEWEST_SEEDS else replace(reading, verdict="not decided")
