"""The kind `reacher` of `rasf.sweep`: a run is a trial, an agent at one beta with one seed.

`beta` is the paper's, the bare factor of the variance. With a `target` it is C51 alone on that target, which it does
not see; returns are normalised by it. Other parameters are those of `Size` (`width` for both layers), `bootstrap` and
`target_networks`.

Runs that differ in beta, seed and target only are lanes of one program. A step of RaSFC51 is bound by the memory's
bandwidth: more lanes take longer, not less, so up to `LANES` go together (half an hour and 4 GB on an H200), fewer
where several GPUs can share them. The other agents are bound by the number of small operations, and lanes are almost
free: up to `MANY_LANES` go together, as many as were ever tried (140 s).

A run owns all it found, and its share of what its job took. Two things lie beside the runs: scalars for TensorBoard in
the folder that RASF_TENSORBOARD names, and in `networks` of the sweep's folder the networks of a job's first seed.
"""

from __future__ import annotations

import math
import os
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from rasf.deep.agent import BOOTSTRAPS, DEEP_AGENTS, preset
from rasf.experiments.reacher.batches import TARGETS, TRAINING, Arrays, Batch, Size, Trial, ticks, trials
from rasf.experiments.reacher.runs import CHECKPOINT_EVERY_S, save_networks, train
from rasf.experiments.reacher.tensorboard_log import ScalarLog
from rasf.sweep.runs import Outcome, Run, Value, alone
from rasf.sweep.store import report_progress

LANES, MANY_LANES = 20, 120
TENSORBOARD = "RASF_TENSORBOARD"
_SIZES = {one.name: one.default for one in fields(Size) if one.name != "widths"}
_LANE = {"beta", "target"}  # with the seed, what lanes may differ in
_SHARED = {"seconds", "peak_gb"}  # of all lanes together


class ReacherKind:
    """See the module's header."""

    uses_gpus = True

    def __init__(self, checkpoint_every_s: float = CHECKPOINT_EVERY_S) -> None:
        self._checkpoint_every_s = checkpoint_every_s

    def check(self, parameters: Mapping[str, Value]) -> None:
        """Refuse what is unknown or cannot be."""
        known = {"agent", "beta", "target", "width", "bootstrap", "target_networks"} | set(_SIZES)
        for name, value in parameters.items():
            if name not in known:
                raise ValueError(f"{name} is unknown; known are {', '.join(sorted(known))}")
            whole = isinstance(value, int) and not isinstance(value, bool)
            if name in {"width", *_SIZES} and (not whole or int(value) < 1):
                raise ValueError(f"{name} must be a positive whole number, got {value!r}")
            if name == "target" and (not whole or value not in TARGETS):
                raise ValueError(f"target must be a whole number from 0 to {TARGETS[-1]}, got {value!r}")
        for name, accepted in (
            ("agent", DEEP_AGENTS),
            ("bootstrap", BOOTSTRAPS),
            ("target_networks", (True, False)),
        ):
            if parameters.get(name, accepted[0]) not in accepted:
                raise ValueError(f"{name} must be one of {', '.join(map(str, accepted))}, got {parameters[name]!r}")
        for name in ("agent", "beta"):
            if name not in parameters:
                raise ValueError(f"{name} is missing")
        beta = parameters["beta"]
        if isinstance(beta, bool | str) or not math.isfinite(beta):
            raise ValueError(f"beta must be a finite number, got {beta!r}")
        if "target" in parameters and parameters["agent"] not in ("c51", "rac51"):
            raise ValueError(f"target is for the agents c51 and rac51 only, got {parameters['agent']}")

    def pack(self, runs: Sequence[Run], gpus: int) -> list[list[Run]]:
        """Betas and targets with the same seeds together, where there is a GPU."""
        if not gpus:
            return alone(runs)
        groups: dict[Any, list[Run]] = defaultdict(list)
        for run in runs:
            groups[tuple(sorted((name, run.parameters[name]) for name in run.parameters.keys() - _LANE))].append(run)
        return [job for group in groups.values() for job in _products(group, _most(group, gpus))]

    def execute(self, runs: Sequence[Run], scratch: Path) -> list[Outcome]:
        """Train the lanes; a killed job goes on from its last checkpoint."""
        batch = _batch(runs)
        folder = os.environ.get(TENSORBOARD)
        log = ScalarLog(Path(folder)) if folder else None
        said = 0

        def tick() -> None:
            nonlocal said
            said += 1
            self.say(f"{batch.name}, lanes {len(runs)}: {said} of {ticks(batch)} chunks of training are done")
            report_progress(scratch, said / (ticks(batch) + 1))  # the last look comes after them

        found, lanes = train(batch, scratch / "lanes.checkpoint", tick, log, self._checkpoint_every_s)
        places = {trial: lane for lane, trial in enumerate(trials(batch))}
        for run in runs:
            if lanes is not None and run.seed == batch.seeds[0]:
                save_networks(batch, lanes, places[_trial(run)], networks_of(run, scratch.parent.parent))
        return [_outcome(found, places[_trial(run)], len(runs)) for run in runs]

    def say(self, sentence: str) -> None:
        """For the log of the sweep's workers."""
        sys.stdout.write(f"{sentence}\n")
        sys.stdout.flush()


REACHER = ReacherKind()


def runs_of(batch: Batch) -> list[Run]:
    """The runs of a batch, in the order of its arrays; what is as in the paper is not named."""
    width = batch.size.widths[0]
    if batch.size.widths != (width, width):
        raise ValueError(f"widths must be two equal numbers to be swept, got {batch.size.widths}")
    named: dict[str, Value] = {"agent": batch.agent, "width": width, "bootstrap": batch.bootstrap}
    named |= {"target_networks": batch.target_networks} | {name: getattr(batch.size, name) for name in _SIZES}
    usual = {"width": Size().widths[0], "bootstrap": "own", "target_networks": True, **_SIZES}
    rest = {name: value for name, value in named.items() if value != usual.get(name)}
    return [
        Run(f"{__name__}:REACHER", rest | {"beta": beta} | ({"target": target} if batch.alone else {}), seed)
        for beta, seed, target in trials(batch)
    ]


def networks_of(run: Run, folder: Path) -> Path:
    """Where a run's networks are, if they are kept, in the folder of a sweep."""
    return folder / "networks" / f"{run.id}.networks"


def _trial(run: Run) -> Trial:
    return Trial(float(run.parameters["beta"]), run.seed, int(run.parameters.get("target", -1)))


def _batch(runs: Sequence[Run]) -> Batch:
    """The batch with these runs; with more, if they are not all combinations of their betas, seeds and targets."""
    given, wanted = runs[0].parameters, list(map(_trial, runs))
    width = int(given.get("width", Size().widths[0]))
    size: dict[str, Any] = {name: given[name] for name in _SIZES if name in given}
    bootstrap, target_networks = str(given.get("bootstrap", "own")), bool(given.get("target_networks", True))
    alone = "target" in given
    marks = ("alone" if alone else "", "" if bootstrap == "own" else bootstrap, "" if target_networks else "no-target")
    return Batch(
        "-".join([str(given["agent"]), *filter(None, marks)]),
        str(given["agent"]),
        tuple(dict.fromkeys(trial.beta for trial in wanted)),
        tuple(dict.fromkeys(trial.seed for trial in wanted)),
        Size(widths=(width, width), **size),
        alone,
        bootstrap,
        target_networks,
        tuple(dict.fromkeys(trial.target for trial in wanted)) if alone else (),
    )


def _outcome(found: Arrays, lane: int, together: int) -> Outcome:
    """A lane's own arrays; of the seconds its share, so that all shares together are what was spent."""
    arrays = {name: np.array(part[lane]) for name, part in found.items() if name not in _SHARED | _LANE | {"seed"}}
    arrays |= {"seconds": found["seconds"] / together, "peak_gb": found["peak_gb"]}
    returns, failures = arrays["final_return"], arrays["final_failures"]
    if len(returns) == 1:
        return Outcome({"return": float(returns[0]), "failures": float(failures[0])}, arrays)
    test = slice(len(TRAINING), None)
    scalars: dict[str, Value] = {
        "test_return": float(returns[test].mean()),
        "test_failures": float(failures[test].sum()),
        "train_return": float(returns[: len(TRAINING)].mean()),
    }
    return Outcome(scalars, arrays)


def _most(group: Sequence[Run], gpus: int) -> int:
    """How many of these go together."""
    agent = preset(str(group[0].parameters["agent"]))
    if agent.conditioned or agent.law != "histogram":
        return MANY_LANES
    return min(LANES, -(-len(group) // gpus))


def _products(group: Sequence[Run], most: int) -> list[list[Run]]:
    """Jobs of at most so many runs: those with the same seeds, as one program has every beta with every seed."""
    series: dict[tuple[float, int], list[Run]] = defaultdict(list)
    for run in group:
        beta, _, target = _trial(run)
        series[beta, target].append(run)
    by_seeds: dict[tuple[int, ...], list[list[Run]]] = defaultdict(list)
    for one in series.values():
        for begin in range(0, len(one), most):
            some = one[begin : begin + most]
            by_seeds[tuple(run.seed for run in some)].append(some)
    jobs = []
    for seeds, parts in by_seeds.items():
        together = max(1, most // len(seeds))
        jobs += [
            [run for part in parts[begin : begin + together] for run in part]
            for begin in range(0, len(parts), together)
        ]
    return jobs
