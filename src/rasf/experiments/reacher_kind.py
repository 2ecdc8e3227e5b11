"""The kind `reacher` of `rasf.sweep`: a run is one lane, an agent at one beta with one seed.

On a GPU, runs that differ in beta and seed only are lanes of one program, up to `LANES` together; on a CPU each runs
alone. `beta` is the paper's, the bare factor of the variance. Other parameters are those of `Size` (`width` for both
layers), `bootstrap` and `target_networks`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from rasf.deep.agent import BOOTSTRAPS, PRESETS
from rasf.experiments.reacher_batches import TRAINING, Batch, Size
from rasf.experiments.reacher_runs import run_batch
from rasf.sweep.runs import Outcome, Run, Value, alone

LANES = 20
_SIZES = {one.name for one in fields(Size)} - {"widths"}


class ReacherKind:
    """See the module's header."""

    uses_gpus = True

    def check(self, parameters: Mapping[str, Value]) -> None:
        """Refuse what is unknown or cannot be."""
        known = {"agent", "beta", "width", "bootstrap", "target_networks"} | _SIZES
        for name, value in parameters.items():
            if name not in known:
                raise ValueError(f"{name} is unknown; known are {', '.join(sorted(known))}")
            if name in _SIZES | {"width"} and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ValueError(f"{name} must be a positive whole number, got {value!r}")
        for name, accepted in (
            ("agent", sorted(PRESETS)),
            ("bootstrap", BOOTSTRAPS),
            ("target_networks", (True, False)),
        ):
            if parameters.get(name, accepted[0]) not in accepted:
                raise ValueError(f"{name} must be one of {', '.join(map(str, accepted))}, got {parameters[name]!r}")
        for name in ("agent", "beta"):
            if name not in parameters:
                raise ValueError(f"{name} is missing")
        if isinstance(parameters["beta"], bool | str):
            raise ValueError(f"beta must be a number, got {parameters['beta']!r}")

    def pack(self, runs: Sequence[Run], gpus: int) -> list[list[Run]]:
        """Betas with the same seeds together, where there is a GPU."""
        if not gpus:
            return alone(runs)
        by_beta: dict[Any, dict[float, list[Run]]] = defaultdict(lambda: defaultdict(list))
        for run in runs:
            rest = tuple(sorted((name, value) for name, value in run.parameters.items() if name != "beta"))
            by_beta[rest][float(run.parameters["beta"])].append(run)
        jobs: list[list[Run]] = []
        for betas in by_beta.values():
            by_seeds: dict[tuple[int, ...], list[list[Run]]] = defaultdict(list)
            for group in betas.values():
                for begin in range(0, len(group), LANES):
                    some = group[begin : begin + LANES]
                    by_seeds[tuple(run.seed for run in some)].append(some)
            for seeds, groups in by_seeds.items():
                together = max(1, LANES // len(seeds))
                for begin in range(0, len(groups), together):
                    jobs.append([run for group in groups[begin : begin + together] for run in group])
        return jobs

    def execute(self, runs: Sequence[Run], scratch: Path) -> list[Outcome]:
        """Train the lanes; a killed job goes on from its last checkpoint."""
        given = dict(runs[0].parameters)
        width = given.pop("width", 256)
        size = Size(widths=(int(width), int(width)), **{name: given[name] for name in _SIZES if name in given})  # type: ignore[arg-type]
        batch = Batch(
            "lanes",
            str(given["agent"]),
            tuple(dict.fromkeys(float(run.parameters["beta"]) for run in runs)),
            tuple(dict.fromkeys(run.seed for run in runs)),
            size,
            bootstrap=str(given.get("bootstrap", "own")),
            target_networks=bool(given.get("target_networks", True)),
        )
        found = run_batch(batch, scratch)
        outcomes = []
        for run in runs:
            lane = int(np.flatnonzero((found["beta"] == run.parameters["beta"]) & (found["seed"] == run.seed))[0])
            arrays = {name: part[lane] for name, part in found.items() if name not in _SHARED}
            test = slice(len(TRAINING), None)
            scalars: dict[str, Value] = {
                "test_return": float(arrays["final_return"][test].mean()),
                "test_failures": float(arrays["final_failures"][test].sum()),
                "train_return": float(arrays["final_return"][: len(TRAINING)].mean()),
            }
            outcomes.append(Outcome(scalars, {name: np.ascontiguousarray(part) for name, part in arrays.items()}))
        return outcomes


_SHARED = {"tips", "seconds", "peak_gb", "beta", "seed", "target"}
REACHER = ReacherKind()
