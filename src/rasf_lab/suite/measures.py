"""From runs of the suite to numbers: what each way to act leads to, whether risk helps, and what it adds over prices.

Rules, written before the first run:

    helps              some level of the dial has fewer failures than neutral acting, the 95 % interval of the paired
                       difference (by seed, means over weightings) below 0; the cost is the difference of returns there.
                       The level that is told has the fewest failures of those that cost at most a tenth of the
                       neutral return's size, or the fewest of all where none is so cheap.
    over prices        front against front: the best return with at most x failures (a step function of x), of the
                       dial's points less that of the control's, neutral acting being a point of both; mean over 50
                       levels x from the fewest failures that both reach to neutral acting's, in units of the neutral
                       return's size; "more" or "less" where the interval over seeds excludes 0, else "as much".
    calibrated         predicted mean less what came, in spreads that came; and predicted over realised spread.

Values of a seed are means over weightings; intervals are bootstrap intervals over seeds. Those of failures are never
narrower than the exact interval of a share in the episodes of all seeds together, since seeds without a failure do not
show that there is none; nor is that of a difference a point where all seeds have the same one.
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

_LEVELS = 50  # of failures, at which fronts are compared
_STILL = 1e-3  # of a mean: a smaller spread is none
_ROUNDING = 1e-9  # an end of an interval nearer to 0 is 0
_CHEAP = 0.1  # of the size of the neutral return
_TOLD = ("return", "cvar", "failures", "length", "gauge", "discounted", "std", "predicted", "predicted_std")


def summary(runs: Sequence[Finished]) -> Numbers:
    """All that is told of one case, from the runs of its library and of rivals, seeds in order."""
    told = given(runs[0].run)
    training, asked = told["training"], told["asked"]
    case, ours = find_case(told["case"]), [one for one in runs if one.run.parameters["agent"] == LIBRARY]
    actings = asked["actings"]
    arrays = {name: np.stack([one.arrays[name] for one in ours]) for name in _TOLD}  # (seeds, ways, n)
    by_seed = {name: values.mean(axis=2) for name, values in arrays.items()}
    neutral = actings.index(NEUTRAL)
    episodes = arrays["failures"][:, 0].size * asked["episodes"]  # in which a way to act is tried
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
        found["optimum"] = {"best": best, "gap": _told(gap.mean(axis=1)), "share": _told((gap / np.abs(best)).mean(1))}
    rivals = {str(one.run.parameters["agent"]) for one in runs} - {LIBRARY}
    found["rivals"] = {name: _rival(runs, name, by_seed, actings, ours) for name in sorted(rivals)}
    return found


def _training_seconds(one: Finished) -> float:
    seconds = float(one.scalars["training_seconds"])
    return seconds if np.isfinite(seconds) else one.provenance["wall_s"] - float(one.scalars["asking_seconds"])


def _told(values: Floats) -> list[float]:
    """Mean and interval over seeds; one seed has none."""
    if len(values) == 1 or not np.isfinite(values).all():
        return [float(values.mean()), float("nan"), float("nan")]
    return list(mean_interval(values))


def _rate(values: Floats, episodes: int) -> list[float]:
    """Mean failures of an episode and their interval, from values of seeds (n,) in so many episodes together."""
    told = Interval(*_told(values))
    return list(told.holding(share_interval(told.estimate * episodes, episodes)) if told.estimate <= 1 else told)


def _fewer(values: Floats, others: Floats, episodes: int) -> list[float]:
    """Mean difference of failures and its interval, of the same seeds (n,) in so many episodes together each."""
    told, alike = _told(values - others), np.ptp(values - others) <= _ROUNDING
    if not alike or len(values) == 1 or max(values.mean(), others.mean()) > 1:
        return told
    mine, theirs = (share_interval(float(rate.mean()) * episodes, episodes) for rate in (values, others))
    return list(mine.minus(theirs))


def _way(by_seed: dict[str, Floats], j: int, neutral: int, episodes: int) -> Numbers:
    told = {name: _told(values[:, j]) for name, values in by_seed.items()}
    told |= {
        f"{name}_difference": _told(by_seed[name][:, j] - by_seed[name][:, neutral]) for name in ("return", "cvar")
    }
    failures = by_seed["failures"]
    told["failures"] = _rate(failures[:, j], episodes)
    told["failures_difference"] = (
        [0.0, 0.0, 0.0] if j == neutral else _fewer(failures[:, j], failures[:, neutral], episodes)
    )
    came, spread = by_seed["discounted"][:, j], by_seed["std"][:, j]
    spread = np.where(spread > _STILL * np.abs(came), spread, np.nan)  # what does not vary has no spread to be off by
    told["off"] = _told((by_seed["predicted"][:, j] - came) / spread)
    told["spread_ratio"] = _told(by_seed["predicted_std"][:, j] / spread)
    return told


def verdict(by_seed: dict[str, Floats], actings: Sequence[str], episodes: int) -> Numbers:
    """Return whether the dial helps, at which level, at what cost; and what it adds over prices.

    Args:
        by_seed: failures and returns, (seeds, ways) each.
        actings: the ways.
        episodes: of all seeds together, in which each way was tried.

    Returns:
        The numbers by name, with intervals over seeds.
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
    told: Numbers = {
        "level": actings[best],
        "failures": [_rate(failures[:, j], episodes) for j in (neutral, best)],
        "return": [_told(returns[:, j]) for j in (neutral, best)],
        "fewer": fewer[best],
        "cost": _told(returns[:, neutral] - returns[:, best]),
        "helps": bool(fewer[best][2] < -_ROUNDING),
    }
    dial = [neutral, *fewer]
    prices = [neutral, *(j for j, text in enumerate(actings) if is_price(text))]
    if len(prices) > 1:
        gaps = np.array([_gap(failures[i], returns[i], dial, prices) for i in range(len(failures))]) / size
        told["over_prices"] = _told(gaps)
        _, low, high = told["over_prices"]
        told["than_prices"] = "more" if low > _ROUNDING else "less" if high < -_ROUNDING else "as much"
    return told


def front(failures: Floats, returns: Floats, levels: Floats) -> Floats:
    """The best return (m,) with at most so many failures (m,), of points (n,); -inf where none has so few."""
    within = failures[None] <= levels[:, None] + 1e-12
    return np.where(within, returns[None], -np.inf).max(axis=1)


def _gap(failures: Floats, returns: Floats, ours: Sequence[int], theirs: Sequence[int]) -> float:
    """How far one front of a seed is above another, on average over the failures that both reach."""
    low = max(failures[list(points)].min() for points in (ours, theirs))
    levels = np.linspace(low, max(failures[ours[0]], low), _LEVELS)
    mine, others = (front(failures[list(points)], returns[list(points)], levels) for points in (ours, theirs))
    return float((mine - others).mean())


def _rival(
    runs: Sequence[Finished], name: str, by_seed: dict[str, Floats], actings: Sequence[str], ours: Sequence[Finished]
) -> Numbers:
    """A rival's numbers, and for each way to act our mean failures, speed and return over its own, same seeds."""
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
    told = {part: _told(each) for part, each in values.items()}
    return told | {
        "failures": _rate(values["failures"], episodes),
        "seeds": seeds,
        "steps": given(theirs[0].run)["training"]["steps"],
        "trainings": sum(one.run.seed == seeds[0] for one in theirs),  # for a seed: one for each weighting, or for all
        "seconds": float(np.mean([_share_of_seconds(one) for one in theirs])),  # of a training
        "each": {part: arrays[part].mean(axis=0) for part in ("return", "failures", "gauge")},
        "beside": beside,
    }


def _share_of_seconds(one: Finished) -> float:
    """Of a training; those of one program share its seconds."""
    seconds = float(one.scalars["training_seconds"])
    together = one.provenance["together"] if RIVALS[str(one.run.parameters["agent"])].batched else 1
    return seconds / float(together)


def _ratio(mine: Floats, others: Floats) -> float:
    return float(mine.mean() / others.mean()) if others.mean() != 0 else float("nan")


def by_environment(numbers: dict[str, Numbers]) -> dict[str, Numbers]:
    """What is told of every case, by its environment, and by its own name too where another has that environment."""
    found: dict[str, Numbers] = {}
    for name, told in numbers.items():
        env = str(told["env"])
        found[f"{env} ({name})" if env in found else env] = told
    return found


def at_a_glance(numbers: dict[str, Numbers]) -> list[list[str]]:
    """One row per case, under a header."""
    rows = [["environment", "failures", "neutral", "dial", "level", "return", "", "over prices"]]
    for env, told in by_environment(numbers).items():
        found = told["verdict"]
        neutral, dial = (f"{one[0]:.3g}" for one in found["failures"])
        before, after = (f"{one[0]:.3g}" for one in found["return"])
        helps = "helps" if found["helps"] else "no"
        rows.append(
            [env, told["failures"], neutral, dial, found["level"], f"{before} to {after}", helps,
             found.get("than_prices", "-")]
        )  # fmt: skip
    return rows


def cases_of(runs: Sequence[Finished]) -> dict[str, list[Finished]]:
    """Runs by case, seeds in order: those of the largest preset, as the case is now, whose libraries are all there."""
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
    """A case's runs of rivals: a seed counts if all its weightings are there."""
    groups = []
    for agent in rivals_of(find_case(name)):
        runs = runs_of(name, preset, [agent])
        groups += [[run for run in runs if run.seed == seed] for seed in range(PRESETS[preset].seeds)]
    return groups
