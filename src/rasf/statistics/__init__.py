"""Numbers from few runs and their uncertainty.

Scores are arrays (runs, tasks), x_it the score of run i on task t, higher being better (negate failures); n runs, T
tasks. Every interval is a 95 % bootstrap interval: the statistic of 10,000 resamples, cut where few runs need it (see
`bootstrap`; 2.5 and 97.5 % for many runs).

- `intervals`: one list of values; mean and standard error as the paper draws, ratios of means, slopes.
- `aggregates`: one number for runs x tasks: mean, interquartile mean, and the stratified interval of either.
- `comparison`: one algorithm against another: differences and the probability of improvement, paired or not.
- `profiles`: the share of runs above every threshold, with bands.

What is resampled: the runs of each task by themselves (stratified; the tasks are fixed, not a sample). That is right if
the runs of different tasks are independent. Where a run is one seed that goes through all tasks, its scores rise and
fall together and stratified intervals are too narrow; `whole_runs=True` resamples rows. The same holds where column t
is not the same task in every run.
"""

from rasf.statistics.aggregates import interquartile_mean, mean_score, stratified_interval
from rasf.statistics.comparison import paired_difference, probability_of_improvement, unpaired_difference
from rasf.statistics.intervals import (
    Interval,
    interval_of,
    joint_interval,
    mean_interval,
    mean_of_the_worst,
    ratio_interval,
    slopes,
    standard_error,
)
from rasf.statistics.profiles import Profile, performance_profile

__all__ = [
    "Interval",
    "Profile",
    "interquartile_mean",
    "interval_of",
    "joint_interval",
    "mean_interval",
    "mean_of_the_worst",
    "mean_score",
    "paired_difference",
    "performance_profile",
    "probability_of_improvement",
    "ratio_interval",
    "slopes",
    "standard_error",
    "stratified_interval",
    "unpaired_difference",
]
