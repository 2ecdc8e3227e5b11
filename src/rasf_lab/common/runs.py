"""Runs of an experiment on this machine, executed by `rasf_lab.sweep`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from rasf_lab.sweep.drive import SweepProgress, drive, jobs_of
from rasf_lab.sweep.runs import Parameter, Run
from rasf_lab.sweep.spec import Spec
from rasf_lab.sweep.store import Store


def run_all(
    spec: Spec,
    folder: Path,
    tick: Callable[[], None],
    gpus: Sequence[str] = (),
    already_ticked: int = 0,
    only: Sequence[Run] | None = None,
) -> None:
    """Execute the runs that are not finished, including runs that failed before.

    Args:
        spec: all runs of the sweep.
        folder: the folder of the sweep.
        tick: called once for each run. If many runs form one job, the calls are spread over the progress of the job.
        gpus: ids of the GPUs to use, with one process on each GPU. Default: no GPUs, and one process on each core.
        already_ticked: the number of runs for which an earlier call of this function called `tick`. Default: 0.
        only: the runs to execute. Default: all runs of the sweep.

    Raises:
        ValueError: a run failed. The finished runs are kept.
    """
    from rasf_lab.sweep.engines.local import LocalEngine
    from rasf_lab.sweep.engines.machine import cores

    store, ticked = Store(folder), already_ticked
    wanted = spec if only is None else Spec(spec.name, tuple(only), spec.limits)

    def show(progress: SweepProgress) -> None:
        nonlocal ticked
        reached = int(progress.done + progress.begun)
        for _ in range(reached - ticked):
            tick()
        ticked = max(ticked, reached)

    with store.driving():
        store.declare(spec)
        store.clear_failures(wanted.runs)
        engine = LocalEngine(folder, cores(), spec.limits, gpus)
        drive(wanted, store, engine, jobs_of(wanted, store, engine.gpus), show)
    failed = list(store.failures(wanted.runs).values())
    if failed:
        raise ValueError(
            f"{len(failed)} of {len(wanted.runs)} runs failed, the first because of {failed[0]}; finished runs are kept"
        )


def with_defaults(run: type, parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return the values of all fields of a dataclass except `seed`, by name.

    Args:
        run: the dataclass.
        parameters: values by name of the field. All other fields have their default.

    Raises:
        ValueError: a parameter is not a field, or a field without a default is missing.
    """
    known = {one.name: one.default for one in fields(run) if one.name != "seed"}
    for name in parameters:
        if name not in known:
            raise ValueError(f"{name} is unknown; known are {', '.join(known)}")
    given = known | dict(parameters)
    for name, value in given.items():
        if value is MISSING:
            raise ValueError(f"{name} is missing")
    return given
