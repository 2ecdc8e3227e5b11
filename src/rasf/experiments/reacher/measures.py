"""What the reacher's runs measured, by agent and beta, seeds in front, with normalised returns; and its summary.

Normalised as in the paper: G_n = (G - G_b) / (G_a - G_b), with the mean return of C51 trained alone on a target, at the
beginning and at the end of training.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rasf.agents import AGENTS
from rasf.arrays import Array, Floats
from rasf.experiments.reacher.training import BETAS, SIZES, TRAINING, ReacherRun
from rasf.files import Arrays
from rasf.statistics import standard_error

RISKS = tuple(f"{beta:g}" for beta in BETAS)
_N_TRAIN = len(TRAINING)
_NOT_JOINED = ("tips", "peak_gb")  # of some runs only
_SHOWN_MAPS = ("rasfc51 0", "rasfc51 -3", "sfdqn-residual 0", "sfdqn-residual -3")
_SHOWN_TIPS = ("rasfc51 -3", "rasfc51 0", "rac51 -3")


def title(name: str) -> str:
    """What figures call the runs of a label: "rasfc51 -3" is RaSFC51 (3), and "rasfc51 0" is SFC51."""
    agent, beta = name.rsplit(" ", 1)
    neutral = next((spec.title for spec in AGENTS.values() if spec.risk_aware_form == agent), AGENTS[agent].title)
    return neutral if beta == "0" else f"{AGENTS[agent].title} ({beta.lstrip('-')})"


@dataclass(frozen=True)
class Measures:
    """Arrays by label, sorted by seed; `begin` and `end` (12,) are the normaliser's returns."""

    arrays: dict[str, Arrays]
    begin: Floats
    end: Floats
    steps: Floats
    map_points: int = ReacherRun.map_points

    def seeds(self, name: str) -> int:
        """How many seeds."""
        return len(self.arrays[name]["seed"])

    def normalised(self, name: str) -> Floats:
        """Normalised return (seeds, evaluations, 12)."""
        return (self.arrays[name]["return"] - self.begin) / (self.end - self.begin)

    def test_return(self, name: str) -> Floats:
        """Normalised return (seeds, evaluations), mean over the test tasks."""
        return self.normalised(name)[:, :, _N_TRAIN:].mean(axis=2)

    def test_failures(self, name: str) -> Floats:
        """Failures per rollout (seeds, evaluations), summed over the test tasks."""
        return self.arrays[name]["failures"][:, :, _N_TRAIN:].sum(axis=2)

    def final(self, name: str, what: str, way: str = "final") -> Floats:
        """Of the final policy, (seeds, 12): return (normalised), failures, in_circle or distance."""
        values = self.arrays[name][f"{way}_{what}"]
        return (values - self.begin) / (self.end - self.begin) if what == "return" else values

    def final_test(self, name: str, what: str) -> Floats:
        """Of the final policy on the test tasks, (seeds,): failures summed, everything else its mean."""
        values = self.final(name, what)[:, _N_TRAIN:]
        return values.sum(axis=1) if what == "failures" else values.mean(axis=1)


def measures(found: Mapping[ReacherRun, Arrays]) -> Measures:
    """Gather the arrays of finished runs, among which must be the normaliser's."""
    alone: dict[int, list[Arrays]] = defaultdict(list)
    by_label: dict[str, list[ReacherRun]] = defaultdict(list)
    for run, arrays in found.items():
        if run.target is None:
            by_label[run.label].append(run)
        else:
            alone[run.target].append(arrays)
    begin = [np.mean([arrays["return"][0, 0] for arrays in alone[target]]) for target in sorted(alone)]
    end = [np.mean([arrays["final_return"][0] for arrays in alone[target]]) for target in sorted(alone)]
    joined = {}
    for name, runs in by_label.items():
        runs.sort(key=lambda run: run.seed)
        names = [key for key in found[runs[0]] if key not in _NOT_JOINED]
        joined[name] = {key: np.stack([found[run][key] for run in runs]).astype(float) for key in names}
        joined[name]["seed"] = np.array([run.seed for run in runs])
    one = next(run for run in found if run.target is None)
    evaluations = joined[one.label]["return"].shape[1]
    steps = one.evaluate_every * np.arange(evaluations, dtype=float)
    return Measures(joined, np.array(begin, float), np.array(end, float), steps, one.map_points)


def summary(measured: Measures, found: Mapping[ReacherRun, Arrays]) -> dict[str, Any]:
    """The numbers that figures are drawn from."""
    one = next(run for run in found if run.target is None)
    settings = {name: getattr(one, name) for name in SIZES if name != "width"} | {"widths": [one.width, one.width]}
    maps = {name: measured.arrays[name] for name in _SHOWN_MAPS if name in measured.arrays}
    tips: dict[str, Array] = {}
    for run, arrays in found.items():
        if run.label in _SHOWN_TIPS and "tips" in arrays:
            tips.setdefault(run.label, _short(arrays["tips"][:, :, ::5]))  # of the first seed, every fifth step
    return {
        "settings": settings,
        "steps": measured.steps,
        "normaliser": {"begin": measured.begin, "end": measured.end},
        "agents": {name: _curves_and_finals(measured, name) for name in measured.arrays},
        "maps": {"points": measured.map_points} | {name: _maps(arrays) for name, arrays in maps.items()},
        "tips": tips,
    }


def _curves_and_finals(measured: Measures, name: str) -> dict[str, Any]:
    """Curves over training and the final policies of one agent at one beta: means and standard errors over seeds."""
    curves = {
        "train_return": measured.normalised(name)[:, :, :_N_TRAIN],
        "test_return": measured.test_return(name),
        "test_failures": measured.test_failures(name),
    }
    finals = {
        f"{way}_{what}": measured.final(name, what, way)
        for way in ("final", "aware")
        for what in ("return", "failures", "in_circle", "distance")
    }
    clipped = measured.arrays[name]["clipped"].mean(axis=1).mean(axis=0)  # at the two ends of the support
    return {
        key: {"mean": _short(values.mean(axis=0)), "se": _short(standard_error(values))}
        for key, values in {**curves, **finals}.items()
    } | {"seeds": measured.seeds(name), "clipped": clipped}


def _maps(arrays: Arrays) -> dict[str, Array]:
    """Mean over seeds, at the reached points: objectives after the last task; variances after every task."""
    return {key: _short(arrays[f"map_{key}"].mean(axis=0)) for key in ("objective", "variance", "truth", "negative")}


def _short(values: Array) -> Array:
    """No figure shows more digits."""
    return np.round(np.asarray(values, float), 4)
