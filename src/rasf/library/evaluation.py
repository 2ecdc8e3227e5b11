"""What acting with a library leads to: episodes on an environment, and what they say, with intervals.

    return        sum_t r_t, undiscounted, and sum_t gamma^t r_t, discounted, with r_t = phi_t . w
    variance      over episodes
    CVaR          the mean of the worst tenth of the episodes
    failures      steps on which the environment, or the caller's rule, names a failure

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
from rasf.library.frozen_policies import FrozenPolicies
from rasf.limits import Limits
from rasf.risk import MeanVariance, Risk
from rasf.risk.names import risk_to_text
from rasf.statistics import Interval, interval_of, mean_interval, mean_of_the_worst
from rasf.transfer import gpi_actions

if TYPE_CHECKING:
    from rasf.envs.gymnasium.episodes import Episodes
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
            found["failures"] = mean_interval(self.failures)
        for name, sums in self.limited().items():
            found[name] = mean_interval(sums)
        found["length"] = mean_interval(self.lengths.astype(np.float64))
        return found

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
        return told | {
            "w": self.w.tolist(),
            "risk": risk_to_text(self.risk),
            "gamma": self.gamma,
            "episodes": self.episodes,
            "truncated": int(self.truncated.sum()),
            "unseen": self.unseen,
            "measures": {name: list(interval) for name, interval in self.measures.items()},
        }

    def remarks(self) -> list[str]:
        """Sentences on what the measures do not show: unseen observations, truncated episodes."""
        found, truncated = [], int(self.truncated.sum())
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
        lines = [f"{name:20s} {interval}" for name, interval in self.measures.items()]
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
        """How much more one risk earns than the first, episode by episode; measure: return, discounted, failures."""
        one_of("name", name, self.reports)
        mine, first = [_of(report, measure) for report in (self.reports[name], next(iter(self.reports.values())))]
        return mean_interval(mine - first)

    def rows(self) -> list[list[str]]:
        """A table: a header, then a row per risk."""
        every = list(dict.fromkeys(name for report in self.reports.values() for name in report.measures))
        body = [
            [name, *(str(report.measures[m]) if m in report.measures else "-" for m in every)]
            for name, report in self.reports.items()
        ]
        return [["risk", *every], *body]

    def describe(self) -> Header:
        """The summary as JSON."""
        return {name: report.describe() for name, report in self.reports.items()}

    def __str__(self) -> str:
        columns = list(zip(*self.rows(), strict=True))
        widths = [max(map(len, column)) for column in columns]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in self.rows()
        ]
        remarks = (f"{name}: {remark}" for name, report in self.reports.items() for remark in report.remarks())
        return "\n".join([*lines, *remarks])

    __repr__ = __str__


def _of(report: Report, measure: str) -> Floats:
    values = {"return": report.returns, "discounted": report.discounted, "failures": report.failures}.get(measure)
    if values is None:
        raise ValueError(f"measure must be return, discounted or, where they are named, failures, got {measure!r}")
    return values


def run_episodes(
    library: PolicyLibrary,
    environments: Episodes,
    rule: ActingRule,
    seeds: Sequence[int],
    max_steps: int,
    callback: Callable[[int], None] | None = None,
) -> Report:
    """An episode for each seed, as many at a time as there are environments, all of these at the same step.

    `callback` is told after every step how many episodes are over; what it raises ends the work.
    """
    sources, w, encode, n = library.sources, rule.w, library.encode, len(seeds)
    phi, discounted = np.zeros((2, n, len(w)))
    failures, lengths, truncated, unseen = np.zeros(n), np.zeros(n, np.int64), np.ones(n, np.bool_), 0
    rest, held = np.zeros(n), Held.nothing(n, 0 if rule.limits is None else len(rule.limits.names))
    promising = MeanVariance(0.0) if rule.certain is not None else rule.risk
    beginnings = []
    for first in range(0, n, len(environments)):
        started = environments.reset(seeds[first : first + len(environments)])
        begun, obs = first + len(started), {first + place: encode(one) for place, one in enumerate(started)}
        for t in range(max_steps):
            encoded, each, discount = np.stack(list(obs.values())), np.array(list(obs)), sources.gamma**t
            if t == 0:
                beginnings.append(encoded)
                held.put(each, rule.begin(encoded))
            theirs = held.of(each)
            actions = rule.act(encoded, theirs, discounted[each] @ w, np.full(len(each), discount))
            held.put(each, theirs)
            unseen += int((~sources.seen(encoded)).sum())
            taken = {i - first: action for i, action in zip(obs, actions.tolist(), strict=True)}
            for place, step in environments.step(taken).items():
                i = first + place
                phi[i] += step.phi
                discounted[i] += discount * step.phi
                failures[i] += step.failure
                lengths[i] += 1
                truncated[i] = not step.terminated
                obs[i] = encode(step.obs)
                if truncated[i] and (step.truncated or t + 1 == max_steps):
                    rest[i] = sources.gamma ** (t + 1) * _promised(sources, obs[i], w, promising)
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
    )


def _promised(sources: FrozenPolicies, obs: npt.NDArray[Any], w: Floats, risk: Risk) -> float:
    """The mean return from an observation on, by the policy that drives there; 0 where none knows it."""
    found = sources.scores(obs[None], w, risk)
    action = int(gpi_actions(found.values)[0])
    driver = int(np.argmax(found.values[:, 0, action]))
    return float(found.mean[driver, 0, action]) if found.seen[0] else 0.0
