"""The suite's numbers: measures of each way to act, whether a per-state risk helps, and a comparison with the control.

The rules were set before the first run:

    helps              The cost of a per-state risk is the neutral return minus the return at this risk. A risk is cheap
                       if its cost is at most a tenth of |neutral return|. The cheap risk with the fewest failures is
                       reported; if no risk is cheap, the risk with the fewest failures. This risk helps if it has
                       fewer failures than neutral acting: the 95 % interval of the paired difference is below 0.
    over prices        Compares the fronts of per-state risks and of the control. A front gives, for a number of
                       failures x, the best return of the ways to act that have at most x failures. Neutral acting is
                       a point of both fronts. The gap is the mean of the front of per-state risks minus the
                       front of the control, divided by |neutral return|. The mean is over 50 values of x, from the
                       fewest failures that both fronts reach to the failures of neutral acting. The verdict is that
                       risks return "more" than the control if the interval of the gap is above 0, "less" if it is
                       below 0, else "as much".
    calibrated         Two measures compare the predicted with the realised discounted return. `off` is (predicted mean
                       - realised mean) / realised standard deviation. `spread_ratio` is predicted / realised standard
                       deviation.

Each seed has one value of a measure, the mean over weightings. Intervals are bootstrap intervals over these values. An
interval of failures is widened to contain the exact (Clopper-Pearson) interval of the share of failures in the episodes
of all seeds, because seeds without a failure do not show that failures are impossible. If the difference in failures
between two ways to act is equal in all seeds, its interval is computed from the exact intervals of the two ways to act.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rasf.arrays import Floats
from rasf.statistics import Interval, mean_interval, share_interval
from rasf_lab.common.results import Numbers
from rasf_lab.suite.cases import NEUTRAL, PRESETS, find_case, given, is_dial, is_price
from rasf_lab.suite.rivals import RIVALS, rivals_of
from rasf_lab.suite.runs import LIBRARY, runs_of
from rasf_lab.sweep.runs import Run
from rasf_lab.sweep.store import Finished

_LEVELS = 50  # the number of values of x (failures) at which two fronts are compared
_NO_SPREAD = 1e-3  # a ratio is nan if its divisor, a standard deviation, is below this share of |mean|
_ROUNDING = 1e-9  # an end of an interval counts as 0 if it is closer to 0 than this
_CHEAP = 0.1  # largest cost of a cheap risk, as a share of |neutral return|
_MEASURES = ("return", "cvar", "failures", "length", "gauge", "discounted", "std", "predicted", "predicted_std")


def summary(runs: Sequence[Finished]) -> Numbers:
    """Return the numbers of one case, from the runs of its libraries and of its rivals, in the order of seeds."""
    parameters = given(runs[0].run)
    training, asked = parameters["training"], parameters["asked"]
    case, ours = find_case(parameters["case"]), [one for one in runs if one.run.parameters["agent"] == LIBRARY]
    actings = asked["actings"]
    arrays = {name: np.stack([one.arrays[name] for one in ours]) for name in _MEASURES}  # (seeds, ways, weightings)
    by_seed = {name: values.mean(axis=2) for name, values in arrays.items()}
    neutral = actings.index(NEUTRAL)
    episodes = arrays["failures"][:, 0].size * asked["episodes"]  # the number of episodes of each way to act
    found: Numbers = {
        "env": case.env,
        "about": case.about,
        "features": list(case.features),
        "failures": case.failures,
        "gauge": case.gauge,
        "seeds": [one.run.seed for one in ours],
        "weightings": asked["unseen"],
        "episodes": asked["episodes"],
        "steps": training["steps_per_task"] * len(training["tasks"]),
        "training": training,
        "seconds": float(np.mean([_training_seconds(one) for one in ours])),
        "libraries": [one.scalars["library"] for one in ours],
        "ways": {text: _way(by_seed, j, neutral, episodes) for j, text in enumerate(actings)},
        "verdict": verdict(by_seed, actings, episodes),
        "each": {name: arrays[name].mean(axis=0) for name in ("return", "failures", "gauge")},  # (ways, weightings)
    }
    if case.optimum is not None:
        gamma = float(str(training["settings"]["gamma"]))
        best = np.array([case.optimum(np.array(w, float), gamma) for w in asked["unseen"]])
        gap = best - np.stack([one.arrays["earned"][neutral] for one in ours])
        share = _estimate((gap / np.abs(best)).mean(1))
        found["optimum"] = {"best": best, "gap": _estimate(gap.mean(axis=1)), "share": share}
    rivals = {str(one.run.parameters["agent"]) for one in runs} - {LIBRARY}
    found["rivals"] = {name: _rival(runs, name, by_seed, actings, ours) for name in sorted(rivals)}
    return found


def _training_seconds(one: Finished) -> float:
    seconds = float(one.scalars["training_seconds"])
    return seconds if np.isfinite(seconds) else one.provenance["wall_s"] - float(one.scalars["asking_seconds"])


def _estimate(values: Floats) -> list[float]:
    """Return the mean over seeds and both ends of its interval. The ends are nan for a single seed."""
    if len(values) == 1 or not np.isfinite(values).all():
        return [float(values.mean()), float("nan"), float("nan")]
    return list(mean_interval(values))


def _rate(values: Floats, episodes: int) -> list[float]:
    """Return the mean failures per episode, and both ends of its interval.

    `values` (n,) has the mean of each seed, and `episodes` is the number of episodes of all seeds together.
    """
    found = Interval(*_estimate(values))
    return list(found.holding(share_interval(found.estimate * episodes, episodes)) if found.estimate <= 1 else found)


def _fewer(values: Floats, others: Floats, episodes: int) -> list[float]:
    """Return the mean of `values` - `others` and its interval.

    Args:
        values: mean failures per episode of each seed (n,).
        others: mean failures per episode of another way to act, for the same seeds (n,).
        episodes: the number of episodes of each way to act, over all seeds.
    """
    found, alike = _estimate(values - others), np.ptp(values - others) <= _ROUNDING
    if not alike or len(values) == 1 or max(values.mean(), others.mean()) > 1:
        return found
    mine, theirs = (share_interval(float(rate.mean()) * episodes, episodes) for rate in (values, others))
    return list(mine.minus(theirs))


def _way(by_seed: dict[str, Floats], j: int, neutral: int, episodes: int) -> Numbers:
    found = {name: _estimate(values[:, j]) for name, values in by_seed.items()}
    found |= {
        f"{name}_difference": _estimate(by_seed[name][:, j] - by_seed[name][:, neutral]) for name in ("return", "cvar")
    }
    failures = by_seed["failures"]
    found["failures"] = _rate(failures[:, j], episodes)
    found["failures_difference"] = (
        [0.0, 0.0, 0.0] if j == neutral else _fewer(failures[:, j], failures[:, neutral], episodes)
    )
    realised, spread = by_seed["discounted"][:, j], by_seed["std"][:, j]
    spread = np.where(spread > _NO_SPREAD * np.abs(realised), spread, np.nan)
    found["off"] = _estimate((by_seed["predicted"][:, j] - realised) / spread)
    found["spread_ratio"] = _estimate(by_seed["predicted_std"][:, j] / spread)
    return found


def verdict(by_seed: dict[str, Floats], actings: Sequence[str], episodes: int) -> Numbers:
    """Return whether a per-state risk helps, which risk and at what cost, and the comparison with the control.

    Args:
        by_seed: "failures" and "return", arrays (seeds, ways).
        actings: the ways to act, as text.
        episodes: the number of episodes of each way to act, over all seeds and weightings.

    Returns:
        The numbers by name, with intervals over seeds, by the rules in the module's header.
    """
    failures, returns = by_seed["failures"], by_seed["return"]  # (seeds, ways)
    neutral = actings.index(NEUTRAL)
    size = max(float(np.abs(returns[:, neutral]).mean()), 1e-12)
    fewer = {
        j: _fewer(failures[:, j], failures[:, neutral], episodes) for j, text in enumerate(actings)
        if is_dial(text) and j != neutral
    }  # fmt: skip
    cheap = [j for j in fewer if (returns[:, neutral] - returns[:, j]).mean() <= _CHEAP * size]
    best = min(cheap or fewer, key=lambda j: failures[:, j].mean())
    found: Numbers = {
        "level": actings[best],
        "failures": [_rate(failures[:, j], episodes) for j in (neutral, best)],
        "return": [_estimate(returns[:, j]) for j in (neutral, best)],
        "fewer": fewer[best],
        "cost": _estimate(returns[:, neutral] - returns[:, best]),
        "helps": bool(fewer[best][2] < -_ROUNDING),
    }
    risks = [neutral, *fewer]
    prices = [neutral, *(j for j, text in enumerate(actings) if is_price(text))]
    if len(prices) > 1:
        gaps = np.array([_gap(failures[i], returns[i], risks, prices) for i in range(len(failures))]) / size
        found["over_prices"] = _estimate(gaps)
        _, low, high = found["over_prices"]
        found["than_prices"] = "more" if low > _ROUNDING else "less" if high < -_ROUNDING else "as much"
    return found


def front(failures: Floats, returns: Floats, levels: Floats) -> Floats:
    """Return for each of `levels` (m,) the best return of the points (n,) with at most this many failures, or -inf."""
    within = failures[None] <= levels[:, None] + 1e-12
    return np.where(within, returns[None], -np.inf).max(axis=1)


def _gap(failures: Floats, returns: Floats, ours: Sequence[int], theirs: Sequence[int]) -> float:
    """Return the mean difference of two fronts.

    `ours` and `theirs` are the indices of the ways to act that form each front.
    """
    low = max(failures[list(points)].min() for points in (ours, theirs))
    levels = np.linspace(low, max(failures[ours[0]], low), _LEVELS)
    mine, others = (front(failures[list(points)], returns[list(points)], levels) for points in (ours, theirs))
    return float((mine - others).mean())


def _rival(
    runs: Sequence[Finished], name: str, by_seed: dict[str, Floats], actings: Sequence[str], ours: Sequence[Finished]
) -> Numbers:
    """Return a rival's numbers.

    For each of our ways to act, `beside` has the ratios of its failures, gauge (`Case.gauge`) and return to those of
    the rival.
    """
    theirs = [one for one in runs if one.run.parameters["agent"] == name]
    seeds = sorted({one.run.seed for one in theirs})
    arrays = {  # (seeds, weightings)
        part: np.array([np.hstack([one.arrays[part][0] for one in theirs if one.run.seed == seed]) for seed in seeds])
        for part in ("return", "cvar", "failures", "length", "gauge")
    }
    values = {part: each.mean(axis=1) for part, each in arrays.items()}
    rows = [[one.run.seed for one in ours].index(seed) for seed in seeds]
    beside = {
        text: {
            part: _ratio(by_seed[part][rows, j], values[part]) for part in ("failures", "gauge", "return")
        } for j, text in enumerate(actings)
    }  # fmt: skip
    episodes = arrays["failures"].size * given(theirs[0].run)["asked"]["episodes"]
    return {part: _estimate(each) for part, each in values.items()} | {
        "failures": _rate(values["failures"], episodes),
        "seeds": seeds,
        "steps": given(theirs[0].run)["training"]["steps"],
        "trainings": sum(one.run.seed == seeds[0] for one in theirs),  # the number of trainings for one seed
        "seconds": float(np.mean([_share_of_seconds(one) for one in theirs])),  # seconds of one training
        "each": {part: arrays[part].mean(axis=0) for part in ("return", "failures", "gauge")},
        "beside": beside,
    }


def _share_of_seconds(one: Finished) -> float:
    """Return the seconds of a training. A batched program's seconds are divided by the number of its trainings."""
    seconds = float(one.scalars["training_seconds"])
    together = one.provenance["together"] if RIVALS[str(one.run.parameters["agent"])].batched else 1
    return seconds / float(together)


def _ratio(mine: Floats, others: Floats) -> float:
    return float(mine.mean() / others.mean()) if others.mean() != 0 else float("nan")


def by_environment(numbers: dict[str, Numbers]) -> dict[str, Numbers]:
    """Return the numbers of cases by environment. Further cases of an environment are named "environment (case)"."""
    found: dict[str, Numbers] = {}
    for name, case in numbers.items():
        env = str(case["env"])
        found[f"{env} ({name})" if env in found else env] = case
    return found


def at_a_glance(numbers: dict[str, Numbers]) -> list[list[str]]:
    """Return a table of all cases as text: a header, then a row for each case."""
    rows = [["environment", "failures", "neutral", "averse", "risk", "return", "verdict", "return vs. control"]]
    for env, case in by_environment(numbers).items():
        found = case["verdict"]
        neutral, averse = (f"{one[0]:.3g}" for one in found["failures"])
        before, after = (f"{one[0]:.3g}" for one in found["return"])
        helps = "helps" if found["helps"] else "no"
        rows.append(
            [env, case["failures"], neutral, averse, found["level"], f"{before} to {after}", helps,
             found.get("than_prices", "-")]
        )  # fmt: skip
    return rows


def cases_of(runs: Sequence[Finished]) -> dict[str, list[Finished]]:
    """Return the runs of each case, in the order of seeds.

    The preset is the largest for which all runs of our library are finished. Runs with earlier parameters of the case
    do not count. For each rival and seed, the runs are included if all of them are finished.
    """
    found, names = {one.run: one for one in runs}, sorted({str(one.run.parameters["case"]) for one in runs})
    by_case = {}
    for name in names:
        for preset in reversed(PRESETS):
            if all(run in found for run in runs_of(name, preset)):
                by_case[name] = [found[run] for run in runs_of(name, preset)]
                by_case[name] += [
                    found[run] for group in _of_rivals(name, preset) if set(group) <= set(found) for run in group
                ]
                break
    return by_case


def _of_rivals(name: str, preset: str) -> list[list[Run]]:
    """Return the runs of a case's rivals, in groups by rival and seed."""
    groups = []
    for agent in rivals_of(find_case(name)):
        runs = runs_of(name, preset, [agent])
        groups += [[run for run in runs if run.seed == seed] for seed in range(PRESETS[preset].seeds)]
    return groups
