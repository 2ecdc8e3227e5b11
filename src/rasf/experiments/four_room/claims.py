"""Verdicts on F1 to F10 and T7 from the four-room runs.

Differences are paired by seed; `verdicts` says how an interval decides. "Far more" and "slightly" are read as the
direction alone; "about x %" as an interval inside x +- 10 points. Where shared initial noise (Algorithm 1 to the
letter) says otherwise than the independent noise of the paper's preset, the finding says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

from rasf.arrays import Floats
from rasf.experiments.common.results import Finding, Verdict
from rasf.experiments.common.verdicts import side, with_enough_seeds, within, worst
from rasf.experiments.four_room.measures import RISKS, Arrays, dangerous_objects, novel_outcome, trap_cells
from rasf.statistics import Interval, mean_interval, probability_of_improvement, ratio_interval, slopes

Curves = dict[str, Arrays]
_WITHOUT_NOISE = ("F7",)  # PRQL has one kind of initial noise only


def judge(curves: Curves, novel: dict[str, Arrays]) -> dict[str, Finding]:
    """All findings; `novel` has the arrays of the neutral and of the averse runs."""
    findings = {}
    for claim, rule in RULES.items():
        finding = rule(curves, "independent")
        if claim not in _WITHOUT_NOISE:
            other = rule(curves, "shared")
            said = "the same" if other.verdict == finding.verdict else other.verdict
            finding = replace(finding, measured=f"{finding.measured}. Shared initial noise: {said} ({other.measured})")
        findings[claim] = finding
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


def _failures_saved(curves: Curves, noise: str, risk: str) -> tuple[Floats, Floats, Interval]:
    """Failures (seeds,) of RaSFQL and of RaPRQL at one risk, and how many more the second has."""
    ours, theirs = _paired(
        _total(curves, f"sfql {noise} {risk}", "failures"), _total(curves, f"prql {risk}", "failures")
    )
    return ours, theirs, mean_interval(theirs - ours)


def _trend(curves: Curves, name: str, sign: float) -> Finding:
    """Whether the slope of the failures over the tasks has this sign."""
    failures = curves[name]["failures"]
    slope = mean_interval(slopes(failures))
    turned = Interval(sign * slope.estimate, *sorted((sign * slope.low, sign * slope.high)))
    n = min(16, failures.shape[1] // 2)
    first, last = failures[:, :n].mean(), failures[:, -n:].mean()
    text = f"slope {slope} failures per task and task; first {n} tasks {first:.1f}, last {n} {last:.1f}"
    return Finding(side(turned), text, len(failures))


def _drop(curves: Curves, neutral: str, averse: str, claimed: float) -> Finding:
    """Whether return falls by about the claimed share."""
    after, before = _total(curves, averse, "return"), _total(curves, neutral, "return")
    ratio = ratio_interval(after, before)
    drop = Interval(1 - ratio.estimate, 1 - ratio.high, 1 - ratio.low)
    verdict = within(drop, claimed - 0.1, claimed + 0.1)
    return Finding(verdict, f"drop of {drop}, claimed {claimed:g}", len(after))


def _f1(curves: Curves, noise: str) -> Finding:
    neutral, averse = _total(curves, f"sfql {noise} 0", "return"), _total(curves, f"sfql {noise} -2", "return")
    gap = mean_interval(neutral - averse)
    often = _more_often(curves, f"sfql {noise} 0", f"sfql {noise} -2")
    text = f"SFQL {neutral.mean():.0f}, RaSFQL {averse.mean():.0f}, difference {gap}; SFQL has more on a task {often}"
    return Finding(side(gap), text, len(averse))


def _f2(curves: Curves, noise: str) -> Finding:
    averse = _total(curves, f"sfql {noise} -2", "return")
    others = {"RaPRQL": "prql -2", "PRQL": "prql 0"}
    ratios = {label: ratio_interval(*_paired(averse, _total(curves, name, "return"))) for label, name in others.items()}
    often = " and ".join(_more_often(curves, f"sfql {noise} -2", name) for name in others.values())
    text = ", ".join(f"RaSFQL / {label} = {ratio}" for label, ratio in ratios.items())
    verdict = worst(side(ratio, 1.0) for ratio in ratios.values())
    return Finding(verdict, f"{text}; RaSFQL has more on a task {often}", len(averse))


def _f5(curves: Curves, noise: str) -> Finding:
    ours, theirs, gap = _failures_saved(curves, noise, "-2")
    text = f"RaPRQL {theirs.mean():.0f}, RaSFQL {ours.mean():.0f}, difference {gap}"
    return Finding(side(gap), text, len(ours))


def _f8(curves: Curves, noise: str) -> Finding:
    """RaSFQL fails less at four of the five risks; two where it fails more speak against it."""
    found = {f"{risk:g}": _failures_saved(curves, noise, f"{risk:g}") for risk in RISKS}
    verdicts = [side(gap) for _, _, gap in found.values()]
    held, failed = verdicts.count("holds"), verdicts.count("does not hold")
    verdict: Verdict = "holds" if held >= 4 else "does not hold" if failed >= 2 else "not decided"
    text = ", ".join(f"{risk}: {gap}" for risk, (_, _, gap) in found.items())
    text = f"RaPRQL's failures minus RaSFQL's at {text}; RaSFQL fails less at {held} of 5"
    return Finding(verdict, text, len(found["-4"][0]))


def _f9(curves: Curves, noise: str) -> Finding:
    """Cumulative failures grow sub-linearly where failures per task fall."""
    trends = {risk: _trend(curves, f"sfql {noise} {risk}", -1.0) for risk in ("-1", "-2", "-4")}
    text = "; ".join(f"{risk}: {trend.measured}" for risk, trend in trends.items())
    return Finding(worst(trend.verdict for trend in trends.values()), text, trends["-2"].seeds)


RULES: dict[str, Callable[[Curves, str], Finding]] = {
    "F1": _f1,
    "F2": _f2,
    "F3": lambda curves, noise: _trend(curves, f"sfql {noise} -2", -1.0),
    "F4": lambda curves, noise: _trend(curves, f"sfql {noise} 0", 1.0),
    "F5": _f5,
    "F6": lambda curves, noise: _drop(curves, f"sfql {noise} 0", f"sfql {noise} -4", 0.25),
    "F7": lambda curves, noise: _drop(curves, "prql 0", "prql -4", 0.75),
    "F8": _f8,
    "F9": _f9,
}


def _avoids(novel: dict[str, Arrays]) -> Finding:
    """F10: fewer steps on traps, and on objects beside traps."""
    rollouts = novel["averse"]["features_averse"].shape[2] * novel["averse"]["features_averse"].shape[1]
    texts, verdicts = [], []
    for what, mask in (("traps", trap_cells()), ("objects beside traps", dangerous_objects())):
        averse, neutral = (
            novel[way][f"visits_{way}"][:, :, mask].sum(axis=(1, 2)) / rollouts for way in ("averse", "neutral")
        )
        gap = mean_interval(neutral - averse)
        verdicts.append(side(gap))
        texts.append(f"{what}: {averse.mean():.2f} steps a rollout against {neutral.mean():.2f}, difference {gap}")
    return Finding(worst(verdicts), "RaSFQL (-2) against SFQL on 27 novel tasks, " + "; ".join(texts), len(averse))


def _evaluation_matters(novel: dict[str, Arrays]) -> Finding:
    """T7: failures by the risk of training and of acting; both effects, paired by seed."""
    f = {
        (train, act): novel_outcome(novel[train][f"features_{act}"])["failures"]
        for train, act in product(("neutral", "averse"), repeat=2)
    }
    act = (f["neutral", "neutral"] - f["neutral", "averse"] + f["averse", "neutral"] - f["averse", "averse"]) / 2
    train = (f["neutral", "neutral"] - f["averse", "neutral"] + f["neutral", "averse"] - f["averse", "averse"]) / 2
    gap = mean_interval(act - train)
    cells = ", ".join(f"train {t}, act {a}: {v.mean():.3f}" for (t, a), v in f.items())
    return Finding(
        side(gap),
        f"four-room, failures a rollout on 27 novel tasks: acting with risk removes {act.mean():.3f}, training with "
        f"risk {train.mean():.3f}, difference {gap} ({cells})",
        len(act),
    )
