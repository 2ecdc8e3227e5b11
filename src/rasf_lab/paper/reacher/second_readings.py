"""Second readings of the reacher's claims, declared after the first verdicts; `claims.toml` says why, and both stand.

Where a reading has parts that do not count, its sentence tells their verdicts too.
"""

from __future__ import annotations

import numpy as np

from rasf.arrays import Bools, Floats
from rasf.envs.reacher.world import Reacher
from rasf.statistics import mean_interval
from rasf_lab.common.results import Finding, Verdict
from rasf_lab.common.verdicts import below, side, within, worst
from rasf_lab.paper.reacher.beliefs import grid
from rasf_lab.paper.reacher.claims import (
    AGREE,
    AVERSE,
    BEYOND_RULES,
    BY_RISK,
    RULES,
    SATISFACTORY,
    WHAT,
    Judged,
    Rules,
    estimates,
    gap,
    metres_off,
    more_failures,
    read,
    return_per_failure,
    risky_peaks,
    targets_missed,
    wall_time,
)
from rasf_lab.paper.reacher.measures import Measures
from rasf_lab.paper.reacher.training import TRAINING

_EDGE = (0.06, 0.09)  # metres from a risky target: at the boundary of its circle
_OWN_PHASE = (0.2, 0.4)


def judge(measured: Measures) -> dict[str, Finding]:
    """All findings for which the runs are there, with both readings."""
    first, second = read(measured, BEYOND_RULES) | read(measured, RULES), read(measured, SECOND)
    if {"rasfc51", "rac51"} <= {name.rsplit(" ", 1)[0] for name in measured.arrays}:
        first["R13"] = wall_time(measured)
    return {claim: Finding(**vars(reading), second_reading=second.get(claim)) for claim, reading in first.items()}


def _r1(m: Measures) -> Judged:
    """Each task soon after it was selected."""
    phase = m.steps[-1] / len(TRAINING)
    texts, verdicts, numbers = [], {}, ""
    for risk in ("0", "-1", "-2", "-3"):
        returns = m.normalised(f"rasfc51 {risk}")
        intervals = []
        for task in TRAINING:
            into = (m.steps - task * phase) / phase  # so rounded that windows of all tasks are alike
            window = (into > _OWN_PHASE[0]) & (into <= _OWN_PHASE[1])
            intervals.append(mean_interval(returns[:, window, task].mean(axis=1)))
        verdicts[risk], numbers = worst(side(one, SATISFACTORY) for one in intervals), estimates(intervals)
        texts.append(f"{risk}: {', '.join(map(str, intervals))}, {verdicts[risk]}")
    return verdicts["-3"], "normalised return on the four tasks at " + "; ".join(texts), numbers


def _r2(m: Measures) -> Judged:
    """Exactly two of the four."""
    texts, verdicts, numbers = [], {}, ""
    for risk in ("-1", "-2", "-3"):
        intervals = [mean_interval(task) for task in m.final(f"rac51 {risk}", "return")[:, : len(TRAINING)].T]
        low, high = (
            sum(one.high < SATISFACTORY for one in intervals),
            sum(one.low > SATISFACTORY for one in intervals),
        )
        refuted = low > 2 or high > 2
        verdict: Verdict = "holds" if low == high == 2 else "does not hold" if refuted else "not decided"
        verdicts[risk], numbers = verdict, f"{low} of 4 below"
        texts.append(f"{risk}: {', '.join(map(str, intervals))}, {low} below and {high} above, {verdict}")
    text = "final return on the four tasks at " + "; ".join(texts)
    if m.alone_averse is not None:
        alone = [mean_interval(task) for task in m.alone_averse[:, : len(TRAINING)].T]
        text += f". RaC51 (-3) trained alone on each: {', '.join(map(str, alone))}"
    return verdicts["-3"], text, numbers


def _r8(m: Measures) -> Judged:
    return more_failures({name: m.late_test(name, "failures") for name in BY_RISK})


def _r9(m: Measures) -> Judged:
    return return_per_failure({(name, what): m.late_test(name, what) for name in AVERSE for what in WHAT})


def _r10(m: Measures) -> Judged:
    """At the boundaries of most, and some missed."""
    held = m.final("rasfc51 -3", "distance")[:, list(Reacher().risky)]
    at_edge = [within(mean_interval(target), *_EDGE) for target in held.T]
    near, off = at_edge.count("holds"), at_edge.count("does not hold")
    hovers: Verdict = "holds" if near >= 4 else "does not hold" if off >= 3 else "not decided"
    missed = mean_interval(targets_missed(m, "rac51 -3"))
    some = within(missed, 1.0, 4.0)
    metres = ", ".join(f"{100 * target.mean():.1f}" for target in held.T)
    text = (
        f"RaSFC51 holds {metres} cm from the six risky targets, {near} of them at the boundary, {hovers}; "
        f"RaC51 misses {missed} of 8 test targets, {some}"
    )
    return worst([hovers, some]), text, f"{near} of 6; {missed.estimate:.1f} of 8"


def _r11(m: Measures) -> Judged:
    """Away, and in low volatility."""
    verdict, text, number = _peaks(m, "")
    if {"rasfc51 fine-maps -3", "rasfc51 fine-maps 0"} <= m.arrays.keys():
        fine = m.of_common_seeds("rasfc51 fine-maps -3", "rasfc51 fine-maps 0")
        seeds, points = fine.seeds("rasfc51 fine-maps 0"), fine.points("rasfc51 fine-maps 0")
        text += f". Maps of {points} points, {seeds} seeds: {_peaks(fine, 'fine-maps ')[1]}"
    return verdict, text, number


def _peaks(m: Measures, which: str) -> Judged:
    names = (f"rasfc51 {which}-3", f"rasfc51 {which}0")
    farther = gap(*(metres_off(m, name) for name in names))
    inside = [np.asarray(Reacher().in_circle(risky_peaks(m, name))).mean(axis=1) for name in names]
    share = mean_interval(inside[0])
    away, calm = side(farther), below(share, 0.5)
    text = (
        f"peaks are {farther} m farther from risky targets than SFC51's, {away}; a share of {share} of them lies in a "
        f"circle (SFC51 {inside[1].mean():.2g}), {calm}"
    )
    return worst([away, calm]), text, f"+{100 * farther.estimate:.1f} cm, {share.estimate:.0%} inside"


def _r12(m: Measures) -> Judged:
    """The pattern decides; calibration is told."""
    where = grid(m.points("rasfc51 -3"))
    risky = np.asarray(Reacher().in_circle(where.tips[where.reached]))
    ours, theirs = (
        {key: m.arrays[f"{name} -3"][f"last_{key}"] for key in ("variance", "truth")}
        for name in ("rasfc51", "sfdqn-residual")
    )
    pattern = {key: larger_inside(values, risky).mean(axis=1) for key, values in ours.items()}
    residual = larger_inside(theirs["variance"], risky).mean(axis=1)
    enough = gap(pattern["variance"], (0.5 + pattern["truth"]) / 2)
    more = gap(pattern["variance"], residual)
    level = {key: values[..., risky].mean(axis=(1, 2)) for key, values in ours.items()}
    calibration = mean_interval(level["variance"] / level["truth"])
    text = (
        f"a point in a circle has the larger variance with probability {mean_interval(pattern['variance'])} (residual "
        f"{mean_interval(residual)}, truth {mean_interval(pattern['truth'])}); above the middle of chance and truth "
        f"by {enough}, above the residual by {more}. Calibration: in the circles {level['variance'].mean():.2f} for "
        f"{level['truth'].mean():.2f}, ratio {calibration}, {within(calibration, 0.75, 1.25)}"
    )
    return worst([side(enough), side(more)]), text, f"probability {pattern['variance'].mean():.2f}"


def larger_inside(values: Floats, inside: Bools) -> Floats:
    """Probability (..) that a value (.., P) inside is larger than one outside; equal ones count half."""
    within, without = values[..., inside, None], values[..., None, ~inside]
    return np.asarray((within > without).mean(axis=(-2, -1)) + (within == without).mean(axis=(-2, -1)) / 2)


def _r15(m: Measures) -> Judged:
    """Agreement by beta; log-sum-exp is told."""
    agree = {risk: mean_interval(m.arrays[f"rasfc51 {risk}"]["risk_agree"]) for risk in ("-1", "-2", "-3", "-4")}
    verdicts = [side(one, AGREE) for one in agree.values()]
    held, failed = verdicts.count("holds"), verdicts.count("does not hold")
    verdict: Verdict = "holds" if held >= 2 else "does not hold" if failed == len(verdicts) else "not decided"
    lost = m.arrays["rasfc51 -3"]["risk_lost"].mean()
    text = (
        f"the same action in a share of the states of {', '.join(f'{risk}: {one}' for risk, one in agree.items())}. "
        f"Log-sum-exp: without it {lost:.0%} of the scores at -3 overflow, with it none does"
    )
    return verdict, text, estimates(agree.values())


SECOND: Rules = {
    "R1": (tuple(f"rasfc51 {risk}" for risk in ("0", "-1", "-2", "-3")), _r1),
    "R2": (("rac51 -1", "rac51 -2", "rac51 -3"), _r2),
    "R8": (BY_RISK, _r8),
    "R9": (AVERSE, _r9),
    "R10": (("rasfc51 -3", "rac51 -3"), _r10),
    "R11": (("rasfc51 0", "rasfc51 -3"), _r11),
    "R12": (("rasfc51 -3", "sfdqn-residual -3"), _r12),
    "R15": (tuple(f"rasfc51 {risk}" for risk in ("-1", "-2", "-3", "-4")), _r15),
}
