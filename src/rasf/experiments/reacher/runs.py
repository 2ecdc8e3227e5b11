"""Training the trials of a batch together, as lanes of one program, on whatever device jax finds.

A checkpoint every few minutes lets a killed one go on, to the same bits. `run_batch` does it here and now and keeps the
batch's file; `rasf.experiments.reacher.reacher_sweep` does it for many batches, on worker processes.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rasf.deep import checkpoint as checkpoints
from rasf.deep import fit
from rasf.deep.train import Lane
from rasf.experiments.reacher.batches import TRAINING, Arrays, Batch, first_seeds, load, prepare, save, ticks, trials
from rasf.experiments.reacher.look import Look
from rasf.experiments.reacher.tensorboard_log import ScalarLog

CHECKPOINT_EVERY_S = 600.0


class Trained(NamedTuple):
    """What was found, lanes in front of every array but `seconds` (of training, and in all) and `peak_gb`.

    lanes: after the last step, for their networks; None where those are not kept.
    """

    found: Arrays
    lanes: Lane | None


def run_batch(
    batch: Batch,
    folder: Path,
    tick: Callable[[], None] = lambda: None,
    log: ScalarLog | None = None,
    checkpoint_every_s: float = CHECKPOINT_EVERY_S,
) -> Arrays:
    """Train the batch, or go on from its checkpoint; save and return its arrays.

    All have lanes in front, but `tips` (betas in front), `seconds` (of training, and in all) and `peak_gb`.
    """
    done = load(batch, folder)
    if done is not None:
        for _ in range(ticks(batch)):
            tick()
        return done
    checkpoint = folder / f"{batch.name}.checkpoint"
    found, lanes = train(batch, checkpoint, tick, log, checkpoint_every_s)
    firsts = first_seeds(batch)
    found["tips"] = found["tips"][firsts]
    save(batch, found, folder)
    if lanes is not None:
        for beta, lane in zip(batch.betas, firsts, strict=True):
            save_networks(batch, lanes, lane, folder / f"{batch.name}_{beta:g}.networks")
    checkpoint.unlink(missing_ok=True)
    return found


def train(
    batch: Batch,
    checkpoint: Path,
    tick: Callable[[], None] = lambda: None,
    log: ScalarLog | None = None,
    checkpoint_every_s: float = CHECKPOINT_EVERY_S,
) -> Trained:
    """Train all lanes from the checkpoint, if there is one, or from the beginning."""
    begin = time.perf_counter()
    made = prepare(batch)
    look = Look(batch, made, log)
    schedule = fit.Schedule(batch.size.steps_per_task, 1 if batch.alone else len(TRAINING), batch.size.evaluate_every)
    lanes, history = fit.fit(
        made.agent,
        made.world,
        made.plans,
        schedule,
        look,
        description=batch.describe(),
        checkpoint=checkpoint,
        checkpoint_every_s=checkpoint_every_s,
        tick=tick,
    )
    trained = time.perf_counter() - begin
    found = {name: np.moveaxis(part, 0, 1) for name, part in history.items()}  # lanes in front
    found |= look.final(lanes) | {"beta": made.betas, "seed": made.seeds, "target": made.targets}
    found["seconds"] = np.array([trained, time.perf_counter() - begin])
    found["peak_gb"] = np.array([peak_memory() / 1e9])
    return Trained(found, lanes if look.has_maps else None)


def peak_memory() -> int:
    """Bytes in use at most so far: on the device where it counts them, else of this process."""
    counted = jax.devices()[0].memory_stats()
    return int(counted["peak_bytes_in_use"]) if counted else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def save_networks(batch: Batch, lanes: Lane, lane: int, path: Path) -> None:
    """Keep a lane's networks in half precision: small enough to take elsewhere."""
    networks = jax.tree.map(lambda part: part[lane].astype(jnp.float16), lanes.learner.online)
    checkpoints.save(path, networks, {}, batch.describe() | {"beta": trials(batch)[lane].beta})
