"""Runs of an experiment on this machine, by the machinery of `rasf.sweep`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rasf.sweep.drive import Progress, drive, jobs_of
from rasf.sweep.local import LocalEngine
from rasf.sweep.machine import cores
from rasf.sweep.spec import Spec
from rasf.sweep.store import Store


def run_all(
    spec: Spec, folder: Path, tick: Callable[[], None], gpus: Sequence[str] = (), already_ticked: int = 0
) -> None:
    """Run what is not there yet, one process a core, or else a GPU; what failed before is tried again.

    `tick` is called once for each finished run, but for those ticked in an earlier call.
    """
    store, ticked = Store(folder), already_ticked

    def show(progress: Progress) -> None:
        nonlocal ticked
        for _ in range(progress.done - ticked):
            tick()
        ticked = max(ticked, progress.done)

    with store.driving():
        store.declare(spec)
        store.forgive(spec.runs)
        engine = LocalEngine(folder, cores(), spec.limits, gpus)
        drive(spec, store, engine, jobs_of(spec, store, engine.gpus), show)
    failed = list(store.failures(spec.runs).values())
    if failed:
        raise ValueError(
            f"{len(failed)} of {len(spec.runs)} runs failed, the first because of {failed[0]}; the rest is kept"
        )
