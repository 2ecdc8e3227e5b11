"""Measurement of a calibration: episodes of drawn queries, in which predictions are compared with realised values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.checks import is_whole, task_weights, whole
from rasf.envs.gymnasium.single import seeds_from
from rasf.library.acting.limited import WithinLimits
from rasf.library.acting.rule import ActingRule
from rasf.library.calibration.calibration import Calibration
from rasf.library.calibration.quantities import Quantities, Scale, predicted_quantities
from rasf.library.evaluation import WORST, Report
from rasf.library.trials import Trials, check_callback, run_rule
from rasf.limits import Limit, Limits, read_limits
from rasf.risk import Risk
from rasf.risk.names import risk_to_text
from rasf.statistics import mean_of_the_worst

if TYPE_CHECKING:
    from rasf.library.policy_library import PolicyLibrary

_RESAMPLES = 50
_FEWEST, _ENOUGH = 5, 20  # least number of episodes of a query; number that the default number of tasks aims at
_FEWEST_TASKS, _MOST_TASKS = 10, 60  # range of the default number of tasks
Draw = Callable[[int, np.random.Generator], Floats | None]  # draws weights (n, d); None if there is no distribution
Roll = Callable[[ActingRule, int], Report]  # runs the episodes of a query with a rule and a seed


@dataclass(frozen=True)
class _Tried:
    """A query: a task at a risk, with or without limits."""

    w: Floats
    risk: Risk
    limits: Limits | None = None


class _Compared(NamedTuple):
    """Predicted and realised values of one query.

    predicted: Predictions (q,).
    realised: Realised values (q,).
    error: Standard errors (q,) of the realised values, on the scale of `Scale.errors`.
    """

    predicted: Floats
    realised: Floats
    error: Floats


def calibrate(
    library: PolicyLibrary,
    trials: Trials,
    tasks: npt.ArrayLike | int | None,
    risks: Sequence[Risk],
    callback: Callable[[int], None] | None,
) -> Calibration:
    """Return the calibration of a library; the arguments are those of `PolicyLibrary.calibrate`."""
    check_callback(callback)
    if not isinstance(risks, list | tuple) or not risks or not all(isinstance(risk, Risk) for risk in risks):
        raise ValueError(f"risks must be a list of risks, got {risks!r:.80}")
    if len({risk_to_text(risk) for risk in risks}) < len(risks):
        raise ValueError(f"risks must differ, got {risks!r:.80}")
    for risk in risks:
        library.sources.check(risk)
    over = 0
    with trials.opened(library) as environments:
        weights = calibration_tasks(library, environments.random_tasks, tasks, trials, len(risks))
        if len(weights) < 2:
            raise ValueError(f"tasks must be at least two, because errors differ between tasks, got {len(weights)}")
        _check_episodes(trials.episodes, len(weights), len(risks))
        queries = len(weights) * len(risks)
        per_query = trials.episodes // (queries + queries // 2)

        def roll(rule: ActingRule, seed: int) -> Report:
            nonlocal over
            report = run_rule(library, environments, rule, seeds_from(seed, per_query), trials.max_steps)
            over += per_query
            if callback is not None:
                callback(over)
            return report

        return _try(library, roll, [_Tried(w, risk) for w in weights for risk in risks], trials.seed, per_query)


def _try(library: PolicyLibrary, roll: Roll, tried: list[_Tried], seed: int, per_query: int) -> Calibration:
    """Calibrate on the given queries, which have no limits, and on random limits for half as many of them."""
    rng, free = np.random.default_rng([seed, 7]), len(tried)
    names = library.environment.feature_names or tuple(map(str, range(library.n_features)))
    rules = [library.rule(one.w, one.risk) for one in tried]
    reports = [roll(rule, seed + 1 + i) for i, rule in enumerate(rules)]
    costs, signs = cost_features(library, np.concatenate([report.phi for report in reports]))
    scale = Scale(float(np.mean([report.discounted.std() for report in reports])), signs)
    found = [_compare(report, costs, scale, seed) for report in reports]
    for _ in range(free // 2 if len(costs) else 0):
        which, at = int(rng.integers(free)), int(rng.integers(len(costs)))
        realised = Quantities.read(found[which].realised).costs[at]
        most = float(rng.uniform(0.0, 1.2) * realised * signs[at])
        limit = Limit(at_most=most) if signs[at] > 0 else Limit(at_least=-most)
        limits = read_limits({int(costs[at]): limit}, library.n_features, names)
        tried.append(replace(tried[which], limits=limits))
        rule = WithinLimits.of(rules[which], limits, library.policies)
        found.append(_compare(roll(rule, seed + len(tried)), costs, scale, seed))
    predicted, realised, error = (np.stack(part) for part in zip(*found, strict=True))
    return Calibration(
        risks=tuple(risk_to_text(one.risk) for one in tried),
        limited=np.array([one.limits is not None for one in tried]),
        w=np.stack([one.w for one in tried]),
        predicted=predicted,
        realised=realised,
        error=error,
        names=tuple(names[feature] for feature in costs),
        costs=costs,
        signs=signs,
        spread=scale.spread,
        episodes=per_query * len(tried),
        seed=seed,
    )


def _compare(report: Report, costs: Ints, scale: Scale, seed: int) -> _Compared:
    """Return the predictions and realised values of one query."""
    predicted = predicted_quantities(report.rule, report.starts, costs)
    sums = np.concatenate([report.discounted_phi[:, costs], report.phi[:, costs]], axis=1)
    size, returns, n, width = np.abs(sums.mean(axis=0)), report.discounted, report.episodes, scale.width(predicted)
    drawn = returns[np.random.default_rng([seed, 5]).integers(n, size=(_RESAMPLES, n))]
    of_roots = sums.std(axis=0, ddof=1) / np.sqrt(4 * n * np.maximum(size, 1e-300)) * (size > 0)
    by_chance = Quantities(
        drawn.mean(axis=1).std() / width,
        np.sqrt(drawn.std(axis=1, ddof=1)).std(),
        mean_of_the_worst(drawn, WORST).std() / width,
        *np.split(of_roots, 2),
    )
    worst = float(mean_of_the_worst(returns, WORST))
    realised = Quantities(returns.mean(), returns.std(ddof=1), worst, *np.split(sums.mean(axis=0), 2))
    return _Compared(predicted.array(), realised.array(), by_chance.array())


def _check_episodes(episodes: int, tasks: int, risks: int) -> None:
    """Raise ValueError for too few episodes: each task and risk is a query, and half as many queries have a limit."""
    least = _FEWEST * (tasks * risks + tasks * risks // 2)
    if episodes < least:
        raise ValueError(f"episodes must be at least {least} for {tasks} tasks and {risks} risks, got {episodes}")


def cost_features(library: PolicyLibrary, sums: Floats) -> tuple[Ints, Floats]:
    """Return the indices of the features that are costs in every policy's task, and the sign of each of these features.

    If a feature is a cost, all its sums over episodes have one sign, and its weights in all tasks have the opposite
    sign or are 0. A feature whose sums are all 0 is a cost if its weights are negative. `sums` (n, d) are the sums of
    all d features in n episodes.
    """
    w = np.array([policy.w for policy in library.policies])
    positive, negative = (sums >= 0).all(axis=0), (sums <= 0).all(axis=0)
    never = np.where((w <= 0).all(axis=0), 1.0, 0.0)
    sign = np.where(positive & negative, never, np.where(positive, 1.0, np.where(negative, -1.0, 0.0)))
    against = ((w * sign <= 0).all(axis=0)) & (w != 0).any(axis=0) & (sign != 0)
    chosen = np.flatnonzero(against)
    return chosen, sign[chosen]


def calibration_tasks(
    library: PolicyLibrary, draw: Draw, given: npt.ArrayLike | int | None, trials: Trials, risks: int
) -> Floats:
    """Return weights (n, d): given, drawn from the environment's distribution, or mixtures of the policies' weights.

    If all policies have the same weights, each of these weights is multiplied by a random factor instead.
    """
    if given is not None and not is_whole(given):
        return task_weights("tasks", given, library.n_features)
    most = trials.episodes // (_ENOUGH * risks * 3 // 2)
    n = min(_MOST_TASKS, max(_FEWEST_TASKS, most)) if given is None else given
    rng, count = np.random.default_rng([trials.seed, 79]), whole("tasks", n, 2)
    _check_episodes(trials.episodes, count, risks)  # before tasks are drawn
    found = draw(count, rng)
    if found is not None:
        return found
    trained = np.unique([policy.w for policy in library.policies], axis=0)
    if len(trained) == 1:
        return np.asarray(trained * np.exp(rng.normal(0.0, 0.3, (count, library.n_features))))
    return np.asarray(rng.dirichlet(np.ones(len(trained)), count) @ trained)
