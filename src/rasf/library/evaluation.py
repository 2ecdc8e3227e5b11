"""What acting with a library leads to: episodes on an environment, and what they say, with intervals.

    return        sum_t r_t, undiscounted, and sum_t gamma^t r_t, discounted, with r_t = phi_t . w
    variance      over episodes
    CVaR          the mean of the worst tenth of the episodes
    failures      steps on which the environment, or the caller's rule, names a failure
    sums          of every feature over an episode, undiscounted

Intervals of failures, and of sums that are 0 in some episodes, are those of events: 0 failures in 100 episodes are
0 [0, 0.036]. All others are bootstrap intervals of the mean. They are a point where all episodes are alike, and a
remark says so.

Episode i begins from a seed of its own, whoever acts: several risks meet the same beginnings, so `compare` can take
differences pair by pair. `discount_aware` scores step t with the risk of a return that counts gamma^t times, which is
what the paper's guarantee is about. `static` holds a risk of the whole discounted return fixed from the beginning of an
episode, and limits have prices from there (`rasf.library.actor`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rasf.arrays import Bools, Floats, Ints
from rasf.checks import one_of
from rasf.files import Header
from rasf.library.actor import ActingRule, Held
from rasf.limits import Limits
from rasf.risk import Risk
from rasf.risk.names import risk_to_text
from rasf.statistics import (
    Interval,
    event_difference,
    event_interval,
    interval_of,
    mean_interval,
    mean_of_the_worst,
)

if TYPE_CHECKING:
    from rasf.envs.gymnasium.vector import FeatureVector
    from rasf.library.calibration import Promise
    from rasf.library.policy_library import PolicyLibrary

WORST = 0.1  # the share of episodes that CVaR looks at


@dataclass(frozen=True, repr=False)
class Report:
    """Episodes of one task under one risk; arrays have one entry per episode, `phi` (n, d) the features summed up.

    failures is None where nobody names any. `truncated` marks episodes that did not end by themselves:
    `discounted` stops there, while scores look past it; `rest` is what they promise from there on, discounted too.
    discounted_phi (n, d) is discounted as well. With limits, `held` has their prices and what was promised.
    `beginnings` are the first observations, as the policies see them; `promise` is what a calibrated library bounds.
    `names` are those of the features, `sizes` (d,) what one event of each counts, nan where that is not known.
    `acting_w` are the weights by which actions were chosen, where prices made them
    others than `w`, by which outcomes are counted.
    """

    w: Floats
    risk: Risk
    gamma: float
    returns: Floats
    discounted: Floats
    phi: Floats
    failures: Floats | None
    lengths: Ints
    truncated: Bools
    unseen: float  # share of the decisions at observations that no policy knew
    rest: Floats | None = None
    discounted_phi: Floats | None = None
    limits: Limits | None = None
    held: Held | None = None
    beginnings: npt.NDArray[Any] | None = None
    promise: Promise | None = None
    names: tuple[str, ...] = ()
    sizes: Floats | None = None
    acting_w: Floats | None = None

    @cached_property
    def measures(self) -> dict[str, Interval]:
        """What the episodes say, with intervals, by name."""
        found = {}
        for name, values in (("return", self.returns), ("discounted", self.discounted)):
            found[name] = mean_interval(values)
            # from the first value on, so that equal returns have no variance at all
            found[f"{name}_variance"] = interval_of(values - values[0], lambda drawn: drawn.var(axis=-1, ddof=1))
            found[f"{name}_cvar"] = interval_of(values, partial(mean_of_the_worst, share=WORST))
        if self.rest is not None and self.truncated.any():
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

        A sum that is 0 in all episodes has an interval only if the environment declares the feature's bounds in a step,
        one of them 0: else nothing says how much a rare event counts, and the ends are nan.
        """
        return {name: _of_sums(self.phi[:, i], self._size(i)) for i, name in enumerate(self.feature_names)}

    def _size(self, feature: int) -> float:
        return np.nan if self.sizes is None else float(self.sizes[feature])

    def _limited_features(self) -> list[int]:
        return [] if self.limits is None or self.discounted_phi is None else self.limits.features.tolist()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features; "feature 0" and so on where they have none."""
        return self.names or tuple(f"feature {i}" for i in range(len(self.w)))

    @property
    def episodes(self) -> int:
        return len(self.returns)

    def limited(self) -> dict[str, Floats]:
        """The sums (n,) that are limited, by name: discounted or of the episode, as the limit is."""
        if self.limits is None or self.discounted_phi is None:
            return {}
        named = zip(self.limits.names, self.limits.features, self.limits.given, strict=True)
        return {
            f"{name} {limit.short()}": (self.phi if limit.per_episode else self.discounted_phi)[:, feature]
            for name, feature, limit in named
        }

    @property
    def prices(self) -> dict[str, float]:
        """The mean price of each limit over the episodes."""
        if self.limits is None or self.held is None:
            return {}
        return dict(zip(self.limits.names, self.held.prices.mean(axis=0).tolist(), strict=True))

    def describe(self) -> Header:
        """The summary as JSON."""
        told: Header = {}
        if self.limits is not None:
            told["limits"] = dict(zip(self.limits.names, map(str, self.limits.given), strict=True))
            told["prices"] = self.prices
        if self.promise is not None:
            told["promise"] = self.promise.describe()
        if self.acting_w is not None:
            told["acting_w"] = self.acting_w.tolist()
        return told | {
            "w": self.w.tolist(),
            "risk": risk_to_text(self.risk),
            "gamma": self.gamma,
            "episodes": self.episodes,
            "truncated": int(self.truncated.sum()),
            "unseen": self.unseen,
            "measures": {name: list(interval) for name, interval in self.measures.items()},
            "sums": {name: list(interval) for name, interval in self.sums.items()},
        }

    def remarks(self) -> list[str]:
        """Sentences on what the measures do not show: unseen observations, truncated episodes, other weights."""
        found, truncated = [], int(self.truncated.sum())
        if self.acting_w is not None:
            for i in np.flatnonzero(self.acting_w != self.w):
                weighed = f"{self.acting_w[i]:g} in place of {self.w[i]:g}"
                found.append(f"acts as if {self.feature_names[i]} were weighed {weighed}")
        if (self.returns == self.returns[0]).all():
            found.append(
                f"all {self.episodes} returns are equal: an interval of width 0 holds only if nothing is random"
            )
        if self.unseen > 0:
            found.append(f"{self.unseen:.1%} of the decisions were at observations that no policy knows")
        if self.promise is not None:
            found += self.promise.remarks
        if self.prices:
            found.append("prices: " + ", ".join(f"{name} {price:.4g}" for name, price in self.prices.items()))
        if self.limits is not None and self.held is not None and not self.held.kept.all():
            first = int(np.argmin(self.held.kept))
            found.append(self.limits.not_kept(self.held.costs[first]))
        if truncated:
            found.append(f"{truncated} of {self.episodes} episodes were cut off by a time limit")
        return found

    def __str__(self) -> str:
        sums = {f"sum of {name}": interval for name, interval in self.sums.items()}
        lines = [f"{name:20s} {interval}" for name, interval in (self.measures | sums).items()]
        promised = [] if self.promise is None else [f"promised: {line}" for line in self.promise.lines()]
        head = f"{self.episodes} episodes, risk {risk_to_text(self.risk)}"
        return "\n".join([head, *lines, *promised, *self.remarks()])

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class Comparison:
    """Reports of several risks on the same beginnings, by name."""

    reports: dict[str, Report]

    def __post_init__(self) -> None:
        if any(report.failures is not None for report in self.reports.values()):
            # some environments name a failure only when it happens: who never met one has none
            for name, report in self.reports.items():
                if report.failures is None:
                    self.reports[name] = replace(report, failures=np.zeros(report.episodes))

    def difference(self, name: str, measure: str = "return") -> Interval:
        """Return by how much a row exceeds the first one, episode by episode.

        Args:
            name: of the row.
            measure: return, discounted, failures, or the name of a feature, for its sum.

        Returns:
            The mean difference with its interval.

        Raises:
            ValueError: if there is no such row or measure.
        """
        one_of("name", name, self.reports)
        mine, first = [_of(report, measure) for report in (self.reports[name], next(iter(self.reports.values())))]
        return event_difference(mine, first) if measure == "failures" else mean_interval(mine - first)

    def rows(self) -> list[list[str]]:
        """A table: a header, then a row per risk."""
        every = list(dict.fromkeys(name for report in self.reports.values() for name in report.measures))
        body = [
            [name, *(str(report.measures[m]) if m in report.measures else "-" for m in every)]
            for name, report in self.reports.items()
        ]
        return [["risk", *every], *body]

    def sums(self) -> list[list[str]]:
        """A table of the sums of the features over an episode: a header, then a row per risk."""
        names = next(iter(self.reports.values())).feature_names
        body = [[row, *map(str, report.sums.values())] for row, report in self.reports.items()]
        return [["sums of features", *names], *body]

    def describe(self) -> Header:
        """The summary as JSON."""
        return {name: report.describe() for name, report in self.reports.items()}

    def __str__(self) -> str:
        remarks = (f"{name}: {remark}" for name, report in self.reports.items() for remark in report.remarks())
        return "\n".join([*_aligned(self.rows()), "", *_aligned(self.sums()), *remarks])

    __repr__ = __str__


def _of(report: Report, measure: str) -> Floats:
    sums = dict(zip(report.feature_names, report.phi.T, strict=True))
    found = sums | {"return": report.returns, "discounted": report.discounted, "failures": report.failures}
    values = found.get(measure) if isinstance(measure, str) else None
    if values is None:
        known = f"return, discounted, failures where they are named, or a feature ({', '.join(sums)})"
        raise ValueError(f"measure must be {known}, got {measure!r}")
    return values


def _of_sums(sums: Floats, size: float) -> Interval:
    """The mean of sums (n,) of a feature over episodes: by how many have any, where some have none."""
    return mean_interval(sums) if (sums != 0).all() else event_interval(sums, size)


def _sizes_of_events(bounds: Floats) -> Floats:
    """What an event counts (d,), of features with bounds (d, 2) in a step: the bound that is not 0, nan if both are."""
    low, high = bounds.T
    size = np.where(low == 0, high, np.where(high == 0, low, np.nan))
    return np.where(np.isfinite(size), size, np.nan)


def _aligned(rows: list[list[str]]) -> list[str]:
    """Lines of a table, columns below one another."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip() for row in rows]


def run_episodes(
    library: PolicyLibrary,
    environments: FeatureVector,
    rule: ActingRule,
    seeds: Sequence[int],
    max_steps: int,
    callback: Callable[[int], None] | None = None,
) -> Report:
    """An episode for each seed, as many at a time as there are environments, all of these at the same step.

    `callback` is told after every step how many episodes are over; what it raises ends the work.
    """
    sources, w, encode, n = library.sources, rule.task, library.encode, len(seeds)
    phi, discounted = np.zeros((2, n, len(w)))
    failures, lengths, truncated, unseen = np.zeros(n), np.zeros(n, np.int64), np.ones(n, np.bool_), 0
    rest, held = np.zeros(n), Held.nothing(n, 0 if rule.limits is None else len(rule.limits.names))
    beginnings = []
    for first in range(0, n, len(environments)):
        started = environments.reset_each(seeds[first : first + len(environments)])
        begun, obs = first + len(started), {first + place: encode(one) for place, one in enumerate(started)}
        for t in range(max_steps):
            encoded, each, discount = np.stack(list(obs.values())), np.array(list(obs)), sources.gamma**t
            if t == 0:
                beginnings.append(encoded)
                held.put(each, rule.begin(encoded))
            theirs = held.of(each)
            actions = rule.act(encoded, theirs, discounted[each] @ rule.w, np.full(len(each), discount))
            held.put(each, theirs)
            unseen += int((~sources.seen(encoded)).sum())
            taken = {i - first: action for i, action in zip(obs, actions.tolist(), strict=True)}
            for place, step in environments.step_each(taken).items():
                i = first + place
                phi[i] += step.phi
                discounted[i] += discount * step.phi
                failures[i] += step.failure
                lengths[i] += 1
                truncated[i] = not step.terminated
                obs[i] = encode(step.obs)
                if truncated[i] and (step.truncated or t + 1 == max_steps):
                    rest[i] = _remaining(rule, obs[i], held.of(np.array([i])), discounted[i] @ rule.w, t + 1)
                if step.terminated or step.truncated:
                    del obs[i]
            if callback is not None:
                callback(begun - len(obs))
            if not obs:
                break
    named = environments.reports_failures
    share = unseen / int(lengths.sum())
    counted = failures if named else None
    return Report(
        w,
        rule.risk,
        sources.gamma,
        phi @ w,
        discounted @ w,
        phi,
        counted,
        lengths,
        truncated,
        share,
        rest,
        discounted,
        rule.limits,
        held,
        np.concatenate(beginnings),
        names=tuple(library.environment.feature_names or environments.feature_names or ()),
        sizes=_sizes_of_events(environments.declared_bounds),
        acting_w=None if rule.w is rule.task else rule.w,
    )


def _remaining(rule: ActingRule, obs: npt.NDArray[Any], held: Held, accrued: float, t: int) -> float:
    """The mean discounted return from an observation at step t on, by the policy that the rule selects there.

    0 where no policy knows the observation.
    """
    sources, discount = rule.sources, rule.sources.gamma**t
    if not sources.seen(obs[None])[0]:
        return 0.0
    chosen = rule.select(obs[None], held, np.array([accrued]), np.array([discount]))
    return discount * float(rule.expected(obs[None], chosen)[0][0])
