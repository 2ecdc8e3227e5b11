"""Numbers from few runs and their uncertainty.

Scores are arrays (runs, tasks), x_it the score of run i on task t, higher being better (negate failures); n runs, T
tasks. Every interval covers 95 %.

- `resampling`: where intervals of few runs are cut, and how much is resampled at a time.
- `intervals`: one list of values; bootstrap intervals of means, ratios and any statistic, closed forms, and exact
  intervals of events, which are rare.
- `comparisons`: runs x tasks; interquartile mean, stratified intervals, one algorithm against another.

What is resampled: the runs of each task by themselves (stratified; the tasks are fixed, not a sample). That is right if
the runs of different tasks are independent. Where a run is one seed that goes through all tasks, its scores rise and
fall together and stratified intervals are too narrow; `whole_runs=True` resamples rows. The same holds where column t
is not the same task in every run.
"""

from rasf.statistics.comparisons import (
    interquartile_mean,
    mean_score,
    paired_difference,
    probability_of_improvement,
    stratified_interval,
)
from rasf.statistics.intervals import (
    Interval,
    event_difference,
    event_interval,
    interval_of,
    joint_interval,
    mean_interval,
    mean_of_the_worst,
    ratio_interval,
    share_interval,
    slopes,
    standard_error,
)

__all__ = [
    "Interval",
    "event_difference",
    "event_interval",
    "interquartile_mean",
    "interval_of",
    "joint_interval",
    "mean_interval",
    "mean_of_the_worst",
    "mean_score",
    "paired_difference",
    "probability_of_improvement",
    "ratio_interval",
    "share_interval",
    "slopes",
    "standard_error",
    "stratified_interval",
]
