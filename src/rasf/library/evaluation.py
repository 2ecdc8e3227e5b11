"""What acting with a library leads to: episodes on an environment, and what they say, with intervals.

    return        sum_t r_t, undiscounted, and sum_t gamma^t r_t, discounted, with r_t = phi_t . w
    variance      over episodes
    CVaR          the mean of the worst tenth of the episodes
    failures      steps on which the environment, or the caller's rule, names a failure

Episode i begins from a seed of its own, whoever acts: several risks meet the same beginnings, so `compare` can take
differences pair by pair. `discount_aware` scores step t with the risk of a return that counts gamma^t times, which is
what the paper's guarantee is about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.envs.gymnasium.single import FeatureEnvironment, Step
from rasf.library.frozen_policies import FrozenPolicies
from rasf.risk import Risk
from rasf.risk.names import risk_to_text
from rasf.statistics import Interval, interval_of, mean_interval, mean_of_the_worst

FailureRule = Callable[[Step], bool]
WORST = 0.1  # the share of episodes that CVaR looks at


@dataclass(frozen=True, repr=False)
class Report:
    """Episodes of one task under one risk; arrays have one entry an episode, `phi` (n, d) the features summed up.

    failures is None where nobody names any. `cut` marks episodes that did not end by themselves.
    """

    w: Floats
    risk: Risk
    gamma: float
    returns: Floats
    discounted: Floats
    phi: Floats
    failures: Floats | None
    lengths: Ints
    cut: npt.NDArray[np.bool_]
    unseen: float  # share of the decisions at observations that no policy knew
    measures: dict[str, Interval] = field(init=False)

    def __post_init__(self) -> None:
        found = {}
        for name, values in (("return", self.returns), ("discounted", self.discounted)):
            found[name] = mean_interval(values)
            # from the first value on, so that equal returns have no variance at all
            found[f"{name} variance"] = interval_of(values - values[0], lambda drawn: drawn.var(axis=-1, ddof=1))
            found[f"{name} CVaR"] = interval_of(values, partial(mean_of_the_worst, share=WORST))
        if self.failures is not None:
            found["failures"] = mean_interval(self.failures)
        found["length"] = mean_interval(self.lengths.astype(np.float64))
        object.__setattr__(self, "measures", found)

    @property
    def episodes(self) -> int:
        """How many."""
        return len(self.returns)

    def describe(self) -> dict[str, Any]:
        """The summary as JSON."""
        return {
            "w": self.w.tolist(),
            "risk": risk_to_text(self.risk),
            "gamma": self.gamma,
            "episodes": self.episodes,
            "cut": int(self.cut.sum()),
            "unseen": self.unseen,
            "measures": {name: list(interval) for name, interval in self.measures.items()},
        }

    def remarks(self) -> list[str]:
        """What the measures hide, in sentences."""
        found, cut = [], int(self.cut.sum())
        if self.unseen > 0:
            found.append(f"{self.unseen:.1%} of the decisions were at observations that no policy knows")
        if cut:
            found.append(f"{cut} of {self.episodes} episodes were cut off by a time limit")
        return found

    def __str__(self) -> str:
        lines = [f"{name:20s} {interval}" for name, interval in self.measures.items()]
        return "\n".join([f"{self.episodes} episodes, risk {risk_to_text(self.risk)}", *lines, *self.remarks()])

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class Comparison:
    """Reports of several risks on the same beginnings, by name."""

    reports: dict[str, Report]

    def difference(self, name: str, measure: str = "return") -> Interval:
        """How much more one risk earns than the first, episode by episode; measure: return, discounted, failures."""
        if name not in self.reports:
            raise ValueError(f"name must be one of {', '.join(self.reports)}, got {name!r}")
        mine, first = [_of(report, measure) for report in (self.reports[name], next(iter(self.reports.values())))]
        return mean_interval(mine - first)

    def rows(self) -> list[list[str]]:
        """A table: a header, then a row a risk."""
        every = list(dict.fromkeys(name for report in self.reports.values() for name in report.measures))
        body = [
            [name, *(str(report.measures[m]) if m in report.measures else "-" for m in every)]
            for name, report in self.reports.items()
        ]
        return [["risk", *every], *body]

    def describe(self) -> dict[str, Any]:
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


def episode_seeds(seed: int, episodes: int) -> list[int]:
    """The seeds of the episodes; those of fewer are the first of them."""
    return [int(word) for word in np.random.SeedSequence(seed).generate_state(episodes)]


class _Tally:
    """What one episode adds up to."""

    def __init__(self, d: int) -> None:
        self.phi, self.discounted = np.zeros(d), np.zeros(d)
        self.failures, self.length, self.unseen, self.cut = 0, 0, 0, True

    def add(self, step: Step, discount: float, failed: bool, seen: bool) -> None:
        self.phi += step.phi
        self.discounted += discount * step.phi
        self.failures += failed
        self.unseen += not seen
        self.length += 1
        self.cut = not step.terminated


def run_episodes(
    sources: FrozenPolicies,
    code: Callable[[Any], npt.NDArray[Any]],
    environments: Sequence[FeatureEnvironment],
    w: Floats,
    risk: Risk,
    seeds: Sequence[int],
    *,
    max_steps: int,
    discount_aware: bool = False,
    failure: FailureRule | None = None,
    callback: Callable[[int], None] | None = None,
) -> Report:
    """An episode for each seed, as many at a time as there are environments; `code` turns observations into numbers.

    `callback` is told after every step how many episodes are over; what it raises ends the work.
    """

    def together(seeds: Sequence[int]) -> list[_Tally]:
        """One episode in each of the first environments, all at the same step; who is over drops out."""
        tallies = [_Tally(len(w)) for _ in seeds]
        running = list(range(len(seeds)))
        pairs = zip(environments, seeds, strict=False)
        obs = {i: code(environment.reset(seed)) for i, (environment, seed) in enumerate(pairs)}
        for t in range(max_steps):
            codes = np.stack([obs[i] for i in running])
            discount = sources.gamma**t
            actions = sources.act(codes, w, risk.at_discount(discount) if discount_aware else risk)
            seen = sources.seen(codes)
            going_on = []
            for i, action, known in zip(running, actions.tolist(), seen.tolist(), strict=True):
                step = environments[i].step(action)
                tallies[i].add(step, discount, step.failure if failure is None else bool(failure(step)), known)
                if not (step.terminated or step.truncated):
                    obs[i] = code(step.obs)
                    going_on.append(i)
            running = going_on
            if callback is not None:
                callback(before + len(seeds) - len(running))
            if not running:
                break
        return tallies

    tallies: list[_Tally] = []
    for before in range(0, len(seeds), len(environments)):
        tallies += together(seeds[before : before + len(environments)])
    named = failure is not None or any(environment.names_failures for environment in environments)
    phi = np.stack([tally.phi for tally in tallies])
    lengths = np.array([tally.length for tally in tallies])
    return Report(
        w,
        risk,
        sources.gamma,
        phi @ w,
        np.stack([tally.discounted for tally in tallies]) @ w,
        phi,
        np.array([tally.failures for tally in tallies], np.float64) if named else None,
        lengths,
        np.array([tally.cut for tally in tallies]),
        sum(tally.unseen for tally in tallies) / int(lengths.sum()),
    )
