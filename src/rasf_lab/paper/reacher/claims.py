"""Judge claims R1 to R18 by the runs of the reacher. A claim can have two readings (interpretations of its words).

`claims.toml` has the text of every claim, and most rules as data. This module has the measures that these rules name,
and the rules of R3, R5 and R13 as functions. Words of the claims are read as follows:

    almost at once        between 5 and 15 % of all training
    unsatisfactory        a return below 75 % of that of C51 trained on the task alone
    gracefully            the normalised return drops by less than 0.25 from one beta to the next
    about equal           failures differ by less than a tenth of SFC51's failures
    considerably lower, far exceeds, modestly more        only the sign of the difference is tested

Final returns and failures are those of the policies at the end of training. Differences are paired by seed, over the
seeds that all compared agents have. The rules of R5, R8 and R9 were fixed before the runs that they judge. Second
readings were declared after the verdicts on the first readings, and both verdicts are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np

from rasf.agents import AGENTS
from rasf.arrays import Bools, Floats
from rasf.envs.reacher.world import Reacher
from rasf.statistics import (
    Interval,
    interquartile_mean,
    mean_interval,
    probability_of_improvement,
    stratified_interval,
)
from rasf_lab.common.claims import FIRST, SECOND
from rasf_lab.common.results import Finding, Reading
from rasf_lab.common.rules import Measure
from rasf_lab.common.verdicts import below, holds, side, with_enough_seeds, worst
from rasf_lab.paper.reacher.beliefs import grid
from rasf_lab.paper.reacher.measures import RISKS, Measures
from rasf_lab.paper.reacher.training import TRAINING

_GRACEFUL = 0.25  # R5: the normalised return drops by less than this from one beta to the next
_MISSED = 0.1  # metres: a policy misses a target if it holds the tip farther away from this target
_OWN_PHASE = (0.2, 0.4)  # `_in_own_phase` averages from 20 to 40 % of the training on a task
_N = len(TRAINING)
CLAIMS = tuple(f"R{n}" for n in range(1, 19))
BEYOND = ("rasfdqn beyond", "rac51 beyond")  # our agent and its rival in presets without the paper's agents


def judge(measured: Measures) -> dict[str, Finding]:
    """Return the findings on all claims whose runs exist, by claim. A finding has the verdicts by both readings."""
    findings = {}
    for claim in CLAIMS:
        first = read(claim, measured)
        if first is None and claim in ("R3", "R4"):
            first = read(claim, measured, agents=BEYOND)
        if first is not None:
            findings[claim] = Finding(**vars(first), second_reading=read_again(claim, measured))
    return findings


def read(claim: str, measured: Measures, agents: tuple[str, str] = ("rasfc51", "rac51")) -> Reading | None:
    """Return the verdict and the report by a claim's first reading; None if runs are missing.

    Args:
        claim: the id of the claim.
        measured: the measures of all runs.
        agents: our agent and its rival. Default: "rasfc51" and "rac51".
    """
    if claim in FIRST:
        found = FIRST[claim].read(measured, MEASURES, agent=agents[0], when="final")
    else:
        found = ODD[claim](measured, *agents)
    return found and (found if claim == "R13" else with_enough_seeds(found))


def read_again(claim: str, measured: Measures) -> Reading | None:
    """Return the verdict and the report by a claim's second reading; None if it has none, or if runs are missing."""
    found = SECOND[claim].read(measured, MEASURES) if claim in SECOND else None
    if found and claim == "R2" and measured.alone_averse is not None:
        alone = ", ".join(str(mean_interval(task)) for task in measured.alone_averse[:, :_N].T)
        found = replace(found, measured=f"{found.measured}. RaC51 (-3) trained alone on each: {alone}")
    return found and with_enough_seeds(found)


# --- the measures that rules name. Each takes the measures of all runs and a label such as "rasfc51 -3", and returns an
# array (seeds,) or (seeds, columns)


def _early_return(m: Measures, name: str) -> Floats:
    early = (m.steps > 0.05 * m.steps[-1]) & (m.steps <= 0.15 * m.steps[-1])
    return m.normalised(name)[:, early, :_N].mean(axis=1)


def _in_own_phase(m: Measures, name: str) -> Floats:
    """Return the mean normalised return on each training task, from 20 to 40 % of the training on this task."""
    phase, returns = m.steps[-1] / _N, []
    for task in TRAINING:
        into = (m.steps - task * phase) / phase  # dividing last gives all tasks the same window despite rounding
        window = (into > _OWN_PHASE[0]) & (into <= _OWN_PHASE[1])
        returns.append(m.normalised(name)[:, window, task].mean(axis=1))
    return np.stack(returns, axis=1)


def _fifths(m: Measures, name: str) -> Floats:
    """Return the mean test failures (seeds, 5) in each fifth of training, without the evaluation before training."""
    curve = m.test_failures(name)
    return np.stack([part.mean(axis=1) for part in np.array_split(curve[:, 1:], 5, axis=1)], axis=1)


def _begin_and_end(m: Measures, name: str) -> tuple[Floats, Floats]:
    """Return mean test failures in the first and the last fifth of training, without the evaluation before training."""
    curve = m.test_failures(name)
    n = max(1, curve.shape[1] // 5)
    return curve[:, 1 : n + 1].mean(axis=1), curve[:, -n:].mean(axis=1)


def _risky(m: Measures, name: str, what: str) -> Floats:
    """Return the measure `what` of the final policy on the six risky targets (seeds, 6)."""
    return m.final(name, what)[:, list(Reacher().risky)]


def _peaks(m: Measures, name: str) -> Floats:
    """Return the tip position (seeds, 6, 2) with the highest score of any policy and action, for each risky target."""
    where = grid(m.points(name))
    best = m.arrays[name]["map_peaks"].astype(int)  # (seeds, 12)
    return np.asarray(where.tips[where.reached][best][:, list(Reacher().risky)])


def _metres_off(m: Measures, name: str) -> Floats:
    world = Reacher()
    away = np.linalg.norm(_peaks(m, name) - world.target_positions(world.risky), axis=-1)
    return np.asarray(away.mean(axis=1))


def _two_cells(m: Measures, name: str) -> Floats:
    tips = grid(m.points(name)).tips
    return np.full(m.seeds(name), 2 * (tips[0, 1, 0] - tips[0, 0, 0]))


def _error(m: Measures, name: str) -> Floats:
    """Return mean |learned - true variance| / mean true variance, for policies on their own tasks after training."""
    learned, truth = (m.arrays[name][key] for key in ("last_variance", "last_truth"))
    return np.asarray(np.abs(learned - truth).mean(axis=(1, 2)) / truth.mean(axis=(1, 2)))


def _correlation(m: Measures, name: str) -> Floats:
    """Return the correlation between learned and true variance over positions of the tip, averaged over policies."""
    x, y = (
        m.arrays[name][key] - m.arrays[name][key].mean(axis=-1, keepdims=True)
        for key in ("last_variance", "last_truth")
    )
    lengths = np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1)
    # the correlation with a constant map is set to 0
    return np.asarray((np.sum(x * y, axis=-1) / np.where(lengths > 0, lengths, np.inf)).mean(axis=1))


def _circles(m: Measures, name: str) -> Bools:
    """Return a mask of the map's points that are in a risky circle."""
    where = grid(m.points(name))
    return np.asarray(Reacher().in_circle(where.tips[where.reached]))


def _more_inside(m: Measures, name: str, what: str) -> Floats:
    return np.asarray(larger_inside(m.arrays[name][f"last_{what}"], _circles(m, name)).mean(axis=1))


def _inside(m: Measures, name: str, what: str) -> Floats:
    return np.asarray(m.arrays[name][f"last_{what}"][..., _circles(m, name)].mean(axis=(1, 2)))


def larger_inside(values: Floats, inside: Bools) -> Floats:
    """Return the probability (..) that a point inside has a larger value than a point outside; equal values count half.

    Args:
        values: the values of P points (.., P).
        inside: whether a point is inside (P,).
    """
    within, without = values[..., inside, None], values[..., None, ~inside]
    return np.asarray((within > without).mean(axis=(-2, -1)) + (within == without).mean(axis=(-2, -1)) / 2)


MEASURES: Mapping[str, Measure[Measures]] = {
    "early return on the training tasks": _early_return,
    "return in its own phase": _in_own_phase,
    "final return on the training tasks": lambda m, name: m.final(name, "return")[:, :_N],
    "final test return": lambda m, name: m.final_test(name, "return"),
    "final test failures": lambda m, name: m.final_test(name, "failures"),
    "final training failures": lambda m, name: m.final(name, "failures")[:, :_N].sum(axis=1),
    "late test return": lambda m, name: m.late_test(name, "return"),
    "late test failures": lambda m, name: m.late_test(name, "failures"),
    "test failures in each fifth": _fifths,
    "test failures in the last fifth": lambda m, name: _fifths(m, name)[:, -1],
    "test failures in the first fifth": lambda m, name: _begin_and_end(m, name)[0],
    "test failures at the end": lambda m, name: _begin_and_end(m, name)[1],
    "share of time in a circle": lambda m, name: _risky(m, name, "in_circle").mean(axis=1),
    "cm from risky targets": lambda m, name: 100 * _risky(m, name, "distance").mean(axis=1),
    "cm from each risky target": lambda m, name: 100 * _risky(m, name, "distance"),
    "cm from the test targets": lambda m, name: 100 * m.final_test(name, "distance"),
    "targets missed": lambda m, name: np.sum(m.final(name, "distance")[:, _N:] > _MISSED, axis=1).astype(float),
    "metres from risky targets to the peak": _metres_off,
    "metres of two cells": _two_cells,
    "points of the map": lambda m, name: np.full(m.seeds(name), float(m.points(name))),
    "share of peaks in a circle": lambda m, name: np.asarray(Reacher().in_circle(_peaks(m, name))).mean(axis=1),
    "error over mean variance": _error,
    "correlation with the truth": _correlation,
    "share of negative variances": lambda m, name: (
        m.arrays[name]["map_negative"][:, -1].reshape(m.seeds(name), -1).mean(axis=1)
    ),
    "probability of more variance inside": lambda m, name: _more_inside(m, name, "variance"),
    "probability of more true variance inside": lambda m, name: _more_inside(m, name, "truth"),
    "variance inside": lambda m, name: _inside(m, name, "variance"),
    "true variance inside": lambda m, name: _inside(m, name, "truth"),
    "variance inside over the truth": lambda m, name: _inside(m, name, "variance") / _inside(m, name, "truth"),
    "agreement": lambda m, name: m.arrays[name]["risk_agree"],
    "scores apart, median": lambda m, name: m.arrays[name]["risk_apart"][:, 1],
    "scores apart, 0.9 quantile": lambda m, name: m.arrays[name]["risk_apart"][:, 2],
    "level of the scores": lambda m, name: m.arrays[name]["risk_level"].reshape(m.seeds(name), -1).mean(axis=1),
    "move by 1e-9 of mass": lambda m, name: m.arrays[name]["risk_trace"][:, 1],
    "share that overflows": lambda m, name: m.arrays[name]["risk_lost"].reshape(m.seeds(name), -1).mean(axis=1),
}


# --- rules as functions


def far_exceeds(measured: Measures, agent: str, rival: str) -> Reading | None:
    """Return the verdict on claim R3, which compares final test returns; None if runs are missing.

    The report also has the difference to RaC51 trained with relabelled transitions, and the probability that our agent
    is better on a test task.

    Args:
        measured: the measures of all runs.
        agent: our agent, at beta -3.
        rival: the agent to compare with, at beta -3 and at beta 0.
    """
    name, others = f"{agent} -3", (f"{rival} -3", f"{rival} 0")
    if not {name, *others} <= measured.arrays.keys():
        return None
    m = measured.of_common_seeds(name, *others)
    ours = m.final_test(name, "return")
    gaps = [_gap_to(m, name, other) for other in others]
    text = (
        f"{AGENTS[agent.split()[0]].title} {mean_interval(ours)}, more than RaC51 by {gaps[0]}, than C51 by {gaps[1]}"
    )
    if "rac51-relabelled -3" in m.arrays:
        text += f"; against RaC51 with relabelled targets {_gap_to(m, name, 'rac51-relabelled -3')}"
    scores = [m.final(one, "return")[:, _N:] for one in (name, *others)]
    if len(ours) > 1:  # a single run has no interval
        middle = stratified_interval(scores[0], interquartile_mean, whole_runs=True)
        wins = [
            str(probability_of_improvement(scores[0], theirs, paired=True, whole_runs=True)) for theirs in scores[1:]
        ]
        text += f"; interquartile mean {middle}, the better one on a test task with probability {' and '.join(wins)}"
    number = f"{ours.mean():.2f}: " + ", ".join(f"+{one.estimate:.2f}" for one in gaps)
    return Reading(worst(map(side, gaps)), text, len(ours), number)


def _gap_to(m: Measures, ours: str, other: str) -> Interval:
    """Return the difference in final test return between two labels and its interval, over the seeds of both."""
    both = m.of_common_seeds(ours, other)
    return mean_interval(both.final_test(ours, "return") - both.final_test(other, "return"))


def graceful(measured: Measures, *agents: str) -> Reading | None:
    """Return the verdict on claim R5; None if runs are missing.

    The rule: no step from one beta to the next lowers either agent's final test return by 0.25 or more, and at every
    beta the first agent has a higher final test return than the second agent.
    """
    names = [[f"{agent} {risk}" for risk in RISKS] for agent in agents]
    if not {*names[0], *names[1]} <= measured.arrays.keys():
        return None
    m = measured.of_common_seeds(*names[0], *names[1])
    ours, theirs = ([m.final_test(name, "return") for name in of_agent] for of_agent in names)
    above = [mean_interval(mine - other) for mine, other in zip(ours, theirs, strict=True)]
    drops = [mean_interval(before - after) for agent in (ours, theirs) for before, after in pairwise(agent)]
    levels = "; ".join(
        f"{risk}: {a.mean():.2f} against {b.mean():.2f}" for risk, a, b in zip(RISKS, ours, theirs, strict=True)
    )
    text = (
        f"RaSFC51 against RaC51 at {levels}; RaSFC51 is above by {', '.join(map(str, above))}; "
        f"largest drop a step {max(drops)}"
    )
    verdict = worst([*(below(drop, _GRACEFUL) for drop in drops), *map(side, above)])
    return Reading(verdict, text, len(ours[0]), f"+{min(above).estimate:.2f} or more")


def wall_time(m: Measures, *agents: str) -> Reading | None:
    """Return the verdict on claim R13, in seconds per trial. The claim holds if RaSFC51 takes longer than RaC51."""
    # variants do not count: a label of the paper's own runs is an agent and a beta
    names = [[name for name in m.arrays if name.rsplit(" ", 1)[0] == agent] for agent in agents]
    if not all(names):
        return None
    spent = [np.concatenate([m.arrays[name]["seconds"][:, 0] for name in of_agent]) for of_agent in names]
    text = ", ".join(
        f"{agent} {one.mean():.0f} s a trial ({len(one)} trials)" for agent, one in zip(agents, spent, strict=True)
    )
    ours, theirs = (float(one.mean()) for one in spent)
    text = f"compilation and evaluation included, many trials at once: {text}"
    return Reading(holds(ours > theirs), text, len(spent[0]), f"{ours:.0f} against {theirs:.0f} s")


ODD: Mapping[str, Callable[[Measures, str, str], Reading | None]] = {
    "R3": far_exceeds,
    "R5": graceful,
    "R13": wall_time,
}
