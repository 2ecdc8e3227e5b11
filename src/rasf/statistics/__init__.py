"""Statistics of few runs, with intervals.

Scores are arrays (runs, tasks): x_it is the score of run i on task t, and higher is better, so failures are negated.
There are n runs and T tasks. Every interval is a 95 % confidence interval.

- `resampling`: the quantiles of resamples at which intervals end, and the blocks in which resamples are drawn.
- `intervals` is for one list of values. It has bootstrap intervals of means, ratios and other statistics, intervals in
  closed form, and exact intervals of rare events.
- `comparisons` is for scores (runs, tasks). It has the interquartile mean, stratified intervals, and comparisons of two
  algorithms.

Resampling is stratified: the runs of each task are resampled separately, and the tasks are fixed, not a sample. This is
correct if the runs of different tasks are independent. If one run (one seed) is trained on all tasks, its scores are
correlated, and stratified intervals are too narrow. `whole_runs=True` then resamples whole rows. This setting is also
needed if column t is not the same task in every run.
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
