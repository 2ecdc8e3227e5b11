"""The four-room experiment (the paper's Figures 3, 8 and 9) and what it says about claims F1 to F10 and T7.

Every algorithm of a seed meets the same tasks, so differences are paired by seed. beta and omega are the paper's, the
bare factor of the variance: beta = -2 is MeanVariance(-4). PRQL's eta and tau are searched for every omega, as the
paper did, on seeds that are not reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from rasf.arrays import Floats
from rasf.experiments.common.results import Result
from rasf.experiments.four_room import claims as four_room_findings
from rasf.experiments.four_room.measures import novel_outcome
from rasf.experiments.four_room.runs import TUNING_SEED, Run, load, run_all, span
from rasf.statistics import standard_error

RISKS = (0.0, -0.5, -1.0, -2.0, -4.0)
ETAS, TAUS = (0.1, 0.3, 0.5), (1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Preset:
    """How large a batch is."""

    seeds: int
    tasks: int
    steps: int
    tuning_seeds: int
    shared_seeds: int
    rollouts: int


PRESETS = {
    "quick": Preset(seeds=2, tasks=24, steps=10_000, tuning_seeds=1, shared_seeds=2, rollouts=20),
    "paper": Preset(seeds=30, tasks=128, steps=20_000, tuning_seeds=5, shared_seeds=10, rollouts=100),
}


def successor_runs(preset: Preset, first_seed: int) -> dict[tuple[str, float], list[Run]]:
    """(Ra)SFQL by initial noise and beta; beta 0 and -2 are evaluated on the novel tasks too."""
    runs: dict[tuple[str, float], list[Run]] = {}
    for beta in RISKS:
        rollouts = preset.rollouts if beta in (0.0, -2.0) else 0
        runs["independent", beta] = [
            Run("sfql", beta, first_seed + s, preset.tasks, preset.steps, "independent", rollouts=rollouts)
            for s in range(preset.seeds)
        ]
        runs["shared", beta] = [
            Run("sfql", beta, first_seed + s, preset.tasks, preset.steps, "shared") for s in range(preset.shared_seeds)
        ]
    return runs


def tuning_runs(preset: Preset) -> dict[tuple[float, float, float], list[Run]]:
    """PRQL for every omega, eta and tau, on seeds that are not reported."""
    return {
        (omega, eta, tau): [
            Run("prql", omega, TUNING_SEED + s, preset.tasks, preset.steps, eta=eta, tau=tau)
            for s in range(preset.tuning_seeds)
        ]
        for omega, eta, tau in product(RISKS, ETAS, TAUS)
    }


def reuse_runs(preset: Preset, first_seed: int, tuned: dict[float, tuple[float, float]]) -> dict[float, list[Run]]:
    """(Ra)PRQL with the tuned eta and tau of every omega."""
    return {
        omega: [
            Run("prql", omega, first_seed + s, preset.tasks, preset.steps, eta=eta, tau=tau)
            for s in range(preset.seeds)
        ]
        for omega, (eta, tau) in tuned.items()
    }


def floor_runs(preset: Preset, first_seed: int) -> list[Run]:
    """Plain Q-learning."""
    return [Run("q-learning", 0.0, first_seed + s, preset.tasks, preset.steps) for s in range(preset.seeds)]


def total_ticks(preset: str) -> int:
    """How many runs there are."""
    size = PRESETS[preset]
    per_risk = size.seeds + size.shared_seeds + size.seeds + size.tuning_seeds * len(ETAS) * len(TAUS)
    return len(RISKS) * per_risk + size.seeds


def run(preset: str, seed: int, tick: Callable[[], None], folder: Path) -> Result:
    """Run what is missing in `folder`/four-room-runs, and sum it up."""
    if seed + PRESETS[preset].seeds > TUNING_SEED:
        raise ValueError(f"seed must be below {TUNING_SEED - PRESETS[preset].seeds}: those above are for tuning")
    begin = time.perf_counter()
    size, runs_folder = PRESETS[preset], folder / "four-room-runs"
    tuning = tuning_runs(size)
    tried = [run for group in tuning.values() for run in group]
    run_all(tried, runs_folder, tick)
    tuned = {omega: _best_setting(omega, tuning, runs_folder) for omega in RISKS}
    successor, reuse = successor_runs(size, seed), reuse_runs(size, seed, tuned)
    floor = floor_runs(size, seed)
    groups = [*successor.values(), *reuse.values(), floor]
    everything = [*tried, *(run for group in groups for run in group)]
    run_all(everything, runs_folder, tick, already_ticked=len(tried))
    curves = {
        **{f"sfql {noise} {beta:g}": _curves(runs, runs_folder) for (noise, beta), runs in successor.items()},
        **{f"prql {omega:g}": _curves(runs, runs_folder) for omega, runs in reuse.items()},
        "q-learning": _curves(floor, runs_folder),
    }
    novel = {
        name: _novel(successor["independent", beta], runs_folder) for name, beta in (("neutral", 0.0), ("averse", -2.0))
    }
    numbers = {
        "settings": vars(size),
        "tuned": {f"{omega:g}": {"eta": eta, "tau": tau} for omega, (eta, tau) in tuned.items()},
        "curves": {name: _summary(curve) for name, curve in curves.items()},
        "novel": {name: _novel_summary(arrays) for name, arrays in novel.items()},
    }
    findings = four_room_findings.judge(curves, novel)
    wall_time = max(time.perf_counter() - begin, span(everything, runs_folder))
    return Result("four-room", preset, seed, wall_time, numbers, findings)


def _best_setting(
    omega: float, tuning: dict[tuple[float, float, float], list[Run]], folder: Path
) -> tuple[float, float]:
    """The eta and tau of the largest mean return."""
    returns = {
        (eta, tau): float(_curves(runs, folder)["return"].sum(axis=1).mean())
        for (o, eta, tau), runs in tuning.items()
        if o == omega
    }
    return max(returns, key=lambda setting: returns[setting])


def _arrays(runs: list[Run], folder: Path, name: str) -> Floats:
    found = []
    for run in runs:
        arrays = load(run, folder)
        if arrays is None:
            raise ValueError(f"the run {run} is missing from {folder}; run `rasf reproduce four-room` again")
        found.append(arrays[name])
    return np.stack(found)


def _curves(runs: list[Run], folder: Path) -> dict[str, Floats]:
    """Return and failures per task, (seeds, tasks) each."""
    return {name: _arrays(runs, folder, name) for name in ("return", "failures")}


def _summary(curve: dict[str, Floats]) -> dict[str, Any]:
    """Means and standard errors over seeds, per task and in total."""
    found: dict[str, Any] = {}
    for name, values in curve.items():
        cumulative = values.cumsum(axis=1)
        shown = {
            "mean": values.mean(axis=0),
            "se": standard_error(values),
            "cumulative_mean": cumulative.mean(axis=0),
            "cumulative_se": standard_error(cumulative),
        }
        found[name] = {key: np.round(curve, 3) for key, curve in shown.items()}  # no figure shows more digits
    return found


def _novel(runs: list[Run], folder: Path) -> dict[str, Floats]:
    """Features (seeds, 27, rollouts, d) and visits (seeds, 27, cells) for every way of acting."""
    ways = ("neutral", "averse", "aware")
    return {f"{kind}_{way}": _arrays(runs, folder, f"{kind}_{way}") for kind in ("features", "visits") for way in ways}


def _novel_summary(arrays: dict[str, Floats]) -> dict[str, Any]:
    """For every way of acting: visits per rollout (27, cells), and what the rollouts earned and risked."""
    found: dict[str, Any] = {}
    for way in ("neutral", "averse", "aware"):
        features = arrays[f"features_{way}"]
        outcome = novel_outcome(features)
        found[way] = {
            "visits": np.round(arrays[f"visits_{way}"].mean(axis=0) / features.shape[2], 4),
            **{name: {"mean": float(v.mean()), "se": float(standard_error(v))} for name, v in outcome.items()},
        }
    return found
