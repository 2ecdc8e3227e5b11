"""Verdicts on F1 to F10 and T7 from the four-room runs.

Differences are paired by seed; `verdicts` says how an interval decides. "Far more" and "slightly" are read as the
direction alone; "about x %" as an interval inside x +- 10 points. Where shared initial noise (Algorithm 1 to the
letter) says otherwise than the independent noise of the paper's preset, the finding says so.
"""

from __future__ import annotations

import numpy as np

from rasf.arrays import Floats
from rasf.experiments.common.results import Finding, Verdict
from rasf.experiments.common.verdicts import side, with_enough_seeds, within, worst
from rasf.experiments.four_room.measures import dangerous_objects, novel_outcome, trap_cells
from rasf.statistics import Interval, mean_interval, probability_of_improvement, ratio_interval, slopes

Curves = dict[str, dict[str, Floats]]
RISKS = ("0", "-0.5", "-1", "-2", "-4")
_WITHOUT_NOISE = ("F7",)  # PRQL has one kind of initial noise only


def judge(curves: Curves, novel: dict[str, dict[str, Floats]]) -> dict[str, Finding]:
    """All findings."""
    findings = {}
    for claim, rule in _RULES.items():
        verdict, text, seeds = rule(curves, "independent")
        if claim not in _WITHOUT_NOISE:
            other, other_text, _ = rule(curves, "shared")
            text += f". Shared initial noise: {'the same' if other == verdict else other} ({other_text})"
        findings[claim] = Finding(verdict, text, seeds)
    findings |= {"F10": _avoids(novel), "T7": _evaluation_matters(novel)}
    return {claim: with_enough_seeds(finding) for claim, finding in findings.items()}


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


Judged = tuple[Verdict, str, int]


def _f1(curves: Curves, noise: str) -> Judged:
    neutral, averse = _total(curves, f"sfql {noise} 0", "return"), _total(curves, f"sfql {noise} -2", "return")
    gap = mean_interval(neutral - averse)
    often = _more_often(curves, f"sfql {noise} 0", f"sfql {noise} -2")
    text = f"SFQL {neutral.mean():.0f}, RaSFQL {averse.mean():.0f}, difference {gap}; SFQL has more on a task {often}"
    return side(gap), text, len(averse)


def _f2(curves: Curves, noise: str) -> Judged:
    averse = _total(curves, f"sfql {noise} -2", "return")
    ratios, often = {}, {}
    for label, name in (("RaPRQL", "prql -2"), ("PRQL", "prql 0")):
        ratios[label] = ratio_interval(*_paired(averse, _total(curves, name, "return")))
        often[label] = _more_often(curves, f"sfql {noise} -2", name)
    text = ", ".join(f"RaSFQL / {label} = {ratio}" for label, ratio in ratios.items())
    text += f"; RaSFQL has more on a task {' and '.join(often.values())}"
    return worst([side(ratio, 1.0) for ratio in ratios.values()]), text, len(averse)


def _trend(curves: Curves, name: str, sign: float) -> tuple[Verdict, str]:
    failures = curves[name]["failures"]
    slope = mean_interval(slopes(failures))
    turned = Interval(sign * slope.estimate, *sorted((sign * slope.low, sign * slope.high)))
    n = min(16, failures.shape[1] // 2)
    first, last = failures[:, :n].mean(), failures[:, -n:].mean()
    return side(turned), f"slope {slope} failures per task and task; first {n} tasks {first:.1f}, last {n} {last:.1f}"


def _f3(curves: Curves, noise: str) -> Judged:
    name = f"sfql {noise} -2"
    return *_trend(curves, name, -1.0), len(curves[name]["failures"])


def _f4(curves: Curves, noise: str) -> Judged:
    name = f"sfql {noise} 0"
    return *_trend(curves, name, 1.0), len(curves[name]["failures"])


def _f5(curves: Curves, noise: str) -> Judged:
    ours, theirs = _paired(_total(curves, f"sfql {noise} -2", "failures"), _total(curves, "prql -2", "failures"))
    gap = mean_interval(theirs - ours)
    return side(gap), f"RaPRQL {theirs.mean():.0f}, RaSFQL {ours.mean():.0f}, difference {gap}", len(ours)


def _drop(curves: Curves, neutral: str, averse: str, claimed: float) -> Judged:
    after, before = _total(curves, averse, "return"), _total(curves, neutral, "return")
    ratio = ratio_interval(after, before)
    drop = Interval(1 - ratio.estimate, 1 - ratio.high, 1 - ratio.low)
    return within(drop, claimed - 0.1, claimed + 0.1), f"drop of {drop}, claimed {claimed:g}", len(after)


def _f6(curves: Curves, noise: str) -> Judged:
    return _drop(curves, f"sfql {noise} 0", f"sfql {noise} -4", 0.25)


def _f7(curves: Curves, noise: str) -> Judged:
    return _drop(curves, "prql 0", "prql -4", 0.75)


def _f8(curves: Curves, noise: str) -> Judged:
    gaps = {}
    for risk in RISKS:
        ours, theirs = _paired(
            _total(curves, f"sfql {noise} {risk}", "failures"), _total(curves, f"prql {risk}", "failures")
        )
        gaps[risk] = mean_interval(theirs - ours)
    verdicts = [side(gap) for gap in gaps.values()]
    held, failed = verdicts.count("holds"), verdicts.count("does not hold")
    verdict: Verdict = "holds" if held >= 4 else "does not hold" if failed >= 2 else "not decided"
    text = ", ".join(f"{risk}: {gap}" for risk, gap in gaps.items())
    return verdict, f"RaPRQL's failures minus RaSFQL's at {text}; RaSFQL fails less at {held} of 5", len(ours)


def _f9(curves: Curves, noise: str) -> Judged:
    trends = {risk: _trend(curves, f"sfql {noise} {risk}", -1.0) for risk in ("-1", "-2", "-4")}
    text = "; ".join(f"{risk}: {text}" for risk, (_, text) in trends.items())
    return worst([verdict for verdict, _ in trends.values()]), text, len(curves[f"sfql {noise} -2"]["failures"])


_RULES = {"F1": _f1, "F2": _f2, "F3": _f3, "F4": _f4, "F5": _f5, "F6": _f6, "F7": _f7, "F8": _f8, "F9": _f9}


def _avoids(novel: dict[str, dict[str, Floats]]) -> Finding:
    rollouts = novel["averse"]["features_averse"].shape[2] * novel["averse"]["features_averse"].shape[1]
    texts, verdicts = [], []
    for what, mask in (("traps", trap_cells()), ("objects beside traps", dangerous_objects())):
        averse = novel["averse"]["visits_averse"][:, :, mask].sum(axis=(1, 2)) / rollouts
        neutral = novel["neutral"]["visits_neutral"][:, :, mask].sum(axis=(1, 2)) / rollouts
        gap = mean_interval(neutral - averse)
        verdicts.append(side(gap))
        texts.append(f"{what}: {averse.mean():.2f} steps a rollout against {neutral.mean():.2f}, difference {gap}")
    return Finding(worst(verdicts), "RaSFQL (-2) against SFQL on 27 novel tasks, " + "; ".join(texts), len(averse))


def _evaluation_matters(novel: dict[str, dict[str, Floats]]) -> Finding:
    """Failures by the risk of training and of acting; both effects, paired by seed."""
    failures = {
        (train, act): novel_outcome(novel[train][f"features_{act}"])["failures"]
        for train in ("neutral", "averse")
        for act in ("neutral", "averse")
    }
    act = (
        failures["neutral", "neutral"] - failures["neutral", "averse"]
        + failures["averse", "neutral"] - failures["averse", "averse"]
    ) / 2  # fmt: skip
    train = (
        failures["neutral", "neutral"] - failures["averse", "neutral"]
        + failures["neutral", "averse"] - failures["averse", "averse"]
    ) / 2  # fmt: skip
    gap = mean_interval(np.asarray(act - train))
    cells = ", ".join(f"train {t}, act {a}: {v.mean():.3f}" for (t, a), v in failures.items())
    return Finding(
        side(gap),
        f"four-room, failures a rollout on 27 novel tasks: acting with risk removes {act.mean():.3f}, training with "
        f"risk {train.mean():.3f}, difference {gap} ({cells})",
        len(act),
    )
