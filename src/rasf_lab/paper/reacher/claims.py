"""Verdicts on R1 to R18 from the reacher's runs, by the first reading of each; `second_readings` has the others.

`verdicts` says how an interval decides, `claims.toml` has the rules in words.

How we read the claims' words: "almost at once" is between 5 and 15 % of all training; "unsatisfactory" is below 75 % of
C51 trained alone; "gracefully" is at most 25 points of normalised return a step of beta; "about equal" failures differ
by less than a tenth of what SFC51 has; "considerably lower", "far exceeds" and "modestly more" are the direction alone.
Returns and failures of the end are those of the final policies. Differences are paired by seed, over the seeds that all
compared runs have. R5, R8 and R9 were fixed before their runs were made.

A rule is a function of `Measures` and a row of `RULES`, with the labels of the runs it needs; it is given the seeds
that these have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import pairwise

import numpy as np

from rasf.agents import AGENTS
from rasf.arrays import Floats, Ints
from rasf.envs.reacher.world import Reacher
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
from rasf_lab.common.results import Reading, Verdict
from rasf_lab.common.verdicts import below, holds, side, with_enough_seeds, within, worst
from rasf_lab.paper.reacher.beliefs import grid
from rasf_lab.paper.reacher.measures import RISKS, Measures
from rasf_lab.paper.reacher.training import TRAINING

SATISFACTORY = 0.75
_GRACEFUL = 0.25
_ABOUT_EQUAL = 0.1
AGREE = 0.9  # "approximates well": the same action in nine states of ten
_MISSED = 0.1  # metres from the target: a policy that holds its tip farther away has not found it
Judged = tuple[Verdict, str, str]  # what was measured, in words, and one number of it
Rules = Mapping[str, tuple[tuple[str, ...], Callable[[Measures], Judged]]]


def read(measured: Measures, rules: Rules) -> dict[str, Reading]:
    """What those rules say for which the runs are there, by the seeds that these have in common."""
    readings = {}
    for claim, (needed, rule) in rules.items():
        if set(needed) <= measured.arrays.keys():
            common = measured.of_common_seeds(*needed)
            verdict, text, number = rule(common)
            readings[claim] = with_enough_seeds(Reading(verdict, text, common.seeds(needed[0]), number))
    return readings


def gap(more: Floats, less: Floats) -> Interval:
    """The mean difference of paired values."""
    return mean_interval(more - less)


def _gap_to(m: Measures, ours: str, other: str) -> Interval:
    """Of the final test return, over the seeds that both have."""
    both = m.of_common_seeds(ours, other)
    return gap(both.final_test(ours, "return"), both.final_test(other, "return"))


def _r1(m: Measures) -> Judged:
    early = (m.steps > 0.05 * m.steps[-1]) & (m.steps <= 0.15 * m.steps[-1])
    returns = m.normalised("rasfc51 -3")[:, early, : len(TRAINING)].mean(axis=1)
    intervals = [mean_interval(task) for task in returns.T]
    text = f"normalised return on the four tasks: {', '.join(map(str, intervals))}"
    return worst(side(i, SATISFACTORY) for i in intervals), text, estimates(intervals)


def _r2(m: Measures) -> Judged:
    intervals = [mean_interval(task) for task in m.final("rac51 -3", "return")[:, : len(TRAINING)].T]
    below = sum(i.high < SATISFACTORY for i in intervals)
    above = sum(i.low > SATISFACTORY for i in intervals)
    verdict: Verdict = "holds" if below >= 2 else "does not hold" if above >= 3 else "not decided"
    return verdict, f"final return on the four tasks: {', '.join(map(str, intervals))}", estimates(intervals)


def estimates(intervals: Iterable[Interval]) -> str:
    """The middles, for a table."""
    return " ".join(f"{one.estimate:.2f}" for one in intervals)


def _r3(m: Measures, agent: str = "rasfc51", rival: str = "rac51") -> Judged:
    name, others = f"{agent} -3", (f"{rival} -3", f"{rival} 0")
    ours = m.final_test(name, "return")
    gaps = [_gap_to(m, name, other) for other in others]
    fairer = ""
    if "rac51-relabelled -3" in m.arrays:
        fairer = f"; against RaC51 with relabelled targets {_gap_to(m, name, 'rac51-relabelled -3')}"
    text = f"{_title(agent)} {mean_interval(ours)}, more than RaC51 by {gaps[0]}, than C51 by {gaps[1]}"
    number = f"{ours.mean():.2f}: " + ", ".join(f"+{one.estimate:.2f}" for one in gaps)
    return worst(map(side, gaps)), text + fairer + _by_task(m, name, others), number


def _title(variant: str) -> str:
    return AGENTS[variant.split()[0]].title


def _by_task(m: Measures, ours: str, others: tuple[str, ...]) -> str:
    """Interquartile mean over seeds and test tasks, and how often ours is better on a task; in words."""
    scores = {name: m.final(name, "return")[:, len(TRAINING) :] for name in (ours, *others)}
    if min(map(len, scores.values())) < 2:
        return ""  # one run has no interval
    middle = stratified_interval(scores[ours], interquartile_mean, whole_runs=True)
    wins = [
        str(probability_of_improvement(scores[ours], scores[name], paired=True, whole_runs=True)) for name in others
    ]
    return f"; interquartile mean {middle}, the better one on a test task with probability {' and '.join(wins)}"


def _r4(m: Measures, agent: str = "rasfc51") -> Judged:
    averse, neutral = m.test_failures(f"{agent} -3"), m.test_failures(f"{agent} 0")
    parts = _fifths(averse)
    gaps = [gap(neutral[:, part].mean(axis=1), averse[:, part].mean(axis=1)) for part in parts]
    last = (averse[:, parts[-1]].mean(), neutral[:, parts[-1]].mean())
    text = f"failures saved in each fifth of training: {', '.join(map(str, gaps))}; at the end {last[0]:.1f} against "
    return worst(map(side, gaps)), text + f"{last[1]:.1f}", f"{last[0]:.1f} < {last[1]:.1f}"


def _fifths(curve: Floats) -> list[Ints]:
    """Of training: indices of evaluations, without the one before it."""
    return np.array_split(np.arange(1, curve.shape[1]), 5)


def _r5(m: Measures) -> Judged:
    ours, theirs = ([m.final_test(f"{agent} {risk}", "return") for risk in RISKS] for agent in ("rasfc51", "rac51"))
    above = [gap(*pair) for pair in zip(ours, theirs, strict=True)]
    drops = [gap(before, after) for agent in (ours, theirs) for before, after in pairwise(agent)]
    graceful = worst(below(drop, _GRACEFUL) for drop in drops)
    levels = "; ".join(
        f"{risk}: {a.mean():.2f} against {b.mean():.2f}" for risk, a, b in zip(RISKS, ours, theirs, strict=True)
    )
    text = f"RaSFC51 against RaC51 at {levels}; RaSFC51 is above by {', '.join(map(str, above))}; "
    text += f"largest drop a step {max(drops)}"
    return worst([graceful, *map(side, above)]), text, f"+{min(above).estimate:.2f} or more"


def _r6(m: Measures) -> Judged:
    more = _gap_to(m, "rasfc51 0", "sfdqn 0")
    texts = [f"SFC51 above SFDQN by {more}"]
    for name, words in (("sfdqn gpi 0", "GPI bootstrap"), ("sfdqn no-target 0", "no target networks")):
        if name in m.arrays:
            texts.append(f"above SFDQN with {words} by {_gap_to(m, 'rasfc51 0', name)}")
    return side(more), "; ".join(texts), f"+{more.estimate:.2f}"


def _r7(m: Measures) -> Judged:
    verdicts, texts, fewer = [], [], []
    for agent in ("rasfc51", "rac51"):
        levels = np.stack([m.final_test(f"{agent} {risk}", "failures") for risk in RISKS], axis=1)
        slope = mean_interval(-slopes(levels))
        verdicts.append(side(slope))
        shown = ", ".join(f"{level:.1f}" for level in levels.mean(axis=0))
        texts.append(f"{AGENTS[agent].title} {shown}, {slope} fewer a step")
        fewer.append(f"-{slope.estimate:.1f}")
    return worst(verdicts), "; ".join(texts), f"{', '.join(fewer)} a step"


def _r8(m: Measures) -> Judged:
    return more_failures({name: m.final_test(name, "failures") for name in BY_RISK})


def more_failures(failures: Mapping[str, Floats]) -> Judged:
    """R8, of failures (seeds,) by label."""
    gaps = [gap(failures[f"rasfc51 {r}"], failures[f"rac51 {r}"]) for r in RISKS]
    margin = _ABOUT_EQUAL * float(failures["rasfc51 0"].mean())
    text = "RaSFC51's failures minus RaC51's: " + ", ".join(f"{r}: {one}" for r, one in zip(RISKS, gaps, strict=True))
    text += f"; about equal is within {margin:.1f}"
    verdict = worst([*map(side, gaps[:-1]), within(gaps[-1], -margin, margin)])
    return verdict, text, f"+{min(gaps[:-1]).estimate:.1f} or more; {gaps[-1].estimate:+.1f} at -4"


def _r9(m: Measures) -> Judged:
    return return_per_failure({(name, what): m.final_test(name, what) for name in AVERSE for what in WHAT})


def return_per_failure(found: Mapping[tuple[str, str], Floats]) -> Judged:
    """R9, of returns and failures (seeds,) by label and which of the two."""
    texts: list[str] = []
    verdicts: list[Verdict] = []
    numbers: list[str] = []
    for risk in ("-3", "-4"):
        a, b, c, d = (found[f"{agent} {risk}", what] for agent in ("rasfc51", "rac51") for what in WHAT)
        more = joint_interval(_difference_of_ratios, a, b, c, d)
        verdicts.append(side(more))
        ours, theirs = ratio_interval(a, b), ratio_interval(c, d)
        texts.append(f"{risk}: {ours} against {theirs}, difference {more}")
        numbers.append(f"{ours.estimate:.3f} against {theirs.estimate:.3f}")
    text = "normalised return per failure, RaSFC51 against RaC51, " + "; ".join(texts)
    return worst(verdicts), text, f"{numbers[0]} at -3"


def _difference_of_ratios(top: Floats, bottom: Floats, other_top: Floats, other_bottom: Floats) -> Floats:
    a, b, c, d = (values.mean(axis=-1) for values in (top, bottom, other_top, other_bottom))
    return np.asarray(a / b - c / d)


def _r10(m: Measures) -> Judged:
    risky = np.array(Reacher().risky)
    inside = {name: m.final(name, "in_circle")[:, risky].mean(axis=1) for name in ("rasfc51 -3", "rasfc51 0")}
    avoided = gap(inside["rasfc51 0"], inside["rasfc51 -3"])
    missed = {name: targets_missed(m, name) for name in ("rasfc51 -3", "rac51 -3")}
    lost = gap(missed["rac51 -3"], missed["rasfc51 -3"])
    away = m.final("rasfc51 -3", "distance")[:, risky].mean()
    text = (
        f"on risky targets RaSFC51 is in a circle {inside['rasfc51 -3'].mean():.0%} of the time, "
        f"{100 * away:.1f} cm from the target (radius 6), SFC51 {inside['rasfc51 0'].mean():.0%}, difference {avoided}"
        f"; RaC51 misses {missed['rac51 -3'].mean():.1f} of 8 test targets, RaSFC51 {missed['rasfc51 -3'].mean():.1f}, "
        f"difference {lost}"
    )
    number = f"{inside['rasfc51 -3'].mean():.0%} against {inside['rasfc51 0'].mean():.0%} inside"
    return worst([side(avoided), side(lost)]), text, number


def targets_missed(m: Measures, name: str) -> Floats:
    """How many (seeds,)."""
    return np.sum(m.final(name, "distance")[:, len(TRAINING) :] > _MISSED, axis=1).astype(float)


def risky_peaks(m: Measures, name: str) -> Floats:
    """Where the objective of GPI peaks on the tasks of the risky targets, (seeds, 6, 2)."""
    where = grid(m.points(name))
    best = m.arrays[name]["map_peaks"].astype(int)  # (seeds, 12)
    return np.asarray(where.tips[where.reached][best][:, list(Reacher().risky)])


def metres_off(m: Measures, name: str) -> Floats:
    """How far from its risky targets the objective of GPI peaks, (seeds,)."""
    world = Reacher()
    away = np.linalg.norm(risky_peaks(m, name) - world.target_positions(world.risky), axis=-1)
    return np.asarray(away.mean(axis=1))


def _r11(m: Measures) -> Judged:
    world, where = Reacher(), grid(m.points("rasfc51 0"))
    off = {name: mean_interval(metres_off(m, name)) for name in ("rasfc51 -3", "rasfc51 0")}
    on_it = 2 * (where.tips[0, 1, 0] - where.tips[0, 0, 0])
    text = (
        f"metres between a risky target and the peak: RaSFC51 {off['rasfc51 -3']} (the circle's radius is "
        f"{world.radius:g}), SFC51 {off['rasfc51 0']} (two grid cells are {on_it:.2g})"
    )
    verdict = worst([side(off["rasfc51 -3"], world.radius), below(off["rasfc51 0"], on_it)])
    return verdict, text, f"{100 * off['rasfc51 -3'].estimate:.1f} against {100 * off['rasfc51 0'].estimate:.1f} cm"


def _r12(m: Measures) -> Judged:
    """Relative error of the learned variance of every policy on its own task, after all tasks.

    Beside it how far it is in the right places: its correlation with the truth over the positions of the tip.
    """
    error, places = {}, {}
    for name in ("rasfc51 -3", "sfdqn-residual -3"):
        learned, truth = (m.arrays[name][key] for key in ("last_variance", "last_truth"))
        error[name] = np.abs(learned - truth).mean(axis=(1, 2)) / truth.mean(axis=(1, 2))
        places[name] = mean_interval(_correlation(learned, truth).mean(axis=1))
    more = gap(error["sfdqn-residual -3"], error["rasfc51 -3"])
    negative = m.arrays["sfdqn-residual -3"]["map_negative"][:, -1].mean()
    learns = mean_interval(error["rasfc51 -3"])
    text = (
        f"mean error over mean variance: RaSFC51 {learns}, residual {mean_interval(error['sfdqn-residual -3'])}, "
        f"difference {more}; correlation with the truth over positions {places['rasfc51 -3']} and "
        f"{places['sfdqn-residual -3']}; the residual's variance is negative in {negative:.1%} of the states"
    )
    return worst([below(learns, 0.5), side(more)]), text, f"error {learns.estimate:.0%}"


def _correlation(first: Floats, second: Floats) -> Floats:
    """Of each pair of rows along the last axis."""
    x, y = (part - part.mean(axis=-1, keepdims=True) for part in (first, second))
    lengths = np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1)
    # a row of equal values is correlated with nothing
    return np.sum(x * y, axis=-1) / np.where(lengths > 0, lengths, np.inf)


def wall_time(m: Measures) -> Reading:
    """R13, in seconds a trial; of the paper's hours, what can be checked is that RaSFC51 costs more than RaC51."""
    cost, trials = {}, {}
    for agent in ("rasfc51", "rac51"):
        # the label of the paper's own is the agent and its beta, no more
        plain = [one["seconds"][:, 0] for name, one in m.arrays.items() if name.rsplit(" ", 1)[0] == agent]
        seconds = np.concatenate(plain)
        cost[agent], trials[agent] = float(seconds.mean()), len(seconds)
    text = ", ".join(f"{agent} {cost[agent]:.0f} s a trial ({trials[agent]} trials)" for agent in cost)
    verdict = holds(cost["rasfc51"] > cost["rac51"])
    text = f"compilation and evaluation included, many trials at once: {text}"
    return Reading(verdict, text, trials["rasfc51"], f"{cost['rasfc51']:.0f} against {cost['rac51']:.0f} s")


def _r14(m: Measures) -> Judged:
    verdicts, texts, numbers = [], [], []
    for name, words in (("rac51 0", "C51"), ("rac51 -3", "RaC51")):
        failures = m.test_failures(name)
        n = max(1, failures.shape[1] // 5)
        fewer = gap(failures[:, 1 : n + 1].mean(axis=1), failures[:, -n:].mean(axis=1))
        verdicts.append(side(fewer))
        numbers.append(f"-{fewer.estimate:.0f}" if fewer.estimate >= 9.5 else f"-{fewer.estimate:.1f}")
        held = m.final(name, "distance")[:, len(TRAINING) :].mean()
        texts.append(f"{words}: first fifth minus last fifth {fewer}, holds {100 * held:.1f} cm from the test targets")
    return worst(verdicts), "; ".join(texts), ", ".join(numbers)


def _r15(m: Measures) -> Judged:
    found = {key: m.arrays["rasfc51 -3"][f"risk_{key}"] for key in ("agree", "apart", "level", "trace", "lost")}
    agree = mean_interval(found["agree"])
    text = (
        f"GPI by mean-variance and by the exact utility agree in a share of {agree} of the states; scores differ by "
        f"{found['apart'][:, 1].mean():.3g} (median), {found['apart'][:, 2].mean():.3g} (0.9 quantile), at a level of "
        f"{found['level'].mean():.3g}; 1e-9 of mass on every atom moves the exact one by "
        f"{found['trace'][:, 1].mean():.3g} (median); the plain formula overflows for {found['lost'].mean():.0%}"
    )
    return side(agree, AGREE), text, f"{agree.estimate:.0%} alike"


def _r16(m: Measures) -> Judged:
    missed = mean_interval(targets_missed(m, "rasfc51 0"))
    return (
        below(missed, 0.5),
        f"SFC51 misses {missed} of 8 test targets by {_MISSED:g} m",
        f"misses {missed.estimate:.1f}",
    )


def _r17(m: Measures) -> Judged:
    averse, neutral = m.test_failures("rasfc51 -3"), m.test_failures("rasfc51 0")
    parts = _fifths(averse)
    half = neutral[:, parts[-1]].mean(axis=1) / 2
    levels = [averse[:, part].mean(axis=1) for part in parts]
    shown = ", ".join(f"{level.mean():.1f}" for level in levels)
    verdict = worst(side(gap(half, level)) for level in levels)
    means = [level.mean() for level in levels]
    text = f"failures in each fifth of training: {shown}; half of SFC51's in the last: {half.mean():.1f}"
    return verdict, text, f"{min(means):.0f} to {max(means):.0f}, half is {half.mean():.0f}"


def _r18(m: Measures) -> Judged:
    n = len(TRAINING)
    verdicts, texts = [], []
    for words, tasks in (("training", slice(None, n)), ("test", slice(n, None))):
        averse, neutral = (m.final(name, "failures")[:, tasks].sum(axis=1) for name in ("rasfc51 -3", "rasfc51 0"))
        saved = gap(neutral, averse)
        verdicts.append(side(saved))
        texts.append(f"{words} tasks: {averse.mean():.1f} against {neutral.mean():.1f}, difference {saved}")
        number = f"{averse.mean():.1f} < {neutral.mean():.1f}"
    return worst(verdicts), "failures a rollout, RaSFC51 against SFC51, " + "; ".join(texts), number


BY_RISK = tuple(f"{agent} {risk}" for agent in ("rasfc51", "rac51") for risk in RISKS)
AVERSE = ("rasfc51 -3", "rac51 -3", "rasfc51 -4", "rac51 -4")
WHAT = ("return", "failures")
RULES: Rules = {
    "R1": (("rasfc51 -3",), _r1),
    "R2": (("rac51 -3",), _r2),
    "R3": (("rasfc51 -3", "rac51 -3", "rac51 0"), _r3),
    "R4": (("rasfc51 0", "rasfc51 -3"), _r4),
    "R5": (BY_RISK, _r5),
    "R6": (("rasfc51 0", "sfdqn 0"), _r6),
    "R7": (BY_RISK, _r7),
    "R8": (BY_RISK, _r8),
    "R9": (AVERSE, _r9),
    "R10": (("rasfc51 0", "rasfc51 -3", "rac51 -3", "rac51 0"), _r10),
    "R11": (("rasfc51 0", "rasfc51 -3"), _r11),
    "R12": (("rasfc51 -3", "sfdqn-residual -3"), _r12),
    "R14": (("rac51 0", "rac51 -3"), _r14),
    "R15": (("rasfc51 -3",), _r15),
    "R16": (("rasfc51 0",), _r16),
    "R17": (("rasfc51 0", "rasfc51 -3"), _r17),
    "R18": (("rasfc51 0", "rasfc51 -3"), _r18),
}
# where the paper's own agents were not run: agents trained as this library does it
BEYOND_RULES: Rules = {
    "R3": (
        ("rasfdqn beyond -3", "rac51 beyond -3", "rac51 beyond 0"),
        partial(_r3, agent="rasfdqn beyond", rival="rac51 beyond"),
    ),
    "R4": (("rasfdqn beyond 0", "rasfdqn beyond -3"), partial(_r4, agent="rasfdqn beyond")),
}
