"""The reacher's batches by the machinery of `rasf.sweep`: their trials are runs of a sweep, and a batch whose runs are
all finished becomes one file, as `run_batch` would have written it.

    OUT/reacher-sweep        the folder of the sweep
    OUT/reacher-runs         batches that are complete; what has a file here is not run again
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from rasf.experiments.common import many_runs
from rasf.experiments.reacher import batches as reacher_batches
from rasf.experiments.reacher.batches import Arrays, Batch, Trial, first_seeds, trials
from rasf.experiments.reacher.kind import TENSORBOARD, networks_of, runs_of
from rasf.sweep.spec import Spec
from rasf.sweep.store import Store

_OF_THE_BATCH = ("tips", "seconds", "peak_gb")


def run_batches(
    batches: Sequence[Batch],
    folder: Path,
    tick: Callable[[], None] = lambda: None,
    gpus: Sequence[str] = (),
    tensorboard: Path | None = None,
) -> None:
    """Run what is missing of these batches, on these GPUs or else on the cores; `tick` once a trial."""
    kept, sweep = folder / "reacher-runs", folder / "reacher-sweep"
    missing = [batch for batch in batches if reacher_batches.load(batch, kept) is None]
    for _ in range(sum(len(trials(batch)) for batch in batches if batch not in missing)):
        tick()
    if not missing:
        return
    for batch in missing:
        if reacher_batches.is_taken(batch, kept):
            raise ValueError(
                f"{reacher_batches.path_of(batch, kept)} holds another preset, seed or version of the batch "
                f"{batch.name!r}, and would be lost; use another --out, or move it away"
            )
    spec = Spec("reacher", tuple(run for batch in missing for run in runs_of(batch)))
    try:
        with _telling_workers(tensorboard):
            many_runs.run_all(spec, sweep, tick, gpus)
    finally:
        for batch in missing:
            gather(batch, Store(sweep), kept)


def gather(batch: Batch, store: Store, folder: Path) -> None:
    """Write the file of a batch, and its networks, if all of its runs are finished; else nothing."""
    runs = runs_of(batch)
    done = [one for run in runs if (one := store.finished(run)) is not None]
    if len(done) < len(runs):
        return
    parts = [one.arrays for one in done]
    firsts = first_seeds(batch)
    found: Arrays = {name: np.stack([part[name] for part in parts]) for name in parts[0] if name not in _OF_THE_BATCH}
    found |= {name: np.array([getattr(trial, name) for trial in trials(batch)]) for name in Trial._fields}
    found["tips"] = np.stack([parts[lane]["tips"] for lane in firsts])
    found["seconds"] = np.sum([part["seconds"] for part in parts], axis=0)
    found["peak_gb"] = np.max([part["peak_gb"] for part in parts], axis=0)
    devices = sorted({str(one.provenance["device"]) for one in done})
    reacher_batches.save(batch, found, folder, "; ".join(devices))
    for beta, lane in zip(batch.betas, firsts, strict=True):
        networks = networks_of(runs[lane], store.folder)
        if networks.exists():
            networks.replace(folder / f"{batch.name}_{beta:g}.networks")


@contextmanager
def _telling_workers(tensorboard: Path | None) -> Iterator[None]:
    """Where to write scalars, in the environment of processes that are started meanwhile."""
    before = os.environ.get(TENSORBOARD)
    if tensorboard is not None:
        os.environ[TENSORBOARD] = str(tensorboard.resolve())
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(TENSORBOARD, None)
        else:
            os.environ[TENSORBOARD] = before
