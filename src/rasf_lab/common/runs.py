"""Runs of an experiment on this machine, by the machinery of `rasf_lab.sweep`."""

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
    """Run what is not there yet, one process a core, or else a GPU; what failed before is tried again.

    only: of the sweep's runs, those that are wanted now.

    `tick` is called once for each run, but for those ticked in an earlier call; while many runs are one long job, as
    often as their share of it is done.
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
            f"{len(failed)} of {len(wanted.runs)} runs failed, the first because of {failed[0]}; the rest is kept"
        )


def with_defaults(run: type, parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """All fields of a dataclass but `seed`, as given or else by default; refused if one is unknown or missing."""
    known = {one.name: one.default for one in fields(run) if one.name != "seed"}
    for name in parameters:
        if name not in known:
            raise ValueError(f"{name} is unknown; known are {', '.join(known)}")
    given = known | dict(parameters)
    for name, value in given.items():
        if value is MISSING:
            raise ValueError(f"{name} is missing")
    return given
