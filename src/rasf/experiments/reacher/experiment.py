"""The reacher experiment (the paper's Figures 4, 6 and 10 to 14) and what it says about claims R1 to R15.

Batches are run as a sweep (`reacher_sweep`), on GPUs where there are some; the paper's size wants one. What is finished
is kept, and the summary is made from the batches that are there: a claim for which one is missing stays unmeasured.
beta is the paper's, the bare factor of the variance: beta = -3 is MeanVariance(-6). Returns are normalised by C51
trained alone on each target.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rasf.experiments.common.results import Result
from rasf.experiments.reacher import batches as reacher_batches
from rasf.experiments.reacher import claims as reacher_findings
from rasf.experiments.reacher import reacher_sweep
from rasf.experiments.reacher.batches import Arrays, Batch, Size
from rasf.experiments.reacher.measures import Measures, measures
from rasf.experiments.reacher.tensorboard_log import ScalarLog
from rasf.statistics import standard_error
from rasf.sweep.engines import machine

RISKS = (0.0, -1.0, -2.0, -3.0, -4.0)
_TEN = tuple(range(10))
_QUICK = Size(
    steps_per_task=10_000,
    evaluate_every=2_500,
    rollouts=4,
    final_rollouts=10,
    widths=(48, 48),
    atoms=11,
    target_period=250,
    map_points=13,
    truth_rollouts=8,
    truth_steps=40,
)
# after 10,000 steps C51 alone is on some targets worse than untrained, and returns would be normalised by noise
_QUICK_ALONE = replace(_QUICK, steps_per_task=40_000, evaluate_every=10_000)


def batches(preset: str, seed: int) -> list[Batch]:
    """All batches of a preset; twenty lanes of RaSFC51 are what one GPU trains in half an hour."""
    if preset == "quick":
        one = (seed,)
        return [
            Batch("rasfc51", "rasfc51", (0.0, -3.0), one, _QUICK),
            Batch("rac51", "rac51", (0.0, -3.0), one, _QUICK),
            Batch("alone", "rac51", (0.0,), one, _QUICK_ALONE, alone=True),
            Batch("sfdqn", "sfdqn", (0.0,), one, _QUICK),
            Batch("residual", "sfdqn-residual", (-3.0,), one, _QUICK),
        ]
    seeds, size = tuple(seed + s for s in _TEN), Size()
    return [
        Batch("rasfc51-main", "rasfc51", (0.0, -3.0), seeds, size),
        Batch("alone", "rac51", (0.0,), seeds, size, alone=True),
        Batch("rac51", "rac51", RISKS, seeds, size),
        Batch("sfdqn", "sfdqn", (0.0,), seeds, size),
        Batch("residual", "sfdqn-residual", (-3.0,), seeds[:5], size),
        Batch("relabelled", "rac51-relabelled", (0.0, -3.0), seeds, size),
        Batch("rasfc51-betas", "rasfc51", (-1.0, -2.0, -4.0), seeds[:5], size),
        Batch("rasfc51-betas-more", "rasfc51", (-1.0, -2.0, -4.0), seeds[5:9], size),
        Batch("rasfc51-betas-last", "rasfc51", (-1.0, -2.0, -4.0), seeds[9:], size),
        Batch("sfdqn-gpi", "sfdqn", (0.0,), seeds, size, bootstrap="gpi"),
        Batch("sfdqn-no-target", "sfdqn", (0.0,), seeds, size, target_networks=False),
    ]


def chosen(preset: str, seed: int, only: Collection[str]) -> list[Batch]:
    """The batches named in `only`, or all if it is empty."""
    every = batches(preset, seed)
    unknown = set(only) - {batch.name for batch in every}
    if unknown:
        raise ValueError(
            f"batch must be one of {', '.join(batch.name for batch in every)}, got {', '.join(sorted(unknown))}"
        )
    return [batch for batch in every if not only or batch.name in only]


@dataclass(frozen=True)
class Options:
    """Batches to run (all if empty), the device that must be there, and where to write scalars for TensorBoard."""

    only: tuple[str, ...] = ()
    device: str = "any"
    tensorboard: Path | None = None


_ALL = Options()


def total_ticks(preset: str, options: Options = _ALL) -> int:
    """How many trials there are."""
    return sum(len(reacher_batches.trials(batch)) for batch in chosen(preset, 0, options.only))


def run(preset: str, seed: int, tick: Callable[[], None], folder: Path, options: Options = _ALL) -> Result | str:
    """Run what is missing in `folder`/reacher-runs, and sum up all that is there, or say why it cannot be summed up."""
    runs_folder = folder / "reacher-runs"
    planned = chosen(preset, seed, options.only)
    missing = [batch.name for batch in planned if reacher_batches.load(batch, runs_folder) is None]
    gpus = machine.gpus() if options.device in ("any", "gpu") else []
    if options.device == "gpu" and not gpus:
        raise ValueError("jax finds no gpu here; install rasf[cuda12] or rasf[cuda13], or leave --device out")
    if preset == "paper" and missing and options.device == "any" and not gpus:
        raise ValueError(
            "the reacher at the paper's size wants a GPU, and jax finds none here; use --preset quick, or insist with "
            "--device cpu, which takes days a batch"
        )
    if options.tensorboard:
        ScalarLog(options.tensorboard)  # or say now that it is not installed
    reacher_sweep.run_batches(planned, folder, tick, gpus, options.tensorboard)
    return summarise(preset, seed, runs_folder)


def summarise(preset: str, seed: int, runs_folder: Path) -> Result | str:
    """The result of all finished batches in a folder; or a sentence, where there are not yet enough."""
    done = {batch: reacher_batches.load(batch, runs_folder) for batch in batches(preset, seed)}
    found = {batch: arrays for batch, arrays in done.items() if arrays is not None}
    if not any(batch.alone for batch in found):
        return f"to sum up {runs_folder}, run the batch 'alone' too, which normalises returns"
    if all(batch.alone for batch in found):
        return f"to sum up {runs_folder}, run an agent's batch too; 'alone' only normalises returns"
    measured = measures(found)
    size = next(batch.size for batch in found if not batch.alone)
    seconds = {batch.name: float(arrays["seconds"][0]) for batch, arrays in found.items()}
    devices = sorted({reacher_batches.device_of(batch, runs_folder) for batch in found})
    numbers: dict[str, Any] = {
        "settings": vars(size),
        "batches": {
            batch.name: {"seconds": seconds[batch.name], "lanes": len(found[batch]["seed"])} for batch in found
        },
        "steps": measured.steps,
        "normaliser": {"begin": measured.begin, "end": measured.end},
        "agents": {name: _summary(measured, name) for name in measured.names},
        "maps": _maps(found, size),
        "tips": _tips(found),
    }
    findings = reacher_findings.judge(measured, found, size)
    return Result("reacher", preset, seed, sum(seconds.values()), numbers, findings, device="; ".join(devices))


def _summary(measured: Measures, name: str) -> dict[str, Any]:
    """Curves over training and the final policies of one agent at one beta: means and standard errors over seeds."""
    curves = {
        "train_return": measured.normalised(name)[:, :, : len(reacher_batches.TRAINING)],
        "test_return": measured.test_return(name),
        "test_failures": measured.test_failures(name),
    }
    finals = {
        f"{way}_{what}": measured.final(name, what, way)
        for way in ("final", "aware")
        for what in ("return", "failures", "in_circle", "distance")
    }
    return {
        key: {"mean": _short(values.mean(axis=0)), "se": _short(standard_error(values))}
        for key, values in {**curves, **finals}.items()
    } | {"seeds": measured.seeds(name), "clipped": measured.clipped(name).mean(axis=0)}


def _short(values: Any) -> Any:
    """No figure shows more digits."""
    return np.round(np.asarray(values, float), 4)


def _maps(found: dict[Batch, Arrays], size: Size) -> dict[str, Any]:
    """Maps, mean over seeds, at the reached points: objectives after the last task; variances after every task."""
    shown: dict[str, Any] = {"points": size.map_points}
    for agent in ("rasfc51", "sfdqn-residual"):
        for beta in (0.0, -3.0):
            lanes = [
                {key: arrays[key][arrays["beta"] == beta].astype(float) for key in arrays if key.startswith("map_")}
                for batch, arrays in found.items()
                if batch.agent == agent and beta in batch.betas
            ]
            if not lanes:
                continue
            means = {key: np.concatenate([lane[key] for lane in lanes]).mean(axis=0) for key in lanes[0]}
            shown[f"{agent} {beta:g}"] = {
                "objective": _short(means["map_objective"]),
                "variance": _short(means["map_variance"]),
                "truth": _short(means["map_truth"]),
                "negative": _short(means["map_negative"]),
            }
    return shown


def _tips(found: dict[Batch, Arrays]) -> dict[str, Any]:
    """Where the tip went in three rollouts a task, of the first seed, every fifth step."""
    shown: dict[str, Any] = {}
    for agent, beta in (("rasfc51", -3.0), ("rasfc51", 0.0), ("rac51", -3.0)):
        for batch, arrays in found.items():
            if batch.agent == agent and beta in batch.betas and not batch.alone:
                place = batch.betas.index(beta)
                shown.setdefault(f"{agent} {beta:g}", _short(arrays["tips"][place, :, :, ::5]))
    return shown
