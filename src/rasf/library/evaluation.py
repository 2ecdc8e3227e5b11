"""Reports of episodes that a library acted in: measures with intervals.

    return        sum_t r_t, undiscounted, and sum_t gamma^t r_t, discounted, with r_t = phi_t . w
    variance      of these returns over episodes
    CVaR          the mean of the worst tenth of these returns
    failures      steps that the environment, or the caller's rule, marks as failures
    sums          of every feature over an episode, undiscounted

Failures, and features whose sum is 0 in some episodes, have the intervals of `rasf.statistics.event_interval`. These
intervals have a positive width even if no event occurred: [0, 0.036] for 0 failures in 100 episodes. All other
intervals are by the bootstrap. If all returns are equal, bootstrap intervals have width 0, and a remark says so. In a
`Comparison` all risks have the same start states, so differences are computed episode by episode.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rasf.arrays import Bools, Floats, Ints
from rasf.checks import one_of
from rasf.files import Header
from rasf.library.acting.rule import ActingRule, Memory
from rasf.library.ahead.policies import LookingAhead
from rasf.limits import Limits
from rasf.risk import Risk
from rasf.risk.names import is_neutral, risk_to_text
from rasf.statistics import (
    Interval,
    event_difference,
    event_interval,
    interval_of,
    joint_interval,
    mean_interval,
    mean_of_the_worst,
)

if TYPE_CHECKING:
    from rasf.library.calibration.bounds import Bounds

WORST = 0.1  # share of the episodes in CVaR
_FEW = 20  # the returns of fewer episodes are not compared with predictions
_NEAR = 0.25  # tolerated difference between realised and predicted mean, in standard deviations
_ALIKE = 1.25  # tolerated factor between realised and predicted standard deviation
_SURELY = 1.5  # factor by which 95 % intervals are widened, because several features are compared


@dataclass(frozen=True, repr=False, kw_only=True)
class Report:
    """The results of n episodes of one task by one acting rule; arrays have a row for each episode."""

    rule: ActingRule
    memory: Memory  # state of the rule at the end of the episodes
    phi: Floats  # (n, d) sums of the features
    discounted_phi: Floats  # (n, d) discounted sums of the features
    failures: Floats | None  # (n,) numbers of failures; None if the environment does not report failures
    lengths: Ints  # (n,) numbers of steps
    truncated: Bools  # (n,) whether the episode was truncated, so that sums lack the remaining steps
    rest: Floats  # (n,) predicted remaining return of truncated episodes, discounted to the start; 0 for other episodes
    unseen: float  # share of the decisions at observations that no policy has seen
    starts: npt.NDArray[Any]  # (n, ..) first observations, encoded for the policies
    names: tuple[str, ...] = ()  # names of the features
    sizes: Floats | None = None  # (d,) the amount that one event adds to the sum of each feature; nan if unknown
    bounds: Bounds | None = None  # calibrated bounds; None if the library is not calibrated

    @property
    def w(self) -> Floats:
        """The weights (d,) of the task. Returns are computed with these weights."""
        return self.rule.task

    @property
    def acting_w(self) -> Floats | None:
        """The weights (d,) with which actions were chosen, if they differ from the task's weights; else None."""
        return None if self.rule.w is self.w else self.rule.w

    @property
    def risk(self) -> Risk:
        return self.rule.risk

    @property
    def limits(self) -> Limits | None:
        return self.rule.limits

    @property
    def gamma(self) -> float:
        return self.rule.sources.gamma

    @cached_property
    def returns(self) -> Floats:
        """Undiscounted returns (n,)."""
        return self.phi @ self.w

    @cached_property
    def discounted(self) -> Floats:
        """Discounted returns (n,)."""
        return self.discounted_phi @ self.w

    @cached_property
    def measures(self) -> dict[str, Interval]:
        """The measures of the episodes, with intervals, by name."""
        found = {}
        for name, values in (("return", self.returns), ("discounted", self.discounted)):
            found[name] = mean_interval(values)
            # the first return is subtracted so that the variance of equal returns is exactly 0 despite rounding
            found[f"{name}_variance"] = interval_of(values - values[0], lambda drawn: drawn.var(axis=-1, ddof=1))
            found[f"{name}_cvar"] = interval_of(values, partial(mean_of_the_worst, share=WORST))
        if self.truncated.any():
            found["discounted_with_rest"] = mean_interval(self.discounted + self.rest)
        if self.failures is not None:
            found["failures"] = event_interval(self.failures)
        for (name, sums), feature in zip(self.limited().items(), self._limited_features(), strict=True):
            found[name] = _of_sums(sums, self._size(feature))
        found["length"] = mean_interval(self.lengths.astype(np.float64))
        return found

    @cached_property
    def sums(self) -> dict[str, Interval]:
        """The mean sum of every feature over an episode, undiscounted, with its interval, by the feature's name.

        If a sum is 0 in all episodes, its interval depends on the value of one event. This value is known only if the
        environment declares the feature's bounds in one step and one bound is 0. The value is then the other bound. If
        the value is unknown, the ends of the interval are nan.
        """
        return {name: _of_sums(self.phi[:, i], self._size(i)) for i, name in enumerate(self.feature_names)}

    def _size(self, feature: int) -> float:
        return np.nan if self.sizes is None else float(self.sizes[feature])

    def _limited_features(self) -> list[int]:
        return [] if self.limits is None else self.limits.features.tolist()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features; "feature 0" and so on if they have none."""
        return self.names or tuple(f"feature {i}" for i in range(len(self.w)))

    @property
    def episodes(self) -> int:
        return len(self.returns)

    def limited(self) -> dict[str, Floats]:
        """Return the sums (n,) of limited features by name, discounted unless the limit is per episode."""
        if self.limits is None:
            return {}
        named = zip(self.limits.names, self.limits.features, self.limits.given, strict=True)
        return {
            f"{name} {limit.short()}": (self.phi if limit.per_episode else self.discounted_phi)[:, feature]
            for name, feature, limit in named
        }

    @property
    def prices(self) -> dict[str, float]:
        """The mean price of each limit over the episodes."""
        found = self.rule.prices(self.memory)
        return dict(zip(found, np.stack([*found.values()], axis=1).mean(axis=0).tolist(), strict=True)) if found else {}

    @property
    def not_kept(self) -> list[str]:
        """A sentence for each episode whose limits could not be kept."""
        return list(filter(None, self.rule.not_kept(self.memory)))

    def describe(self) -> Header:
        """Return a summary of the report as JSON."""
        optional: Header = {}
        if self.limits is not None:
            optional["limits"] = dict(zip(self.limits.names, map(str, self.limits.given), strict=True))
            optional["prices"] = self.prices
        if self.bounds is not None:
            optional["bounds"] = self.bounds.describe()
        if self.acting_w is not None:
            optional["acting_w"] = self.acting_w.tolist()
        if isinstance(self.rule.sources, LookingAhead):
            optional |= {"ahead": self.rule.sources.ahead, "particles": self.rule.sources.particles}
        return optional | {
            "w": self.w.tolist(),
            "risk": risk_to_text(self.risk),
            "gamma": self.gamma,
            "episodes": self.episodes,
            "truncated": int(self.truncated.sum()),
            "unseen": self.unseen,
            "measures": {name: list(interval) for name, interval in self.measures.items()},
            "sums": {name: list(interval) for name, interval in self.sums.items()},
        }

    @property
    def realised(self) -> Floats:
        """Discounted returns (n,), plus the predicted remaining return if an episode was truncated."""
        return self.discounted + self.rest

    @cached_property
    def misprediction(self) -> str | None:
        """A sentence on how returns differ from predictions at the start states, or None if they agree.

        Returns and predictions agree if their difference is small or may be due to chance. If no episode was truncated,
        the sentence also names the feature whose predicted discounted sum is the most overoptimistic. Returns above the
        prediction are not an error: the prediction assumes that the selected policy acts to the end, and GPI may change
        to a better policy.
        """
        predicted = self.rule.predict(self.starts, features=range(len(self.w)))
        mean, spread = predicted.overall()
        if self.episodes < _FEW or not np.isfinite([mean, spread]).all():
            return None
        returns, said = self.realised, []
        got, wide = mean_interval(returns), interval_of(returns, lambda drawn: drawn.std(axis=-1, ddof=1))
        rounding = 1e-6 * max(1.0, abs(mean))
        scale = max(wide.estimate, rounding)
        differs = not got.low <= mean <= got.high and abs(mean - got.estimate) > _NEAR * scale
        if differs and mean < got.estimate:
            return f"the mean discounted return was better than predicted: {got} instead of {mean:.4g}"
        if differs:
            said.append(f"the mean was {got} instead of the predicted {mean:.4g}")
        alike = max(spread, rounding) / scale
        if not wide.low <= spread <= wide.high and not 1 / _ALIKE < alike < _ALIKE:
            said.append(f"the standard deviation was {wide} instead of the predicted {spread:.3g}")
        said += [] if self.truncated.any() else self._mispredicted_sum(predicted.sums.mean(axis=0))
        if not said:
            return None
        return f"discounted returns differ from predictions ({', '.join(said)}): calibrate, or train for more steps"

    def _mispredicted_sum(self, predicted: Floats) -> list[str]:
        """Return a list with a clause on the feature whose predicted discounted sum is the most overoptimistic.

        The list is empty if no prediction is overoptimistic by more than chance explains. `predicted` (d,) are the
        predicted means of the discounted sums.
        """
        worst, said = _NEAR, list[str]()
        for i, mean in enumerate(predicted.tolist()):
            sums = self.discounted_phi[:, i]
            got, spread = _of_sums(sums, self._size(i)), float(sums.std(ddof=1))
            allowed = _SURELY * (got.high - got.estimate if mean > got.estimate else got.estimate - got.low)
            off = abs(mean - got.estimate)
            favourable = (mean - got.estimate) * self.w[i] > 0
            # if the value of an event is unknown, `allowed` is nan, and the next comparison is False
            if favourable and off > max(allowed, worst * spread) and spread > 0:
                worst = off / spread
                said = [f"the sum of {self.feature_names[i]} was {got} instead of the predicted {mean:.3g}"]
        return said

    def remarks(self) -> list[str]:
        """Return sentences on looking ahead, changed weights, unseen observations, prices, limits, and truncation."""
        found, truncated = [], int(self.truncated.sum())
        if isinstance(self.rule.sources, LookingAhead):
            found.append(str(self.rule.sources))
        if self.acting_w is not None:
            for i in np.flatnonzero(self.acting_w != self.w):
                weights = f"{self.acting_w[i]:g} instead of {self.w[i]:g}"
                found.append(f"actions are chosen as if the weight of {self.feature_names[i]} were {weights}")
        if (self.returns == self.returns[0]).all():
            found.append(
                f"all {self.episodes} returns are equal: intervals of width 0 are right only if nothing is random"
            )
        if self.unseen > 0:
            found.append(f"{self.unseen:.1%} of the decisions were at observations that no policy has seen")
        if self.bounds is not None:
            found += self.bounds.remarks
        elif self.misprediction is not None:
            found.append(self.misprediction)
        if self.prices:
            found.append("prices: " + ", ".join(f"{name} {price:.4g}" for name, price in self.prices.items()))
        found += self.not_kept[:1]
        if truncated:
            found.append(f"{truncated} of {self.episodes} episodes were truncated by a time limit")
        return found

    def __str__(self) -> str:
        sums = {f"sum of {name}": interval for name, interval in self.sums.items()}
        lines = [f"{name:20s} {interval}" for name, interval in (self.measures | sums).items()]
        bounded = [] if self.bounds is None else [f"bound: {line}" for line in self.bounds.lines()]
        head = f"{self.episodes} episodes, risk {risk_to_text(self.risk)}"
        return "\n".join([head, *lines, *bounded, *self.remarks()])

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class Comparison:
    """Reports from the same start states, by name. Each report is a row of a table: a risk, or a control at a price."""

    reports: dict[str, Report]

    def __post_init__(self) -> None:
        if any(report.failures is not None for report in self.reports.values()):
            # some environments report failures only from the first failure on: earlier reports then have 0 failures
            for name, report in self.reports.items():
                if report.failures is None:
                    self.reports[name] = replace(report, failures=np.zeros(report.episodes))

    def difference(self, name: str, measure: str = "return") -> Interval:
        """Return a measure of a row minus the same measure of the first row, averaged over episodes.

        Args:
            name: the name of the row.
            measure: return, discounted, failures, or the name of a feature for its sum. Default: return.

        Returns:
            The mean difference with its interval.

        Raises:
            ValueError: there is no such row or measure.
        """
        one_of("name", name, self.reports)
        mine, first = [_of(report, measure) for report in (self.reports[name], next(iter(self.reports.values())))]
        return event_difference(mine, first) if measure == "failures" else mean_interval(mine - first)

    def remarks(self) -> list[str]:
        """Return a sentence for each risk whose own measure rates the returns of neutral acting higher.

        Rows with limits or prices are skipped. Without a neutral row the list is empty.
        """
        plain = {name: one for name, one in self.reports.items() if one.limits is None and one.acting_w is None}
        neutral = next((one for one in plain.values() if is_neutral(one.risk)), None)
        found = []
        for name, report in plain.items():
            if neutral is None or is_neutral(report.risk) or "samples" not in report.risk.supports:
                continue
            score = report.risk.samples
            worse = joint_interval(lambda x, y, score=score: score(y) - score(x), report.realised, neutral.realised)
            if worse.low > 0:
                own, theirs = float(score(report.realised)), float(score(neutral.realised))
                found.append(
                    f"{name} is worse than neutral acting by its own measure of the discounted return, {own:.4g} "
                    f"against {theirs:.4g}: act neutrally, or train for more steps"
                )
        return found

    def rows(self) -> list[list[str]]:
        """Return a table of the measures: a header, then a row for each report."""
        every = list(dict.fromkeys(name for report in self.reports.values() for name in report.measures))
        body = [
            [name, *(str(report.measures[m]) if m in report.measures else "-" for m in every)]
            for name, report in self.reports.items()
        ]
        return [["risk", *every], *body]

    def sums(self) -> list[list[str]]:
        """Return a table of the sums of features over an episode: a header, then a row for each report."""
        names = next(iter(self.reports.values())).feature_names
        body = [[row, *map(str, report.sums.values())] for row, report in self.reports.items()]
        return [["sums of features", *names], *body]

    def describe(self) -> Header:
        """Return the summaries of the reports as JSON."""
        return {name: report.describe() for name, report in self.reports.items()}

    def __str__(self) -> str:
        remarks = (f"{name}: {remark}" for name, report in self.reports.items() for remark in report.remarks())
        return "\n".join([*aligned(self.rows()), "", *aligned(self.sums()), *remarks, *self.remarks()])

    __repr__ = __str__


def _of(report: Report, measure: str) -> Floats:
    sums = dict(zip(report.feature_names, report.phi.T, strict=True))
    found = sums | {"return": report.returns, "discounted": report.discounted, "failures": report.failures}
    values = found.get(measure) if isinstance(measure, str) else None
    if values is None:
        known = f"return, discounted, failures if they are reported, or a feature ({', '.join(sums)})"
        raise ValueError(f"measure must be {known}, got {measure!r}")
    return values


def _of_sums(sums: Floats, size: float) -> Interval:
    """Return the mean of a feature's sums (n,) with its interval, by `event_interval` if some sums are 0."""
    return mean_interval(sums) if (sums != 0).all() else event_interval(sums, size)


def aligned(rows: list[list[str]]) -> list[str]:
    """Return the lines of a table with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip() for row in rows]
