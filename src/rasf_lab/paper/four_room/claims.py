"""Judge the paper's claims F1 to F17 and T7, and our goals M1 to M9, by the four-room runs.

`claims.toml` has the text of every claim and goal, and most rules as data. This module has the measures that these
rules name, and the rules of F14, F15, M4 and M8 as functions. Differences are paired by seed. For words such as "far
more" or "slightly", only the direction is tested. A claim of "about x %" holds if the interval lies within x +- 10
percentage points. In the paper's Algorithm 1 to the letter, the initial tables of all policies have the same noise
(shared initial noise). If there are such runs, a finding also reports their verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from rasf.arrays import Bools, Floats, Ints
from rasf.statistics import Interval, event_interval, mean_interval
from rasf_lab.common.claims import FIRST, RULES
from rasf_lab.common.results import FURTHER_READINGS, Finding, Reading
from rasf_lab.common.rules import Measure
from rasf_lab.common.verdicts import below, side, with_enough_seeds, worst
from rasf_lab.paper.four_room.measures import (
    NOVEL_TASKS,
    RISKS,
    Arrays,
    Pair,
    dangerous_objects,
    novel_outcome,
    trap_cells,
)
from rasf_lab.paper.four_room.predictions import LEVELS, relative_errors, rises

Searches = Mapping[str, Mapping[Pair, Floats]]  # total returns (seeds,) by curve, such as "prql -2", then by (eta, tau)
_FIRST = 16  # the largest number of tasks in "the first tasks" and in "the last tasks" of a claim
_SOON = 32  # early returns and failures are sums over the first 32 tasks
_TASKS_ENOUGH = 24.5  # goal M8: failures fall with aversion on at least 25 of the 27 novel tasks
_RESAMPLES = 1_000
_NAMED_TASKS = (NOVEL_TASKS[:, 1] == 1) | (
    (NOVEL_TASKS[:, 0] == 1) & (NOVEL_TASKS[:, 1] == -1) & (NOVEL_TASKS[:, 2] <= 0)
)  # the tasks that claim F16 names
_KINDS = ("F", "M", "T7")  # prefixes of the ids of the claims that this module judges


@dataclass(frozen=True)
class Curves:
    """Arrays of runs, by the name of their curve. "novel neutral" and "novel averse" have results on novel tasks."""

    arrays: Mapping[str, Arrays]

    def of_common_seeds(self, *names: str) -> Curves:
        """Return all curves. The named curves keep the first n seeds, where n is the fewest seeds of a named curve."""
        n = min(self.seeds(name) for name in names)
        kept = {name: {key: values[:n] for key, values in self.arrays[name].items()} for name in names}
        return Curves({**self.arrays, **kept})

    def seeds(self, name: str) -> int:
        """Return the number of seeds of a curve."""
        return len(next(iter(self.arrays[name].values())))


def judge(curves: Mapping[str, Arrays], novel: Mapping[str, Arrays], searches: Searches) -> dict[str, Finding]:
    """Return the findings, by the id of their claim. Claims whose runs are missing have no finding.

    Args:
        curves: arrays of the runs, by the name of their curve.
        novel: arrays of the runs that also act on the novel tasks, by the risk of training, "neutral" or "averse".
        searches: total returns (seeds,) of the search for PRQL's eta and tau, by curve and by (eta, tau).
    """
    runs = Curves({**curves, **{f"novel {way}": arrays for way, arrays in novel.items()}})
    first = {claim: read(claim, runs) for claim in FIRST if claim.startswith(_KINDS)}
    for claim, reading in first.items():
        if reading and FIRST[claim].takes("noise"):
            first[claim] = _beside_shared_noise(reading, read(claim, runs, noise="shared"))
    if first["M5"] is None and "rasf-model 0" in curves:
        first["M5"] = Reading("not decided", "the optimum was not solved", 0)
    first |= {"F14": sensitive(searches), "F15": alike(novel), "M4": seconds(curves), "M8": dial(curves)}
    findings = {}
    for claim, reading in first.items():
        if reading:
            again = {name: read(claim, runs, name.removesuffix("_reading")) for name in FURTHER_READINGS}
            further: dict[str, Any] = {name: with_enough_seeds(one) for name, one in again.items() if one}
            findings[claim] = Finding(**vars(with_enough_seeds(reading)), **further)
    return findings


def read(claim: str, runs: Curves, reading: str = "first", noise: str = "independent") -> Reading | None:
    """Apply a rule of `claims.toml`.

    Args:
        claim: the id of the claim.
        runs: all curves.
        reading: the reading whose rule is applied, "first", "second" or "third". Default: "first".
        noise: replaces {noise} in the names of curves in the rule: "independent" or "shared". Default: "independent".

    Returns:
        The verdict and the measured numbers, as a `Reading`; None if the claim has no such rule or if runs are missing.
    """
    rule = RULES[reading].get(claim)
    return rule.read(runs, MEASURES, noise=noise) if rule else None


def _beside_shared_noise(reading: Reading, shared: Reading | None) -> Reading:
    if shared is None:
        return reading
    said = "the same verdict" if shared.verdict == reading.verdict else shared.verdict
    return replace(reading, measured=f"{reading.measured}. Shared initial noise: {said} ({shared.measured})")


# --- the measures that rules name. Each takes all curves and the name of a curve, and returns an array (seeds,) or
# (seeds, columns)


def _ends(runs: Curves, name: str) -> int:
    """Return n, for a comparison of the first n tasks of a curve with the last n tasks."""
    return min(_FIRST, runs.arrays[name]["failures"].shape[1] // 2)


def _steps_on(runs: Curves, name: str, cells: Bools) -> Floats:
    """Return the steps per rollout on `cells` for each seed and novel task (seeds, 27).

    `name` is "novel neutral" or "novel averse", and `cells` (cells,) is a mask.
    """
    arrays, way = runs.arrays[name], name.split()[-1]
    return arrays[f"visits_{way}"][:, :, cells].sum(axis=2) / arrays[f"features_{way}"].shape[2]


def _in_danger(runs: Curves, name: str, tasks: Bools) -> Floats:
    return _steps_on(runs, name, trap_cells() | dangerous_objects())[:, tasks].mean(axis=1)


def _median_errors(runs: Curves, name: str, moment: int, everywhere: bool = False) -> Floats:
    """Return, for each seed (seeds,), the median relative error of the predicted returns of the sources.

    `moment` 0 is the mean of the return, and 1 the variance. The median is over all pairs of a source and a task if
    `everywhere`, otherwise over the pairs whose return varies.
    """
    errors = relative_errors(runs.arrays[name]["predicted"], runs.arrays[name]["realised"])[..., moment]
    counted = _varies(runs, name) | everywhere  # (seeds, sources, 27)
    return np.array([np.median(one[where]) for one, where in zip(errors, counted, strict=True)])


def _varies(runs: Curves, name: str) -> Bools:
    """Return whether a source's return on a task varies by more than rounding errors (seeds, sources, 27)."""
    return runs.arrays[name]["realised"][..., 1] > 1e-9


MEASURES: Mapping[str, Measure[Curves]] = {
    "return": lambda runs, name: runs.arrays[name]["return"].sum(axis=1),
    "failures": lambda runs, name: runs.arrays[name]["failures"].sum(axis=1),
    "return by task": lambda runs, name: runs.arrays[name]["return"],
    "failures by task": lambda runs, name: runs.arrays[name]["failures"],
    "return a task": lambda runs, name: runs.arrays[name]["return"].mean(axis=1),
    "failures a task": lambda runs, name: runs.arrays[name]["failures"].mean(axis=1),
    "failures of the first tasks": lambda runs, name: runs.arrays[name]["failures"][:, : _ends(runs, name)].mean(
        axis=1
    ),
    "failures of the last tasks": lambda runs, name: runs.arrays[name]["failures"][:, -_ends(runs, name) :].mean(
        axis=1
    ),
    "tasks at each end": lambda runs, name: np.full(runs.seeds(name), float(_ends(runs, name))),
    "failures of the first 16 tasks": lambda runs, name: runs.arrays[name]["failures"][:, :_FIRST].mean(axis=1),
    "return of the first 16 tasks": lambda runs, name: runs.arrays[name]["return"][:, :_FIRST].mean(axis=1),
    "return of the first 32 tasks": lambda runs, name: runs.arrays[name]["return"][:, :_SOON].sum(axis=1),
    "failures in the first 32 tasks": lambda runs, name: runs.arrays[name]["failures"][:, :_SOON].sum(axis=1),
    "return a task in the last quarter": lambda runs, name: runs.arrays[name]["return"][
        :, -max(1, runs.arrays[name]["return"].shape[1] // 4) :
    ].mean(axis=1),
    "steps on traps": lambda runs, name: _steps_on(runs, name, trap_cells()).mean(axis=1),
    "steps on objects beside traps": lambda runs, name: _steps_on(runs, name, dangerous_objects()).mean(axis=1),
    "steps in danger on the named tasks": lambda runs, name: _in_danger(runs, name, _NAMED_TASKS),
    "steps in danger on the other tasks": lambda runs, name: _in_danger(runs, name, ~_NAMED_TASKS),
    "failures, acting neutrally": lambda runs, name: novel_outcome(runs.arrays[name]["features_neutral"])["failures"],
    "failures, acting with risk": lambda runs, name: novel_outcome(runs.arrays[name]["features_averse"])["failures"],
    "novel return at its first risk": lambda runs, name: runs.arrays[name]["novel_return"][:, 0].mean(axis=-1),
    "novel return at its second risk": lambda runs, name: runs.arrays[name]["novel_return"][:, 1].mean(axis=-1),
    "novel failures at its first risk": lambda runs, name: runs.arrays[name]["novel_failures"][:, 0].mean(axis=-1),
    "novel failures at its second risk": lambda runs, name: runs.arrays[name]["novel_failures"][:, 1].mean(axis=-1),
    "error of the mean": lambda runs, name: _median_errors(runs, name, 0, everywhere=True),
    "error of the mean where returns vary": lambda runs, name: _median_errors(runs, name, 0),
    "error of the variance": lambda runs, name: _median_errors(runs, name, 1),
    "share of returns that vary": lambda runs, name: _varies(runs, name).mean(axis=(1, 2)),
    "tasks without a rise": lambda runs, name: np.array(
        [len(NOVEL_TASKS) - float(rises(one).sum()) for one in runs.arrays[name]["dial_failed"]]
    ),
    "failures at the first level": lambda runs, name: runs.arrays[name]["dial_failed"][:, :, 0].mean(axis=(1, 2)),
    "failures at the last level": lambda runs, name: runs.arrays[name]["dial_failed"][:, :, -1].mean(axis=(1, 2)),
}


# --- rules as functions


def sensitive(searches: Searches) -> Reading:
    """Return the verdict on claim F14: at every omega, the return of the best eta and tau is more than twice the worst.

    The rule tests the difference best - 2 x worst instead of a ratio, because the worst return can be negative.
    """
    verdicts, texts = [], []
    for risk in RISKS:
        best, *_, poorest = sorted(searches[f"prql {risk:g}"].values(), key=np.mean, reverse=True)
        more = mean_interval(best - 2 * poorest)
        verdicts.append(side(more))
        texts.append(f"{risk:g}: best {best.mean():.0f}, worst {poorest.mean():.0f}, best minus twice the worst {more}")
    text = "return of the best and of the worst of nine settings, on the tuning seeds, at " + "; ".join(texts)
    number = f"{poorest.mean():,.0f} to {best.mean():,.0f} (-4)"
    return Reading(worst(verdicts), text, len(best), number)


def alike(novel: Mapping[str, Arrays]) -> Reading:
    """Return the verdict on claim F15, which compares two overlaps of visits.

    The first overlap is between two agents on the same task, the second between two tasks of the same agent. The claim
    holds if the first overlap is larger. The interval of the difference is from a bootstrap over seeds.
    """
    visits = [
        novel[way][f"visits_{way}"] / novel[way][f"visits_{way}"].sum(axis=2, keepdims=True)
        for way in ("averse", "neutral")
    ]

    def overlaps(chosen: Ints) -> tuple[float, float]:
        averse, neutral = (each[chosen].mean(axis=0) for each in visits)
        n = len(averse)
        pairs = [np.minimum(each[:, None], each).sum(axis=-1) for each in (averse, neutral)]  # (27, 27), diagonal = 1
        across = np.mean([(pair.sum() - n) / (n * (n - 1)) for pair in pairs])
        return float(np.minimum(averse, neutral).sum(axis=-1).mean()), float(across)

    seeds, rng = len(visits[0]), np.random.default_rng(0)
    same, across = overlaps(np.arange(seeds))
    drawn = [np.subtract(*overlaps(rng.integers(seeds, size=seeds))) for _ in range(_RESAMPLES)]
    gap = Interval.of(same - across, [np.array(drawn)], seeds)
    text = f"the two agents on a task {same:.2f}, one agent on two tasks {across:.2f}, difference {gap}"
    return Reading(side(gap), text, seeds, f"{same:.2f} against {across:.2f}")


def seconds(curves: Mapping[str, Arrays]) -> Reading | None:
    """Return the verdict on goal M4, that a run takes at most 30 seconds on average; None if runs are missing."""
    names = ("rasf-model 0", "rasf-model -2")
    if not set(names) <= curves.keys():
        return None
    both = np.concatenate([curves[name]["seconds"] for name in names])
    mean, share = mean_interval(both[:, 0]), float((both[:, 1] / both[:, 0]).mean())
    text = f"{mean} s a run, the longest {both[:, 0].max():.3g} s; planning is {share:.0%} of the time"
    return Reading(below(mean, 30.0), text, len(both), f"{mean.estimate:.1f} s")


def dial(curves: Mapping[str, Arrays]) -> Reading | None:
    """Return the verdict on goal M8, that failures fall as aversion rises on at least 25 of the novel tasks.

    Failures fall if their rank correlation with aversion is at most -0.9. Return None if runs are missing.
    """
    names = ("rasf-model library both", "rasfql dial")
    if not set(names) <= curves.keys():
        return None
    rates = [curves[name]["dial_failed"].mean(axis=-1) for name in names]  # (seeds, 27, levels)
    counts = [np.array([sum(_correlation(task) <= -0.9 for task in one) for one in each]) for each in rates]
    ours, failures = event_interval(counts[0].astype(np.float64)), rates[0]
    different = np.mean([[len(np.unique(task)) for task in one] for one in failures])
    never = float(np.mean((failures == 0).all(axis=-1).sum(axis=1)))
    text = (
        f"on {ours} of 27 tasks (RaSFQL {counts[1].mean():.1f}); {never:.1f} tasks have no failure at any level, and a "
        f"task has {different:.1f} different failure rates at {len(LEVELS)} levels on average"
    )
    if "optimum novel" in curves:
        exact = int((curves["optimum novel"]["failures"] == 0).sum())
        text += f"; even the exact neutral optimum never fails on {exact} tasks"
    return Reading(side(ours, _TASKS_ENOUGH), text, len(failures), f"{ours.estimate:.1f} of 27")


def _correlation(failures: Floats) -> float:
    """Return Spearman's correlation of failures with aversion; 0 if all failures are equal."""
    return float(spearmanr(np.arange(len(failures)), failures).statistic) if np.ptp(failures) > 0 else 0.0
