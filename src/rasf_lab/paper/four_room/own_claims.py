"""Verdicts on M1 to M9, our own goals for `rasf-model` in four-room; `claims.toml` has the rules in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy.stats import spearmanr

from rasf.arrays import Floats
from rasf.statistics import Interval, event_interval, mean_interval, ratio_interval
from rasf_lab.common.results import Reading
from rasf_lab.common.verdicts import below, side, worst
from rasf_lab.paper.four_room.measures import Arrays
from rasf_lab.paper.four_room.promises import LEVELS, relative_errors, rises

Curves = Mapping[str, Arrays]
_SOON = 32  # tasks
_TASKS_ENOUGH = 24.5  # of 27 novel ones: at least 25


def _at_least(curves: Curves, name: str, tasks: int | None, least: float, most_failures: float = np.inf) -> Reading:
    """M1 to M3: return and failures of the first tasks."""
    returns, failures = (mean_interval(curves[name][what][:, :tasks].sum(axis=1)) for what in ("return", "failures"))
    text = f"return {_long(returns)}, failures {_long(failures)}"
    verdict = worst([side(returns, least), below(failures, most_failures)])
    number = f"{returns.estimate:,.0f} / {failures.estimate:,.0f}"
    return Reading(verdict, text, len(curves[name]["return"]), number)


def _long(interval: Interval) -> str:
    return "{:,.0f} [{:,.0f}, {:,.0f}]".format(*interval)


def _seconds(curves: Curves) -> Reading:
    """M4: time of a run, and the share of planning in it."""
    both = np.concatenate([curves[f"rasf-model {risk}"]["seconds"] for risk in ("0", "-2")])
    seconds, share = mean_interval(both[:, 0]), float((both[:, 1] / both[:, 0]).mean())
    text = f"{seconds} s a run, the longest {both[:, 0].max():.3g} s; planning is {share:.0%} of it"
    return Reading(below(seconds, 30.0), text, len(both), f"{seconds.estimate:.1f} s")


def _near_the_optimum(curves: Curves) -> Reading:
    """M5: the last quarter of the tasks against the exact optimum of others of the same distribution, a task."""
    texts, verdicts = [], []
    for risk in ("0", "-2"):
        if f"optimum {risk}" not in curves:
            return Reading("not decided", "the optimum was not solved", 0)
        learned, best = curves[f"rasf-model {risk}"]["return"], curves[f"optimum {risk}"]["return"]
        late = learned[:, -max(1, learned.shape[1] // 4) :].mean(axis=1)
        share = ratio_interval(late, best.mean(axis=1))
        failed = [curves[f"{name} {risk}"]["failures"].mean() for name in ("rasf-model", "optimum")]
        verdicts.append(side(share, 0.9))
        texts.append(
            f"{risk}: {share} of the optimum's {best.mean():.0f} a task, failures {failed[0]:.2f} and {failed[1]:.2f}"
        )
    return Reading(worst(verdicts), "; ".join(texts), len(late), f"{share.estimate:.0%} of it")


def _one_stream(curves: Curves) -> Reading:
    """M6: the novel tasks with sources of one stream for two risks, against those of a stream for each."""
    both, texts, verdicts = curves["rasf-model library both"], [], []
    for n, risk in enumerate(("0", "-2")):
        own = curves[f"rasf-model library {risk}"]
        share = ratio_interval(both["novel_return"][:, n].mean(axis=-1), own["novel_return"][:, 0].mean(axis=-1))
        shared, alone = (part.mean(axis=-1) for part in (both["novel_failures"][:, n], own["novel_failures"][:, 0]))
        more = mean_interval(shared - alone)
        verdicts += [side(share, 0.95), below(more, 0.01)]
        texts.append(
            f"{risk}: {share} of the return, failures {shared.mean():.4f} against {alone.mean():.4f} a rollout"
        )
    return Reading(worst(verdicts), "; ".join(texts), len(shared), f"{share.estimate:.0%} of it")


def _predictions(curves: Curves) -> Reading:
    """M7: sources alone, medians of the relative errors of a seed."""
    both = curves["rasf-model library both"]
    errors = relative_errors(both["predicted"], both["realised"])  # (seeds, sources, 27, 2)
    varies = both["realised"][..., 1] > 1e-9  # beyond rounding
    mean = mean_interval(np.median(errors[..., 0].reshape(len(errors), -1), axis=1))
    risky = mean_interval(np.array([np.median(one[..., 0][v]) for one, v in zip(errors, varies, strict=True)]))
    variance = mean_interval(np.array([np.median(one[..., 1][v]) for one, v in zip(errors, varies, strict=True)]))
    text = (
        f"median error of the mean {_share(mean)}, where the return varies at all ({varies.mean():.0%} of sources and "
        f"tasks) {_share(risky)}, and of the variance there {_share(variance)}"
    )
    verdict = worst([below(mean, 0.05), below(risky, 0.05), below(variance, 0.1)])
    return Reading(verdict, text, len(errors), f"{risky.estimate:.1%} / {variance.estimate:.1%}")


def _share(interval: Interval) -> str:
    return "{:.2%} [{:.2%}, {:.2%}]".format(*interval)


def _dial(curves: Curves) -> Reading:
    """M8: rank correlation of failures with aversion, task by task; where failures never change there is none."""
    counts = {}
    for name in ("rasf-model library both", "rasfql dial"):
        failures = curves[name]["dial_failed"].mean(axis=-1)  # (seeds, 27, levels)
        counts[name] = np.array([sum(_correlation(task) <= -0.9 for task in one) for one in failures])
    ours = event_interval(counts["rasf-model library both"].astype(np.float64))
    failures = curves["rasf-model library both"]["dial_failed"].mean(axis=-1)
    different = np.mean([[len(np.unique(task)) for task in one] for one in failures])
    never = float(np.mean((failures == 0).all(axis=-1).sum(axis=1)))
    text = (
        f"on {ours} of 27 tasks (RaSFQL {counts['rasfql dial'].mean():.1f}); on {never:.1f} of them nothing ever "
        f"fails, and a task has {different:.1f} different failure rates at {len(LEVELS)} levels"
    )
    if "optimum novel" in curves:
        exact = int((curves["optimum novel"]["failures"] == 0).sum())
        text += f"; even the exact neutral optimum never fails on {exact} tasks"
    return Reading(side(ours, _TASKS_ENOUGH), text, len(failures), f"{ours.estimate:.1f} of 27")


def _correlation(failures: Floats) -> float:
    """Spearman's, of failures with aversion; 0 where all are alike."""
    return float(spearmanr(np.arange(len(failures)), failures).statistic) if np.ptp(failures) > 0 else 0.0


def _never_rises(curves: Curves) -> Reading:
    """M8 again: tasks on which no level fails more often than the one before it."""
    ours, rasfql = (
        np.array([27.0 - rises(one).sum() for one in curves[name]["dial_failed"]])
        for name in ("rasf-model library both", "rasfql dial")
    )
    ends = curves["rasf-model library both"]["dial_failed"].mean(axis=(0, 1, 3))[[0, -1]]
    text = (
        f"on {mean_interval(ours)} of 27 tasks (RaSFQL {mean_interval(rasfql)}); failures a rollout {ends[0]:.4f} at 0 "
        f"and {ends[1]:.4f} at {LEVELS[-1]:g}"
    )
    return Reading(side(mean_interval(ours), _TASKS_ENOUGH), text, len(ours), f"{ours.mean():.1f} of 27")


def _weights_learned(curves: Curves) -> Reading:
    """M9: M1 and M2 where the weights are learned, as the paper's agents learn them."""
    averse = _at_least(curves, "rasf-model w-learned -2", None, 140_000, 1_500)
    neutral = _at_least(curves, "rasf-model w-learned 0", None, 150_000)
    text = f"-2: {averse.measured}; 0: {neutral.measured}"
    return Reading(worst([averse.verdict, neutral.verdict]), text, averse.seeds, averse.number)


RULES: dict[str, Callable[[Curves], Reading]] = {
    "M1": lambda curves: _at_least(curves, "rasf-model -2", None, 140_000, 1_500),
    "M2": lambda curves: _at_least(curves, "rasf-model 0", None, 150_000),
    "M3": lambda curves: _at_least(curves, "rasf-model -2", _SOON, 28_000, 600),
    "M4": _seconds,
    "M5": _near_the_optimum,
    "M6": _one_stream,
    "M7": _predictions,
    "M8": _dial,
    "M9": _weights_learned,
}
SECOND = {"M8": _never_rises}
