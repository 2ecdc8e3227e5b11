"""Verdicts on F1 to F17 and T7 from the four-room runs; `claims.toml` has the rules in words, second readings too.

Differences are paired by seed; `verdicts` says how an interval decides. "Far more" and "slightly" are read as the
direction alone; "about x %" as an interval inside x +- 10 points. Where shared initial noise (Algorithm 1 to the
letter) says otherwise than the independent noise of the paper's preset, the finding says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product

import numpy as np

from rasf.arrays import Bools, Floats, Ints
from rasf.statistics import (
    Interval,
    joint_interval,
    mean_interval,
    probability_of_improvement,
    ratio_interval,
    slopes,
)
from rasf_lab.common.results import Finding, Reading, Verdict
from rasf_lab.common.verdicts import below, side, with_enough_seeds, within, worst
from rasf_lab.paper.four_room import own_claims
from rasf_lab.paper.four_room.measures import (
    NOVEL_TASKS,
    RISKS,
    Arrays,
    Pair,
    dangerous_objects,
    novel_outcome,
    trap_cells,
)

Curves = Mapping[str, Arrays]
Searches = Mapping[str, Mapping[Pair, Floats]]  # returns (seeds,) by "prql -2", then by eta and tau
_FIRST = 16  # tasks
_RESAMPLES = 1_000
_DANGERS = {"traps": trap_cells(), "objects beside traps": dangerous_objects()}


def judge(curves: Curves, novel: Mapping[str, Arrays], searches: Searches) -> dict[str, Finding]:
    """All findings; `novel` has the arrays of the neutral and of the averse runs."""
    first: dict[str, Reading] = {}
    for claim, rule in RULES.items():
        first[claim] = rule(curves, "independent")
        if claim in _WITH_NOISE:
            other = rule(curves, "shared")
            said = "the same" if other.verdict == first[claim].verdict else other.verdict
            text = f"{first[claim].measured}. Shared initial noise: {said} ({other.measured})"
            first[claim] = replace(first[claim], measured=text)
    first |= {claim: rule(novel) for claim, rule in ON_NOVEL_TASKS.items()} | {"F14": _sensitive(searches)}
    second = {claim: rule(curves) for claim, rule in SECOND.items()} | {"F10": _almost_always(novel)}
    if "rasf-model 0" in curves:
        first |= {claim: rule(curves) for claim, rule in own_claims.RULES.items()}
        second |= {claim: rule(curves) for claim, rule in own_claims.SECOND.items()}
    return {
        claim: Finding(
            **vars(with_enough_seeds(reading)),
            second_reading=with_enough_seeds(second[claim]) if claim in second else None,
        )
        for claim, reading in first.items()
    }


def _total(curves: Curves, name: str, what: str) -> Floats:
    return curves[name][what].sum(axis=1)


def _paired(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """The seeds that both have."""
    n = min(len(first), len(second))
    return first[:n], second[:n]


def _more_often(curves: Curves, ours: str, theirs: str) -> str:
    """On how many tasks, of the same seeds, ours has the larger return; in words."""
    pair = _paired(curves[ours]["return"], curves[theirs]["return"])
    return f"with probability {probability_of_improvement(*pair, paired=True, whole_runs=True)}"


def _failures_saved(curves: Curves, noise: str, risk: str) -> tuple[Floats, Floats, Interval]:
    """Failures (seeds,) of RaSFQL and of RaPRQL at one risk, and how many more the second has."""
    ours, theirs = _paired(
        _total(curves, f"sfql {noise} {risk}", "failures"), _total(curves, f"prql {risk}", "failures")
    )
    return ours, theirs, mean_interval(theirs - ours)


def _trend(curves: Curves, name: str, sign: float) -> Reading:
    """Whether the slope of the failures over the tasks has this sign."""
    failures = curves[name]["failures"]
    slope = mean_interval(slopes(failures))
    turned = Interval(sign * slope.estimate, *sorted((sign * slope.low, sign * slope.high)))
    n = min(_FIRST, failures.shape[1] // 2)
    first, last = failures[:, :n].mean(), failures[:, -n:].mean()
    text = f"slope {slope} failures per task and task; first {n} tasks {first:.1f}, last {n} {last:.1f}"
    return Reading(side(turned), text, len(failures), f"{first:.1f} to {last:.1f} a task")


def _drop(curves: Curves, neutral: str, averse: str, claimed: float, margin: float = 0.1) -> Reading:
    """Whether return falls by about the claimed share."""
    drop = joint_interval(_share_lost, _total(curves, averse, "return"), _total(curves, neutral, "return"))
    verdict = within(drop, claimed - margin, claimed + margin)
    return Reading(verdict, f"drop of {drop}, claimed {claimed:g}", len(curves[averse]["return"]), _percent(drop))


def _share_lost(after: Floats, before: Floats) -> Floats:
    return np.asarray(1 - after.mean(axis=-1) / before.mean(axis=-1))


def _percent(share: Interval) -> str:
    return f"{share.estimate:.0%} [{100 * share.low:.0f}, {100 * share.high:.0f}]"


def _f1(curves: Curves, noise: str) -> Reading:
    neutral, averse = _total(curves, f"sfql {noise} 0", "return"), _total(curves, f"sfql {noise} -2", "return")
    gap = mean_interval(neutral - averse)
    often = _more_often(curves, f"sfql {noise} 0", f"sfql {noise} -2")
    text = f"SFQL {neutral.mean():.0f}, RaSFQL {averse.mean():.0f}, difference {gap}; SFQL has more on a task {often}"
    return Reading(side(gap), text, len(averse), f"{averse.mean():,.0f} < {neutral.mean():,.0f}")


def _f2(curves: Curves, noise: str) -> Reading:
    averse = _total(curves, f"sfql {noise} -2", "return")
    others = {"RaPRQL": "prql -2", "PRQL": "prql 0"}
    ratios = {label: ratio_interval(*_paired(averse, _total(curves, name, "return"))) for label, name in others.items()}
    often = " and ".join(_more_often(curves, f"sfql {noise} -2", name) for name in others.values())
    text = ", ".join(f"RaSFQL / {label} = {ratio}" for label, ratio in ratios.items())
    verdict = worst(side(ratio, 1.0) for ratio in ratios.values())
    number = ", ".join(f"{ratio.estimate:.1f}" for ratio in ratios.values())
    return Reading(verdict, f"{text}; RaSFQL has more on a task {often}", len(averse), f"{number} times")


def _f5(curves: Curves, noise: str) -> Reading:
    ours, theirs, gap = _failures_saved(curves, noise, "-2")
    text = f"RaPRQL {theirs.mean():.0f}, RaSFQL {ours.mean():.0f}, difference {gap}"
    return Reading(side(gap), text, len(ours), f"{gap.estimate:+.0f} [{gap.low:.0f}, {gap.high:.0f}]")


def _f8(curves: Curves, noise: str, refuted_by: int = 2) -> Reading:
    """RaSFQL fails less at four of the five risks; so many where it fails more speak against it."""
    found = {f"{risk:g}": _failures_saved(curves, noise, f"{risk:g}") for risk in RISKS}
    verdicts = [side(gap) for _, _, gap in found.values()]
    held, failed = verdicts.count("holds"), verdicts.count("does not hold")
    verdict: Verdict = "does not hold" if failed >= refuted_by else "holds" if held >= 4 else "not decided"
    text = ", ".join(f"{risk}: {gap}" for risk, (_, _, gap) in found.items())
    text = f"RaPRQL's failures minus RaSFQL's at {text}; RaSFQL fails less at {held} of 5, more at {failed}"
    return Reading(verdict, text, len(found["-4"][0]), f"less at {held}, more at {failed} of 5")


def _f9(curves: Curves, noise: str) -> Reading:
    """Cumulative failures grow sub-linearly where failures per task fall."""
    trends = {risk: _trend(curves, f"sfql {noise} {risk}", -1.0) for risk in ("-1", "-2", "-4")}
    text = "; ".join(f"{risk}: {trend.measured}" for risk, trend in trends.items())
    number = f"{trends['-4'].number} (-4)"
    return Reading(worst(trend.verdict for trend in trends.values()), text, trends["-2"].seeds, number)


def _f11(curves: Curves, noise: str) -> Reading:
    """Failures of the first tasks."""
    pair = (curves[name]["failures"][:, :_FIRST].mean(axis=1) for name in (f"sfql {noise} -2", "prql -2"))
    ours, theirs = _paired(*pair)
    gap = mean_interval(theirs - ours)
    text = f"first {_FIRST} tasks, failures a task: RaSFQL {ours.mean():.1f}, RaPRQL {theirs.mean():.1f}, "
    return Reading(side(gap), f"{text}difference {gap}", len(ours), f"{ours.mean():.1f} against {theirs.mean():.1f}")


def _f13(curves: Curves, noise: str) -> Reading:
    names = ("prql -4", "prql 0", f"sfql {noise} -4", f"sfql {noise} 0")
    n = min(len(curves[name]["return"]) for name in names)
    totals = [_total(curves, name, "return")[:n] for name in names]
    theirs, ours = joint_interval(_share_lost, *totals[:2]), joint_interval(_share_lost, *totals[2:])
    more = joint_interval(lambda a, b, c, d: _share_lost(a, b) - _share_lost(c, d), *totals)
    text = f"RaPRQL loses {theirs}, RaSFQL {ours}, difference {more}"
    return Reading(side(more), text, n, f"{theirs.estimate:.0%} against {ours.estimate:.0%}")


RULES: dict[str, Callable[[Curves, str], Reading]] = {
    "F1": _f1,
    "F2": _f2,
    "F3": lambda curves, noise: _trend(curves, f"sfql {noise} -2", -1.0),
    "F4": lambda curves, noise: _trend(curves, f"sfql {noise} 0", 1.0),
    "F5": _f5,
    "F6": lambda curves, noise: _drop(curves, f"sfql {noise} 0", f"sfql {noise} -4", 0.25),
    "F7": lambda curves, noise: _drop(curves, "prql 0", "prql -4", 0.75),
    "F8": _f8,
    "F9": _f9,
    "F11": _f11,
    "F12": lambda curves, noise: _trend(curves, "prql -2", -1.0),
    "F13": _f13,
    "F17": lambda curves, noise: _independent(curves),
}
_WITH_NOISE = ("F1", "F2", "F3", "F4", "F5", "F6", "F8", "F9", "F11", "F13")  # PRQL has one kind of initial noise only


def _independent(curves: Curves) -> Reading:
    """F17: with a diagonal Sigma fewer failures than SFQL, and not many more than with a full one."""
    diagonal, full, neutral = (
        _total(curves, f"sfql {name}", "failures") for name in ("diagonal -2", "independent -2", "independent 0")
    )
    saved, ratio = mean_interval(neutral - diagonal), ratio_interval(diagonal, full)
    earned = [f"{_total(curves, f'sfql {name} -2', 'return').mean():.0f}" for name in ("diagonal", "independent")]
    text = (
        f"failures: diagonal {diagonal.mean():.0f}, full {full.mean():.0f}, SFQL {neutral.mean():.0f}; {saved} fewer "
        f"than SFQL, {ratio} times those of the full Sigma; return {earned[0]} against {earned[1]}"
    )
    number = f"{diagonal.mean():,.0f}, full {full.mean():,.0f}"
    return Reading(worst([side(saved), below(ratio, 1.1)]), text, len(full), number)


def _less_than_neutral(curves: Curves) -> Reading:
    """F12 within tasks: RaPRQL against PRQL."""
    averse, neutral = (_total(curves, name, "failures") for name in ("prql -2", "prql 0"))
    gap = mean_interval(neutral - averse)
    text = f"RaPRQL {averse.mean():.0f}, PRQL {neutral.mean():.0f}, difference {gap}"
    return Reading(side(gap), text, len(averse), f"{averse.mean():,.0f} < {neutral.mean():,.0f}")


SECOND: dict[str, Callable[[Curves], Reading]] = {
    "F5": lambda curves: _f5(curves, "w-given"),
    "F7": lambda curves: _drop(curves, "prql 0", "prql c-step-0.1 -4", 0.75, margin=0.15),
    "F8": lambda curves: _f8(curves, "w-given", refuted_by=1),
    "F11": lambda curves: _f11(curves, "w-given"),
    "F12": _less_than_neutral,
}


def _sensitive(searches: Searches) -> Reading:
    """F14: the best eta and tau against the worst, at every omega; the worst may lose, so no ratio."""
    verdicts, texts = [], []
    for risk in RISKS:
        best, *_, poorest = sorted(searches[f"prql {risk:g}"].values(), key=np.mean, reverse=True)
        more = mean_interval(best - 2 * poorest)
        verdicts.append(side(more))
        texts.append(f"{risk:g}: {best.mean():.0f} against {poorest.mean():.0f}, more than twice it by {more}")
    text = "return of the best and of the worst of nine settings, on the tuning seeds, at " + "; ".join(texts)
    number = f"{poorest.mean():,.0f} to {best.mean():,.0f} (-4)"
    return Reading(worst(verdicts), text, len(best), number)


def _steps_on(novel: Mapping[str, Arrays], way: str, mask: Bools) -> Floats:
    """Steps a rollout (seeds, 27) on these cells, trained and acting alike."""
    rollouts = novel[way][f"features_{way}"].shape[2]
    return novel[way][f"visits_{way}"][:, :, mask].sum(axis=2) / rollouts


def _avoids(novel: Mapping[str, Arrays]) -> Reading:
    """F10: fewer steps on traps, and on objects beside traps."""
    texts, verdicts, number = [], [], ""
    for what, mask in _DANGERS.items():
        averse, neutral = (_steps_on(novel, way, mask).mean(axis=1) for way in ("averse", "neutral"))
        gap = mean_interval(neutral - averse)
        verdicts.append(side(gap))
        texts.append(f"{what}: {averse.mean():.2f} steps a rollout against {neutral.mean():.2f}, difference {gap}")
        number = number or f"{averse.mean():.1f} < {neutral.mean():.1f} steps"
    text = "RaSFQL (-2) against SFQL on 27 novel tasks, " + "; ".join(texts)
    return Reading(worst(verdicts), text, len(averse), number)


def _almost_always(novel: Mapping[str, Arrays]) -> Reading:
    """F10 in its own words: at most a fifth of the steps remains."""
    left = {
        what: ratio_interval(*(_steps_on(novel, way, mask).mean(axis=1) for way in ("averse", "neutral")))
        for what, mask in _DANGERS.items()
    }
    text = ", ".join(f"{what}: {share}" for what, share in left.items())
    number = ", ".join(f"{share.estimate:.0%}" for share in left.values())
    verdict = worst(below(share, 0.2) for share in left.values())
    return Reading(
        verdict, f"share of SFQL's steps that remains, {text}", len(novel["averse"]["visits_averse"]), number
    )


def _alike(novel: Mapping[str, Arrays]) -> Reading:
    """F15: overlap of the mean visits of two agents on a task, and of one agent on two tasks; seeds are resampled."""
    visits = [
        novel[way][f"visits_{way}"] / novel[way][f"visits_{way}"].sum(axis=2, keepdims=True)
        for way in ("averse", "neutral")
    ]

    def overlaps(chosen: Ints) -> tuple[float, float]:
        averse, neutral = (each[chosen].mean(axis=0) for each in visits)
        n = len(averse)
        pairs = [np.minimum(each[:, None], each).sum(axis=-1) for each in (averse, neutral)]  # (27, 27), 1 on itself
        across = np.mean([(pair.sum() - n) / (n * (n - 1)) for pair in pairs])
        return float(np.minimum(averse, neutral).sum(axis=-1).mean()), float(across)

    seeds, rng = len(visits[0]), np.random.default_rng(0)
    same, across = overlaps(np.arange(seeds))
    drawn = [np.subtract(*overlaps(rng.integers(seeds, size=seeds))) for _ in range(_RESAMPLES)]
    gap = Interval.of(same - across, [np.array(drawn)], seeds)
    text = f"the two agents on a task {same:.2f}, one agent on two tasks {across:.2f}, difference {gap}"
    return Reading(side(gap), text, seeds, f"{same:.2f} against {across:.2f}")


def _named(novel: Mapping[str, Arrays]) -> Reading:
    """F16: what RaSFQL saves on the tasks that the paper names, and on the others."""
    w = NOVEL_TASKS
    named = (w[:, 1] == 1) | ((w[:, 0] == 1) & (w[:, 1] == -1) & (w[:, 2] <= 0))
    danger = np.logical_or(*_DANGERS.values())
    saved = _steps_on(novel, "neutral", danger) - _steps_on(novel, "averse", danger)
    inside, outside = saved[:, named].mean(axis=1), saved[:, ~named].mean(axis=1)
    gap = mean_interval(inside - outside)
    text = (
        f"steps in danger saved a rollout: {inside.mean():.2f} on the {named.sum()} named tasks, {outside.mean():.2f} "
        f"on the other {(~named).sum()}, difference {gap}"
    )
    return Reading(side(gap), text, len(saved), f"{inside.mean():.2f} against {outside.mean():.2f}")


def _evaluation_matters(novel: Mapping[str, Arrays]) -> Reading:
    """T7: failures by the risk of training and of acting; both effects, paired by seed."""
    f = {
        (train, act): novel_outcome(novel[train][f"features_{act}"])["failures"]
        for train, act in product(("neutral", "averse"), repeat=2)
    }
    act = (f["neutral", "neutral"] - f["neutral", "averse"] + f["averse", "neutral"] - f["averse", "averse"]) / 2
    train = (f["neutral", "neutral"] - f["averse", "neutral"] + f["neutral", "averse"] - f["averse", "averse"]) / 2
    gap = mean_interval(act - train)
    cells = ", ".join(f"train {t}, act {a}: {v.mean():.3f}" for (t, a), v in f.items())
    return Reading(
        side(gap),
        f"four-room, failures a rollout on 27 novel tasks: acting with risk removes {act.mean():.3f}, training with "
        f"risk {train.mean():.3f}, difference {gap} ({cells})",
        len(act),
        f"{act.mean():.2f} against {train.mean():.2f}",
    )


ON_NOVEL_TASKS: dict[str, Callable[[Mapping[str, Arrays]], Reading]] = {
    "F10": _avoids,
    "F15": _alike,
    "F16": _named,
    "T7": _evaluation_matters,
}
