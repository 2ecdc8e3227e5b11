"""Verdicts on R1 to R15 from the reacher's runs; `verdicts` says how an interval decides.

How we read the claims' words: "almost at once" is between 5 and 15 % of all training; "unsatisfactory" is below 75 % of
C51 trained alone; "gracefully" is at most 25 points of normalised return a step of beta; "about equal" failures differ
by less than a tenth of what SFC51 has; "considerably lower", "far exceeds" and "modestly more" are the direction alone.
Returns and failures of the end are those of the final policies. Differences are paired by seed, over the seeds that all
compared runs have. R5, R8 and R9 were fixed before their runs were made.

A rule is a function of `Measures` and a row of `RULES`, with the labels of the runs it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from rasf.agents import AGENTS
from rasf.arrays import Floats
from rasf.envs.reacher.world import Reacher
from rasf.experiments.common.results import Finding, Verdict
from rasf.experiments.common.verdicts import below, holds, side, with_enough_seeds, within, worst
from rasf.experiments.reacher.beliefs import grid
from rasf.experiments.reacher.measures import RISKS, Measures
from rasf.experiments.reacher.training import TRAINING
from rasf.statistics import (
    Interval,
    interquartile_mean,
    joint_interval,
    mean_interval,
    probability_of_improvement,
    ratio_interval,
    slopes,
    stratified_interval,
)

_SATISFACTORY = 0.75
_GRACEFUL = 0.25
_ABOUT_EQUAL = 0.1
_AGREE = 0.9  # "approximates well": the same action in nine states of ten
_MISSED = 0.1  # metres from the target: a policy that holds its tip farther away has not found it
Judged = tuple[Verdict, str]


def judge(measured: Measures) -> dict[str, Finding]:
    """All findings for which the runs are there."""
    findings = {
        claim: finding(measured, *rule) for claim, rule in RULES.items() if set(rule[0]) <= measured.arrays.keys()
    }
    if {"rasfc51", "rac51"} <= {name.split()[0] for name in measured.arrays}:
        findings["R13"] = wall_time(measured)
    return findings


def finding(measured: Measures, needed: tuple[str, ...], rule: Callable[[Measures], Judged]) -> Finding:
    """What a rule says of the runs it needs, by the seeds of the one that has fewest."""
    return with_enough_seeds(Finding(*rule(measured), min(map(measured.seeds, needed))))


def _common(*values: Floats) -> list[Floats]:
    """The seeds that all have: they come sorted, and every run begins with the first."""
    n = min(map(len, values))
    return [part[:n] for part in values]


def _gap(more: Floats, less: Floats) -> Interval:
    first, second = _common(more, less)
    return mean_interval(first - second)


def _r1(m: Measures) -> Judged:
    early = (m.steps > 0.05 * m.steps[-1]) & (m.steps <= 0.15 * m.steps[-1])
    returns = m.normalised("rasfc51 -3")[:, early, : len(TRAINING)].mean(axis=1)
    intervals = [mean_interval(task) for task in returns.T]
    text = f"normalised return on the four tasks: {', '.join(map(str, intervals))}"
    return worst(side(i, _SATISFACTORY) for i in intervals), text


def _r2(m: Measures) -> Judged:
    intervals = [mean_interval(task) for task in m.final("rac51 -3", "return")[:, : len(TRAINING)].T]
    below = sum(i.high < _SATISFACTORY for i in intervals)
    above = sum(i.low > _SATISFACTORY for i in intervals)
    verdict: Verdict = "holds" if below >= 2 else "does not hold" if above >= 3 else "not decided"
    return verdict, f"final return on the four tasks: {', '.join(map(str, intervals))}"


def _r3(m: Measures) -> Judged:
    ours = m.final_test("rasfc51 -3", "return")
    gaps = {name: _gap(ours, m.final_test(name, "return")) for name in ("rac51 -3", "rac51 0")}
    if "rac51-relabelled -3" in m.arrays:
        fairer = f"; against RaC51 with relabelled targets {_gap(ours, m.final_test('rac51-relabelled -3', 'return'))}"
    else:
        fairer = ""
    text = f"RaSFC51 {mean_interval(ours)}, more than RaC51 by {gaps['rac51 -3']}, than C51 by {gaps['rac51 0']}"
    return worst(map(side, gaps.values())), text + fairer + _by_task(m, "rasfc51 -3", tuple(gaps))


def _by_task(m: Measures, ours: str, others: tuple[str, ...]) -> str:
    """Interquartile mean over seeds and test tasks, and how often ours is better on a task; in words."""
    scores = {name: m.final(name, "return")[:, len(TRAINING) :] for name in (ours, *others)}
    if min(map(len, scores.values())) < 2:
        return ""  # one run has no interval
    middle = stratified_interval(scores[ours], interquartile_mean, whole_runs=True)
    wins = [
        str(probability_of_improvement(*_common(scores[ours], scores[name]), paired=True, whole_runs=True))
        for name in others
    ]
    return f"; interquartile mean {middle}, the better one on a test task with probability {' and '.join(wins)}"


def _r4(m: Measures) -> Judged:
    averse, neutral = m.test_failures("rasfc51 -3"), m.test_failures("rasfc51 0")
    parts = np.array_split(np.arange(1, averse.shape[1]), 5)
    gaps = [_gap(neutral[:, part].mean(axis=1), averse[:, part].mean(axis=1)) for part in parts]
    last = (averse[:, parts[-1]].mean(), neutral[:, parts[-1]].mean())
    text = f"failures saved in each fifth of training: {', '.join(map(str, gaps))}; at the end {last[0]:.1f} against "
    return worst(map(side, gaps)), text + f"{last[1]:.1f}"


def _r5(m: Measures) -> Judged:
    ours, theirs = ([m.final_test(f"{agent} {risk}", "return") for risk in RISKS] for agent in ("rasfc51", "rac51"))
    above = [_gap(*pair) for pair in zip(ours, theirs, strict=True)]
    drops = [_gap(before, after) for agent in (ours, theirs) for before, after in pairwise(agent)]
    graceful = worst(below(drop, _GRACEFUL) for drop in drops)
    levels = "; ".join(
        f"{risk}: {a.mean():.2f} against {b.mean():.2f}" for risk, a, b in zip(RISKS, ours, theirs, strict=True)
    )
    text = f"RaSFC51 against RaC51 at {levels}; RaSFC51 is above by {', '.join(map(str, above))}; "
    text += f"largest drop a step {max(drops)}"
    return worst([graceful, *map(side, above)]), text


def _r6(m: Measures) -> Judged:
    gap = _gap(m.final_test("rasfc51 0", "return"), m.final_test("sfdqn 0", "return"))
    texts = [f"SFC51 above SFDQN by {gap}"]
    for name, words in (("sfdqn gpi 0", "GPI bootstrap"), ("sfdqn no-target 0", "no target networks")):
        if name in m.arrays:
            other = _gap(m.final_test("rasfc51 0", "return"), m.final_test(name, "return"))
            texts.append(f"above SFDQN with {words} by {other}")
    return side(gap), "; ".join(texts)


def _r7(m: Measures) -> Judged:
    verdicts, texts = [], []
    for agent in ("rasfc51", "rac51"):
        levels = np.stack(_common(*(m.final_test(f"{agent} {risk}", "failures") for risk in RISKS)), axis=1)
        slope = mean_interval(-slopes(levels))
        verdicts.append(side(slope))
        shown = ", ".join(f"{level:.1f}" for level in levels.mean(axis=0))
        texts.append(f"{AGENTS[agent].title} {shown}, {slope} fewer a step")
    return worst(verdicts), "; ".join(texts)


def _r8(m: Measures) -> Judged:
    gaps = [_gap(m.final_test(f"rasfc51 {r}", "failures"), m.final_test(f"rac51 {r}", "failures")) for r in RISKS]
    margin = _ABOUT_EQUAL * float(m.final_test("rasfc51 0", "failures").mean())
    text = "RaSFC51's failures minus RaC51's: " + ", ".join(f"{r}: {gap}" for r, gap in zip(RISKS, gaps, strict=True))
    text += f"; about equal is within {margin:.1f}"
    return worst([*map(side, gaps[:-1]), within(gaps[-1], -margin, margin)]), text


def _r9(m: Measures) -> Judged:
    texts: list[str] = []
    verdicts: list[Verdict] = []
    for risk in ("-3", "-4"):
        names = (f"rasfc51 {risk}", f"rac51 {risk}")
        a, b, c, d = _common(*(m.final_test(name, what) for name in names for what in ("return", "failures")))
        more = joint_interval(_difference_of_ratios, a, b, c, d)
        verdicts.append(side(more))
        texts.append(f"{risk}: {ratio_interval(a, b)} against {ratio_interval(c, d)}, difference {more}")
    return worst(verdicts), "normalised return per failure, RaSFC51 against RaC51, " + "; ".join(texts)


def _difference_of_ratios(top: Floats, bottom: Floats, other_top: Floats, other_bottom: Floats) -> Floats:
    a, b, c, d = (values.mean(axis=-1) for values in (top, bottom, other_top, other_bottom))
    return np.asarray(a / b - c / d)


def _r10(m: Measures) -> Judged:
    risky = np.array(Reacher().risky)
    inside = {name: m.final(name, "in_circle")[:, risky].mean(axis=1) for name in ("rasfc51 -3", "rasfc51 0")}
    avoided = _gap(inside["rasfc51 0"], inside["rasfc51 -3"])
    missed = {
        name: (m.final(name, "distance")[:, len(TRAINING) :] > _MISSED).sum(axis=1).astype(float)
        for name in ("rasfc51 -3", "rac51 -3")
    }
    lost = _gap(missed["rac51 -3"], missed["rasfc51 -3"])
    away = m.final("rasfc51 -3", "distance")[:, risky].mean()
    text = (
        f"on risky targets RaSFC51 is in a circle {inside['rasfc51 -3'].mean():.0%} of the time, "
        f"{100 * away:.1f} cm from the target (radius 6), SFC51 {inside['rasfc51 0'].mean():.0%}, difference {avoided}"
        f"; RaC51 misses {missed['rac51 -3'].mean():.1f} of 8 test targets, RaSFC51 {missed['rasfc51 -3'].mean():.1f}, "
        f"difference {lost}"
    )
    return worst([side(avoided), side(lost)]), text


def _r11(m: Measures) -> Judged:
    """How far from each risky target the objective of GPI peaks."""
    world, where = Reacher(), grid(m.map_points)
    tips = where.tips[where.reached]
    off = {}
    for name in ("rasfc51 -3", "rasfc51 0"):
        best = m.arrays[name]["map_objective"].max(axis=1).argmax(axis=-1)  # (seeds, 12)
        away = np.linalg.norm(tips[best] - world.target_positions(), axis=-1)
        off[name] = mean_interval(away[:, list(world.risky)].mean(axis=1))
    on_it = 2 * (where.tips[0, 1, 0] - where.tips[0, 0, 0])
    text = (
        f"metres between a risky target and the peak: RaSFC51 {off['rasfc51 -3']} (the circle's radius is "
        f"{world.radius:g}), SFC51 {off['rasfc51 0']} (two grid cells are {on_it:.2g})"
    )
    return worst([side(off["rasfc51 -3"], world.radius), below(off["rasfc51 0"], on_it)]), text


def _r12(m: Measures) -> Judged:
    """Relative error of the learned variance of every policy on its own task, after all tasks.

    Beside it how far it is in the right places: its correlation with the truth over the positions of the tip.
    """
    error, places = {}, {}
    for name in ("rasfc51 -3", "sfdqn-residual -3"):
        learned, truth = (m.arrays[name][key][:, -1] for key in ("map_variance", "map_truth"))
        error[name] = np.abs(learned - truth).mean(axis=(1, 2)) / truth.mean(axis=(1, 2))
        places[name] = mean_interval(_correlation(learned, truth).mean(axis=1))
    gap = _gap(error["sfdqn-residual -3"], error["rasfc51 -3"])
    negative = m.arrays["sfdqn-residual -3"]["map_negative"][:, -1].mean()
    learns = mean_interval(error["rasfc51 -3"])
    text = (
        f"mean error over mean variance: RaSFC51 {learns}, residual {mean_interval(error['sfdqn-residual -3'])}, "
        f"difference {gap}; correlation with the truth over positions {places['rasfc51 -3']} and "
        f"{places['sfdqn-residual -3']}; the residual's variance is negative in {negative:.1%} of the states"
    )
    return worst([below(learns, 0.5), side(gap)]), text


def _correlation(first: Floats, second: Floats) -> Floats:
    """Of each pair of rows along the last axis."""
    x, y = (part - part.mean(axis=-1, keepdims=True) for part in (first, second))
    lengths = np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1)
    # a row of equal values is correlated with nothing
    return np.sum(x * y, axis=-1) / np.where(lengths > 0, lengths, np.inf)


def wall_time(m: Measures) -> Finding:
    """R13, in seconds a trial; of the paper's hours, what can be checked is that RaSFC51 costs more than RaC51."""
    cost, trials = {}, {}
    for agent in ("rasfc51", "rac51"):
        seconds = np.concatenate([one["seconds"][:, 0] for name, one in m.arrays.items() if name.split()[0] == agent])
        cost[agent], trials[agent] = float(seconds.mean()), len(seconds)
    text = ", ".join(f"{agent} {cost[agent]:.0f} s a trial ({trials[agent]} trials)" for agent in cost)
    verdict = holds(cost["rasfc51"] > cost["rac51"])
    return Finding(verdict, f"compilation and evaluation included, many trials at once: {text}", trials["rasfc51"])


def _r14(m: Measures) -> Judged:
    verdicts, texts = [], []
    for name, words in (("rac51 0", "C51"), ("rac51 -3", "RaC51")):
        failures = m.test_failures(name)
        n = max(1, failures.shape[1] // 5)
        gap = _gap(failures[:, 1 : n + 1].mean(axis=1), failures[:, -n:].mean(axis=1))
        verdicts.append(side(gap))
        held = m.final(name, "distance")[:, len(TRAINING) :].mean()
        texts.append(f"{words}: first fifth minus last fifth {gap}, holds {100 * held:.1f} cm from the test targets")
    return worst(verdicts), "; ".join(texts)


def _r15(m: Measures) -> Judged:
    found = {key: m.arrays["rasfc51 -3"][f"risk_{key}"] for key in ("agree", "apart", "level", "trace", "lost")}
    agree = mean_interval(found["agree"])
    text = (
        f"GPI by mean-variance and by the exact utility agree in a share of {agree} of the states; scores differ by "
        f"{found['apart'][:, 1].mean():.3g} (median), {found['apart'][:, 2].mean():.3g} (0.9 quantile), at a level of "
        f"{found['level'].mean():.3g}; 1e-9 of mass on every atom moves the exact one by "
        f"{found['trace'][:, 1].mean():.3g} (median); the plain formula overflows for {found['lost'].mean():.0%}"
    )
    return side(agree, _AGREE), text


_BY_RISK = tuple(f"{agent} {risk}" for agent in ("rasfc51", "rac51") for risk in RISKS)
RULES: dict[str, tuple[tuple[str, ...], Callable[[Measures], Judged]]] = {
    "R1": (("rasfc51 -3",), _r1),
    "R2": (("rac51 -3",), _r2),
    "R3": (("rasfc51 -3", "rac51 -3", "rac51 0"), _r3),
    "R4": (("rasfc51 0", "rasfc51 -3"), _r4),
    "R5": (_BY_RISK, _r5),
    "R6": (("rasfc51 0", "sfdqn 0"), _r6),
    "R7": (_BY_RISK, _r7),
    "R8": (_BY_RISK, _r8),
    "R9": (("rasfc51 -3", "rac51 -3", "rasfc51 -4", "rac51 -4"), _r9),
    "R10": (("rasfc51 0", "rasfc51 -3", "rac51 -3", "rac51 0"), _r10),
    "R11": (("rasfc51 0", "rasfc51 -3"), _r11),
    "R12": (("rasfc51 -3", "sfdqn-residual -3"), _r12),
    "R14": (("rac51 0", "rac51 -3"), _r14),
    "R15": (("rasfc51 -3",), _r15),
}
