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

from rasf.statistics.comparisons import interquartile_mean as interquartile_mean
from rasf.statistics.comparisons import mean_score as mean_score
from rasf.statistics.comparisons import paired_difference as paired_difference
from rasf.statistics.comparisons import probability_of_improvement as probability_of_improvement
from rasf.statistics.comparisons import stratified_interval as stratified_interval
from rasf.statistics.intervals import Interval as Interval
from rasf.statistics.intervals import event_difference as event_difference
from rasf.statistics.intervals import event_interval as event_interval
from rasf.statistics.intervals import interval_of as interval_of
from rasf.statistics.intervals import joint_interval as joint_interval
from rasf.statistics.intervals import mean_interval as mean_interval
from rasf.statistics.intervals import mean_of_the_worst as mean_of_the_worst
from rasf.statistics.intervals import ratio_interval as ratio_interval
from rasf.statistics.intervals import share_interval as share_interval
from rasf.statistics.intervals import slopes as slopes
from rasf.statistics.intervals import standard_error as standard_error
